// From a compose file to documents of `slipway apply`: a deployment for each service of its own. Pure.
import type { WorkspaceDocument } from '../../client/apply/documents.ts'
import { toName } from '../../client/archive-rules.ts'
import { isReservedVariable } from '../../protocol/reserved-variables.ts'
import { DATABASE, REDIS } from '../store-flags.ts'
import {
  type Members,
  type Path,
  type Report,
  readServices,
  readVolume,
  type Service,
  STORES,
  type Store,
} from './compose-services.ts'
import { resolveTexts, type Variables } from './interpolate.ts'

type ComposeFault = { path: Path; message: string }
/** A service that becomes a deployment. */
export type Planned = {
  service: string
  document: WorkspaceDocument
  secrets: Record<string, string>
  /** The image that it runs. Null: it is built. */
  image: string | null
  /** `folder`: relative to the compose file. `port`: the one in the container. */
  build: { folder: string; start_command: string | null; port: string | null } | null
}
export type Translation = { project: string; planned: Planned[]; notes: string[]; faults: ComposeFault[] }
export type TranslateOptions = {
  /** The name of the group, unless the file has one. */
  suggested: string
  /** Wins over the name in the file. */
  name?: string | undefined
  /** The variables of the file .env. */
  variables: Variables
  /** The variables of the shell, which win. They are named, because the author of the file may not be its user. */
  shell?: Variables
  /** The variables of an `env_file`. Null: there is none. */
  readEnvFile: (path: string) => Record<string, string> | null
}

export function translateCompose(value: unknown, { shell = {}, ...given }: TranslateOptions): Translation {
  const used = new Set<string>()
  const options = { ...given, variables: watchReads({ ...given.variables, ...shell }, name => used.add(name)) }
  const faults: ComposeFault[] = []
  const notes: string[] = []
  const report: Report = {
    fault: (path, message) => void faults.push({ path, message }),
    note: sentence => void notes.push(sentence),
  }
  const file = resolveTexts(Object(value), options.variables, (path, name) => {
    report.fault(path, `needs ${name}. Set it in the file .env beside this one, or in the environment`)
  }) as Members
  const { stores, applications } = readServices(file, report)
  const project = toName(options.name ?? (typeof file.name === 'string' ? file.name : options.suggested))
  const translated = applications.map(service => {
    const environment = readEnvironment(service, options, report)
    return { service, environment, stores: storesOf(service, environment, stores, applications.length === 1) }
  })
  for (const { service, environment } of translated) refuseOthers(service, environment, applications, report)
  for (const store of stores) {
    const users = translated.filter(one => one.stores.includes(store)).map(({ service }) => `\`${service.name}\``)
    if (users.length > 1)
      report.fault(store.path, `is used by ${users.join(' and ')}, and a database belongs to one deployment`)
    if (users.length === 0)
      report.fault(
        store.path,
        'is used by no service with `build` or an image of its own. Name it in `depends_on` of one',
      )
  }
  const planned = translated.map(one => planService(one, project, report))
  const taken = [...used].filter(name => shell[name] !== undefined)
  if (taken.length > 0) report.note(`Taken from the environment of this shell: \`${taken.join('`, `')}\`.`)
  return { project, planned, notes, faults }
}

const watchReads = (variables: Variables, onRead: (name: string) => void): Variables =>
  new Proxy(variables, {
    get(target, name) {
      if (typeof name !== 'string' || !Object.hasOwn(target, name)) return undefined
      onRead(name)
      return target[name]
    },
  })

type Translated = { service: Service; environment: Record<string, string>; stores: Store[] }

function planService({ service, environment, stores }: Translated, project: string, report: Report): Planned {
  const { name, members, path } = service
  const build = members.build === undefined ? null : readBuild(service, report)
  const secrets = readSecrets(service, environment, stores, report)
  checkVolumes(service, report)
  for (const [i, store] of stores.entries())
    if (stores.some((other, j) => j < i && other.kind === store.kind))
      report.fault(store.path, `is another ${STORES[store.kind].title} of \`${name}\`, which can have one`)
  if (!build && members.command !== undefined) report.fault([...path, 'command'], NO_COMMAND)
  if (!build && typeof members.image !== 'string') report.fault(path, 'has neither `image` nor `build`')
  const port = readPort(service, report)
  const resource_spec = {
    ...(stores.some(({ kind }) => kind === 'database') && DATABASE),
    ...(stores.some(({ kind }) => kind === 'redis') && REDIS),
    ...readResources(service, report),
  }
  const document: WorkspaceDocument = {
    kind: 'Deployment',
    name: toName(`${project}-${name}`),
    spec: {
      source: build ? 'internal_source' : 'internal_container',
      source_config: { resource_spec },
      source_revision_config: build ? {} : { image_uri: members.image },
    },
    ...(Object.keys(secrets).length > 0 && { secrets: Object.keys(secrets) }),
  }
  return {
    service: name,
    document,
    secrets,
    image: build ? null : String(members.image),
    build: build && { ...build, port },
  }
}
const NO_COMMAND = 'can be given only to a service with `build`. Put it into an image of your own'

function readBuild({ path, members }: Service, { fault }: Report) {
  const { build, command } = members
  const { context = '.', dockerfile, ...others } = typeof build === 'string' ? { context: build } : Object(build)
  const at = [...path, 'build']
  if (/^[a-z]+:\/\/|^git@/.test(String(context))) fault(at, 'is a repository. Clone it, and name its folder')
  if (dockerfile !== undefined && !/^(\.\/)?Dockerfile$/.test(String(dockerfile)))
    fault([...at, 'dockerfile'], 'must be `Dockerfile`, in the folder of the service')
  for (const name of Object.keys(others)) fault([...at, name], 'cannot be translated. Write it into the Dockerfile')
  const words = Array.isArray(command) ? command.map(word => quote(String(word))).join(' ') : command
  return { folder: String(context), start_command: typeof words === 'string' && words !== '' ? words : null }
}
const quote = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)

function checkVolumes({ name, path, members }: Service, { fault, note }: Report): void {
  for (const [i, volume] of [members.volumes ?? []].flat().entries()) {
    const { source, target, isFolder } = readVolume(volume)
    const isOfImage = members.build !== undefined && (source === null || isFolder)
    if (isOfImage) note(`\`${name}\`: \`${target}\` has the files of its image, and not those of this machine.`)
    else
      fault([...path, 'volumes', i], 'cannot be translated. A disk is declared in `resource_spec`, with slipway apply')
  }
}

/** The one port in the container. Its number outside is not used: each deployment has a URL. */
function readPort({ path, members }: Service, { fault }: Report): string | null {
  const ports = [members.ports ?? []].flat().map(port => {
    const text = typeof port === 'object' ? String(Object(port).target) : String(port)
    return text.split('/', 1)[0]!.split(':').at(-1)!
  })
  if (new Set(ports).size > 1) fault([...path, 'ports'], 'has several ports, of which one could be served. Keep one')
  if (ports.length === 0) fault(path, 'has no `ports`. A deployment is a service that answers HTTP')
  return ports[0] ?? null
}

function readResources({ path, members }: Service, { fault, note }: Report): Members {
  const { replicas, resources, ...others } = Object(members.deploy)
  const { cpus, memory } = Object(Object(resources).limits)
  const unused = [...Object.keys(others), ...(Object(resources).reservations ? ['resources.reservations'] : [])]
  if (unused.length > 0) note(`\`${String(path[1])}\`: \`${unused.join('`, `')}\` of \`deploy\` is not used.`)
  const cpu = cpus === undefined ? null : Number(cpus)
  const megabytes = memory === undefined ? null : parseMegabytes(String(memory))
  if (megabytes !== null && Number.isNaN(megabytes)) fault([...path, 'deploy'], `${memory} is not an amount of memory`)
  return {
    ...(replicas !== undefined && { min_scale: Number(replicas), max_scale: Number(replicas) }),
    ...(cpu !== null && { cpu, cpu_limit: cpu }),
    ...(megabytes !== null && { memory_mb: megabytes, memory_limit_mb: megabytes }),
  }
}

const UNITS: Record<string, number> = { '': 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 }
function parseMegabytes(text: string): number {
  const [, number = '', unit = ''] = /^(\d+(?:\.\d+)?)([kmg]?)b?$/i.exec(text.trim()) ?? []
  return number === '' ? Number.NaN : Math.ceil((Number(number) * UNITS[unit.toLowerCase()]!) / 1024 ** 2)
}

// ---- variables

function readEnvironment(
  { path, members }: Service,
  { variables, readEnvFile }: TranslateOptions,
  { fault }: Report,
): Record<string, string> {
  const all: Record<string, string> = {}
  for (const [i, entry] of [members.env_file ?? []].flat().entries()) {
    const { path: file = entry, required = true } = Object(typeof entry === 'string' ? {} : entry)
    const found = readEnvFile(String(file))
    if (found) Object.assign(all, found)
    else if (required !== false) fault([...path, 'env_file', i], `There is no file ${String(file)}`)
  }
  const { environment = {} } = members
  const entries = Array.isArray(environment)
    ? environment.map((line, i): [string, string | undefined, Path] => {
        const at = String(line).indexOf('=')
        const [name, value] = at < 0 ? [String(line)] : [String(line).slice(0, at), String(line).slice(at + 1)]
        return [name, value, [i]]
      })
    : Object.entries(Object(environment)).map(([name, value]): [string, string | undefined, Path] => [
        name,
        value === null ? undefined : String(value),
        [name],
      ])
  for (const [name, given, at] of entries) {
    const value = given ?? variables[name]
    if (value === undefined) fault([...path, 'environment', ...at], `${name} has no value in the environment`)
    else all[name] = value
  }
  return all
}

/** The variables of the deployment: without those that the platform sets to what they mean. */
function readSecrets({ name: service, path }: Service, all: Record<string, string>, stores: Store[], report: Report) {
  const kept = Object.entries(all).filter(([name, value]) => {
    const store = stores.find(one => namesHost(name, value, one.name))
    if (store) {
      const { title, schemes } = STORES[store.kind]
      const sets = store.kind === 'database' ? 'DATABASE_URL' : 'REDIS_URL'
      const isSame = name === sets && schemes.includes(URL.parse(value)?.protocol ?? '')
      if (isSame) report.note(`\`${service}\`: \`${name}\` is the address of its ${title} here.`)
      else
        report.fault(
          [...path, 'environment', name],
          `names the service \`${store.name}\`. Here the application finds its ${title} in ${sets} alone: read that`,
        )
      return false
    }
    if (!isReservedVariable(name)) return true
    report.note(`\`${service}\`: \`${name}\` is set by the platform.`)
    return false
  })
  return Object.fromEntries(kept)
}

const HOST_NAME = /(?:HOST|HOSTNAME|SERVER|ADDR|ADDRESS|URL|URI)S?$/i

/** True if the value is an address on that service. */
function namesHost(name: string, value: string, service: string): boolean {
  if (value === service) return HOST_NAME.test(name)
  return value.split(',').some(part => {
    const address = part.trim().replace(/^jdbc:/, '')
    if (address.includes('://')) return URL.parse(address)?.hostname === service
    return /^([\w.-]+):\d+$/.exec(address)?.[1] === service
  })
}

/** An only application uses all of them, whether it says so or not. */
function storesOf(service: Service, environment: Record<string, string>, stores: Store[], isOnly: boolean): Store[] {
  return stores.filter(
    store =>
      isOnly ||
      service.dependsOn.includes(store.name) ||
      Object.entries(environment).some(([name, value]) => namesHost(name, value, store.name)),
  )
}

/** Deployments have no private names for each other. */
function refuseOthers(
  service: Service,
  environment: Record<string, string>,
  applications: Service[],
  { fault }: Report,
): void {
  for (const other of applications) {
    if (other.name === service.name) continue
    const variable = Object.entries(environment).find(([name, value]) => namesHost(name, value, other.name))?.[0]
    if (variable !== undefined)
      fault([...service.path, 'environment', variable], `names the service \`${other.name}\`. ${NO_NAMES}`)
    else if (service.dependsOn.includes(other.name))
      fault([...service.path, 'depends_on'], `names the service \`${other.name}\`. ${NO_NAMES}`)
  }
}
const NO_NAMES = 'Deployments do not reach each other by name: deploy it first, and set its URL here'
