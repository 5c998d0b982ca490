// The configuration file: the keys that a running server needs. Keys of the build are read by those who build.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, extname, resolve } from 'node:path'
import * as z from 'zod'
import { StartError } from './errors.ts'
import { readOriginPattern } from './origins.ts'
import { faultOfPath } from './text-paths.ts'

const thing = z.looseObject({})
/** Names of classes by their modules, all, or none. */
const modules = z.union([z.boolean(), z.array(z.array(z.string()))]).nullish()
const serde = z.strictObject({
  allowed_json_modules: modules,
  allowed_msgpack_modules: modules,
  pickle_fallback: z.boolean().nullish(),
})
const ttl = z.looseObject({
  default_ttl: z.number().positive().nullish(),
  refresh_on_read: z.boolean().nullish(),
  sweep_interval_minutes: z.number().positive().nullish(),
  strategy: z.enum(['delete', 'keep_latest']).nullish(),
})
const file = z.looseObject({
  graphs: z.record(
    z.string(),
    z.union([z.string(), z.looseObject({ path: z.string(), description: z.string().nullish() })]),
  ),
  env: z.union([z.record(z.string(), z.string()), z.string(), z.array(z.string())]).nullish(),
  store: z
    .looseObject({
      index: z
        .strictObject({
          dims: z.number().int().min(1).max(16_000),
          embed: z.string(),
          fields: z.array(z.string()).min(1).max(20).nullish(),
        })
        .nullish(),
      ttl: ttl.nullish(),
    })
    .nullish(),
  checkpointer: z.looseObject({ path: z.string().nullish(), serde: serde.nullish(), ttl: ttl.nullish() }).nullish(),
  auth: z
    .looseObject({
      path: z.string().nullish(),
      disable_studio_auth: z.boolean().nullish(),
      openapi: z
        .looseObject({
          securitySchemes: thing.nullish(),
          security: z.array(thing).nullish(),
          paths: z.record(z.string(), z.record(z.string(), z.array(thing))).nullish(),
        })
        .nullish(),
      cache: z
        .looseObject({
          cache_keys: z.array(z.string()).nullish(),
          ttl_seconds: z.number().positive().nullish(),
          max_size: z.number().int().min(1).nullish(),
        })
        .nullish(),
    })
    .nullish(),
  encryption: thing.nullish(),
  priority: thing.nullish(),
  ui: thing.nullish(),
  ui_config: thing.nullish(),
  http: z
    .looseObject({
      app: z.string().nullish(),
      enable_custom_route_auth: z.boolean().nullish(),
      mount_prefix: z.string().nullish(),
      cors: z
        .looseObject({
          allow_origins: z.array(z.string()).nullish(),
          allow_origin_regex: z.string().nullish(),
          allow_methods: z.array(z.string()).nullish(),
          allow_headers: z.array(z.string()).nullish(),
          expose_headers: z.array(z.string()).nullish(),
          allow_credentials: z.boolean().nullish(),
          max_age: z.number().nullish(),
        })
        .nullish(),
      configurable_headers: z
        .looseObject({ includes: z.array(z.string()).nullish(), excludes: z.array(z.string()).nullish() })
        .nullish(),
      disable_assistants: z.boolean().nullish(),
      disable_threads: z.boolean().nullish(),
      disable_runs: z.boolean().nullish(),
      disable_store: z.boolean().nullish(),
      disable_mcp: z.boolean().nullish(),
      disable_meta: z.boolean().nullish(),
      disable_webhooks: z.boolean().nullish(),
    })
    .nullish(),
  webhooks: z
    .strictObject({
      env_prefix: z.string().nullish(),
      headers: z.record(z.string(), z.string()).nullish(),
      url: z
        .strictObject({
          require_https: z.boolean().nullish(),
          allowed_domains: z.array(z.string()).nullish(),
          allowed_ports: z.array(z.number()).nullish(),
          max_url_length: z.number().nullish(),
          disable_loopback: z.boolean().nullish(),
        })
        .nullish(),
    })
    .nullish(),
})

export type Language = 'javascript' | 'python'
export type GraphSpec = { id: string; path: string; name: string; language: Language; description?: string }
export type AuthSettings = {
  path: string
  name: string
  language: Language
  disable_studio_auth: boolean
  openapi?:
    | {
        securitySchemes?: unknown
        security?: unknown
        paths?: Record<string, Record<string, unknown>> | null | undefined
      }
    | undefined
  cache?: { cache_keys: string[]; ttl_seconds: number; max_size: number } | undefined
}
type AppSettings = {
  path: string
  name: string
  language: Language
  /** Its routes need neither the key nor the authentication of the application. */
  isOpen: boolean
}
export type IndexSettings = {
  dims: number
  fields: string[]
  embed: { model: string } | { path: string; name: string; language: Language }
}
export type Configuration = Pick<z.infer<typeof file>, 'store' | 'checkpointer' | 'http' | 'webhooks'> & {
  folder: string
  graphs: GraphSpec[]
  variables: Record<string, string>
  auth: AuthSettings | null
  /** By which the store is searched by meaning. */
  index: IndexSettings | null
  /** The routes of the application itself. */
  app: AppSettings | null
}

const JAVASCRIPT = ['.js', '.mjs', '.cjs', '.jsx', '.ts', '.mts', '.cts', '.tsx']

/** Reads and checks the file. All faults are reported at once. */
export function readConfiguration(path: string): Configuration {
  const absolute = resolve(path)
  const folder = dirname(absolute)
  const parsed = file.safeParse(parseFile(absolute))
  if (!parsed.success) {
    const lines = parsed.error.issues.map(issue => `\`${issue.path.join('.')}\`: ${issue.message}.`)
    throw new StartError(`${path} is not valid. ${lines.join(' ')}`)
  }
  const { graphs, env, store, checkpointer, http, webhooks, auth, encryption, priority, ui, ui_config } = parsed.data
  const faults: string[] = []
  const refuse = (key: string, value: unknown, advice: string) => {
    const isEmpty = !value || (typeof value === 'object' && Object.keys(value).length === 0)
    if (!isEmpty) faults.push(`\`${key}\` is not supported: ${advice}`)
  }
  refuse('encryption', encryption, 'remove it; the database keeps state as it is.')
  refuse('priority', priority, 'remove it; runs start in the order in which they came.')
  refuse('ui', ui, 'remove it; components of a user interface are not served.')
  refuse('ui_config', ui_config, 'remove it; components of a user interface are not served.')
  const pattern = http?.cors?.allow_origin_regex
  if (pattern && !readOriginPattern(pattern))
    faults.push('`http.cors.allow_origin_regex` is not a regular expression of JavaScript.')
  refuse('checkpointer.path', checkpointer?.path, 'remove it; checkpoints are kept in DATABASE_URI.')
  if (webhooks?.headers && Object.keys(webhooks.headers).length > 0 && !webhooks.url?.allowed_domains?.length)
    faults.push(
      '`webhooks.headers` would go to any URL that a caller names: list their receivers in ' +
        '`webhooks.url.allowed_domains`.',
    )
  const specs = Object.entries(graphs).map(([id, value]) => {
    const { path: source, description } = typeof value === 'string' ? { path: value } : value
    const spec = readGraph(id, source, folder, faults)
    return description ? { ...spec, description } : spec
  })
  if (specs.length === 0)
    faults.push('`graphs` is empty. Name at least one graph, such as "agent": "./agent.py:graph".')
  const ownAuth = readAuth(auth, folder, faults)
  const index = readIndex(store, folder, faults)
  const isOpen = http?.enable_custom_route_auth === false
  const app = http?.app ? { ...readName('`http.app`', http.app, folder, faults), isOpen } : null
  if (faults.length > 0) throw new StartError(`${path} cannot be served. ${faults.join(' ')}`)
  const variables = readVariables(env, folder)
  return { folder, graphs: specs, variables, store, checkpointer, http, webhooks, auth: ownAuth, index, app }
}

function parseFile(path: string): unknown {
  if (!existsSync(path)) throw new StartError(`${path} does not exist. Give the path of a langgraph.json.`)
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    throw new StartError(`${path} is not JSON: ${(error as Error).message}`)
  }
}

const readGraph = (id: string, source: string, folder: string, faults: string[]): GraphSpec => ({
  id,
  ...readName(`Graph \`${id}\``, source, folder, faults),
})

/** A name in a file, or in an installed module of Python. */
function readName(of: string, source: string, folder: string, faults: string[]) {
  const colon = source.lastIndexOf(':')
  const path = colon < 0 ? source : source.slice(0, colon)
  const name = colon < 0 ? '' : source.slice(colon + 1)
  const language: Language = JAVASCRIPT.includes(extname(path)) ? 'javascript' : 'python'
  if (name === '' || path === '') faults.push(`${of}: "${source}" is not of the form <file>:<name>.`)
  else if ((path.includes('/') || path.endsWith('.py')) && !existsSync(resolve(folder, path)))
    faults.push(`${of}: the file ${path} does not exist.`)
  return { path, name, language }
}

const MODEL = 'openai:'

function readIndex(store: z.infer<typeof file>['store'], folder: string, faults: string[]): IndexSettings | null {
  if (!store?.index) return null
  const { dims, embed, fields } = store.index
  for (const path of fields ?? []) {
    const fault = faultOfPath(path)
    if (fault) faults.push(`\`store.index.fields\`: ${fault}.`)
  }
  const own = { dims, fields: fields ?? ['$'] }
  if (embed.startsWith(MODEL)) return { ...own, embed: { model: embed.slice(MODEL.length) } }
  return { ...own, embed: readName('`store.index.embed`', embed, folder, faults) }
}

const LARGEST_CACHE = 1000

function readAuth(auth: z.infer<typeof file>['auth'], folder: string, faults: string[]): AuthSettings | null {
  if (auth && !auth.path && Object.keys(auth).length > 0)
    faults.push('`auth` has no `path`. Name the file and the `Auth` in it, or remove `auth`.')
  if (!auth?.path) return null
  const { cache, openapi } = auth
  const keys = cache?.cache_keys ?? []
  return {
    ...readName('`auth.path`', auth.path, folder, faults),
    disable_studio_auth: auth.disable_studio_auth ?? false,
    ...(openapi && { openapi }),
    // Without the headers that tell callers apart, each would be the first one.
    ...(cache?.ttl_seconds &&
      keys.length > 0 && {
        cache: { cache_keys: keys, ttl_seconds: cache.ttl_seconds, max_size: cache.max_size ?? LARGEST_CACHE },
      }),
  }
}

/** Variables of the file. Those of the process win, which the caller decides. */
function readVariables(
  env: Record<string, string> | string | string[] | null | undefined,
  folder: string,
): Record<string, string> {
  // A list has names that the process must have.
  if (Array.isArray(env)) return {}
  if (typeof env !== 'string') return env ?? {}
  const path = resolve(folder, env)
  return existsSync(path) ? parseDotenv(readFileSync(path, 'utf8')) : {}
}

function parseDotenv(text: string): Record<string, string> {
  const variables: Record<string, string> = {}
  for (const line of text.split('\n')) {
    const equals = line.indexOf('=')
    const name = line.slice(0, equals).replace('export ', '').trim()
    if (equals < 0 || !/^[A-Za-z_]\w*$/.test(name)) continue
    const value = line.slice(equals + 1).trim()
    const quote = value[0]
    const end = quote === '"' || quote === "'" ? value.indexOf(quote, 1) : -1
    if (end > 0) variables[name] = quote === '"' ? value.slice(1, end).replaceAll('\\n', '\n') : value.slice(1, end)
    else variables[name] = value.split(' #')[0]!.trim()
  }
  return variables
}
