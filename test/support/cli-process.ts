// The command line as a process, with a pipe or on a pseudo-terminal.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

export const MAIN = join(import.meta.dirname, '../../src/cli/main.ts')
/** With the compile cache a start takes 0.1 s of CPU instead of 0.24 s. */
const { PATH = '', NODE_COMPILE_CACHE } = process.env
const INHERITED = { PATH, ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) }

/** The `script` of util-linux opens a pseudo-terminal. */
export const hasTerminal =
  spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout?.includes('util-linux') === true

export type CliOptions = { cwd: string; input?: string; env?: Record<string, string>; main?: string }
export type CliResult = {
  code: number | null
  /** The JSON objects of standard output. */
  objects: Record<string, unknown>[]
  out: string
  err: string
  /** The report of a failure. */
  error?: {
    code: string
    message: string
    next?: string
    request_id?: string
    last_lines?: string[]
    errors?: { loc: string[] }[]
  }
}

export const startCliIn = ({ main = MAIN, ...options }: CliOptions, args: string[]) =>
  runProgramIn(options, [process.execPath, main, ...args])

export function runProgramIn({ cwd, input = '', env = {} }: Omit<CliOptions, 'main'>, [program, ...args]: string[]) {
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

export function startCliOnTerminal(args: string[], { cwd, env = {} }: { cwd: string; env?: Record<string, string> }) {
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
