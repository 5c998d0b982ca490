// The charts of a project, its statistics and the metadata of its runs.
import { describe, expect, it } from 'vitest'
import { STATISTICS } from '../../src/tracing/projects/projects.schema.ts'
import { newTenant, type Reply, type Tenant, unusedId } from '../support/app.ts'
import { storeRuns } from '../support/runs.ts'

const outcome = ({ status, body }: Reply) => [status, body?.code]
const NOON = Date.parse('2026-11-22T12:00:00Z')
const at = (seconds: number) => new Date(NOON + seconds * 1000).toISOString()
const usage = (tokens: number, cost: number) =>
  JSON.stringify({
    usage_metadata: { input_tokens: tokens, output_tokens: 1, total_tokens: tokens + 1, total_cost: cost },
  })
const newProject = async (tenant: Tenant) => (await tenant.post('/sessions', { name: 'shop' })).body.id as string
/** Three traces: of 1 s at noon, of 3 s that failed at noon, and of 2 s an hour later. */
const storeDay = (tenant: Tenant) =>
  storeRuns(tenant, [
    { session_name: 'shop', start_time: at(0), end_time: at(1), outputs: usage(10, 0.25) },
    { session_name: 'shop', start_time: at(60), end_time: at(63), error: 'boom' },
    { session_name: 'shop', start_time: at(3600), end_time: at(3602), outputs: usage(20, 0.5) },
  ])

describe('the statistics of a project', () => {
  it('are those of its traces and its feedback', async () => {
    const tenant = await newTenant()
    const id = await newProject(tenant)
    const runs = await storeDay(tenant)
    for (const [i, score] of [1, 0, 0.5].entries())
      await tenant.post('/feedback', { run_id: runs[i], key: 'good', score, value: i < 2 ? 'yes' : 'no' })
    await tenant.post('/feedback', { session_id: id, key: 'whole', score: 2, error: true })
    const { body } = await tenant.get(`/sessions/${id}?include_stats=true`)
    expect(body).toMatchObject({
      run_count: 3,
      total_tokens: 32,
      prompt_tokens: 30,
      completion_tokens: 2,
      total_cost: '0.75',
      error_rate: 1 / 3,
      streaming_rate: 0,
      last_run_start_time: at(3600),
      test_run_number: null,
      feedback_stats: { good: { n: 3, avg: 0.5, min: 0, max: 1, errors: 0, values: { yes: 2, no: 1 } } },
      session_feedback_stats: { whole: { n: 1, avg: 2, errors: 1 } },
    })
    expect(Math.abs(body.latency_p50 - 2) / 2).toBeLessThan(0.05)
    expect(Math.abs(body.latency_p99 - 3) / 3).toBeLessThan(0.05)
  })

  it('count from a time on, and only the requested ones', async () => {
    const tenant = await newTenant()
    const id = await newProject(tenant)
    await storeDay(tenant)
    const query = `include_stats=true&stats_start_time=${at(1800)}&stats_select=run_count&stats_select=latency_p50`
    const [body] = (await tenant.get(`/sessions?id=${id}&${query}`)).body
    expect(body).toMatchObject({ run_count: 1, error_rate: null, latency_p50: expect.any(Number), latency_p99: null })
    const [without] = (await tenant.get('/sessions')).body
    expect(without).toMatchObject({ run_count: null, latency_p50: null, feedback_stats: null })
  })

  it.each(STATISTICS)('have %s alone, if only that is asked for', async name => {
    const tenant = await newTenant()
    const id = await newProject(tenant)
    const [run] = await storeDay(tenant)
    await tenant.post('/feedback', { run_id: run, key: 'good', score: 1 })
    await tenant.post('/feedback', { session_id: id, key: 'whole', score: 1 })
    const { body } = await tenant.get(`/sessions/${id}?include_stats=true`)
    const [listed] = (await tenant.get(`/sessions?include_stats=true&stats_select=${name}`)).body
    const others = STATISTICS.filter(other => other !== name)
    expect(listed[name]).toEqual(body[name])
    expect(others.filter(other => listed[other] !== null)).toEqual([])
  })

  it('sort and filter the list', async () => {
    const tenant = await newTenant()
    await newProject(tenant)
    await storeDay(tenant)
    const [run] = await storeRuns(tenant, [{ session_name: 'quick', start_time: at(0), end_time: at(0.1) }])
    await tenant.post('/feedback', { run_id: run, key: 'good', score: 1 })
    await tenant.post('/sessions', { name: 'empty' })
    const namesOf = async (query: string) =>
      (await tenant.get(`/sessions?${query}`)).body.map(({ name }: { name: string }) => name)
    for (const [query, names] of [
      ['sort_by=latency_p50', ['shop', 'quick', 'empty']],
      ['sort_by=latency_p99&sort_by_desc=false', ['quick', 'shop', 'empty']],
      ['sort_by=error_rate', ['shop', 'quick', 'empty']],
      ['sort_by=runs_count', ['shop', 'quick', 'empty']],
      ['sort_by=last_run_start_time&limit=1', ['shop']],
      ['sort_by=feedback&sort_by_feedback_key=good&limit=1', ['quick']],
      [`filter=${encodeURIComponent('gt(latency_p99, "2s")')}`, ['shop']],
      [`filter=${encodeURIComponent('and(gt(run_count, 0), eq(error_rate, 0))')}`, ['quick']],
      [`filter=${encodeURIComponent('gte(total_cost, 0.75)')}`, ['shop']],
    ] as const)
      expect(await namesOf(query), query).toEqual(names)
  })
})

describe('the charts of a project', () => {
  const DAY = { start_time: at(0), end_time: at(7200), stride: { hours: 1 } }
  type Chart = { id: string; data: { series_id: string; timestamp: string; value: number | null }[] }
  const readCharts = async (tenant: Tenant, id: string, body: object) => {
    const reply = await tenant.post(`/sessions/${id}/dashboard`, body)
    expect(reply.status, reply.text).toBe(200)
    return reply.body.sub_sections.flatMap(({ charts }: { charts: Chart[] }) => charts) as Chart[]
  }
  const valuesOf = (charts: Chart[], chart: string, series: string) =>
    charts
      .find(({ id }) => id === chart)!
      .data.filter(({ series_id }) => series_id === `${chart}-${series}`)
      .map(({ value }) => value)

  it('have a point for each stride', async () => {
    const tenant = await newTenant()
    const id = await newProject(tenant)
    const [run] = await storeDay(tenant)
    await tenant.post('/feedback', { run_id: run, key: 'good', score: 0.5, created_at: at(60) })
    const charts = await readCharts(tenant, id, DAY)
    expect(valuesOf(charts, 'traces', 'all')).toEqual([2, 1])
    expect(valuesOf(charts, 'traces', 'failed')).toEqual([1, 0])
    expect(valuesOf(charts, 'error-rate', 'error-rate')).toEqual([0.5, 0])
    expect(valuesOf(charts, 'tokens', 'all')).toEqual([11, 21])
    expect(valuesOf(charts, 'cost', 'all')).toEqual([0.25, 0.5])
    expect(valuesOf(charts, 'good', 'average-score')).toEqual([0.5, null])
    expect(valuesOf(charts, 'latency', 'median').map(value => Math.round(value!))).toEqual([1, 2])
    expect(charts[0]!.data.map(({ timestamp }) => timestamp)).toEqual([at(0), at(3600), at(0), at(3600)])
  })

  it('are known without their points, and empty for a project without runs', async () => {
    const tenant = await newTenant()
    const id = await newProject(tenant)
    for (const chart of await readCharts(tenant, id, { omit_data: true })) expect(chart.data).toEqual([])
    expect(valuesOf(await readCharts(tenant, id, DAY), 'traces', 'all')).toEqual([0, 0])
  })

  it.each([
    [{ stride: { minutes: 0 } }, 'stride'],
    [{ ...DAY, stride: { minutes: 0, hours: 0, days: 0 } }, 'stride'],
    [{ start_time: at(0), end_time: at(0) }, 'start_time'],
    [{ start_time: '2020-01-01T00:00:00Z', stride: { minutes: 1 } }, 'stride'],
    [{ group_by: { attribute: 'name' } }, 'group_by'],
  ])('cannot be asked with %j', async (body, member) => {
    const tenant = await newTenant()
    const reply = await tenant.post(`/sessions/${await newProject(tenant)}/dashboard`, body)
    expect(outcome(reply)).toEqual([422, 'invalid_request'])
    expect(reply.body.errors[0].loc).toEqual(['body', member])
  })
})

describe('the metadata of a project', () => {
  it('is that of its runs, the most frequent values first', async () => {
    const tenant = await newTenant()
    const id = await newProject(tenant)
    const withMetadata = (metadata: unknown) => ({ session_name: 'shop', extra: JSON.stringify({ metadata }) })
    await storeRuns(tenant, [
      withMetadata({ team: 'a', n: 1 }),
      withMetadata({ team: 'b', long: 'x'.repeat(300) }),
      withMetadata({ team: 'b', nested: { c: 1 } }),
    ])
    const read = async (query = '') => (await tenant.get(`/sessions/${id}/metadata?${query}`)).body
    expect(await read()).toEqual({ n: ['1'], nested: [expect.stringMatching(/^{"c": ?1}$/)], team: ['b', 'a'] })
    expect(await read('metadata_keys=team&k=1')).toEqual({ team: ['b'] })
    expect(await read('root_runs_only=true&metadata_keys=n')).toEqual({ n: ['1'] })
    expect(await read(`start_time=${new Date(Date.now() + 60_000).toISOString()}`)).toEqual({})
    expect(outcome(await tenant.get(`/sessions/${unusedId()}/metadata`))).toEqual([404, 'project_not_found'])
  })
})
