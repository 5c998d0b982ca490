// The database of a run: an embedded Postgres, migrated, with one tenant. And a gateway before any database, which
// counts round trips.
import { join } from 'node:path'
import { openPools } from '../../../src/host/database-pools.ts'
import { startPostgres } from '../../../src/host/embedded-postgres.ts'
import { createGateway } from '../../../src/host/gateway.ts'
import { createHost } from '../../../src/host/host.ts'
import { migrate } from '../../../src/host/migrate.ts'
import { ROWS_PATH } from '../../../src/kernel/db/gateway.ts'
import { type BootstrapResult, bootstrap } from '../../../src/people/access/bootstrap.ts'
import { makeTripCounter } from '../../support/trips.ts'
import type { Cleanup } from './processes.ts'
import { makeTempFolder } from './workerd.ts'

export type ServedDatabase = {
  /** Postgres itself. */
  url: string
  /** Its server's process. */
  pid: number
  gateway: string
  connectionString: string
  /** Round trips through the gateway: all, and of the request with this id, which begins with `trip-`. */
  trips(): number
  tripsOf(requestId: string): number
  /** The settings of a Worker that uses it, through `gateway` or a proxy before it. */
  bindings(gateway?: string): Record<string, string>
}
/** The key is the organization's, which may do everything. */
export type BenchDatabase = ServedDatabase & { tenant: BootstrapResult }

export const SEALING_KEYS = `a:${Buffer.alloc(32, 7).toString('base64url')}`
/** The highest limits that there are: each request is counted as by default, and none is refused. */
export const SETTINGS = {
  PUBLIC_URL: 'http://slipway.test',
  SEALING_KEYS,
  RATE_LIMIT_PER_MINUTE: '1000000',
  INGESTION_RATE_LIMIT_PER_MINUTE: '1000000',
  DATABASE_SECONDS_PER_MINUTE: '1000000',
  EVENTS_PER_DAY: '1000000000',
}
/** Nothing is counted. */
export const WITHOUT_LIMITS = {
  RATE_LIMIT_PER_MINUTE: '0',
  INGESTION_RATE_LIMIT_PER_MINUTE: '0',
  DATABASE_SECONDS_PER_MINUTE: '0',
  EVENTS_PER_DAY: '0',
}

export async function openDatabase(cleanup: Cleanup): Promise<BenchDatabase> {
  const dataDir = join(await makeTempFolder(cleanup), 'data')
  // The disk is shared with other machines: waiting for it would hide our own work.
  const starting = startPostgres({ dataDir, durable: false })
  cleanup.defer(async () => (await starting.catch(() => undefined))?.stop())
  const { url, pid } = await starting
  await migrate(url, { log: () => {} })
  const tenant = await makeTenant(url, { organization: 'Bench', scope: 'organization' })
  return { ...(await serveDatabase(cleanup, url, pid)), tenant }
}

export async function serveDatabase(cleanup: Cleanup, url: string, pid: number): Promise<ServedDatabase> {
  let trips = 0
  const counter = makeTripCounter()
  const onTrip: typeof counter.onTrip = trip => {
    trips++
    counter.onTrip(trip)
  }
  const pools = openPools({ databaseUrl: url, onTrip })
  cleanup.defer(() => pools.close())
  const gateway = createGateway(pools)
  cleanup.defer(() => gateway.close())
  const address = (await gateway.listen()).url
  const { connectionString } = gateway
  const tripsOf = (requestId: string) => counter.trips.get(requestId) ?? 0
  const bindings = (through = address) => ({
    ...SETTINGS,
    DATABASE_URL: connectionString,
    DATABASE_GATEWAY_URL: through + ROWS_PATH,
  })
  return { url, pid, gateway: address, connectionString, trips: () => trips, tripsOf, bindings }
}

export async function makeTenant(url: string, tenant: Parameters<typeof bootstrap>[1]): Promise<BootstrapResult> {
  const { app, close } = createHost({ ...SETTINGS, DATABASE_URL: url }, { log: () => {} })
  return bootstrap(app.database, tenant).finally(close)
}
