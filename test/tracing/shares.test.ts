// Links that show a run to anyone, and the deletion of traces.
import { beforeAll, expect, it } from 'vitest'
import { newTenant, readEvents, send, type Tenant, unusedId } from '../support/app.ts'
import { appendRuns, newTrace, projectId } from '../support/new-traces.ts'

let tenant: Tenant
beforeAll(async () => {
  tenant = await newTenant()
})

it('a link shows a run and the runs below it, until it is deleted', async () => {
  const { root, children, runs } = newTrace(['below'])
  const other = newTrace()
  await appendRuns(tenant, [...runs, other.root])
  const [below] = children
  expect((await tenant.get(`/runs/${root.id}/share`)).body).toBeNull()
  // Published clients do not say that their body is JSON.
  const share_token = unusedId()
  const headers = { 'X-Api-Key': tenant.key, 'Content-Type': 'text/plain;charset=UTF-8' }
  const raw = JSON.stringify({ run_id: root.id, share_token })
  const shared = await send('PUT', `/runs/${root.id}/share`, { raw, headers })
  expect(shared.body).toEqual({ run_id: root.id, share_token })
  expect((await readEvents(shared.headers.get('X-Request-Id')!)).map(({ type }) => type)).toEqual(['run.shared'])
  expect((await tenant.put(`/runs/${root.id}/share`, {})).body.share_token).toBe(share_token)
  expect((await tenant.get(`/runs/${root.id}`)).body.share_token).toBe(share_token)

  expect((await send('GET', `/public/${share_token}/run`)).body).toMatchObject({ id: root.id, name: 'chat' })
  expect((await send('GET', `/public/${share_token}/run/${below!.id}`)).body.id).toBe(below!.id)
  expect((await send('GET', `/public/${share_token}/run/${other.root.id}`)).body.code).toBe('run_not_found')
  const body = { id: [below!.id, other.root.id] }
  expect((await send('POST', `/public/${share_token}/runs/query`, { body })).body.runs).toMatchObject([
    { id: below!.id },
  ])
  expect((await send('POST', `/public/${share_token}/runs/query`, { body: {} })).body.runs).toMatchObject([
    { id: root.id },
  ])

  expect((await tenant.put(`/runs/${other.root.id}/share`, { share_token })).body.code).toBe('share_token_taken')
  expect((await tenant.put(`/runs/${unusedId()}/share`, {})).body.code).toBe('run_not_found')
  expect((await tenant.delete(`/runs/${root.id}/share`)).status).toBe(204)
  expect((await send('GET', `/public/${share_token}/run`)).body.code).toBe('run_share_not_found')
})

it('a link of a run shows none above it', async () => {
  const { root, children, runs } = newTrace(['shown', 'beside'])
  await appendRuns(tenant, runs)
  const { share_token } = (await tenant.put(`/runs/${children[0]!.id}/share`, {})).body
  for (const { id } of [root, children[1]!])
    expect((await send('GET', `/public/${share_token}/run/${id}`)).status).toBe(404)
})

it('a link of a run shows none of another project, which access policies may keep from its maker', async () => {
  const { root, children, runs } = newTrace(['elsewhere'])
  const [elsewhere] = children
  await appendRuns(
    tenant,
    runs.map(one => (one === elsewhere ? { ...one, session_name: 'secret' } : one)),
  )
  const { share_token } = (await tenant.put(`/runs/${root.id}/share`, {})).body
  expect((await send('GET', `/public/${share_token}/run/${elsewhere!.id}`)).status).toBe(404)
  const tree = await send('GET', `/v2/public/${share_token}/run/${elsewhere!.id}`)
  expect(tree.status).toBe(404)
  const { body } = await send('POST', `/v2/public/${share_token}/runs/query`, { body: {} })
  expect(body.items).toMatchObject([{ id: root.id }])
})

it('the link of a trace is that of its root, and of no other trace', async () => {
  const { root, children, runs } = newTrace(['below'])
  const other = newTrace()
  await appendRuns(tenant, [...runs, other.root])
  const share = (trace_id: string) =>
    tenant.post(`/v2/runs/${children[0]!.id}/share`, { session_id: unusedId(), trace_id })
  const { share_token } = (await share(root.id)).body
  expect((await tenant.get(`/runs/${root.id}/share`)).body).toEqual({ run_id: root.id, share_token })
  expect((await share(other.root.id)).body.code).toBe('run_not_found')
  await tenant.put(`/runs/${other.root.id}/share`, {})
  expect((await share(other.root.id)).body.code).toBe('run_not_found')
})

it('a link shows the traces of a thread of one project, until it is deleted', async () => {
  const own = await newTenant()
  const thread_id = `a/b ${unusedId()}`
  const inThread = (id: string, place: number) => {
    const [root, below] = newTrace(['below'], new Date(Date.now() + place)).runs
    return [{ ...root!, extra: JSON.stringify({ metadata: { thread_id: id } }) }, below!]
  }
  const [first, second, other, elsewhere] = [thread_id, thread_id, 'other', thread_id].map(inThread)
  const secret = elsewhere!.map(run => ({ ...run, session_name: 'secret' }))
  await appendRuns(own, [...first!, ...second!, ...other!, ...secret])
  const project_id = await projectId(own, 'traced')
  const path = `/v2/threads/${encodeURIComponent(thread_id)}/share`
  const here = `${path}?project_id=${project_id}`
  expect((await own.get(here)).body).toEqual({})
  const shared = await own.post(path, { project_id })
  const [event] = await readEvents(shared.headers.get('X-Request-Id')!)
  expect(event).toMatchObject({ type: 'project.thread_shared', subject_id: project_id })
  expect(JSON.parse(event!.data as string)).toEqual({ thread_id })
  const { share_token } = shared.body
  expect((await own.post(path, { project_id })).body).toEqual({ share_token })
  expect((await own.get(here)).body).toEqual({ share_token })

  const listed = await send('POST', `/v2/public/${share_token}/runs/query`, { body: { selects: ['ID', 'NAME'] } })
  expect(listed.body.items.map(({ id }: { id: string }) => id)).toEqual([first![0]!.id, second![0]!.id])
  expect((await send('GET', `/public/${share_token}/run`)).body.id).toBe(first![0]!.id)
  const read = (id: string) => send('GET', `/v2/public/${share_token}/run/${id}?selects=NAME`)
  expect((await read(second![1]!.id)).body).toEqual({ name: 'below' })
  for (const { id } of [...other!, ...secret]) expect((await read(id)).body.code).toBe('run_not_found')

  const codes = [
    await own.post('/v2/threads/none/share', { project_id }),
    await own.post(path, { project_id: unusedId() }),
    await own.get(`${path}?project_id=${unusedId()}`),
  ].map(({ body }) => body.code)
  expect(codes).toEqual(['thread_not_found', 'project_not_found', 'project_not_found'])
  expect([(await own.delete(here)).status, (await own.delete(here)).status]).toEqual([204, 204])
  expect((await send('GET', `/public/${share_token}/run`)).body.code).toBe('run_share_not_found')
  await own.post(path, { project_id })
  expect((await own.delete(`/sessions/${project_id}`)).status).toBe(204)
})

it('traces are deleted with their runs, feedback and links, and journaled', async () => {
  const { root, children, runs } = newTrace(['below'])
  const kept = newTrace().root
  await appendRuns(tenant, [...runs, kept])
  const session_id = await projectId(tenant, 'traced')
  const feedback = await tenant.post('/feedback', { run_id: children[0]!.id, key: 'score', score: 1 })
  const { share_token } = (await tenant.put(`/runs/${root.id}/share`, {})).body
  const body = { session_id, trace_ids: [root.id, unusedId()] }
  expect((await tenant.post('/runs/delete', { ...body, session_id: unusedId() })).body.trace_ids).toEqual([])
  const deleted = await tenant.post('/runs/delete/traces', body)
  expect(deleted).toMatchObject({ status: 200, body: { trace_ids: [root.id] } })
  expect(await readEvents(deleted.headers.get('X-Request-Id')!)).toMatchObject([
    { type: 'project.traces_deleted', subject_id: session_id, data: expect.anything() },
  ])
  for (const { id } of runs) expect((await tenant.get(`/runs/${id}`)).status).toBe(404)
  expect((await tenant.get(`/feedback/${feedback.body.id}`)).status).toBe(404)
  expect((await send('GET', `/public/${share_token}/run`)).status).toBe(404)
  expect((await tenant.get(`/runs/${kept.id}`)).status).toBe(200)
})

it('traces are deleted by the metadata of their runs', async () => {
  const own = await newTenant()
  const withUser = (user: unknown, more = {}) => {
    const { root, children } = newTrace(['below'])
    return [root, { ...children[0]!, extra: JSON.stringify({ metadata: { user, team: 'a', ...more } }) }]
  }
  const [ada, bob, cy, other] = [withUser('ada'), withUser(7), withUser('cy'), withUser('ada', { team: 'b' })]
  await appendRuns(own, [ada, bob, cy, other].flat())
  const session_id = await projectId(own, 'traced')
  const remove = (metadata: object) => own.post('/runs/delete', { session_id, metadata })
  expect((await remove({ user: ['none'] })).body).toEqual({ trace_ids: [], has_more: false })
  const { body } = await remove({ user: ['ada', 7], team: 'a' })
  expect(body.trace_ids.toSorted()).toEqual([ada[0]!.id, bob[0]!.id].toSorted())
  const left = (await own.post('/runs/query', { session: [session_id], is_root: true })).body.runs
  expect(left.map(({ id }: { id: string }) => id).toSorted()).toEqual([cy[0]!.id, other[0]!.id].toSorted())
  for (const wrong of [
    {},
    { metadata: {} },
    { metadata: { a: null } },
    { metadata: { a: 1 }, trace_ids: [unusedId()] },
  ])
    expect((await own.post('/runs/delete', { session_id, ...wrong })).status).toBe(422)
})

it('a link shows the feedback of its runs, and not who gave it', async () => {
  const { root, children, runs } = newTrace(['shown', 'beside'])
  await appendRuns(tenant, runs)
  const [shown, beside] = children
  const { share_token } = (await tenant.put(`/runs/${shown!.id}/share`, {})).body
  for (const [i, { id }] of [shown!, beside!, root].entries())
    await tenant.post('/feedback', { run_id: id, key: 'score', score: i, extend_trace_retention: false })
  const read = async (query = '') => (await send('GET', `/public/${share_token}/feedbacks${query}`)).body
  expect(await read()).toMatchObject([{ run_id: shown!.id, score: 0, feedback_source: { user_id: null } }])
  expect(await read(`?run=${beside!.id}`)).toEqual([])
  expect(await read('?key=other')).toEqual([])
  expect((await send('GET', `/public/${unusedId()}/feedbacks`)).status).toBe(404)
})
