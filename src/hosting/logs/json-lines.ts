// The members of a line that is one JSON object, flattened and bounded (pure).
import {
  type LogAttributes,
  MAX_ATTRIBUTE_LENGTH,
  MAX_ATTRIBUTE_NAME,
  MAX_ATTRIBUTES,
  MAX_ATTRIBUTES_BYTES,
} from '../../protocol/logs.schema.ts'
import { sanitizeText } from './line-text.ts'

/** The line has columns for these. Its message stays as it was written. */
const OWN_MEMBERS = new Set(
  ['level', 'severity', 'levelname', 'log.level', 'lvl', 'message', 'msg', 'time', 'timestamp', 'ts', '@timestamp'], //
)
const MAX_DEPTH = 4
/** A value that is deeper is left out. */
const MAX_NESTING = 64
/** The quotes, the colon and the comma of a member. */
const MEMBER_BYTES = 6

/** Members beyond the bounds are left out: they are in the message anyway. */
export function readJsonLine(line: string): LogAttributes | undefined {
  if (!line.startsWith('{') || !line.trimEnd().endsWith('}')) return undefined
  let entry: unknown
  try {
    entry = JSON.parse(line)
  } catch {
    return undefined
  }
  const members: LogAttributes = Object.create(null)
  let [count, bytes] = [0, 2]
  const add = (name: string, value: unknown, depth: number): void => {
    if (value === null || value === undefined || OWN_MEMBERS.has(name)) return
    // Before anything is written: each member below has the names above it in its own.
    if (count === MAX_ATTRIBUTES || name.length > MAX_ATTRIBUTE_NAME) return
    if (typeof value === 'object' && !Array.isArray(value) && depth < MAX_DEPTH) {
      for (const [inner, one] of Object.entries(value)) add(name ? `${name}.${inner}` : inner, one, depth + 1)
      return
    }
    const key = sanitizeText(name)
    const scalar = toScalar(value)
    if (scalar === undefined || key === '') return
    const size = Buffer.byteLength(key) + Buffer.byteLength(JSON.stringify(scalar)) + MEMBER_BYTES
    if (key in members || bytes + size > MAX_ATTRIBUTES_BYTES) return
    members[key] = scalar
    count++
    bytes += size
  }
  add('', entry, 0)
  return count > 0 ? { ...members } : undefined
}

/** Numbers that JavaScript cannot write exactly are as they were parsed: the message has all their digits. */
function toScalar(value: unknown): string | number | boolean | undefined {
  if (typeof value === 'boolean' || Number.isFinite(value)) return value as number | boolean
  if (isDeeper(value, MAX_NESTING)) return undefined
  return cutText(sanitizeText(typeof value === 'object' ? JSON.stringify(value) : String(value)))
}

/** A line has room for more brackets than can be written: it parses them without recursion, and writes them with it. */
const isDeeper = (value: unknown, levels: number): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (levels === 0 || Object.values(value).some(one => isDeeper(one, levels - 1)))

const cutText = (text: string) => text.slice(0, MAX_ATTRIBUTE_LENGTH).toWellFormed()

/** The attributes that an agent has sent, with characters that every store takes. */
export const sanitizeAttributes = (attributes: LogAttributes): LogAttributes =>
  Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [
      sanitizeText(name),
      typeof value === 'string' ? cutText(sanitizeText(value)) : value,
    ]),
  )

const REQUEST_IDS = ['request_id', 'requestId', 'req_id', 'reqId', 'req.id', 'request.id', 'x-request-id']
const TRACE_IDS = ['trace_id', 'traceId', 'trace.id', 'otelTraceID', 'trace', 'logging.googleapis.com/trace']
const MAX_REQUEST_ID = 128
const TRACE_ID = /(?:^|\/)([0-9a-f]{32})$/

/** The ids that connect the lines of a request, under the names that loggers give them. */
export function readIds(attributes: LogAttributes | undefined): { request_id: string | null; trace_id: string | null } {
  const find = (names: string[]) => names.map(name => attributes?.[name]).find(value => value !== undefined)
  const request = String(find(REQUEST_IDS) ?? '')
  const [, trace = null] =
    TRACE_ID.exec(
      String(find(TRACE_IDS) ?? '')
        .toLowerCase()
        .replaceAll('-', ''),
    ) ?? []
  return { request_id: request !== '' && request.length <= MAX_REQUEST_ID ? request : null, trace_id: trace }
}
