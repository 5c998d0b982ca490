// Servers of models, and callers, that lie about what a call asks for, says and uses.
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import * as jose from 'jose'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createAnswerReader } from '../../../src/connect/models/answer-reader.ts'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { sha256Hex } from '../../../src/kernel/crypto/digest.ts'
import { newTenant, type Tenant } from '../../support/app.ts'
import { newModel, readUsage, startModelApp } from '../../support/models.ts'

const logged: unknown[] = []
const app = startModelApp({ log: line => void logged.push(line) })

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
const serveJson = (value: unknown, status = 200) =>
  serve((request, response) => {
    request.resume().on('end', () => {
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(value))
    })
  })
const post = (tenant: Tenant, id: string, body: string, signal?: AbortSignal) =>
  app.fetch(
    new Request(`http://slipway.test/v1/model-proxy/${id}/chat/completions`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${tenant.key}`, 'Content-Type': 'application/json' },
      body,
      ...(signal && { signal }),
    }),
  )

describe('the answer of a model', () => {
  it('is read in linear time, however its usage grows', () => {
    const reader = createAnswerReader('text/event-stream')
    for (let i = 0; i < 3000; i++) {
      const usage = Object.fromEntries(Array.from({ length: 30 }, (_, k) => [`k${i * 30 + k}`, 1]))
      reader.read(Buffer.from(`data: ${JSON.stringify({ usage })}\n\n`))
    }
    reader.read(Buffer.from('data: {"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n'))
    expect(reader.finish().tokens).toEqual({ input_tokens: 3, output_tokens: 4 })
  })

  it('keeps a bounded number of tool calls', () => {
    const reader = createAnswerReader('text/event-stream')
    const tool_calls = Array(5000).fill({ function: { name: 'a', arguments: 'b' } })
    reader.read(Buffer.from(`data: ${JSON.stringify({ choices: [{ delta: { tool_calls } }] })}\n\n`))
    const { messages } = reader.finish().outputs as { messages: { tool_calls: unknown[] }[] }
    expect(messages[0]!.tool_calls).toHaveLength(1000)
  })

  it.each([
    ['all of its choices', { choices: [0, 1, 2].map(index => ({ index, delta: { content: 'word' } })) }, 12],
    ['what it thinks', { choices: [{ delta: { content: 'word', reasoning_content: 'hm' } }] }, 6],
    ['what Anthropic thinks', { delta: { type: 'thinking_delta', thinking: 'word' } }, 4],
    ['its tool calls', { choices: [{ delta: { tool_calls: [{ function: { arguments: '{}' } }] } }] }, 2],
  ])('without usage counts %s', (_, event, length) => {
    const reader = createAnswerReader('text/event-stream')
    reader.read(Buffer.from(`data: ${JSON.stringify(event)}\n\n`))
    expect(reader.finish()).toMatchObject({ tokens: null, length })
  })

  it.each([
    { error: { message: { toString: 1, valueOf: 2 } } },
    { message: { toString: 1 } },
    { error: ['a'] },
    ['a'],
    null,
  ])('fails a test of the configuration with %j', async answer => {
    const tenant = await newTenant({ app })
    const id = await newModel(tenant, { base_url: await serveJson(answer, 400) })
    const { status, body } = await tenant.post(`/v1/model-configurations/${id}/test`)
    expect([status, body.code]).toEqual([200, 'model_call_failed'])
  })
})

it.each(['hush\nx', 'hush\r\nX-Evil: 1', 'hush€', 'h'.repeat(9000)])(
  'the access token %j is an error of its server, and in no log',
  async access_token => {
    const tenant = await newTenant({ app })
    const url = await serveJson({ access_token, token_type: 'bearer' })
    const oauth = { auth_type: 'oauth_client_credentials', token_url: `${url}/token`, client_id: 'a' } as const
    const id = await newModel(tenant, { base_url: url, ...oauth })
    const answer = await post(tenant, id, '{}')
    expect([answer.status, ((await answer.json()) as { code: string }).code]).toEqual([502, 'upstream_error'])
    expect(JSON.stringify(logged)).not.toMatch(/hush|hhhh/)
  },
)

it('an error that is cut within a key of the configuration shows nothing of the key', async () => {
  const secret = 'sk-0123456789abcdef'
  const tenant = await newTenant({ app })
  const text = `${'x'.repeat(64 * 1024 - secret.length + 2)}${secret}${'y'.repeat(64 * 1024)}`
  for (const chunk of [text.length, text.indexOf('y') - 1]) {
    const url = await serve((_, response) => {
      response.writeHead(400)
      response.write(text.slice(0, chunk))
      setImmediate(() => response.end(text.slice(chunk)))
    })
    const id = await newModel(tenant, { base_url: url, secret })
    expect((await (await post(tenant, id, '{}')).text()).replaceAll(/[xy]/g, '')).toMatch(/^\**$/)
  }
})

/** A server that keeps the token and the bytes of each call. */
async function serveRecorder() {
  const calls: { claims: jose.JWTPayload; body: Buffer }[] = []
  const url = await serve(async (request, response) => {
    const body = await buffer(request)
    calls.push({ claims: jose.decodeJwt(request.headers['x-llm-auth'] as string), body })
    response.end()
  })
  return { url, calls }
}
const sendBytes = (tenant: Tenant, id: string, body: BodyInit | null, headers: Record<string, string> = {}) =>
  app.fetch(
    new Request(`http://slipway.test/v1/model-proxy/${id}/chat/completions`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${tenant.key}`, 'Content-Type': 'application/json', ...headers },
      body,
    }),
  )

it.each([
  ['{"metadata": {"model": "cheap", "stream": true}, "model": "dear"}', 'dear', false],
  ['{"m\\u006fdel": "dear", "stream": true}', 'dear', true],
  ['{"messages": "\\"model\\": \\"cheap\\"", "model": "dear", "stream": null, "n": 1e999}', 'dear', false],
  ['{"tools": [{"id": 1, "ID": 2}, {"id": 1}]}', '', false],
  ['[{"model": "cheap"}]', '', false],
  [null, '', false],
])('a token says what the server reads in a request, and has its digest (%#)', async (body, model_name, streaming) => {
  const tenant = await newTenant({ app })
  const { url, calls } = await serveRecorder()
  const answer = await sendBytes(tenant, await newModel(tenant, { base_url: url, auth_type: 'jwt' }), body)
  expect([answer.status, await answer.text()]).toEqual([200, ''])
  expect(calls[0]!.body.toString()).toBe(body ?? '')
  expect(calls[0]!.claims).toMatchObject({ model_name, streaming, body_sha256: sha256Hex(calls[0]!.body) })
})

const utf8 = (text: string) => Buffer.from(text)
const DEAR = '{"model": "dear"}'
it.each<[string, Uint8Array<ArrayBuffer>, Record<string, string>?]>([
  ['a number that is none in JSON', utf8('{"model": "cheap", "x": NaN}')],
  ['a comment', utf8('{"model": "cheap" /* */}')],
  ['data after its end', utf8('{"model": "cheap"} {}')],
  ['a byte order mark', utf8(`\ufeff${DEAR}`)],
  ['UTF-16', Buffer.from(DEAR, 'utf16le')],
  ['bytes that are no UTF-8', Buffer.from('{"model": "dear", "x": "\xff"}', 'latin1')],
  ['deep nesting', utf8(`{"x": ${'['.repeat(200)}${']'.repeat(200)}, "model": "dear"}`)],
  ['a member twice', utf8('{"model": "cheap", "model": "dear"}')],
  ['a member twice, once with an escape', utf8('{"model": "cheap", "mod\\u0065l": "dear"}')],
  ['a member twice, further in', utf8('{"model": "cheap", "x": [{"a": {"b": 1, "b": 2}}]}')],
  ['a member in another case', utf8('{"model": "cheap", "Model": "dear"}')],
  ['a member with a letter that folds', utf8('{"stream": false, "\u017ftream": true}')],
  ['a model that is no text', utf8('{"model": ["dear"]}')],
  ['a model with a NUL', utf8('{"model": "cheap\\u0000dear"}')],
  ['a model with half a character', utf8('{"model": "cheap\\ud800"}')],
  ['a model that is too long', utf8(`{"model": "${'x'.repeat(300)}"}`)],
  ['a stream that is no boolean', utf8('{"model": "cheap", "stream": "true"}')],
  ['too many members', utf8(`{${Array.from({ length: 100_001 }, (_, i) => `"${i}":0`).join()}}`)],
  ['an encoding', gzipSync(DEAR), { 'Content-Encoding': 'gzip' }],
  ['another character set', utf8(DEAR), { 'Content-Type': 'application/json; charset=utf-16' }],
  ['another media type', utf8('{"a": "&model=dear"}'), { 'Content-Type': 'application/x-www-form-urlencoded' }],
])('a body with %s is refused where a token says what it asks for', async (_, body, headers) => {
  const tenant = await newTenant({ app })
  const { url, calls } = await serveRecorder()
  const signed = await newModel(tenant, { base_url: url, auth_type: 'jwt' })
  const answer = await sendBytes(tenant, signed, body, headers)
  expect([answer.status, await answer.json()]).toMatchObject([400, { code: 'model_body_ambiguous' }])
  expect(calls).toEqual([])
})

it('a body that a token describes is held as a whole, so it is smaller than others may be', async () => {
  const tenant = await newTenant({ app })
  const { url, calls } = await serveRecorder()
  const id = await newModel(tenant, { base_url: url, auth_type: 'jwt' })
  const body = JSON.stringify({ pad: 'x'.repeat(8 * 1024 * 1024) })
  const answer = await sendBytes(tenant, id, body)
  expect([answer.status, await answer.json()]).toMatchObject([413, { code: 'model_body_too_large' }])
  expect(calls).toEqual([])
})

it('the key of a provider that repeats it in a good answer is masked, also in a stream and in headers', async () => {
  const tenant = await newTenant({ app })
  const secret = 'sk-"quoted"/key'
  const url = await serve(async (request, response) => {
    request.resume()
    const { authorization } = request.headers
    response.setHeader('X-Echo', authorization!)
    const said = Buffer.from(`data: ${JSON.stringify({ authorization })} ${authorization}\n\ndata: sk-`)
    for (const part of [said.subarray(0, 35), said.subarray(35)]) {
      response.write(part)
      await delay(1)
    }
    response.end()
  })
  const answer = await post(tenant, await newModel(tenant, { base_url: url, secret }), '{}')
  expect(answer.headers.get('x-echo')).toBe('Bearer ********')
  expect(await answer.text()).toBe('data: {"authorization":"Bearer ********"} Bearer ********\n\ndata: sk-')
})

it('a call that is cut before its answer counts the tokens that it has sent', async () => {
  const tenant = await newTenant({ app })
  const arrived = Promise.withResolvers<void>()
  const url = await serve(request => void request.resume().on('end', arrived.resolve))
  const id = await newModel(tenant, { base_url: url, input_price: 1 })
  const controller = new AbortController()
  const answer = post(tenant, id, JSON.stringify({ prompt: 'x'.repeat(4000) }), controller.signal)
  await arrived.promise
  controller.abort()
  await Promise.allSettled([answer])
  await finishPendingWork()
  expect(await readUsage(app, id)).toMatchObject({ calls: 1, failed: 1, input_tokens: 1004, output_tokens: 0 })
})

it('a call is traced although its request is nested too deeply to be written again', async () => {
  const tenant = await newTenant({ app })
  const url = await serveJson({ usage: { prompt_tokens: 1, completion_tokens: 1 } })
  const id = await newModel(tenant, { base_url: url, trace_project: 'calls' })
  const answer = await post(tenant, id, `{"a": ${'['.repeat(100_000)}${']'.repeat(100_000)}}`)
  await answer.text()
  await delay(0)
  await finishPendingWork()
  const [project] = (await tenant.get('/sessions?name=calls')).body
  const { runs } = (await tenant.post('/runs/query', { session: [project.id] })).body
  expect(runs).toHaveLength(1)
})
