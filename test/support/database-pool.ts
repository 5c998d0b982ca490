// Lends a database to each worker, so that files run in parallel, and no schedule sweeps another file's rows.
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createLogins, type Logins } from '../../src/host/database-logins.ts'
import type { PoolOptions } from '../../src/host/database-pools.ts'
import { openGateway as createGateway } from './gateway.ts'
import { connect, query } from './postgres.ts'
import { preferStripped, stripFunctions } from './stripped-functions.ts'
import { keepOwnRole, stripTenantPredicates } from './tenant-predicates.ts'

type GatewayAddress = { url: string; connectionString: string; systemConnectionString: string }
export type Database = {
  name: string
  /** The login of the owner. */
  url: string
  logins: Logins
  gateway: GatewayAddress
  /** Removes the tenant predicates from every statement and function. */
  withoutTenantPredicates: GatewayAddress
  /** Uses the login of the owner, a superuser, whom no policy limits. */
  withoutRowSecurity: GatewayAddress
}

/**
 * Keeps the roles that migrations have made. It deletes from the few tables with pages: to truncate a
 * hundred tables with their indexes took half a second of CPU after every file. The locks wait for what still writes.
 */
const DELETE_ROWS = `do $$
declare
  name text;
begin
  -- Neither foreign keys nor triggers: every row that they could refer to is deleted.
  set local session_replication_role = replica;
  for name in
    select format('%I', tablename)
    from pg_tables
    where schemaname = 'public'
      and tablename <> 'roles'
      and pg_relation_size(format('%I.%I', schemaname, tablename)::regclass) > 0
    order by tablename
  loop
    execute format('lock table %s in exclusive mode', name);
    execute format('delete from %s', name);
  end loop;
  delete from roles where organization_id is not null;
end $$`

/** The rest of the tables are small enough to be read as they are. Vacuum cannot run in a function. */
const LIST_BLOATED = `
  select string_agg(format('%I', tablename), ', ') as names
  from pg_tables
  where schemaname = 'public' and pg_relation_size(format('%I.%I', schemaname, tablename)::regclass) > 500_000`

/** POST makes a database, and DELETE with its name deletes the rows in it. */
export async function startDatabasePool(server: string, onTrip: NonNullable<PoolOptions['onTrip']>) {
  const withDatabase = (url: string, name: string) => Object.assign(new URL(url), { pathname: name }).href
  const getUrl = (name: string) => withDatabase(server, name)
  // The migrated database is `postgres`. A connection to it would prevent the copy.
  await query(getUrl('template1'), 'create database template_of_tests template postgres')
  await stripFunctions(getUrl('template_of_tests'), { isCopy: true })
  const logins = await createLogins(getUrl('template_of_tests'))

  const open: { close(): Promise<void> }[] = []
  const openGateway = async (options: PoolOptions): Promise<GatewayAddress> => {
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
      withoutTenantPredicates: await openGateway({
        ...addresses,
        databaseUrl: preferStripped(ownLogins.app),
        rewrite: stripTenantPredicates,
      }),
      withoutRowSecurity: await openGateway({ ...addresses, databaseUrl: url, rewrite: keepOwnRole }),
    }
  }
  /** By database. A new connection would read the definitions of all tables each time. */
  const deleting = new Map<string, ReturnType<typeof connect>>()
  async function deleteRows(name: string): Promise<void> {
    const connecting = deleting.get(name) ?? connect(getUrl(name))
    deleting.set(name, connecting)
    const client = await connecting
    await client.query(DELETE_ROWS)
    // The server has no autovacuum.
    const { names } = (await client.query<{ names: string | null }>(LIST_BLOATED)).rows[0]!
    if (names) await client.query(`vacuum ${names}`)
  }
  const answer = async ({ method, url }: IncomingMessage) => {
    if (method === 'POST') return JSON.stringify(await createDatabase())
    await deleteRows(url!.slice(1))
    return ''
  }
  const poolServer = createServer((request, response) => {
    // A kept-alive connection could time out just when a worker sends its next request.
    response.setHeader('Connection', 'close')
    answer(request).then(
      text => response.end(text),
      (error: Error) => response.writeHead(500).end(error.message),
    )
  })
  await new Promise<void>(resolve => poolServer.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(poolServer.address() as AddressInfo).port}`,
    async close() {
      poolServer.close()
      await Promise.all([
        ...open.map(one => one.close()),
        ...[...deleting.values()].map(async one => (await one).end()),
      ])
    },
  }
}
