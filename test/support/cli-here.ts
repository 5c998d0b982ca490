// Commands of `slipway` in this process, which costs a hundredth of a process of their own. Not on a terminal.
import { vi } from 'vitest'
import { type FailureReport, toReport } from '../../src/cli/failure.ts'
import { createProgram, declareNamed } from '../../src/cli/program.ts'
import type { Tenant } from './app.ts'

export type HereResult = {
  code: number
  objects: Record<string, unknown>[]
  out: string
  /** Standard error, without the report of a failure. */
  err: string
  error?: FailureReport
}

type Login = { url: string | undefined; key: string | undefined; workspace?: string }
type Running = { seen: () => Record<string, unknown>[]; stop: () => void; ended: Promise<HereResult> }

/** Runs one command at a time, because it catches the output of this process. */
export function startHere({ url, key, workspace }: Login, args: string[]): Running {
  const interruption = new AbortController()
  const program = createProgram(interruption.signal)
  let out = ''
  const decoder = new TextDecoder()
  const write = (chunk: string | Uint8Array): boolean => {
    out += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true })
    return true
  }
  let err = ''
  const writeError = (chunk: string | Uint8Array): boolean => {
    err += chunk
    return true
  }
  const spies = [
    vi.spyOn(process.stdout, 'write').mockImplementation(write),
    vi.spyOn(process.stderr, 'write').mockImplementation(writeError),
    vi.spyOn(process.stdout, 'on').mockReturnValue(process.stdout),
    vi.spyOn(process.stderr, 'on').mockReturnValue(process.stderr),
  ]
  vi.stubEnv('SLIPWAY_URL', url).stubEnv('SLIPWAY_API_KEY', key).stubEnv('SLIPWAY_WORKSPACE', workspace)
  const seen = () =>
    out
      .split('\n')
      .filter(line => line.startsWith('{') && line.endsWith('}'))
      .map(line => JSON.parse(line))
  const run = async (): Promise<HereResult> => {
    try {
      await declareNamed(program, args)
      await program.parseAsync(args, { from: 'user' })
      return { code: 0, objects: seen(), out, err }
    } catch (caught) {
      const { report, exitCode } = toReport(caught)
      return { code: exitCode, objects: seen(), out, err, error: report }
    } finally {
      for (const spy of spies) spy.mockRestore()
      vi.unstubAllEnvs()
    }
  }
  return { seen, stop: () => interruption.abort(), ended: run() }
}

/** Runs commands as a tenant, one after another. */
export const makeHereRunner =
  (url: string, { key }: Pick<Tenant, 'key'>, workspace?: string) =>
  (...args: string[]): Promise<HereResult> =>
    startHere({ url, key, ...(workspace && { workspace }) }, args).ended
