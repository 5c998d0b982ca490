// The trace context (W3C) and the id of each request: passed on if they are valid, made by the router otherwise.
import { randomFillSync } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { routerSpanOf } from '../../../protocol/router-trace.ts'

type TraceParent = { trace_id: string; parent: string }
export type TraceContext = { trace_id: string; request_id: string; traceparent: string; tracestate: string }

const TRACE_PARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const ZEROS = /^0+$/
const REQUEST_ID = /^[\w.:+=/@-]{1,128}$/
/** A letter begins the name of a vendor, and a tenant of one may begin with a digit. */
const STATE_KEY = /^(?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})$/
const STATE_VALUE = /^[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/
/** Every program has to pass on so much. More is cut: members of more than 128 characters first, then the last. */
const MAX_STATE_LENGTH = 512
const MAX_STATE_MEMBERS = 32
const LONG_MEMBER = 128

/** Undefined if it is not valid. A later version is passed on as this one: its first four fields mean the same. */
export function parseTraceParent(header: string): TraceParent | undefined {
  const [, version, trace_id, span, flags, rest] = TRACE_PARENT.exec(header) ?? []
  if (!version || version === 'ff' || ZEROS.test(trace_id!) || ZEROS.test(span!)) return undefined
  if (version === '00') return rest === undefined ? { trace_id: trace_id!, parent: header } : undefined
  return { trace_id: trace_id!, parent: `00-${trace_id}-${span}-0${Number.parseInt(flags!, 16) & 1}` }
}

/** Empty if a member is not valid. */
export function boundTraceState(header: string): string {
  const members = header
    .split(',')
    .map(member => member.trim())
    .filter(member => member !== '')
  const keys = new Set<string>()
  for (const member of members) {
    const at = member.indexOf('=')
    const key = member.slice(0, Math.max(at, 0))
    if (keys.has(key) || !STATE_KEY.test(key) || !STATE_VALUE.test(member.slice(at + 1))) return ''
    keys.add(key)
  }
  const kept = members.slice(0, MAX_STATE_MEMBERS)
  const isTooLong = () => kept.join(',').length > MAX_STATE_LENGTH
  while (isTooLong()) {
    const long = kept.findLastIndex(({ length }) => length > LONG_MEMBER)
    kept.splice(long === -1 ? kept.length - 1 : long, 1)
  }
  return kept.join(',')
}

/** A member of the request costs far less than a `WeakMap`. */
const CONTEXT = Symbol('trace context')
type Traced = IncomingMessage & { [CONTEXT]?: TraceContext }

/** The same for each attempt to send the request. */
export function traceOf(req: Traced): TraceContext {
  req[CONTEXT] ??= readContext(req.headers)
  return req[CONTEXT]
}

function readContext(headers: IncomingMessage['headers']): TraceContext {
  const sent = headers['x-request-id']?.toString() ?? ''
  const request_id = REQUEST_ID.test(sent) ? sent : randomHex(16)
  const { traceparent, tracestate } = headers
  const parsed = traceparent === undefined ? undefined : parseTraceParent(traceparent.toString())
  if (!parsed) {
    const trace_id = randomHex(16)
    return { trace_id, request_id, traceparent: `00-${trace_id}-${routerSpanOf(trace_id)}-01`, tracestate: '' }
  }
  const state = tracestate === undefined ? '' : boundTraceState(tracestate.toString())
  return { trace_id: parsed.trace_id, request_id, traceparent: parsed.parent, tracestate: state }
}

/** Replaced by `traceHeaders`, also where they are not valid. */
export const TRACE_HEADERS: ReadonlySet<string> = new Set(['traceparent', 'tracestate', 'x-request-id'])

/** For the application. */
export function traceHeaders(req: IncomingMessage): string[] {
  const { traceparent, tracestate, request_id } = traceOf(req)
  const headers = ['traceparent', traceparent, 'X-Request-ID', request_id]
  if (tracestate !== '') headers.push('tracestate', tracestate)
  return headers
}

/** A call for each request costs more than all else that is done for its ids. */
const pool = Buffer.alloc(8_192)
let used = pool.length
function randomHex(bytes: number): string {
  if (used + bytes > pool.length) {
    randomFillSync(pool)
    used = 0
  }
  used += bytes
  return pool.toString('hex', used - bytes, used)
}
