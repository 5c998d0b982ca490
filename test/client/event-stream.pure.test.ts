// The parser of server-sent events, and a reader that is cut.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createClient } from '../../src/client/client.ts'
import { EventStreamParser } from '../../src/client/event-stream.ts'

const parse = (chunks: string[]) => {
  const parser = new EventStreamParser()
  const events = chunks.flatMap(chunk => [...parser.push(chunk)])
  return { events, lastId: parser.lastId, retryMs: parser.retryMs }
}

it('parses fields, comments, several lines of data, and cursors without an event', () => {
  const text = ': hello\nid: 1\nevent: reset\ndata: a\ndata:b\n\ndata\n\nid: 7\n\nretry: 800\nunknown: x\n\ndata: cut'
  expect(parse([text])).toEqual({
    events: [
      { event: 'reset', data: 'a\nb' },
      { event: 'message', data: '' },
    ],
    lastId: '7',
    retryMs: 800,
  })
})

it('reads a long line that comes in many parts in time that does not grow with its square', () => {
  const parts = ['data: ', ...Array<string>(16_384).fill('x'.repeat(1024)), '\n\n']
  expect(parse(parts).events[0]?.data.length).toBe(16 * 1024 ** 2)
})

it('parses the same events however the text is cut into chunks, and with any line ends', () => {
  const lineEnd = fc.constantFrom('\n', '\r', '\r\n')
  const line = fc.constantFrom('data: x', 'data: y', 'event: reset', 'id: 3', ': ping', 'retry: 5', '')
  fc.assert(
    fc.property(fc.array(line, { maxLength: 20 }), lineEnd, fc.array(fc.nat(5)), (lines, end, sizes) => {
      const text = [...lines, '', ''].map(line => line + end).join('')
      const chunks: string[] = []
      let rest = text
      for (const size of sizes) {
        chunks.push(rest.slice(0, size))
        rest = rest.slice(size)
      }
      chunks.push(rest)
      const plain = [...lines, '', ''].map(line => `${line}\n`).join('')
      // The end of the text may be the first half of a line's end, so both get one more line.
      expect(parse([...chunks, '\n'])).toEqual(parse([plain, '\n']))
    }),
  )
})

/** Answers each request with the next of these bodies, and keeps the ids from which the client wants to go on. */
function serve(bodies: (string | Response | 'cut' | 'silent')[], retry = { firstDelayMs: 1 }) {
  const resumedAfter: (string | null)[] = []
  const states: string[] = []
  const server: typeof fetch = async (_, init) => {
    resumedAfter.push(new Headers(init?.headers).get('Last-Event-ID'))
    const body = bodies.shift() ?? 'silent'
    if (body instanceof Response) return body
    if (body === 'cut') throw new TypeError('fetch failed')
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        if (body !== 'silent') controller.enqueue(new TextEncoder().encode(body))
        init?.signal?.addEventListener('abort', () => controller.error(init.signal?.reason))
      },
      pull(controller) {
        if (body !== 'silent') controller.error(new TypeError('terminated'))
      },
    })
    return new Response(stream, { headers: { 'Content-Type': 'text/event-stream' } })
  }
  const client = createClient({ url: 'http://slipway.test', fetch: server, retry })
  const stream = (options: { signal?: AbortSignal; silenceMs?: number } = {}) =>
    client.stream('GET /v2/events/stream', {
      query: { after: 4 },
      onState: ({ state }) => states.push(state),
      ...options,
    })
  return { stream, resumedAfter, states }
}

it('goes on after the last event or cursor when the stream is cut, and tells its state', async () => {
  const { stream, resumedAfter, states } = serve([
    'id: 5\ndata: {"n":5}\n\nid: 6\ndata: {"n"',
    'cut',
    'id: 6\ndata: {"n":6}\n\nid: 9\n\n',
    'id: 10\nevent: reset\ndata: {}\n\n',
  ])
  const aborter = new AbortController()
  const events = []
  for await (const event of stream({ signal: aborter.signal })) {
    events.push(event)
    if (event.event === 'reset') break
  }
  expect(events).toEqual([
    { id: '5', event: 'message', data: { n: 5 } },
    { id: '6', event: 'message', data: { n: 6 } },
    { id: '10', event: 'reset', data: {} },
  ])
  expect(resumedAfter).toEqual([null, '5', '5', '9'])
  expect(states).toEqual(['live', 'reconnecting', 'reconnecting', 'live', 'reconnecting', 'live'])
})

it('reconnects when the stream is silent for too long', async () => {
  const { stream, resumedAfter } = serve(['silent', 'id: 5\ndata: 5\n\n'])
  const { value } = await stream({ silenceMs: 5 }).next()
  expect([value, resumedAfter.length]).toEqual([{ id: '5', event: 'message', data: 5 }, 2])
})

const problem = (status: number, code: string) =>
  new Response(JSON.stringify({ code, detail: 'No.', title: 'No', request_id: '1' }), { status })

it.each([
  ['when it is opened', problem(401, 'key_unknown')],
  ['by an event', 'event: error\ndata: {"code":"key_unknown","detail":"No.","status":401}\n\n'],
])('throws the refusal of the server %s', async (_, refusal) => {
  const { stream, resumedAfter } = serve(['cut', refusal])
  await expect(stream().next()).rejects.toMatchObject({ code: 'key_unknown', status: 401 })
  expect(resumedAfter.length).toBe(2)
})

it('reconnects however often the server is unavailable, until its reader stops', async () => {
  const aborter = new AbortController()
  const { stream, resumedAfter } = serve(
    Array.from({ length: 12 }, () => problem(503, 'database_unavailable')),
    {
      firstDelayMs: 0,
    },
  )
  const next = stream({ signal: aborter.signal }).next()
  await expect.poll(() => resumedAfter.length).toBe(13)
  aborter.abort('enough')
  await expect(next).rejects.toBe('enough')
})
