// A control plane on Node with an agent that can be killed and started again, and the command line that uses them.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { startPostgres } from '../../../../src/host/embedded-postgres.ts'
import { NETWORK_VARIABLES } from '../../../../src/host/local-agent.ts'
import { findFreePort } from '../../../../src/postgres/free-port.ts'
import { runForOutput, startProcess } from '../../support/processes.ts'
import { PATIENCE_MS } from '../../support/trial.ts'
import { until } from '../../support/two-hosts.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const MAIN = join(ROOT, 'src/host/main.ts')
const CLI = join(ROOT, 'src/cli/main.ts')

export type Installation = Awaited<ReturnType<typeof startInstallation>>
/** The members that this trial reads. */
type Answer = {
  id: string
  url: string
  active_revision_id: string
  detail: string
  health: { state: string } | null
  resources: { id: string; reason: string | null }[]
} & Pick<Job, 'status' | 'reason'>
export type Job = {
  id: string
  schedule_id: string | null
  status: string
  due_at: string | null
  missed_until: string | null
  reason: string | null
  /** Absent for an installation whose jobs run commands only. */
  action?: object | null
}
export type CliResult = { code: number; lines: Record<string, unknown>[]; errors: string }

/**
 * `settings` are those of the agent, `planeSettings` those of the control plane, `options` those of its bootstrap.
 * `reach`: where the URL of a deployment is reached from here.
 */
export async function startInstallation(
  cleanup: AsyncDisposableStack,
  engine: 'process' | 'container' | 'kubernetes',
  settings: Record<string, string> = {},
  reach: (url: string) => string = url => url,
  { planeSettings = {}, options = [] }: { planeSettings?: Record<string, string>; options?: string[] } = {},
) {
  const folder = mkdtempSync(join(tmpdir(), 'slipway-whole-'))
  // With root, applications run as other users, who have to reach their folders below it.
  chmodSync(folder, 0o755)
  cleanup.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 9 }))
  const postgres = await startPostgres({ dataDir: join(folder, 'postgres') })
  cleanup.defer(() => postgres.stop())
  const base = { PATH: process.env.PATH!, HOME: folder, SLIPWAY_HOME: join(folder, 'home') }
  const run = (args: string[], env: Record<string, string>) =>
    runForOutput({ defer: () => {} }, process.execPath, [MAIN, ...args], { cwd: ROOT, env: { ...base, ...env } })
  await run(['migrate'], { DATABASE_OWNER_URL: postgres.url })
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const plane = {
    ALLOW_LOOPBACK: 'true',
    RATE_LIMIT_PER_MINUTE: '0',
    PUBLIC_URL: url,
    PORT: String(port),
    HOST: '127.0.0.1',
    DATABASE_URL: postgres.url,
    SEALING_KEYS: `first:${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64url')}`,
    UPLOADS_DIR: join(folder, 'uploads'),
    ...planeSettings,
  }
  const started = startProcess(
    { defer: end => cleanup.defer(async () => void (await end())) },
    process.execPath,
    [MAIN, 'start'],
    { cwd: ROOT, env: { ...base, ...plane } },
  )
  await Promise.race([
    until('the control plane is ready', async () => (await fetch(`${url}/readyz`)).ok),
    started.broken,
  ])
  const printed = await run(
    ['bootstrap', '--organization', 'Acme', '--platform-listener', 'machine', ...options],
    plane,
  )
  const [apiKey, agentKey] = printed.match(/slw_\w+/g) as [string, string]

  const network = Object.fromEntries(Object.entries(process.env).filter(([name]) => NETWORK_VARIABLES.test(name)))
  const agentHome = join(folder, 'agent')
  const router = String(await findFreePort())
  const log = join(folder, 'agent.log')
  let agent: ChildProcess | undefined
  const isRunning = () => agent !== undefined && agent.exitCode === null && agent.signalCode === null
  /** An agent with `--stop` ends its applications if it ends in peace, and leaves them alone if it is killed. */
  function startAgent(): void {
    const output = openSync(log, 'a')
    agent = spawn(
      process.execPath,
      [MAIN, 'agent', '--home', agentHome, '--engine', engine, '--port', router, '--stop'],
      {
        cwd: ROOT,
        detached: true,
        stdio: ['ignore', output, output],
        env: {
          ...base,
          ...network,
          AGENT_BUILD_ENV: Object.keys(network).join(','),
          SLIPWAY_URL: url,
          SLIPWAY_LISTENER_KEY: agentKey,
          AGENT_ALLOWED_NETWORKS: '127.0.0.0/8',
          AGENT_METRICS_SECONDS: '10',
          ...settings,
        },
      },
    )
  }
  let starting: Promise<void> | undefined
  /** Kills it, and starts it again after some time, for which this does not wait. */
  async function killAgent(pause_ms: number): Promise<void> {
    if (!isRunning()) return
    const ended = once(agent!, 'exit')
    agent!.kill('SIGKILL')
    await ended
    starting = delay(pause_ms).then(startAgent)
  }
  startAgent()
  cleanup.defer(async () => {
    await starting
    if (!isRunning()) startAgent()
    const ended = once(agent!, 'exit')
    agent!.kill('SIGTERM')
    await ended
  })
  // The features of its engine are known once it has polled.
  await until('the agent works', () => readFileSync(log, 'utf8').includes('lease acquired'), PATIENCE_MS)

  /** Runs a command, and returns what it prints as objects. */
  async function slipway(args: string[], cwd = folder): Promise<CliResult> {
    const child = spawn(process.execPath, [CLI, ...args], {
      cwd,
      env: { ...base, SLIPWAY_URL: url, SLIPWAY_API_KEY: apiKey },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let [output, errors] = ['', '']
    child.stdout.setEncoding('utf8').on('data', text => {
      output += text
    })
    child.stderr.setEncoding('utf8').on('data', text => {
      errors += text
    })
    const [code] = (await once(child, 'close')) as [number]
    const lines = output
      .split('\n')
      .filter(Boolean)
      .map(line => JSON.parse(line))
    return { code, lines, errors }
  }

  async function api(method: string, path: string, body?: unknown): Promise<{ status: number; body: Answer }> {
    const response = await fetch(url + path, {
      method,
      headers: { 'X-Api-Key': apiKey, 'Content-Type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, body: text ? JSON.parse(text) : null }
  }

  const readUrl = async (id: string): Promise<string> => reach((await api('GET', `/v2/deployments/${id}`)).body.url)

  return {
    engine,
    url,
    databaseUrl: postgres.url,
    /** The links that the bootstrap has printed. */
    signInLinks: printed.match(/http\S+\/sign-in#\S+/g) ?? [],
    agentPid: () => agent!.pid!,
    readUrl,
    folder,
    agentHome,
    slipway,
    api,
    isAgentRunning: isRunning,
    killAgent,
    readLog: () => readFileSync(log, 'utf8'),
  }
}
