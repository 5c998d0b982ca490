// A control plane on Node, Deno or Bun, as package.json starts it, in a process of its own whose memory and CPU time
// can be read. And Hono's hello on the same runtime, by its own server: what the runtime costs without us.
import { readFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { readCpuMs } from './cpu.ts'
import { SETTINGS } from './database.ts'
import { type Memory, readMemory } from './memory.ts'
import { type Cleanup, type StartedProcess, startProcess } from './processes.ts'
import { makeTempFolder, PROJECT_ROOT } from './workerd.ts'

export type Instance = Pick<StartedProcess, 'broken' | 'end'> & {
  url: string
  pid: number
  memory(): Memory
  /** CPU time since the start, of all threads. */
  cpuMs(): number
}
export type Runtime = 'node' | 'deno' | 'bun'

export const RUNTIMES: readonly Runtime[] = ['node', 'deno', 'bun']
export const RUNTIME_NAMES: Record<Runtime, string> = { node: 'Node', deno: 'Deno', bun: 'Bun' }

const START_TIMEOUT_MS = 60_000
const START_SCRIPTS: Record<Runtime, string> = { node: 'start', deno: 'start:deno', bun: 'start:bun' }
const HELLO_COMMANDS: Record<Runtime, string> = {
  node: 'exec node test/proof/bench/baselines/hello-node.ts',
  deno:
    'DENO_NO_UPDATE_CHECK=1 exec deno serve --no-prompt --no-remote --no-lock --host 127.0.0.1 --port "$PORT" ' +
    'test/proof/bench/workers/hello.ts',
  bun: 'exec bun --no-install --no-env-file test/proof/bench/baselines/hello-bun.ts',
}
/** Node is the one that runs the bench, and so also Fastify. */
const PATH = [dirname(process.execPath), join(PROJECT_ROOT, 'node_modules/.bin'), process.env.PATH].join(delimiter)

const { scripts } = JSON.parse(readFileSync(join(PROJECT_ROOT, 'package.json'), 'utf8'))

/** Runs a script of package.json as npm does, without npm's own process. */
export const startScript = (cleanup: Cleanup, name: string, env: Record<string, string | undefined>): StartedProcess =>
  runCommand(cleanup, scripts[name], env)

/** Resolves when it is ready. */
export async function startInstance(
  cleanup: Cleanup,
  databaseUrl: string,
  runtime: Runtime = 'node',
  settings: Record<string, string> = {},
): Promise<Instance> {
  const instance = await launchInstance(cleanup, databaseUrl, runtime, settings)
  await fetchFirst(instance, '/readyz')
  return instance
}

/** Its process runs, and does not listen yet. */
export async function launchInstance(
  cleanup: Cleanup,
  databaseUrl: string,
  runtime: Runtime,
  settings: Record<string, string> = {},
): Promise<Instance> {
  const common = { ...SETTINGS, DATABASE_URL: databaseUrl, UPLOADS_DIR: await makeTempFolder(cleanup) }
  return launch({ ...common, ...settings }, env => startScript(cleanup, START_SCRIPTS[runtime], env))
}

export const launchHello = (cleanup: Cleanup, runtime: Runtime): Promise<Instance> =>
  launch({}, env => runCommand(cleanup, HELLO_COMMANDS[runtime], env))

async function launch(
  settings: Record<string, string>,
  start: (env: Record<string, string>) => StartedProcess,
): Promise<Instance> {
  const port = await findFreePort()
  const { child, broken, end } = start({ ...settings, PORT: String(port), HOST: '127.0.0.1' })
  const pid = child.pid!
  const url = `http://127.0.0.1:${port}`
  return { url, pid, memory: () => readMemory(pid), cpuMs: () => readCpuMs(pid), broken, end }
}

/** Asks until the process listens. Resolves when the answer has been read. */
export async function fetchFirst(
  { url, broken }: Pick<Instance, 'url' | 'broken'>,
  path: string,
  headers: Record<string, string> = {},
): Promise<void> {
  const deadline = performance.now() + START_TIMEOUT_MS
  while (performance.now() < deadline) {
    const response = await Promise.race([fetch(url + path, { headers }).catch(() => undefined), broken])
    await response?.arrayBuffer()
    if (response?.ok) return
    await delay(10)
  }
  throw new Error(`${path} does not answer.`)
}

/** The home folder has the caches of Deno. */
const runCommand = (cleanup: Cleanup, command: string, env: Record<string, string | undefined>): StartedProcess =>
  startProcess(cleanup, 'sh', ['-c', command], { cwd: PROJECT_ROOT, env: { PATH, HOME: process.env.HOME, ...env } })
