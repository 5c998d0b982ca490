// Decodes an ExportTraceServiceRequest in JSON: ids are hexadecimal, 64-bit integers are texts, enums are numbers.
import {
  type Attributes,
  DecodeLimits,
  fromDouble,
  type ResourceSpans,
  type Span,
  type SpanEvent,
  toValue,
  UndecodableSpans,
  type Value,
} from './spans.ts'

type Json = { [name: string]: unknown }

function wrong(name: string, expected: string): never {
  throw new UndecodableSpans(`\`${name}\` is not ${expected}`)
}

const isJson = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

function readObject(json: Json, name: string): Json {
  const value = json[name] ?? {}
  return isJson(value) ? value : wrong(name, 'an object')
}

function readList(json: Json, name: string): Json[] {
  const value = json[name] ?? []
  return Array.isArray(value) && value.every(isJson) ? value : wrong(name, 'an array of objects')
}

function readText(json: Json, name: string): string {
  const value = json[name] ?? ''
  return typeof value === 'string' ? value : wrong(name, 'a string')
}

const readId = (json: Json, name: string): string => readText(json, name).toLowerCase()

function readInteger(json: Json, name: string): bigint {
  const value = json[name] ?? 0
  const isInteger = typeof value === 'string' ? /^-?\d{1,20}$/.test(value) : Number.isInteger(value)
  const integer = isInteger ? BigInt(value as string | number) : wrong(name, 'an integer')
  return integer < 1n << 64n && integer >= -(1n << 63n) ? integer : wrong(name, 'an integer of 64 bits')
}

function readDouble(json: Json, name: string): number {
  const value = Number(json[name])
  return typeof json[name] === 'object' || (Number.isNaN(value) && json[name] !== 'NaN')
    ? wrong(name, 'a number')
    : value
}

function readValue(json: Json, limits: DecodeLimits, depth: number): Value {
  limits.countValue(depth)
  if ('stringValue' in json) return readText(json, 'stringValue')
  if ('boolValue' in json) return json.boolValue === true || json.boolValue === 'true'
  if ('intValue' in json) return toValue(readInteger(json, 'intValue'))
  if ('doubleValue' in json) return fromDouble(readDouble(json, 'doubleValue'))
  if ('bytesValue' in json) return readText(json, 'bytesValue')
  if ('arrayValue' in json)
    return readList(readObject(json, 'arrayValue'), 'values').map(item => readValue(item, limits, depth + 1))
  if ('kvlistValue' in json)
    return Object.fromEntries(readAttributes(readObject(json, 'kvlistValue'), 'values', limits, depth + 1))
  return null
}

function readAttributes(json: Json, name: string, limits: DecodeLimits, depth = 0): Attributes {
  const attributes: Attributes = new Map()
  for (const pair of readList(json, name)) {
    limits.countValue(depth)
    attributes.set(readText(pair, 'key'), readValue(readObject(pair, 'value'), limits, depth))
  }
  return attributes
}

function readEvent(json: Json, limits: DecodeLimits): SpanEvent {
  limits.countGroup()
  return {
    name: readText(json, 'name'),
    nanoseconds: readInteger(json, 'timeUnixNano'),
    attributes: readAttributes(json, 'attributes', limits),
  }
}

function readSpan(json: Json, limits: DecodeLimits): Span {
  limits.countSpan()
  const status = readObject(json, 'status')
  return {
    trace_id: readId(json, 'traceId'),
    span_id: readId(json, 'spanId'),
    parent_span_id: readId(json, 'parentSpanId'),
    name: readText(json, 'name'),
    start: readInteger(json, 'startTimeUnixNano'),
    end: readInteger(json, 'endTimeUnixNano'),
    attributes: readAttributes(json, 'attributes', limits),
    events: readList(json, 'events').map(event => readEvent(event, limits)),
    status: { code: Number(readInteger(status, 'code')), message: readText(status, 'message') },
  }
}

/** Throws for JSON that is not such a message, and for one beyond the limits. */
export function decodeJson(json: unknown): ResourceSpans[] {
  const limits = new DecodeLimits()
  const body = isJson(json) ? json : wrong('body', 'an object')
  return readList(body, 'resourceSpans').map(item => {
    limits.countGroup()
    return {
      resource: readAttributes(readObject(item, 'resource'), 'attributes', limits),
      spans: readList(item, 'scopeSpans').flatMap(scope =>
        readList(scope, 'spans').map(span => readSpan(span, limits)),
      ),
    }
  })
}
