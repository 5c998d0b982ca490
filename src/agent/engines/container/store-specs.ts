// Builds the create requests of a deployment's database and Redis. Its revisions share them. Pure.
import { createHash } from 'node:crypto'
import { archiveCommand } from '../../databases/archive-command.ts'
import type { RevisionSpec } from '../../engine.ts'
import { deploymentLabels, PART_LABEL, ROLE_LABEL, resourcePrefix } from '../../images/container-labels.ts'
import type { CreateRequest } from '../../images/docker-api.ts'
import { MIB } from '../quantities.ts'
import { hostConfigOf, resourceLimits } from './replica-spec.ts'

export type StoreKind = 'database' | 'redis'
export type StoreRequest = {
  kind: StoreKind
  cpu: [request: number, limit: number]
  memory_mb: [request: number, limit: number]
  connections: number
}
export type StoreSpec = {
  kind: StoreKind
  volume: CreateRequest
  container: CreateRequest
  /** Succeeds in its container once it accepts connections at that host. */
  readyCommand(host: string): string[]
  env: Record<string, string>
}
/** `data`: the data folder of a database, below that of its volume. */
type StorePlacement = { owner: string; deployment_id: string; image: string; password: string; data?: string }

export const DATA_FOLDER = 'pg'
export const walFolderOf = (data: string) => `wal-${data}`
export const PAUSE_FILE = 'archive-paused'

/** The label is on the volume, so the password exists as long as the data. */
export const PASSWORD_LABEL = 'slipway.password'
/** A hash of the create request. A store with another hash is recreated. */
export const MADE_FROM_LABEL = 'slipway.made-from'
export const STORE_ROLE = 'store'
/** The data folder of a database, for an agent that has lost its home. */
export const DATA_LABEL = 'slipway.data'
export const URI_VARIABLES = { database: 'DATABASE_URI', redis: 'REDIS_URI' }
export const DATABASE_USER = 'app'

export const storeRequestsOf = ({ resources: r, needs_database, parts }: RevisionSpec): StoreRequest[] => [
  ...(needs_database
    ? [
        {
          kind: 'database' as const,
          connections: r.db_max_connections,
          cpu: [r.db_cpu, r.db_cpu_limit] as [number, number],
          memory_mb: [r.db_memory_mb, r.db_memory_limit_mb] as [number, number],
        },
      ]
    : []),
  ...(parts.includes('redis')
    ? [
        {
          kind: 'redis' as const,
          connections: 0,
          cpu: [r.redis_cpu, r.redis_cpu_limit] as [number, number],
          memory_mb: [r.redis_memory_mb, r.redis_memory_limit_mb] as [number, number],
        },
      ]
    : []),
]

export function storeVolumeOf(
  kind: StoreKind,
  { owner, deployment_id, password }: Omit<StorePlacement, 'image' | 'data'>,
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

export function storeSpecOf(request: StoreRequest, placement: StorePlacement): StoreSpec {
  const { kind, cpu, memory_mb } = request
  const { owner, deployment_id } = placement
  const network = resourcePrefix(owner, deployment_id)
  const volume = storeVolumeOf(kind, placement)
  const { body, readyCommand, env } =
    kind === 'database' ? databaseSpec(request, placement) : redisSpec(request, placement)
  const container = {
    Image: placement.image,
    ...body,
    HostConfig: {
      ...hostConfigOf(network),
      // The store also restarts while no agent runs.
      RestartPolicy: { Name: 'unless-stopped' },
      ...resourceLimits(...cpu, memory_mb[0] * MIB, memory_mb[1] * MIB),
      // Parallel queries need more shared memory than a container has by default.
      ShmSize: 256 * MIB,
      Mounts: [{ Type: 'volume', Source: volume.name, Target: '/data', ReadOnly: false }],
    },
    NetworkingConfig: { EndpointsConfig: { [network]: { Aliases: [kind] } } },
  }
  const hash = createHash('sha256').update(JSON.stringify(container)).digest('hex').slice(0, 16)
  const Labels = {
    ...deploymentLabels(owner, deployment_id),
    [ROLE_LABEL]: STORE_ROLE,
    [PART_LABEL]: kind,
    [MADE_FROM_LABEL]: hash,
    ...(kind === 'database' && { [DATA_LABEL]: placement.data ?? DATA_FOLDER }),
  }
  return { kind, volume, readyCommand, env, container: { name: volume.name, body: { ...container, Labels } } }
}

const envLines = (env: Record<string, string>) => Object.entries(env).map(([name, value]) => `${name}=${value}`)

const DATABASE_SETTINGS = { archive_mode: 'on', archive_timeout: '60s', wal_level: 'replica' }

const databaseSpec = ({ connections }: StoreRequest, { password, data = DATA_FOLDER }: StorePlacement) => ({
  body: {
    Cmd: Object.entries({
      max_connections: connections,
      ...DATABASE_SETTINGS,
      archive_command: archiveCommand(`../${walFolderOf(data)}`, `../${PAUSE_FILE}`),
    }).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    // A folder below the mount, which may contain `lost+found`.
    Env: envLines({
      POSTGRES_USER: DATABASE_USER,
      POSTGRES_DB: DATABASE_USER,
      POSTGRES_PASSWORD: password,
      PGDATA: `/data/${data}`,
      // An application that writes once a minute fills a file each minute.
      POSTGRES_INITDB_ARGS: '--wal-segsize=4',
    }),
    StopSignal: 'SIGINT',
  },
  readyCommand: (host: string) => ['pg_isready', '-q', '-h', host, '-U', DATABASE_USER, '-d', DATABASE_USER],
  env: { [URI_VARIABLES.database]: `postgresql://${DATABASE_USER}:${password}@database:5432/${DATABASE_USER}` },
})

const redisSpec = ({ memory_mb: [memoryMb] }: StoreRequest, { password }: StorePlacement) => ({
  body: {
    // Nothing is saved to disk. When memory is full, writes fail instead of evicting queued jobs.
    Cmd: [
      'redis-server',
      '--requirepass',
      password,
      '--save',
      '',
      '--appendonly',
      'no',
      '--maxmemory',
      `${Math.floor(memoryMb * 0.8)}mb`,
      '--maxmemory-policy',
      'noeviction',
    ],
    Env: envLines({ REDISCLI_AUTH: password }),
  },
  // `-e` makes it fail while Redis is still loading.
  readyCommand: (host: string) => ['redis-cli', '-e', '-h', host, 'ping'],
  env: { [URI_VARIABLES.redis]: `redis://:${password}@redis:6379/0` },
})
