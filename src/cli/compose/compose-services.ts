// The services of a compose file: those that become a database or Redis, and those that become deployments. Pure.

export type Path = (string | number)[]
export type Members = Record<string, unknown>
export type Report = {
  /** Cannot be translated. */
  fault(path: Path, message: string): void
  /** Is translated otherwise than somebody may expect. */
  note(sentence: string): void
}
export type Service = { name: string; path: Path; members: Members; dependsOn: string[] }
export type StoreKind = 'database' | 'redis'
export type Store = Service & { kind: StoreKind }

export const STORES: Record<StoreKind, { images: string[]; title: string; folders: string[]; schemes: string[] }> = {
  database: {
    images: ['postgres'],
    title: 'Postgres',
    folders: ['/var/lib/postgresql', '/var/lib/postgresql/data'],
    schemes: ['postgres:', 'postgresql:'],
  },
  redis: { images: ['redis', 'valkey/valkey'], title: 'Redis', folders: ['/data'], schemes: ['redis:', 'valkey:'] },
}

/** Members that have no meaning here, and change nothing that a visitor of the application would see. */
const DROPPED = new Set([
  ...['annotations', 'attach', 'container_name', 'develop', 'expose', 'healthcheck', 'hostname', 'init', 'labels'],
  ...['logging', 'networks', 'platform', 'pull_policy', 'restart', 'stdin_open', 'stop_grace_period', 'stop_signal'],
  ...['tty'],
])
const TRANSLATED = ['image', 'build', 'command', 'environment', 'env_file', 'ports', 'volumes', 'depends_on', 'deploy']
const TOP_LEVEL = ['services', 'name', 'version', 'volumes', 'networks']

export function readServices(file: Members, report: Report): { stores: Store[]; applications: Service[] } {
  for (const name of Object.keys(file))
    if (!TOP_LEVEL.includes(name) && !name.startsWith('x-')) report.fault([name], CANNOT)
  const services = Object.entries(Object(file.services)).flatMap(([name, members]): Service[] => {
    const service = { name, path: ['services', name], members: Object(members) as Members, dependsOn: [] as string[] }
    const { depends_on, profiles } = service.members
    service.dependsOn = Array.isArray(depends_on) ? depends_on.map(String) : Object.keys(Object(depends_on))
    if (!Array.isArray(profiles) || profiles.length === 0) return [service]
    report.note(`\`${name}\` has \`profiles\`, so it is not deployed.`)
    return []
  })
  const stores: Store[] = []
  const applications: Service[] = []
  for (const service of services) {
    const image = imageNameOf(service.members)
    const kind = (['database', 'redis'] as const).find(one => image !== null && STORES[one].images.includes(image))
    if (kind) stores.push({ ...service, kind })
    else if (image !== null && OTHER_STORES.has(image)) report.fault(service.path, NO_OTHER_STORE)
    else applications.push(service)
  }
  for (const store of stores) checkStore(store, report)
  for (const application of applications) checkMembers(application, report)
  if (services.length === 0) report.fault(['services'], 'has no service to deploy')
  return { stores, applications }
}

/** Servers that others use, and that answer no HTTP of an application. */
const OTHER_STORES = new Set([
  ...['mysql', 'mariadb', 'mongo', 'memcached', 'rabbitmq', 'elasticsearch', 'cassandra', 'nats', 'zookeeper'],
  ...['pgvector/pgvector', 'postgis/postgis', 'timescale/timescaledb', 'redis/redis-stack', 'apache/kafka'],
])
const NO_OTHER_STORE = 'is no Postgres or Redis, which a deployment can have. Use one elsewhere, and set its address'

const CANNOT = 'cannot be translated. Remove it, or deploy this service by itself'

/** The name without its tag, as Docker Hub has it. Null: the service is built. */
function imageNameOf({ image, build }: Members): string | null {
  if (typeof image !== 'string' || build !== undefined) return null
  return image
    .replace(/^docker\.io\//, '')
    .replace(/^library\//, '')
    .split(/[:@]/, 1)[0]!
}

/** Its settings are those of the agent. Files that it would read at its start are not there. */
function checkStore({ kind, name, path, members }: Store, { fault, note }: Report): void {
  const { title, folders } = STORES[kind]
  note(
    `\`${name}\` becomes the ${title} of the deployment that uses it, with the version and the settings of the agent.`,
  )
  for (const [i, volume] of [members.volumes ?? []].flat().entries()) {
    const { target } = readVolume(volume)
    if (!folders.includes(target))
      fault([...path, 'volumes', i], `\`${target}\` is not there for this ${title}. ${REMOVE}`)
  }
}
const REMOVE = 'Remove it'

function checkMembers({ name, path, members }: Service, { fault, note }: Report): void {
  const dropped = Object.keys(members).filter(member => DROPPED.has(member))
  if (dropped.length > 0)
    note(`\`${name}\`: \`${dropped.join('`, `')}\` ${dropped.length > 1 ? 'are' : 'is'} not used.`)
  for (const member of Object.keys(members))
    if (!DROPPED.has(member) && ![...TRANSLATED, 'profiles'].includes(member) && !member.startsWith('x-'))
      fault([...path, member], CANNOT)
}

export type ComposeVolume = { source: string | null; target: string; isFolder: boolean }

/** `isFolder`: the source is a folder of this machine. */
export function readVolume(volume: unknown): ComposeVolume {
  if (typeof volume === 'string') {
    const [first = '', second] = volume.split(':')
    const source = second === undefined ? null : first
    return { source, target: second ?? first, isFolder: source !== null && /^[./~]/.test(source) }
  }
  const { type, source = null, target = '' } = Object(volume)
  return { source, target: String(target), isFolder: type === 'bind' }
}
