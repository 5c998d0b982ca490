// `slipway logins`: creates the app login and the system login of a database, or changes their passwords.
import { randomBytes } from 'node:crypto'
import { parseArgs } from 'node:util'
import type pg from 'pg'
import { readLoginUrls, readOwnerUrl } from '../env.ts'
import { connectClient } from './migrate.ts'

export type Logins = { app: string; system: string }

const USAGE = `slipway logins [--apply]

Creates the two logins of the database of DATABASE_OWNER_URL, or gives them new passwords, and prints their addresses.
With --apply it prints nothing secret: it creates the logins that DATABASE_URL and DATABASE_SYSTEM_URL name, with the
passwords in these addresses, and leaves those alone that work already.`

const GRANTS = {
  /** Enters as a caller and cannot become any other role. */
  app: 'slipway_login with inherit true, set true',
  /** Can become the role that sees every workspace. */
  system: 'slipway_system with inherit false, set true',
}
const ROLES = { app: 'slipway_app', system: 'slipway_system' }
const SETTINGS = { app: 'DATABASE_URL', system: 'DATABASE_SYSTEM_URL' }
const KINDS = ['app', 'system'] as const

/** Returns the addresses of both logins. Existing logins get new passwords. */
export async function createLogins(ownerUrl: string): Promise<Logins> {
  const client = await connectClient(ownerUrl)
  try {
    const database = await readDatabaseName(client)
    const addressOf = async (kind: keyof Logins) => {
      // Roles belong to the server, which may have databases of other installations.
      const login = { name: `${database.slice(0, 40)}_${kind}_login`, password: randomBytes(24).toString('base64url') }
      await createLogin(client, kind, login)
      return Object.assign(new URL(ownerUrl), { username: login.name, password: login.password }).href
    }
    return { app: await addressOf('app'), system: await addressOf('system') }
  } finally {
    await client.end()
  }
}

/** Creates the logins of the addresses, with their passwords. Returns those that did not work before. */
export async function applyLogins(ownerUrl: string, addresses: Logins): Promise<(keyof Logins)[]> {
  refuseSharedLogins(ownerUrl, addresses)
  const faults: (string | undefined)[] = []
  for (const kind of KINDS) faults.push(await findLoginFault(kind, addresses[kind]))
  const broken = KINDS.filter((_, i) => faults[i])
  if (broken.length === 0) return broken
  const client = await connectClient(ownerUrl)
  try {
    await readDatabaseName(client)
    for (const kind of broken) {
      const { username, password } = new URL(addresses[kind])
      if (!username || !password)
        throw new Error(`${SETTINGS[kind]} has no user or no password. Set postgres://user:password@host/database.`)
      await createLogin(client, kind, { name: decodeURIComponent(username), password: decodeURIComponent(password) })
    }
  } finally {
    await client.end()
  }
  for (const kind of broken) {
    const fault = await findLoginFault(kind, addresses[kind])
    if (fault) throw new Error(`The login of ${SETTINGS[kind]} was created and does not work: ${fault}`)
  }
  return broken
}

/** Says why the login cannot do its work, if it cannot. */
async function findLoginFault(kind: keyof Logins, url: string): Promise<string | undefined> {
  try {
    const client = await connectClient(url)
    await client.query(`set role ${ROLES[kind]}`).finally(() => client.end())
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

/** The owner can do everything, and so must not serve requests. */
function refuseSharedLogins(ownerUrl: string, addresses: Logins): void {
  const names = [ownerUrl, addresses.app, addresses.system].map(url => new URL(url).username)
  if (new Set(names).size < names.length)
    throw new Error('DATABASE_OWNER_URL, DATABASE_URL and DATABASE_SYSTEM_URL must each have a user of its own.')
}

async function readDatabaseName(client: pg.Client): Promise<string> {
  const { rows } = await client.query(`select current_database() as name, to_regrole('slipway_login') as role`)
  if (rows[0].role === null) throw new Error('The database has no roles of Slipway. Run `npm run db:migrate` first.')
  return rows[0].name
}

async function createLogin(
  client: pg.Client,
  kind: keyof Logins,
  { name, password }: { name: string; password: string },
): Promise<void> {
  const { rowCount } = await client.query('select from pg_roles where rolname = $1', [name])
  const verb = rowCount === 0 ? 'create' : 'alter'
  const role = client.escapeIdentifier(name)
  await client.query(`${verb} role ${role} login password ${client.escapeLiteral(password)}`).catch(error => {
    if (error.code !== '42501') throw error
    throw new Error(
      `This login may not ${verb} ${name}. ` +
        'Set DATABASE_OWNER_URL to the login that owns the tables and may create roles.',
      { cause: error },
    )
  })
  await client.query(`grant ${GRANTS[kind].replace(' with', ` to ${role} with`)}`)
}

export async function main(): Promise<void> {
  try {
    const { values } = parseArgs({ options: { apply: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } } })
    if (values.help) return console.log(USAGE)
    if (values.apply) {
      const created = await applyLogins(readOwnerUrl(process.env), readLoginUrls(process.env))
      for (const kind of KINDS) console.log(`login ${created.includes(kind) ? 'created' : 'works'} kind=${kind}`)
      return
    }
    const { app, system } = await createLogins(readOwnerUrl(process.env))
    console.log(`DATABASE_URL=${app}\nDATABASE_SYSTEM_URL=${system}`)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}

if (import.meta.main) await main()
