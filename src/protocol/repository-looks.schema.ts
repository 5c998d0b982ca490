// Schemas of the repositories that agents look at for the control plane, which speaks no SSH.
import * as z from 'zod'
import { AgentId, Fence, Sealed } from './sync-fields.schema.ts'
import { arrayOf, boundedText, Uuid } from './wire.ts'

/** The most refs of a report: the heads of branches first, then tags. */
export const MAX_SEEN_REFS = 5000
export const MAX_REF_NAME = 255
export const LOOKS_PER_POLL = 8

export const sshProblemCodes = [
  'host_key_changed',
  'key_refused',
  'repository_missing',
  'host_away',
  'address_refused',
  'unreadable',
] as const
export type SshProblemCode = (typeof sshProblemCodes)[number]

const HOST_KEY_TYPES = ['ssh-ed25519', 'ecdsa-sha2-nistp256', 'ecdsa-sha2-nistp384', 'ecdsa-sha2-nistp521', 'ssh-rsa']
export const HostKey = boundedText(2000)
  .regex(/^[a-z0-9-]{1,40} [A-Za-z0-9+/]{40,1900}={0,2}$/, {
    error: 'must be a public key, as `ssh-ed25519 AAAA…`',
    abort: true,
  })
  .refine(text => HOST_KEY_TYPES.includes(text.split(' ')[0]!), {
    error: `must be ${HOST_KEY_TYPES.join(', ')}`,
    abort: true,
  })
  .refine(text => isKeyOfType(text), { error: 'must be a whole key of the type that it names' })
  .meta({ description: 'A public key of the host: its type and its base64, as in `known_hosts`.' })

/** Its fields, each after its length, fill it, and the first one is the type: OpenSSH ignores other lines. */
function isKeyOfType(text: string): boolean {
  const [type = '', base64 = ''] = text.split(' ')
  const bytes = decodeBase64(base64)
  const fields: string[] = []
  let at = 0
  while (at + 4 <= bytes.length) {
    const length = [0, 1, 2, 3].reduce((sum, i) => sum * 256 + bytes.charCodeAt(at + i), 0)
    if (at + 4 + length > bytes.length) return false
    fields.push(bytes.slice(at + 4, at + 4 + length))
    at += 4 + length
  }
  return at === bytes.length && fields.length > 1 && fields[0] === type
}

function decodeBase64(text: string): string {
  try {
    return atob(text)
  } catch {
    return ''
  }
}

export const Fingerprint = boundedText(60)
  .regex(/^SHA256:[A-Za-z0-9+/]{43}$/, { error: 'must be a fingerprint, as `SHA256:…`' })
  .meta({ description: 'The fingerprint of a public key.' })

const Digest = boundedText(64).regex(/^[0-9a-f]{64}$/, { error: 'must be a SHA-256 in hexadecimal' })

export const RepositoryLook = z
  .object({
    id: Uuid,
    url: z.string().meta({ description: 'The URL of the repository, by SSH.' }),
    access: Sealed.meta({
      description:
        'Sealed JSON: `keys`, each with `private_key` in the format of OpenSSH and its `fingerprint`, in the order ' +
        'in which to try them, and `host_keys`, the keys that the host may show. Bound to `<listener>/looks/<id>`.',
    }),
    digest: z.string().nullable().meta({ description: 'Of the refs that the control plane knows.' }),
  })
  .meta({ id: 'RepositoryLook', description: 'A repository to look at now.' })
export type RepositoryLook = z.output<typeof RepositoryLook>

/** The content of `access`. */
export type SshKeys = { keys: { private_key: string; fingerprint: string }[]; host_keys: string[] }

export const SeenRepository = z
  .object({
    agent_id: AgentId,
    fence: Fence,
    id: Uuid.meta({ description: 'The id of the look.' }),
    host_key: HostKey.nullish().meta({
      description: 'The key that the host showed, if none was pinned or it is not a pinned one.',
    }),
    key_fingerprint: Fingerprint.nullish().meta({ description: 'The deploy key that the host accepted.' }),
    digest: Digest.nullish().meta({
      description:
        'SHA-256 of the lines of `default_branch` (empty if there is none) and `refs`, joined by `\\n`. Null with a ' +
        '`problem`.',
    }),
    default_branch: boundedText(MAX_REF_NAME).nullish(),
    refs: arrayOf(boundedText(MAX_REF_NAME + 65).regex(/^[0-9a-f]{40,64} refs\/[^\s]+$/), MAX_SEEN_REFS)
      .nullish()
      .meta({
        description:
          'All branches and tags: `<commit> <full name of the ref>`. A long list is cut, see `is_cut`. Leave it ' +
          'out where `digest` is that of the look.',
      }),
    is_cut: z
      .boolean()
      .nullish()
      .meta({ description: 'The list of refs was too long: one that is not in it may exist.' }),
    problem: z
      .object({ code: z.enum(sshProblemCodes), message: boundedText(500) })
      .nullish()
      .meta({ description: 'The reason why the repository could not be read, as a sentence for a person.' }),
  })
  .meta({
    id: 'SeenRepository',
    description: 'The result of a look.',
    example: {
      agent_id: 'agent-1',
      fence: 1,
      id: '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11',
      problem: { code: 'host_away', message: 'The host of git@git.example.com:acme/shop.git does not answer.' },
    },
  })
export type SeenRepository = z.output<typeof SeenRepository>
