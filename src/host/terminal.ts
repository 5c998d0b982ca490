// Owns how `npm run dev` speaks: colours on a terminal only, the app's log readable there and raw anywhere else.
import { stripVTControlCharacters, styleText } from 'node:util'

const { stdout, stderr } = process
// A terminal that is closed, or a pipe that is, must not keep us from stopping in order.
for (const stream of [stdout, stderr]) stream.on('error', () => {})

export const print = (text = '') => stdout.write(`${text}\n`)
export const dim = (text: string) => styleText('dim', text)
export const bold = (text: string) => styleText('bold', text)
export const printError = (text: string) =>
  stderr.write(`${stderr.isTTY && stderr.hasColors() ? text : stripVTControlCharacters(text)}\n`)

/** Says how long a step of the start took. */
export async function timeStep<T>(name: string, work: Promise<T>): Promise<T> {
  const start = performance.now()
  const result = await work
  print(dim(`  ${name.padEnd(11)}${((performance.now() - start) / 1000).toFixed(1)} s`))
  return result
}

type Entry = { method?: string; path?: string; status?: number; ms?: number; code?: string; request_id?: string }
type Trouble = { error?: string; message?: string; stack?: string; notice?: string }

/** A line of the Worker's: a request, an error with its stack, or whatever a developer wrote. */
export function showWorkerLine(line: string, ours: string): void {
  const entry = parseLine(line)
  if (entry.request_id === ours) return
  // The agent asks without end.
  if (entry.path?.startsWith('/v1/sync/') && (entry.status ?? 500) < 400) return
  if (!stdout.isTTY || !(entry.method || entry.error || entry.notice)) return void print(line)
  const { method, path, status = 0, ms, code, error, message, stack, notice } = entry
  if (notice) print(styleText('yellow', notice))
  else if (error) print(styleText('red', stack ?? `${error}: ${message}`))
  else {
    const text = stripVTControlCharacters(`${method} ${path} ${status} ${ms} ms${code ? ` ${code}` : ''}`)
    print(status >= 500 ? styleText('red', text) : dim(text))
  }
}

/** A line of the agent's: what came of a deployment stands out. */
export function showAgentLine(line: string): void {
  if (/^revision (failed|unhealthy) /.test(line)) print(styleText('red', line))
  else print(line.startsWith('revision serving ') ? line : dim(line))
}

function parseLine(line: string): Entry & Trouble {
  try {
    return Object(JSON.parse(line))
  } catch {
    return {}
  }
}
