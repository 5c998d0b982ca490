// The checks of `slipway up` before it changes anything. Every fault is a sentence that says what to do.
import { execFileSync } from 'node:child_process'
import { Resolver } from 'node:dns/promises'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createServer } from 'node:net'
import { networkInterfaces, totalmem } from 'node:os'
import { dirname } from 'node:path'
import type pg from 'pg'
import { connectClient } from '../migrate.ts'
import { findPostgresFault } from '../postgres-version.ts'
import { checkLocalNames, localPostgresVersion } from './local-postgres.ts'
import { HEADER, PORTS, UNIT_NAMES, unitFile } from './systemd-units.ts'
import type { UpOptions } from './up-options.ts'

const MIN_MEMORY_MIB = 900
const MIN_DISK_GIB = 5

/** Other characters are quotes, variables and specifiers of systemd, or end an argument. */
const UNIT_PATH = /^[A-Za-z0-9_./@:+,=~-]+$/

export type Place = { root: string; node: string; caddy: string | undefined }

export async function checkMachine(options: UpOptions, place: Place): Promise<string[]> {
  const found = await Promise.all([
    checkHost(),
    checkPlace(place),
    findForeignUnits().map(path => `${path} was not written by \`slipway up\`. Stop that unit and rename it.`),
    checkCaddy(place.caddy),
    checkPort(80, 'slipway-proxy'),
    checkPort(443, 'slipway-proxy'),
    checkPort(PORTS.controlPlane, 'slipway'),
    checkDns(options),
    checkDatabase(options.databaseUrl),
  ])
  return found.flat()
}

function checkHost(): string[] {
  const faults: string[] = []
  if (process.platform !== 'linux') return ['This is not Linux. Use a Linux machine, or docs/operate/self-host.md.']
  if (process.getuid?.() !== 0) faults.push('It needs root. Run it with sudo.')
  if (!fs.existsSync('/run/systemd/system'))
    faults.push('systemd does not run here. In a container, use docs/operate/images.md or docs/operate/self-host.md.')
  const memory = totalmem() / 1024 ** 2
  if (memory < MIN_MEMORY_MIB) faults.push(`The machine has ${Math.round(memory)} MiB of memory. 1 GiB is the least.`)
  const { bavail, bsize } = fs.statfsSync('/var/lib')
  const free = (bavail * bsize) / 1024 ** 3
  if (free < MIN_DISK_GIB) faults.push(`/var/lib has ${free.toFixed(1)} GiB free. ${MIN_DISK_GIB} GiB are the least.`)
  for (const program of ['git', 'setpriv', 'flock', 'useradd'])
    if (!findProgram(program)) faults.push(`${program} is missing. Install the packages git, util-linux and passwd.`)
  return faults
}

/** The control plane runs as a user of its own, who sees no home folders. */
export function checkPlace({ root, node, caddy }: Place): string[] {
  return [['The project', root], ['Node', node], ...(caddy ? [['Caddy', caddy]] : [])].flatMap(([what, path]) => {
    const real = fs.realpathSync(path!)
    if (!UNIT_PATH.test(real)) return [`${what} is in ${real}, which a unit of systemd cannot name. Rename the folder.`]
    if (/^\/(home|root|run\/user|tmp|var\/tmp)\//.test(`${real}/`))
      return [`${what} is in ${real}, where its user cannot read it. Move it, for example to /opt/slipway.`]
    const closed = parentsOf(real).find(folder => (fs.statSync(folder).mode & 0o005) !== 0o005)
    return closed ? [`${what} is below ${closed}, which other users cannot enter: chmod o+rx ${closed}`] : []
  })
}

export const findForeignUnits = (folder?: string): string[] =>
  UNIT_NAMES.map(name => unitFile(name, folder)).filter(
    path => fs.existsSync(path) && !fs.readFileSync(path, 'utf8').startsWith(HEADER),
  )

const parentsOf = (path: string): string[] => (path === '/' ? ['/'] : [path, ...parentsOf(dirname(path))])

function checkCaddy(caddy: string | undefined): string[] {
  if (!caddy)
    return [
      'Caddy is missing. Install it: apt-get install caddy && systemctl disable --now caddy (or caddyserver.com).',
    ]
  // Some builds do not know their version.
  const version = run(caddy, ['version'])?.trim() ?? ''
  const isOld = /^v?(1\.|2\.[0-5]\.)/.test(version)
  return isOld ? [`Caddy ${version} is too old. Install 2.6 or newer.`] : []
}

async function checkPort(port: number, unit: string): Promise<string[]> {
  const server = createServer()
  try {
    await once(server.listen(port, '0.0.0.0'), 'listening')
    return []
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EADDRINUSE' || isActive(unit)) return []
    return [`Port ${port} is taken${nameListener(port)}. Stop that program, for example: systemctl disable --now caddy`]
  } finally {
    server.close()
  }
}

function nameListener(port: number): string {
  const line = run('ss', ['-Hltnp', `sport = :${port}`]) ?? ''
  const name = /\(\("([^"]+)",pid=(\d+)/.exec(line)
  return name ? ` by ${name[1]} (process ${name[2]})` : ''
}

async function checkDns({ domain, appsDomain, addresses }: UpOptions): Promise<string[]> {
  if (domain === '' || appsDomain === '') return []
  const here = addresses.length > 0 ? addresses : ownAddresses()
  const names = [
    [domain, domain],
    [`slipway-check.${appsDomain}`, `*.${appsDomain}`],
  ] as const
  const faults = names.map(async ([host, record]) => {
    const found = await resolveAddresses(host)
    if (found === undefined) return [`DNS does not answer for ${record}. Check /etc/resolv.conf.`]
    if (found.length === 0) return [`${record} has no address in DNS. Create an A record with ${here[0]}.`]
    if (found.some(address => here.includes(address))) return []
    const advice = 'Correct the record, or name the public address of this machine with --address.'
    return [`${record} leads to ${found.join(', ')}, and this machine has ${here.join(', ')}. ${advice}`]
  })
  return (await Promise.all(faults)).flat()
}

const ownAddresses = (): string[] =>
  Object.values(networkInterfaces()).flatMap(list =>
    (list ?? []).flatMap(({ internal, address, scopeid }) => (internal || scopeid ? [] : [address])),
  )

/** From DNS and not from /etc/hosts, as an authority does. Undefined if no resolver answers. */
async function resolveAddresses(host: string): Promise<string[] | undefined> {
  const resolver = new Resolver({ timeout: 2_000, tries: 2 })
  const none = ({ code }: NodeJS.ErrnoException) => (['ENOTFOUND', 'ENODATA'].includes(code ?? '') ? [] : undefined)
  const found = await Promise.all([resolver.resolve4(host).catch(none), resolver.resolve6(host).catch(none)])
  return found.every(list => list === undefined) ? undefined : found.flatMap(list => list ?? [])
}

async function checkDatabase(url: string | undefined): Promise<string[]> {
  if (url === undefined) return checkLocalPostgres()
  let client: pg.Client | undefined
  try {
    client = await connectClient(url)
    const { rows } = await client.query(`
      select current_setting('server_version_num') as version, rolcreaterole or rolsuper as can_create
      from pg_roles
      where rolname = current_user`)
    const { version, can_create } = rows[0]
    const fault = findPostgresFault(Number(version))
    return [
      ...(fault ? [fault] : []),
      ...(can_create ? [] : ['The login of --database-url may not create roles: alter role … createrole.']),
    ]
  } catch (error) {
    return [(error as Error).message]
  } finally {
    await client?.end()
  }
}

function checkLocalPostgres(): string[] {
  const version = localPostgresVersion()
  if (version === undefined)
    return ['No Postgres answers on this machine. Install Postgres 17 or newer, or name one with --database-url.']
  const fault = findPostgresFault(version)
  return fault ? [fault] : checkLocalNames()
}

// ---- programs

export function run(program: string, args: string[]): string | undefined {
  try {
    return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  } catch {
    return undefined
  }
}

export const isActive = (unit: string): boolean => run('systemctl', ['is-active', `${unit}.service`]) !== undefined

export function findProgram(name: string): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(':'), '/usr/local/sbin', '/usr/sbin', '/sbin']
  return folders
    .filter(folder => folder.startsWith('/') && !folder.includes('node_modules'))
    .map(folder => `${folder}/${name}`)
    .find(path => fs.statSync(path, { throwIfNoEntry: false })?.isFile())
}
