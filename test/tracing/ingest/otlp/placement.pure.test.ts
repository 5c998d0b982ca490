// Places the spans of one request in their traces.
import { describe, expect, it } from 'vitest'
import { toOperations } from '../../../../src/tracing/ingest/otlp/span-operations.ts'
import { newSpan, type Span, type Value } from '../../../../src/tracing/ingest/otlp/spans.ts'
import type { RunOperation } from '../../../../src/tracing/store/store.ts'
import * as fc from '../../../support/seeded-fast-check.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const ROOT = '0af76519-16cd-43dd-8448-eb211c80319c'
const hex = (number: number) => number.toString(16).padStart(16, '0')
const idOf = (number: number) => `00000000-0000-0000-0000-${number.toString(16).padStart(12, '0')}`
const timeOf = (number: number) => `20251124T160000${String(number).padStart(6, '0')}Z`

/** A span that begins as many microseconds into the second as its number says. */
const spanOf = (number: number, parent: number | null, attributes: Record<string, Value> = {}): Span => ({
  ...newSpan(),
  trace_id: TRACE,
  span_id: hex(number),
  parent_span_id: parent === null ? '' : hex(parent),
  name: `s${number}`,
  start: 1_764_000_000_000_000_000n + BigInt(number) * 1000n,
  attributes: new Map(Object.entries(attributes)),
})
const place = (...spans: Span[]): RunOperation[] => toOperations([{ resource: new Map(), spans }], undefined).operations
const ordersOf = (...spans: Span[]) => place(...spans).map(({ dotted_order }) => dotted_order)

function expectConsistent({ id, trace_id, parent_run_id, dotted_order }: RunOperation) {
  const ids = dotted_order!.split('.').map(segment => segment.slice(22))
  expect(ids.at(-1)).toBe(id)
  expect(ids[0]).toBe(trace_id)
  expect(ids.at(-2)).toBe(parent_run_id)
}

const root = `${timeOf(1)}${ROOT}`

describe('a span', () => {
  it('stands under its parent, in any order of the request', () => {
    const expected = [root, `${root}.${timeOf(2)}${idOf(2)}`, `${root}.${timeOf(2)}${idOf(2)}.${timeOf(3)}${idOf(3)}`]
    const spans = [spanOf(1, null), spanOf(2, 1), spanOf(3, 2)]
    expect(ordersOf(...spans)).toEqual(expected)
    expect(ordersOf(...spans.toReversed())).toEqual(expected.toReversed())
    expect(place(...spans).map(({ parent_run_id }) => parent_run_id)).toEqual([undefined, ROOT, idOf(2)])
  })

  it('hangs under the root, while its parent is not known', () => {
    expect(ordersOf(spanOf(1, null), spanOf(3, 2), spanOf(4, 3))).toEqual([
      root,
      `${root}.${timeOf(3)}${idOf(3)}`,
      `${root}.${timeOf(3)}${idOf(3)}.${timeOf(4)}${idOf(4)}`,
    ])
  })

  it('hangs under the root that it expects, while no root is known', () => {
    const [{ parent_run_id, trace_id, dotted_order }] = place(spanOf(3, 2)) as [RunOperation]
    expect({ parent_run_id, trace_id }).toEqual({ parent_run_id: ROOT, trace_id: ROOT })
    expect(dotted_order).toBe(`${timeOf(3)}${ROOT}.${timeOf(3)}${idOf(3)}`)
  })

  it('is the root of a trace that a router has started, whose own span never comes', () => {
    const first = { ...spanOf(1, null), parent_span_id: TRACE.slice(0, 16) }
    expect(ordersOf(first, spanOf(2, 1))).toEqual([root, `${root}.${timeOf(2)}${idOf(2)}`])
    expect(place(first)[0]).toMatchObject({ id: ROOT, trace_id: ROOT, parent_run_id: undefined })
  })

  it('begins a trace of its own, if a client marks it as the root within the trace of a server', () => {
    const marked = { 'langsmith.is_root': true }
    const orders = ordersOf(spanOf(2, 1, marked), spanOf(3, 2), spanOf(4, 1, marked), spanOf(5, null, marked))
    expect(orders).toEqual([
      `${timeOf(2)}${idOf(2)}`,
      `${timeOf(2)}${idOf(2)}.${timeOf(3)}${idOf(3)}`,
      `${timeOf(4)}${idOf(4)}`,
      `${timeOf(5)}${ROOT}`,
    ])
  })

  it('stands where the client says', () => {
    const [own, above] = ['11111111-1111-4111-8111-111111111111', '22222222-2222-4222-8222-222222222222']
    const given = { 'langsmith.span.dotted_order': `${timeOf(7)}${above}.${timeOf(8)}${own}` }
    expect(place(spanOf(2, 1, given), spanOf(3, 2))).toMatchObject([
      { id: own, trace_id: above, parent_run_id: above, dotted_order: given['langsmith.span.dotted_order'] },
      { id: idOf(3), trace_id: above, parent_run_id: own },
    ])
    const parent = { 'langsmith.span.parent_id': idOf(2) }
    expect(place(spanOf(2, null), spanOf(4, 3, parent))[1]).toMatchObject({ parent_run_id: ROOT })
    const ids = { 'langsmith.span.id': own, 'langsmith.trace.id': above }
    expect(place(spanOf(2, 1, ids))).toMatchObject([{ id: own, trace_id: above, parent_run_id: above }])
    expect(place(spanOf(2, 1, { 'langsmith.span.dotted_order': 'first' }))).toMatchObject([{ parent_run_id: ROOT }])
  })

  it('hangs under the root, beyond the depth that an order may have, and where spans are each other’s parents', () => {
    const deep = Array.from({ length: 150 }, (_, i) => spanOf(i + 1, i === 0 ? null : i))
    const lengths = ordersOf(...deep).map(order => order!.split('.').length)
    expect(Math.max(...lengths)).toBe(100)
    expect(lengths[100]).toBe(2)
    expect(ordersOf(spanOf(1, null), spanOf(2, 3), spanOf(3, 2), spanOf(4, 4))).toEqual(
      [0, 2, 3, 4].map(n => (n === 0 ? root : `${root}.${timeOf(n)}${idOf(n)}`)),
    )
  })

  it('is the root, if its id is that of the trace, as in traces with ids of 64 bits', () => {
    const trace_id = hex(1).padStart(32, '0')
    const spans = [spanOf(1, 9), spanOf(2, 1)].map(span => ({ ...span, trace_id }))
    expect(place(...spans)).toMatchObject([{ id: idOf(1), trace_id: idOf(1) }, { parent_run_id: idOf(1) }])
  })

  it('is one with another of the request that has its id, or rejected', () => {
    const resource = { resource: new Map(), spans: [spanOf(1, null), spanOf(2, 1), spanOf(2, 1)] }
    expect(toOperations([resource], undefined)).toMatchObject({ rejected: 0 })
    const id = { 'langsmith.span.id': idOf(7) }
    resource.spans = [spanOf(1, null), spanOf(2, 1, id), spanOf(3, 2, id)]
    expect(toOperations([resource], undefined)).toMatchObject({ rejected: 1, operations: { length: 2 } })
  })

  it('hangs under the first root, if there are two', () => {
    expect(place(spanOf(5, null), spanOf(1, null), spanOf(6, 5))).toMatchObject([
      { id: idOf(5), parent_run_id: ROOT },
      { id: ROOT },
      { id: idOf(6), parent_run_id: idOf(5) },
    ])
  })

  it('has an order that agrees with its ids and does not depend on the order of the request', () => {
    const parents = fc.array(fc.option(fc.nat(12)), { minLength: 1, maxLength: 10 })
    fc.assert(
      fc.property(parents, fc.infiniteStream(fc.nat()), (list, order) => {
        const spans = list.map((parent, i) =>
          spanOf(i + 1, parent === null ? null : parent + 1, i % 4 === 3 ? { 'langsmith.is_root': 'true' } : {}),
        )
        const roots = spans.filter(({ parent_span_id }) => parent_span_id === '')
        if (roots.length > 1) return
        const byName = (operations: RunOperation[]) => new Map(operations.map(one => [one.name, one.dotted_order]))
        const operations = place(...spans)
        operations.forEach(expectConsistent)
        const shuffled = spans.map(span => ({ span, at: order.next().value })).toSorted((a, b) => a.at - b.at)
        expect(byName(place(...shuffled.map(({ span }) => span)))).toEqual(byName(operations))
      }),
    )
  })
})
