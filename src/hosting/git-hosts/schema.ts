// Request and response schemas of git host integrations.
import * as z from 'zod'
import { all, hasAll, hasNone, implies, isAnyOf } from '../../protocol/conditions.ts'
import { cloudUrlOf, type HostName, hostCapabilities, hostNames, usesToken } from '../../protocol/host-kinds.ts'
import { Fingerprint, HostKey, sshProblemCodes } from '../../protocol/repository-looks.schema.ts'
import { isSshUrl, SSH_URL_PATTERN } from '../../protocol/ssh-url.ts'
import { arrayOf, boundedText, CREDENTIAL, parseWholeNumber, Uuid } from '../../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })
const states = ['active', 'suspended', 'revoked'] as const

// ---- integrations

export const IntegrationRef = z.object({ integration_id: Uuid })

const problemCodes = ['token_refused', 'access_refused', ...sshProblemCodes] as const
const works = ['repository', 'webhook', 'notification', 'deployment'] as const
const IntegrationProblem = z
  .object({
    code: z.enum(problemCodes).meta({
      description:
        '`token_refused`: the token is not valid any more. `access_refused`: it lacks a scope or a right. By SSH: ' +
        '`host_key_changed`, `key_refused`, `repository_missing`, `address_refused`, `unreadable`.',
    }),
    work: z.enum(works).meta({
      description:
        'What the host refused: reading a repository, its webhook, comments and commit statuses, or the checks and ' +
        'Deployments of GitHub.',
    }),
    message: z.string().meta({ description: 'What the host said.' }),
    since: Time,
  })
  .meta({ id: 'IntegrationProblem', description: 'A refusal of the git host. It ends when the same work succeeds.' })

const HostKeyShown = z.object({ type: z.string(), fingerprint: Fingerprint })
export type HostKeyShown = z.output<typeof HostKeyShown>

export const IntegrationSsh = z
  .object({
    state: z.enum(['unverified', 'verified']).meta({
      description: '`unverified`: no agent has read the repository yet. The first deployment makes one do so.',
    }),
    public_key: z.string().meta({ description: 'Add this line to the repository at its host, as a deploy key.' }),
    next_public_key: z.string().nullable().meta({
      description: 'Takes the place of `public_key` once the host has accepted it. Then remove the old one there.',
    }),
    host_keys: z.array(HostKeyShown).meta({ description: 'The pinned keys of the host. Others are refused.' }),
    refused_host_key: HostKeyShown.nullable().meta({
      description: 'The key that the host shows instead. If it is right, accept it by its fingerprint.',
    }),
  })
  .meta({ id: 'IntegrationSsh', description: 'The keys of a repository by SSH.' })
export type IntegrationSsh = z.output<typeof IntegrationSsh>

export const Integration = z
  .object({
    id: Uuid.meta({ description: 'Use this as `source_config.integration_id` of a deployment.' }),
    installation_id: z.string().meta({ description: 'The id of the App’s installation. Else, the account’s id.' }),
    name: z.string().meta({ description: 'The name of the account.' }),
    host: z.enum(hostNames),
    base_url: z.string(),
    state: z.enum(states).meta({
      description: '`suspended`: suspended at the host. `revoked`: no longer exists at the host; connect it again.',
    }),
    problem: IntegrationProblem.nullable().meta({ description: 'What the host refused last, until it works again.' }),
    ssh: IntegrationSsh.nullable().meta({ description: 'Null where the repositories are read by HTTPS.' }),
    capabilities: z.array(z.enum(hostCapabilities)).meta({ description: 'What Slipway can do at this kind of host.' }),
    webhook_url: z.string().meta({ description: 'The URL to which the host must send its webhooks.' }),
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'Integration', description: 'A connection of the workspace to a git host.' })
export type Integration = z.output<typeof Integration>
export const Integrations = z
  .array(Integration)
  .meta({ description: 'All integrations of the workspace, newest first.' })

// ---- connecting

const InstallationId = boundedText(15).regex(/^\d+$/, { error: 'must be a number' })

export const InstallInput = z
  .object({
    installation_id: InstallationId.nullish().meta({
      description: 'An existing installation of the App, to connect it without installing it again.',
    }),
  })
  .meta({
    id: 'IntegrationInstallWish',
    description: 'Whether to install the App or to connect an existing installation.',
    example: {},
  })

export const Install = z
  .object({
    url: z.string().meta({
      ...CREDENTIAL,
      description: 'Send a person to this URL to install the App. Show it to that person only.',
    }),
    expires_at: Time.meta({ description: 'When the URL expires. It works once.' }),
  })
  .meta({ id: 'IntegrationInstall', description: 'The URL at which a person installs the operator’s GitHub App.' })
export type Install = z.output<typeof Install>

const isHttpUrl = (url: string) => /^https?:\/\/[^/?#\s@\\]+(\/[\w.~-]+)*\/?$/i.test(url) && URL.canParse(url)
const BaseUrl = boundedText(500)
  .refine(url => isHttpUrl(url) || isSshUrl(url), {
    error:
      'must be an https URL: of the host, as people open it; or for `git` the URL of the repository, also ' +
      '`ssh://git@host/path` or `git@host:path`',
    abort: true,
  })
  .overwrite(url => (isSshUrl(url) ? url : new URL(url).href).replace(/\/$/, ''))
  .meta({
    pattern: `^(?:https?://[^/?#\\s@\\\\]+(?:/[\\w.~-]+)*/?|${SSH_URL_PATTERN})$`,
    description:
      'The URL of the host, as people open it. For `github` and `gitlab` the default is the host in the cloud. For ' +
      '`git`, the URL of the one repository, from which git clones it, by HTTPS or SSH.',
  })

const PEM_PATTERN = /^-----BEGIN (RSA )?PRIVATE KEY-----\s[A-Za-z0-9+/=\s]+-----END (RSA )?PRIVATE KEY-----$/
const PrivateKey = boundedText(20_000)
  .trim()
  .regex(PEM_PATTERN, { error: 'must be the private key of the App, as in the file from GitHub' })
  .meta({ description: 'PEM, in PKCS#1 or PKCS#8. Stored encrypted and never returned.' })

const AccessToken = boundedText(500).regex(/^[\x21-\x7e]+$/, { error: 'must be an access token' })

const APP_MEMBERS = ['app_id', 'private_key', 'installation_id'] as const
type Member = (typeof APP_MEMBERS)[number] | 'webhook_secret' | 'base_url' | 'token' | 'username' | 'host_keys'
type MemberRules = { required: readonly Member[]; forbidden: readonly Member[] }

/** By the kind of credential. A host in the cloud has an address. */
function membersOf(host: HostName): MemberRules {
  if (!usesToken(host))
    return { required: [...APP_MEMBERS, 'webhook_secret'], forbidden: ['token', 'username', 'host_keys'] }
  // A public repository needs no login.
  if (host === 'git') return { required: ['base_url'], forbidden: APP_MEMBERS }
  return {
    required: cloudUrlOf(host) === null ? ['base_url', 'token'] : ['token'],
    forbidden: [...APP_MEMBERS, 'username', 'host_keys'],
  }
}

const MAX_HOST_KEYS = 10
/** A repository by SSH gets a deploy key. */
const FOR_HTTPS = ['token', 'username'] as const

export const NewIntegration = z
  .object({
    host: z.enum(hostNames),
    base_url: BaseUrl.nullish(),
    app_id: InstallationId.nullish(),
    private_key: PrivateKey.nullish(),
    installation_id: InstallationId.nullish(),
    token: AccessToken.nullish().meta({
      description:
        'An access token. Of Gitea and Forgejo, with the scopes `read:user`, `write:repository` and `write:issue`. ' +
        'Of GitLab, with the scope `api`. For `git`, a token or password that may read the repository.',
    }),
    username: boundedText(255)
      .regex(/^[!-9;-~]+$/, { error: 'must be visible ASCII characters without a colon' })
      .nullish()
      .meta({ description: 'For `git`: the user name that goes with the token or password. Default: `git`.' }),
    host_keys: arrayOf(HostKey, MAX_HOST_KEYS, 1).nullish().meta({
      description:
        'For a repository by SSH: the keys that its host may show. By default, the first one that an agent sees.',
    }),
    webhook_secret: boundedText(255)
      .min(16)
      .regex(/^[\x21-\x7e]+$/, { error: 'must be 16 to 255 visible ASCII characters' })
      .nullish()
      .meta({
        description:
          'The secret with which the host signs its webhooks; GitLab sends it with each. Needed for webhooks that ' +
          'you make yourself; by default one is made.',
      }),
  })
  .superRefine(
    (body, check) => {
      const { host } = body
      if (!hostNames.includes(host)) return
      const addFault = (name: string, message: string) => check.addIssue({ code: 'custom', path: [name], message })
      const { required, forbidden } = membersOf(host)
      for (const name of required) if (body[name] == null) addFault(name, `is required for \`${host}\``)
      for (const name of forbidden) if (body[name] != null) addFault(name, `is not allowed for \`${host}\``)
      const { base_url } = body
      const isSsh = typeof base_url === 'string' && isSshUrl(base_url)
      if (isSsh && host !== 'git') addFault('base_url', `must be an https URL for \`${host}\``)
      else if (isSsh) {
        for (const name of FOR_HTTPS) if (body[name] != null) addFault(name, 'is not allowed with a URL by SSH')
      } else if (host === 'git' && body.host_keys != null) addFault('host_keys', 'needs a URL by SSH')
    },
    { when: ({ value }) => typeof value === 'object' && value !== null && !Array.isArray(value) },
  )
  .meta({
    id: 'NewIntegration',
    description: 'A git host and its credentials: an installation of a GitHub App, or an account’s token.',
    ...all(
      ...hostNames.map(host => {
        const { required, forbidden } = membersOf(host)
        const rules = all(hasAll(...required), hasNone(...forbidden))
        return implies(isAnyOf('host', host), rules)
      }),
    ),
    example: {
      host: 'gitea',
      base_url: 'https://gitea.example.com',
      token: '3f1e7c0b9d5a4826',
      webhook_secret: 'a-long-random-secret',
    },
  })
export type NewIntegration = z.output<typeof NewIntegration>

const PATCH_MEMBERS = ['token', 'private_key', 'new_deploy_key', 'accept_host_key'] as const
export const IntegrationPatch = z
  .object({
    token: AccessToken.nullish(),
    private_key: PrivateKey.nullish(),
    new_deploy_key: z
      .literal(true)
      .nullish()
      .meta({ description: 'By SSH: make a second key. It is used alone once the host has accepted it.' }),
    accept_host_key: Fingerprint.nullish().meta({
      description: 'By SSH: the fingerprint of `refused_host_key`, which is pinned instead of those before.',
    }),
  })
  .refine(body => PATCH_MEMBERS.filter(name => body[name] != null).length === 1, {
    error:
      'must have one of `token`, `private_key` for an App of GitHub, `new_deploy_key` and `accept_host_key` for SSH',
  })
  .meta({
    id: 'IntegrationPatch',
    description:
      'The new credential: `token` of the same account, `private_key` of the same App, a new deploy key, or the host ' +
      'key to accept.',
    oneOf: PATCH_MEMBERS.map(name => ({ required: [name] })),
    example: { token: '3f1e7c0b9d5a4826' },
  })
export type IntegrationPatch = z.output<typeof IntegrationPatch>

// ---- repositories

export const RepositoryQuery = z.object({
  name_contains: z.string().max(255).nullish().meta({ description: 'Part of the name. Ignores case.' }),
  limit: z
    .preprocess(parseWholeNumber, z.int().min(1).max(10_000).optional())
    .meta({ description: 'The maximum number of repositories to return.' }),
})

export const GithostRepository = z
  .object({
    host_integration_id: Uuid.meta({ description: 'Use this as `source_config.integration_id` of a deployment.' }),
    id: z.int(),
    name: z.string(),
    owner: z.string(),
    url: z.string().meta({ description: 'Use this as `source_config.repo_url`.' }),
    default_branch: z.string().meta({ description: 'Use this as `source_revision_config.repo_ref`.' }),
    archived: z.boolean().meta({ description: 'Nobody can push to it, so a deployment never changes by a push.' }),
    empty: z.boolean().meta({ description: 'It has no commit yet. GitHub does not say it.' }),
  })
  .meta({ id: 'GithostRepository', description: 'A repository that the integration can access.' })
export type GithostRepository = z.output<typeof GithostRepository>
export const Repositories = z
  .array(GithostRepository)
  .meta({ description: 'Ordered by owner and name. At most 10,000.' })
