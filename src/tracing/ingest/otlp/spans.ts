// Spans as OpenTelemetry exports them, decoded from protobuf or JSON, and the limits of a request.

/** Bytes are base64. An integer that a number cannot hold is a bigint. */
export type Value = string | boolean | number | bigint | null | Value[] | { [name: string]: Value }
export type Attributes = Map<string, Value>

export type SpanEvent = { name: string; nanoseconds: bigint; attributes: Attributes }
export type Span = {
  /** Lower-case hexadecimal, of any length: `findSpanFault()` checks it. Empty if it is absent. */
  trace_id: string
  span_id: string
  parent_span_id: string
  name: string
  /** Nanoseconds since 1970. 0 if it is absent. */
  start: bigint
  end: bigint
  attributes: Attributes
  events: SpanEvent[]
  status: { code: number; message: string }
}
/** The spans of one process. The attributes describe the process. */
export type ResourceSpans = { resource: Attributes; spans: Span[] }

export const STATUS_ERROR = 2

export const newSpan = (): Span => ({
  trace_id: '',
  span_id: '',
  parent_span_id: '',
  name: '',
  start: 0n,
  end: 0n,
  attributes: new Map(),
  events: [],
  status: { code: 0, message: '' },
})
export const newEvent = (): SpanEvent => ({ name: '', nanoseconds: 0n, attributes: new Map() })

/** The limit of one request. In protobuf, an empty span takes two bytes, but the memory of a whole one. */
const MAX_SPANS = 10_000
const MAX_VALUES = 500_000
const MAX_DEPTH = 64

/** Objects with a map of attributes take the memory of several values. */
const VALUES_OF_GROUP = 4

export class UndecodableSpans extends Error {}

/** Counts the allocations of the decoder. */
export class DecodeLimits {
  #spans = 0
  #values = 0

  countSpan(): void {
    this.#spans += 1
    if (this.#spans > MAX_SPANS) throw new UndecodableSpans(`it has more than ${MAX_SPANS} spans`)
  }

  /** Counts an event, or the group of spans of one process. */
  countGroup(): void {
    this.#values += VALUES_OF_GROUP - 1
    this.countValue(0)
  }

  /** `depth` is how many lists and objects of the attribute are around the value. */
  countValue(depth: number): void {
    this.#values += 1
    if (this.#values > MAX_VALUES) throw new UndecodableSpans(`it has more than ${MAX_VALUES} values`)
    if (depth > MAX_DEPTH) throw new UndecodableSpans(`an attribute is nested deeper than ${MAX_DEPTH} levels`)
  }
}

const HEX_TRACE_ID = /^(?!0+$)[0-9a-f]{32}$/
const HEX_SPAN_ID = /^(?!0+$)[0-9a-f]{16}$/
/** Some exporters send zeros for a parent that there is not. */
const HEX_PARENT_ID = /^([0-9a-f]{16})?$/

/** Explains why a span cannot be stored, or returns undefined. */
export function findSpanFault(span: Span): string | undefined {
  if (!HEX_TRACE_ID.test(span.trace_id)) return 'its trace id is not 16 bytes other than zeros'
  if (!HEX_SPAN_ID.test(span.span_id)) return 'its span id is not 8 bytes other than zeros'
  if (!HEX_PARENT_ID.test(span.parent_span_id)) return 'its parent span id is not 8 bytes'
  if (span.start <= 0n) return 'it has no start time'
  return undefined
}

/** An integer as a number, if that keeps its digits. */
export const toValue = (integer: bigint): number | bigint =>
  integer >= Number.MIN_SAFE_INTEGER && integer <= Number.MAX_SAFE_INTEGER ? Number(integer) : integer

/** JSON has no such numbers. */
export const fromDouble = (double: number): number | string => (Number.isFinite(double) ? double : String(double))
