// Converts spans to operations on runs. One that cannot be stored is left out, and reported.
import type { RunOperation, SpanPlace } from '../../store/store.ts'
import { AttributeReader } from './attribute-reader.ts'
import { isUuid, toIsoMicroseconds } from './ids.ts'
import { readPayload } from './inputs-outputs.ts'
import { keepDigits } from './messages.ts'
import { type Members, readExtra, readRuntime, readTags } from './metadata.ts'
import { placeSpans, readLinks, toRunPlace } from './placement.ts'
import { readRunType } from './run-types.ts'
import {
  type Attributes,
  findSpanFault,
  type ResourceSpans,
  type Span,
  type SpanEvent,
  STATUS_ERROR,
  UndecodableSpans,
} from './spans.ts'

export type SpanOperations = {
  operations: RunOperation[]
  spans: SpanPlace[]
  rejected: number
  /** The reason for the first of them. */
  reason?: string
}

const MAX_PROJECT_NAME = 255
/** Each span gets those of its resource. Ten thousand spans with 3 KiB each are within the limit. */
const MAX_RUNTIME_LENGTH = 32 * 1024 * 1024
const RUNTIME_TOO_LONG = 'the attributes of a resource are too long for so many spans; send fewer spans at once'

/** `project` is of spans that name none, by default their service. With `isConfined`, the store gives them theirs. */
export function toOperations(all: ResourceSpans[], project: string | undefined, isConfined = false): SpanOperations {
  const faults: string[] = []
  const isValid = (name: string, fault: string | undefined): boolean => {
    if (fault !== undefined) faults.push(`Span ${JSON.stringify(name.slice(0, 100))} is rejected: ${fault}.`)
    return fault === undefined
  }
  let runtimeLength = 0
  const converted = all.flatMap(({ resource, spans }) => {
    const runtime = readRuntime(resource)
    runtimeLength += JSON.stringify(runtime, keepDigits).length * spans.length
    if (runtimeLength > MAX_RUNTIME_LENGTH) throw new UndecodableSpans(RUNTIME_TOO_LONG)
    return spans
      .filter(span => isValid(span.name, findSpanFault(span)))
      .map(span => convert(span, runtime, project ?? (isConfined ? undefined : projectOf(resource))))
      .filter(({ members }) => isValid(members.name, findProjectFault(members)))
  })
  const orders = new Map<string, string>()
  const placed = placeSpans(converted.map(({ links }) => links))
    .map((place, i) => ({ place, members: converted[i]!.members }))
    .filter(({ place: { run_id, dotted_order }, members }) => {
      const isTaken = (orders.get(run_id) ?? dotted_order) !== dotted_order
      orders.set(run_id, orders.get(run_id) ?? dotted_order)
      return isValid(members.name, isTaken ? 'another span of the request has the same id' : undefined)
    })
  const [reason] = faults
  return {
    operations: placed.map(({ place, members }) => ({ ...members, ...toRunPlace(place) })),
    spans: placed.map(({ place }) => place),
    rejected: faults.length,
    ...(reason !== undefined && { reason }),
  }
}

const findProjectFault = ({ session_name = '' }: Pick<RunOperation, 'session_name'>): string | undefined =>
  session_name.length > MAX_PROJECT_NAME
    ? `the name of its project has more than ${MAX_PROJECT_NAME} characters`
    : undefined

const NAME = ['langsmith.trace.name', 'traceloop.entity.name', 'tool.name']

function convert(span: Span, runtime: Members, project: string | undefined) {
  const { events, attributes: sent } = hoistDetails(span)
  const attributes = new AttributeReader(sent)
  const links = readLinks(span, attributes)
  const { left, ...payload } = readPayload(attributes, events)
  const example = attributes.text('langsmith.reference_example_id')
  const members = {
    kind: 'post' as const,
    loc: ['body', 'spans', span.span_id],
    ...readProject(attributes, project),
    name: attributes.text(...NAME) ?? (span.name || 'span'),
    run_type: readRunType(attributes),
    start_time: links.order_time,
    end_time: span.end === 0n ? undefined : toIsoMicroseconds(span.end > span.start ? span.end : span.start),
    error: readError(span),
    tags: readTags(attributes),
    reference_example_id: example && isUuid(example) ? example : undefined,
    ...payload,
    events: left.length > 0 ? JSON.stringify(left.map(toRunEvent), keepDigits) : undefined,
  }
  const ids = { OTEL_TRACE_ID: span.trace_id, OTEL_SPAN_ID: span.span_id }
  return { links, members: { ...members, extra: JSON.stringify(readExtra(attributes, runtime, ids), keepDigits) } }
}

function readProject(attributes: AttributeReader, project: string | undefined) {
  const id = attributes.text('langsmith.trace.session_id')
  const name = attributes.text('langsmith.trace.session_name') ?? project
  return id !== undefined && isUuid(id)
    ? { session_id: id, session_name: undefined }
    : { session_id: undefined, session_name: name }
}

/** An event may hold details that other instrumentations send as attributes of the span. */
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
  return text || status.message || 'error'
}

/** Events that mark the first token of a streamed answer. */
const FIRST_TOKEN_EVENTS = ['ai.stream.firstChunk', 'First Token Stream Event', 'llm.content.completion.chunk']

const toRunEvent = ({ name, nanoseconds, attributes }: SpanEvent) => ({
  name: FIRST_TOKEN_EVENTS.includes(name) ? 'new_token' : name,
  ...(nanoseconds > 0n && { time: toIsoMicroseconds(nanoseconds) }),
  ...(attributes.size > 0 && { kwargs: Object.fromEntries(attributes) }),
})
