// The database and the Redis of a deployment: shared by its revisions, gone with it. What the engine is asked for. Pure.
import { createHash } from 'node:crypto'
import type { Unit } from '../engine.ts'
import { MIB } from './quantities.ts'
import { type Create, deploymentLabels, hostConfig, limits, networkName, PART, ROLE } from './spec.ts'

export type Kind = 'database' | 'redis'
/** What of a revision decides what its store is. */
export type Wish = {
  kind: Kind
  cpu: [least: number, most: number]
  memory_mb: [least: number, most: number]
  connections: number
}
export type Store = {
  kind: Kind
  volume: Create
  container: Create
  /** Succeeds in its container when it takes connections at that name. */
  asks(host: string): string[]
  env: Record<string, string>
}
type Place = { owner: string; deployment_id: string; image: string; password: string }

/** On its volume, which is there before it and as long as its data: so neither is without the other. */
export const PASSWORD = 'slipway.password'
/** What it was made from; another one is made where that is other. */
export const MADE_FROM = 'slipway.made-from'
export const STORE = 'store'
export const VARIABLES = { database: 'DATABASE_URI', redis: 'REDIS_URI' }
const USER = 'app'

export const wishesOf = ({ resources: r, needs_database, parts }: Unit): Wish[] => [
  ...(needs_database
    ? [
        {
          ...{ kind: 'database' as const, connections: r.db_max_connections },
          cpu: [r.db_cpu, r.db_cpu_limit] as [number, number],
          memory_mb: [r.db_memory_mb, r.db_memory_limit_mb] as [number, number],
        },
      ]
    : []),
  ...(parts.includes('redis')
    ? [
        {
          ...{ kind: 'redis' as const, connections: 0 },
          cpu: [r.redis_cpu, r.redis_cpu_limit] as [number, number],
          memory_mb: [r.redis_memory_mb, r.redis_memory_limit_mb] as [number, number],
        },
      ]
    : []),
]

export function volumeOf(kind: Kind, { owner, deployment_id, password }: Omit<Place, 'image'>): Create {
  const name = `${networkName(owner, deployment_id)}-${kind}`
  const Labels = { ...deploymentLabels(owner, deployment_id), [ROLE]: STORE, [PART]: kind, [PASSWORD]: password }
  return { name, body: { Name: name, Driver: 'local', Labels } }
}

export function storeOf(wish: Wish, place: Place): Store {
  const { kind, cpu, memory_mb } = wish
  const { owner, deployment_id } = place
  const network = networkName(owner, deployment_id)
  const volume = volumeOf(kind, place)
  const { body, asks, env } = kind === 'database' ? database(wish, place) : redis(wish, place)
  const container = {
    Image: place.image,
    ...body,
    HostConfig: {
      ...hostConfig(network),
      // Also while no agent is there.
      RestartPolicy: { Name: 'unless-stopped' },
      ...limits(...cpu, memory_mb[0] * MIB, memory_mb[1] * MIB),
      // Parallel queries need more shared memory than a container is given.
      ShmSize: 256 * MIB,
      Mounts: [{ Type: 'volume', Source: volume.name, Target: '/data', ReadOnly: false }],
    },
    NetworkingConfig: { EndpointsConfig: { [network]: { Aliases: [kind] } } },
  }
  const from = createHash('sha256').update(JSON.stringify(container)).digest('hex').slice(0, 16)
  const Labels = { ...deploymentLabels(owner, deployment_id), [ROLE]: STORE, [PART]: kind, [MADE_FROM]: from }
  return { kind, volume, asks, env, container: { name: volume.name, body: { ...container, Labels } } }
}

const lines = (env: Record<string, string>) => Object.entries(env).map(([name, value]) => `${name}=${value}`)

const database = ({ connections }: Wish, { password }: Place) => ({
  body: {
    Cmd: ['-c', `max_connections=${connections}`],
    // Below the mount, which may have a `lost+found` of its own.
    Env: lines({ POSTGRES_USER: USER, POSTGRES_DB: USER, POSTGRES_PASSWORD: password, PGDATA: '/data/pg' }),
    StopSignal: 'SIGINT',
  },
  asks: (host: string) => ['pg_isready', '-q', '-h', host, '-U', USER, '-d', USER],
  env: { [VARIABLES.database]: `postgres://${USER}:${password}@database:5432/${USER}` },
})

const redis = ({ memory_mb: [least] }: Wish, { password }: Place) => ({
  body: {
    // It keeps nothing on disk, and says so when it is full rather than drop what was queued.
    Cmd: [
      ...['redis-server', '--requirepass', password, '--save', '', '--appendonly', 'no'],
      ...['--maxmemory', `${Math.floor(least * 0.8)}mb`, '--maxmemory-policy', 'noeviction'],
    ],
    Env: lines({ REDISCLI_AUTH: password }),
  },
  // It fails where nobody answers, and where the answer is that it is still loading.
  asks: (host: string) => ['redis-cli', '-e', '-h', host, 'ping'],
  env: { [VARIABLES.redis]: `redis://:${password}@redis:6379/0` },
})
