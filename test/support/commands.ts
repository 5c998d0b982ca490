// Runs the project's commands as the child processes they are, and waits for what they do without sleeping.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { identityOf, listProcesses } from '../../src/agent/system/processes.ts'
import { findFreePort } from '../../src/postgres/free-port.ts'

export type Command = ReturnType<typeof startCommand>
const ROOT = join(import.meta.dirname, '../..')
const startedCommands: { stop(): Promise<unknown> }[] = []

/** Nothing of our own environment reaches it but what it needs to run at all. */
export function startCommand(file: string, args: string[] = [], env: Record<string, string> = {}) {
  const { PATH = '', HOME = '' } = process.env
  const child = spawn(process.execPath, [join(ROOT, file), ...args], { cwd: ROOT, env: { PATH, HOME, ...env } })
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
    /** What comes of a condition, unless the command ends first. */
    until: <T>(condition: () => T | Promise<T>) =>
      Promise.race([
        waitFor(condition),
        exited.then(code => {
          throw new Error(`${file} ended with ${code}: ${output.out}${output.err}`)
        }),
      ]),
  }
  startedCommands.push(running)
  return running
}

/** The demo server of the MCP SDK and its authorization server: their origins, once both listen. */
export async function startDemoServer() {
  const [port, auth] = [await findFreePort(), await findFreePort()]
  const file = 'node_modules/@modelcontextprotocol/sdk/dist/esm/examples/server/simpleStreamableHttp.js'
  const running = startCommand(file, ['--oauth'], { MCP_PORT: `${port}`, MCP_AUTH_PORT: `${auth}` })
  await running.until(async () => (await isListening(port)) && (await isListening(auth)))
  return { mcp: `http://localhost:${port}`, auth: `http://localhost:${auth}` }
}

/** An MCP server that asks nobody who they are. */
export async function startPublicMcpServer(): Promise<string> {
  const port = await findFreePort()
  const file = 'node_modules/@modelcontextprotocol/server-everything/dist/index.js'
  await startCommand(file, ['streamableHttp'], { PORT: `${port}` }).until(() => isListening(port))
  return `http://localhost:${port}/mcp`
}

/** For afterEach: whatever a failed test left running. */
export async function stopCommands(): Promise<void> {
  await Promise.all(startedCommands.splice(0).map(({ stop }) => stop()))
}

/** The first truthy outcome of a condition, within a minute. */
export async function waitFor<T>(condition: () => T | Promise<T>): Promise<NonNullable<T>> {
  const deadline = Date.now() + 60_000
  for (;;) {
    const outcome = await condition()
    if (outcome) return outcome
    if (Date.now() > deadline) throw new Error(`It never came true: ${condition}`)
    await delay(25)
  }
}

/** What is awaited later, and by nobody where the test fails before: its failure is no error that nobody caught. */
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
