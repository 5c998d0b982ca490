// The command line as a process, with a pipe or on a pseudo-terminal.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

const MAIN = join(import.meta.dirname, '../../src/cli/main.ts')

/** Whether there is a pseudo-terminal: util-linux's `script`. */
export const hasTerminal =
  spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux') === true

export type CliOptions = { cwd: string; input?: string; env?: Record<string, string>; main?: string }
export type CliResult = {
  code: number | null
  /** The objects of standard output. */
  objects: Record<string, unknown>[]
  out: string
  err: string
  /** The report of a failure. */
  error?: { code: string; message: string; next?: string; request_id?: string; last_lines?: string[] }
}

/** With a pipe. */
export function startCliIn({ cwd, input = '', env = {}, main = MAIN }: CliOptions, args: string[]) {
  const { PATH = '' } = process.env
  const config = { SLIPWAY_CONFIG_HOME: join(cwd, '.config'), HOME: cwd }
  const child = spawn(process.execPath, [main, ...args], { cwd, env: { PATH, ...config, ...env } })
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
export function startCliOnTerminal(args: string[], { cwd, env = {} }: { cwd: string; env?: Record<string, string> }) {
  const { PATH = '' } = process.env
  const command = [process.execPath, MAIN, ...args].map(word => `'${word}'`).join(' ')
  const settings = { SLIPWAY_CONFIG_HOME: join(cwd, '.config'), HOME: cwd, TERM: 'xterm-256color' }
  const child = spawn('script', ['-qec', command, '/dev/null'], { cwd, env: { PATH, ...settings, ...env } })
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
