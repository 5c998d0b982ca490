// Writes lines as messages of syslog: RFC 5424, with the length before each (RFC 5425, RFC 6587) (pure).
import type { DrainGroup, LogRecord } from './drain-records.ts'
import { isOfMetrics } from './drain-records.ts'

/** `local0`. */
const FACILITY = 16
const SEVERITIES = { DEBUG: 7, INFO: 6, WARNING: 4, ERROR: 3, CRITICAL: 2 } as const
/** The number that RFC 5612 keeps for documents: Slipway has none of its own. */
const DATA_ID = 'slipway@32473'
const NIL = '-'
/** Receivers cut what is longer, and must take 2,048. */
const MAX_MESSAGE_BYTES = 60 * 1024
const BOM = '\ufeff'

/** A name of the header has printable ASCII without spaces. */
const headerText = (text: unknown, length: number): string =>
  String(text ?? '')
    .replace(/[^\x21-\x7e]/g, '_')
    .slice(0, length) || NIL
const parameterName = (name: string): string => name.replace(/[^\x21-\x7e]|[="\]]/g, '_').slice(0, 32)
const parameterValue = (value: unknown): string => messageText(String(value)).replace(/["\\\]]/g, '\\$&')

/** A line break would be a second message for receivers that do not count. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: replacing control characters is the purpose
const messageText = (text: string): string => text.replace(/[\x00-\x08\x0a-\x1f\x7f]/g, ' ')

function toMessage(signal: string, resource: Record<string, unknown>, record: LogRecord): Buffer {
  const { time, level, message, attributes = {} } = record
  const { 'service.name': service, ...rest } = resource
  const { 'slipway.process': type, ...others } = attributes
  const data = Object.entries({ ...rest, ...others }).map(
    ([name, value]) => ` ${parameterName(name)}="${parameterValue(value)}"`,
  )
  const header = [
    `<${FACILITY * 8 + SEVERITIES[level]}>1`,
    new Date(time).toISOString(),
    headerText(service, 255),
    headerText(service, 48),
    headerText(type, 128),
    headerText(signal, 32),
    `[${DATA_ID}${data.join('')}]`,
  ].join(' ')
  const bytes = Buffer.from(`${header} ${BOM}${messageText(message)}`)
  // The cut may split a character, which the receiver replaces.
  return bytes.length > MAX_MESSAGE_BYTES ? bytes.subarray(0, MAX_MESSAGE_BYTES) : bytes
}

/** Metrics have no form in syslog, and are refused before. */
export function encodeSyslog(groups: DrainGroup[]): Buffer {
  const parts: Buffer[] = []
  for (const group of groups) {
    if (isOfMetrics(group)) continue
    for (const record of group.records) {
      const message = toMessage(group.signal, group.resource, record)
      parts.push(Buffer.from(`${message.length} `), message)
    }
  }
  return Buffer.concat(parts)
}
