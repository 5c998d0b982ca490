// Owns the load on a server: Debian's wrk where it is installed, else a small generator of our own in a process of its own.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { type Ending, output } from './processes.ts'

type Load = { url: string; seconds: number; connections?: number; headers?: Record<string, string> }
export type Generated = { requests: number; seconds: number; refused: number }

const GENERATOR = fileURLToPath(new URL('generator.ts', import.meta.url))

export const tool = (() => {
  try {
    execFileSync('wrk', ['--version'], { stdio: 'ignore' })
    return 'wrk'
  } catch (error) {
    // Its --version ends with 1.
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'the built-in generator' : 'wrk'
  }
})()

/** Requests per second that are answered, all of them well. */
export async function rps(ending: Ending, load: Load): Promise<number> {
  const { requests, seconds, refused } = await (tool === 'wrk' ? byWrk(ending, load) : byOurs(ending, load))
  if (refused > 0 || requests === 0) throw new Error(`${load.url}: ${refused} of ${requests} requests were refused`)
  return requests / seconds
}

async function byWrk(ending: Ending, { url, seconds, connections = 8, headers = {} }: Load): Promise<Generated> {
  const given = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  const text = await output(ending, 'wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, ...given, url])
  const [, requests = '0', took = '1', unit = 's'] = /(\d+) requests in ([\d.]+)(ms|s|m)\b/.exec(text) ?? []
  const refused = /Non-2xx or 3xx responses: (\d+)/.exec(text)?.[1] ?? (/Socket errors/.test(text) ? '1' : '0')
  const scale = { ms: 1e-3, s: 1, m: 60 }[unit]!
  return { requests: Number(requests), seconds: Number(took) * scale, refused: Number(refused) }
}

async function byOurs(ending: Ending, load: Load): Promise<Generated> {
  return JSON.parse(await output(ending, process.execPath, [GENERATOR, JSON.stringify({ connections: 8, ...load })]))
}
