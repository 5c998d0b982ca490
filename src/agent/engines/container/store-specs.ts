// The database and the Redis of a deployment: shared by its revisions, gone with it. What the engine is asked for. Pure.
import { createHash } from 'node:crypto'
import { deploymentLabels, PART_LABEL, ROLE_LABEL, resourcePrefix } from '../../images/container-labels.ts'
import type { CreateRequest } from '../../images/docker-api.ts'
import type { RevisionSpec } from '../engine.ts'
import { MIB } from '../quantities.ts'
import { hostConfigOf, resourceLimits } from './replica-spec.ts'

export type StoreKind = 'database' | 'redis'
/** What of a revision decides what its store is. */
export type StoreRequest = {
  kind: StoreKind
  cpu: [least: number, most: number]
  memory_mb: [least: number, most: number]
  connections: number
}
export type StoreSpec = {
  kind: StoreKind
  volume: CreateRequest
  container: CreateRequest
  /** Succeeds in its container when it takes connections at that name. */
  readyCommand(host: string): string[]
  env: Record<string, string>
}
type StorePlacement = { owner: string; deployment_id: string; image: string; password: string }

/** On its volume, which is there before it and as long as its data: so neither is without the other. */
export const PASSWORD_LABEL = 'slipway.password'
/** What it was made from; another one is made where that is other. */
export const MADE_FROM_LABEL = 'slipway.made-from'
export const STORE_ROLE = 'store'
export const URI_VARIABLES = { database: 'DATABASE_URI', redis: 'REDIS_URI' }
const DATABASE_USER = 'app'

export const storeRequestsOf = ({ resources: r, needs_database, parts }: RevisionSpec): StoreRequest[] => [
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

export function storeVolumeOf(
  kind: StoreKind,
  { owner, deployment_id, password }: Omit<StorePlacement, 'image'>,
): CreateRequest {
  const name = `${resourcePrefix(owner, deployment_id)}-${kind}`
  const Labels = {
    ...deploymentLabels(owner, deployment_id),
    [ROLE_LABEL]: STORE_ROLE,
    [PART_LABEL]: kind,
    [PASSWORD_LABEL]: password,
  }
  return { name, body: { Name: name, Driver: 'local', Labels } }
}

export function storeSpecOf(wish: StoreRequest, place: StorePlacement): StoreSpec {
  const { kind, cpu, memory_mb } = wish
  const { owner, deployment_id } = place
  const network = resourcePrefix(owner, deployment_id)
  const volume = storeVolumeOf(kind, place)
  const { body, asks, env } = kind === 'database' ? databaseSpec(wish, place) : redisSpec(wish, place)
  const container = {
    Image: place.image,
    ...body,
    HostConfig: {
      ...hostConfigOf(network),
      // Also while no agent is there.
      RestartPolicy: { Name: 'unless-stopped' },
      ...resourceLimits(...cpu, memory_mb[0] * MIB, memory_mb[1] * MIB),
      // Parallel queries need more shared memory than a container is given.
      ShmSize: 256 * MIB,
      Mounts: [{ Type: 'volume', Source: volume.name, Target: '/data', ReadOnly: false }],
    },
    NetworkingConfig: { EndpointsConfig: { [network]: { Aliases: [kind] } } },
  }
  const from = createHash('sha256').update(JSON.stringify(container)).digest('hex').slice(0, 16)
  const Labels = {
    ...deploymentLabels(owner, deployment_id),
    [ROLE_LABEL]: STORE_ROLE,
    [PART_LABEL]: kind,
    [MADE_FROM_LABEL]: from,
  }
  return { kind, volume, readyCommand: asks, env, container: { name: volume.name, body: { ...container, Labels } } }
}

const envLines = (env: Record<string, string>) => Object.entries(env).map(([name, value]) => `${name}=${value}`)

const databaseSpec = ({ connections }: StoreRequest, { password }: StorePlacement) => ({
  body: {
    Cmd: ['-c', `max_connections=${connections}`],
    // Below the mount, which may have a `lost+found` of its own.
    Env: envLines({
      POSTGRES_USER: DATABASE_USER,
      POSTGRES_DB: DATABASE_USER,
      POSTGRES_PASSWORD: password,
      PGDATA: '/data/pg',
    }),
    StopSignal: 'SIGINT',
  },
  asks: (host: string) => ['pg_isready', '-q', '-h', host, '-U', DATABASE_USER, '-d', DATABASE_USER],
  env: { [URI_VARIABLES.database]: `postgres://${DATABASE_USER}:${password}@database:5432/${DATABASE_USER}` },
})

const redisSpec = ({ memory_mb: [least] }: StoreRequest, { password }: StorePlacement) => ({
  body: {
    // It keeps nothing on disk, and says so when it is full rather than drop what was queued.
    Cmd: [
      ...['redis-server', '--requirepass', password, '--save', '', '--appendonly', 'no'],
      ...['--maxmemory', `${Math.floor(least * 0.8)}mb`, '--maxmemory-policy', 'noeviction'],
    ],
    Env: envLines({ REDISCLI_AUTH: password }),
  },
  // It fails where nobody answers, and where the answer is that it is still loading.
  asks: (host: string) => ['redis-cli', '-e', '-h', host, 'ping'],
  env: { [URI_VARIABLES.redis]: `redis://:${password}@redis:6379/0` },
})
