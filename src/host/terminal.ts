// Output of `npm run dev`: short and colored on a terminal, JSON log lines elsewhere.
import { stripVTControlCharacters, styleText } from 'node:util'
import { formatLogEntry, type LogEntry, parseLogLine } from './log-lines.ts'

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

/** Prints a line of the Worker or of the agent: short on a terminal, as it is elsewhere. */
export function showLogLine(line: string, isHidden: (entry: LogEntry) => boolean = () => false): void {
  const entry = parseLogLine(line)
  if (entry && isHidden(entry)) return
  const hasColors = stdout.isTTY && stdout.hasColors()
  print(entry && stdout.isTTY ? formatLogEntry(entry, { time: new Date(), hasColors }) : line)
}
