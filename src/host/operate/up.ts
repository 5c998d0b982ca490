// `slipway up`: installs Slipway on this machine and serves it in public. A second run changes only what differs.
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import * as https from 'node:https'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { readSealingKeys } from '../../env.ts'
import { VERSION } from '../../kernel/version.ts'
import { createLogins } from '../database-logins.ts'
import { connectClient, migrate } from '../migrate.ts'
import { inSystemTransaction } from '../transaction.ts'
import { hasOrganizations } from './load-backup.ts'
import { createLocalDatabase } from './local-postgres.ts'
import { requireSealingKeys } from './sealing-key-check.ts'
import { PORTS, UNIT_NAMES, type UnitPaths } from './systemd-units.ts'
import { checkMachine, findProgram, isActive, type Place, run } from './up-checks.ts'
import { describeFiles, hasChanged, maskSecrets, SECRET_NAMES, type Secrets, writeFile } from './up-files.ts'
import { FILES, type Installed, readInstalled, readOptions, type UpOptions, USAGE } from './up-options.ts'
import { lockRun, openPendingRestarts } from './up-run.ts'

const ROOT = fs.realpathSync(fileURLToPath(new URL('../../..', import.meta.url)))
/** They run the project's code. */
const CODE_UNITS = ['slipway', 'slipway-agent'] as const
const CONTROL_PLANE = `http://127.0.0.1:${PORTS.controlPlane}`
const LISTENER = 'this-machine'
const WAIT_MS = 180_000
const step = (text: string) => console.log(`- ${text}`)

export const main = (): Promise<void> =>
  runUp().catch((error: Error) => {
    console.error(error.message)
    process.exitCode = 1
  })

async function runUp(): Promise<void> {
  const installed = readInstalled()
  const read = readOptions(process.argv.slice(2), installed)
  if (!read) return console.log(USAGE)
  const { options } = read
  const place: Place = { root: ROOT, node: process.execPath, caddy: findProgram('caddy') }
  const paths = { ...place, caddy: place.caddy ?? '/usr/bin/caddy' }
  const secrets = readSecrets(options, installed)
  if (options.mode === 'print') {
    if (read.faults.length > 0) return refuse(read.faults)
    const placeholders = Object.fromEntries(SECRET_NAMES.map(name => [name, 'CREATED_BY_UP'])) as Secrets
    for (const { path, text, mode } of describeFiles(options, paths, { ...placeholders, ...secrets }, installed))
      console.log(`# ${path} (mode ${mode.toString(8)})\n${maskSecrets(text)}`)
    return
  }
  const faults = [...read.faults, ...(await checkMachine(options, place))]
  if (faults.length > 0) return refuse(faults)
  if (options.mode === 'check') {
    const changed = describeFiles(options, paths, secrets, installed).filter(hasChanged)
    const idle = UNIT_NAMES.filter(unit => !isActive(unit))
    console.log('Nothing is missing on this machine.')
    for (const { path } of changed) console.log(`\`slipway up\` would write ${path}.`)
    for (const unit of idle) console.log(`\`slipway up\` would start ${unit}.`)
    return
  }
  lockRun()
  // Another run may have ended since the files were read.
  await install(options, paths, readSecrets(options, readInstalled()))
}

function refuse(faults: string[]): void {
  console.error(`Nothing was changed. Correct these first:\n${faults.map(fault => `- ${fault}`).join('\n')}`)
  process.exitCode = 1
}

function readSecrets({ databaseUrl }: UpOptions, { owner, controlPlane, agent }: Installed): Partial<Secrets> {
  // Another database has other logins and keys.
  const isSame = databaseUrl === undefined || databaseUrl === owner.values.get('DATABASE_OWNER_URL')
  const known = {
    ownerUrl: databaseUrl,
    sealingKeys: controlPlane.values.get('SEALING_KEYS'),
    ...(isSame && {
      appUrl: controlPlane.values.get('DATABASE_URL'),
      systemUrl: controlPlane.values.get('DATABASE_SYSTEM_URL'),
      listenerKey: agent.values.get('SLIPWAY_LISTENER_KEY'),
    }),
  }
  return Object.fromEntries(Object.entries(known).filter(([, value]) => value))
}

/** Each secret is in its file before the next step, so that a run that fails can be repeated. */
async function install(options: UpOptions, paths: UnitPaths, secrets: Partial<Secrets>): Promise<void> {
  const pending = openPendingRestarts()
  let writes = 0
  const write = () => {
    for (const file of describeFiles(options, paths, secrets, readInstalled()).filter(hasChanged)) {
      if (file.unit) pending.add(file.unit)
      writeFile(file)
      writes++
      step(`written: ${file.path}`)
    }
  }
  for (const user of ['slipway', 'slipway-proxy']) {
    if (run('id', ['-u', user]) !== undefined) continue
    if (
      run('useradd', ['--system', '--user-group', '--no-create-home', '--shell', '/usr/sbin/nologin', user]) ===
      undefined
    )
      throw new Error(`The user ${user} was not created. Run useradd --system ${user} to see why.`)
    step(`user created: ${user}`)
    writes++
  }
  if (!secrets.ownerUrl) {
    secrets.ownerUrl = createLocalDatabase()
    step('database created: slipway')
  }
  await refuseForeignInstallation(secrets.ownerUrl, secrets.sealingKeys)
  write()
  const applied = await migrate(secrets.ownerUrl, { log: () => {} })
  if (applied.length > 0) step(`migrations applied: ${applied.length}`)
  if (!secrets.appUrl || !secrets.systemUrl) {
    const { app, system } = await createLogins(secrets.ownerUrl)
    Object.assign(secrets, { appUrl: app, systemUrl: system })
    step('logins of the database created')
  }
  secrets.sealingKeys ??= `k1:${randomBytes(32).toString('base64url')}`
  write()
  const isFirst = !secrets.listenerKey
  if (isFirst) secrets.listenerKey = await createFirstKeys(options, secrets.systemUrl!)
  write()
  if (applied.length > 0 || (await isOtherVersionRunning())) for (const unit of CODE_UNITS) pending.add(unit)
  const started = startUnits(pending)
  if (writes + applied.length + started === 0) console.log('Nothing to change.')
  await waitUntilServed(options.domain)
  console.log(`https://${options.domain} serves.`)
  if (isFirst) console.log(describeNextSteps(options))
}

/** New keys would open none of its secrets, and new logins would lock out the installation that it belongs to. */
async function refuseForeignInstallation(ownerUrl: string, sealingKeys: string | undefined): Promise<void> {
  if (!(await hasOrganizations(ownerUrl))) return
  if (!sealingKeys)
    throw new Error(
      `The database belongs to an installation, and ${FILES.controlPlane} has no SEALING_KEYS. Copy /etc/slipway of ` +
        'that installation to this machine, or name an empty database with --database-url.',
    )
  const client = await connectClient(ownerUrl)
  const keys = readSealingKeys({ SEALING_KEYS: sealingKeys })
  const { isProved, missing } = await requireSealingKeys(client, keys).finally(() => client.end())
  if (!isProved && missing.length > 0)
    throw new Error(
      `The database belongs to another installation: its values need the key ${missing.join(', ')}, which ` +
        `SEALING_KEYS of ${FILES.controlPlane} does not have. Name the database of this installation, or an empty ` +
        'one, with --database-url.',
    )
}

async function createFirstKeys({ domain, email, organization }: UpOptions, systemUrl: string): Promise<string> {
  // A run that was killed here has created it, perhaps under the name of an option that this run does not have.
  const name = (await readFirstOrganization(systemUrl)) ?? organization
  const { openSystemDatabase } = await import('../database-connection.ts')
  const { bootstrap } = await import('../../people/access/bootstrap.ts')
  const { createOperatorLink, linkUrl } = await import('../../people/sign-in/links.ts')
  const { registerPlatformListener } = await import('../../hosting/listeners/platform-listener.ts')
  const { database, close } = await openSystemDatabase(systemUrl, 'DATABASE_SYSTEM_URL')
  try {
    const { api_key, organization_id } = await bootstrap(database, { organization: name, emails: [email] })
    const token = await createOperatorLink(database, { organization_id, email })
    console.log(`\nAPI key       ${api_key}`)
    if (token) console.log(`Sign-in link  ${linkUrl(`https://${domain}`, token)}`)
    console.log('Store the key now: it is shown only once. The link is valid for 15 minutes.\n')
    const listener = { organization_id, compute_id: LISTENER, compute_type: 'local' as const }
    return (await registerPlatformListener(database, listener)).listener_key
  } finally {
    await close()
  }
}

async function readFirstOrganization(systemUrl: string): Promise<string | undefined> {
  const client = await connectClient(systemUrl)
  try {
    const { rows } = await inSystemTransaction(client, () =>
      client.query('select display_name from organizations order by created_at limit 1'),
    )
    return rows[0]?.display_name
  } finally {
    await client.end()
  }
}

async function isOtherVersionRunning(): Promise<boolean> {
  const running = await fetch(`${CONTROL_PLANE}/healthz`, { signal: AbortSignal.timeout(5_000) })
    .then(answer => answer.json() as Promise<{ version?: string }>)
    .catch(() => undefined)
  return running !== undefined && running.version !== VERSION
}

/** The number of units that were started or restarted. */
function startUnits(pending: ReturnType<typeof openPendingRestarts>): number {
  const units = UNIT_NAMES.filter(unit => pending.has(unit) || !isActive(unit))
  if (units.length > 0) systemctl('daemon-reload')
  for (const unit of units) {
    systemctl('enable', '--quiet', unit)
    systemctl('restart', unit)
    pending.remove(unit)
    step(`started: ${unit}`)
  }
  return units.length
}

function systemctl(...args: string[]): void {
  if (run('systemctl', args) === undefined)
    throw new Error(`systemctl ${args.join(' ')} failed. Run \`systemctl status ${args.at(-1)}\` to see why.`)
}

async function waitUntilServed(domain: string): Promise<void> {
  const deadline = Date.now() + WAIT_MS
  let said = 0
  for (;;) {
    const answer = await askOverHttps(domain)
    if (answer === undefined) return
    const idle = UNIT_NAMES.filter(unit => !isActive(unit))
    const failure = idle.length > 0 ? `${idle.join(', ')} does not run` : answer
    if (Date.now() > deadline)
      throw new Error(
        `https://${domain} does not serve: ${failure}. Read \`journalctl -u 'slipway*'\`, and repeat \`slipway up\`.`,
      )
    if (Date.now() - said > 15_000) step(`waiting for https://${domain}: ${failure}`)
    if (Date.now() - said > 15_000) said = Date.now()
    await delay(500)
  }
}

/** Connects to this machine without a DNS lookup. Undefined once the control plane answers with a certificate. */
function askOverHttps(domain: string): Promise<string | undefined> {
  return new Promise(resolve => {
    const request = https.get(
      {
        host: '127.0.0.1',
        port: 443,
        servername: domain,
        path: '/readyz',
        headers: { Host: domain },
        // The name in the certificate is checked, and not its authority: that may be one that only clients know.
        rejectUnauthorized: false,
        agent: false,
        timeout: 10_000,
      },
      answer => {
        answer.resume()
        resolve(answer.statusCode === 200 ? undefined : `it answers ${answer.statusCode}`)
      },
    )
    request.once('timeout', () => request.destroy(new Error('no answer within 10 seconds')))
    request.once('error', ({ message, code }: NodeJS.ErrnoException) =>
      resolve(code === 'EPROTO' ? 'it has no certificate yet' : message),
    )
  })
}

const describeNextSteps = ({ domain, appsDomain }: UpOptions): string => `
Open the sign-in link, or deploy a folder with a Node application from your computer:

  slipway login --url https://${domain}
  slipway deploy .

docs/start/cli.md says how to install that command. The deployment is then at https://NAME.${appsDomain}.
Back up /etc/slipway and the database: see docs/operate/back-up.md.`
