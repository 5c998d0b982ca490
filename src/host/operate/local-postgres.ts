// The Postgres of this machine, as Debian installs it: the user postgres is its superuser on its socket.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'

/** The name of the database and of its owner. */
const NAME = 'slipway'
/** The comment of the role. A role without it belongs to another program, and keeps its password. */
const COMMENT = 'created by slipway up'

/** The statements come on standard input: arguments are visible to every user. */
function psql(statements: string): string {
  const args = ['-u', 'postgres', '--', 'psql', '--no-psqlrc', '--quiet', '-At', '-v', 'ON_ERROR_STOP=1', '-f', '-']
  return execFileSync('runuser', args, {
    encoding: 'utf8',
    input: statements,
    stdio: ['pipe', 'pipe', 'pipe'],
    cwd: '/',
  }).trim()
}

/** Its `server_version_num`. Undefined if none answers. */
export function localPostgresVersion(): number | undefined {
  try {
    return Number(psql('show server_version_num'))
  } catch {
    return undefined
  }
}

const findRole = () =>
  psql(`select coalesce(shobj_description(oid, 'pg_authid'), '-') from pg_roles where rolname = '${NAME}'`)
const findOwner = () => psql(`select pg_get_userbyid(datdba) from pg_database where datname = '${NAME}'`)

/** Refuses a role or a database that another program has created. */
export function checkLocalNames(): string[] {
  const advice = 'Name the database to use with --database-url.'
  const [role, owner] = [findRole(), findOwner()]
  return [
    ...(['', COMMENT].includes(role) ? [] : [`Postgres has a role ${NAME} of another program. ${advice}`]),
    ...(['', NAME].includes(owner) ? [] : [`Postgres has a database ${NAME} of the role ${owner}. ${advice}`]),
  ]
}

/** Creates the database and its owner, and returns the owner's address. A run that was interrupted is repeated. */
export function createLocalDatabase(): string {
  const password = randomBytes(24).toString('base64url')
  if (findRole() === COMMENT) psql(`alter role ${NAME} password '${password}'`)
  else
    psql(`
      begin;
      create role ${NAME} login createrole password '${password}';
      comment on role ${NAME} is '${COMMENT}';
      commit`)
  if (findOwner() === '') psql(`create database ${NAME} owner ${NAME}`)
  return `postgres://${NAME}:${password}@127.0.0.1:${psql('show port')}/${NAME}`
}
