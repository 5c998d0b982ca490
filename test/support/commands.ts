// Runs the project's commands as child processes and waits for them without sleeping.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { delimiter, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { identityOf, listProcesses } from '../../src/agent/system/processes.ts'
import { findFreePort } from '../../src/postgres/free-port.ts'

export type Command = ReturnType<typeof startCommand>
const ROOT = join(import.meta.dirname, '../..')
const PRELOAD = ['--import', join(ROOT, 'src/host/resolve-drizzle-once.ts')]
const startedCommands: { stop(): Promise<unknown> }[] = []

/** Passes only the variables of this process that the command needs to run. */
export const startCommand = (file: string, args: string[] = [], env: Record<string, string> = {}) =>
  startProgram(process.execPath, [...PRELOAD, join(ROOT, file), ...args], env)

export const RUNTIMES = ['node', 'deno', 'bun'] as const

/** `npm start` on this runtime, with the options and permissions of package.json. */
export function startServer(runtime: (typeof RUNTIMES)[number], env: Record<string, string>) {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const PATH = [join(ROOT, 'node_modules/.bin'), process.env.PATH].join(delimiter)
  return startProgram('sh', ['-c', scripts[runtime === 'node' ? 'start' : `start:${runtime}`]], { ...env, PATH })
}

function startProgram(program: string, args: string[], env: Record<string, string>) {
  const { PATH = '', HOME = '', NODE_COMPILE_CACHE } = process.env
  const inherited = { PATH, HOME, ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) }
  // Otherwise the command line of the user would find the installation of a test.
  const config = env.SLIPWAY_HOME && { SLIPWAY_CONFIG_HOME: join(env.SLIPWAY_HOME, 'config') }
  const settings = { ...inherited, ...config, ...env }
  const child = spawn(program, args, { cwd: ROOT, env: settings })
  const output = { out: '', err: '' }
  child.stdout.on('data', chunk => (output.out += chunk))
  child.stderr.on('data', chunk => (output.err += chunk))
  const exited = silenceRejection(once(child, 'close').then(([code]) => code as number | null))
  const running = {
    pid: child.pid!,
    output: output,
    exited,
    stop(signal: NodeJS.Signals = 'SIGINT') {
      child.kill(signal)
      return exited
    },
    /** Throws if the command ends first. */
    until: <T>(condition: () => T | Promise<T>) =>
      Promise.race([
        waitFor(condition),
        exited.then(code => {
          throw new Error(`${args.at(-1)} ended with ${code}: ${output.out}${output.err}`)
        }),
      ]),
  }
  startedCommands.push(running)
  return running
}

/** The origins of the MCP SDK's demo server and its authorization server. */
export async function startDemoServer() {
  const [port, auth] = [await findFreePort(), await findFreePort()]
  const file = 'node_modules/@modelcontextprotocol/sdk/dist/esm/examples/server/simpleStreamableHttp.js'
  const running = startCommand(file, ['--oauth'], { MCP_PORT: `${port}`, MCP_AUTH_PORT: `${auth}` })
  await running.until(async () => (await isListening(port)) && (await isListening(auth)))
  return { mcp: `http://localhost:${port}`, auth: `http://localhost:${auth}` }
}

/** An MCP server without authentication. */
export async function startPublicMcpServer(): Promise<string> {
  const port = await findFreePort()
  const file = 'node_modules/@modelcontextprotocol/server-everything/dist/index.js'
  await startCommand(file, ['streamableHttp'], { PORT: `${port}` }).until(() => isListening(port))
  return `http://localhost:${port}/mcp`
}

/** Call it in afterEach: a failed test leaves its commands running. */
export async function stopCommands(): Promise<void> {
  await Promise.all(startedCommands.splice(0).map(({ stop }) => stop()))
}

/** Returns the first truthy result, within a minute. */
export async function waitFor<T>(condition: () => T | Promise<T>): Promise<NonNullable<T>> {
  const deadline = Date.now() + 60_000
  for (;;) {
    const result = await condition()
    if (result) return result
    if (Date.now() > deadline) throw new Error(`Timed out, waiting for: ${condition}`)
    await delay(25)
  }
}

/** If the test fails before it awaits the work, a rejection of the work must not count as an unhandled one. */
export function silenceRejection<T>(work: Promise<T>): Promise<T> {
  work.catch(() => {})
  return work
}

/** The process and its descendants. */
export function listProcessTree(pid: number): number[] {
  const all = listProcesses()
  const tree = [pid]
  for (const parent of tree) tree.push(...all.filter(child => child.parent === parent).map(child => child.pid))
  return tree
}

/** The processes that still run. A zombie does not. */
export const filterRunning = (pids: number[]): number[] => pids.filter(pid => identityOf(pid) !== undefined)

export function isListening(port: number | string): Promise<boolean> {
  const socket = createConnection(Number(port), '127.0.0.1')
  return once(socket, 'connect').then(
    () => Boolean(socket.destroy()),
    () => false,
  )
}
