// `npm run db:logins`: creates the app login and the system login of a database, or changes their passwords.
import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { readOwnerUrl } from '../env.ts'
import { connectClient } from './migrate.ts'

export type Logins = { app: string; system: string }

const GRANTS = {
  /** Enters as a caller and cannot become any other role. */
  app: 'slipway_login with inherit true, set true',
  /** Can become the role that sees every workspace. */
  system: 'slipway_system with inherit false, set true',
}

/** Returns the addresses of both logins. Existing logins get new passwords. */
export async function createLogins(ownerUrl: string): Promise<Logins> {
  const client = await connectClient(ownerUrl)
  try {
    const { rows } = await client.query(`select current_database() as name, to_regrole('slipway_login') as role`)
    if (rows[0].role === null) throw new Error('The database has no roles of Slipway. Run `npm run db:migrate` first.')
    const addressOf = async (kind: keyof Logins) => {
      // Roles belong to the server, which may have databases of other installations.
      const login = `${rows[0].name.slice(0, 40)}_${kind}_login`
      const password = randomBytes(24).toString('base64url')
      await createLogin(client, login, password)
      await client.query(`grant ${GRANTS[kind].replace(' with', ` to ${client.escapeIdentifier(login)} with`)}`)
      return Object.assign(new URL(ownerUrl), { username: login, password }).href
    }
    return { app: await addressOf('app'), system: await addressOf('system') }
  } finally {
    await client.end()
  }
}

async function createLogin(client: pg.Client, login: string, password: string): Promise<void> {
  const { rowCount } = await client.query('select from pg_roles where rolname = $1', [login])
  const verb = rowCount === 0 ? 'create' : 'alter'
  await client.query(`${verb} role ${client.escapeIdentifier(login)} login password '${password}'`).catch(error => {
    if (error.code !== '42501') throw error
    throw new Error(
      `This login may not ${verb} ${login}. ` +
        'Set DATABASE_OWNER_URL to the login that owns the tables and may create roles.',
      { cause: error },
    )
  })
}

export async function main(): Promise<void> {
  try {
    const { app, system } = await createLogins(readOwnerUrl(process.env))
    console.log(`DATABASE_URL=${app}\nDATABASE_SYSTEM_URL=${system}`)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}

if (import.meta.main) await main()
