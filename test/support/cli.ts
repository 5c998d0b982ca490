// The command line as a process with a pipe, against an app that this process serves.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { getRequestListener } from '@hono/node-server'
import { type App, startApp, type Tenant } from './app.ts'
import { onFileEnd } from './file-state.ts'

export const MAIN = join(import.meta.dirname, '../../src/cli/main.ts')
/** With the compile cache a start takes 0.1 s of CPU instead of 0.24 s. */
const { PATH = '', NODE_COMPILE_CACHE } = process.env
const INHERITED = { PATH, ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) }
const cleanups: (() => void)[] = []
onFileEnd(() => {
  for (const clean of cleanups.splice(0)) clean()
})

type Handle = (request: Request, pass: () => Promise<Response>) => Promise<Response>

/** Its `PUBLIC_URL` is its address, because upload links begin with it. */
export async function serveApp(handle: Handle = (_, pass) => pass()): Promise<{ url: string; app: App }> {
  let app: App | undefined
  const listener = getRequestListener(request => handle(request, async () => app!.fetch(request)))
  const server = createServer(listener)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  cleanups.push(() => {
    server.close()
    server.closeAllConnections()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  app = startApp({ settings: { PUBLIC_URL: url } })
  return { url, app }
}

export function makeFolder(files: Record<string, string> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), 'slipway-cli-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true, maxRetries: 9 }))
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), content)
  }
  return folder
}

type CliOptions = { cwd?: string; input?: string; env?: Record<string, string>; main?: string }
export type CliResult = {
  code: number | null
  /** The objects of standard output. */
  objects: Record<string, unknown>[]
  out: string
  err: string
  /** The report of a failure. */
  error?: { code: string; message: string; next?: string; request_id?: string; errors?: { loc: string[] }[] }
}

export const startCli = (args: string[], { main = MAIN, ...options }: CliOptions = {}) =>
  runProgram([process.execPath, main, ...args], options)

export function runProgram(
  [program, ...args]: string[],
  { cwd = makeFolder(), input = '', env = {} }: Omit<CliOptions, 'main'> = {},
) {
  const config = { SLIPWAY_CONFIG_HOME: join(cwd, '.config'), HOME: cwd }
  const child = spawn(program!, args, { cwd, env: { ...INHERITED, ...config, ...env } })
  let out = ''
  let err = ''
  child.stdout.on('data', chunk => (out += chunk))
  child.stderr.on('data', chunk => (err += chunk))
  child.stdin.end(input)
  const exited = once(child, 'close').then(([code]): CliResult => {
    const objects = parseLines(out)
    const error = parseLines(err).at(-1) as CliResult['error']
    return { code: code as number | null, objects, out, err, ...(error && { error }) }
  })
  return { exited, kill: (signal: NodeJS.Signals) => child.kill(signal), seen: () => parseLines(out) }
}

/** On a pseudo-terminal of util-linux's `script`. */
export function startCliOnTerminal(args: string[], { cwd, env }: { cwd: string; env: Record<string, string> }) {
  const command = [process.execPath, MAIN, ...args].map(word => `'${word}'`).join(' ')
  const settings = { SLIPWAY_CONFIG_HOME: join(cwd, '.config'), HOME: cwd, TERM: 'xterm-256color' }
  const inTerminal = ['-qec', `stty cols 80; ${command}`, '/dev/null']
  const child = spawn('script', inTerminal, { cwd, env: { ...INHERITED, ...settings, ...env } })
  let screen = ''
  child.stdout.on('data', chunk => (screen += chunk))
  const exited = once(child, 'close').then(([code]) => ({ code: code as number | null, screen }))
  return { exited, type: (text: string) => child.stdin.write(text), screen: () => screen }
}

const parseLines = (text: string): Record<string, unknown>[] =>
  text
    .split('\n')
    .filter(line => line.startsWith('{') && line.endsWith('}'))
    .map(line => JSON.parse(line))

export const keyEnv = (url: string, { key }: Pick<Tenant, 'key'>) => ({ SLIPWAY_URL: url, SLIPWAY_API_KEY: key })
