// The Postgres of this machine, as Debian installs it: the user postgres is its superuser on its socket.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'

const DATABASE = 'slipway'

/** The statements come on standard input: arguments are visible to every user. */
function psql(statements: string): string {
  const args = ['-u', 'postgres', '--', 'psql', '--no-psqlrc', '--quiet', '-At', '-v', 'ON_ERROR_STOP=1', '-f', '-']
  return execFileSync('runuser', args, {
    encoding: 'utf8',
    input: statements,
    stdio: ['pipe', 'pipe', 'pipe'],
    cwd: '/',
  })
}

/** Its major version. Undefined if none answers. */
export function hasLocalPostgres(): number | undefined {
  try {
    return Math.trunc(Number(psql('show server_version_num')) / 10_000)
  } catch {
    return undefined
  }
}

/** Creates the database and its owner, and returns the owner's address. An owner that exists gets a new password. */
export function createLocalDatabase(): string {
  const password = randomBytes(24).toString('base64url')
  const exists = (catalog: string, name: string) =>
    psql(`select 1 from ${catalog} where ${name} = '${DATABASE}'`) !== ''
  const verb = exists('pg_roles', 'rolname') ? 'alter' : 'create'
  psql(`${verb} role ${DATABASE} login createrole password '${password}'`)
  if (!exists('pg_database', 'datname')) psql(`create database ${DATABASE} owner ${DATABASE}`)
  return `postgres://${DATABASE}:${password}@127.0.0.1:${psql('show port').trim()}/${DATABASE}`
}
