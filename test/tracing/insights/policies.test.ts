// Access policies on insights: those of a project decide about its jobs, configs and runs.
import { beforeAll, expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { deny, hasTag, newLimitedCaller, tagValue } from '../../support/access-policies.ts'
import { newTenant, type Tenant, unusedId } from '../../support/app.ts'
import { appendQuestions, TOPICS } from '../../support/insights.ts'

const PERMISSIONS = ['projects:read', 'runs:read', 'rules:create', 'events:read']
const SECRET = hasTag('Secret', 'yes')
type Place = { path: string; job: string; config: string; cluster: string }

let tenant: Tenant
let open: Place
let secret: Place

async function newPlace(tags: string[]): Promise<Place> {
  const name = unusedId()
  const tag_value_ids = await Promise.all(tags.map(tag => tagValue(tenant, tag)))
  const { id } = (await tenant.post('/sessions', { name, tag_value_ids })).body
  await appendQuestions(tenant, TOPICS.flat(), { session_name: name })
  const path = `/sessions/${id}/insights`
  const job = (await tenant.post(path, { model: 'none' })).body.id
  const config = (await tenant.post(`${path}/configs`, { name: 'Config', config: { model: 'none' } })).body.id
  await finishPendingWork()
  const [cluster] = (await tenant.get(`${path}/${job}`)).body.clusters
  return { path, job, config, cluster: cluster.id }
}

beforeAll(async () => {
  tenant = await newTenant()
  ;[open, secret] = [await newPlace([]), await newPlace(['Secret=yes'])]
})

type Caller = Awaited<ReturnType<typeof newLimitedCaller>>
const REQUESTS: [string, (by: Caller, place: Place) => ReturnType<Caller['post']>][] = [
  ['the list of jobs', (by, { path }) => by.get(path)],
  ['a job', (by, { path, job }) => by.get(`${path}/${job}`)],
  ['a cluster', (by, { path, job, cluster }) => by.get(`${path}/${job}/clusters/${cluster}`)],
  ['the runs', (by, { path, job }) => by.get(`${path}/${job}/runs`)],
  ['the configs', (by, { path }) => by.get(`${path}/configs`)],
  ['a new job', (by, { path }) => by.post(path, { model: 'none' })],
  ['a new config', (by, { path }) => by.post(`${path}/configs`, { name: 'x', config: { model: 'none' } })],
  ['a new name', (by, { path, job }) => by.patch(`${path}/${job}`, { name: 'x' })],
  ['a changed config', (by, { path, config }) => by.patch(`${path}/configs/${config}`, { name: 'x' })],
]

it.each(REQUESTS)(
  'a caller who may not read the project or its runs gets neither %s nor a hint',
  async (_, request) => {
    const policies = ['projects:read', 'runs:read'].map(permission => deny(permission, SECRET))
    const caller = await newLimitedCaller(tenant, PERMISSIONS, policies)
    expect((await request(caller, open)).status).toBe(200)
    const refused = await request(caller, secret)
    expect([403, 404]).toContain(refused.status)
    expect(refused.text).not.toContain('invoice')
  },
)

it('a caller who may read the project but not its runs gets no runs, and starts no job that reads them', async () => {
  const caller = await newLimitedCaller(tenant, PERMISSIONS, [deny('runs:read', SECRET)])
  for (const path of ['', '/runs', `/clusters/${secret.cluster}`])
    expect((await caller.get(`${secret.path}/${secret.job}${path}`)).status).toBe(404)
  expect((await caller.get(`${open.path}/${open.job}`)).status).toBe(200)
  expect([403, 404]).toContain((await caller.post(secret.path, { model: 'none' })).status)
  const events = (await caller.get('/v2/events?limit=100')).text
  expect(events).toContain(open.job)
})

it('events of insights are hidden with their project', async () => {
  const caller = await newLimitedCaller(tenant, PERMISSIONS, [deny('projects:read', SECRET)])
  const { text } = await caller.get('/v2/events?limit=100')
  expect(text).toContain(open.job)
  for (const id of [secret.job, secret.config]) expect(text).not.toContain(id)
})
