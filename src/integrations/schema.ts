// What crosses the wire about git hosts that a workspace is connected to.
import * as z from 'zod'
import { boundedText, parseWholeNumber, Uuid } from '../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })
export const hosts = ['github', 'gitea'] as const
export const states = ['active', 'suspended', 'revoked'] as const

// ---- connected

export const IntegrationRef = z.object({ integration_id: Uuid })

export const Integration = z
  .object({
    id: Uuid.meta({ description: 'Use it as `source_config.integration_id` of a deployment.' }),
    installation_id: z.string().meta({ description: 'Of the App on the account; of a Gitea the account’s own id.' }),
    name: z.string().meta({ description: 'What the account is called.' }),
    host: z.enum(hosts),
    base_url: z.string(),
    state: z.enum(states).meta({
      description: '`active`; `suspended` at the host for now; `revoked`: the host knows it no more, connect it again.',
    }),
    webhook_url: z.string().meta({ description: 'Where the host is to send what happens.' }),
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'Integration', description: 'A git host that the workspace is connected to.' })
export type Integration = z.output<typeof Integration>
export const Integrations = z.array(Integration).meta({ description: 'All of the workspace, newest first.' })

// ---- connecting

const InstallationId = boundedText(15).regex(/^\d+$/, { error: 'needs to be a number' })

export const InstallWish = z
  .object({
    installation_id: InstallationId.nullish().meta({
      description: 'Of an installation that is there already, to be connected without installing it anew.',
    }),
  })
  .meta({ id: 'IntegrationInstallWish', description: 'What to install, or to connect.', example: {} })

export const Install = z
  .object({
    url: z
      .string()
      .meta({ description: 'Where a person installs the App, or says who they are. Show it to that person only.' }),
    expires_at: Time.meta({ description: 'Until then it works, once.' }),
  })
  .meta({ id: 'IntegrationInstall', description: 'The way to install this installation’s own App.' })
export type Install = z.output<typeof Install>

const BaseUrl = boundedText(500)
  .refine(one => /^https?:\/\/[^/?#\s@\\]+(\/[\w.~-]+)*\/?$/i.test(one) && URL.canParse(one), {
    error: 'needs to be the https address at which people see the host',
    abort: true,
  })
  .overwrite(one => new URL(one).href.replace(/\/$/, ''))
  .meta({ description: 'At which people see the host. `https://github.com` when left out of a GitHub.' })

const PEM_PATTERN = /^-----BEGIN (RSA )?PRIVATE KEY-----\s[A-Za-z0-9+/=\s]+-----END (RSA )?PRIVATE KEY-----$/
const PrivateKey = boundedText(20_000)
  .trim()
  .regex(PEM_PATTERN, { error: 'needs to be the private key of the App, as the file that GitHub gives has it' })
  .meta({ description: 'PKCS#1 or PKCS#8. Stored sealed, and never told again.' })

const REQUIRED_MEMBERS = { github: ['app_id', 'private_key', 'installation_id'], gitea: ['base_url', 'token'] } as const
const FORBIDDEN_MEMBERS = { github: ['token'], gitea: ['app_id', 'private_key', 'installation_id'] } as const

export const NewIntegration = z
  .object({
    host: z.enum(hosts),
    base_url: BaseUrl.nullish(),
    app_id: InstallationId.nullish(),
    private_key: PrivateKey.nullish(),
    installation_id: InstallationId.nullish(),
    token: boundedText(500)
      .regex(/^[\x21-\x7e]+$/, { error: 'needs to be an access token' })
      .nullish()
      .meta({
        description: 'Of an account of a Gitea or Forgejo that may read repositories and write statuses and comments.',
      }),
    webhook_secret: boundedText(255)
      .min(16)
      .regex(/^[\x21-\x7e]+$/, { error: 'needs 16 to 255 visible ASCII characters' })
      .meta({ description: 'With which the host signs what it sends.' }),
  })
  .superRefine(
    (body, check) => {
      const { host } = body
      if (!hosts.includes(host)) return
      const fault = (name: string, message: string) => check.addIssue({ code: 'custom', path: [name], message })
      for (const name of REQUIRED_MEMBERS[host]) if (body[name] == null) fault(name, `is needed by \`${host}\``)
      for (const name of FORBIDDEN_MEMBERS[host]) if (body[name] != null) fault(name, `has no place in \`${host}\``)
    },
    { when: ({ value }) => typeof value === 'object' && value !== null && !Array.isArray(value) },
  )
  .meta({
    id: 'NewIntegration',
    description: 'A git host, with the credentials that prove it: an App’s installation, or an account’s token.',
    example: {
      host: 'gitea',
      base_url: 'https://gitea.example.com',
      token: '3f1e7c0b9d5a4826',
      webhook_secret: 'a-long-random-secret',
    },
  })
export type NewIntegration = z.output<typeof NewIntegration>

// ---- repositories

export const RepositoryQuery = z.object({
  name_contains: z.string().max(255).nullish().meta({ description: 'A part of the name, in either case.' }),
  limit: z
    .preprocess(parseWholeNumber, z.int().min(1).max(10_000).optional())
    .meta({ description: 'The most to return.' }),
})

export const GithostRepository = z
  .object({
    host_integration_id: Uuid.meta({ description: 'Use it as `source_config.integration_id` of a deployment.' }),
    id: z.int(),
    name: z.string(),
    owner: z.string(),
    url: z.string().meta({ description: 'Use it as `source_config.repo_url`.' }),
    default_branch: z.string().meta({ description: 'Use it as `source_revision_config.repo_ref`.' }),
  })
  .meta({ id: 'GithostRepository', description: 'A repository that the integration reaches.' })
export type GithostRepository = z.output<typeof GithostRepository>
export const Repositories = z
  .array(GithostRepository)
  .meta({ description: 'By owner and name; the first ten thousand that the host lists.' })
