// Reads langgraph.json: the graphs, what they need, and all its faults at once. Pure.
import { parseEnvFile } from '../../../protocol/env-file.ts'
import { isReservedVariable } from '../../../protocol/reserved-variables.ts'
import { PlanRefused } from '../../build-plan.ts'
import { type Folder, normalize, type SourceFiles } from '../../source-files.ts'
import { checkKeys, isCode } from './graph-keys.ts'

export const GRAPH_FILE = 'langgraph.json'

type GraphLanguage = 'javascript' | 'python'
/** `file`: relative to the folder of the configuration. Null: `module` names an installed one of Python. */
type Code = { language: GraphLanguage; file: string | null; variable: string }
type Graph = Code & { id: string }
/** `path` in the source, `written` as in the file. */
type LocalDependency = { written: string; path: string }
export type GraphFile = {
  graphs: Graph[]
  /** Languages of the graphs, and of other code that the server runs. */
  languages: GraphLanguage[]
  /** Packages of a registry, as pip reads them. */
  packages: string[]
  folders: LocalDependency[]
  /** A project of uv in place of dependencies. `root`: as in the file. */
  source: { root: string; package: string | null } | null
  python_version: string | null
  node_version: string | null
  usesPip: boolean
  /** The path before all of the API. */
  prefix: string
  pip_config_file: string | null
  warnings: string[]
}

/** True for the text of a file that describes graphs, whatever its name is. */
export function describesGraphs(text: string | null): boolean {
  if (text === null || !text.includes('"graphs"')) return false
  return toObject(text)?.graphs !== undefined
}

/** Null for a file that is no JSON object. */
function toObject(text: string | null): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text ?? '')
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null
  } catch {
    return null
  }
}

const NODE_FILE = /\.[cm]?[jt]sx?$/
/** Names of packages that the server and its graphs import. A folder of this name would come before them. */
const RESERVED_FOLDERS =
  /^(src|langgraph[-_]api|langgraph|langchain[-_]core|pydantic|orjson|fastapi|uvicorn|psycopg|httpx|langsmith)$/

/** Throws `PlanRefused` with each fault. `name`: of the file, in the folder `app`. */
export function readGraphFile(app: Folder, name: string): GraphFile {
  const path = normalize(`${app.path}/${name}`)
  const value = toObject(app.read(name))
  if (!value) throw new PlanRefused(`\`${path}\` is not a JSON object, or has more than 1 MB. Correct the file.`)
  const { faults, warnings } = checkKeys(value)
  for (const key of ['graphs', 'dependencies'])
    if (Object.keys(Object(value[key])).length > MAX_ENTRIES)
      throw new PlanRefused(`\`${path}\`: \`${key}\` has more than ${MAX_ENTRIES} entries. Name fewer.`)
  const local = readDependencies(app, value, faults)
  const source = readSource(app, value, faults)
  const reader = { app, folders: local, hasSource: source !== null, faults }
  const graphs = readGraphs(value, reader)
  const others = readOtherCode(value, reader)
  faults.push(...faultsOfWebhooks(value))
  if (faults.length > 0) {
    const more = faults.length > MAX_FAULTS ? `; and ${faults.length - MAX_FAULTS} more` : ''
    const shown = faults.slice(0, MAX_FAULTS).map(fault => (fault.length > 300 ? `${fault.slice(0, 300)}…` : fault))
    throw new PlanRefused(`\`${path}\`: ${shown.join('; ')}${more}. Correct the file.`)
  }
  const { python_version, node_version, pip_installer } = value
  const hasJavaScript = graphs.some(({ language }) => language === 'javascript')
  if (hasJavaScript && Object.keys(Object(Object(value.checkpointer).serde)).length > 0)
    warnings.push('`checkpointer.serde` has no effect on graphs in JavaScript, whose saver has no such settings.')
  const pip_config_file = toText(value.pip_config_file)
  return {
    graphs,
    languages: [...new Set([...graphs, ...others].map(({ language }) => language))],
    packages: toTexts(value.dependencies).filter(entry => !isLocal(entry)),
    folders: local,
    source,
    python_version: toText(python_version)?.split('-')[0] ?? null,
    node_version: node_version == null ? null : String(node_version),
    // uv reads no configuration of pip.
    usesPip: pip_installer === 'pip' || pip_config_file !== null,
    pip_config_file,
    prefix: toText(Object(value.http).mount_prefix) ?? '',
    warnings,
  }
}
const MAX_FAULTS = 20
/** Each graph is compared with each folder. */
const MAX_ENTRIES = 500

type Reader = { app: Folder; folders: LocalDependency[]; hasSource: boolean; faults: string[] }

function readGraphs({ graphs }: Record<string, unknown>, reader: Reader): Graph[] {
  const { faults } = reader
  const entries = Object.entries(Object(graphs))
  if (entries.length === 0 && !faults.some(fault => fault.startsWith('`graphs`')))
    faults.push('`graphs` names no graph: add one, such as {"agent": "./agent.py:graph"}')
  return entries.flatMap(([id, value]): Graph[] => {
    const label = `graph \`${id.slice(0, 100)}\``
    const path = typeof value === 'string' ? value : toText(Object(value).path)
    if (id.length > 100) faults.push(`${label}: its id has more than 100 characters`)
    else if (path === null) faults.push(`${label}: must be "<file>:<name>", or an object with such a \`path\``)
    else return readCode(label, path, reader).map(code => ({ id, ...code }))
    return []
  })
}

/** The authentication of the application, its routes, and its function that makes embeddings. */
function readOtherCode({ auth, http, store }: Record<string, unknown>, reader: Reader): Code[] {
  const path = toText(Object(auth).path)
  const app = toText(Object(http).app)
  const index = Object(Object(store).index)
  const embed = toText(index.embed)
  if (!path && Object.keys(Object(auth)).length > 0)
    reader.faults.push('`auth` has no `path`: name the `Auth` of the SDK')
  if (Object.keys(index).length > 0 && (!embed || !index.dims))
    reader.faults.push('`store.index` needs `dims` and `embed`')
  return [
    ...(path ? readCode('`auth.path`', path, reader) : []),
    ...(app ? readCode('`http.app`', app, reader) : []),
    ...(embed && isCode(embed) ? readCode('`store.index.embed`', embed, reader) : []),
  ]
}

/** Callers name the URLs, and the headers often have a secret of the receiver. */
function faultsOfWebhooks({ webhooks }: Record<string, unknown>): string[] {
  const { headers, url } = Object(webhooks)
  const isBound = toTexts(Object(url).allowed_domains).length > 0
  if (isBound || Object.keys(Object(headers)).length === 0) return []
  const advice = 'list their receivers in `webhooks.url.allowed_domains`'
  return [`\`webhooks.headers\` would go to any URL that a caller names: ${advice}`]
}

/** A name in a file, or in an installed module of Python. None if it has a fault. */
function readCode(label: string, path: string, { app, folders, hasSource, faults }: Reader): Code[] {
  const fail = (what: string) => {
    faults.push(`${label}: ${what}`)
    return []
  }
  const colon = path.lastIndexOf(':')
  const [file, variable] = [path.slice(0, Math.max(0, colon)), path.slice(colon + 1)]
  if (colon <= 0 || !/^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(variable))
    return fail(`\`${path}\` must be "<file>:<name>", as in "./agent.py:graph"`)
  const isNode = NODE_FILE.test(file)
  // A module of Python, which an installed package has.
  if (!isNode && !file.includes('/') && !file.endsWith('.py')) return [{ language: 'python', file: null, variable }]
  const found = resolveIn(app, file)
  if (found === null) return fail(`\`${file}\` is outside of the source`)
  if (!sourceOf(app).has(found)) return fail(`there is no file \`${file}\``)
  if (!isNode && !file.endsWith('.py')) return fail(`\`${file}\` is a file of neither Python nor JavaScript`)
  if (!isNode && !hasSource && !folders.some(({ path }) => isInside(found, path)))
    return fail(`\`${file}\` is in none of the folders of \`dependencies\`: add ".", or the folder of the file`)
  return [{ language: isNode ? 'javascript' : 'python', file, variable }]
}

const isLocal = (entry: string) => entry.startsWith('.')

function readDependencies(app: Folder, value: Record<string, unknown>, faults: string[]): LocalDependency[] {
  const entries = toTexts(value.dependencies)
  for (const entry of entries)
    if (entry.includes('git+http') && /:\/\/[^/@\s]+@/.test(entry))
      faults.push('`dependencies` has credentials in the URL of a repository: use a variable, or a private index')
    else if (/^\s*-/.test(entry))
      faults.push(`dependency \`${entry.slice(0, 100)}\`: name a package; options of pip stand in \`pip_config_file\``)
  return entries.filter(isLocal).flatMap((written): LocalDependency[] => {
    const path = resolveIn(app, written)
    if (path === null) {
      faults.push(`dependency \`${written}\`: it is outside of the source: deploy a folder that has both`)
      return []
    }
    const folder = sourceOf(app).folder(path)
    if (folder.names().length === 0) {
      faults.push(`dependency \`${written}\`: there is no folder \`${path}\` in the source`)
      return []
    }
    const name = path.split('/').at(-1)!
    if (!isPackage(folder) && folder.has('__init__.py') && RESERVED_FOLDERS.test(name))
      faults.push(`dependency \`${written}\`: its name is that of a package of the server: rename the folder`)
    return [{ written, path }]
  })
}

/** The whole source. */
export const sourceOf = (app: Folder): Folder => app.outwards().at(-1)!

export const isPackage = (folder: Folder) => folder.has('pyproject.toml') || folder.has('setup.py')

function readSource(app: Folder, value: Record<string, unknown>, faults: string[]): GraphFile['source'] {
  const { source, dependencies } = value
  const isPython = Object.values(Object(value.graphs)).some(graph => !NODE_FILE.test(fileOf(graph)))
  if (source == null) {
    if (isPython && toTexts(dependencies).length === 0)
      faults.push('`dependencies` names nothing, and Python graphs need them: add "." for the folder itself')
    return null
  }
  if (toTexts(dependencies).length > 0) faults.push('`source` stands in place of `dependencies`: remove one of them')
  const root = toText(Object(source).root) ?? '.'
  const path = resolveIn(app, root)
  const missing = ['pyproject.toml', 'uv.lock'].filter(file => path === null || !sourceOf(app).folder(path).has(file))
  if (missing.length > 0) faults.push(`\`source.root\`: \`${root}\` has no ${missing.join(' and no ')} in the source`)
  return { root, package: toText(Object(source).package) }
}

const fileOf = (graph: unknown) =>
  (typeof graph === 'string' ? graph : (toText(Object(graph).path) ?? '')).replace(/:[^:]*$/, '')

/** The path in the source. Null if it leads out of it. */
function resolveIn(app: Folder, written: string): string | null {
  const parts = app.path === '' ? [] : app.path.split('/')
  for (const part of written.split('/')) {
    if (part === '..' && parts.pop() === undefined) return null
    if (part !== '..' && part !== '.' && part !== '') parts.push(part)
  }
  return parts.join('/')
}

const isInside = (path: string, folder: string) => folder === '' || path.startsWith(`${folder}/`)
const toText = (value: unknown) => (typeof value === 'string' && value.trim() !== '' ? value : null)
const toTexts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((entry): entry is string => typeof entry === 'string') : []

// ---- its folders and variables

/**
 * The folders that an archive needs, relative to that of the file: its own, and those of `dependencies` and `source`.
 * Null for a file that is no JSON object.
 */
export function listNeededFolders(text: string): string[] | null {
  const value = toObject(text)
  if (!value) return null
  const root = value.source == null ? [] : [toText(Object(value.source).root) ?? '.']
  return ['.', ...toTexts(value.dependencies).filter(isLocal), ...root]
}

/** Variables of the platform, and those by which the reference sets up its own server. */
const RESERVED = [
  /^LANG(SMITH|CHAIN)_(TRACING_V2|ENDPOINT|PROJECT|API_KEY|TENANT_ID|DEPLOYMENT_NAME|CALLBACKS_BACKGROUND)$/,
  /^LANGSMITH_(AUTH|HOST|LANGGRAPH_GIT)_\w+$|^LANGSMITH_CONTROL_PLANE_API_KEY$/,
  /^LANGGRAPH_(GIT_REPO_PATH|AUTH_TYPE|CLOUD_LICENSE_KEY)$|^LSD_\w+$|^DD_TRACE_\w+$/,
  /^POSTGRES_(URI|URI_CUSTOM|PASSWORD)$|^REDIS_URI_CUSTOM$|^LOG_(JSON|DICT_TRACEBACKS)$|^MOUNT_PREFIX$/,
]

type GraphEnvironment = {
  /** The .env file that it names. Null: it has the variables itself, or none. */
  file: string | null
  variables: Record<string, string>
  reserved: string[]
}

/** The variables of `env`. A file that is not in the source is no fault: it is often left out of it. */
export function readGraphEnvironment(files: Pick<SourceFiles, 'read'>, path: string): GraphEnvironment {
  const env = toObject(files.read(path))?.env
  const named = typeof env === 'string' ? normalize(`${path}/../${env}`) : null
  const given = named === null ? Object(Array.isArray(env) ? {} : env) : parseEnvFile(files.read(named) ?? '')
  const entries = Object.entries(given)
    .map(([name, value]): [string, string] => [name, String(value)])
    // No process takes others. A .env file may have them.
    .filter(([name, value]) => value !== '' && /^[A-Za-z_]\w*$/.test(name) && !value.includes('\0'))
  const isReserved = (name: string) => isReservedVariable(name) || RESERVED.some(one => one.test(name))
  return {
    file: named,
    variables: Object.fromEntries(entries.filter(([name]) => !isReserved(name))),
    reserved: entries.flatMap(([name]) => (isReserved(name) ? [name] : [])),
  }
}
