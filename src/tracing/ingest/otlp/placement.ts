// Places spans in their traces, as far as one request knows. A span names its parent alone, and the parent may come
// later and in another request: until then, the run hangs under the root of its trace.

import { routerSpanOf } from '../../../protocol/router-trace.ts'
import type { SpanPlace } from '../../store/store.ts'
import { readPlace } from '../dotted-order.ts'
import type { AttributeReader } from './attribute-reader.ts'
import { isUuid, toIsoMicroseconds, toSegment, uuidOfSpan, uuidOfTrace } from './ids.ts'
import type { Span } from './spans.ts'

/** Segments of a `dotted_order`. The store has the same limit. */
const MAX_DEPTH = 100

/** A span before those around it are known. */
export type LooseSpan = Omit<SpanPlace, 'dotted_order'> & {
  /** Set if the client has placed the run itself. */
  given_order: string | undefined
  /** The id of the trace's root, while that is not known. */
  expected_root: string
}

/** A root that the client marks within the trace of others, such as of a web server, begins a trace of its own. */
export function readLinks(span: Span, attributes: AttributeReader): LooseSpan {
  const readUuid = (name: string) => {
    const text = attributes.text(name)?.toLowerCase() ?? ''
    return isUuid(text) ? text : undefined
  }
  const given_order = readGivenOrder(attributes.text('langsmith.span.dotted_order'))
  const id = readUuid('langsmith.span.id')
  const givenTrace = readUuid('langsmith.trace.id')
  const givenParent = readUuid('langsmith.span.parent_id')
  const isMarkedRoot = attributes.isTrue('langsmith.is_root')
  const isOfClient = attributes.isTrue('langsmith.traceable')
  // The client's own note.
  attributes.value('langsmith.traceable_parent_otel_span_id')
  const isBelowRouter = span.parent_span_id === routerSpanOf(span.trace_id)
  const hasParent = !isBelowRouter && /[^0]/.test(span.parent_span_id)
  const key = uuidOfSpan(span.span_id)
  const expected_root = givenTrace ?? uuidOfTrace(span.trace_id)
  // The root has the id of its trace, in traces with ids of 64 bits.
  const isRoot = isMarkedRoot || key === expected_root || !(givenParent || hasParent)
  const parent = isRoot ? null : (givenParent ?? uuidOfSpan(span.parent_span_id))
  return {
    trace: uuidOfTrace(span.trace_id),
    span: key,
    parent,
    // The published client expects the id of the span, also for a root: it gives feedback on it.
    run_id: given_order?.slice(-36) ?? id ?? (hasParent || isOfClient ? key : expected_root),
    order_time: toIsoMicroseconds(span.start),
    is_root: isRoot && (!hasParent || key === expected_root),
    is_fixed: given_order !== undefined,
    given_order,
    expected_root,
  }
}

/** Undefined unless it is right. Then the span is below the parent that it names. */
function readGivenOrder(dotted_order: string | undefined): string | undefined {
  if (dotted_order === undefined) return undefined
  const [id, trace_id] = [dotted_order.slice(-36), dotted_order.slice(22, 58)].map(text => text.toLowerCase())
  const faults: never[] = []
  const place = readPlace({ id: id!, trace_id, dotted_order, loc: [] }, faults)
  return faults.length === 0 ? place?.dotted_order : undefined
}

/** A trace has one root. Other spans without a parent hang under it. */
function keepOneRoot(spans: LooseSpan[]): LooseSpan[] {
  const roots = new Map<string, LooseSpan>()
  for (const span of spans) {
    const root = roots.get(span.trace)
    if (span.is_root && !(root && root.order_time <= span.order_time)) roots.set(span.trace, span)
  }
  return spans.map(span => {
    const root = roots.get(span.trace)
    const isOther = span.is_root && !span.is_fixed && root !== undefined && root.span !== span.span
    return isOther ? { ...span, parent: root.span, run_id: span.span, is_root: false } : span
  })
}

const segmentOf = ({ order_time, run_id }: LooseSpan): string => toSegment(order_time, run_id)
const keyOf = (trace: string, span: string): string => `${trace} ${span}`

const canStandBelow = (order: string, { run_id }: LooseSpan): boolean =>
  !order.includes(run_id) && order.split('.').length < MAX_DEPTH

/** Adds the `dotted_order` of each. `placeSpans()` of the store does the same with the spans of earlier requests. */
export function placeSpans(loose: LooseSpan[]): SpanPlace[] {
  const spans = keepOneRoot(loose)
  const byKey = new Map(spans.map(span => [keyOf(span.trace, span.span), span]))
  const roots = new Map(spans.filter(({ is_root }) => is_root).map(span => [span.trace, span]))
  const parentOf = ({ trace, parent }: LooseSpan) => (parent === null ? undefined : byKey.get(keyOf(trace, parent)))
  const children = Map.groupBy(spans, parentOf)
  const underRoot = (span: LooseSpan): string => {
    const root = roots.get(span.trace)
    const order = root ? (root.given_order ?? segmentOf(root)) : toSegment(span.order_time, span.expected_root)
    return canStandBelow(order, span) ? `${order}.${segmentOf(span)}` : segmentOf(span)
  }
  const isTop = (span: LooseSpan) => span.parent === null || span.given_order !== undefined
  const orders = new Map<LooseSpan, string>()
  for (const span of spans)
    if (isTop(span)) orders.set(span, span.given_order ?? segmentOf(span))
    else if (!parentOf(span)) orders.set(span, underRoot(span))
  const waiting = [...orders.keys()]
  for (let span = waiting.pop(); span; span = waiting.pop()) {
    const order = orders.get(span)!
    for (const child of children.get(span) ?? []) {
      if (orders.has(child)) continue
      orders.set(child, canStandBelow(order, child) ? `${order}.${segmentOf(child)}` : underRoot(child))
      waiting.push(child)
    }
  }
  return spans.map(span => {
    const { given_order: _, expected_root: __, ...place } = span
    // Spans that are each other's parents have no order yet.
    return { ...place, dotted_order: orders.get(span) ?? underRoot(span) }
  })
}

/** The members of the run that follow from its place. */
export function toRunPlace({ run_id, dotted_order }: SpanPlace) {
  const ids = dotted_order.split('.').map(segment => segment.slice(-36))
  return { id: run_id, trace_id: ids[0]!, dotted_order, parent_run_id: ids.at(-2) }
}
