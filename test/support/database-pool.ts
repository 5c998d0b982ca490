// A database for each file of tests while it runs, so that files run side by side and no schedule sweeps what is another's.
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
  /** Of the owner. */
  url: string
  logins: Logins
  gateway: GatewayAddress
  /** The same, but with the tenant predicates taken out of every statement. */
  withoutTenantPredicates: GatewayAddress
}

/** Whoever POSTs has a database, until it DELETEs its name; then the next file may have it. */
export async function startDatabasePool(server: string, onTrip: NonNullable<GatewayOptions['onTrip']>) {
  const inside = (url: string, name: string) => Object.assign(new URL(url), { pathname: name }).href
  const at = (name: string) => inside(server, name)
  await query(server, 'create database template_of_tests')
  await migrate(at('template_of_tests'), { log: () => {} })
  const logins = await createLogins(at('template_of_tests'))

  const free: Database[] = []
  const open: { close(): Promise<void> }[] = []
  const way = async (options: GatewayOptions): Promise<GatewayAddress> => {
    const gateway = createGateway(options)
    open.push(gateway)
    const { connectionString, systemConnectionString } = gateway
    return { ...(await gateway.listen()), connectionString, systemConnectionString }
  }
  let made = 0
  async function make(): Promise<Database> {
    const name = `tests_${++made}`
    await query(server, `create database ${name} template template_of_tests`)
    const url = at(name)
    const own = { app: inside(logins.app, name), system: inside(logins.system, name) }
    const addresses = { databaseUrl: own.app, systemUrl: own.system }
    const gateway = await way({ ...addresses, onTrip })
    return {
      name,
      url,
      logins: own,
      gateway,
      withoutTenantPredicates: await way({ ...addresses, rewrite: stripTenantPredicates }),
    }
  }
  const lent = new Map<string, Database>()
  const lender = createServer(async (request, response) => {
    // A connection that is kept is closed after a while, perhaps just when a file gives its database back.
    response.setHeader('Connection', 'close')
    if (request.method === 'POST') {
      const one = free.pop() ?? (await make())
      lent.set(one.name, one)
      return response.end(JSON.stringify(one))
    }
    const back = lent.get(request.url!.slice(1))
    if (back && lent.delete(back.name)) free.push(back)
    response.end()
  })
  await new Promise<void>(resolve => lender.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(lender.address() as AddressInfo).port}`,
    async close() {
      lender.close()
      await Promise.all(open.map(one => one.close()))
    },
  }
}
