// Owns the load on a server: Debian's wrk where it is installed, else a small generator of our own in a process of its own.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { type Cleanup, runForOutput } from './processes.ts'

type Load = { url: string; seconds: number; connections?: number; headers?: Record<string, string> }
export type LoadResult = { requests: number; seconds: number; refused: number }

const GENERATOR_FILE = fileURLToPath(new URL('load-generator.ts', import.meta.url))

export const loadTool = (() => {
  try {
    execFileSync('wrk', ['--version'], { stdio: 'ignore' })
    return 'wrk'
  } catch (error) {
    // Its --version ends with 1.
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'the built-in generator' : 'wrk'
  }
})()

/** Requests per second that are answered, all of them well. */
export async function measureRps(ending: Cleanup, load: Load): Promise<number> {
  const { requests, seconds, refused } = await (loadTool === 'wrk' ? runWrk(ending, load) : runGenerator(ending, load))
  if (refused > 0 || requests === 0) throw new Error(`${load.url}: ${refused} of ${requests} requests were refused`)
  return requests / seconds
}

async function runWrk(ending: Cleanup, { url, seconds, connections = 8, headers = {} }: Load): Promise<LoadResult> {
  const given = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  const text = await runForOutput(ending, 'wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, ...given, url])
  const [, requests = '0', took = '1', unit = 's'] = /(\d+) requests in ([\d.]+)(ms|s|m)\b/.exec(text) ?? []
  const refused = /Non-2xx or 3xx responses: (\d+)/.exec(text)?.[1] ?? (/Socket errors/.test(text) ? '1' : '0')
  const scale = { ms: 1e-3, s: 1, m: 60 }[unit]!
  return { requests: Number(requests), seconds: Number(took) * scale, refused: Number(refused) }
}

async function runGenerator(ending: Cleanup, load: Load): Promise<LoadResult> {
  return JSON.parse(
    await runForOutput(ending, process.execPath, [GENERATOR_FILE, JSON.stringify({ connections: 8, ...load })]),
  )
}
