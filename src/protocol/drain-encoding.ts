// Writes records of drains as receivers by HTTP take them: OTLP in JSON, the push API of Loki, lines of JSON (pure).

import {
  type Attributes,
  type DrainGroup,
  isOfMetrics,
  type LogGroup,
  type LogRecord,
  type MetricGroup,
  type MetricRecord,
  type MetricValue,
  type Scalar,
} from './drain-records.ts'
import type { DrainKind } from './drains.schema.ts'

export type EncodedBatch = { url: string; contentType: string; body: string }
export type HttpKind = Exclude<DrainKind, 'syslog'>

const JSON_TYPE = 'application/json'
const SCOPE = { name: 'slipway' }
/** Severity numbers of OpenTelemetry. */
const SEVERITIES = { DEBUG: 5, INFO: 9, WARNING: 13, ERROR: 17, CRITICAL: 21 } as const
const CUMULATIVE = 2

/** All groups of a batch have lines, or all have metrics. */
export function encodeBatch(kind: HttpKind, url: string, groups: DrainGroup[]): EncodedBatch {
  if (kind === 'ndjson') return { url, contentType: 'application/x-ndjson', body: encodeLines(groups) }
  const logs = groups.filter(group => !isOfMetrics(group)) as LogGroup[]
  if (kind === 'loki') return { url: pushUrl(url), contentType: JSON_TYPE, body: encodeLoki(logs) }
  return logs.length > 0
    ? { url: signalUrl(url, 'logs'), contentType: JSON_TYPE, body: encodeOtlpLogs(logs) }
    : { url: signalUrl(url, 'metrics'), contentType: JSON_TYPE, body: encodeOtlpMetrics(groups as MetricGroup[]) }
}

// ---- OTLP

/** The number of records that a receiver left out of a batch that it took. Most answer with no JSON. */
export function readRejected(answer: string): number {
  try {
    const { partialSuccess } = JSON.parse(answer) as { partialSuccess?: Record<string, unknown> }
    const { rejectedLogRecords, rejectedDataPoints, rejectedSpans } = partialSuccess ?? {}
    const rejected = Number(rejectedLogRecords ?? rejectedDataPoints ?? rejectedSpans ?? 0)
    // Anything else is no count, and would spoil what is counted.
    return Number.isSafeInteger(rejected) && rejected > 0 ? rejected : 0
  } catch {
    return 0
  }
}

export const describeRejected = (rejected: number): string => `The receiver rejected ${rejected} records of a batch.`

/** The base of an exporter of OpenTelemetry gets the path of the signal. */
export function signalUrl(base: string, signal: 'logs' | 'metrics' | 'traces'): string {
  const url = new URL(base)
  url.pathname = `${url.pathname.replace(/\/$/, '')}/v1/${signal}`
  return url.href
}

/** The JSON mapping of protobuf writes 64-bit integers as strings. */
const nanoseconds = (time: string, more = 0): string =>
  `${Date.parse(time)}${String(more % 1_000_000).padStart(6, '0')}`

const otlpValue = (value: Scalar) =>
  typeof value === 'string'
    ? { stringValue: value }
    : typeof value === 'boolean'
      ? { boolValue: value }
      : Number.isSafeInteger(value)
        ? { intValue: String(value) }
        : { doubleValue: value }
export const otlpAttributes = (attributes: Attributes) =>
  Object.entries(attributes).map(([key, value]) => ({ key, value: otlpValue(value) }))

const isTraceId = (id: Scalar | undefined) => typeof id === 'string' && /^[0-9a-f]{32}$/.test(id)
const isSpanId = (id: Scalar | undefined) => typeof id === 'string' && /^[0-9a-f]{16}$/.test(id)

function toOtlpLog(signal: LogGroup['signal'], { time, level, message, attributes = {} }: LogRecord) {
  const { trace_id, span_id } = attributes
  return {
    timeUnixNano: nanoseconds(time),
    observedTimeUnixNano: nanoseconds(time),
    severityNumber: SEVERITIES[level],
    severityText: level,
    body: { stringValue: message },
    attributes: otlpAttributes({ 'slipway.signal': signal, ...attributes }),
    ...(isTraceId(trace_id) && { traceId: trace_id }),
    ...(isTraceId(trace_id) && isSpanId(span_id) && { spanId: span_id }),
  }
}

const encodeOtlpLogs = (groups: LogGroup[]): string =>
  JSON.stringify({
    resourceLogs: groups.map(({ signal, resource, records }) => ({
      resource: { attributes: otlpAttributes(resource) },
      scopeLogs: [{ scope: SCOPE, logRecords: records.map(record => toOtlpLog(signal, record)) }],
    })),
  })

function toDataPoint(value: MetricValue, { time, since, attributes }: MetricRecord) {
  const common = {
    attributes: otlpAttributes({ ...attributes, ...value.attributes }),
    timeUnixNano: nanoseconds(time),
    ...(value.kind !== 'gauge' && { startTimeUnixNano: nanoseconds(since) }),
  }
  if (value.kind !== 'histogram') return { ...common, asDouble: value.value }
  return {
    ...common,
    count: String(value.counts.reduce((sum, count) => sum + count, 0)),
    bucketCounts: value.counts.map(String),
    explicitBounds: value.bounds,
  }
}

function toOtlpMetrics(records: MetricRecord[]) {
  const values = records.flatMap(record => record.values.map(value => ({ value, record })))
  return [...Map.groupBy(values, ({ value }) => value.name)].map(([name, points]) => {
    const { unit, kind } = points[0]!.value
    const dataPoints = points.map(({ value, record }) => toDataPoint(value, record))
    const of = { aggregationTemporality: CUMULATIVE, dataPoints }
    if (kind === 'gauge') return { name, unit, gauge: { dataPoints } }
    return kind === 'sum' ? { name, unit, sum: { ...of, isMonotonic: true } } : { name, unit, histogram: of }
  })
}

const encodeOtlpMetrics = (groups: MetricGroup[]): string =>
  JSON.stringify({
    resourceMetrics: groups.map(({ resource, records }) => ({
      resource: { attributes: otlpAttributes(resource) },
      scopeMetrics: [{ scope: SCOPE, metrics: toOtlpMetrics(records) }],
    })),
  })

// ---- Loki

const PUSH_PATH = '/loki/api/v1/push'

function pushUrl(base: string): string {
  const url = new URL(base)
  if (url.pathname === '/') url.pathname = PUSH_PATH
  return url.href
}

const asTexts = (attributes: Attributes) =>
  Object.fromEntries(Object.entries(attributes).map(([name, value]) => [labelOf(name), String(value)]))
const labelOf = (name: string): string => name.replace(/[^A-Za-z0-9_]/g, '_')

/**
 * Few values become labels, because each combination is a stream. Loki drops a line that has the time and the text of
 * another one, so lines of a group differ in their nanoseconds.
 */
function encodeLoki(groups: LogGroup[]): string {
  const streams = groups.flatMap(({ signal, resource, records }) => {
    const { 'service.name': service = 'slipway', ...rest } = resource
    const numbered = records.map((record, place) => ({ ...record, place }))
    return [...Map.groupBy(numbered, ({ level }) => level)].map(([level, lines]) => ({
      stream: { service_name: String(service), signal, level: level.toLowerCase() },
      values: lines.map(({ time, message, attributes = {}, place }) => [
        nanoseconds(time, place),
        message,
        asTexts({ ...rest, ...attributes }),
      ]),
    }))
  })
  return JSON.stringify({ streams })
}

// ---- lines of JSON

const valuesOf = (values: MetricValue[]) =>
  values.map(({ name, unit, attributes, ...value }) => ({
    name,
    unit,
    ...attributes,
    ...(value.kind === 'histogram' ? { bounds: value.bounds, counts: value.counts } : { value: value.value }),
  }))

function encodeLines(groups: DrainGroup[]): string {
  const lines: string[] = []
  for (const group of groups) {
    const { signal, resource } = group
    if (isOfMetrics(group))
      for (const { time, since, attributes, values } of group.records)
        lines.push(JSON.stringify({ time, signal, since, resource, attributes, values: valuesOf(values) }))
    else
      for (const { time, level, message, attributes } of group.records)
        lines.push(JSON.stringify({ time, signal, level, message, resource, attributes }))
  }
  return lines.map(line => `${line}\n`).join('')
}
