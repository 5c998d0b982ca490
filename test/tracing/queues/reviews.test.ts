// Reviews of queued runs and threads: what each reviewer still has to do, reservations, and pages of items.
import { describe, expect, it } from 'vitest'
import { unusedId, withClockAhead } from '../../support/app.ts'
import { projectId } from '../../support/new-traces.ts'
import { newQueueTenant, newReviewer, outcomeOf, PLATFORM } from '../../support/queues.ts'

const MINUTE = 60_000
type Item = { id: string; run_id: string }

async function newQueue(body: Record<string, unknown>, count: number) {
  const { tenant, createQueue, newRuns } = await newQueueTenant()
  const { id } = await createQueue(body)
  const runs = await newRuns(count)
  const items: Item[] = (await tenant.post(`/annotation-queues/${id}/runs`, runs)).body
  type Caller = { get(path: string): Promise<{ body: { size: number } & { id: string }[] }> }
  const sizes = async (caller: Caller) => {
    const of = async (status: string) => (await caller.get(`/annotation-queues/${id}/size?status=${status}`)).body.size
    return [await of('needs_my_review'), await of('needs_others_review'), await of('completed')]
  }
  return { tenant, id, runs, items, sizes }
}
const review = ({ id }: Item) => `/annotation-queues/status/${id}`

describe('an item', () => {
  it('is completed by as many reviewers as the queue asks for, each once', async () => {
    const { tenant, id, runs, items, sizes } = await newQueue({ num_reviewers_per_item: 2 }, 2)
    const other = await newReviewer(tenant)
    const first = await tenant.post(review(items[0]!), { status: 'completed' })
    expect(first.body).toMatchObject({ queue_item_id: items[0]!.id, status: 'completed', is_archived: false })
    expect([await sizes(tenant), await sizes(other)]).toEqual([
      [1, 1, 0],
      [2, 0, 0],
    ])
    expect((await tenant.get(`/annotation-queues/${id}/run/0`)).body).toMatchObject({ id: runs[1] })
    const second = await other.post(`${PLATFORM}/items/${items[0]!.id}/status`, { status: 'completed' })
    expect(second.body).toMatchObject({ is_archived: true })
    expect([await sizes(tenant), await sizes(other)]).toEqual([
      [1, 0, 1],
      [1, 0, 1],
    ])
    const [archived] = (await tenant.get(`/annotation-queues/${id}/runs?archived=true`)).body
    expect(archived).toMatchObject({ id: runs[0], completed_by: [expect.any(String), other.id] })
    expect(archived.last_reviewed_time).not.toBeNull()
    const within = `start_time=${encodeURIComponent(archived.added_at)}`
    expect((await tenant.get(`/annotation-queues/${id}/total_archived?${within}`)).body).toEqual({ size: 1 })
    expect(
      (await tenant.get(`/annotation-queues/${id}/total_archived?end_time=2020-01-01`.concat('T00:00:00Z'))).body,
    ).toEqual({ size: 0 })
    // Looking at it again does not take it back, and null does.
    await tenant.post(review(items[0]!), { status: 'viewed' })
    expect(await sizes(tenant)).toEqual([1, 0, 1])
    await tenant.post(review(items[0]!), { status: null })
    expect(await sizes(tenant)).toEqual([2, 0, 0])
  })

  it('is reserved for the person who views it, until the reservation ends', async () => {
    const { tenant, items, sizes } = await newQueue({ reservation_minutes: 5 }, 1)
    const other = await newReviewer(tenant)
    await tenant.post(review(items[0]!), { status: 'viewed' })
    expect([await sizes(tenant), await sizes(other)]).toEqual([
      [1, 0, 0],
      [0, 1, 0],
    ])
    const taken = await other.post(review(items[0]!), { status: 'viewed' })
    expect(outcomeOf(taken)).toEqual([409, 'queue_item_taken'])
    await withClockAhead(6 * MINUTE, async () => {
      expect(await sizes(other)).toEqual([1, 0, 0])
      expect((await other.post(review(items[0]!), { status: 'viewed' })).status).toBe(200)
    })
  })

  it('is reserved for one of those who view it at once', async () => {
    const { tenant, items } = await newQueue({}, 1)
    const others = await Promise.all([1, 2, 3].map(() => newReviewer(tenant)))
    const replies = await Promise.all(others.map(one => one.post(review(items[0]!), { status: 'viewed' })))
    expect(replies.map(({ status }) => status).toSorted()).toEqual([200, 409, 409])
  })

  it('is not reserved where the queue has no reservations', async () => {
    const { tenant, items, sizes } = await newQueue({ enable_reservations: false }, 1)
    const other = await newReviewer(tenant)
    await tenant.post(review(items[0]!), { status: 'viewed' })
    expect(await sizes(other)).toEqual([1, 0, 0])
  })

  it('is put last by one reviewer, and not for the others', async () => {
    const { tenant, id, runs, items } = await newQueue({}, 2)
    const other = await newReviewer(tenant)
    await tenant.post(review(items[0]!), {
      status: null,
      override_added_at: new Date(Date.now() + MINUTE).toISOString(),
    })
    const next = async (caller: typeof other) => (await caller.get(`/annotation-queues/${id}/run/0`)).body.id
    expect([await next(tenant as never), await next(other)]).toEqual([runs[1], runs[0]])
  })

  it('is reviewed by assigned reviewers only, if the queue is assigned', async () => {
    const { tenant, id, items, sizes } = await newQueue(
      { reviewer_access_mode: 'assigned', num_reviewers_per_item: null },
      1,
    )
    const reviewers = [await newReviewer(tenant), await newReviewer(tenant)]
    expect(await sizes(tenant)).toEqual([0, 1, 0])
    const refused = await tenant.post(review(items[0]!), { status: 'completed' })
    expect(outcomeOf(refused)).toEqual([403, 'not_a_reviewer'])
    const path = `${PLATFORM}/${id}/reviewers`
    for (const { id: identity_id } of reviewers) expect((await tenant.post(path, { identity_id })).status).toBe(201)
    expect(outcomeOf(await tenant.post(path, { identity_id: unusedId() }))).toEqual([404, 'identity_not_found'])
    expect((await tenant.get(`/annotation-queues/${id}`)).body.assigned_reviewers).toMatchObject(
      reviewers.map(one => ({ id: one.id, name: expect.any(String), email: null })),
    )
    expect((await reviewers[0]!.get('/annotation-queues?assigned_to_me=true')).body).toHaveLength(1)
    expect((await tenant.get('/annotation-queues?assigned_to_me=true')).body).toEqual([])
    // A queue without a number needs all reviewers.
    for (const [i, one] of reviewers.entries())
      expect((await one.post(review(items[0]!), { status: 'completed' })).body.is_archived).toBe(i === 1)
    await tenant.delete(`${path}/${reviewers[0]!.id}`)
    expect((await tenant.get(`/annotation-queues/${id}`)).body.assigned_reviewers).toHaveLength(1)
  })
})

describe('a page of items', () => {
  it('has runs and threads in their order, forwards and backwards', async () => {
    const { tenant, id, runs } = await newQueue({}, 2)
    const project_id = await projectId(tenant, 'traced')
    const thread = { item_type: 'THREAD', thread_id: 'thread-1', project_id }
    const added = (await tenant.post(`${PLATFORM}/${id}/items`, { items: [thread, thread, { run_id: runs[0] }] })).body
    expect(added.items).toMatchObject([
      { item_type: 'RUN' },
      { item_type: 'THREAD', thread_id: 'thread-1', project_id },
    ])
    const list = async (query: string) =>
      (await tenant.get(`${PLATFORM}/${id}/items?status=needs_my_review&page_size=2${query}`)).body
    const first = await list('')
    expect(first.items).toMatchObject(runs.map(run_id => ({ run_id, item_type: 'RUN', queue_id: id })))
    const second = await list(`&cursor=${first.next_cursor}`)
    expect(second).toMatchObject({ items: [{ run_id: null, thread_id: 'thread-1' }], next_cursor: null })
    const back = await list(`&direction=backward&cursor=${first.next_cursor}`)
    expect(back).toEqual({ items: first.items, next_cursor: null })
    expect((await list('&item_type=THREAD')).items).toEqual(second.items)
    expect((await list(`&min_start_time=2100-01-01T00:00:00Z`)).items).toEqual([])
    const place = (await tenant.get(`${PLATFORM}/${id}/items/${second.items[0].id}/placement`)).body
    expect(place).toEqual({
      item_type: 'THREAD',
      section: 'needs_my_review',
      position: 2,
      cursor: first.next_cursor,
    })
    const count = async (query: string) =>
      (await tenant.get(`${PLATFORM}/${id}/items/count?status=${query}`)).body.count
    expect([await count('all'), await count('archived')]).toEqual([3, 0])
  })

  it('follows times that a client sets, and loses what it deletes', async () => {
    const { tenant, id, items } = await newQueue({}, 3)
    const path = `${PLATFORM}/${id}/items`
    const added_at = '2026-01-01T00:00:00.000Z'
    expect((await tenant.patch(`${path}/${items[2]!.id}`, { added_at })).body).toMatchObject({ added_at })
    const resolve = `/annotation-queues/${id}/runs/resolve/${items[2]!.id}`
    expect((await tenant.get(resolve)).body).toEqual({ section: 'needs_my_review', position: 0 })
    const last_reviewed_time = added_at
    const changed = await tenant.patch(`/annotation-queues/${id}/runs/${items[0]!.id}`, { last_reviewed_time })
    expect(changed.body).toMatchObject({ last_reviewed_time })
    const item_ids = items.slice(1).map(one => one.id)
    expect((await tenant.post(`${path}/delete`, { item_ids })).body.ids).toHaveLength(2)
    expect(outcomeOf(await tenant.get(resolve))).toEqual([404, 'queue_item_not_found'])
  })

  it.each([
    [{ item_type: 'RUN' }, 'run_id'],
    [{ item_type: 'THREAD', project_id: unusedId() }, 'thread_id'],
    [{ item_type: 'THREAD', thread_id: 'a' }, 'project_id'],
  ])('takes no %j', async (item, member) => {
    const { tenant, id } = await newQueue({}, 0)
    const { status, body } = await tenant.post(`${PLATFORM}/${id}/items`, { items: [item] })
    expect([status, body.errors[0].loc]).toEqual([422, ['body', 'items', 0, member]])
  })
})
