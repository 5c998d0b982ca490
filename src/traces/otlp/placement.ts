// Where spans stand in their traces, as far as one request says it. A span names its parent alone, and the parent may
// come later and in another request: until then, the run hangs under the root of its trace.
import type { AttributeReader } from './attribute-reader.ts'
import { toIsoMicroseconds, toSegment, uuidOfSpan, uuidOfTrace } from './ids.ts'
import type { Span } from './spans.ts'

export type SpanPlace = {
  /** Of OpenTelemetry, as UUIDs. `parent` is null for a root. */
  trace: string
  span: string
  parent: string | null
  /** Of the run. */
  id: string
  start: string
  /** The id of the trace's root, while that is not known. */
  expected_root: string
  /** Set if the client has placed the run itself. */
  given_order: string | null
}
export type Placement = { trace_id: string; dotted_order: string; parent_run_id?: string }

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const SEGMENT = '\\d{8}T\\d{12}Z[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
const DOTTED_ORDER = new RegExp(`^${SEGMENT}(?:\\.${SEGMENT}){0,99}$`)
/** Segments of a `dotted_order`. `place_spans()` has the same limit. */
const MAX_DEPTH = 100

/** A root that the client marks within a trace of others, such as of a web server, begins a trace of its own. */
export function readPlace(span: Span, attributes: AttributeReader): SpanPlace {
  const readUuid = (name: string) => [attributes.text(name)?.toLowerCase()].find(text => text && UUID.test(text))
  const [id, trace, parent] = ['span.id', 'trace.id', 'span.parent_id'].map(name => readUuid(`langsmith.${name}`))
  const order = attributes.text('langsmith.span.dotted_order')
  const isMarkedRoot = attributes.isTrue('langsmith.is_root')
  const hasParent = /[^0]/.test(span.parent_span_id)
  const key = uuidOfSpan(span.span_id)
  const expected_root = trace ?? uuidOfTrace(span.trace_id)
  const given_order = order !== undefined && DOTTED_ORDER.test(order) ? order : null
  return {
    trace: uuidOfTrace(span.trace_id),
    span: key,
    parent: isMarkedRoot || !(hasParent || parent) ? null : (parent ?? uuidOfSpan(span.parent_span_id)),
    id: given_order?.slice(-36) ?? id ?? (hasParent ? key : expected_root),
    start: toIsoMicroseconds(span.start),
    expected_root,
    given_order,
  }
}

const idsOf = (dottedOrder: string): string[] => dottedOrder.split('.').map(segment => segment.slice(22))

export function toPlacement(dotted_order: string): Placement {
  const ids = idsOf(dotted_order)
  const parent_run_id = ids.at(-2)
  return { trace_id: ids[0]!, dotted_order, ...(parent_run_id !== undefined && { parent_run_id }) }
}

const segmentOf = ({ start, id }: SpanPlace): string => toSegment(start, id)
const keyOf = (trace: string, span: string): string => `${trace} ${span}`

/** The `dotted_order` of each span. `place_spans()` does the same with the spans of earlier requests. */
export function orderSpans(places: SpanPlace[]): Map<SpanPlace, string> {
  const byKey = new Map(places.map(place => [keyOf(place.trace, place.span), place]))
  const parentOf = ({ trace, parent }: SpanPlace) => (parent === null ? undefined : byKey.get(keyOf(trace, parent)))
  const children = Map.groupBy(places, parentOf)
  const roots = new Map(places.filter(isTraceRoot).map(place => [place.trace, place]))
  const orders = new Map<SpanPlace, string>()
  const orderUnderRoot = (place: SpanPlace): string => {
    const root = roots.get(place.trace)
    const above = root && root !== place ? (root.given_order ?? segmentOf(root)) : undefined
    return `${above ?? toSegment(place.start, place.expected_root)}.${segmentOf(place)}`
  }
  const placed = [...(children.get(undefined) ?? []), ...places.filter(place => place.given_order !== null)]
  for (const place of placed)
    orders.set(place, place.given_order ?? (place.parent === null ? segmentOf(place) : orderUnderRoot(place)))
  const waiting = [...orders.keys()]
  for (let place = waiting.pop(); place; place = waiting.pop()) {
    const above = orders.get(place)!
    for (const child of children.get(place) ?? []) {
      if (child.given_order !== null) continue
      const isTooDeep = above.split('.', MAX_DEPTH).length === MAX_DEPTH
      orders.set(child, isTooDeep ? orderUnderRoot(child) : `${above}.${segmentOf(child)}`)
      waiting.push(child)
    }
  }
  // Spans that name each other as parents.
  for (const place of places) if (!orders.has(place)) orders.set(place, orderUnderRoot(place))
  return orders
}

const isTraceRoot = ({ parent, id, expected_root }: SpanPlace): boolean => parent === null && id === expected_root
