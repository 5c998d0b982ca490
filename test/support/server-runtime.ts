// The app on Node, Deno and Bun. Its connections are those of `npm start`, but shared by all apps of this worker: to
// open one costs more than most requests.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createApp } from '../../src/app.ts'
import { readConfig } from '../../src/env.ts'
import { openPools } from '../../src/host/database-pools.ts'
import { createHost, createServerPlatform } from '../../src/host/host.ts'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { createPinnedFetch } from '../../src/host/pinned-fetch.ts'
import type { Overrides } from './app.ts'
import { onFileEnd } from './file-state.ts'
import { preferStripped } from './stripped-functions.ts'
import { keepOwnRole, stripTenantPredicates } from './tenant-predicates.ts'
import { makeTripCounter } from './trips.ts'
import { database } from './worker-database.ts'

const { trips, onTrip } = makeTripCounter()
const logins = { databaseUrl: database.logins.app, systemUrl: database.logins.system }
const options = { ...logins, onTrip }
const poolsOf = {
  gateway: openPools(options),
  withoutTenantPredicates: openPools({
    ...options,
    databaseUrl: preferStripped(logins.databaseUrl),
    rewrite: stripTenantPredicates,
  }),
  withoutRowSecurity: openPools({ ...options, databaseUrl: database.url, rewrite: keepOwnRole }),
}
/** Hosts whose settings name another database, such as one that cannot be reached. */
const hosts: ReturnType<typeof createHost>[] = []
onFileEnd(async () => {
  await finishPendingWork()
  await Promise.all(hosts.splice(0).map(host => host.close()))
})

let uploadsFolder: string | undefined
onFileEnd(() => {
  if (uploadsFolder) rmSync(uploadsFolder, { recursive: true, force: true, maxRetries: 9 })
  uploadsFolder = undefined
})

export function startRuntime(settings: Record<string, unknown>, overrides: Overrides, through: keyof typeof poolsOf) {
  uploadsFolder ??= mkdtempSync(join(tmpdir(), 'slipway-uploads-'))
  if (settings.DATABASE_URL) {
    const host = createHost({ UPLOADS_DIR: uploadsFolder, ...settings }, overrides, { onTrip })
    hosts.push(host)
    return host.app
  }
  const { connections } = poolsOf[through]
  const env: Record<string, unknown> = { DATABASE_URL: logins.databaseUrl, UPLOADS_DIR: uploadsFolder, ...settings }
  const config = { ...readConfig(env), ...overrides }
  return createApp(config, { ...createServerPlatform(env, config), databaseConnections: connections, ...overrides })
}

/** Reaches the servers of this machine, too. */
export const localFetch = createPinnedFetch({ allowLoopback: true })

export const countTrips = async (requestId: string): Promise<number> => trips.get(requestId) ?? 0
