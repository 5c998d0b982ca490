// Owns the database of a run: an embedded Postgres, migrated, a gateway over it that counts, and a tenant to ask as.
import { join } from 'node:path'
import { type BootstrapResult, bootstrap } from '../../src/access/bootstrap.ts'
import { startPostgres } from '../../src/host/embedded-postgres.ts'
import { createGateway } from '../../src/host/gateway.ts'
import { migrate } from '../../src/host/migrate.ts'
import { createHost } from '../../src/host/node.ts'
import type { Cleanup } from './processes.ts'
import { makeTempFolder } from './workerd.ts'

export type BenchDatabase = {
  /** Of Postgres itself. */
  url: string
  gateway: string
  connectionString: string
  /** The trips that Workers have made to the gateway. */
  trips(): number
  /** Its key is the organization's, which may do anything anywhere in it. */
  tenant: BootstrapResult
  /** What a Worker needs to run on it, by way of another address if one is given. */
  bindings(gateway?: string): Record<string, string>
}

export const SEALING_KEYS = `a:${Buffer.alloc(32, 7).toString('base64url')}`

export async function openDatabase(ending: Cleanup): Promise<BenchDatabase> {
  const dataDir = join(await makeTempFolder(ending), 'data')
  // What is measured is our own work: a disk that is shared with others would drown it.
  const starting = startPostgres({ dataDir, durable: false })
  ending.defer(async () => (await starting.catch(() => undefined))?.stop())
  const { url } = await starting
  await migrate(url, { log: () => {} })

  let trips = 0
  const gateway = createGateway({ databaseUrl: url, onTrip: () => void trips++ })
  ending.defer(() => gateway.close())
  const address = (await gateway.listen()).url
  const { connectionString } = gateway
  const bindings = (through = address) => ({
    PUBLIC_URL: 'http://slipway.test',
    DATABASE_URL: connectionString,
    DATABASE_GATEWAY_URL: through,
    SEALING_KEYS,
    RATE_LIMIT_PER_MINUTE: '0',
    EVENTS_PER_DAY: '0',
  })
  const host = createHost({ PUBLIC_URL: 'http://slipway.test', SEALING_KEYS, DATABASE_URL: url }, { log: () => {} })
  const tenant = await bootstrap(host.app.database, { organization: 'Bench', scope: 'organization' })
  await host.close()
  return { url, gateway: address, connectionString, trips: () => trips, tenant, bindings }
}
