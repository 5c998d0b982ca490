// Servers of models, and callers, that lie about what a call asks for, says and uses.
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import * as jose from 'jose'
import { describe, expect, it, onTestFinished } from 'vitest'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { createAnswerReader } from '../../src/models/answer-reader.ts'
import { newTenant, type Tenant } from '../support/app.ts'
import { newModel, readUsage, startModelApp } from '../support/models.ts'

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

it.each([
  ['{"metadata": {"model": "cheap", "stream": true}, "model": "dear"}', 'dear', false],
  ['{"model": "cheap", "model": "dear", "stream": true}', 'dear', true],
  ['{"m\\u006fdel": "dear"}', 'dear', false],
  ['{"messages": "\\"model\\": \\"cheap\\"", "model": "dear"}', 'dear', false],
  ['{"model": {"model": "cheap"}}', 'small-1', false],
  [`{"pad": "${'x'.repeat(4 * 1024 * 1024)}", "model": "dear"}`, '', false],
])('a token names the model that the server reads in a request (%#)', async (body, model_name, streaming) => {
  const tenant = await newTenant({ app })
  const tokens: string[] = []
  const url = await serve(async (request, response) => {
    tokens.push(request.headers['x-llm-auth'] as string)
    await text(request)
    response.end()
  })
  const answer = await post(tenant, await newModel(tenant, { base_url: url, auth_type: 'jwt' }), body)
  expect([answer.status, await answer.text()]).toEqual([200, ''])
  expect(jose.decodeJwt(tokens[0]!)).toMatchObject({ model_name, streaming })
})

it('a call that is cut before its answer counts what it has sent', async () => {
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
