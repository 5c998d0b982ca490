// Views: saved filters over the runs of a project.
import { expect, it } from 'vitest'
import { newTenant, type Reply, unusedId } from '../support/app.ts'

const outcome = ({ status, body }: Reply) => [status, body?.code]

it('a view is saved, listed by its type, changed, renamed and deleted', async () => {
  const tenant = await newTenant()
  const views = `/sessions/${(await tenant.post('/sessions', {})).body.id}/views`
  const sent = {
    display_name: 'Slow',
    filter_string: 'gt(latency, "5s")',
    duration: '7d',
    type: 'threads',
    start_time: '2026-01-02T00:00:00.000Z',
    description: 'Slow answers.',
  }
  const created = (await tenant.post(views, sent)).body
  expect(created).toMatchObject({ ...sent, end_time: null, trace_filter_string: null })
  expect((await tenant.get(`${views}/${created.id}`)).body).toEqual(created)
  expect((await tenant.get(views)).body).toEqual([created])
  expect((await tenant.get(`${views}?type=threads`)).body).toEqual([created])
  expect((await tenant.get(`${views}?type=runs`)).body).toEqual([])
  const patch = { filter_string: null, tree_filter_string: 'eq(name, "x")', display_name: null, type: 'runs' }
  const changed = (await tenant.patch(`${views}/${created.id}`, patch)).body
  expect(changed).toMatchObject({ ...sent, ...patch, display_name: 'Slow' })
  const renamed = (await tenant.patch(`${views}/${created.id}/rename`, { display_name: 'X' })).body
  expect(renamed).toEqual({ ...changed, display_name: 'X', updated_at: renamed.updated_at })
  expect((await tenant.delete(`${views}/${created.id}`)).status).toBe(204)
  expect(outcome(await tenant.get(`${views}/${created.id}`))).toEqual([404, 'view_not_found'])
})

it('a view has filters that can be read', async () => {
  const tenant = await newTenant()
  const views = `/sessions/${(await tenant.post('/sessions', {})).body.id}/views`
  const wrong = { display_name: 'x', filter_string: 'eq(nom, 1)', tree_filter_string: '(' }
  const refused = await tenant.post(views, wrong)
  expect(outcome(refused)).toEqual([400, 'filter_invalid'])
  expect(refused.body.errors.map(({ loc }: { loc: string[] }) => loc[1])).toEqual([
    'filter_string',
    'tree_filter_string',
  ])
  const { id } = (await tenant.post(views, { display_name: 'x' })).body
  expect(outcome(await tenant.patch(`${views}/${id}`, { trace_filter_string: 'x' }))).toEqual([400, 'filter_invalid'])
})

it('a view belongs to one project, of which a hundred are kept', async () => {
  const tenant = await newTenant()
  const [one, other] = [(await tenant.post('/sessions', {})).body.id, (await tenant.post('/sessions', {})).body.id]
  const { id } = (await tenant.post(`/sessions/${one}/views`, { display_name: 'x' })).body
  expect(outcome(await tenant.get(`/sessions/${other}/views/${id}`))).toEqual([404, 'view_not_found'])
  expect(outcome(await tenant.get(`/sessions/${unusedId()}/views`))).toEqual([404, 'project_not_found'])
  expect(outcome(await tenant.post(`/sessions/${unusedId()}/views`, { display_name: 'x' }))).toEqual([
    404,
    'project_not_found',
  ])
  for (let i = 1; i < 100; i++) await tenant.post(`/sessions/${one}/views`, { display_name: `${i}` })
  expect(outcome(await tenant.post(`/sessions/${one}/views`, { display_name: 'more' }))).toEqual([409, 'quota_full'])
})
