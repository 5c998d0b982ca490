// Serves the app on Node, with an in-process gateway for databases that are not Neon's.
import { once } from 'node:events'
import { createApp } from '../app.ts'
import { type Config, readConfig, readShutdownLimits, readTrustedProxies, readUploadsFolder } from '../env.ts'
import { type BodyLimits, createClock, type Platform, type StreamLimits } from '../platform.ts'
import { isRange } from '../protocol/client-address.ts'
import { createAddressReader } from './client-address.ts'
import { createFolderFiles, DASHBOARD_FOLDER } from './dashboard-folder.ts'
import { type GatewaySettings, openDatabase, requireReady, requireRole } from './database-connection.ts'
import { createFolderStorage } from './folder-storage.ts'
import { createHttpServer } from './http-server.ts'
import { createLogWriter } from './log-writer.ts'
import { addPendingWork, finishPendingWork } from './pending-work.ts'
import { createPinnedFetch } from './pinned-fetch.ts'
import { readProcessMetrics } from './process-metrics.ts'
import { scheduleEveryMinute } from './schedule.ts'
import { createShutdown } from './shutdown.ts'

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

/** All but the database. */
export function createNodePlatform(env: Record<string, unknown>, config: Config): Platform {
  return {
    storage: createFolderStorage(readUploadsFolder(env)),
    assets: createFolderFiles(DASHBOARD_FOLDER),
    waitUntil: addPendingWork,
    clock: createClock(),
    clientAddress: createAddressReader(readTrustedProxies(env, isRange)),
    foreignFetch: createPinnedFetch(config),
    modelFetch: config.modelPrivateAddresses ? createPinnedFetch({ ...config, allowPrivate: true }) : undefined,
    log: line => console.log(JSON.stringify(line)),
    liveStreams: STREAMS,
    rawBodies: BODIES,
    deliveriesPerRequest: 200,
  }
}

/** `own` replaces parts of the platform. */
export function createHost(env: Record<string, unknown>, own: Partial<Platform> = {}, options: GatewaySettings = {}) {
  const settings = readConfig(env)
  const platform = { ...createNodePlatform(env, settings), ...own }
  const { database, via, gateway, close } = openDatabase(settings.database, {
    prepares: settings.preparesStatements,
    onStatementsLost: () => platform.log({ level: 'warn', notice: STATEMENTS_LOST }),
    ...options,
  })
  const config = { ...settings, database }
  const app = createApp(config, {
    ...platform,
    databaseFetch: via,
    processMetrics: () => readProcessMetrics(gateway),
  })
  return { app, config, gateway, close }
}

/** Serves until SIGINT or SIGTERM. */
export async function serve({ HOST, PORT }: { HOST: string; PORT: number }): Promise<void> {
  const shutdown = createShutdown()
  const limits = readShutdownLimits(process.env)
  const { app, close } = createHost(process.env, {
    draining: shutdown.draining,
    stopping: shutdown.stopping,
    log: createLogWriter(process.stdout),
  })
  await requireReady(app.database)
  await requireRole(app.database, 'DATABASE_URL')
  await requireRole(
    app.database,
    'DATABASE_SYSTEM_URL',
    process.env.DATABASE_SYSTEM_URL ? 'DATABASE_SYSTEM_URL' : 'DATABASE_URL',
  )
  const server = createHttpServer(app.fetch)
  await once(server.listen(PORT, HOST), 'listening').catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'EADDRINUSE'
      ? new Error(`PORT ${PORT} is in use. Set another one.`)
      : new Error(`Cannot listen on HOST ${HOST} and PORT ${PORT}: ${error.message}.`)
  })
  const { address, port, family } = server.address() as { address: string; port: number; family: string }
  const host = family === 'IPv6' ? `[${address}]` : address
  console.log(`Slipway serves http://${host}:${port}. Its dashboard is at /ui, and its API pages at /docs.`)

  const schedule = scheduleEveryMinute(app.housekeep)
  shutdown.onSignal(server, limits, async () => {
    await schedule.stop()
    await finishPendingWork()
    await close()
  })
}
