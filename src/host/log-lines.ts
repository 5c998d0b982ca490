// Log lines of `npm run dev` on a terminal: a short line for each request of the app and event of the agent. Pure.
import { stripVTControlCharacters, styleText } from 'node:util'

/** A line of the app is a request, an error or a notice. A line of the agent is an event with its fields. */
export type LogEntry = {
  method?: string
  path?: string
  status?: number
  ms?: number
  code?: string
  request_id?: string
  error?: string
  message?: string
  stack?: string
  notice?: string
  event?: string
  [field: string]: unknown
}
type Format = Parameters<typeof styleText>[0]
type FormatOptions = { time: Date; hasColors: boolean }

export function parseLogLine(line: string): LogEntry | undefined {
  try {
    const value = JSON.parse(line)
    return value instanceof Object ? value : undefined
  } catch {
    return undefined
  }
}

export function formatLogEntry(entry: LogEntry, { time, hasColors }: FormatOptions): string {
  const [format, text] = describeEntry(entry)
  // Further lines are indented, so that the output of an application cannot imitate a line of the log.
  const indented = stripControlCharacters(text).replaceAll('\n', '\n  ')
  const line = `${time.toTimeString().slice(0, 8)} ${indented}`
  return hasColors ? styleText(format, line, { validateStream: false }) : line
}

function describeEntry({ level, ...entry }: LogEntry): [format: Format, text: string] {
  const { method, path, status = 0, ms, code, request_id, error, message, stack, notice, event, ...fields } = entry
  if (event) return [eventFormat(event), `${event}${formatFields({ ...entry, event: undefined })}`]
  if (notice) return ['yellow', notice]
  if (error) return ['red', `${stack ?? joinDefined(': ', error, message)}${formatFields({ request_id, ...fields })}`]
  if (!method) return ['reset', JSON.stringify({ level, ...entry })]
  const request = `${status} ${method} ${path} ${ms} ms`
  if (status < 400) return ['dim', request]
  return [status < 500 ? 'yellow' : 'red', `${request}${code ? ` ${code}` : ''}${formatFields({ request_id })}`]
}

function eventFormat(event: string): Format {
  if (event === 'revision serving') return 'green'
  return /^revision (failed|unhealthy)$/.test(event) ? 'red' : 'dim'
}

const formatFields = (fields: Record<string, unknown>): string =>
  Object.entries(fields)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => ` ${name}=${formatValue(String(value))}`)
    .join('')
const formatValue = (value: string) => (/\s|^$/.test(value) ? `"${value}"` : value)

const joinDefined = (separator: string, ...parts: (string | undefined)[]) => parts.filter(Boolean).join(separator)

const stripControlCharacters = (text: string) =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to remove
  stripVTControlCharacters(text).replace(/[\0-\x08\x0b-\x1f\x7f-\x9f]/g, '')
