// The trace context of requests: what is valid is passed on, what is not is replaced. Requests are drawn for the log.
import type { IncomingMessage } from 'node:http'
import { expect, test } from 'vitest'
import { shownAddress } from '../../src/agent/engines/local/request-log.ts'
import { RequestSample } from '../../src/agent/engines/local/request-sample.ts'
import {
  boundTraceState,
  parseTraceParent,
  traceHeaders,
  traceOf,
} from '../../src/agent/engines/local/trace-context.ts'
import { routerSpanOf } from '../../src/protocol/router-trace.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = `00-${TRACE}-b7ad6b7169203331-00`

test('a traceparent is valid as the specification says', () => {
  expect(parseTraceParent(PARENT)).toEqual({ trace_id: TRACE, parent: PARENT })
  const later = PARENT.replace(/^00/, 'cc').replace(/00$/, '03')
  expect(parseTraceParent(`${later}-what-comes-later`)?.parent).toBe(PARENT.replace(/00$/, '01'))
  const invalid = [
    PARENT.toUpperCase(),
    `${PARENT}-more`,
    PARENT.replace(/^00/, 'ff'),
    PARENT.replace(TRACE, '0'.repeat(32)),
    PARENT.replace('b7ad6b7169203331', '0'.repeat(16)),
    `${PARENT}, ${PARENT}`,
    '',
  ]
  for (const header of invalid) expect(parseTraceParent(header), header).toBeUndefined()
})

test('a tracestate keeps to its bounds, and is left out if it is not valid', () => {
  expect(boundTraceState('rojo=00f067aa0ba902b7 , ,tenant@congo=t61rcWkgMzE')).toBe(
    'rojo=00f067aa0ba902b7,tenant@congo=t61rcWkgMzE',
  )
  for (const state of ['a=1,a=2', 'A=1', 'a', 'a=', 'a=b=c', 'a=ü']) expect(boundTraceState(state), state).toBe('')
  const many = Array.from({ length: 40 }, (_, i) => `k${i}=1`)
  expect(boundTraceState(many.join())).toBe(many.slice(0, 32).join())
  const short = Array.from({ length: 5 }, (_, i) => `s${i}=${'x'.repeat(90)}`)
  expect(boundTraceState([`long=${'x'.repeat(200)}`, ...short].join())).toBe(short.join())
  expect(boundTraceState([...short, ...short.map(member => `t${member}`)].join())).toBe(short.join())
})

test('a request without a valid context gets one, the same for each attempt to send it', () => {
  const requestOf = (headers: Record<string, string>) => ({ headers }) as unknown as IncomingMessage
  const headersOf = (req: IncomingMessage) => {
    const list = traceHeaders(req)
    return Object.fromEntries(list.flatMap((name, i) => (i % 2 ? [] : [[name.toLowerCase(), list[i + 1]!]])))
  }
  const begun = requestOf({ tracestate: 'a=1', 'x-request-id': 'a b' })
  const { trace_id, request_id } = traceOf(begun)
  expect(headersOf(begun)).toEqual({
    traceparent: `00-${trace_id}-${routerSpanOf(trace_id)}-01`,
    'x-request-id': request_id,
  })
  expect(request_id).toMatch(/^[0-9a-f]{32}$/)
  expect(headersOf(begun)).toEqual(headersOf(begun))
  const passed = { traceparent: PARENT, tracestate: 'a=1', 'x-request-id': 'req-1' }
  expect(headersOf(requestOf(passed))).toEqual(passed)
  const ids = Array.from({ length: 1_000 }, () => traceOf(requestOf({})).trace_id)
  expect(new Set(ids).size).toBe(ids.length)
})

test('a sample keeps to its rate, counts what it leaves out, and gives each request the same chance', () => {
  const sample = new RequestSample<number>(2, 0, 10)
  const offer = (count: number, random = Math.random) => {
    for (let i = 0; i < count; i++) sample.offer(() => i, random())
    return sample
  }
  expect(offer(8).take(0)).toEqual({ lines: [0, 1, 2, 3, 4, 5, 6, 7], leftOut: 0 })
  expect(offer(5).take(1_000)).toEqual({ lines: [expect.any(Number), expect.any(Number)], leftOut: 3 })
  expect(offer(5).take(1_500).lines).toHaveLength(2)
  expect(offer(1).take(60_000).lines).toHaveLength(1)
  expect(offer(50).take(60_000)).toEqual({ lines: expect.objectContaining({ length: 10 }), leftOut: 40 })
  const none = new RequestSample<number>(0, 0)
  none.offer(() => 1, 0)
  expect(none.take(99_999)).toEqual({ lines: [], leftOut: 1 })

  const drawn = Array<number>(10).fill(0)
  for (let round = 0; round < 2_000; round++) {
    const one = new RequestSample<number>(1, 0, 1)
    for (let i = 0; i < 10; i++) one.offer(() => i, ((round * 7_919 + i * 104_729) % 10_007) / 10_007)
    drawn[one.take(0).lines[0]!]!++
  }
  for (const count of drawn) expect(count).toBeGreaterThan(100)
})

test('the address of a client is shown as the setting says', () => {
  expect(shownAddress('203.0.113.77', 'truncated')).toBe('203.0.113.0')
  expect(shownAddress('2001:db8:1:2:3:4:5:6', 'truncated')).toBe('2001:db8:1::')
  expect(shownAddress('2001:db8::1', 'truncated')).toBe('2001:db8::')
  expect(shownAddress('::1', 'truncated')).toBe('::')
  expect([shownAddress('2001:db8::1', 'full'), shownAddress('2001:db8::1', 'none')]).toEqual(['2001:db8::1', ''])
})
