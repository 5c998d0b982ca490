// Access policies on runs, over HTTP: a request that would write into a refused project is refused as a whole.

import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { allow, deny, hasTag, newLimitedCaller, tagValue } from '../support/access-policies.ts'
import { newTenant, type Reply, send, startApp, type Tenant, unusedId } from '../support/app.ts'
import { part, sendParts } from '../support/parts.ts'
import { storeRuns } from '../support/runs.ts'
import { readRows, select } from '../support/traces.ts'

type Caller = Awaited<ReturnType<typeof newLimitedCaller>>
type Place = { id: string; run: string }
const SECRET = hasTag('Secret', 'yes')
const PUBLIC = hasTag('Public', 'yes')

let tenant: Tenant
let open: Place
let secret: Place
/** The role permits it and a policy denies it for some projects; or a policy alone allows it for others. */
const callers: Record<string, Caller> = {}
beforeAll(async () => {
  tenant = await newTenant()
  const project = async (name: string, tag: string) => {
    const { id } = (await tenant.post('/sessions', { name, tag_value_ids: [await tagValue(tenant, tag)] })).body
    const [run] = await storeRuns(tenant, [{ session_name: name, name: `run of ${name}` }])
    return { id, run: run! }
  }
  ;[open, secret] = [await project('open', 'Public=yes'), await project('secret', 'Secret=yes')]
  callers.denied = await newLimitedCaller(tenant, ['runs:create'], [deny('runs:create', SECRET)])
  callers.allowed = await newLimitedCaller(tenant, [], [allow('runs:create', PUBLIC)])
})

const newRun = (members: object) => {
  const id = unusedId()
  const order = { trace_id: id, dotted_order: `20261124T090000000000Z${id}`, start_time: '2026-11-24T09:00:00Z' }
  return { id, ...order, name: 'run', run_type: 'chain', ...members }
}
const spanOf = (project: string) => ({
  traceId: unusedId().replaceAll('-', ''),
  spanId: 'b7ad6b7169203331',
  name: 'span',
  startTimeUnixNano: `${Date.now()}000000`,
  attributes: [{ key: 'langsmith.trace.session_name', value: { stringValue: project } }],
})
const exportSpans = (by: Caller, ...spans: object[]) =>
  send('POST', '/otel/v1/traces', {
    raw: JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans }] }] }),
    headers: { 'X-Api-Key': by.key, 'Content-Type': 'application/json' },
  })
const sendRuns = (by: Caller, ...runs: { id: string }[]) =>
  sendParts(
    by,
    runs.map(run => part(`post.${run.id}`, run)),
  )

type Send = (by: Caller, place: Place, name: string) => Promise<Reply>
/** Each sends something into the project `open` too, where the request can hold more than one run. */
const REQUESTS: [string, Send][] = [
  ['POST /runs by name', (by, _, session_name) => by.post('/runs', newRun({ session_name }))],
  ['POST /runs by id', (by, { id }) => by.post('/runs', newRun({ session_id: id }))],
  ['PATCH /runs/{run_id}', (by, { run }) => by.patch(`/runs/${run}`, { outputs: { changed: true } })],
  [
    'POST /runs/batch by name',
    (by, _, session_name) =>
      by.post('/runs/batch', { post: [newRun({ session_name: 'open' }), newRun({ session_name })] }),
  ],
  [
    'POST /runs/batch with a patch by id',
    (by, { run }) =>
      by.post('/runs/batch', { post: [newRun({ session_name: 'open' })], patch: [{ id: run, error: 'changed' }] }),
  ],
  [
    'POST /runs/multipart',
    (by, _, session_name) => sendRuns(by, newRun({ session_name: 'open' }), newRun({ session_name })),
  ],
  [
    'POST /runs/multipart with a patch by id',
    (by, { run }) => sendParts(by, [part(`patch.${run}`, {}), part(`patch.${run}.outputs`, { changed: true })]),
  ],
  ['POST /otel/v1/traces', (by, _, name) => exportSpans(by, spanOf('open'), spanOf(name))],
]

describe.each(['denied', 'allowed'])('a caller that is %s by a policy', kind => {
  it.each(REQUESTS)('is refused a project by its tags: %s', async (_, request) => {
    const by = callers[kind]!
    const before = await readRows(tenant)
    const reply = await request(by, secret, 'secret')
    expect([reply.status, reply.body.code]).toEqual([403, 'denied_by_policy'])
    expect(reply.body.detail).toContain('secret')
    expect(await readRows(tenant)).toEqual(before)
    expect([200, 202]).toContain((await request(by, open, 'open')).status)
  })
})

it('a project that ingestion would create has no tags, and is created only where the policies admit that', async () => {
  const [free, bound] = [callers.denied!, callers.allowed!]
  expect((await free.post('/runs', newRun({ session_name: 'fresh' }))).status).toBe(202)
  const refused = await bound.post('/runs', newRun({ session_name: 'unborn' }))
  expect([refused.status, refused.body.code]).toEqual([403, 'denied_by_policy'])
  expect(refused.body.detail).toContain('unborn')
  const names = await select(sql`select name from projects where tenant_id = ${tenant.tenant_id} order by name`)
  expect(names.map(({ name }) => name)).toEqual(['fresh', 'open', 'secret'])
})

it('spans neither stand below those of a refused project nor move them', async () => {
  const own = await newTenant()
  for (const [name, tag] of [
    ['open', 'Public=yes'],
    ['secret', 'Secret=yes'],
  ] as const)
    await own.post('/sessions', { name, tag_value_ids: [await tagValue(own, tag)] })
  const by = await newLimitedCaller(own, [], [allow('runs:create', PUBLIC)])
  const traceId = unusedId().replaceAll('-', '')
  const span = (name: string, spanId: string, parentSpanId?: string) => ({
    ...spanOf(name),
    traceId,
    spanId,
    ...(parentSpanId && { parentSpanId }),
  })
  const [root, child, leaf] = ['1111111111111111', '2222222222222222', '3333333333333333']
  const orders = async () =>
    Object.fromEntries((await readRows(own)).map(({ project, dotted_order }) => [project, dotted_order]))
  await exportSpans({ ...by, key: own.key }, span('secret', child!, root))
  const { secret: before } = await orders()
  expect((await exportSpans(by, span('open', root!), span('open', leaf!, child))).status).toBe(200)
  const rows = await readRows(own)
  expect(rows.find(({ project }) => project === 'secret')).toMatchObject({ dotted_order: before })
  const below = rows.filter(({ project }) => project === 'open').map(row => String(row.dotted_order).split('.').length)
  expect(below.sort()).toEqual([1, 2])
})

describe('a caller whom only a policy lets in', () => {
  it('queries runs of the projects that it admits', async () => {
    const by = await newLimitedCaller(tenant, [], [allow('runs:read', PUBLIC)])
    const query = (projects: string[]) => by.post('/runs/query', { session: projects })
    const { status, body } = await query([open.id])
    expect(status).toBe(200)
    expect(body.runs.map(({ id }: { id: string }) => id)).toContain(open.run)
    expect((await query([secret.id])).body.code).toBe('project_not_found')
    expect((await by.post('/runs/query', { id: [secret.run, open.run] })).body.runs).toMatchObject([{ id: open.run }])
  })

  it('reads statistics and threads of the projects that it admits', async () => {
    const by = await newLimitedCaller(tenant, [], [allow('runs:read', PUBLIC)])
    const reads = (id: string) => [
      by.post('/runs/stats', { session: [id], select: ['run_count'] }),
      by.post('/runs/group', { session_id: id, group_by: 'conversation' }),
      by.post('/v2/runs/query', { project_ids: [id] }),
      by.post('/v2/threads/query', { project_id: id }),
      by.post('/v2/traces/query', { project_id: id }),
    ]
    for (const reply of await Promise.all(reads(open.id))) expect(reply.status, reply.text).toBe(200)
    for (const reply of await Promise.all(reads(secret.id))) expect(reply.body.code).toBe('project_not_found')
    const counted = async (id: string[]) => (await by.post('/runs/stats', { id, select: ['run_count'] })).body
    expect(await counted([secret.run, open.run])).toEqual({ run_count: 1 })
  })

  it('deletes traces of the projects that it admits', async () => {
    const by = await newLimitedCaller(tenant, [], [allow('runs:delete', PUBLIC), allow('runs:read', PUBLIC)])
    const [doomed] = await storeRuns(tenant, [{ session_name: 'open' }])
    const remove = (session_id: string, run: string) => by.post('/runs/delete/traces', { session_id, trace_ids: [run] })
    expect((await remove(secret.id, secret.run)).status).toBeLessThan(500)
    expect((await remove(open.id, doomed!)).status).toBeLessThan(300)
    const left = (await readRows(tenant)).map(({ id }) => id)
    expect([left.includes(secret.run), left.includes(doomed)]).toEqual([true, false])
  })

  it('deletes the datasets that it admits, and none of a list with another one', async () => {
    const create = async (name: string, tag: string) =>
      (await tenant.post('/datasets', { name, tag_value_ids: [await tagValue(tenant, tag)] })).body.id as string
    const [ours, theirs] = [await create('ours', 'Public=yes'), await create('theirs', 'Secret=yes')]
    const by = await newLimitedCaller(tenant, [], [allow('datasets:delete', PUBLIC), allow('datasets:read', PUBLIC)])
    expect((await by.delete(`/datasets?dataset_ids=${ours}&dataset_ids=${theirs}`)).status).toBe(404)
    expect((await by.delete(`/datasets?dataset_ids=${ours}`)).body).toEqual({ ids: [ours] })
    expect((await tenant.get(`/datasets/${theirs}`)).status).toBe(200)
  })
})

it('with ABAC=off roles alone decide', async () => {
  const app = startApp({ settings: { ABAC: 'off' } })
  const create = ({ key }: Caller, session_name: string) =>
    send('POST', '/runs', { body: newRun({ session_name }), headers: { 'X-Api-Key': key }, app })
  expect((await create(callers.denied!, 'secret')).status).toBe(202)
  expect((await create(callers.allowed!, 'open')).body.code).toBe('permission_missing')
})
