// The model proxy: who may call which model, what passes in both directions, and what is kept of a call.
import * as jose from 'jose'
import { Provider } from 'oidc-provider'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import type { ModelCallLimits } from '../../../src/env.ts'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { newApiKey } from '../../../src/kernel/crypto/crypto.ts'
import { createModelToken } from '../../../src/kernel/crypto/model-tokens.ts'
import { createTraceKey } from '../../../src/kernel/crypto/trace-keys.ts'
import { type App, logLines, newTenant, type Tenant, unusedId } from '../../support/app.ts'
import { minimalBody } from '../../support/deployment-bodies.ts'
import { listenLocally } from '../../support/identity-provider.ts'
import { type Fault, type ModelServer, startModelServer } from '../../support/model-server.ts'
import { MODEL, newModel, readUsage, SECRET, startModelApp } from '../../support/models.ts'
import { cookieHeaders, newSession } from '../../support/sessions.ts'

let models: ModelServer
let app: App
let tenant: Tenant
beforeAll(async () => {
  models = await startModelServer()
  app = startModelApp()
  tenant = await newTenant({ app })
})
afterAll(() => models.close())
beforeEach(() => {
  models.calls.length = 0
  models.faults.length = 0
  models.answer = () => undefined
  models.beforeEvent = () => {}
})

const ASKED = { model: MODEL, messages: [{ role: 'user', content: 'Hello' }] }
type CallOptions = { path?: string; headers?: Record<string, string>; body?: unknown; key?: string | null; in?: App }

async function call(id: string, { path = 'chat/completions', key = tenant.key, ...options }: CallOptions = {}) {
  const { headers = {}, body = ASKED } = options
  const init = {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...(key && { Authorization: `Bearer ${key}` }), ...headers },
    body: body instanceof ReadableStream ? body : JSON.stringify(body),
    duplex: 'half',
  }
  return (options.in ?? app).fetch(new Request(`http://slipway.test/v1/model-proxy/${id}/${path}`, init as RequestInit))
}
async function outcomeOf(reply: Response | Promise<Response>) {
  const { status, json } = await readReply(reply)
  return [status, json?.code]
}
async function readReply(reply: Response | Promise<Response>) {
  const response = await reply
  const text = await response.text()
  const isJson = text !== '' && response.headers.get('Content-Type')?.includes('json')
  const json = isJson ? JSON.parse(text) : undefined
  return { status: response.status, headers: response.headers, text, json }
}

describe('a call', () => {
  it('needs a key in a header: a session, another workspace’s key and a trace key do not do', async () => {
    const id = await newModel(tenant, { base_url: models.url })
    const stranger = await newTenant({ app })
    const { token } = await newSession(tenant)
    expect(await outcomeOf(call(id, { key: null, headers: cookieHeaders(token) }))).toEqual([401, 'key_missing'])
    expect(await outcomeOf(call(id, { key: null }))).toEqual([401, 'key_missing'])
    expect(await outcomeOf(call(id, { key: newApiKey() }))).toEqual([401, 'key_unknown'])
    expect(await outcomeOf(call(id, { key: stranger.key }))).toEqual([404, 'model_not_found'])
    expect(await outcomeOf(call(unusedId()))).toEqual([404, 'model_not_found'])
    const deployment = (await tenant.post('/v2/deployments', { ...minimalBody, name: `a${unusedId()}` })).body
    const owner = { deployment_id: deployment.id, version: 1 }
    const traceKey = await createTraceKey(app.config, owner)
    expect(await outcomeOf(call(id, { key: traceKey }))).toEqual([403, 'trace_key_confined'])
    const closed = await newModel(tenant, { base_url: models.url, deployment_ids: [] })
    const key = await createModelToken(app, owner)
    expect(await outcomeOf(call(closed, { key }))).toEqual([404, 'model_not_found'])
    expect(models.calls).toEqual([])
    expect(await outcomeOf(call(id, { key }))).toEqual([200, undefined])
    expect(models.calls).toMatchObject([{ headers: { authorization: `Bearer ${SECRET}` } }])
  })

  it('with an unknown key does not have its body read', async () => {
    let pulls = 0
    const body = new ReadableStream({ pull: () => void pulls++ }, { highWaterMark: 0 })
    expect(await outcomeOf(call(unusedId(), { key: newApiKey(), body }))).toEqual([401, 'key_unknown'])
    expect(pulls).toBe(0)
  })

  it('may have any method, and its query and path stay as they were sent', async () => {
    const id = await newModel(tenant, { base_url: `${models.url}/v1` })
    for (const method of ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE']) {
      const headers = { 'X-Api-Key': tenant.key }
      const url = `http://slipway.test/api/v1/v1/model-proxy/${id}/models?after=a%2Fb&limit=2&limit=3`
      expect(await readReply(app.fetch(new Request(url, { method, headers })))).toMatchObject({ status: 200 })
    }
    await finishPendingWork()
    const sent = models.calls.map(({ method, path, headers }) => [method, path, headers.authorization])
    const same = ['/v1/models?after=a%2Fb&limit=2&limit=3', `Bearer ${SECRET}`]
    expect(sent).toEqual(['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE'].map(method => [method, ...same]))
    expect(await readUsage(app, id)).toMatchObject({ calls: 5, failed: 0, input_tokens: 0 })
  })

  it('makes one round trip before it is sent', async () => {
    const id = await newModel(tenant, { base_url: models.url })
    const requestId = `trip-${unusedId()}`
    let trips = 0
    models.answer = async () => {
      trips = await countTrips(requestId)
      return 'Yes.'
    }
    expect(await outcomeOf(call(id, { headers: { 'X-Request-Id': requestId } }))).toEqual([200, undefined])
    expect(trips).toBe(1)
  })

  it('is refused while calls are off, when a budget is spent, and to a URL that is not allowed', async () => {
    const other = await newTenant({ app })
    const id = await newModel(other, { base_url: `${models.url}/v1` })
    const callIt = (path?: string) => outcomeOf(call(id, { key: other.key, ...(path && { path }) }))
    const setProxy = (body: object) => other.owner.patch('/orgs/current/model-proxy', body, { 'If-Match': '*' })
    for (const path of ['..%2Fadmin', '%2e%2e%2fadmin', 'a%5c..%5cb', 'a%252f..', 'x%00y'])
      expect([403, 404, 422], path).toContain((await callIt(path))[0])
    expect(models.calls).toEqual([])
    expect((await setProxy({ enabled: false })).status).toBe(200)
    expect(await callIt()).toEqual([403, 'model_proxy_off'])
    await setProxy({ enabled: true, allowed_urls: { mode: 'list', patterns: ['https://api.openai.com/v1/*'] } })
    expect(await callIt()).toEqual([403, 'model_url_not_allowed'])
    await setProxy({ allowed_urls: { mode: 'configurations', patterns: [] } })
    expect((await other.post('/v1/model-budgets', { period: 'day', limit_calls: 1 })).status).toBe(201)
    expect(await callIt()).toEqual([200, undefined])
    const spent = await readReply(call(id, { key: other.key }))
    expect(spent).toMatchObject({ status: 402, json: { code: 'model_budget_spent' } })
    expect(spent.json.error).toEqual({ message: spent.json.detail, type: spent.json.code, code: spent.json.code })
    expect(models.calls).toHaveLength(1)
  })

  it('passes on headers, but none of connections, credentials and origins, in both directions', async () => {
    const id = await newModel(tenant, { base_url: models.url })
    const headers = {
      Cookie: 'a=b',
      'X-Forwarded-For': '192.0.2.1',
      'X-Tenant-Id': tenant.tenant_id,
      'X-LLM-Auth': 'forged',
      'OpenAI-Beta': 'assistants=v2',
      'X-Api-Key': tenant.key,
      Connection: 'keep-alive, X-Mine',
      'X-Mine': '1',
    }
    const reply = await readReply(call(id, { headers }))
    expect(Object.keys(models.calls[0]!.headers).sort()).toEqual([
      'accept-encoding',
      'authorization',
      'connection',
      'content-type',
      'host',
      'openai-beta',
      'transfer-encoding',
      'user-agent',
    ])
    expect(JSON.stringify(models.calls)).not.toContain(tenant.key)
    expect(Object.fromEntries(reply.headers)).toMatchObject({
      'content-security-policy': expect.stringContaining('sandbox'),
      'x-content-type-options': 'nosniff',
      'x-upstream-request-id': 'upstream-1',
      'cache-control': 'no-store',
    })
  })

  it('that is too long is refused, and one without a declared length ends as soon as it is', async () => {
    const limits: ModelCallLimits = { ...app.config.modelCalls, requestBytes: 1000 }
    const limited = startModelApp({ modelCalls: limits })
    const id = await newModel(tenant, { base_url: models.url })
    const padding = 'x'.repeat(600)
    const long = { ...ASKED, padding: [padding, padding] }
    const length = { 'Content-Length': String(JSON.stringify(long).length) }
    const refused = [413, 'model_body_too_large']
    expect(await outcomeOf(call(id, { body: long, headers: length, in: limited }))).toEqual(refused)
    const parts = [padding, padding]
    const body = new ReadableStream({
      pull: controller => (parts.length > 0 ? controller.enqueue(Buffer.from(parts.pop()!)) : controller.close()),
    })
    expect(await outcomeOf(call(id, { body, in: limited }))).toEqual(refused)
    await finishPendingWork()
    expect(await readUsage(app, id)).toMatchObject({ calls: 1, failed: 1 })
  })
})

describe('a stream', () => {
  const streamed = { ...ASKED, stream: true }

  it('is passed on as it comes: the client has the first event before the model sends the second', async () => {
    const id = await newModel(tenant, { base_url: models.url })
    const hasFirst = Promise.withResolvers<void>()
    const times: number[] = []
    models.beforeEvent = async index => {
      if (index === 1) await hasFirst.promise
      times.push(performance.now())
    }
    const reply = await call(id, { body: streamed })
    const reader = reply.body!.getReader()
    const first = await reader.read()
    const ms = performance.now() - times[0]!
    hasFirst.resolve()
    expect(new TextDecoder().decode(first.value)).toMatch(/^data: .*"role":"assistant"/)
    let rest = ''
    for (let part = await reader.read(); !part.done; part = await reader.read())
      rest += new TextDecoder().decode(part.value)
    expect(rest.endsWith('data: [DONE]\n\n')).toBe(true)
    console.log(`first streamed byte ${ms.toFixed(1)} ms after the model's`)
  })

  it('ends at the model when the client leaves', async () => {
    const id = await newModel(tenant, { base_url: models.url, trace_project: 'left' })
    models.faults.push('endless_stream')
    const reply = await call(id, { body: streamed })
    const reader = reply.body!.getReader()
    await reader.read()
    await reader.cancel()
    await expect.poll(() => models.calls[0]!.isAborted).toBe(true)
    await finishPendingWork()
    expect(await readUsage(app, id)).toMatchObject({ calls: 1, failed: 1 })
  })
})

describe('a server that', () => {
  const limitsFor = (fault: Fault): ModelCallLimits => ({
    ...app.config.modelCalls,
    ...(fault.startsWith('stall') && { idleMs: 200 }),
    ...(fault === 'endless_stream' && { totalMs: 500 }),
  })
  const cases: [Fault, number, string | undefined, isCut: boolean][] = [
    ['stall', 504, 'upstream_timeout', false],
    ['cut', 502, 'upstream_error', false],
    ['redirect', 502, 'upstream_redirected', false],
    ['huge_headers', 502, 'upstream_error', false],
    ['rate_limited', 429, undefined, false],
    ['broken', 500, undefined, false],
    ['secret_echoed', 401, undefined, false],
    ['invalid_json', 200, undefined, false],
    ['stall_in_stream', 200, undefined, true],
    ['cut_in_stream', 200, undefined, true],
    ['endless_stream', 200, undefined, true],
  ]
  it.each(cases)('answers with %s ends with %i and %s, and no secret leaks', async (fault, status, code, isCut) => {
    const limited = startModelApp({ modelCalls: limitsFor(fault) })
    const other = await newTenant({ app: limited })
    const id = await newModel(other, { base_url: models.url, trace_project: 'faulty' })
    models.faults.push(fault)
    const body = { ...ASKED, stream: fault.endsWith('stream') }
    const reply = await call(id, { key: other.key, body, in: limited })
    let text = ''
    const end = await (async () => {
      for await (const part of reply.body as unknown as AsyncIterable<Uint8Array>) text += Buffer.from(part)
      return 'whole'
    })().catch(() => 'cut')
    expect([reply.status, end]).toEqual([status, isCut ? 'cut' : 'whole'])
    if (code) expect(JSON.parse(text)).toMatchObject({ code, error: { code } })
    await finishPendingWork()
    expect(await readUsage(limited, id)).toMatchObject({ calls: 1, failed: status === 200 && !isCut ? 0 : 1 })
    const [project] = (await other.get('/sessions?name=faulty')).body
    const { body: found } = await other.post('/runs/query', { session: [project.id] })
    expect(found.runs).toMatchObject([{ run_type: 'llm', status: status === 200 && !isCut ? 'success' : 'error' }])
    const kept = [text, [...reply.headers], found, logLines, (await other.get('/v2/events')).body]
    expect(JSON.stringify(kept)).not.toContain(SECRET)
  })
})

describe('a traced call', () => {
  it('is a run with its inputs and outputs, its tokens and its costs', async () => {
    const members = { base_url: models.url, input_price: 2, output_price: 10, trace_project: 'traced models' }
    const id = await newModel(tenant, members)
    const body = { ...ASKED, stream: true, stream_options: { include_usage: true } }
    for (const one of [ASKED, body]) await (await call(id, { body: one })).text()
    await finishPendingWork()
    const [project] = (await tenant.get('/sessions?name=traced models')).body
    const { body: found } = await tenant.post('/runs/query', { session: [project.id], order: 'asc' })
    const [prompt_tokens, completion_tokens] = [2, 4]
    const run = { run_type: 'llm', prompt_tokens, completion_tokens, total_cost: expect.anything(), error: null }
    expect(found.runs).toMatchObject([run, run])
    expect(found.runs[0].outputs.choices[0].message.content).toBe('You said: Hello')
    expect(found.runs[1]).toMatchObject({
      inputs: body,
      outputs: { messages: [{ content: 'You said: Hello' }] },
      extra: { metadata: { ls_provider: 'openai', ls_model_name: MODEL, model_configuration_id: id, status: 200 } },
    })
    expect(Number(found.runs[1].total_cost)).toBeCloseTo((2 * 2 + 4 * 10) / 1_000_000)
  })

  it('by an application belongs to the project of its deployment', async () => {
    const deployment = (await tenant.post('/v2/deployments', { ...minimalBody, name: `a${unusedId()}` })).body
    const key = await createModelToken(app, { deployment_id: deployment.id, version: 1 })
    const id = await newModel(tenant, { base_url: models.url, trace_project: 'not this one' })
    await (await call(id, { key })).text()
    await finishPendingWork()
    const [project] = (await tenant.get(`/sessions?name=${deployment.name}`)).body
    const { body: found } = await tenant.post('/runs/query', { session: [project.id] })
    const metadata = { actor_type: 'deployment', deployment_id: deployment.id }
    expect(found.runs).toMatchObject([{ extra: { metadata } }])
  })
})

describe('a call is authorized', () => {
  it('by a token of ours, which describes the call', async () => {
    const id = await newModel(tenant, { base_url: `${models.url}/v1`, auth_type: 'jwt' })
    for (const body of [ASKED, { ...ASKED, model: 'large-1', stream: true }]) await (await call(id, { body })).text()
    const keys = jose.createLocalJWKSet(
      (await (await app.fetch(new Request('http://slipway.test/.well-known/jwks.json'))).json()) as never,
    )
    const audience = new URL(models.url).origin
    const tokens = models.calls.map(({ headers }) => headers['x-llm-auth']!)
    const verified = await Promise.all(
      tokens.map(token => jose.jwtVerify(token, keys, { audience, issuer: 'http://slipway.test' })),
    )
    expect(verified.map(({ payload }) => payload)).toMatchObject([
      { actor_type: 'api_key', workspace_id: tenant.tenant_id, model_name: MODEL, streaming: false },
      { actor_type: 'api_key', model_provider: 'openai', model_name: 'large-1', streaming: true },
    ])
    expect(models.calls[1]!.json).toMatchObject({ model: 'large-1', stream: true })
    expect(models.calls[1]!.headers.authorization).toBeUndefined()
  })

  it('by a token of an OAuth server, which is fetched once, and anew after a refusal', async () => {
    let fetched = 0
    const identity = await listenLocally(origin => {
      const provider = new Provider(origin, {
        clients: [
          {
            client_id: 'slipway',
            client_secret: 'hush-oauth-secret',
            redirect_uris: [],
            response_types: [],
            grant_types: ['client_credentials'],
            token_endpoint_auth_method: 'client_secret_post',
          },
        ],
        features: { clientCredentials: { enabled: true } },
        scopes: ['models'],
      })
      ;(provider as unknown as NodeJS.EventEmitter).on('grant.success', () => fetched++)
      return provider.callback()
    })
    try {
      const members = { client_id: 'slipway', secret: 'hush-oauth-secret', scope: 'models' }
      const auth = { ...members, auth_type: 'oauth_client_credentials' as const, token_url: `${identity.origin}/token` }
      const id = await newModel(tenant, { base_url: models.url, ...auth })
      for (let i = 0; i < 3; i++) expect(await outcomeOf(call(id))).toEqual([200, undefined])
      const sent = new Set(models.calls.map(({ headers }) => headers.authorization))
      expect([sent.size, fetched]).toEqual([1, 1])
      expect([...sent][0]).toMatch(/^Bearer [\w-]{20,}$/)
      models.faults.push('secret_echoed')
      const refused = await readReply(call(id))
      expect([refused.status, refused.text]).toEqual([401, expect.stringContaining('Incorrect key Bearer ********')])
      expect(await outcomeOf(call(id))).toEqual([200, undefined])
      expect(fetched).toBe(2)
      const wrong = await newModel(tenant, { base_url: models.url, ...auth, secret: 'hush-wrong-secret' })
      const failed = await readReply(call(wrong))
      expect(failed).toMatchObject({ status: 502, json: { code: 'upstream_error' } })
      expect(failed.json.detail).toContain('invalid_client')
      expect(failed.text).not.toContain('hush')
    } finally {
      identity.close()
    }
  })
})
