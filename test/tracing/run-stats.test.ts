// Statistics of runs, and threads: traces that share a `thread_id`.
import { beforeAll, describe, expect, it } from 'vitest'
import { newLimitedCaller } from '../support/access-policies.ts'
import { newTenant, type Tenant, unusedId } from '../support/app.ts'
import { appendRuns, newTrace, projectId } from '../support/new-traces.ts'
import type { RunInput } from '../support/trace-operations.ts'

const START = Date.parse('2026-11-21T08:00:00Z')
let tenant: Tenant
let project: string
let traces: RunInput[][]

const plus = (time: string | undefined, ms: number) => new Date(Date.parse(time!) + ms).toISOString()
const usage = (input_tokens: number, output_tokens: number) => ({
  input_tokens,
  output_tokens,
  input_cost: input_tokens / 10,
  output_cost: output_tokens / 10,
  input_token_details: { cache_read: input_tokens },
})

/** A root of `seconds`, in thread `thread`, with an LLM run of some tokens below it. */
function turn(
  i: number,
  seconds: number,
  run: RunInput['extra'] | undefined,
  more: Partial<RunInput> = {},
): RunInput[] {
  const { root, children } = newTrace(['model'], new Date(START + i * 60_000))
  const tokens = JSON.stringify({ usage_metadata: usage(i + 1, 10) })
  return [
    {
      ...root,
      name: 'agent',
      run_type: 'chain',
      end_time: plus(root.start_time, seconds * 1000),
      extra: run,
      inputs: `{"question": "q${i}"}`,
      outputs: `{"answer": "a${i}"}`,
      tags: ['all', i % 2 ? 'odd' : 'even'],
      ...more,
    },
    {
      ...children[0]!,
      end_time: plus(root.start_time, 500),
      outputs: tokens,
      events: FIRST_TOKEN(children[0]!.start_time),
    },
  ]
}
const FIRST_TOKEN = (start: string) => JSON.stringify([{ name: 'new_token', time: plus(start, 100) }])
const inThread = (thread_id: string) => JSON.stringify({ metadata: { thread_id, user: 'ada' } })

beforeAll(async () => {
  tenant = await newTenant()
  traces = [
    turn(0, 1, inThread('one')),
    turn(1, 2, inThread('one'), { error: 'boom' }),
    turn(2, 3, inThread('two')),
    turn(3, 4, undefined),
  ]
  await appendRuns(tenant, traces.flat())
  project = await projectId(tenant, 'traced')
  for (const [i, trace] of traces.entries())
    await tenant.post('/feedback', {
      run_id: trace[i % 2]!.id,
      key: 'helpful',
      score: i,
      extend_trace_retention: false,
    })
})

const read = async (body: object) => {
  const reply = await tenant.post('/runs/stats', { session: [project], ...body })
  expect(reply.status, reply.text).toBe(200)
  return reply.body
}

describe('statistics', () => {
  it('count each run with its own tokens', async () => {
    expect(await read({})).toMatchObject({
      run_count: 8,
      error_rate: 1 / 8,
      streaming_rate: 0.5,
      last_run_start_time: '2026-11-21T08:03:00.001000Z',
      total_tokens: 50,
      prompt_tokens: 10,
      completion_tokens: 40,
      total_cost: 5,
      prompt_cost: 1,
      completion_cost: 4,
      median_tokens: 12.5,
      prompt_token_details: { cache_read: 10 },
      completion_token_details: null,
      first_token_p50: 0.1,
      feedback_stats: { helpful: { n: 4, avg: 1.5, min: 0, max: 3 } },
    })
  })

  it('have the tokens of the traces, for roots', async () => {
    expect(await read({ is_root: true })).toMatchObject({
      run_count: 4,
      error_rate: 0.25,
      streaming_rate: 0,
      latency_p50: 2.5,
      latency_avg: 2.5,
      latency_p99: expect.closeTo(3.97),
      total_tokens: 50,
      tokens_p99: expect.closeTo(13.97),
      prompt_token_details: { cache_read: 10 },
      feedback_stats: { helpful: { n: 2, avg: 1 } },
    })
    expect(await read({ filter: 'and(eq(is_root, true), eq(thread_id, "one"))' })).toMatchObject({ total_tokens: 23 })
  })

  it('are those of a selection, and only the selected ones', async () => {
    const select = ['run_count', 'latency_p50']
    expect(await read({ select, is_root: true, error: true })).toEqual({ run_count: 1, latency_p50: 2 })
    expect(await read({ select, filter: 'eq(name, "none")' })).toEqual({ run_count: 0, latency_p50: null })
    expect(await read({ select, trace: traces[0]![0]!.id, session: null })).toMatchObject({ run_count: 2 })
    expect(await read({ select, tree_filter: 'gt(prompt_tokens, 3)' })).toMatchObject({ run_count: 2 })
    expect(await read({ select, id: [traces[3]![0]!.id] })).toEqual({ run_count: 1, latency_p50: 4 })
    expect(await read({ select: ['all_run_stats'] })).not.toHaveProperty('total_tokens')
    expect(await read({ select: ['all_token_stats'] })).not.toHaveProperty('run_count')
  })

  it('are grouped by a name, a type, a tag or a member of the metadata', async () => {
    const select = ['run_count']
    const by = (attribute: string, more = {}) => read({ select, group_by: { attribute, ...more } })
    expect(await by('name')).toEqual({ agent: { run_count: 4 }, model: { run_count: 4 } })
    expect(await by('run_type')).toEqual({ chain: { run_count: 4 }, llm: { run_count: 4 } })
    expect(await by('tag', { max_groups: 2 })).toEqual({ all: { run_count: 4 }, even: { run_count: 2 } })
    expect(await by('metadata', { path: 'thread_id' })).toEqual({ one: { run_count: 2 }, two: { run_count: 1 } })
    expect(await read({ select, group_by: { attribute: 'tag' }, groups: ['odd', 'none', null] })).toEqual({
      odd: { run_count: 2 },
    })
    const feedback = await read({ select: ['feedback_stats'], group_by: { attribute: 'name' } })
    expect(feedback).toMatchObject({ agent: { feedback_stats: { helpful: { n: 2 } } } })
  })

  it('have facets, whose filters find as many runs', async () => {
    const { run_facets } = await read({ select: ['run_facets'] })
    expect(run_facets.map(({ key, value, n }: never) => [key, value, n])).toEqual([
      ['metadata.thread_id', 'one', 2],
      ['metadata.thread_id', 'two', 1],
      ['metadata.user', 'ada', 3],
      ['name', 'agent', 4],
      ['name', 'model', 4],
      ['run_type', 'chain', 4],
      ['run_type', 'llm', 4],
      ['status', 'success', 7],
      ['status', 'error', 1],
      ['tag', 'all', 4],
      ['tag', 'even', 2],
      ['tag', 'odd', 2],
    ])
    for (const { query, n } of run_facets)
      expect(await read({ select: ['run_count'], filter: query }), query).toEqual({ run_count: n })
  })

  it.each([
    [{ session: null }, 422, 'invalid_request'],
    [{ group_by: { attribute: 'metadata' } }, 422, 'invalid_request'],
    [{ select: ['none'] }, 422, 'invalid_request'],
    [{ filter: 'eq(name' }, 400, 'filter_invalid'],
    [{ session: [unusedId()] }, 404, 'project_not_found'],
  ])('are refused for %j', async (body, status, code) => {
    expect(await tenant.post('/runs/stats', { session: [project], ...body })).toMatchObject({ status, body: { code } })
  })

  it('are null or zero where there are no runs', async () => {
    const { body } = await tenant.post('/sessions', { name: 'empty' })
    const empty = { session: [body.id] }
    expect(await read(empty)).toMatchObject({ run_count: 0, error_rate: null, total_tokens: 0, total_cost: null })
    expect(await read({ ...empty, group_by: { attribute: 'tag' } })).toEqual({})
  })
})

describe('threads', () => {
  const group = (body = {}) => tenant.post('/runs/group', { session_id: project, group_by: 'conversation', ...body })

  it('are listed by their latest start, with the totals of their traces', async () => {
    const { body } = await group()
    expect(body.total).toBe(2)
    expect(body.groups).toMatchObject([
      { thread_id: 'two', count: 1, total_tokens: 13, latency_p50: 3, last_error: null },
      {
        thread_id: 'one',
        group_key: 'one',
        filter: 'eq(thread_id, "one")',
        count: 2,
        total_tokens: 23,
        total_cost: 2.3,
        latency_p50: 1.5,
        first_inputs: 'q0',
        last_outputs: 'a1',
        last_error: 'boom',
        min_start_time: '2026-11-21T08:00:00.000000Z',
        max_start_time: '2026-11-21T08:01:00.000000Z',
        feedback_stats: { helpful: { n: 2, avg: 0.5 } },
      },
    ])
    expect((await group({ offset: 1, limit: 1 })).body).toMatchObject({ groups: [{ thread_id: 'one' }], total: 2 })
    expect((await group({ offset: 2 })).body).toEqual({ groups: [], total: 2 })
  })

  it('have the traces that the filter and the times find', async () => {
    expect((await group({ filter: 'eq(status, "error")' })).body.groups).toMatchObject([{ thread_id: 'one', count: 1 }])
    const end_time = plus('2026-11-21T08:00:00Z', 1000)
    expect((await group({ end_time })).body.groups).toMatchObject([{ thread_id: 'one', count: 1, total_tokens: 11 }])
    expect((await group({ session_id: unusedId() })).status).toBe(404)
    expect((await group({ group_by: 'name' })).status).toBe(422)
  })

  it('are added up, without the traces of no thread', async () => {
    const body = { session_id: project, group_by: 'conversation' }
    expect((await tenant.post('/runs/group/stats', body)).body).toMatchObject({
      group_count: 2,
      run_count: 3,
      total_tokens: 36,
    })
  })

  it('are read as messages', async () => {
    const preview = (await tenant.get(`/runs/threads/one?session_id=${project}`)).body
    const all = 'human: q0\n\nai: a0\n\nhuman: q1\n\nai: a1'
    expect(preview).toEqual({
      thread_id: 'one',
      previews: { all_messages: all, human_ai_pairs: all, first_human_last_ai: 'human: q0\n\nai: a1' },
    })
    const one = await tenant.get(`/runs/threads/one?session_id=${project}&select=all_messages`)
    expect(Object.keys(one.body.previews)).toEqual(['all_messages'])
    const none = await tenant.get(`/runs/threads/none?session_id=${project}`)
    expect(none).toMatchObject({ status: 404, body: { code: 'thread_not_found' } })
  })
})

describe('projects', () => {
  const list = async (query: string, by: Pick<Tenant, 'get'> = tenant) =>
    (await by.get(`/sessions?id=${project}&${query}`)).body[0]

  it('are listed with statistics of the traces that a filter finds', async () => {
    const filter = encodeURIComponent('eq(thread_id, "one")')
    expect(await list(`include_stats=true&stats_filter=${filter}`)).toMatchObject({
      run_count: 2,
      latency_p50: 1.5,
      total_tokens: 23,
      total_cost: '2.3',
      error_rate: 0.5,
      run_facets: null,
      feedback_stats: { helpful: { n: 1, avg: 0 } },
    })
    const none = encodeURIComponent('eq(name, "none")')
    expect(await list(`include_stats=true&stats_filter=${none}`)).toMatchObject({ run_count: 0, latency_p50: null })
    expect(await list(`include_stats=true`)).toMatchObject({ run_count: 4, total_tokens: 50 })
    const selected = await list(`include_stats=true&stats_select=run_count&stats_filter=${filter}`)
    expect(selected).toMatchObject({ run_count: 2, total_tokens: null })
    expect(await tenant.get('/sessions?stats_filter=eq(')).toMatchObject({
      status: 400,
      body: { code: 'filter_invalid' },
    })
  })

  it('are listed with the facets of their roots, for callers that may read runs', async () => {
    const { run_facets, run_count } = await list('facets=true')
    expect(run_count).toBeNull()
    expect(run_facets).toContainEqual({ key: 'tag', value: 'odd', query: 'has(tags, "odd")', n: 2 })
    expect(run_facets.map(({ value }: { value: string }) => value)).not.toContain('model')
    const reader = await newLimitedCaller(tenant, ['projects:read'], [])
    expect(await list('facets=true', reader)).toMatchObject({ id: project, run_facets: null })
  })
})

it('a run is known to be in a dataset, and when it was queued', async () => {
  const [[root]] = traces as [RunInput[]]
  const read = async () => (await tenant.get(`/runs/${root!.id}`)).body
  expect(await read()).toMatchObject({ in_dataset: false, last_queued_at: null })
  const dataset = await tenant.post('/datasets', { name: 'Examples' })
  const example = await tenant.post('/examples', { dataset_id: dataset.body.id, inputs: {}, source_run_id: root!.id })
  const queue = await tenant.post('/annotation-queues', { name: 'Queue' })
  expect((await tenant.post(`/annotation-queues/${queue.body.id}/runs`, [root!.id])).status).toBe(200)
  const [{ added_at }] = (await tenant.get(`/annotation-queues/${queue.body.id}/runs`)).body
  const { in_dataset, last_queued_at } = await read()
  expect(in_dataset).toBe(true)
  expect(Date.parse(last_queued_at)).toBe(Date.parse(added_at))
  await tenant.delete(`/examples/${example.body.id}`)
  expect((await read()).in_dataset).toBe(false)
})
