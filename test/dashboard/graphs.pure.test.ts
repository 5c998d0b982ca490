// The tab of graphs: responses that a tunnel brings, the events of a run, and the answers to interrupts.
import { describe, expect, it } from 'vitest'
import { encodeRequest } from '../../src/dashboard/api/http-request.ts'
import { ResponseReader } from '../../src/dashboard/api/http-response.ts'
import {
  isThreadId,
  listInterrupts,
  readAnswer,
  takesMessages,
  toResume,
} from '../../src/dashboard/screens/graphs/graph-types.ts'
import { applyEvent, describeError, NOTHING, shownValues } from '../../src/dashboard/screens/graphs/run-events.ts'

/** The body, after the response has come in parts of `size` bytes. */
function read(text: string, size: number) {
  const reader = new ResponseReader()
  const bytes = Buffer.from(text.replaceAll('\n', '\r\n'))
  let body = ''
  for (let at = 0; at < bytes.length; at += size)
    for (const part of reader.push(bytes.subarray(at, at + size))) body += Buffer.from(part).toString()
  return { reader, body }
}

it('a request is one, whatever an address has for a thread', () => {
  const thread = 'x HTTP/1.1\r\n\r\nDELETE /threads/1 HTTP/1.1\r\nX: '
  expect(() => encodeRequest({ method: 'GET', path: `/threads/${thread}/state` })).toThrow()
  expect(() => encodeRequest({ method: 'GET', path: '/', headers: { A: 'b\r\nC: d' } })).toThrow()
  const bytes = encodeRequest({ method: 'POST', path: '/threads/1/runs?limit=2', body: { say: 'é' } })
  const [head, body] = Buffer.from(bytes).toString().split('\r\n\r\n')
  expect([head!.split('\r\n')[0], body]).toEqual(['POST /threads/1/runs?limit=2 HTTP/1.1', '{"say":"é"}'])
  expect(head).toContain(`Content-Length: ${Buffer.byteLength(body!)}`)
  const ids = ['019362c0-0000-7000-8000-000000000000', thread, '..', '']
  expect(ids.map(isThreadId)).toEqual([true, false, false, false])
})

describe('a response', () => {
  const CHUNKED =
    'HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nX-One: 1\n\n3\nabc\na;x=1\n0123456789\n0\nTrailer: 1\n\n'
  const FIXED = 'HTTP/1.1 100 Continue\n\nHTTP/1.1 404 Not Found\nContent-Length: 5\n\nabcdeMORE'

  it('is the same in whatever parts it comes', () => {
    for (const size of [1, 2, 7, 1000]) {
      const chunked = read(CHUNKED, size)
      expect([chunked.body, chunked.reader.isDone], `${size}`).toEqual(['abc0123456789', true])
      expect(chunked.reader.head!.headers.get('x-one')).toBe('1')
      const fixed = read(FIXED, size)
      expect([fixed.body, fixed.reader.head!.status, fixed.reader.isDone]).toEqual(['abcde', 404, true])
    }
  })

  it('without a length ends with its connection, and is incomplete if it has one', () => {
    const open = read('HTTP/1.1 200 OK\n\nabc', 4)
    expect([open.body, open.reader.isDone, open.reader.end()]).toEqual(['abc', false, true])
    expect(read('HTTP/1.1 200 OK\nContent-Length: 5\n\nabc', 4).reader.end()).toBe(false)
    expect(read('HTTP/1.1 204 No Content\n\n', 4).reader.isDone).toBe(true)
  })

  it('is refused if it is something else than HTTP', () => {
    for (const text of [
      'SSH-2.0\n\n',
      'HTTP/1.1 200 OK\nno header\n\n',
      'HTTP/1.1 200 OK\nContent-Length: -1\n\n',
      'HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nxyz\n',
      `HTTP/1.1 200 OK\nA: ${'a'.repeat(70_000)}`,
    ])
      expect(() => read(text, 1000), text.slice(0, 60)).toThrow()
  })
})

describe('a run', () => {
  const chunk = (content: unknown, type = 'AIMessageChunk') => [{ type, id: 'a', content }, {}]

  it('shows what a model writes, and the values of the step after it', () => {
    const stored = { messages: [{ id: 'u', type: 'human', content: 'hi' }], topic: 'x' }
    let state = applyEvent(NOTHING, 'metadata', { run_id: 'r' })
    state = applyEvent(state, 'messages', chunk('Hel'))
    state = applyEvent(state, 'messages', chunk('lo'))
    expect(shownValues(state, stored)).toEqual({
      topic: 'x',
      messages: [stored.messages[0], { type: 'AIMessageChunk', id: 'a', content: 'Hello' }],
    })
    expect(shownValues(applyEvent(state, 'messages', chunk('Hello!', 'ai')), null)).toMatchObject({
      messages: [{ content: 'Hello!' }],
    })
    const values = { messages: [{ id: 'a', type: 'ai', content: 'Hello' }] }
    expect(shownValues(applyEvent(state, 'values', values), stored)).toEqual(values)
    expect(state.runId).toBe('r')
  })

  it('joins parts, keeps the values at an interrupt, and tells its error', () => {
    const parts = applyEvent(
      applyEvent(NOTHING, 'messages', chunk([{ type: 'text', text: 'a' }])),
      'messages',
      chunk('b'),
    )
    expect(parts.written[0]!.content).toEqual([
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ])
    const stopped = applyEvent(applyEvent(NOTHING, 'values', { a: 1 }), 'values', { __interrupt__: [] })
    expect(stopped.values).toEqual({ a: 1 })
    expect(applyEvent(NOTHING, 'error', { error: 'TypeError', message: 'no' }).error).toBe('TypeError: no')
    expect([describeError('x'), describeError({ a: 1 })]).toEqual(['x', '{"a":1}'])
  })

  it('is resumed by one answer, or by one for each interrupt', () => {
    const interrupts = listInterrupts({
      tasks: [
        { id: 't', name: 'one', interrupts: [{ id: 'a', value: 1 }] },
        { id: 'u', name: 'two' },
      ],
    })
    expect(interrupts).toEqual([{ id: 'a', value: 1, task: 'one' }])
    expect(['yes', 'true', '"true"', '{"a":1}'].map(readAnswer)).toEqual(['yes', true, 'true', { a: 1 }])
    expect(toResume(interrupts, ['yes'])).toBe('yes')
    expect(toResume([...interrupts, { id: 'b', value: 2 }], ['yes', '2'])).toEqual({ a: 'yes', b: 2 })
  })

  it('takes a message if the graph has messages, or if its input is unknown', () => {
    const schemas = (properties: object) => ({ input_schema: { properties: properties as Record<string, unknown> } })
    expect(
      [undefined, { input_schema: null }, schemas({ messages: {} }), schemas({ say: {} })].map(takesMessages),
    ).toEqual([true, true, true, false])
  })
})
