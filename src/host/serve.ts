// Serves the app in a process of Node, Deno or Bun, until a signal ends it.
import { once } from 'node:events'
import type { Server } from 'node:http'
import { readShutdownLimits, readSystemUrl } from '../env.ts'
import { loadOnce } from '../kernel/http/load-once.ts'
import type { Platform } from '../platform.ts'
import type { ReadPeer } from './client-address.ts'
import { isNeonUrl, requireReady, requireRole } from './database-connection.ts'
import { createHost } from './host.ts'
import { createHttpServer, loadSlices } from './http-server.ts'
import { createLogWriter, type Output } from './log-writer.ts'
import { connectClient } from './migrate.ts'
import type { SealingKeys } from './operate/manifest.ts'
import { finishPendingWork } from './pending-work.ts'
import { type Schedule, scheduleLooks } from './schedule.ts'
import { createShutdown } from './shutdown.ts'
import { takeSockets } from './sockets.ts'

/** The differences between the runtimes. */
export type Runtime = {
  /** Runs the scheduled work every minute. */
  schedule: (work: () => Promise<unknown>) => Schedule
  resolveTxt?: Platform['resolveTxt']
  readPeer?: ReadPeer | undefined
  /** Takes log lines. */
  output?: Output
}

/** Serves until SIGINT or SIGTERM. */
export async function serve(
  { HOST, PORT }: { HOST: string; PORT: number },
  { schedule, resolveTxt, readPeer, output = process.stdout }: Runtime,
): Promise<void> {
  const { draining, stopping, onSignal } = createShutdown()
  const limits = readShutdownLimits(process.env)
  const own = { draining, stopping, log: createLogWriter(output), resolveTxt }
  const { app, config, close } = createHost(process.env, own, { readPeer })
  const prepare = loadOnce(async () => {
    await requireReady(app.database)
    await requireRole(app.database, 'DATABASE_URL')
    await requireRole(
      app.database,
      'DATABASE_SYSTEM_URL',
      process.env.DATABASE_SYSTEM_URL ? 'DATABASE_SYSTEM_URL' : 'DATABASE_URL',
    )
    await checkSealingKeys(process.env, config.sealingKeys, own.log)
    await loadSlices()
  })
  const server = createHttpServer(app.fetch, {}, prepare)
  takeSockets(server, app, prepare)
  await once(server.listen(PORT, HOST), 'listening').catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'EADDRINUSE'
      ? new Error(`PORT ${PORT} is in use. Set another one.`)
      : new Error(
          `Cannot listen on HOST ${HOST} and PORT ${PORT}: ${error.message}. ` +
            'Set HOST to an address of this machine, and PORT to a port that this user may take.',
        )
  })
  await prepare()
  console.log(`Slipway serves ${describeAddress(server)}. Its dashboard is at /ui, and its API pages at /docs.`)

  const scheduled = schedule(app.housekeep)
  const looks = scheduleLooks(app.look)
  onSignal(server, limits, async () => {
    await Promise.all([scheduled.stop(), looks.stop()])
    await finishPendingWork()
    await close()
  })
}

async function checkSealingKeys(env: NodeJS.ProcessEnv, keys: SealingKeys, log: Platform['log']): Promise<void> {
  const url = readSystemUrl(env)
  // Neon may be reached by https alone.
  if (isNeonUrl(url)) return
  const { requireSealingKeys } = await import('./operate/sealing-key-check.ts')
  const client = await connectClient(url)
  const { missing } = await requireSealingKeys(client, keys).finally(() => client.end())
  if (missing.length > 0)
    log({
      level: 'warn',
      notice:
        `Values in the database need ${missing.join(', ')}, which SEALING_KEYS does not have. Add the key, or enter ` +
        'these values again. `slipway reseal --check` counts them.',
    })
}

function describeAddress(server: Server): string {
  const bound = server.address()
  // Deno Deploy has the server listen on a socket of its own.
  if (bound === null || typeof bound === 'string') return bound ?? 'requests of the platform'
  return `http://${bound.family === 'IPv6' ? `[${bound.address}]` : bound.address}:${bound.port}`
}
