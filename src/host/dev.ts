// `npm run dev`: starts Postgres, the Worker and an agent, with a migrated database and a first API key. Works offline.
import { relative } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { readConfig, readSharesDatabase, SETTINGS } from '../env.ts'
import { ROWS_PATH } from '../kernel/db/gateway.ts'
import { findFreePort } from '../postgres/free-port.ts'
import { buildStaleDashboard } from './dashboard-build.ts'
import { isNeonUrl } from './database-connection.ts'
import { hasStoredLogin, removeDevPointer, writeDevPointer } from './dev-pointer.ts'
import { type Postgres, startPostgres } from './embedded-postgres.ts'
import { gatewayConnectionString } from './gateway.ts'
import { type DevState, type Home, isAlive, openHome, PROJECT_ROOT } from './home-folder.ts'
import { startLocalAgent } from './local-agent.ts'
import type { LogEntry } from './log-lines.ts'
import { findPortObstacle } from './ports.ts'
import { scheduleEveryMinute } from './schedule.ts'
import { DUPLICATE_SIGNAL_MS } from './shutdown.ts'
import { bold, dim, print, printError, showLogLine, timeStep } from './terminal.ts'
import { PortTakenError, startWrangler } from './wrangler.ts'

const USAGE = `npm run dev [-- --port PORT]

Starts Slipway on this machine, on port 8787 or the next free one. Set DATABASE_URL to use a Postgres of your own
instead of the embedded one, and SLIPWAY_HOME to use another data folder than .slipway. SLIPWAY_DEV_WATCH=off saves the
CPU time of looking for changes to the source. The settings of docs/reference/settings.md apply too. Log lines are short
on a terminal, without colors if NO_COLOR is set, and JSON elsewhere.`
const FIRST_PORT = 8787
const READY_TIMEOUT_MS = 60_000
/** A Postgres that exits sooner than this is not restarted. */
const MIN_UPTIME_MS = 1_000
const watch = process.env.SLIPWAY_DEV_WATCH !== 'off'
/** The request id of dev's own requests, which are not printed. */
const PROBE_ID = `dev-${process.pid}`

/** Requests of dev itself, and of the agent, which polls all the time. */
const isPolling = ({ request_id, path, status = 500 }: LogEntry) =>
  request_id === PROBE_ID || (path?.startsWith('/v1/sync/') === true && status < 400)

const cleanup = new AsyncDisposableStack()
const crash = Promise.withResolvers<never>()
let stoppingSince = 0

async function main() {
  const requestedPort = readPortOption()
  const home = openHome()
  await refuseSecondStart(home)
  if (requestedPort) await requireFreePort(requestedPort)

  const { DATABASE_URL: ownDatabase, ...environment } = readEnvironmentSettings()
  const { sealing_keys, gateway_token: token } = home.secrets()
  home.markModuleBoundary()
  const settings = {
    SEALING_KEYS: sealing_keys,
    INSTANCE_ADMIN_EMAILS: 'dev@localhost.example',
    ALLOW_LOOPBACK: 'true',
    ...environment,
  }
  const sharesDatabase = readSharesDatabase(process.env)
  readConfig({ ...settings, DATABASE_URL: ownDatabase ?? 'postgresql://embedded' })
  const gatewayPort = await findFreePort()

  async function openDatabase() {
    const url = ownDatabase ?? (await postgres!).url
    home.write('database-url', url)
    // Loading the app takes a while: the child processes are started first.
    const { prepareDatabase } = await import('./dev-database.ts')
    const gateway = { port: gatewayPort, token }
    const prepared = prepareDatabase({ home, ownerUrl: url, sharesDatabase, settings, gateway }).catch(error => {
      throw new Error(ownDatabase ? `DATABASE_URL: ${error.message}` : error.message)
    })
    return timeStep('Database', prepared)
  }

  /** Starts while the database does: the Worker needs only the gateway's address. */
  async function startWorker() {
    const gateway = {
      DATABASE_URL: gatewayConnectionString(token),
      DATABASE_SYSTEM_URL: gatewayConnectionString(token, 'system'),
      DATABASE_GATEWAY_URL: `http://127.0.0.1:${gatewayPort}${ROWS_PATH}`,
    }
    const vars = { ...settings, ...(ownDatabase && isNeonUrl(ownDatabase) ? (await database).addresses : gateway) }
    for await (const port of candidatePorts(requestedPort)) {
      const onLine = (line: string) => showLogLine(line, isPolling)
      const worker = startWrangler({ home, port, watch, settings: vars, onLine, onProblem: printError })
      cleanup.defer(worker.stop)
      const error = await Promise.race([worker.listening, worker.broken])
      // Another process bound the port after the check.
      if (error instanceof PortTakenError && !requestedPort) continue
      worker.broken.then(crash.reject)
      return { url: `http://127.0.0.1:${port}`, ...worker }
    }
    throw new Error(`No port from ${FIRST_PORT} to ${FIRST_PORT + 99} is free. Choose one with --port.`)
  }

  print(dim('Starting Slipway'))
  cleanup.defer(() => home.remove('worker.env', 'database-url'))
  const postgres = ownDatabase ? undefined : timeStep('Postgres', supervisePostgres(home.file('postgres')))
  cleanup.defer(async () => (await postgres?.catch(() => {}))?.stop())
  postgres?.catch(crash.reject)
  const dashboard = buildStaleDashboard(printError)
  cleanup.defer(dashboard.stop)
  const database = openDatabase()
  cleanup.defer(async () => (await database.catch(() => {}))?.close())
  const [{ key, listener, linkToken }, { url, follow, housekeep }] = await rejectOnCrash(
    Promise.all([database, startWorker()]),
  )
  await rejectOnCrash(timeStep('Worker', waitUntilReady(url)))
  // Nothing would stop what is started after the clean-up has begun.
  if (stoppingSince) return
  const { listener_key } = listener
  const agent = startLocalAgent({ home, url, listener_key, onLine: line => showLogLine(line), onProblem: printError })
  cleanup.defer(agent.stop)
  await rejectOnCrash(timeStep('Agent', agent.port()))
  const isRestored = await rejectOnCrash(timeStep('Apps', agent.isRestored()))
  if (!isRestored) print('Some applications have not started yet. The dashboard shows which.')
  const { previousPort } = agent
  // Read again: an agent that was killed leaves the port of its router behind.
  const port = await agent.port()
  if (port && previousPort && port !== previousPort)
    print(`Port ${previousPort} of the applications is in use. Their URLs now have port ${port}.`)

  const state = { url, ...key, pid: process.pid }
  home.writeState(state)
  cleanup.defer(() => removeDevPointer(process.pid))
  const isFound = writeDevPointer(state) && !hasStoredLogin()
  const folders = { ownDatabase: ownDatabase !== undefined, apps: agent.apps() }
  printSummary(state, home, performance.now(), { linkToken, port, isFound, ...folders })
  follow()
  const sweep = () => housekeep().catch(({ message }) => printError(message))
  const schedule = scheduleEveryMinute(sweep)
  cleanup.defer(() => void schedule.stop())
  // Now too: a short run of dev may end before the first scheduled one. Not before the agent has polled: the sweep
  // would take the time for which dev was stopped as the silence of the agent.
  sweep()
  await crash.promise
}

/** Restarts Postgres at the same address when it exits, unless it exits right after its start. */
async function supervisePostgres(dataDir: string): Promise<Pick<Postgres, 'url' | 'stop'>> {
  let current = await startPostgres({ dataDir })
  const follow = async () => {
    for (let since = Date.now(); ; since = Date.now()) {
      await current.exited
      if (stoppingSince) return
      if (Date.now() - since < MIN_UPTIME_MS) throw new Error('Postgres exited right after its start.')
      printError('Postgres exited. Restarting it.')
      current = await startPostgres({ dataDir, port: current.port })
    }
  }
  follow().catch(crash.reject)
  return { url: current.url, stop: () => current.stop() }
}

const rejectOnCrash = <T>(work: Promise<T>): Promise<T> => Promise.race([work, crash.promise])

function readPortOption(): number | undefined {
  const { values } = parseArgs({ options: { port: { type: 'string' }, help: { type: 'boolean', short: 'h' } } })
  if (values.help) {
    print(USAGE)
    process.exit(0)
  }
  if (values.port === undefined) return undefined
  const port = Number(values.port)
  if (/^\d+$/.test(values.port) && port >= 1 && port <= 65_535) return port
  throw new Error(`--port ${values.port} is not a port. Give a whole number from 1 to 65535.`)
}

/** Set by dev itself. */
const DEV_ONLY_SETTINGS = ['DATABASE_GATEWAY_URL', 'DATABASE_SYSTEM_URL']

function readEnvironmentSettings(): Record<string, string> {
  const names = SETTINGS.filter(name => process.env[name] && !DEV_ONLY_SETTINGS.includes(name))
  return Object.fromEntries(names.map(name => [name, process.env[name]!]))
}

async function refuseSecondStart(home: Home): Promise<void> {
  const { pid, url } = home.readState() ?? {}
  if (!pid || pid === process.pid || !isAlive(pid)) return
  // The pid may have been reused by another process.
  const response = await probe(`${url}/healthz`).catch(() => undefined)
  if (response?.ok)
    throw new Error(`Slipway already runs from ${home.path}: process ${pid} serves ${url}. Stop it first.`)
}

async function requireFreePort(port: number): Promise<void> {
  const obstacle = await findPortObstacle(port)
  if (obstacle) throw new Error(`Port ${port} ${obstacle}. Choose another one with --port.`)
}

async function* candidatePorts(requestedPort: number | undefined): AsyncGenerator<number> {
  if (requestedPort) return yield requestedPort
  for (let port = FIRST_PORT; port < FIRST_PORT + 100; port++) {
    const obstacle = await findPortObstacle(port)
    if (obstacle) print(`Port ${port} ${obstacle}. Trying the next one.`)
    else yield port
  }
}

const probe = (url: string) => fetch(url, { headers: { 'X-Request-Id': PROBE_ID }, signal: AbortSignal.timeout(5000) })

async function waitUntilReady(url: string): Promise<void> {
  const deadline = Date.now() + READY_TIMEOUT_MS
  for (;;) {
    const result = await probe(`${url}/readyz`).catch((error: Error) => error)
    if ('ok' in result && result.ok) return
    if (Date.now() > deadline) {
      const reason = 'ok' in result ? await result.text() : result.message
      throw new Error(`The Worker is not ready after ${READY_TIMEOUT_MS / 1000} s: ${reason}`)
    }
    await delay(50)
  }
}

type Summary = {
  linkToken: string | null
  ownDatabase: boolean
  port: number | undefined
  /** The folder of applications and builds. */
  apps: string | undefined
  /** The command line uses this installation by default. */
  isFound: boolean
}

function printSummary({ url, api_key }: DevState, { path }: Home, ms: number, summary: Summary) {
  const { linkToken, ownDatabase, port, apps, isFound } = summary
  const folder = relative(process.cwd(), path) || '.'
  const home = folder.startsWith('..') ? path : folder
  print(`
${bold('Slipway is ready')} ${dim(`in ${(ms / 1000).toFixed(1)} s`)}

  URL        ${bold(url)}
  Dashboard  ${url}/sign-in?next=/ui/${linkToken ? `#${linkToken} ${dim('signs in once, within 15 minutes')}` : ''}
  API pages  ${url}/docs
  API key    ${bold(api_key)}
  Data       ${ownDatabase ? 'in the database of DATABASE_URL' : home}
  Apps       ${apps === undefined || apps.startsWith(`${path}/`) ? home : apps}
  Details    ${home}/dev.json has these values for scripts

  curl -s -H "X-Api-Key: ${api_key}" ${url}/orgs/current/info

${dim(`Changes to the source take effect ${watch ? 'at once' : 'after a restart'}. Ctrl-C stops everything.`)}
`)
  if (port) print(`${dim('An application to try:')}\n${firstDeployment(url, api_key, port)}\n`)
  const settings = isFound ? '' : `SLIPWAY_URL=${url} SLIPWAY_API_KEY=${api_key} `
  print(`${dim('Deploy a folder of yours, from there:')}\n${settings}npx --yes ${quote(PROJECT_ROOT)} deploy`)
}

/** For a shell. */
const quote = (path: string) => {
  const plain = path.replace(/\/$/, '')
  return /^[\w./-]+$/.test(plain) ? plain : `'${plain.replaceAll("'", "'\\''")}'`
}

/** Commands that create a deployment and call it as soon as it answers. */
function firstDeployment(url: string, key: string, port: number): string {
  const deployment = { name: 'hello', source: 'internal_template', source_config: { template_id: 'web-service' } }
  const body = JSON.stringify({ ...deployment, source_revision_config: {}, secrets: [] })
  const headers = `-H "X-Api-Key: ${key}" -H "Content-Type: application/json"`
  const retry = '-sf --retry 30 --retry-delay 1 --retry-all-errors'
  return `curl -sw '\\n' ${headers} ${url}/v2/deployments -d '${body}' && curl ${retry} http://hello.localhost:${port}/`
}

async function shutDown(code: number, reason?: string): Promise<void> {
  if (stoppingSince) return
  stoppingSince = Date.now()
  if (reason) printError(reason)
  await cleanup.disposeAsync().catch(error => printError(error.message))
  process.exit(code)
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    if (stoppingSince && Date.now() - stoppingSince > DUPLICATE_SIGNAL_MS) process.exit(130)
    shutDown(0)
  })
}
main().catch(error => shutDown(1, error instanceof Error ? error.message : String(error)))
