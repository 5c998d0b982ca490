// Drains: what is kept of them, what agents get and tell, and what the control plane sends.
import { gunzipSync } from 'node:zlib'
import { beforeEach, describe, expect, it } from 'vitest'
import { sweepDrains } from '../../../src/hosting/drains/sweep.ts'
import { type App, getServices, newTenant, startApp, type Tenant, unusedId, withClockAhead } from '../../support/app.ts'
import { newDeployment } from '../../support/deployments.ts'
import { makeEnvelopeOpener } from '../../support/envelope-opener.ts'
import { appendRuns, newTrace } from '../../support/new-traces.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const SECRET = 'Bearer hush-drain'
const HEADERS = { headers: { Authorization: SECRET } }
/** Another host for each test: a sweep sends the drains of all. */
let url: string

type Sent = { url: string; headers: Headers; body: ReturnType<typeof JSON.parse>; lines: string[] }
let sent: Sent[]
let answer: () => Response
let app: App
let tenant: Tenant
beforeEach(async () => {
  sent = []
  url = `https://${unusedId()}.example.com:4318`
  answer = () => new Response('{}')
  const foreignFetch = async (input: unknown, init?: RequestInit) => {
    const bytes = Buffer.from(await new Response(init!.body).arrayBuffer())
    const text = (new Headers(init!.headers).get('Content-Encoding') === 'gzip' ? gunzipSync(bytes) : bytes).toString()
    const lines = text.trimEnd().split('\n')
    const request = { url: String(input), headers: new Headers(init!.headers), body: JSON.parse(lines[0]!), lines }
    if (!request.url.startsWith(url)) return new Response()
    sent.push(request)
    return answer()
  }
  app = startApp({ overrides: { foreignFetch: foreignFetch as typeof fetch } })
  tenant = await newTenant({ app })
})

const makeBody = () => ({ name: 'Collector', kind: 'otlp', url, ...HEADERS })
const createDrain = async (over: object = {}) => {
  const { status, body } = await tenant.post('/v2/drains', { ...makeBody(), ...over })
  expect(status, JSON.stringify(body)).toBe(201)
  return { ...body, path: `/v2/drains/${body.id}` }
}
const codeOf = async (reply: Promise<{ status: number; body: { code?: string } }>) => {
  const { status, body } = await reply
  return [status, body.code]
}
const sweep = (ms = 0) => withClockAhead(ms, () => sweepDrains(getServices(app)))

describe('a drain', () => {
  it('shows the names of its headers, and their values nowhere', async () => {
    const drain = await createDrain()
    expect(drain).toMatchObject({ header_names: ['Authorization'], signals: ['logs'], state: { status: 'waiting' } })
    await tenant.patch(drain.path, { headers: { 'X-Token': `${SECRET}-2` } })
    const events = await tenant.get('/v2/events?type=drain.*')
    const answers = [drain, (await tenant.get(drain.path)).body, (await tenant.get('/v2/drains')).body, events.body]
    expect(JSON.stringify(answers)).not.toContain('hush-drain')
  })

  it('refuses what its kind, its scope, its address or its name does not allow, and changes nothing', async () => {
    const refuse = (over: object) => codeOf(tenant.post('/v2/drains', { ...makeBody(), name: unusedId(), ...over }))
    const unsupported = [422, 'drain_signal_unsupported']
    expect(await refuse({ kind: 'loki', signals: ['logs', 'metrics'] })).toEqual(unsupported)
    expect(await refuse({ kind: 'syslog', url: 'tls://logs.example.com', signals: ['events'] })).toEqual(unsupported)
    const { body: key } = await tenant.post('/v2/tag-keys', { key: unusedId() })
    const { body: tag } = await tenant.post(`/v2/tag-keys/${key.id}/values`, { value: 'one' })
    expect(await refuse({ tag_value_ids: [tag.id], signals: ['traces'] })).toEqual(unsupported)
    for (const url of [
      'http://otel.example.com',
      'https://10.0.0.1',
      'https://otel.internal',
      'tls://logs.example.com',
    ])
      expect(await refuse({ url }), url).toEqual([422, 'blocked_url'])
    expect(await refuse({ kind: 'syslog', url: 'tcp://logs.example.com:5140' })).toEqual([422, 'blocked_url'])
    expect(await refuse({ deployment_ids: [crypto.randomUUID()] })).toEqual([404, 'deployment_not_found'])
    expect(await refuse({ kind: 'remote_write' })).toEqual([422, 'invalid_request'])
    expect(await refuse({ headers: { 'Content-Type': 'x' } })).toEqual([422, 'invalid_request'])
    const drain = await createDrain()
    expect(await refuse({ name: 'COLLECTOR' })).toEqual([409, 'drain_name_taken'])
    const moved = { url: 'https://evil.example.com' }
    expect(await codeOf(tenant.patch(drain.path, moved))).toEqual([422, 'drain_headers_required'])
    expect((await tenant.patch(drain.path, { url: `${url}/v2` })).status).toBe(200)
    expect((await tenant.patch(drain.path, { ...moved, headers: {} })).body.header_names).toEqual([])
  })

  it('sends only what its maker may read', async () => {
    const key = { description: 'narrow', permissions: ['drains:manage', 'drains:read', 'deployments:read'] }
    const limited = tenant.as((await tenant.post('/workspaces/current/api-keys', key)).body.key)
    expect((await limited.post('/v2/drains', makeBody())).status).toBe(201)
    const traces = { ...makeBody(), name: 'Traces', signals: ['traces'] }
    expect(await codeOf(limited.post('/v2/drains', traces))).toEqual([403, 'permission_missing'])
    const drain = await createDrain(traces)
    const moved = { url: 'https://mine.example.com', headers: {} }
    expect(await codeOf(limited.patch(drain.path, moved))).toEqual([403, 'permission_missing'])
  })

  it('is tried with a line of its own, and the body of the answer is not shown', async () => {
    const drain = await createDrain()
    answer = () => new Response('internal words', { status: 401 })
    const { body } = await tenant.post(`${drain.path}/test`)
    expect(body).toMatchObject({ delivered: false, error: 'refused', answer_status: 401 })
    expect(JSON.stringify(body)).not.toContain('internal words')
    expect(sent[0]!.url).toBe(`${url}/v1/logs`)
    expect(sent[0]!.headers.get('authorization')).toBe(SECRET)
    const syslog = await createDrain({ name: 'Syslog', kind: 'syslog', url: 'tls://logs.example.com:6514' })
    expect(await codeOf(tenant.post(`${syslog.path}/test`))).toEqual([422, 'drain_not_testable'])
  })
})

describe('an agent', () => {
  async function makeAgent() {
    const { listener, key } = await newListener(tenant)
    const { public_key, open } = makeEnvelopeOpener()
    const agent = makeSyncAgent(tenant, key)
    await agent.poll()
    const deployment = await newDeployment(tenant, makeListenerDeployment(listener))
    const poll = async (drains: string | undefined) => (await agent.poll({ public_key, drains })).drains
    return { agent, deployment, listener, poll, open }
  }

  it('gets the drains of its workspace when they have changed, with headers that it alone can open', async () => {
    const { deployment, listener, poll, open } = await makeAgent()
    const other = await newTenant({ app })
    await other.post('/v2/drains', makeBody())
    expect(await poll(undefined)).toBeUndefined()
    expect((await poll('unknown'))!.list).toEqual([])
    const drain = await createDrain({ signals: ['logs', 'metrics'], deployment_ids: [deployment.id] })
    await createDrain({ name: 'Events', signals: ['events'] })
    await createDrain({ name: 'Off', enabled: false })
    const offered = (await poll('unknown'))!
    const scope = { signals: ['logs', 'metrics'], deployment_ids: [deployment.id] }
    expect(offered.list).toMatchObject([{ id: drain.id, ...scope }])
    expect(open(offered.list[0]!.access!, `${listener.id}/drains/${drain.id}`)).toEqual({ Authorization: SECRET })
    expect(await poll(offered.digest)).toBeUndefined()
    await tenant.patch(drain.path, { sampling_rate: 0.5 })
    expect((await poll(offered.digest))!.list).toMatchObject([{ sampling_rate: 0.5 }])
    await tenant.delete(drain.path)
    expect((await poll(offered.digest))!.list).toEqual([])
  })

  it('tells counts, which a repeated report and a new epoch add up rightly', async () => {
    const { agent, poll } = await makeAgent()
    const drain = await createDrain()
    const foreign = (await (await newTenant({ app })).post('/v2/drains', makeBody())).body
    await poll('unknown')
    const report = (over: object, id = drain.id) =>
      agent.post('/v1/sync/drains', {
        agent_id: agent.agent_id,
        fence: agent.fence,
        drains: [{ id, sent: 0, dropped: 0, waiting: 0, waiting_bytes: 0, ...over }],
      })
    const epoch = crypto.randomUUID()
    const failing = { failing_since: new Date().toISOString(), error: 'The receiver answered 503.' }
    await report({ epoch, sent: 10, dropped: 1 })
    await report({ epoch, sent: 10, dropped: 1 })
    await report({ epoch, sent: 15, dropped: 1, waiting: 7, ...failing })
    await report({ epoch: crypto.randomUUID(), sent: 5, dropped: 2, waiting: 7, ...failing })
    expect((await report({ epoch, sent: 9 }, foreign.id)).status).toBe(204)
    const { state } = (await tenant.get(drain.path)).body
    expect(state).toMatchObject({ status: 'failing', sent: 20, dropped: 3, waiting: 7, error: failing.error })
    expect(state.senders).toHaveLength(1)
    const limit = Number.MAX_SAFE_INTEGER
    for (let i = 0; i < 3; i++) await report({ epoch: crypto.randomUUID(), sent: limit })
    expect((await tenant.get(drain.path)).body.state.sent).toBe(limit)
  })
})

describe('the control plane', () => {
  it('sends events in order, again after a failure, and passes over those that are refused', async () => {
    const drain = await createDrain({ kind: 'ndjson', url: `${url}/x`, signals: ['events'] })
    await tenant.post('/v2/tag-keys', { key: unusedId() })
    answer = () => new Response(null, { status: 503, headers: { 'Retry-After': '60' } })
    await sweep()
    await sweep()
    expect(sent).toHaveLength(1)
    expect((await tenant.get(drain.path)).body.state).toMatchObject({ status: 'failing', sent: 0 })
    answer = () => new Response()
    await sweep(120_000)
    const messages = sent[1]!.lines.map(line => JSON.parse(line).message)
    expect(messages).toEqual(['drain.created', 'tag_key.created'])
    expect((await tenant.get(drain.path)).body.state).toMatchObject({ status: 'ok', sent: 2, failing_since: null })
    answer = () => new Response(null, { status: 400 })
    await tenant.post('/v2/tag-keys', { key: unusedId() })
    await sweep(120_000)
    await sweep(120_000)
    expect(sent).toHaveLength(3)
    expect((await tenant.get(drain.path)).body.state).toMatchObject({ sent: 2, dropped: 1 })
  })

  it('sends finished runs as spans of OTLP with their ids', async () => {
    const drain = await createDrain({ signals: ['traces'] })
    const { root } = newTrace()
    await appendRuns(tenant, [{ ...root, end_time: new Date().toISOString() }])
    await sweep()
    expect(sent.map(({ url }) => url)).toEqual([`${url}/v1/traces`])
    const [{ scopeSpans }] = sent[0]!.body.resourceSpans
    const hex = root.id.replaceAll('-', '')
    expect(scopeSpans[0].spans).toMatchObject([{ traceId: hex, spanId: hex.slice(-16), name: root.name }])
    expect(scopeSpans[0].spans[0].startTimeUnixNano).toMatch(/^\d{19}$/)
    await sweep()
    expect(sent).toHaveLength(1)
    expect((await tenant.get(drain.path)).body.state).toMatchObject({ status: 'ok', sent: 1 })

    answer = () => Response.json({ partialSuccess: { rejectedSpans: '1' } })
    const { root: refused } = newTrace()
    await appendRuns(tenant, [{ ...refused, end_time: new Date().toISOString() }])
    await sweep(120_000)
    await sweep(240_000)
    expect(sent).toHaveLength(2)
    expect((await tenant.get(drain.path)).body.state).toMatchObject({ sent: 1, dropped: 1 })
  })
})
