// Senders of runs are told to come again when they send too much, or when something behind the app is away.
import { afterEach, describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { EDITOR } from '../../src/people/access/built-in-roles.ts'
import { clock, newTenant, send, startApp, type Tenant, unusedId } from '../support/app.ts'
import { part, sendParts } from '../support/parts.ts'
import { asSession, newSession } from '../support/sessions.ts'
import { readRows } from '../support/traces.ts'

afterEach(() => {
  clock.ahead = 0
})

const newRun = (members: object = {}) => {
  const id = unusedId()
  return { id, name: 'run', run_type: 'chain', start_time: new Date().toISOString(), ...members }
}
const RESOURCE_SPANS = JSON.stringify({ resourceSpans: [] })
const exportSpans = (by: { key: string }, app?: ReturnType<typeof startApp>) =>
  send('POST', '/otel/v1/traces', {
    raw: RESOURCE_SPANS,
    headers: { 'X-Api-Key': by.key, 'Content-Type': 'application/json' },
    ...(app && { app }),
  })
const limitsOf = ({ headers }: { headers: Headers }) => [headers.get('RateLimit-Policy'), headers.get('RateLimit')]

describe('the rate limit of ingestion', () => {
  const startLimitedApp = (key: number, ingestion: number) =>
    startApp({
      settings: { RATE_LIMIT_PER_MINUTE: String(key), INGESTION_RATE_LIMIT_PER_MINUTE: String(ingestion) },
    })

  it('counts requests that send runs and spans, apart from all others', async () => {
    const app = startLimitedApp(2, 3)
    const tenant = await newTenant({ app })
    const send: ((left: number) => Promise<{ status: number; headers: Headers }>)[] = [
      () => tenant.post('/runs', newRun()),
      () => tenant.post('/runs/batch', { post: [newRun()] }),
      () => exportSpans(tenant, app),
    ]
    for (const [i, request] of send.entries()) {
      const reply = await request(i)
      expect([200, 202]).toContain(reply.status)
      expect(limitsOf(reply)).toEqual(['"ingestion";q=3;w=60', `"ingestion";r=${2 - i};t=60`])
    }
    const refused = await tenant.post('/runs', newRun())
    expect([refused.status, refused.body.code]).toEqual([429, 'rate_limited'])
    expect(Number(refused.headers.get('Retry-After'))).toBeGreaterThan(50)
    expect(limitsOf(refused)).toEqual([
      '"ingestion";q=3;w=60',
      `"ingestion";r=0;t=${refused.headers.get('Retry-After')}`,
    ])
    // The instance remembers it, and the other budget is as it was.
    expect((await tenant.patch(`/runs/${unusedId()}`, {})).status).toBe(429)
    expect(limitsOf(await tenant.get('/workspaces'))).toEqual(['"key";q=2;w=60', '"key";r=1;t=60'])
    expect(await readRows(tenant)).toHaveLength(2)
    clock.ahead = 61_000
    expect((await tenant.post('/runs', newRun())).status).toBe(202)
  })

  it('is used by bodies that are refused, counted after their answer', async () => {
    const tenant = await newTenant({ app: startLimitedApp(10, 3) })
    await tenant.post('/runs', newRun())
    for (let i = 0; i < 2; i++) expect((await tenant.post('/runs', {})).status).toBe(422)
    await finishPendingWork()
    expect((await tenant.post('/runs', newRun())).status).toBe(429)
    expect(limitsOf(await tenant.get('/workspaces'))[1]).toBe('"key";r=9;t=60')
  })

  it('does not apply to sessions, which have one budget', async () => {
    const app = startLimitedApp(2, 1)
    const tenant = await newTenant({ app })
    const { token } = await newSession(tenant, { workspaceRole: EDITOR })
    const session = asSession(token, app)
    const inside = { 'X-Tenant-Id': tenant.tenant_id }
    const statuses = []
    for (let i = 0; i < 3; i++) statuses.push((await session.post('/runs', newRun(), inside)).status)
    expect(statuses).toEqual([202, 202, 429])
  })

  it('admits exactly its number of parallel requests', async () => {
    const tenant = await newTenant({ app: startLimitedApp(1, 10) })
    const replies = await Promise.all(Array.from({ length: 40 }, () => tenant.post('/runs', newRun())))
    expect(replies.filter(({ status }) => status === 202)).toHaveLength(10)
    expect(replies.filter(({ status }) => status === 429)).toHaveLength(30)
    expect(await readRows(tenant)).toHaveLength(10)
  })
})

describe('503 with Retry-After, and nothing stored, is the answer', () => {
  const run = newRun({ inputs: { text: 'long'.repeat(20_000) } })
  const { inputs, ...rest } = run as typeof run & { inputs: object }
  const id = run.id
  const order = { trace_id: id, dotted_order: `20261124T090000000000Z${id}` }
  const requests: [string, (by: Pick<Tenant, 'key'>, app: ReturnType<typeof startApp>) => ReturnType<typeof send>][] = [
    ['POST /runs', ({ key }, app) => send('POST', '/runs', { body: run, headers: { 'X-Api-Key': key }, app })],
    [
      'POST /runs/batch',
      ({ key }, app) => send('POST', '/runs/batch', { body: { post: [run] }, headers: { 'X-Api-Key': key }, app }),
    ],
    [
      'POST /runs/multipart',
      ({ key }, app) =>
        sendParts({ key }, [part(`post.${id}`, { ...rest, ...order }), part(`post.${id}.inputs`, inputs)], {}, app),
    ],
  ]

  it.each(requests)('while the object store is away: %s', async (_, request) => {
    const tenant = await newTenant()
    const away = () => Promise.reject(new Error('away'))
    const app = startApp({ overrides: { storage: { put: away, get: away, remove: away } } })
    const { status, body, headers } = await request(tenant, app)
    expect([status, body.code, headers.get('Retry-After')]).toEqual([503, 'trace_storage_unavailable', '5'])
    expect(await readRows(tenant)).toEqual([])
  })

  it.each([...requests, ['POST /otel/v1/traces', exportSpans] as (typeof requests)[number]])(
    'while the database is away: %s',
    async (_, request) => {
      const { key } = await newTenant()
      const app = startApp({ settings: { DATABASE_URL: 'postgres://nobody:x@127.0.0.1:1/none' } })
      const { status, body, headers } = await request({ key }, app)
      expect([status, body.code, headers.get('Retry-After')]).toEqual([503, 'database_unavailable', '1'])
    },
  )
})
