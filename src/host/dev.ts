// `npm run dev`: a database, its schema, a first key, the Worker and an agent, from one command, offline and without an account.
import { relative } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { readConfig, SETTINGS } from '../env.ts'
import { findFreePort } from '../postgres/free-port.ts'
import { type Postgres, startPostgres } from './embedded-postgres.ts'
import { gatewayConnectionString, isNeonUrl } from './gateway.ts'
import { type DevState, type Home, openHome } from './home-folder.ts'
import { startLocalAgent } from './local-agent.ts'
import { findPortObstacle } from './ports.ts'
import { scheduleEveryMinute } from './schedule.ts'
import { bold, dim, print, printError, showAgentLine, showWorkerLine, timeStep } from './terminal.ts'
import { PortTakenError, startWrangler } from './wrangler.ts'

const USAGE = `npm run dev [-- --port PORT]

Starts Slipway on this machine, at port 8787 or the next free one. DATABASE_URL names a Postgres to use instead of the
embedded one, SLIPWAY_HOME a folder to keep the data in instead of .slipway; the settings of README.md hold here too.`
const FIRST_PORT = 8787
const READY_TIMEOUT_MS = 60_000
/** Signals that follow each other faster are one Ctrl-C: the terminal sends it, and npm passes it on. */
const ONE_PRESS_MS = 500
/** A Postgres that ends sooner than this is not started again. */
const MIN_UPTIME_MS = 1_000
/** The id of our own requests, which are not shown. */
const PROBE_ID = `dev-${process.pid}`

const cleanup = new AsyncDisposableStack()
const crash = Promise.withResolvers<never>()
let stoppingSince = 0

async function main() {
  const wanted = readPortOption()
  const home = openHome()
  await refuseSecondStart(home)
  if (wanted) await refuseTakenPort(wanted)

  const { DATABASE_URL: theirs, ...given } = readEnvironmentSettings()
  const { sealing_keys, gateway_token: token } = home.secrets()
  const settings = {
    SEALING_KEYS: sealing_keys,
    INSTANCE_ADMIN_EMAILS: 'dev@localhost.example',
    ALLOW_LOOPBACK: 'true',
    ...given,
  }
  readConfig({ ...settings, DATABASE_URL: theirs ?? 'postgresql://embedded' })
  const gatewayPort = await findFreePort()

  async function openDatabase() {
    const url = theirs ?? (await postgres!).url
    home.write('database-url', url)
    // The larger part of our own code is loaded only now, when the children are on their way.
    const { prepareDatabase: prepare } = await import('./dev-database.ts')
    const prepared = prepare({ home, ownerUrl: url, settings, gateway: { port: gatewayPort, token } }).catch(
      ({ message }) => {
        throw new Error(theirs ? `DATABASE_URL: ${message}` : message)
      },
    )
    return timeStep('Database', prepared)
  }

  /** Both the database and the Worker start at once; the Worker only needs to know where the gateway will be. */
  async function startWorker() {
    const gateway = {
      DATABASE_URL: gatewayConnectionString(token),
      DATABASE_SYSTEM_URL: gatewayConnectionString(token, 'system'),
      DATABASE_GATEWAY_URL: `http://127.0.0.1:${gatewayPort}`,
    }
    const vars = { ...settings, ...(theirs && isNeonUrl(theirs) ? (await database).addresses : gateway) }
    for await (const port of candidatePorts(wanted)) {
      const onLine = (line: string) => showWorkerLine(line, PROBE_ID)
      const worker = startWrangler({ home, port, settings: vars, onLine, onTrouble: printError })
      cleanup.defer(worker.stop)
      const trouble = await Promise.race([worker.listening, worker.broken])
      // Between looking at the port and binding it, somebody else was faster.
      if (trouble instanceof PortTakenError && !wanted) continue
      worker.broken.then(crash.reject)
      return { url: `http://127.0.0.1:${port}`, ...worker }
    }
    throw new Error('There is no free port: give one with --port.')
  }

  print(dim('Starting Slipway'))
  cleanup.defer(() => home.remove('worker.env', 'database-url'))
  const postgres = theirs ? undefined : timeStep('Postgres', supervisePostgres(home.file('postgres')))
  cleanup.defer(async () => (await postgres?.catch(() => {}))?.stop())
  postgres?.catch(crash.reject)
  const database = openDatabase()
  cleanup.defer(async () => (await database.catch(() => {}))?.close())
  const [{ key, listener }, { url, follow, housekeep }] = await rejectOnCrash(Promise.all([database, startWorker()]))
  await rejectOnCrash(timeStep('Worker', waitUntilReady(url)))
  // What is started from here on, nobody would end.
  if (stoppingSince) return
  const { listener_key } = listener
  const agent = startLocalAgent({ home, url, listener_key, onLine: showAgentLine, onTrouble: printError })
  cleanup.defer(agent.stop)
  const port = await rejectOnCrash(timeStep('Agent', agent.port()))

  const state = { url, ...key, pid: process.pid }
  home.writeState(state)
  announce(state, home, performance.now(), theirs !== undefined, port)
  follow()
  const sweep = () => housekeep().catch(({ message }) => printError(message))
  const timer = scheduleEveryMinute(sweep)
  cleanup.defer(() => clearInterval(timer))
  // At once too: it may never run for as long as the schedule waits.
  sweep()
  await crash.promise
}

/** Started again, at the same address, when it is killed: applications serve on meanwhile. Not when it does not last. */
async function supervisePostgres(dataDir: string): Promise<Pick<Postgres, 'url' | 'stop'>> {
  let current = await startPostgres({ dataDir })
  const follow = async () => {
    for (let since = Date.now(); ; since = Date.now()) {
      await current.exited
      if (stoppingSince) return
      if (Date.now() - since < MIN_UPTIME_MS) throw new Error('Postgres has ended.')
      printError('Postgres has ended; it is started again.')
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
  throw new Error(`--port ${values.port} is not a port: give a whole number from 1 to 65535.`)
}

/** Where the gateway is, and with which logins it is reached. */
const DEV_ONLY_SETTINGS = ['DATABASE_GATEWAY_URL', 'DATABASE_SYSTEM_URL']

/** What the environment says about the app. */
function readEnvironmentSettings(): Record<string, string> {
  const names = SETTINGS.filter(name => process.env[name] && !DEV_ONLY_SETTINGS.includes(name))
  return Object.fromEntries(names.map(name => [name, process.env[name]!]))
}

async function refuseSecondStart(home: Home): Promise<void> {
  const { pid, url } = home.readState() ?? {}
  if (!pid || pid === process.pid || !isAlive(pid)) return
  // The pid alone may be another process's by now.
  const answer = await probe(`${url}/healthz`).catch(() => undefined)
  if (answer?.ok) throw new Error(`Slipway already runs from ${home.path}: process ${pid} serves ${url}.`)
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

async function refuseTakenPort(port: number): Promise<void> {
  const obstacle = await findPortObstacle(port)
  if (obstacle) throw new Error(`Port ${port} ${obstacle}: give another one with --port.`)
}

async function* candidatePorts(wanted: number | undefined): AsyncGenerator<number> {
  if (wanted) return yield wanted
  for (let port = FIRST_PORT; port < FIRST_PORT + 100; port++) {
    const obstacle = await findPortObstacle(port)
    if (obstacle) print(`Port ${port} ${obstacle}: trying the next one.`)
    else yield port
  }
}

const probe = (url: string) => fetch(url, { headers: { 'X-Request-Id': PROBE_ID }, signal: AbortSignal.timeout(5000) })

async function waitUntilReady(url: string): Promise<void> {
  const deadline = Date.now() + READY_TIMEOUT_MS
  for (;;) {
    const answer = await probe(`${url}/readyz`).catch((error: Error) => error)
    if ('ok' in answer && answer.ok) return
    if (Date.now() > deadline)
      throw new Error(`The Worker does not become ready: ${'ok' in answer ? await answer.text() : answer.message}`)
    await delay(50)
  }
}

function announce({ url, api_key }: DevState, { path }: Home, ms: number, theirs: boolean, port?: number): void {
  const folder = relative(process.cwd(), path) || '.'
  const where = folder.startsWith('..') ? path : folder
  print(`
${bold('Slipway is ready')} ${dim(`in ${(ms / 1000).toFixed(1)} s`)}

  URL        ${bold(url)}
  API pages  ${url}/docs
  API key    ${bold(api_key)}
  Data       ${theirs ? 'in the database of DATABASE_URL' : where}; these lines are in ${where}/dev.json too

  curl -s -H "X-Api-Key: ${api_key}" ${url}/orgs/current/info

${dim('Changes of the source are served at once. Ctrl-C stops everything.')}
`)
  if (port) print(firstDeployment(url, api_key, port))
}

/** Made, and asked as soon as it answers. */
function firstDeployment(url: string, key: string, port: number): string {
  const wanted = { name: 'hello', source: 'internal_template', source_config: { template_id: 'web-service' } }
  const body = JSON.stringify({ ...wanted, source_revision_config: {}, secrets: [] })
  const headers = `-H "X-Api-Key: ${key}" -H "Content-Type: application/json"`
  const waiting = '-sf --retry 30 --retry-delay 1 --retry-all-errors'
  return `curl -sw '\\n' ${headers} ${url}/v2/deployments -d '${body}' && curl ${waiting} http://hello.localhost:${port}/`
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
    if (stoppingSince && Date.now() - stoppingSince > ONE_PRESS_MS) process.exit(130)
    shutDown(0)
  })
}
main().catch(error => shutDown(1, error instanceof Error ? error.message : String(error)))
