// Measures requests per second, and the CPU time that they cost: with wrk where it is installed, otherwise with our own
// generator in its own process.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { type Cleanup, runForOutput } from './processes.ts'
import { formatNumber, median } from './statistics.ts'

type Target = { url: string; connections?: number; headers?: Record<string, string> }
type Load = Target & { seconds: number }
export type LoadResult = { requests: number; seconds: number; refused: number }

const GENERATOR_FILE = fileURLToPath(new URL('load-generator.ts', import.meta.url))

export const loadTool = (() => {
  try {
    execFileSync('wrk', ['--version'], { stdio: 'ignore' })
    return 'wrk'
  } catch (error) {
    // `wrk --version` exits with 1.
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'the built-in generator' : 'wrk'
  }
})()

export type LoadSlice<Program extends string> = {
  rps: number
  /** Milliseconds per request. */
  cpu: Record<Program, number>
}

/** `cpuOf` reads the CPU milliseconds of each program. Throws if a request is not answered with success. */
export async function measureLoad<Program extends string>(
  cleanup: Cleanup,
  load: Load,
  cpuOf: Record<Program, () => number>,
): Promise<LoadSlice<Program>> {
  const programs = Object.entries<() => number>(cpuOf)
  const before = programs.map(([, read]) => read())
  const send = loadTool === 'wrk' ? runWrk : runGenerator
  const { requests, seconds } = requireSuccess(load, await send(cleanup, load))
  const cpu = Object.fromEntries(programs.map(([name, read], i) => [name, (read() - before[i]!) / requests]))
  return { rps: requests / seconds, cpu: cpu as Record<Program, number> }
}

/** So many requests, by our own generator. Throws if one is not answered with success. */
export const sendRequests = async (cleanup: Cleanup, load: Target & { requests: number }): Promise<LoadResult> =>
  requireSuccess(load, await runGenerator(cleanup, load))

function requireSuccess({ url }: Target, result: LoadResult): LoadResult {
  const { requests, refused } = result
  if (refused > 0 || requests === 0) throw new Error(`${url}: ${refused} of ${requests} requests failed`)
  return result
}

export const rpsOf = (slices: LoadSlice<string>[]): number[] => slices.map(({ rps }) => rps)
export const cpuOf = <Program extends string>(slices: LoadSlice<Program>[], program: Program): number[] =>
  slices.map(({ cpu }) => cpu[program])

/** Like "workerd 1.10 ms, gateway 0.31 ms". */
export function describeCpu<Program extends string>(slices: LoadSlice<Program>[]): string {
  const programs = Object.keys(slices[0]!.cpu) as Program[]
  return programs.map(name => `${name} ${formatNumber(median(cpuOf(slices, name)))} ms`).join(', ')
}

async function runWrk(cleanup: Cleanup, { url, seconds, connections = 8, headers = {} }: Load): Promise<LoadResult> {
  const headerArgs = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  const text = await runForOutput(cleanup, 'wrk', [
    '-t1',
    `-c${connections}`,
    `-d${Math.ceil(seconds)}s`,
    ...headerArgs,
    url,
  ])
  const [, requests = '0', duration = '1', unit = 's'] = /(\d+) requests in ([\d.]+)(ms|s|m)\b/.exec(text) ?? []
  const refused = /Non-2xx or 3xx responses: (\d+)/.exec(text)?.[1] ?? (/Socket errors/.test(text) ? '1' : '0')
  const scale = { ms: 1e-3, s: 1, m: 60 }[unit]!
  return { requests: Number(requests), seconds: Number(duration) * scale, refused: Number(refused) }
}

async function runGenerator(cleanup: Cleanup, load: Load | (Target & { requests: number })): Promise<LoadResult> {
  return JSON.parse(
    await runForOutput(cleanup, process.execPath, [GENERATOR_FILE, JSON.stringify({ connections: 8, ...load })]),
  )
}
