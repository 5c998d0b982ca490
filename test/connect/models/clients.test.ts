// The official clients of OpenAI and Anthropic with another base URL and key, and nothing else changed.
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { newTenant, type Tenant } from '../../support/app.ts'
import { FAULTS, type ModelCall } from '../../support/model-server.ts'
import { MODEL, newModel, readUsage, SECRET, startModelApp } from '../../support/models.ts'
import { isWorker } from '../../support/tracing-clients.ts'

const UPSTREAM = inject('models')
const app = startModelApp()
let tenant: Tenant
/** On Node the clients use their own fetch and a connection; workerd cannot listen. */
let server: { origin: string; close(): void }
beforeAll(async () => {
  tenant = await newTenant({ app })
  server = isWorker ? { origin: 'http://slipway.test', close: () => {} } : await listen()
})
afterAll(() => server.close())

async function listen() {
  const { createHttpServer } = await import('../../../src/host/http-server.ts')
  const http = createHttpServer(app.fetch)
  await new Promise<void>(resolve => http.listen(0, '127.0.0.1', resolve))
  const close = () => {
    http.closeAllConnections()
    http.close()
  }
  return { origin: `http://127.0.0.1:${(http.address() as { port: number }).port}`, close }
}
const options = (configuration: string) => ({
  apiKey: tenant.key,
  baseURL: `${server.origin}/v1/model-proxy/${configuration}`,
  ...(isWorker && { fetch: (async (...args: [string, RequestInit]) => app.fetch(new Request(...args))) as never }),
})
const listCalls = async (prompt: string): Promise<ModelCall[]> => {
  const calls = (await (await fetch(`${UPSTREAM}/calls`)).json()) as ModelCall[]
  return calls.filter(call => call.prompt === prompt)
}
const newPrompt = () => `What is ${crypto.randomUUID()}?`

describe('the client of OpenAI', () => {
  it('gets an answer, a stream, an embedding and the list of models', async () => {
    const id = await newModel(tenant, { base_url: UPSTREAM, secret: 'hush-openai-key', input_price: 2 })
    const client = new OpenAI(options(id))
    const prompt = newPrompt()
    const asked = { model: MODEL, messages: [{ role: 'user' as const, content: prompt }] }
    const whole = await client.chat.completions.create(asked)
    expect(whole.choices[0]!.message.content).toBe(`You said: ${prompt}`)

    const stream = await client.chat.completions.create({
      ...asked,
      stream: true,
      stream_options: { include_usage: true },
    })
    const pieces: string[] = []
    let usage: unknown
    for await (const chunk of stream) {
      pieces.push(chunk.choices[0]?.delta.content ?? '')
      usage = chunk.usage ?? usage
    }
    expect([pieces.join(''), usage]).toEqual([`You said: ${prompt}`, whole.usage])

    const embedding = await client.embeddings.create({ model: MODEL, input: ['abc'], encoding_format: 'float' })
    expect(embedding.data[0]!.embedding).toEqual([3, 1, 0])
    expect((await client.models.list()).data.map(one => one.id)).toEqual([MODEL])

    const calls = await listCalls(prompt)
    expect(calls.map(call => call.headers.authorization)).toEqual(Array(2).fill('Bearer hush-openai-key'))
    expect(JSON.stringify(calls)).not.toContain(tenant.key)
    const tokens = whole.usage!.prompt_tokens
    await expect
      .poll(() => readUsage(app, id))
      .toEqual({
        calls: 4,
        failed: 0,
        input_tokens: 2 * tokens + 1,
        output_tokens: 2 * whole.usage!.completion_tokens,
        cost: expect.closeTo((2 * (2 * tokens + 1)) / 1_000_000),
      })
  })

  it('shows a refusal of the proxy, and does not repeat the call', async () => {
    const client = new OpenAI(options(crypto.randomUUID()))
    const error = await client.models.list().then(
      () => null,
      failure => failure as InstanceType<typeof OpenAI.APIError>,
    )
    expect(error).toMatchObject({ status: 404, code: 'model_not_found', type: 'model_not_found' })
    expect(error!.message).toContain('/v1/model-configurations')
  })
})

describe('the client of Anthropic', () => {
  it('gets an answer, a stream and a tool call', async () => {
    const members = { provider: 'anthropic', base_url: UPSTREAM, secret: 'hush-anthropic-key' } as const
    const id = await newModel(tenant, members)
    const client = new Anthropic(options(id))
    const prompt = newPrompt()
    const asked = { model: MODEL, max_tokens: 100, messages: [{ role: 'user' as const, content: prompt }] }
    const whole = await client.messages.create(asked)
    expect(whole.content).toEqual([{ type: 'text', text: `You said: ${prompt}` }])
    const final = await client.messages.stream(asked).finalMessage()
    expect([final.content, final.usage]).toMatchObject([whole.content, whole.usage])
    const tool = { name: 'answer', input_schema: { type: 'object' as const, properties: { yes: { type: 'boolean' } } } }
    const called = await client.messages
      .stream({ ...asked, tools: [tool], tool_choice: { type: 'tool', name: 'answer' } })
      .finalMessage()
    expect(called.content).toMatchObject([{ type: 'tool_use', name: 'answer', input: { yes: true } }])

    const calls = await listCalls(prompt)
    expect(calls.map(({ headers }) => [headers['x-api-key'], headers.authorization])).toEqual(
      Array(3).fill(['hush-anthropic-key', undefined]),
    )
    await expect.poll(() => readUsage(app, id)).toMatchObject({ calls: 3, input_tokens: 3 * whole.usage.input_tokens })
  })

  it('shows a refusal of the proxy', async () => {
    const client = new Anthropic({ ...options(crypto.randomUUID()), maxRetries: 0 })
    await expect(client.models.list()).rejects.toMatchObject({ status: 404 })
    await expect(client.models.list()).rejects.toThrow('/v1/model-configurations')
  })
})

describe('a server that', () => {
  const limited = startModelApp({ modelCalls: { ...app.config.modelCalls, idleMs: 1000, totalMs: 2000 } })
  it.each(FAULTS)('answers with %s is no danger: the call ends, and its key does not leak', async fault => {
    const prompt = newPrompt()
    const id = await newModel(tenant, { base_url: `${UPSTREAM}/faults/${fault}` })
    const reply = await limited.fetch(
      new Request(`http://slipway.test/v1/model-proxy/${id}/chat/completions`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${tenant.key}` },
        body: JSON.stringify({ stream: fault.endsWith('stream'), messages: [{ role: 'user', content: prompt }] }),
      }),
    )
    let text = ''
    const read = async () => {
      for await (const part of reply.body as unknown as AsyncIterable<Uint8Array>) text += Buffer.from(part)
    }
    await read().catch(() => {})
    expect(JSON.stringify([text, [...reply.headers]])).not.toContain(SECRET)
    expect(await listCalls(prompt)).toMatchObject([{ headers: { authorization: `Bearer ${SECRET}` } }])
    if (!['invalid_json'].includes(fault) && !fault.endsWith('stream')) expect(reply.status).toBeGreaterThan(400)
    await expect.poll(() => readUsage(app, id)).toMatchObject({ calls: 1 })
  })

  it('streams without end is left when the client leaves', async () => {
    const prompt = newPrompt()
    const id = await newModel(tenant, { base_url: `${UPSTREAM}/faults/endless_stream` })
    const client = new OpenAI(options(id))
    const messages = [{ role: 'user' as const, content: prompt }]
    const stream = await client.chat.completions.create({ model: MODEL, stream: true, messages })
    for await (const chunk of stream) if (chunk.choices[0]!.delta.content) break
    await expect.poll(async () => (await listCalls(prompt))[0]!.isAborted).toBe(true)
  })
})
