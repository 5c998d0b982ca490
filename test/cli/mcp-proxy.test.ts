// `slipway mcp`: lines of JSON-RPC to requests and back. The server answers as each test says.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PassThrough } from 'node:stream'
import { expect, it, onTestFinished } from 'vitest'
import { CommandFailure, EXIT } from '../../src/cli/failure.ts'
import { type ProxyOptions, runProxy } from '../../src/cli/mcp-proxy.ts'
import { validLogin } from '../../src/cli/session.ts'

// biome-ignore lint/suspicious/noExplicitAny: messages of any shape
type Message = any
type Handle = (message: Message, response: ServerResponse, request: IncomingMessage) => unknown

const result = (id: unknown, value: object = {}) => ({ jsonrpc: '2.0', id, result: value })
const call = (id: unknown, method = 'ping', params?: object) => ({
  jsonrpc: '2.0',
  id,
  method,
  ...(params && { params }),
})
const json = (response: ServerResponse, value: unknown, status = 200, type = 'application/json') =>
  response.writeHead(status, { 'Content-Type': type }).end(JSON.stringify(value))

async function serve(handle: Handle): Promise<string> {
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    handle(JSON.parse(text), response, request)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function start(handle: Handle, options: Partial<ProxyOptions> = {}) {
  const url = await serve(handle)
  const input = new PassThrough()
  const written: Message[] = []
  const notes: string[] = []
  let arrived = Promise.withResolvers<void>()
  const write = (message: Message) => {
    written.push(message)
    arrived.resolve()
    arrived = Promise.withResolvers()
  }
  const interruption = new AbortController()
  const ended = runProxy({
    input,
    write,
    note: text => notes.push(text),
    userAgent: 'slipway-cli/test',
    signal: interruption.signal,
    login: () => ({ url, key: 'slw_key', from: 'the test' }),
    ...options,
  })
  const say = (...messages: unknown[]) => {
    for (const message of messages) input.write(`${typeof message === 'string' ? message : JSON.stringify(message)}\n`)
  }
  const next = async (count: number) => {
    while (written.length < count) await arrived.promise
    return written
  }
  /** Ends the input, and returns everything that was written. */
  const finish = async () => {
    input.end()
    await ended
    return written
  }
  return { say, next, finish, notes, url, interruption, ended }
}

it('sends each message with the key and the headers of its protocol, and writes JSON answers and streams', async () => {
  const seen: [string | undefined, Record<string, unknown>][] = []
  const { say, next, finish } = await start((message, response, { headers, method, url }) => {
    expect([method, url, headers['x-api-key'], headers['user-agent']]).toEqual([
      'POST',
      '/mcp',
      'slw_key',
      'slipway-cli/test',
    ])
    expect([headers['content-type'], headers.accept]).toEqual([
      'application/json',
      expect.stringMatching(/json.*event-stream/),
    ])
    const { 'mcp-protocol-version': version, 'mcp-method': verb, 'mcp-name': name } = headers
    seen.push([message.method, { version, verb, name, workspace: headers['x-tenant-id'] }])
    if (message.id === undefined) return response.writeHead(202).end()
    if (message.method === 'initialize') return json(response, result(0, { protocolVersion: '2025-06-18' }))
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    response.write(': comment\n\nevent: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n')
    // The stream stays open.
    response.write(`data: ${JSON.stringify(result(message.id, { text: 'über' }))}\n\n`)
  })
  say(call(0, 'initialize', { protocolVersion: '2025-11-25' }))
  await next(1)
  const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' }
  say({ jsonrpc: '2.0', method: 'notifications/initialized' }, call('a', 'tools/call', { name: 'whoami' }))
  await next(3)
  say(call('b', 'tools/call', { name: 'whoami', _meta }), call('c', 'resources/read', { uri: 'slipway://ü', _meta }))
  const written = await finish()
  expect(seen.slice(0, 3)).toEqual([
    ['initialize', {}],
    ['notifications/initialized', { version: '2025-06-18' }],
    ['tools/call', { version: '2025-06-18' }],
  ])
  const encoded = `=?base64?${Buffer.from('slipway://ü').toString('base64')}?=`
  expect(new Map(seen.slice(3))).toEqual(
    new Map([
      ['tools/call', { version: '2026-07-28', verb: 'tools/call', name: 'whoami' }],
      ['resources/read', { version: '2026-07-28', verb: 'resources/read', name: encoded }],
    ]),
  )
  const byId = new Map(written.filter(({ id }) => id !== undefined).map(message => [message.id, message.result]))
  expect(byId).toEqual(
    new Map<unknown, object>([
      [0, { protocolVersion: '2025-06-18' }],
      ...['a', 'b', 'c'].map((id): [string, object] => [id, { text: 'über' }]),
    ]),
  )
  expect(written.filter(({ method }) => method === 'notifications/progress').length).toBe(3)
})

it('answers in the order in which the server does, and hangs up when the client cancels', async () => {
  const held = new Map<unknown, ServerResponse>()
  const hungUp = Promise.withResolvers<void>()
  const arrived = Promise.withResolvers<void>()
  const { say, next, finish } = await start((message, response) => {
    held.set(message.id, response)
    if (message.id === 2) response.on('close', hungUp.resolve)
    if (held.size === 3) arrived.resolve()
  })
  say(call(1), call(2), call('2'))
  await arrived.promise
  json(held.get('2')!, result('2'))
  await next(1)
  say({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 2 } })
  await hungUp.promise
  json(held.get(1)!, result(1))
  expect((await finish()).map(({ id }) => id)).toEqual(['2', 1])
})

const problem = { code: 'forbidden', title: 'Forbidden', detail: 'Not yours.', request_id: 'r1' }
type Refusal = [what: string, handle: Handle, error: object]
it.each<Refusal>([
  [
    'a refused key',
    (_, response) => json(response, { ...problem, code: 'unauthenticated' }, 401, 'application/problem+json'),
    { code: -32000, message: expect.stringContaining('slipway login'), data: { code: 'unauthenticated' } },
  ],
  [
    'a problem',
    (_, response) => json(response, problem, 403, 'application/problem+json'),
    { code: -32000, message: 'Not yours.', data: { code: 'forbidden', request_id: 'r1' } },
  ],
  [
    'an error of JSON-RPC for the request',
    ({ id }, response) => json(response, { jsonrpc: '2.0', id, error: { code: -32020, message: 'No.' } }, 400),
    { code: -32020, message: 'No.' },
  ],
  [
    'an error of JSON-RPC without an id',
    (_, response) => json(response, { jsonrpc: '2.0', id: null, error: { code: -32700, message: 'No.' } }, 400),
    { code: -32700, message: 'No.' },
  ],
  [
    'a page',
    (_, response) => response.writeHead(200, { 'Content-Type': 'text/html' }).end('<h1>Hi'),
    { code: -32000, data: { code: 'unexpected_response' } },
  ],
  [
    'a redirect',
    (_, response) => response.writeHead(307, { Location: 'http://127.0.0.1:1/mcp' }).end(),
    { code: -32000, data: { code: 'unexpected_response' } },
  ],
  ['a cut connection', (_, response) => response.destroy(), { code: -32000, data: { code: 'no_connection' } }],
  [
    'a stream that ends early',
    (_, response) => response.writeHead(200, { 'Content-Type': 'text/event-stream' }).end('data: {"jsonrpc":"2.0"'),
    { code: -32000, data: { code: 'no_connection' } },
  ],
  [
    'silence',
    (_, response) => response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(': here\n\n'),
    { code: -32000, data: { code: 'no_connection' } },
  ],
  [
    'an endless message of a stream',
    (_, response) =>
      response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(`data: ${'x'.repeat(2000)}`),
    { code: -32000, data: { code: 'unexpected_response' } },
  ],
  [
    'an endless answer',
    (_, response) => json(response, result(1, { text: 'x'.repeat(2000) })),
    { code: -32000, data: { code: 'unexpected_response' } },
  ],
])('answers %s with one error for the request', async (_, handle, error) => {
  const { say, finish, next } = await start(handle, { limits: { silenceMs: 200, answerBytes: 1000 } })
  say(call('a'))
  await next(1)
  expect(await finish()).toMatchObject([{ jsonrpc: '2.0', id: 'a', error }])
})

it('keeps running without a login, after invalid lines, and beyond its limits', async () => {
  let isSignedIn = false
  const [url, limits] = [
    await serve(({ id }, response) => json(response, result(id))),
    { lineBytes: 200, requestsAtOnce: 2 },
  ]
  const login = () => {
    if (!isSignedIn) throw new CommandFailure(EXIT.notSignedIn, 'not_signed_in', 'Sign in.', 'slipway login')
    return { url, key: 'slw_key', from: 'the test' }
  }
  const { say, next, finish } = await start(() => {}, { login, limits })
  say(call(1))
  expect((await next(1))[0].error).toMatchObject({ data: { code: 'not_signed_in', next: 'slipway login' } })
  isSignedIn = true
  say('{', '', '[]', '7', call(2, 'x'.repeat(300)), [call(3), call(4), call(5)], call(6))
  const written = await finish()
  const errors = written.slice(1).map(({ id, error }) => [id, error?.code])
  expect(errors).toEqual([
    [null, -32700],
    [null, -32600],
    [null, -32600],
    [null, -32600],
    ...[3, 4, 5].map(id => [id, -32000]),
    [6, undefined],
  ])
})

it('notes a failure once, never repeats a key that cannot be sent, and ends when it is interrupted', async () => {
  const { say, ended, notes, interruption, next } = await start(() => {}, {
    login: () => validLogin({ url: 'http://127.0.0.1:9', key: 'slw_\nsecret', from: 'the test' }),
  })
  say({ jsonrpc: '2.0', method: 'notifications/initialized' }, call(1))
  const [{ error }] = await next(1)
  expect([error.data.code, notes.length]).toEqual(['usage', 1])
  expect(JSON.stringify([error, notes])).not.toContain('secret')
  interruption.abort(new CommandFailure(EXIT.interrupted, 'interrupted', 'Interrupted.'))
  await expect(ended).rejects.toMatchObject({ code: 'interrupted' })
})
