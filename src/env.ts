// Settings: turns environment variables and bindings into a Config. Nothing else reads the environment.
import * as z from 'zod'
import type { Budget } from './platform.ts'
import { type ContractWords, contractWords } from './protocol/contract-words.ts'
import { AppsDomain } from './protocol/custom-url.schema.ts'
import { type S3Settings, s3Settings } from './protocol/s3-settings.ts'

const commaSeparated = (defaultText: string) =>
  z
    .string()
    .default(defaultText)
    .transform(text =>
      text
        .split(',')
        .map(item => item.trim())
        .filter(Boolean),
    )

const SealingKeys = z
  .string()
  .regex(/^[a-z0-9]+:[A-Za-z0-9_-]{43}(,[a-z0-9]+:[A-Za-z0-9_-]{43})*$/, {
    error: 'must be one or more `kid:key`, comma-separated, newest first; a key is 32 random bytes in base64url',
  })
  .transform(text => text.split(',').map(pair => pair.split(':') as [kid: string, key: string]))
  .refine(keys => new Set(keys.map(([kid]) => kid)).size === keys.length, { error: 'has two keys with the same kid' })

const Origins = commaSeparated('*').refine(
  origins => origins.every(origin => /^(\*|[a-z][a-z0-9+.-]*:\/\/[^/\s]+)$/.test(origin)),
  {
    error: 'must be origins such as https://example.com, comma-separated, or *',
  },
)

const PublicUrl = z
  .string({ error: 'must be the public address of this installation, such as https://slipway.example.com' })
  .refine(text => /^https?:\/\/[^/?#\s]+\/?$/.test(text) && URL.canParse(text), {
    error: 'must be an address such as https://slipway.example.com, without a path',
  })
  .transform(text => new URL(text).origin)

const wholeNumber = (max: number, error: string) =>
  z.coerce.number({ error }).int({ error }).min(0, { error }).max(max, { error })

const booleanSetting = z
  .enum(['true', 'false'], { error: 'must be `true` or `false`' })
  .default('false')
  .transform(text => text === 'true')

const PROXIES_ERROR = 'must be addresses or ranges such as 10.0.0.0/8, comma-separated'
const POSTGRES_ERROR = 'must be the postgres:// address of the database'
const postgresUrl = () =>
  z
    .string({ error: POSTGRES_ERROR })
    .refine(text => /^postgres(ql)?:\/\/./.test(text) && URL.canParse(text), { error: POSTGRES_ERROR })

const CLICKHOUSE_ERROR =
  'must be the address of the server, such as https://user:password@clickhouse.example.com:8443/slipway'
const isClickHouseUrl = (text: string): boolean =>
  /^https?:\/\/./.test(text) && URL.canParse(text) && /^\/\w+$/.test(new URL(text).pathname)
const clickHouseUrl = () => z.string({ error: CLICKHOUSE_ERROR }).refine(isClickHouseUrl, { error: CLICKHOUSE_ERROR })

const EmailList = z.array(z.string().trim().toLowerCase().pipe(z.email()))
/** A JSON array or a comma-separated list. */
const emails = z
  .string()
  .default('')
  .transform((text, check) => {
    const items = text.trim().startsWith('[') ? parseJson(text) : text.split(',').flatMap(item => item.trim() || [])
    const { data } = EmailList.safeParse(items)
    if (data) return data
    check.addIssue('must be e-mail addresses, comma-separated or as a JSON array such as ["ada@example.com"]')
    return z.NEVER
  })

const METRICS_TOKEN = /^[!-~]{16,255}$/
const METRICS_TOKEN_ERROR = 'must be 16 to 255 visible characters, such as the output of `openssl rand -hex 24`'

const SIGNING_JWKS_ERROR =
  'must be a JSON Web Key Set of up to 10 private Ed25519 keys, the newest first, such as ' +
  '{"keys":[{"kty":"OKP","crv":"Ed25519","d":"…","x":"…"}]}'
const SigningJwks = z.object({
  keys: z
    .array(
      z.object({
        kty: z.literal('OKP'),
        crv: z.literal('Ed25519'),
        d: z.string().regex(/^[\w-]{43}$/),
        kid: z
          .string()
          .regex(/^[!-~]{1,100}$/)
          .optional(),
      }),
    )
    .min(1)
    .max(10),
})

/** The public half of a key is computed, so that it always fits. */
const SigningSeeds = z.string().transform((text, context): SigningSeed[] => {
  const { data } = SigningJwks.safeParse(parseJson(text))
  const seeds = data?.keys.map(({ d, kid }) => ({ seed: new Uint8Array(Buffer.from(d, 'base64url')), kid })) ?? []
  const areDifferent = (['kid', 'd'] as const).every(member => {
    const values = data?.keys.flatMap(key => key[member] ?? []) ?? []
    return new Set(values).size === values.length
  })
  if (seeds.length > 0 && areDifferent) return seeds
  const message = seeds.length > 0 ? 'has the same key or the same kid twice' : SIGNING_JWKS_ERROR
  context.addIssue({ code: 'custom', message })
  return z.NEVER
})
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const MODEL_HEADER_ERROR = 'must be the name of a header for this token alone, such as X-LLM-Auth'
/** Headers of HTTP and of forwarding, and those that carry the credential of a model's provider. */
const OTHER_HEADER =
  /^(authorization|proxy-.*|cookie2?|set-cookie|host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|forwarded|x-forwarded-.*|content-.*|accept(-.*)?|x-api-key|x-request-id|x-tenant-id|user-agent|idempotency-key)$/i
const ISSUER_TEXT_ERROR = 'must be 1 to 255 visible characters, such as https://slipway.example.com'
const INTERVAL_ERROR = 'must be a whole number of seconds from 60 to 31536000'

const retentionDays = (min: number, byDefault: number) => {
  const error = `must be a whole number of days from ${min} to 36500`
  return z.coerce.number({ error }).int({ error }).min(min, { error }).max(36_500, { error }).default(byDefault)
}

const Sealing = z.object({
  SEALING_KEYS: z
    .string({
      error:
        'must be one or more `kid:key`. A database in use needs the keys that it has had so far, because no others ' +
        'open its secrets. For a new database, set the output of ' +
        '`echo "k1:$(openssl rand -base64 32 | tr +/ -_ | tr -d =)"`',
    })
    .pipe(SealingKeys),
})

const Settings = z.object({
  DATABASE_URL: postgresUrl(),
  DATABASE_SYSTEM_URL: postgresUrl().optional(),
  DATABASE_GATEWAY_URL: z.url({ error: 'must be the http:// address of the gateway' }).optional(),
  DATABASE_PREPARED_STATEMENTS: z.enum(['on', 'off'], { error: 'must be `on` or `off`' }).default('on'),
  ...Sealing.shape,
  PUBLIC_URL: PublicUrl.optional(),
  APPS_DOMAIN: AppsDomain.optional(),
  ALLOW_LOOPBACK: booleanSetting,
  MCP_DEFAULT_ENDPOINTS: booleanSetting,
  SLIPWAY_MODE: z.enum(['saas', 'self_hosted'], { error: 'must be `saas` or `self_hosted`' }).default('saas'),
  CORS_ORIGINS: Origins,
  RATE_LIMIT_PER_MINUTE: wholeNumber(1_000_000, 'must be a whole number up to 1000000; 0 disables the limits').default(
    1200,
  ),
  INGESTION_RATE_LIMIT_PER_MINUTE: wholeNumber(
    1_000_000,
    'must be a whole number up to 1000000; 0 disables the limit',
  ).default(5000),
  UNKNOWN_KEYS_PER_MINUTE: wholeNumber(1_000_000, 'must be a whole number up to 1000000; 0 disables the limit').default(
    60,
  ),
  DATABASE_SECONDS_PER_MINUTE: wholeNumber(
    1_000_000,
    'must be a whole number of seconds up to 1000000; 0 disables the limit',
  ).default(120),

  EVENTS_PER_DAY: wholeNumber(1_000_000_000, 'must be a whole number; 0 disables the limit').default(200_000),
  ABAC: z.enum(['on', 'off'], { error: 'must be `on` or `off`' }).default('on'),
  DEPLOYMENT_TRACING: z.enum(['on', 'off'], { error: 'must be `on` or `off`' }).default('on'),
  CONTRACT_WORDS: z.enum(contractWords, { error: 'must be `contract` or `langgraph`' }).default('contract'),
  DEPLOYMENT_MODELS: z.enum(['on', 'off'], { error: 'must be `on` or `off`' }).default('on'),
  SIGNING_JWKS: SigningSeeds.optional(),
  MODEL_PROXY_ISSUER: z
    .string()
    .regex(/^[!-~]{1,255}$/, { error: ISSUER_TEXT_ERROR })
    .optional(),
  MODEL_PROXY_HEADER: z
    .string()
    .regex(/^[A-Za-z][A-Za-z0-9-]{0,99}$/, { error: MODEL_HEADER_ERROR })
    .refine(name => !OTHER_HEADER.test(name), { error: MODEL_HEADER_ERROR })
    .default('X-LLM-Auth'),
  MODEL_PRIVATE_ADDRESSES: booleanSetting,
  DRAIN_PRIVATE_ADDRESSES: booleanSetting,
  CLIO_SCHEDULE_MIN_INTERVAL_SECONDS: z.coerce
    .number({ error: INTERVAL_ERROR })
    .int({ error: INTERVAL_ERROR })
    .min(60, { error: INTERVAL_ERROR })
    .max(31_536_000, { error: INTERVAL_ERROR })
    .default(3600),
  AUDIT_LOGS: z.enum(['on', 'off'], { error: 'must be `on` or `off`' }).default('on'),
  AUDIT_RETENTION_DAYS: retentionDays(30, 400),
  LOG_RETENTION_DAYS: retentionDays(1, 90),
  REVISION_RETENTION_DAYS: retentionDays(30, 400),
  JOB_RETENTION_DAYS: retentionDays(1, 30),
  TRACES_CLICKHOUSE_URL: clickHouseUrl().optional(),
  METRICS_TOKEN: z.string().regex(METRICS_TOKEN, { error: METRICS_TOKEN_ERROR }).optional(),
  UPLOADS_MAX_GIB: wholeNumber(1_000_000, 'must be a whole number of GiB').default(20),
  INSTANCE_ADMIN_EMAILS: emails,
  USAGE_EXPORT_ADMIN_EMAILS: emails,
})

const S3 = z.object({
  UPLOADS_S3_ENDPOINT: s3Settings.endpoint,
  UPLOADS_S3_BUCKET: s3Settings.bucket,
  UPLOADS_S3_REGION: s3Settings.region,
  UPLOADS_S3_ACCESS_KEY_ID: s3Settings.accessKeyId,
  UPLOADS_S3_SECRET_ACCESS_KEY: s3Settings.secretAccessKey,
})

const REGISTRY_ERROR = 'must be the name of a registry, such as registry.example.com or registry.example.com/apps'
const SIGNING_KEY_ERROR =
  'must be a P-256 key followed by its certificate, both in PEM; README.md says how to create them'
/** For hosts whose variables cannot have line breaks. */
const unescapeNewlines = (text: string): string => text.replaceAll('\\n', '\n')
function extractPem(text: string, label: string): string | undefined {
  const [, after = ''] = text.split(`-----BEGIN ${label}-----`)
  const [base64 = ''] = after.split(`-----END ${label}-----`)
  return /^[\sA-Za-z0-9+/=]+$/.test(base64) ? base64.replace(/\s/g, '') : undefined
}

const Registry = z.object({
  REGISTRY_URL: z
    .string({ error: REGISTRY_ERROR })
    .regex(/^[a-z0-9][a-z0-9.-]*(:\d{1,5})?(\/[a-z0-9]+([._-][a-z0-9]+)*)*$/, { error: REGISTRY_ERROR }),
  REGISTRY_SIGNING_KEY: z.string({ error: SIGNING_KEY_ERROR }).transform((value, context) => {
    const text = unescapeNewlines(value)
    const [key, certificate] = [extractPem(text, 'PRIVATE KEY'), extractPem(text, 'CERTIFICATE')]
    if (key && certificate) return { key, certificate }
    context.addIssue({ code: 'custom', message: SIGNING_KEY_ERROR })
    return z.NEVER
  }),
})

/** GitHub issues PKCS#1 keys, other tools PKCS#8. */
const PRIVATE_KEY = /^-----BEGIN (RSA )?PRIVATE KEY-----\s[A-Za-z0-9+/=\s]+-----END (RSA )?PRIVATE KEY-----$/
const PRIVATE_KEY_ERROR = 'must be the private key of the App, as in the file from GitHub'
const GITHUB_URL_ERROR = 'must be an address such as https://github.example.com, without a path'
const visibleText = (meaning: string) =>
  z.string({ error: `must be ${meaning}` }).regex(/^[\x21-\x7e]{1,255}$/, { error: `must be ${meaning}` })

const GitHub = z.object({
  GITHUB_APP_ID: z
    .string({ error: 'must be the App ID' })
    .regex(/^\d{1,15}$/, { error: 'must be the App ID, a number' }),
  GITHUB_APP_SLUG: z
    .string({ error: 'must be the name of the App in its URL' })
    .regex(/^[a-z0-9-]{1,100}$/, { error: 'must be the name of the App in its URL' }),
  GITHUB_APP_PRIVATE_KEY: z
    .string({ error: PRIVATE_KEY_ERROR })
    .transform(text => unescapeNewlines(text).trim())
    .refine(text => PRIVATE_KEY.test(text), { error: PRIVATE_KEY_ERROR }),
  GITHUB_APP_CLIENT_ID: visibleText('the client ID of the App'),
  GITHUB_APP_CLIENT_SECRET: visibleText('a client secret of the App'),
  GITHUB_APP_WEBHOOK_SECRET: visibleText('the webhook secret of the App'),
  GITHUB_BASE_URL: z
    .string()
    .default('https://github.com')
    .refine(text => /^https?:\/\/[^/?#\s@]+\/?$/.test(text) && URL.canParse(text), { error: GITHUB_URL_ERROR })
    .transform(text => new URL(text).origin),
})

const ISSUER_ERROR = 'must be the issuer of the identity provider, such as https://login.example.com'
const pairs = (pattern: RegExp, error: string) =>
  commaSeparated('')
    .refine(items => items.every(item => pattern.test(item)), { error })
    .transform(items => items.map(item => item.split('=') as [string, string]))

const Oidc = z.object({
  OIDC_ISSUER: z
    .string({ error: ISSUER_ERROR })
    .refine(text => /^https?:\/\/[^?#\s@]+$/.test(text) && URL.canParse(text), { error: ISSUER_ERROR }),
  OIDC_CLIENT_ID: visibleText('the client ID at the identity provider'),
  OIDC_CLIENT_SECRET: visibleText('the client secret at the identity provider'),
  OIDC_SCOPES: z
    .string()
    .default('openid email profile')
    .refine(text => /^openid( [\x21-\x7e]{1,100}){0,20}$/.test(text), {
      error: 'must be scopes separated by spaces, and begin with openid',
    }),
  OIDC_ALLOWED_DOMAINS: pairs(
    /^[a-z0-9-]+(\.[a-z0-9-]+)+=[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
    'must be `domain=organization id`, comma-separated, such as example.com=8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11',
  ),
  OIDC_GROUPS_CLAIM: visibleText('the name of the claim that lists groups').default('groups'),
  OIDC_GROUP_ROLES: pairs(
    /^[^=]{1,200}=[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
    'must be `group=role id`, comma-separated',
  ),
})

const SMTP_URL_ERROR =
  'must be the address of a mail server, such as smtps://user:password@mail.example.com or smtp://mail.example.com:587'
const SMTP_FROM_ERROR = 'must be the sender of e-mails, such as alerts@example.com or Slipway <alerts@example.com>'

const Smtp = z.object({
  SMTP_URL: z
    .string({ error: SMTP_URL_ERROR })
    .refine(text => /^smtps?:\/\/[^/?#\s]+\/?$/.test(text) && URL.canParse(text) && new URL(text).hostname !== '', {
      error: SMTP_URL_ERROR,
    }),
  SMTP_FROM: z.string({ error: SMTP_FROM_ERROR }).transform((text, check): MailSender => {
    const [, name = '', address = ''] = /^([^<>"\r\n]{0,100})<([^<>\s]+)>$/.exec(text.trim()) ?? ['', '', text.trim()]
    if (z.email().safeParse(address).success) return { name: name.trim(), address }
    check.addIssue(SMTP_FROM_ERROR)
    return z.NEVER
  }),
  EMAILS_PER_HOUR: wholeNumber(1_000_000, 'must be a whole number up to 1000000').default(300),
})

/** Either all required settings of a group are set, or none. */
const SETTING_GROUPS = [S3, Registry, GitHub, Oidc, Smtp]

export const SETTINGS = [Settings, ...SETTING_GROUPS].flatMap(({ shape }) => Object.keys(shape))

const ListenAddress = z.object({
  HOST: z.string().default('127.0.0.1'),
  PORT: wholeNumber(65_535, 'must be a port, a whole number from 0 to 65535').default(8787),
})

const SECONDS_ERROR = 'must be a whole number of seconds up to 600'
const Shutdown = z.object({
  SHUTDOWN_DELAY_SECONDS: wholeNumber(600, SECONDS_ERROR).default(0),
  SHUTDOWN_TIMEOUT_SECONDS: wholeNumber(600, SECONDS_ERROR).default(20),
})

const RELAY_URL_ERROR = 'must be the address at which the other instances reach this one, such as http://10.0.0.5:8787'
const RelayUrl = z.object({
  RELAY_URL: z
    .string()
    // The chart writes the address of a pod before the port, also one of IPv6.
    .transform(text => text.replace(/^(https?:\/\/)([0-9a-f]*:[0-9a-f:]*):(\d{1,5})$/i, '$1[$2]:$3'))
    .refine(text => /^https?:\/\/[^/?#\s@]+\/?$/.test(text) && URL.canParse(text), { error: RELAY_URL_ERROR })
    .transform(text => new URL(text).origin)
    .optional(),
})

const DatabaseSharing = z.object({ SHARE_DATABASE: booleanSetting })

const TrustedProxies = z.object({
  TRUSTED_PROXIES: commaSeparated('').refine(
    proxies => proxies.every(proxy => /^[0-9a-f.:]{2,45}(\/\d{1,3})?$/i.test(proxy)),
    {
      error: PROXIES_ERROR,
    },
  ),
})

const UploadsFolder = z.object({ UPLOADS_DIR: z.string().default('.slipway/uploads') })

/** `url` is a host with a path for our images; `key` (PKCS#8) and `certificate` are base64. */
export type RegistrySettings = { url: string; key: string; certificate: string }

export type GitHubApp = {
  baseUrl: string
  appId: string
  slug: string
  privateKey: string
  clientId: string
  clientSecret: string
  webhookSecret: string
}

/** `domains` are of people who may join an organization; `groupRoles` are in the order of precedence. */
export type OidcSettings = {
  issuer: string
  clientId: string
  clientSecret: string
  scopes: string
  domains: [domain: string, organization: string][]
  groupsClaim: string
  groupRoles: [group: string, role: string][]
}

type MailSender = { name: string; address: string }
/** `perHour` is the limit of each workspace. */
export type SmtpSettings = { url: string; from: MailSender; perHour: number }

/** A private Ed25519 key, and the name that its operator has given to it. */
type SigningSeed = { seed: Uint8Array; kid?: string | undefined }

const MIB = 1024 * 1024

/** Limits of a call of a model. */
export type ModelCallLimits = {
  /** The longest pause of the answer, before its head too. */
  idleMs: number
  totalMs: number
  requestBytes: number
  responseBytes: number
}
const MODEL_CALLS: ModelCallLimits = {
  idleMs: 300_000,
  totalMs: 600_000,
  requestBytes: 25 * MIB,
  responseBytes: 64 * MIB,
}

/** `url` is the app's login, for one workspace at a time; `systemUrl` is the login for work on all workspaces. */
type DatabaseAddress = { url: string; systemUrl: string; gateway: string | undefined }

export type Config = {
  database: DatabaseAddress
  /** The in-process gateway keeps statements parsed on its connections. */
  preparesStatements: boolean
  /** Optional in development only: see kernel/http/origin.ts. */
  publicUrl: string | undefined
  /** Each deployment has a subdomain of it, by name. The comment of a preview links to it. */
  appsDomain: string | undefined
  mode: 'saas' | 'self_hosted'
  sealingKeys: [kid: string, key: string][]
  /** The words of requests that name none. */
  contractWords: ContractWords
  corsOrigins: string[]
  /** Requests a minute; 0 is no limit. */
  rateLimits: Record<Budget, number>
  /** The budget of the requests of a workspace at one instance; 0 is no limit. */
  databaseSecondsPerMinute: number
  /** Per workspace; 0 is no limit. */
  eventsPerDay: number
  /** Access policies apply. */
  abac: boolean
  /** Applications get a key and variables for sending their traces. */
  deploymentTracing: boolean
  /** Applications get a token for the models of their workspace. */
  deploymentModels: boolean
  /** The first signs tokens. Without it, keys are derived from `sealingKeys`: see kernel/crypto/signing-keys.ts. */
  signingSeeds: SigningSeed[] | undefined
  /** The issuer of tokens for models. By default the origin of this installation. */
  modelProxyIssuer: string | undefined
  /** The header of a request to a model that carries its token. */
  modelProxyHeader: string
  /** Models may be at private addresses, and at http. */
  modelPrivateAddresses: boolean
  /** Drains may be at private addresses, at http, and at syslog over plain TCP. */
  drainPrivateAddresses: boolean
  /** The least time between two scheduled jobs of insights. */
  insightsIntervalSeconds: number
  /** The audit log can be read, and refused requests are recorded. The journal is always written. */
  auditLogs: boolean
  /** Applies to events and refused requests. */
  auditRetentionDays: number
  /** Counts from the last line of a replaced revision. */
  logRetentionDays: number
  /** The newest revisions of each deployment are kept longer. */
  revisionRetentionDays: number
  jobRetentionDays: number
  uploadBytes: number
  /** Failed authentications per client address and minute; 0 is no limit. */
  unknownKeysPerMinute: number
  /** For development: external servers may be on this machine and use plain http. */
  allowLoopback: boolean
  modelCalls: ModelCallLimits
  /** For MCP servers without OAuth metadata: assume the default endpoints of an older MCP specification. */
  defaultEndpoints: boolean
  /** Without it, the platform's own storage takes uploads. */
  s3: S3Settings | undefined
  /** Stores runs in place of Postgres. */
  clickHouse: string | undefined
  registry: RegistrySettings | undefined
  /** Without it, workspaces connect git hosts with their own credentials only. */
  github: GitHubApp | undefined
  /** Without it, people sign in with links and keys only. */
  oidc: OidcSettings | undefined
  /** Without it, channels send no e-mails. */
  smtp: SmtpSettings | undefined
  /** Required to read /metrics. Without it the path does not exist. */
  metricsToken: string | undefined
  instanceAdmins: string[]
  notices: string[]
}

export class SettingsError extends Error {}

const databaseUrl = (env: Record<string, unknown>, ...names: string[]) => {
  const name = [...names, 'DATABASE_URL'].find(name => env[name])
  if (!name)
    throw new SettingsError(
      `${names[0]} is not set. Load the settings of the installation: see docs/reference/settings.md.`,
    )
  return parseSettings(z.object({ [name]: postgresUrl() }), env)[name]!
}
export const readSystemUrl = (env: Record<string, unknown>) => databaseUrl(env, 'DATABASE_SYSTEM_URL')
/** The login that owns the tables: it migrates them and creates the other two logins. */
export const readOwnerUrl = (env: Record<string, unknown>) =>
  databaseUrl(env, 'DATABASE_OWNER_URL', 'DATABASE_SYSTEM_URL')
const LoginUrls = z.object({ DATABASE_URL: postgresUrl(), DATABASE_SYSTEM_URL: postgresUrl() })
export function readLoginUrls(env: Record<string, unknown>): { app: string; system: string } {
  const { DATABASE_URL, DATABASE_SYSTEM_URL } = parseSettings(LoginUrls, env)
  return { app: DATABASE_URL, system: DATABASE_SYSTEM_URL }
}
/** The setting admits the migration of a database that has tables of another application. */
export const readSharesDatabase = (env: Record<string, unknown>) => parseSettings(DatabaseSharing, env).SHARE_DATABASE
const ClickHouse = z.object({ TRACES_CLICKHOUSE_URL: clickHouseUrl().optional() })
export const readClickHouseUrl = (env: Record<string, unknown>) => parseSettings(ClickHouse, env).TRACES_CLICKHOUSE_URL
export const readSealingKeys = (env: Record<string, unknown>) => parseSettings(Sealing, env).SEALING_KEYS
export const readUploadsFolder = (env: Record<string, unknown>) => parseSettings(UploadsFolder, env).UPLOADS_DIR
export const readRelayUrl = (env: Record<string, unknown>) => parseSettings(RelayUrl, env).RELAY_URL ?? null
export function readTrustedProxies(env: Record<string, unknown>, isRange: (text: string) => boolean): string[] {
  const { TRUSTED_PROXIES } = parseSettings(TrustedProxies, env)
  if (TRUSTED_PROXIES.every(isRange)) return TRUSTED_PROXIES
  throw new SettingsError(`TRUSTED_PROXIES ${PROXIES_ERROR}.`)
}
export function readShutdownLimits(env: Record<string, unknown>) {
  const { SHUTDOWN_DELAY_SECONDS: delay, SHUTDOWN_TIMEOUT_SECONDS: timeout } = parseSettings(Shutdown, env)
  return { delayMs: delay * 1000, timeoutMs: timeout * 1000 }
}
export const readListenAddress = (env: Record<string, unknown>) => parseSettings(ListenAddress, env)

function parseSettings<S extends z.ZodType>(schema: S, env: Record<string, unknown>): z.output<S> {
  const variables = Object.fromEntries(
    Object.entries(env).filter(([, value]) => typeof value === 'string' && value !== ''),
  )
  const parsed = schema.safeParse(variables)
  if (parsed.success) return parsed.data
  throw new SettingsError(parsed.error.issues.map(issue => `${issue.path.join('.')} ${issue.message}.`).join(' '))
}

type GroupSettings = Partial<
  z.output<typeof S3> &
    z.output<typeof Registry> &
    z.output<typeof GitHub> &
    z.output<typeof Oidc> &
    z.output<typeof Smtp>
>

/** Parses all groups together, so that one error names every invalid setting. */
function readSettings(env: Record<string, unknown>): z.output<typeof Settings> & GroupSettings {
  const usedGroups = SETTING_GROUPS.filter(({ shape }) => Object.keys(shape).some(name => env[name]))
  const shape = Object.assign({}, Settings.shape, ...usedGroups.map(({ shape }) => shape))
  // Without PUBLIC_URL the Host header decides the origin, which is safe on a development machine only.
  if (env.ALLOW_LOOPBACK !== 'true') shape.PUBLIC_URL = PublicUrl
  return parseSettings(z.object(shape), env) as never
}

const toS3Settings = (settings: GroupSettings): S3Settings | undefined =>
  settings.UPLOADS_S3_ENDPOINT === undefined
    ? undefined
    : {
        endpoint: settings.UPLOADS_S3_ENDPOINT,
        bucket: settings.UPLOADS_S3_BUCKET!,
        ...(settings.UPLOADS_S3_REGION && { region: settings.UPLOADS_S3_REGION }),
        accessKeyId: settings.UPLOADS_S3_ACCESS_KEY_ID!,
        secretAccessKey: settings.UPLOADS_S3_SECRET_ACCESS_KEY!,
      }

/** Undefined if none of its settings is set. */
export const readS3Settings = (env: Record<string, unknown>): S3Settings | undefined =>
  Object.keys(S3.shape).some(name => env[name]) ? toS3Settings(parseSettings(S3, env)) : undefined

const toRegistrySettings = ({
  REGISTRY_URL: url,
  REGISTRY_SIGNING_KEY: signing,
}: GroupSettings): RegistrySettings | undefined => (url === undefined ? undefined : { url, ...signing! })

const toGitHubApp = (settings: GroupSettings): GitHubApp | undefined =>
  settings.GITHUB_APP_ID === undefined
    ? undefined
    : {
        baseUrl: settings.GITHUB_BASE_URL!,
        appId: settings.GITHUB_APP_ID,
        slug: settings.GITHUB_APP_SLUG!,
        privateKey: settings.GITHUB_APP_PRIVATE_KEY!,
        clientId: settings.GITHUB_APP_CLIENT_ID!,
        clientSecret: settings.GITHUB_APP_CLIENT_SECRET!,
        webhookSecret: settings.GITHUB_APP_WEBHOOK_SECRET!,
      }

const toOidcSettings = (settings: GroupSettings): OidcSettings | undefined =>
  settings.OIDC_ISSUER === undefined
    ? undefined
    : {
        issuer: settings.OIDC_ISSUER,
        clientId: settings.OIDC_CLIENT_ID!,
        clientSecret: settings.OIDC_CLIENT_SECRET!,
        scopes: settings.OIDC_SCOPES!,
        domains: settings.OIDC_ALLOWED_DOMAINS!,
        groupsClaim: settings.OIDC_GROUPS_CLAIM!,
        groupRoles: settings.OIDC_GROUP_ROLES!,
      }

const toSmtpSettings = (settings: GroupSettings): SmtpSettings | undefined =>
  settings.SMTP_URL === undefined
    ? undefined
    : { url: settings.SMTP_URL, from: settings.SMTP_FROM!, perHour: settings.EMAILS_PER_HOUR! }

const SINGLE_LOGIN_NOTICE =
  'DATABASE_SYSTEM_URL is not set, so requests use a login with access to all workspaces. ' +
  'Run `npm run db:logins` and set both addresses that it prints.'

export function readConfig(env: Record<string, unknown>): Config {
  const settings = readSettings(env)
  const notices = [
    ...(settings.USAGE_EXPORT_ADMIN_EMAILS.length > 0
      ? ['USAGE_EXPORT_ADMIN_EMAILS is deprecated. Use INSTANCE_ADMIN_EMAILS.']
      : []),
    ...(settings.DATABASE_SYSTEM_URL ? [] : [SINGLE_LOGIN_NOTICE]),
  ]
  return {
    database: {
      url: settings.DATABASE_URL,
      systemUrl: settings.DATABASE_SYSTEM_URL ?? settings.DATABASE_URL,
      gateway: settings.DATABASE_GATEWAY_URL,
    },
    preparesStatements: settings.DATABASE_PREPARED_STATEMENTS === 'on',
    publicUrl: settings.PUBLIC_URL,
    appsDomain: settings.APPS_DOMAIN,
    mode: settings.SLIPWAY_MODE,
    sealingKeys: settings.SEALING_KEYS,
    contractWords: settings.CONTRACT_WORDS,
    corsOrigins: settings.CORS_ORIGINS,
    rateLimits: {
      key: settings.RATE_LIMIT_PER_MINUTE,
      ingestion: settings.INGESTION_RATE_LIMIT_PER_MINUTE,
      deployment: settings.INGESTION_RATE_LIMIT_PER_MINUTE,
    },
    databaseSecondsPerMinute: settings.DATABASE_SECONDS_PER_MINUTE,
    eventsPerDay: settings.EVENTS_PER_DAY,
    abac: settings.ABAC === 'on',
    deploymentTracing: settings.DEPLOYMENT_TRACING === 'on',
    deploymentModels: settings.DEPLOYMENT_MODELS === 'on',
    signingSeeds: settings.SIGNING_JWKS,
    modelProxyIssuer: settings.MODEL_PROXY_ISSUER,
    modelProxyHeader: settings.MODEL_PROXY_HEADER,
    modelPrivateAddresses: settings.MODEL_PRIVATE_ADDRESSES,
    drainPrivateAddresses: settings.DRAIN_PRIVATE_ADDRESSES,
    insightsIntervalSeconds: settings.CLIO_SCHEDULE_MIN_INTERVAL_SECONDS,
    auditLogs: settings.AUDIT_LOGS === 'on',
    auditRetentionDays: settings.AUDIT_RETENTION_DAYS,
    logRetentionDays: settings.LOG_RETENTION_DAYS,
    revisionRetentionDays: settings.REVISION_RETENTION_DAYS,
    jobRetentionDays: settings.JOB_RETENTION_DAYS,
    uploadBytes: settings.UPLOADS_MAX_GIB * 1024 ** 3,
    unknownKeysPerMinute: settings.UNKNOWN_KEYS_PER_MINUTE,
    allowLoopback: settings.ALLOW_LOOPBACK,
    modelCalls: MODEL_CALLS,
    defaultEndpoints: settings.MCP_DEFAULT_ENDPOINTS,
    s3: toS3Settings(settings),
    clickHouse: settings.TRACES_CLICKHOUSE_URL,
    registry: toRegistrySettings(settings),
    github: toGitHubApp(settings),
    oidc: toOidcSettings(settings),
    smtp: toSmtpSettings(settings),
    metricsToken: settings.METRICS_TOKEN,
    instanceAdmins: [...new Set([...settings.INSTANCE_ADMIN_EMAILS, ...settings.USAGE_EXPORT_ADMIN_EMAILS])],
    notices,
  }
}
