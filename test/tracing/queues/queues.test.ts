// Annotation queues: what a client can say of them, find them by, and what becomes of their runs.
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { sweepQueues } from '../../../src/tracing/queues/sweep.ts'
import { deny, hasTag, newLimitedCaller, tagValue } from '../../support/access-policies.ts'
import { getApp, getServices, send, unusedId, withClockAhead } from '../../support/app.ts'
import { appendRuns, newTrace, projectId } from '../../support/new-traces.ts'
import { newQueueTenant, outcomeOf, PLATFORM } from '../../support/queues.ts'
import { readRows } from '../../support/traces.ts'

const DAY = 24 * 3600_000

let given: Awaited<ReturnType<typeof newQueueTenant>>
beforeAll(async () => {
  given = await newQueueTenant()
})

describe('an annotation queue', () => {
  it('is created with the members of a client, and read by id, in a list, and with an ETag', async () => {
    const { tenant, createQueue } = given
    const dataset = (await tenant.post('/datasets', { name: unusedId() })).body
    const rubric_items = [{ feedback_key: 'correct', score_descriptions: { '1': 'Yes' }, required_if: { join: 'all' } }]
    const sent = {
      id: unusedId(),
      name: unusedId(),
      description: 'Answers',
      default_dataset: dataset.id,
      rubric_items,
      rubric_instructions: 'Read first.',
      metadata: { team: 'core' },
      num_reviewers_per_item: 2,
    }
    const created = await createQueue(sent)
    expect(created).toMatchObject({
      ...sent,
      tenant_id: tenant.tenant_id,
      queue_type: 'single',
      total_runs: 0,
      assigned_reviewers: [],
      enable_reservations: true,
      reservation_minutes: 1,
      reviewer_access_mode: 'any',
    })
    const { body, headers } = await tenant.get(`/annotation-queues/${created.id}`)
    expect(body).toEqual(created)
    expect((await tenant.get(`/annotation-queues?name=${sent.name}`)).body).toEqual([created])
    const ifMatch = { 'If-Match': headers.get('ETag')! }
    const path = `/annotation-queues/${created.id}`
    expect((await tenant.patch(path, { num_reviewers_per_item: null }, ifMatch)).body).toMatchObject({
      num_reviewers_per_item: null,
      rubric_items,
      description: 'Answers',
    })
    expect((await tenant.patch(path, { description: null }, ifMatch)).status).toBe(412)
  })

  it.each([
    [{ default_dataset: unusedId() }, 404, 'dataset_not_found'],
    [{ session_ids: [unusedId()] }, 404, 'project_not_found'],
    [{ tag_value_ids: [unusedId()] }, 404, 'tag_value_not_found'],
    [{ num_reviewers_per_item: 0 }, 422, 'invalid_request'],
    [{ rubric_items: [{}] }, 422, 'invalid_request'],
  ])('is refused with %j', async (body, status, code) => {
    const name = unusedId()
    expect(outcomeOf(await given.tenant.post('/annotation-queues', { name, ...body }))).toEqual([status, code])
    expect((await given.tenant.get(`/annotation-queues?name=${name}`)).body).toEqual([])
  })

  it('has an id that is used once', async () => {
    const { id } = await given.createQueue()
    const again = await given.tenant.post('/annotation-queues', { id, name: 'Again' })
    expect(outcomeOf(again)).toEqual([409, 'annotation_queue_exists'])
  })

  it('is deleted alone or with others, and then all of them or none', async () => {
    const { tenant, createQueue } = given
    const [one, two, three] = [await createQueue(), await createQueue(), await createQueue()]
    expect((await tenant.delete(`/annotation-queues/${one.id}`)).body).toEqual({ id: one.id })
    const ids = (list: string[]) => list.map(id => `queue_ids=${id}`).join('&')
    expect((await tenant.delete(`/annotation-queues?${ids([two.id, one.id])}`)).status).toBe(404)
    expect((await tenant.delete(`/annotation-queues?${ids([two.id, three.id])}`)).body.ids).toHaveLength(2)
  })

  it('is tagged like other resources, and hidden by policies on its tags', async () => {
    const { tenant, createQueue, newRuns } = await newQueueTenant()
    const [secret, open] = [await createQueue(), await createQueue()]
    const runs = await newRuns(1)
    for (const { id } of [secret, open]) await tenant.post(`/annotation-queues/${id}/runs`, runs)
    const tag_value_id = await tagValue(tenant, 'Secret=yes')
    const tagging = { tag_value_id, resource_type: 'queue', resource_id: secret.id }
    const tagged = await tenant.post('/workspaces/current/taggings', tagging)
    expect(tagged.body).toMatchObject(tagging)
    expect((await tenant.get(`/annotation-queues?tag_value_id=${tag_value_id}`)).body).toMatchObject([
      { id: secret.id },
    ])

    const permissions = ['annotation-queues:read', 'annotation-queues:update', 'annotation-queues:delete']
    const policies = [deny('annotation-queues:read', hasTag('Secret', 'yes'))]
    const { key } = await newLimitedCaller(tenant, permissions, policies)
    const as = (method: string, path: string, body?: unknown) =>
      send(method, path, { body, headers: { 'X-Api-Key': key } })
    expect((await as('GET', '/annotation-queues')).body.map(({ id }: { id: string }) => id)).toEqual([open.id])
    expect((await as('GET', `/annotation-queues/${runs[0]}/queues`)).body).toMatchObject([{ id: open.id }])
    expect((await as('GET', `/annotation-queues/${secret.id}/runs`)).status).toBe(404)
    expect((await as('GET', `/annotation-queues/${open.id}/run/0`)).body).toMatchObject({ id: runs[0] })
    const noChange = [deny('annotation-queues:update', hasTag('Secret', 'yes'))]
    const reader = await newLimitedCaller(tenant, permissions, noChange)
    const change = await send('POST', `/annotation-queues/${secret.id}/runs`, {
      body: runs,
      headers: { 'X-Api-Key': reader.key },
    })
    expect(outcomeOf(change)).toEqual([403, 'denied_by_policy'])
    await tenant.delete(`/workspaces/current/taggings/${tagged.body.id}`)
    expect((await as('GET', `/annotation-queues/${secret.id}`)).status).toBe(200)
  })

  it('hides runs of projects that a policy hides', async () => {
    const { tenant, createQueue, newRuns } = await newQueueTenant()
    const queue = await createQueue()
    await tenant.post(`/annotation-queues/${queue.id}/runs`, await newRuns(1))
    const project = await projectId(tenant, 'traced')
    const tag_value_id = await tagValue(tenant, 'Secret=yes')
    const tagging = { tag_value_id, resource_type: 'project', resource_id: project }
    await tenant.post('/workspaces/current/taggings', tagging)
    const { key } = await newLimitedCaller(
      tenant,
      ['annotation-queues:read'],
      [deny('runs:read', hasTag('Secret', 'yes'))],
    )
    const headers = { 'X-Api-Key': key }
    expect((await send('GET', `/annotation-queues/${queue.id}/runs`, { headers })).body).toEqual([])
    expect((await send('GET', `/annotation-queues/${queue.id}/size`, { headers })).body).toEqual({ size: 0 })
  })
})

describe('the runs of a queue', () => {
  it('are added once, in their order, all of them or none', async () => {
    const { tenant, createQueue, newRuns } = given
    const { id } = await createQueue()
    const runs = await newRuns(3)
    const path = `/annotation-queues/${id}/runs`
    const added = (await tenant.post(path, runs)).body
    expect(added.map((one: { run_id: string }) => one.run_id)).toEqual(runs)
    expect((await tenant.post(path, [{ run_id: runs[1] }, runs[1]])).body).toEqual([added[1]])
    expect(outcomeOf(await tenant.post(path, [...(await newRuns(1)), unusedId()]))).toEqual([404, 'run_not_found'])
    expect(outcomeOf(await tenant.post(`/annotation-queues/${unusedId()}/runs`, runs))).toEqual([
      404,
      'queue_not_found',
    ])
    const [listed, next] = [(await tenant.get(path)).body, (await tenant.get(`${path}?limit=1&offset=1`)).body]
    expect(listed).toMatchObject(runs.map((run, i) => ({ id: run, queue_run_id: added[i].id, reserved_by: [] })))
    expect(next).toEqual([listed[1]])
    expect((await tenant.get(`/annotation-queues/${id}/run/2`)).text).toContain('12345678901234567890')
    expect(outcomeOf(await tenant.get(`/annotation-queues/${id}/run/3`))).toEqual([404, 'queue_item_not_found'])
    expect((await tenant.get(`/annotation-queues/${runs[0]}/queues`)).body).toMatchObject([{ id, total_runs: 3 }])
  })

  it('are the roots of experiments, when the queue is created or later', async () => {
    const { tenant, createQueue } = await newQueueTenant()
    const { runs, root } = newTrace(['child'])
    await appendRuns(tenant, runs)
    const session_ids = [await projectId(tenant, 'traced')]
    const { id } = await createQueue({ session_ids })
    expect((await tenant.get(`/annotation-queues/${id}/runs`)).body).toMatchObject([{ id: root.id }])
    const later = await createQueue()
    const populate = () => tenant.post('/annotation-queues/populate', { queue_id: later.id, session_ids })
    expect([(await populate()).body, (await populate()).body]).toEqual([{ size: 1 }, { size: 1 }])
    expect((await tenant.get(`/annotation-queues/${later.id}/total_size`)).body).toEqual({ size: 1 })
  })

  it('are taken out one by one or together, and leave with their trace', async () => {
    const { tenant, createQueue, newRuns } = given
    const { id } = await createQueue()
    const runs = await newRuns(5)
    const path = `/annotation-queues/${id}/runs`
    const added = (await tenant.post(path, runs)).body as { id: string }[]
    const size = async () => (await tenant.get(`/annotation-queues/${id}/total_size`)).body.size
    await tenant.delete(`${path}/${added[0]!.id}`)
    expect((await tenant.post(`${path}/delete`, { run_ids: [runs[1], added[2]!.id] })).body.ids).toHaveLength(2)
    expect(await size()).toBe(2)
    await tenant.post('/runs/delete', { trace_ids: [runs[3]], session_id: await projectId(tenant, 'traced') })
    expect(await size()).toBe(1)
    await tenant.post(`${path}/delete`, { delete_all: true, exclude_run_ids: [runs[4]] })
    expect(await size()).toBe(1)
    await tenant.post(`${path}/delete`, { delete_all: true })
    expect(await size()).toBe(0)
  })

  it('keep their traces for longer, unless the client says otherwise', async () => {
    const { tenant, createQueue, newRuns } = await newQueueTenant()
    const { id } = await createQueue()
    const [kept, item, left] = await newRuns(3)
    await tenant.post(`/annotation-queues/${id}/runs`, [kept])
    await tenant.post(`/annotation-queues/${id}/runs?extend_trace_retention=false`, [left])
    await tenant.post(`${PLATFORM}/${id}/items`, { items: [{ run_id: item }] })
    const tiers = async () => {
      await sweepQueues(getServices())
      const rows = await readRows<{ id: string; trace_tier: string }>(tenant)
      return rows.filter(({ trace_tier }) => trace_tier === 'longlived').map(one => one.id)
    }
    expect(await tiers()).toEqual([kept])
    await tenant.post(`${PLATFORM}/${id}/items?extend_trace_retention=true`, { items: [{ run_id: left }] })
    expect((await tiers()).toSorted()).toEqual([kept, left].toSorted())
  })

  it('leave the queue once their traces have expired', async () => {
    const { tenant, createQueue, newRuns } = await newQueueTenant()
    const { id } = await createQueue()
    const [expired] = await newRuns(2)
    await tenant.post(
      `/annotation-queues/${id}/runs`,
      (await readRows<{ id: string }>(tenant)).map(one => one.id),
    )
    await runAsSystem(getApp().database, sql`delete from runs where id = ${expired}::uuid`)
    const size = async () => {
      await sweepQueues(getServices())
      return (await tenant.get(`/annotation-queues/${id}/total_size`)).body.size
    }
    expect(await size()).toBe(2)
    await withClockAhead(15 * DAY, async () => expect(await size()).toBe(1))
  })
})
