// The app in a process of Node, Deno or Bun, with an in-process gateway for databases that are not Neon's.
import { createApp } from '../app.ts'
import {
  type BodyLimits,
  type Config,
  readConfig,
  readTrustedProxies,
  readUploadsFolder,
  type StreamLimits,
} from '../env.ts'
import { isRange } from '../protocol/client-address.ts'
import { createAddressReader, type ReadPeer } from './client-address.ts'
import { createFolderFiles, DASHBOARD_FOLDER } from './dashboard-folder.ts'
import { type GatewaySettings, openDatabase } from './database-connection.ts'
import { createFolderStorage } from './folder-storage.ts'
import { createPinnedFetch } from './pinned-fetch.ts'
import { readProcessMetrics } from './process-metrics.ts'

const STREAMS: StreamLimits = {
  seconds: 900,
  trips: Number.POSITIVE_INFINITY,
  perKey: 100,
  lookMs: [600, 1000],
  keyCheckMs: 15_000,
}
const STATEMENTS_LOST =
  'A pooler before the database loses prepared statements, so this process sends none from now on. ' +
  'Set DATABASE_PREPARED_STATEMENTS=off, or have the pooler keep them.'
const MIB = 1024 * 1024
const BODIES: BodyLimits = { wireBytes: 24 * MIB, bytes: 64 * MIB, heldBytes: 128 * MIB }

export function createHost(
  env: Record<string, unknown>,
  overrides: Partial<Config> = {},
  { readPeer, ...options }: GatewaySettings & { readPeer?: ReadPeer | undefined } = {},
) {
  const config = readConfig(env, {
    uploads: createFolderStorage(readUploadsFolder(env)),
    dashboard: createFolderFiles(DASHBOARD_FOLDER),
    clientAddress: createAddressReader(readTrustedProxies(env, isRange), readPeer),
    liveStreams: STREAMS,
    rawBodies: BODIES,
    ...overrides,
  })
  const { database, via, gateway, close } = openDatabase(config.database, {
    prepares: config.preparesStatements,
    onStatementsLost: () => config.log({ level: 'warn', notice: STATEMENTS_LOST }),
    ...options,
  })
  config.database = database
  config.hostMetrics = () => readProcessMetrics(gateway)
  config.foreignFetch = overrides.foreignFetch ?? createPinnedFetch(config)
  if (config.modelPrivateAddresses) config.modelFetch ??= createPinnedFetch({ ...config, allowPrivate: true })
  const app = createApp(config, via)
  return { app, config, gateway, close }
}
