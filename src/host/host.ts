// The app in a process of Node, Deno or Bun, with connections of its own to databases that are not Neon's.
import { createApp } from '../app.ts'
import { type Config, readConfig, readRelayUrl, readTrustedProxies, readUploadsFolder } from '../env.ts'
import { streamedFetch } from '../kernel/db/streamed-fetch.ts'
import {
  type BodyLimits,
  createClock,
  EXCHANGE_MS,
  type Platform,
  type StreamLimits,
  TUNNEL_LIMITS,
} from '../platform.ts'
import { isRange } from '../protocol/client-address.ts'
import { createAddressReader, type ReadPeer } from './client-address.ts'
import { createFolderFiles, DASHBOARD_FOLDER } from './dashboard-folder.ts'
import { openDatabase, type PoolSettings } from './database-connection.ts'
import { createFolderStorage } from './folder-storage.ts'
import { addPendingWork } from './pending-work.ts'
import { createPinnedFetch } from './pinned-fetch.ts'
import { readProcessMetrics } from './process-metrics.ts'
import { createMailSender } from './smtp.ts'
import { createRelay } from './sockets.ts'

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

/** The platform of Node, Deno and Bun, without the database. */
export function createServerPlatform(
  env: Record<string, unknown>,
  config: Config,
  readPeer?: ReadPeer | undefined,
): Platform {
  return {
    storage: createFolderStorage(readUploadsFolder(env)),
    storageFetch: streamedFetch,
    assets: createFolderFiles(DASHBOARD_FOLDER),
    waitUntil: addPendingWork,
    clock: createClock(),
    clientAddress: createAddressReader(readTrustedProxies(env, isRange), readPeer),
    foreignFetch: createPinnedFetch(config),
    modelFetch: config.modelPrivateAddresses ? createPinnedFetch({ ...config, allowPrivate: true }) : undefined,
    sendMail: config.smtp && createMailSender(config.smtp),
    drainFetch: config.drainPrivateAddresses ? createPinnedFetch({ ...config, allowPrivate: true }) : undefined,
    log: line => console.log(JSON.stringify(line)),
    exchangeMs: EXCHANGE_MS,
    relay: createRelay(readRelayUrl(env)),
    tunnelLimits: TUNNEL_LIMITS,
    liveStreams: STREAMS,
    rawBodies: BODIES,
    answerBytes: 128 * MIB,
    deliveriesPerRequest: 200,
  }
}

/** `own` replaces parts of the platform. */
export function createHost(
  env: Record<string, unknown>,
  own: Partial<Platform> = {},
  { readPeer, ...options }: PoolSettings & { readPeer?: ReadPeer | undefined } = {},
) {
  const settings = readConfig(env)
  const platform = { ...createServerPlatform(env, settings, readPeer), ...own }
  const { database, pools, close } = openDatabase(settings.database, {
    prepares: settings.preparesStatements,
    onStatementsLost: () => platform.log({ level: 'warn', notice: STATEMENTS_LOST }),
    ...options,
  })
  const config = { ...settings, database }
  const processMetrics = () => readProcessMetrics(pools)
  const app = createApp(config, { ...platform, databaseConnections: pools?.connections, processMetrics })
  return { app, config, pools, close }
}
