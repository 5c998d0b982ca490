// Lends a database to each test file while it runs: files run in parallel, and no schedule sweeps another file's rows.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createLogins, type Logins } from '../../src/host/database-logins.ts'
import { createGateway, type GatewayOptions } from '../../src/host/gateway.ts'
import { migrate } from '../../src/host/migrate.ts'
import { query } from './postgres.ts'
import { stripTenantPredicates } from './tenant-predicates.ts'

type GatewayAddress = { url: string; connectionString: string; systemConnectionString: string }
export type Database = {
  name: string
  /** For the owner. */
  url: string
  logins: Logins
  gateway: GatewayAddress
  /** Removes the tenant predicates from every statement. */
  withoutTenantPredicates: GatewayAddress
}

/** A POST borrows a database, a DELETE of its name returns it for the next file. */
export async function startDatabasePool(server: string, onTrip: NonNullable<GatewayOptions['onTrip']>) {
  const withDatabase = (url: string, name: string) => Object.assign(new URL(url), { pathname: name }).href
  const getUrl = (name: string) => withDatabase(server, name)
  await query(server, 'create database template_of_tests')
  await migrate(getUrl('template_of_tests'), { log: () => {} })
  const logins = await createLogins(getUrl('template_of_tests'))

  const free: Database[] = []
  const open: { close(): Promise<void> }[] = []
  const openGateway = async (options: GatewayOptions): Promise<GatewayAddress> => {
    const gateway = createGateway(options)
    open.push(gateway)
    const { connectionString, systemConnectionString } = gateway
    return { ...(await gateway.listen()), connectionString, systemConnectionString }
  }
  let databaseCount = 0
  async function createDatabase(): Promise<Database> {
    const name = `tests_${++databaseCount}`
    await query(server, `create database ${name} template template_of_tests`)
    const url = getUrl(name)
    const ownLogins = { app: withDatabase(logins.app, name), system: withDatabase(logins.system, name) }
    const addresses = { databaseUrl: ownLogins.app, systemUrl: ownLogins.system }
    const gateway = await openGateway({ ...addresses, onTrip })
    return {
      name,
      url,
      logins: ownLogins,
      gateway,
      withoutTenantPredicates: await openGateway({ ...addresses, rewrite: stripTenantPredicates }),
    }
  }
  const lent = new Map<string, Database>()
  const poolServer = createServer(async (request, response) => {
    // A kept-alive connection could time out just when a file returns its database.
    response.setHeader('Connection', 'close')
    if (request.method === 'POST') {
      const database = free.pop() ?? (await createDatabase())
      lent.set(database.name, database)
      return response.end(JSON.stringify(database))
    }
    const returned = lent.get(request.url!.slice(1))
    if (returned && lent.delete(returned.name)) free.push(returned)
    response.end()
  })
  await new Promise<void>(resolve => poolServer.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(poolServer.address() as AddressInfo).port}`,
    async close() {
      poolServer.close()
      await Promise.all(open.map(one => one.close()))
    },
  }
}
