// Output of `npm run dev`: colored and readable on a terminal, raw log lines elsewhere.
import { stripVTControlCharacters, styleText } from 'node:util'

const { stdout, stderr } = process
// A closed terminal or pipe must not prevent an orderly stop.
for (const stream of [stdout, stderr]) stream.on('error', () => {})

export const print = (text = '') => stdout.write(`${text}\n`)
export const dim = (text: string) => styleText('dim', text)
export const bold = (text: string) => styleText('bold', text)
export const printError = (text: string) =>
  stderr.write(`${stderr.isTTY && stderr.hasColors() ? text : stripVTControlCharacters(text)}\n`)

export async function timeStep<T>(name: string, work: Promise<T>): Promise<T> {
  const start = performance.now()
  const result = await work
  print(dim(`  ${name.padEnd(11)}${((performance.now() - start) / 1000).toFixed(1)} s`))
  return result
}

type Entry = { method?: string; path?: string; status?: number; ms?: number; code?: string; request_id?: string }
type LogProblem = { error?: string; message?: string; stack?: string; notice?: string }

/** Prints a request, an error with its stack, or any other line of the Worker. Skips dev's own requests. */
export function showWorkerLine(line: string, probeId: string): void {
  const entry = parseLine(line)
  if (entry.request_id === probeId) return
  // The agent polls all the time.
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

/** Highlights the outcome of a revision. */
export function showAgentLine(line: string): void {
  if (/^revision (failed|unhealthy) /.test(line)) print(styleText('red', line))
  else print(line.startsWith('revision serving ') ? line : dim(line))
}

function parseLine(line: string): Entry & LogProblem {
  try {
    return Object(JSON.parse(line))
  } catch {
    return {}
  }
}
