// Settings: bindings and variables become a Config, by schema. Nothing else reads the environment.
import * as z from 'zod'

/** Workers' rate-limiting binding, as far as we use it. */
type RateLimiter = { limit(options: { key: string }): Promise<{ success: boolean }> }

/** Where archives are kept: a bucket at the edge, a folder elsewhere. A put is whole or not at all. */
export type Storage = {
  put(path: string, body: ReadableStream<Uint8Array>): Promise<void>
  get(path: string): Promise<ReadableStream<Uint8Array> | null>
  remove(paths: string[]): Promise<void>
}

const commaSeparated = (otherwise: string) =>
  z
    .string()
    .default(otherwise)
    .transform(text =>
      text
        .split(',')
        .map(item => item.trim())
        .filter(Boolean),
    )

const SealingKeys = z
  .string()
  .regex(/^[a-z0-9]+:[A-Za-z0-9_-]{43}(,[a-z0-9]+:[A-Za-z0-9_-]{43})*$/, {
    error: 'needs one or more `kid:key`, comma-separated, newest first; a key is 32 random bytes in base64url',
  })
  .transform(text => text.split(',').map(pair => pair.split(':') as [kid: string, key: string]))
  .refine(keys => new Set(keys.map(([kid]) => kid)).size === keys.length, { error: 'names two keys alike' })

/** As a browser sends it: without a path. */
const Origins = commaSeparated('*').refine(
  origins => origins.every(one => /^(\*|[a-z][a-z0-9+.-]*:\/\/[^/\s]+)$/.test(one)),
  {
    error: 'needs origins like https://example.com, comma-separated, or *',
  },
)

/** Where this installation is reached from outside: an origin, as it is written into addresses. */
const PublicUrl = z
  .string({ error: 'needs the address at which this installation is reached, like https://slipway.example.com' })
  .refine(text => /^https?:\/\/[^/?#\s]+\/?$/.test(text) && URL.canParse(text), {
    error: 'needs an address like https://slipway.example.com, without a path',
  })
  .transform(text => new URL(text).origin)

const wholeNumber = (most: number, error: string) =>
  z.coerce.number({ error }).int({ error }).min(0, { error }).max(most, { error })

const booleanSetting = z
  .enum(['true', 'false'], { error: 'needs to be `true` or `false`' })
  .default('false')
  .transform(text => text === 'true')

const PROXIES_ERROR = 'needs addresses or ranges like 10.0.0.0/8, comma-separated'
const POSTGRES_ERROR = 'needs the postgres:// address of the database'
const postgresUrl = () =>
  z
    .string({ error: POSTGRES_ERROR })
    .refine(text => /^postgres(ql)?:\/\/./.test(text) && URL.canParse(text), { error: POSTGRES_ERROR })

const Settings = z.object({
  DATABASE_URL: postgresUrl(),
  DATABASE_SYSTEM_URL: postgresUrl().optional(),
  DATABASE_GATEWAY_URL: z.url({ error: 'needs the http:// address of the gateway' }).optional(),
  SEALING_KEYS: z
    .string({
      error: 'needs one `kid:key`, like the output of `echo "k1:$(openssl rand -base64 32 | tr +/ -_ | tr -d =)"`',
    })
    .pipe(SealingKeys),
  PUBLIC_URL: PublicUrl.optional(),
  APPS_DOMAIN: z
    .string()
    .regex(/^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, {
      error: 'needs a domain like apps.example.com',
    })
    .optional(),
  ALLOW_LOOPBACK: booleanSetting,
  MCP_DEFAULT_ENDPOINTS: booleanSetting,
  SLIPWAY_MODE: z.enum(['saas', 'self_hosted'], { error: 'needs to be `saas` or `self_hosted`' }).default('saas'),
  CORS_ORIGINS: Origins,
  RATE_LIMIT_PER_MINUTE: wholeNumber(1_000_000, 'needs a whole number up to 1000000; 0 switches limits off').default(
    1200,
  ),
  UNKNOWN_KEYS_PER_MINUTE: wholeNumber(
    1_000_000,
    'needs a whole number up to 1000000; 0 switches the limit off',
  ).default(60),

  EVENTS_PER_DAY: wholeNumber(1_000_000_000, 'needs a whole number; 0 switches the limit off').default(200_000),
  UPLOADS_MAX_GIB: wholeNumber(1_000_000, 'needs a whole number of GiB').default(20),
  INSTANCE_ADMIN_EMAILS: commaSeparated(''),
  USAGE_EXPORT_ADMIN_EMAILS: commaSeparated(''),
})

/** Encrypted, unless it stays on this machine. */
const isS3Endpoint = (text: string): boolean => {
  if (!URL.canParse(text)) return false
  const { protocol, hostname, search, hash, username, password } = new URL(text)
  const loopback = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname)
  return (protocol === 'https:' || (protocol === 'http:' && loopback)) && !(search || hash || username || password)
}
const ENDPOINT_ERROR = 'needs an address like https://s3.example.com; http only where it is this machine'
const BUCKET_ERROR = 'needs the name of a bucket'

/** An S3-compatible store for archives: all of it, or none. */
const S3 = z.object({
  UPLOADS_S3_ENDPOINT: z
    .string({ error: ENDPOINT_ERROR })
    .refine(isS3Endpoint, { error: ENDPOINT_ERROR })
    .transform(text => text.replace(/\/$/, '')),
  UPLOADS_S3_BUCKET: z
    .string({ error: BUCKET_ERROR })
    .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, { error: BUCKET_ERROR }),
  UPLOADS_S3_REGION: z
    .string()
    .regex(/^[a-z0-9-]{1,64}$/, { error: 'needs the name of a region, like eu-central-1' })
    .optional(),
  UPLOADS_S3_ACCESS_KEY_ID: z.string({ error: 'needs the id of the access key' }),
  UPLOADS_S3_SECRET_ACCESS_KEY: z.string({ error: 'needs the secret of the access key' }),
})

const REGISTRY_ERROR = 'needs the name of a registry, like registry.example.com or registry.example.com/apps'
const SIGNING_KEY_ERROR =
  'needs a P-256 key and its certificate, both in PEM, one after the other; README.md says how to make them'
/** Where a variable cannot hold lines, they are written as `\n`. */
const unescapeNewlines = (text: string): string => text.replaceAll('\\n', '\n')
function extractPem(text: string, label: string): string | undefined {
  const [, after = ''] = text.split(`-----BEGIN ${label}-----`)
  const [base64 = ''] = after.split(`-----END ${label}-----`)
  return /^[\sA-Za-z0-9+/=]+$/.test(base64) ? base64.replace(/\s/g, '') : undefined
}

/** Where images are pushed to, and what its token service signs with: both, or neither. */
const Registry = z.object({
  REGISTRY_URL: z
    .string({ error: REGISTRY_ERROR })
    .regex(/^[a-z0-9][a-z0-9.-]*(:\d{1,5})?(\/[a-z0-9]+([._-][a-z0-9]+)*)*$/, { error: REGISTRY_ERROR }),
  REGISTRY_SIGNING_KEY: z.string({ error: SIGNING_KEY_ERROR }).transform((written, context) => {
    const text = unescapeNewlines(written)
    const [key, certificate] = [extractPem(text, 'PRIVATE KEY'), extractPem(text, 'CERTIFICATE')]
    if (key && certificate) return { key, certificate }
    context.addIssue({ code: 'custom', message: SIGNING_KEY_ERROR })
    return z.NEVER
  }),
})

/** As GitHub gives it (PKCS#1) or as everyone else does (PKCS#8); in a variable its lines may be written as `\\n`. */
const PRIVATE_KEY = /^-----BEGIN (RSA )?PRIVATE KEY-----\s[A-Za-z0-9+/=\s]+-----END (RSA )?PRIVATE KEY-----$/
const PRIVATE_KEY_ERROR = 'needs the private key of the App, as the file that GitHub gives has it'
const GITHUB_URL_ERROR = 'needs an address like https://github.example.com, without a path'
const visibleText = (what: string) =>
  z.string({ error: `needs ${what}` }).regex(/^[\x21-\x7e]{1,255}$/, { error: `needs ${what}` })

/** The operator's own GitHub App: all of it, or none. */
const GitHub = z.object({
  GITHUB_APP_ID: z.string({ error: 'needs the App ID' }).regex(/^\d{1,15}$/, { error: 'needs the App ID, a number' }),
  GITHUB_APP_SLUG: z
    .string({ error: 'needs the name of the App in its address' })
    .regex(/^[a-z0-9-]{1,100}$/, { error: 'needs the name of the App in its address' }),
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

/** Each is given whole or not at all. */
const SETTING_GROUPS = [S3, Registry, GitHub]

/** The names of all settings, for hosts that hand them on. */
export const SETTINGS = [Settings, ...SETTING_GROUPS].flatMap(({ shape }) => Object.keys(shape))

/** Where a host of its own listens. */
const ListenAddress = z.object({
  HOST: z.string().default('127.0.0.1'),
  PORT: wholeNumber(65_535, 'needs a port, a whole number from 0 to 65535').default(8787),
})

/** Who may say in `X-Forwarded-For` where a request comes from; the host reads the addresses. */
const TrustedProxies = z.object({
  TRUSTED_PROXIES: commaSeparated('').refine(
    proxies => proxies.every(one => /^[0-9a-f.:]{2,45}(\/\d{1,3})?$/i.test(one)),
    {
      error: PROXIES_ERROR,
    },
  ),
})

/** Where a host of its own keeps what is uploaded. */
const UploadsFolder = z.object({ UPLOADS_DIR: z.string().default('.slipway/uploads') })

export type S3Settings = {
  endpoint: string
  bucket: string
  /** Without it, what the endpoint's name says, or us-east-1. */
  region?: string
  accessKeyId: string
  secretAccessKey: string
}

export type RegistrySettings = {
  /** The registry's host, and the path in it under which our images are. */
  url: string
  /** Base64 of PKCS#8, and of the certificate that the registry trusts. */
  key: string
  certificate: string
}

/** The operator's own GitHub App, and the GitHub that it is at. */
export type GitHubApp = {
  baseUrl: string
  appId: string
  slug: string
  privateKey: string
  clientId: string
  clientSecret: string
  webhookSecret: string
}

/** What a host reads of a request: its headers, and what the server hands over beside it. */
export type RequestHead = { req: { header(name: string): string | undefined }; env?: unknown }

/** `url` is the app's login, which enters as a caller; `systemUrl` the one that may act for every workspace. */
export type DatabaseAddress = { url: string; systemUrl: string; gateway: string | undefined }

export type Config = {
  database: DatabaseAddress
  /** The origin of the addresses that it gives. In development it may be left out: see kernel/origin.ts. */
  publicUrl: string | undefined
  /** Deployments are served under it by their names; previews are told their address so. */
  appsDomain: string | undefined
  /** Which sources there are: those of a hosted installation, or of a self-hosted one. */
  mode: 'saas' | 'self_hosted'
  sealingKeys: [kid: string, key: string][]
  corsOrigins: string[]
  rateLimit: number
  /** How many events a workspace's journal takes in a day; 0 is no limit. */
  eventsPerDay: number
  /** How much room the archives of a workspace have. */
  uploadBytes: number
  limiter: RateLimiter | undefined
  /** Requests of one client address that fail to prove who sends them, in a minute; 0 for any number. */
  unknownKeysPerMinute: number
  /** The address that a request comes from, as the host knows it. Undefined where it does not. */
  clientAddress: (request: RequestHead) => string | undefined
  /** How foreign servers are reached, behind kernel/guarded-fetch.ts; a host that can pins the checked address. */
  foreignFetch: typeof fetch
  /** Looks TXT records up; without it the runtime's own resolver does. Rejects with the codes of `node:dns`. */
  resolveTxt: ((name: string) => Promise<string[][]>) | undefined
  /** For development: foreign servers may be on this machine, and speak plain http there. */
  allowLoopback: boolean
  /** An MCP server without any OAuth metadata is taken to have the endpoints that its specification once gave by default. */
  defaultEndpoints: boolean
  /** Where the host keeps archives, unless `s3` is set; without either there are no uploads. */
  uploads: Storage | undefined
  s3: S3Settings | undefined
  /** Where images are pushed to; without it there are no push tokens. */
  registry: RegistrySettings | undefined
  /** Without it, git hosts are connected with credentials of a workspace's own. */
  github: GitHubApp | undefined
  instanceAdmins: string[]
  /** What the operator should know, to be logged once. */
  notices: string[]
  log: (line: Record<string, unknown>) => void
  /** Tests move the clock; everyone else leaves it. */
  clockOffset: () => number
}

/** A broken setting: its message is one sentence that names it. */
export class SettingsError extends Error {}

/** For the operator's commands, which need no other setting. */
const databaseUrl = (env: Record<string, unknown>, ...names: string[]) => {
  const name = names.find(name => env[name]) ?? 'DATABASE_URL'
  return parseSettings(z.object({ [name]: postgresUrl() }), env)[name]!
}
/** The login that may act for every workspace. */
export const readSystemUrl = (env: Record<string, unknown>) => databaseUrl(env, 'DATABASE_SYSTEM_URL')
/** The login that owns the tables: it migrates, and makes the other two. */
export const readOwnerUrl = (env: Record<string, unknown>) =>
  databaseUrl(env, 'DATABASE_OWNER_URL', 'DATABASE_SYSTEM_URL')
export const readUploadsFolder = (env: Record<string, unknown>) => parseSettings(UploadsFolder, env).UPLOADS_DIR
/** `isRange` says whether one of them is an address or a range. */
export function readTrustedProxies(env: Record<string, unknown>, isRange: (text: string) => boolean): string[] {
  const { TRUSTED_PROXIES } = parseSettings(TrustedProxies, env)
  if (TRUSTED_PROXIES.every(isRange)) return TRUSTED_PROXIES
  throw new SettingsError(`TRUSTED_PROXIES ${PROXIES_ERROR}.`)
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

type GroupSettings = Partial<z.output<typeof S3> & z.output<typeof Registry> & z.output<typeof GitHub>>

/** Read as one, so that every fault is named at once. */
function readSettings(env: Record<string, unknown>): z.output<typeof Settings> & GroupSettings {
  const begun = SETTING_GROUPS.filter(({ shape }) => Object.keys(shape).some(name => env[name]))
  const shape = Object.assign({}, Settings.shape, ...begun.map(({ shape }) => shape))
  // A Host header is anybody's word: what it names is believed on a development machine only.
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

const SINGLE_LOGIN_NOTICE =
  'DATABASE_SYSTEM_URL is not set: requests use a login that may act for every workspace. Run `npm run db:logins` and set both addresses that it prints.'

export function readConfig(env: Record<string, unknown>, overrides: Partial<Config> = {}): Config {
  const settings = readSettings(env)
  const notices = [
    ...(settings.USAGE_EXPORT_ADMIN_EMAILS.length > 0
      ? ['USAGE_EXPORT_ADMIN_EMAILS is deprecated: use INSTANCE_ADMIN_EMAILS']
      : []),
    ...(settings.DATABASE_SYSTEM_URL ? [] : [SINGLE_LOGIN_NOTICE]),
  ]
  return {
    database: {
      url: settings.DATABASE_URL,
      systemUrl: settings.DATABASE_SYSTEM_URL ?? settings.DATABASE_URL,
      gateway: settings.DATABASE_GATEWAY_URL,
    },
    publicUrl: settings.PUBLIC_URL,
    appsDomain: settings.APPS_DOMAIN,
    mode: settings.SLIPWAY_MODE,
    sealingKeys: settings.SEALING_KEYS,
    corsOrigins: settings.CORS_ORIGINS,
    rateLimit: settings.RATE_LIMIT_PER_MINUTE,
    eventsPerDay: settings.EVENTS_PER_DAY,
    uploadBytes: settings.UPLOADS_MAX_GIB * 1024 ** 3,
    limiter: settings.RATE_LIMIT_PER_MINUTE === 0 ? undefined : (env.RATE_LIMITER as RateLimiter | undefined),
    unknownKeysPerMinute: settings.UNKNOWN_KEYS_PER_MINUTE,
    clientAddress: () => undefined,
    foreignFetch: globalThis.fetch.bind(globalThis),
    resolveTxt: undefined,
    allowLoopback: settings.ALLOW_LOOPBACK,
    defaultEndpoints: settings.MCP_DEFAULT_ENDPOINTS,
    uploads: undefined,
    s3: toS3Settings(settings),
    registry: toRegistrySettings(settings),
    github: toGitHubApp(settings),
    instanceAdmins: [...settings.INSTANCE_ADMIN_EMAILS, ...settings.USAGE_EXPORT_ADMIN_EMAILS].map(email =>
      email.toLowerCase(),
    ),
    notices,
    log: line => console.log(JSON.stringify(line)),
    clockOffset: () => 0,
    ...overrides,
  }
}
