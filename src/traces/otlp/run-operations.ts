// Converts spans to operations on runs. One that cannot be stored is left out, and reported.
import type { RunOperation } from '../store.ts'
import { AttributeReader } from './attribute-reader.ts'
import { toIsoMicroseconds } from './ids.ts'
import { readPayload } from './inputs-outputs.ts'
import { keepDigits } from './messages.ts'
import { readExtra, readTags } from './metadata.ts'
import { orderSpans, readPlace, type SpanPlace, toPlacement } from './placement.ts'
import { readRunType } from './run-types.ts'
import { type Attributes, findSpanFault, type ResourceSpans, type Span, type SpanEvent, STATUS_ERROR } from './spans.ts'

export type SpanOperations = {
  operations: RunOperation[]
  places: SpanPlace[]
  rejected: number
  /** Why the first of them was rejected. */
  reason?: string
}

export function toOperations(all: ResourceSpans[], project: string | undefined): SpanOperations {
  const converted: { operation: RunOperation; place: SpanPlace }[] = []
  let rejected = 0
  let reason: string | undefined
  for (const { resource, spans } of all)
    for (const span of spans) {
      const fault = findSpanFault(span)
      if (fault === undefined) converted.push(convert(span, resource, project))
      else {
        rejected += 1
        reason ??= `Span ${JSON.stringify(span.name.slice(0, 100))} is rejected because ${fault}.`
      }
    }
  const places = converted.map(({ place }) => place)
  const orders = orderSpans(places)
  const operations = converted.map(({ operation, place }) => ({ ...operation, ...toPlacement(orders.get(place)!) }))
  return { operations, places, rejected, ...(reason !== undefined && { reason }) }
}

/** Text columns hold no NUL character, and no lone surrogate. */
const clean = (text: string): string => text.replaceAll('\0', '\ufffd').toWellFormed()

const NAME = ['langsmith.trace.name', 'traceloop.entity.name', 'tool.name']

function convert(span: Span, resource: Attributes, project: string | undefined) {
  const { events, attributes: sent } = hoistDetails(span)
  const attributes = new AttributeReader(sent)
  const place = readPlace(span, attributes)
  const { left, ...payload } = readPayload(attributes, events)
  const sessionId = attributes.text('langsmith.trace.session_id')
  const sessionName = attributes.text('langsmith.trace.session_name') ?? project ?? projectOf(resource)
  const example = attributes.text('langsmith.reference_example_id')
  const operation: RunOperation = {
    kind: 'post',
    id: place.id,
    loc: ['body', 'spans', span.span_id],
    ...(sessionId !== undefined ? { session_id: sessionId } : { session_name: sessionName && clean(sessionName) }),
    name: clean(attributes.text(...NAME) ?? (span.name || 'span')),
    run_type: readRunType(attributes),
    start_time: place.start,
    end_time: span.end === 0n ? undefined : toIsoMicroseconds(span.end > span.start ? span.end : span.start),
    error: readError(span),
    tags: readTags(attributes)?.map(clean),
    reference_example_id: example,
    ...payload,
    events: left.length > 0 ? JSON.stringify(left.map(toRunEvent), keepDigits) : undefined,
  }
  const ids = { OTEL_TRACE_ID: span.trace_id, OTEL_SPAN_ID: span.span_id }
  return { place, operation: { ...operation, extra: JSON.stringify(readExtra(attributes, resource, ids), keepDigits) } }
}

/** An event may hold what other instrumentations send as attributes of the span. */
function hoistDetails({ attributes, events }: Span): { attributes: Attributes; events: SpanEvent[] } {
  const isDetails = ({ name }: SpanEvent) => name === 'gen_ai.client.inference.operation.details'
  const details = events.filter(isDetails).flatMap(event => [...event.attributes])
  if (details.length === 0) return { attributes, events }
  return { attributes: new Map([...details, ...attributes]), events: events.filter(event => !isDetails(event)) }
}

/** SDKs name a service that has no name `unknown_service`. */
function projectOf(resource: Attributes): string | undefined {
  const names = [resource.get('openinference.project.name'), resource.get('service.name')]
  return names.find(
    (name): name is string => typeof name === 'string' && name !== '' && !name.startsWith('unknown_service'),
  )
}

function readError({ status, events }: Span): string | undefined {
  if (status.code !== STATUS_ERROR) return undefined
  const exception = events.findLast(({ name }) => name === 'exception')?.attributes
  const [type, message, stack] = ['type', 'message', 'stacktrace'].map(name => {
    const value = exception?.get(`exception.${name}`)
    return typeof value === 'string' ? value : ''
  }) as [string, string, string]
  const summary = [type, message].filter(Boolean).join(': ')
  const text = message !== '' && stack.includes(message) ? stack : [summary, stack].filter(Boolean).join('\n\n')
  return clean(text || status.message || 'error')
}

/** Of the first token of a streamed answer. */
const FIRST_TOKEN_EVENTS = ['ai.stream.firstChunk', 'First Token Stream Event', 'llm.content.completion.chunk']

const toRunEvent = ({ name, nanoseconds, attributes }: SpanEvent) => ({
  name: FIRST_TOKEN_EVENTS.includes(name) ? 'new_token' : name,
  ...(nanoseconds > 0n && { time: toIsoMicroseconds(nanoseconds) }),
  ...(attributes.size > 0 && { kwargs: Object.fromEntries(attributes) }),
})
