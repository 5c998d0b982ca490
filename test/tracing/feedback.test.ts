// Feedback, the configurations of its keys, and links that take it without a key.
import { describe, expect, it } from 'vitest'
import { sweepFeedback } from '../../src/tracing/feedback/sweep.ts'
import type { NewFeedback } from '../../src/tracing/store/store.ts'
import {
  getServices,
  newTenant,
  type Reply,
  send,
  startApp,
  type Tenant,
  unusedId,
  withClockAhead,
} from '../support/app.ts'
import { readTiers, storeRuns } from '../support/runs.ts'

const outcome = ({ status, body }: Reply) => [status, body?.code]
const give = async (tenant: Pick<Tenant, 'post'>, body: object) => {
  const reply = await tenant.post('/feedback', { run_id: unusedId(), key: 'correctness', ...body })
  expect(reply.status, reply.text).toBe(200)
  return reply.body
}
const readKeys = ({ body }: Reply) => body.map(({ key }: { key: string }) => key).sort()

describe('feedback', () => {
  it('is kept as it was sent, before its run arrives', async () => {
    const tenant = await newTenant()
    const sent = {
      id: unusedId(),
      run_id: unusedId(),
      key: 'correctness',
      score: 0.123456,
      comment: 'Nearly.',
      value: { a: [1, null] },
      correction: { answer: '42' },
      error: true,
      feedback_source: { type: 'model', metadata: { __run: { run_id: unusedId() } } },
      created_at: '2026-11-22T11:03:33.598001Z',
    }
    const stored = await give(tenant, sent)
    expect(stored).toMatchObject({
      ...sent,
      score: 0.1235,
      created_at: '2026-11-22T11:03:33.598Z',
      session_id: null,
      is_root: false,
    })
    expect((await tenant.get(`/feedback/${sent.id}`)).body).toEqual(stored)
    expect((await tenant.get(`/feedback?run=${sent.run_id}`)).body).toEqual([stored])
  })

  it.each([
    [true, 1],
    [false, 0],
    [-3, -3],
    [null, null],
  ])('with the score %j has the score %j', async (score, kept) => {
    expect((await give(await newTenant(), { score })).score).toBe(kept)
  })

  it('that is sent again replaces the earlier one of the same caller, run and key', async () => {
    const tenant = await newTenant()
    const { id, run_id } = await give(tenant, { score: 1, comment: 'Good.' })
    await give(tenant, { id, run_id, score: 0 })
    expect((await tenant.get('/feedback')).body).toMatchObject([{ id, score: 0, comment: null }])
    const other = (await tenant.post('/workspaces/current/api-keys', { description: 'other' })).body.key
    for (const [caller, change] of [
      [tenant, { run_id: unusedId() }],
      [tenant, { key: 'other' }],
      [tenant.as(other), {}],
    ] as const) {
      const reply = await caller.post('/feedback', { id, run_id, key: 'correctness', score: 5, ...change })
      expect(outcome(reply)).toEqual([409, 'feedback_exists'])
    }
    expect((await tenant.get(`/feedback/${id}`)).body.score).toBe(0)
  })

  it.each<[string, object, string]>([
    ['without a run and a project', { run_id: null }, 'run_id'],
    ['with an empty key', { key: '' }, 'key'],
    ['with a long key', { key: 'x'.repeat(181) }, 'key'],
    ['with a huge score', { score: 1e12 }, 'score'],
    ['with a text as score', { score: '1' }, 'score'],
    ['with a value that is too large', { value: 'x'.repeat(70_000) }, 'value'],
    ['of a source that does not exist', { feedback_source: { type: 'me' } }, 'feedback_source'],
    ['with categories missing', { feedback_config: { type: 'categorical' } }, 'feedback_config'],
    ['with bounds the wrong way', { feedback_config: { type: 'continuous', min: 2, max: 1 } }, 'feedback_config'],
    ['at no time', { created_at: '2026-02-30T00:00:00Z' }, 'created_at'],
  ])('%s is refused', async (_, body, member) => {
    const tenant = await newTenant()
    const reply = await tenant.post('/feedback', { run_id: unusedId(), key: 'k', ...body })
    expect(outcome(reply)).toEqual([422, 'invalid_request'])
    expect(reply.body.errors[0].loc.slice(0, 2)).toEqual(['body', member])
    expect((await tenant.get('/feedback')).body).toEqual([])
  })

  it('on a project that does not exist is refused', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()]
    const session_id = (await other.post('/sessions', { name: 'theirs' })).body.id
    const reply = await tenant.post('/feedback', { session_id, key: 'k' })
    expect(outcome(reply)).toEqual([404, 'project_not_found'])
  })

  it('is found by its members', async () => {
    const tenant = await newTenant()
    const { id: project } = (await tenant.post('/sessions', { name: 'shop' })).body
    const run = unusedId()
    const group = unusedId()
    await give(tenant, { key: 'a', run_id: run, score: 1 })
    await give(tenant, { key: 'b', run_id: run, comment: 'x', created_at: '2026-01-01T00:00:00Z' })
    await give(tenant, { key: 'c', run_id: null, session_id: project, feedback_source: { type: 'app' } })
    await give(tenant, { key: 'd', comparative_experiment_id: group })
    const user = (await tenant.get('/feedback?key=a')).body[0].feedback_source.user_id
    for (const [query, keys] of [
      ['', ['a', 'b', 'c', 'd']],
      [`run=${run}`, ['a', 'b']],
      [`run=${run}&key=b&key=c`, ['b']],
      [`session=${project}`, ['c']],
      ['key=a&key=d', ['a', 'd']],
      ['source=app&source=model', ['c']],
      [`user=${user}`, ['a', 'b', 'c', 'd']],
      [`user=${unusedId()}`, []],
      ['has_comment=true', ['b']],
      ['has_score=false', ['b', 'c', 'd']],
      ['level=session', ['c']],
      ['level=run', ['a', 'b', 'd']],
      ['max_created_at=2026-01-01T00:00:00', ['b']],
      ['min_created_at=2026-01-02', ['a', 'c', 'd']],
      ['min_created_at=2026-01-32', ['422']],
      ['min_created_at=2026-01-02T00:00:00Z', ['a', 'c', 'd']],
      [`comparative_experiment_id=${group}`, ['d']],
      ['limit=2&offset=3', ['b']],
    ] as const) {
      const reply = await tenant.get(`/feedback?${query}`)
      expect(reply.status === 200 ? readKeys(reply) : [String(reply.status)], query).toEqual(keys)
    }
  })

  it('is changed member by member, and null clears one', async () => {
    const tenant = await newTenant()
    const first = await give(tenant, { score: 1, comment: 'Good.', value: 'yes', correction: 'no' })
    const second = (await tenant.patch(`/feedback/${first.id}`, { score: null, value: { b: 1 } })).body
    expect(second).toEqual({ ...first, score: null, value: { b: 1 }, modified_at: second.modified_at })
    const third = (await tenant.patch(`/feedback/${first.id}`, { comment: null, correction: null })).body
    expect(third).toEqual({ ...second, comment: null, correction: null, modified_at: third.modified_at })
    expect((await tenant.delete(`/feedback/${first.id}`)).status).toBe(204)
    expect(outcome(await tenant.get(`/feedback/${first.id}`))).toEqual([404, 'feedback_not_found'])
  })

  it('names its author on request', async () => {
    const tenant = await newTenant()
    const { id } = await give(tenant, {})
    const nameOf = async (query: string) => (await tenant.get(`/feedback/${id}${query}`)).body.feedback_source.user_name
    expect([await nameOf(''), await nameOf('?include_user_names=true')]).toEqual([null, 'Key of a test'])
  })
})

describe('feedback about a run', () => {
  const projectOf = async (tenant: Tenant, id: string) => (await tenant.get(`/feedback/${id}`)).body.session_id
  const newFeedback = (run_id: string, more: object = {}) =>
    ({
      id: unusedId(),
      run_id,
      key: 'k',
      source_type: 'model',
      is_error: false,
      extends_retention: true,
      score: 1,
      ...more,
    }) as NewFeedback

  it('belongs to the project of the run, whichever arrives first', async () => {
    const tenant = await newTenant()
    const [later] = [unusedId()]
    const early = await give(tenant, { run_id: later })
    expect(early.session_id).toBeNull()
    const [run] = await storeRuns(tenant, [{}])
    const late = await give(tenant, { run_id: run })
    expect(late).toMatchObject({ trace_id: run, is_root: true, start_time: expect.any(String) })
    await storeRuns(tenant, [{ id: later }])
    expect(await projectOf(tenant, early.id)).toBe(late.session_id)
  })

  it('is stored with the runs of a batch, or none of both is', async () => {
    const tenant = await newTenant()
    const id = unusedId()
    const feedback = newFeedback(id)
    await storeRuns(tenant, [{ id }], [feedback, feedback])
    expect((await tenant.get('/feedback')).body).toMatchObject([
      { id: feedback.id, run_id: id, trace_id: id, score: 1 },
    ])
    const config = { type: 'continuous', max: 1 } as const
    const refused = [newFeedback(id, { config, key: 'bounded' }), newFeedback(id, { config, key: 'bounded', score: 2 })]
    await expect(storeRuns(tenant, [{ session_name: 'new' }], refused)).rejects.toMatchObject({
      code: 'feedback_out_of_range',
    })
    expect((await tenant.get('/feedback?key=bounded')).body).toEqual([])
    await storeRuns(tenant, [], [newFeedback(id, { key: 'alone' })])
    expect((await tenant.get('/feedback?key=alone')).body).toMatchObject([{ trace_id: id }])
  })

  it('extends the retention of its trace, unless it says otherwise', async () => {
    const tenant = await newTenant()
    const [kept, plain, later] = [...(await storeRuns(tenant, [{}, {}])), unusedId()] as [string, string, string]
    await give(tenant, { run_id: kept })
    await give(tenant, { run_id: plain, extend_trace_retention: false })
    await give(tenant, { run_id: later })
    await storeRuns(tenant, [{ id: later }])
    await sweepFeedback(getServices())
    expect(await readTiers(tenant)).toEqual({ [kept]: 'longlived', [plain]: 'shortlived', [later]: 'longlived' })
  })

  it('is deleted with its project, when its run never comes, and after the longest retention', async () => {
    const tenant = await newTenant()
    const [run] = await storeRuns(tenant, [{}])
    const { session_id } = await give(tenant, { run_id: run, key: 'of a run' })
    await give(tenant, { key: 'of none' })
    await give(tenant, { key: 'of a project', run_id: null, session_id })
    const keysAfter = async (days: number) =>
      withClockAhead(days * 86_400_000, async () => {
        await sweepFeedback(getServices())
        return readKeys(await tenant.get('/feedback'))
      })
    expect(await keysAfter(0)).toEqual(['of a project', 'of a run', 'of none'])
    expect(await keysAfter(15)).toEqual(['of a project', 'of a run'])
    expect(await keysAfter(401)).toEqual(['of a project'])
    await tenant.delete(`/sessions/${session_id}`)
    expect(await keysAfter(0)).toEqual([])
  })

  it('needs a permission of its own in a batch of runs', async () => {
    const tenant = await newTenant()
    const role = await tenant.owner.post('/orgs/current/roles', { display_name: 'Runs', permissions: ['runs:create'] })
    const body = { description: 'runs', role_id: role.body.id }
    const { key } = (await tenant.post('/workspaces/current/api-keys', body)).body
    await storeRuns({ key }, [{}])
    await expect(storeRuns({ key }, [{}], [newFeedback(unusedId())])).rejects.toMatchObject({
      code: 'permission_missing',
    })
  })
})

describe('the configuration of a key', () => {
  const CONTINUOUS = { type: 'continuous', min: 0, max: 5 }
  const CATEGORICAL = { type: 'categorical', categories: [{ value: 1, label: 'good' }, { value: 0 }] }

  it.each<[string, object, [unknown, boolean][]]>([
    [
      'continuous',
      CONTINUOUS,
      [
        [0, true],
        [5, true],
        [5.1, false],
        [-1, false],
        [null, true],
      ],
    ],
    [
      'half open',
      { type: 'continuous', min: 1 },
      [
        [1, true],
        [999, true],
        [0.9, false],
      ],
    ],
    [
      'categorical',
      CATEGORICAL,
      [
        [1, true],
        [0, true],
        [true, true],
        [0.5, false],
        [null, true],
      ],
    ],
    ['freeform', { type: 'freeform' }, [[123, true]]],
  ])('%s bounds the score', async (_, feedback_config, scores) => {
    const tenant = await newTenant()
    const { id } = await give(tenant, { key: 'k', feedback_config })
    for (const [score, fits] of scores) {
      const expected = fits ? [200, undefined] : [400, 'feedback_out_of_range']
      expect(outcome(await tenant.post('/feedback', { run_id: unusedId(), key: 'k', score })), `${score}`).toEqual(
        expected,
      )
      expect(outcome(await tenant.patch(`/feedback/${id}`, { score }))).toEqual(expected)
    }
  })

  it('also bounds the feedback that brings it', async () => {
    const tenant = await newTenant()
    const reply = await tenant.post('/feedback', {
      run_id: unusedId(),
      key: 'k',
      score: 9,
      feedback_config: CONTINUOUS,
    })
    expect(outcome(reply)).toEqual([400, 'feedback_out_of_range'])
    expect((await tenant.get('/feedback-configs')).body).toEqual([])
  })

  it('is created once, changed, listed and deleted', async () => {
    const tenant = await newTenant()
    const body = { feedback_key: 'k', feedback_config: CONTINUOUS, is_lower_score_better: true }
    const created = (await tenant.post('/feedback-configs', body)).body
    expect(created).toMatchObject({ ...body, tenant_id: tenant.tenant_id })
    expect((await tenant.post('/feedback-configs', body)).body).toEqual(created)
    const other = { ...body, feedback_config: CATEGORICAL }
    expect(outcome(await tenant.post('/feedback-configs', other))).toEqual([400, 'feedback_config_differs'])
    const feedback = { run_id: unusedId(), key: 'k', feedback_config: CATEGORICAL }
    expect(outcome(await tenant.post('/feedback', feedback))).toEqual([400, 'feedback_config_differs'])
    const changed = (await tenant.patch('/feedback-configs', other)).body
    expect(changed).toMatchObject(other)
    await tenant.post('/feedback-configs', { ...body, feedback_key: 'another' })
    const keysOf = async (query: string) =>
      (await tenant.get(`/feedback-configs?${query}`)).body.map((one: { feedback_key: string }) => one.feedback_key)
    expect(await keysOf('')).toEqual(['k', 'another'])
    expect(await keysOf('sort_by_desc=false&limit=1')).toEqual(['another'])
    expect(await keysOf('name_contains=NOTH')).toEqual(['another'])
    expect(await keysOf('key=k&key=x')).toEqual(['k'])
    expect((await tenant.delete('/feedback-configs?feedback_key=k')).status).toBe(204)
    expect(outcome(await tenant.patch('/feedback-configs', body))).toEqual([404, 'feedback_config_not_found'])
    expect(outcome(await tenant.delete('/feedback-configs?feedback_key=k'))).toEqual([404, 'feedback_config_not_found'])
  })
})

describe('a feedback link', () => {
  const newLink = async (tenant: Tenant, body: object = {}) => {
    const reply = await tenant.post('/feedback/tokens', { run_id: unusedId(), feedback_key: 'helpful', ...body })
    expect(reply.status, reply.text).toBe(200)
    return { ...reply.body, path: new URL(reply.body.url).pathname }
  }
  const FORM_TYPE = { 'Content-Type': 'application/x-www-form-urlencoded' }

  it.each<[string, (path: string) => Promise<Reply>]>([
    ['a query', path => send('GET', `${path}?score=0.5&comment=So+so&value=fine`)],
    ['JSON', path => send('POST', path, { body: { score: 0.5, comment: 'So so', value: 'fine' } })],
    ['a form', path => send('POST', path, { raw: 'score=0.5&comment=So+so&value=fine', headers: FORM_TYPE })],
  ])('takes feedback by %s, without a key', async (_, act) => {
    const tenant = await newTenant()
    const run_id = unusedId()
    const { path, id } = await newLink(tenant, { run_id })
    expect(await act(path)).toMatchObject({ status: 200, body: {} })
    const [stored, ...more] = (await tenant.get(`/feedback?run=${run_id}`)).body
    expect(more).toEqual([])
    expect(stored).toMatchObject({
      run_id,
      key: 'helpful',
      score: 0.5,
      comment: 'So so',
      value: 'fine',
      feedback_source: { type: 'app', user_id: null },
    })
    // A reader of feedback cannot use its link.
    expect(stored.id).not.toBe(id)
  })

  it('holds one piece of feedback, of its own run and key', async () => {
    const tenant = await newTenant()
    const run_id = unusedId()
    const { path } = await newLink(tenant, { run_id })
    await send('GET', `${path}?score=1`)
    await send('POST', path, { body: { score: 0, run_id: unusedId(), key: 'other', session_id: unusedId() } })
    expect((await tenant.get('/feedback')).body).toMatchObject([{ run_id, key: 'helpful', score: 0, session_id: null }])
  })

  it.each<[string, RequestInit['method'], Record<string, string>]>([
    ['a HEAD request', 'HEAD', {}],
    ['a prefetch', 'GET', { 'Sec-Purpose': 'prefetch;prerender' }],
  ])('stores nothing for %s', async (_, method, headers) => {
    const tenant = await newTenant()
    const { path } = await newLink(tenant)
    expect((await send(method!, `${path}?score=1`, { headers })).status).toBe(200)
    expect((await tenant.get('/feedback')).body).toEqual([])
  })

  it('ends when it expires', async () => {
    const tenant = await newTenant()
    const run_id = unusedId()
    const { path, expires_at } = await newLink(tenant, { run_id, expires_in: { minutes: 5 } })
    expect(Date.parse(expires_at) - Date.now()).toBeGreaterThan(4 * 60_000)
    expect((await tenant.get(`/feedback/tokens?run_id=${run_id}`)).body).toHaveLength(1)
    await withClockAhead(6 * 60_000, async () => {
      expect(outcome(await send('GET', `${path}?score=1`))).toEqual([404, 'feedback_link_not_found'])
      expect((await tenant.get(`/feedback/tokens?run_id=${run_id}`)).body).toEqual([])
    })
    expect(outcome(await send('GET', `/feedback/tokens/${unusedId()}?score=1`))).toEqual([
      404,
      'feedback_link_not_found',
    ])
  })

  it.each([
    [{ expires_in: { days: 366 } }],
    [{ expires_in: {} }],
    [{ expires_at: '2020-01-01T00:00:00Z' }],
    [{ expires_at: '2999-01-01T00:00:00Z' }],
  ])('cannot be made with %j', async body => {
    const reply = await (await newTenant()).post('/feedback/tokens', { run_id: unusedId(), feedback_key: 'k', ...body })
    expect(outcome(reply)).toEqual([422, 'invalid_request'])
  })

  it('is checked by the configuration of its key', async () => {
    const tenant = await newTenant()
    const { path } = await newLink(tenant, { feedback_config: { type: 'continuous', max: 1 } })
    expect(outcome(await send('POST', path, { body: { score: 2 } }))).toEqual([400, 'feedback_out_of_range'])
    expect(outcome(await send('POST', path, { body: { score: 'x' } }))).toEqual([422, 'invalid_request'])
  })

  it('is made in a list, of at most a hundred for a run', async () => {
    const tenant = await newTenant()
    const run_id = unusedId()
    const links = (count: number) => Array.from({ length: count }, (_, i) => ({ run_id, feedback_key: `k${i}` }))
    const made = (await tenant.post('/feedback/tokens', links(60))).body
    expect(made).toHaveLength(60)
    expect(outcome(await tenant.post('/feedback/tokens', links(41)))).toEqual([409, 'feedback_links_full'])
    expect((await tenant.post('/feedback/tokens', links(40))).body).toHaveLength(40)
    expect((await tenant.get(`/feedback/tokens?run_id=${run_id}&limit=100`)).body).toHaveLength(100)
  })

  it('can be used by pages of any origin, where other routes cannot', async () => {
    const app = startApp({ settings: { CORS_ORIGINS: 'https://console.example' } })
    const { path } = await newLink(await newTenant({ app }))
    const headers = { Origin: 'https://shop.example', 'Content-Type': 'application/json' }
    const allowed = async (method: string, at: string) =>
      (await send(method, at, { headers, app })).headers.get('Access-Control-Allow-Origin')
    expect(await allowed('OPTIONS', path)).toBe('*')
    expect(await allowed('POST', path)).toBe('*')
    expect(await allowed('OPTIONS', '/feedback')).toBeNull()
  })
})
