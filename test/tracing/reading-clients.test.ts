// The published clients read runs, traces, threads, statistics and links.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { send } from '../support/app.ts'
import { connectClient, VERSIONS } from '../support/tracing-clients.ts'

type Connected = Awaited<ReturnType<typeof connectClient>>
type Listed = Parameters<Connected['client']['listRuns']>[0]

const collect = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}
const refused = ({ requests }: Connected) => requests.filter(({ status }) => status >= 400)

/** Both versions print that some methods will go, and nothing else. */
let warnings: string[]
beforeEach(() => {
  warnings = []
  vi.spyOn(console, 'warn').mockImplementation(text => warnings.push(String(text)))
  vi.spyOn(process, 'emitWarning').mockImplementation(text => warnings.push(String(text)))
})
afterEach(() => {
  vi.restoreAllMocks()
  expect(warnings.filter(text => !text.includes(' is deprecated and will be removed'))).toEqual([])
})

/** Three questions, of which the last fails; the first two are of one thread. A model runs below each. */
async function trace({ client, RunTree }: Connected) {
  const roots: InstanceType<Connected['RunTree']>[] = []
  for (const [i, thread_id] of ['one', 'one', 'a/b'].entries()) {
    const root = new RunTree({
      name: `question ${i}`,
      run_type: 'chain',
      inputs: { question: `q${i}` },
      tags: ['shop'],
      project_name: 'shop',
      client,
      tracingEnabled: true,
      extra: { metadata: { thread_id, user: 'ada' } },
      start_time: Date.now() - 10_000 + i * 1000,
    })
    await root.postRun()
    const model = root.createChild({ name: 'model', run_type: 'llm', inputs: {} })
    await model.postRun()
    await model.end({ usage_metadata: { input_tokens: i + 1, output_tokens: 1, total_tokens: i + 2, input_cost: 0.5 } })
    await model.patchRun()
    await root.end({ answer: `a${i}` }, i === 2 ? 'boom' : undefined)
    await root.patchRun()
    roots.push(root)
  }
  await client.awaitPendingTraceBatches()
  return roots.map(({ id }) => id)
}

describe.each(VERSIONS)('langsmith %s', version => {
  it('lists runs by each of its options, and page by page', async () => {
    const connected = await connectClient(version)
    const { client } = connected
    const [first, second, third] = await trace(connected)
    const project = await client.readProject({ projectName: 'shop' })
    const list = async (options: Listed) =>
      (await collect(client.listRuns({ projectName: 'shop', ...options }))).map(({ name }) => name)
    const roots = ['question 2', 'question 1', 'question 0']
    const cases: [Listed, string[]][] = [
      [{ isRoot: true }, roots],
      [{ isRoot: true, order: 'asc' }, roots.toReversed()],
      [{ executionOrder: 1, isRoot: true, limit: 2 }, roots.slice(0, 2)],
      [{ runType: 'llm' }, ['model', 'model', 'model']],
      [{ error: true }, ['question 2']],
      [{ isRoot: true, error: false }, roots.slice(1)],
      [{ id: [first!, third!] }, ['question 2', 'question 0']],
      [{ traceId: second! }, ['model', 'question 1']],
      [{ parentRunId: first! }, ['model']],
      [{ startTime: new Date(Date.now() + 60_000) }, []],
      [{ filter: 'and(eq(run_type, "chain"), lt(latency, "5m"), has(tags, "shop"))' }, roots],
      [{ filter: 'eq(run_type, "llm")', traceFilter: 'eq(name, "question 1")' }, ['model']],
      [{ isRoot: true, treeFilter: 'gt(prompt_tokens, 2)' }, ['question 2']],
      [{ query: 'q1' }, ['question 1']],
    ]
    for (const [options, names] of cases) expect(await list(options), JSON.stringify(options)).toEqual(names)
    expect(await collect(client.listRuns({ projectId: [project.id], isRoot: true }))).toHaveLength(3)
    const [run] = await collect(client.listRuns({ id: [first!], select: ['inputs', 'outputs', 'total_tokens'] }))
    expect(run).toMatchObject({ inputs: { question: 'q0' }, outputs: { answer: 'a0' }, total_tokens: 2 })
    expect(run).not.toHaveProperty('extra')
    expect(refused(connected)).toEqual([])
  })

  it('reads a run with those below it, and where it is shown', async () => {
    const connected = await connectClient(version)
    const { client, tenant } = connected
    const [first] = await trace(connected)
    const run = await client.readRun(first!, { loadChildRuns: true })
    expect(run).toMatchObject({
      id: first,
      name: 'question 0',
      status: 'success',
      total_tokens: 2,
      prompt_cost: '0.5',
      thread_id: 'one',
      child_runs: [{ name: 'model', parent_run_id: first }],
    })
    const path = `/o/${tenant.tenant_id}/projects/p/${run.session_id}/r/${first}`
    expect(await client.getRunUrl({ runId: first! })).toContain(path)
    expect(await client.getRunUrl({ run })).toContain(path)
    expect(await client.getProjectUrl({ projectName: 'shop' })).toContain(`/projects/p/${run.session_id}`)
    await expect(client.readRun(crypto.randomUUID())).rejects.toThrow(/not found/i)
  })

  it('adds up runs, and lists threads', async () => {
    const connected = await connectClient(version)
    const { client } = connected
    const [first, second] = await trace(connected)
    const stats = await client.getRunStats({ projectNames: ['shop'], isRoot: true })
    expect(stats).toMatchObject({ run_count: 3, total_tokens: 9, error_rate: 1 / 3, prompt_cost: 1.5 })
    const failed = await client.getRunStats({ projectNames: ['shop'], filter: 'neq(error, null)' })
    expect(failed).toMatchObject({ run_count: 1 })
    const groups = await collect(client.listGroupRuns({ projectName: 'shop', groupBy: 'conversation', limit: 1 }))
    expect(groups).toMatchObject([
      { thread_id: 'a/b', count: 1, total_tokens: 4, last_error: 'boom' },
      { thread_id: 'one', count: 2, total_tokens: 5, first_inputs: 'q0', last_outputs: 'a1' },
    ])
    const threads = await client.listThreads({ projectName: 'shop' })
    expect(threads.map(({ thread_id, count }) => [thread_id, count])).toEqual([
      ['a/b', 1],
      ['one', 2],
    ])
    const turns = await collect(client.readThread({ threadId: 'one', projectName: 'shop' }))
    expect(turns.map(({ id }) => id)).toEqual([first, second])
    expect(refused(connected)).toEqual([])
  })

  it('shows a run by a link, until it is taken back', async () => {
    const connected = await connectClient(version)
    const { client } = connected
    const [first] = await trace(connected)
    const shareId = crypto.randomUUID()
    const link = await client.shareRun(first!, { shareId })
    expect(link).toContain(`/public/${shareId}/r`)
    expect(await client.readRunSharedLink(first!)).toBe(link)
    const read = () => send('POST', `/public/${shareId}/runs/query`, { body: {} })
    expect((await read()).body.runs).toMatchObject([{ id: first, outputs: { answer: 'a0' } }])
    await client.unshareRun(first!)
    expect(await client.readRunSharedLink(first!)).toBeUndefined()
    expect((await read()).status).toBe(404)
  })

  it('makes several links for feedback at once', async () => {
    const connected = await connectClient(version)
    const { client, tenant } = connected
    const [first] = await trace(connected)
    const link = await client.createPresignedFeedbackToken(first!, 'helpful')
    const { pathname } = new URL(link.url)
    expect((await send('POST', pathname, { body: { score: 1, comment: 'Yes.' } })).status).toBe(200)
    expect((await tenant.get(`/feedback?run=${first}`)).body).toMatchObject([
      { key: 'helpful', score: 1, comment: 'Yes.' },
    ])
    expect(refused(connected)).toEqual([])
  })
})

describe('the resources of langsmith 0.12.0', () => {
  it('query, read and share runs and traces', async () => {
    const connected = await connectClient('0.12.0')
    const { client, tenant } = connected
    const [first, , third] = await trace(connected)
    const { id: project } = await client.readProject({ projectName: 'shop' })
    const of = { project_ids: [project] }
    const runs = await collect(client.runs.query({ ...of, page_size: 2 }))
    expect(runs).toHaveLength(6)
    expect(Object.keys(runs[0]!)).toEqual(['id'])
    const selects = ['NAME', 'RUN_TYPE', 'STATUS', 'LATENCY_SECONDS', 'METADATA', 'PROMPT_COST', 'IS_ROOT'] as const
    const failed = { ...of, is_root: true, has_error: true, selects: [...selects] }
    expect(await collect(client.runs.query(failed))).toEqual([
      {
        name: 'question 2',
        run_type: 'CHAIN',
        status: 'ERROR',
        latency_seconds: expect.any(Number),
        metadata: expect.objectContaining({ thread_id: 'a/b' }),
        prompt_cost: 0.5,
        is_root: true,
      },
    ])
    const narrow = { run_type: 'LLM', trace_filter: 'eq(name, "question 0")', selects: ['TRACE_ID'] } as const
    expect(await collect(client.runs.query({ ...of, ...narrow, selects: ['TRACE_ID'] }))).toEqual([{ trace_id: first }])
    expect(await collect(client.runs.query({ ...of, ids: [third!] }))).toEqual([{ id: third }])
    expect(await collect(client.runs.query({ ...of, max_start_time: '2020-01-01T00:00:00Z' }))).toEqual([])

    const url = await client.runs.getURL(first!, { project_id: project, trace_id: first! })
    expect(url.url).toContain(`/o/${tenant.tenant_id}/projects/p/${project}/r/${first}`)
    const { share_token } = await client.runs.share.create(first!, { session_id: project, trace_id: first! })
    const run = await client.runs.retrieve(first!, { project_id: project, selects: ['INPUTS', 'SHARE_URL'] })
    expect(run).toEqual({ inputs: { question: 'q0' }, share_url: expect.stringContaining(`/public/${share_token}/r`) })
    const shared = await client.public.runs.query(share_token!, { selects: ['ID', 'NAME'] })
    expect(shared.items).toMatchObject([{ id: first, name: 'question 0' }, { name: 'model' }])
    const below = { share_token: share_token!, selects: ['NAME'], start_time: '2026-11-24T00:00:00Z' }
    expect(await client.public.runs.retrieve(shared.items![1]!.id!, below)).toEqual({ name: 'model' })
    await client.runs.share.delete(first!, { session_id: project })
    expect((await client.runs.retrieve(first!, { project_id: project, selects: ['SHARE_URL'] })).share_url).toBeNull()

    const traces = await collect(client.traces.query({ project_id: project, selects: ['NAME'], page_size: 2 }))
    expect(traces).toMatchObject([
      { root_run: { name: 'question 2' }, trace_aggregates: { total_tokens: 4, total_cost: 0.5 } },
      { root_run: { name: 'question 1' } },
      { root_run: { name: 'question 0' } },
    ])
    const { items } = await client.traces.listRuns(first!, { project_id: project, selects: ['NAME', 'IS_ROOT'] })
    expect(items).toEqual([
      { name: 'question 0', is_root: true },
      { name: 'model', is_root: false },
    ])
    expect(refused(connected)).toEqual([])
  })

  it('list projects and experiments, page by page', async () => {
    const connected = await connectClient('0.12.0')
    const { client } = connected
    await trace(connected)
    const dataset = await client.createDataset('questions')
    await client.createProject({ projectName: 'experiment', referenceDatasetId: dataset.id })
    const named = { sort_by: 'NAME', sort_order: 'asc', page_size: 1, include_stats: true } as const
    expect(await collect(client.sessions.listV2(named))).toMatchObject([
      { name: 'experiment', type: 'EXPERIMENT', run_count: 0, trace_tier: 'SHORT_LIVED' },
      { name: 'shop', type: 'PROJECT', run_count: 3, total_tokens: 9, total_cost: 1.5 },
    ])
    const facets = await collect(client.sessions.listV2({ type: ['PROJECT'], include_facets: true }))
    expect(facets).toMatchObject([{ name: 'shop', run_facets: expect.arrayContaining([expect.any(Object)]) }])
    expect(await collect(client.sessions.listV2({ type: ['AGENT'] }))).toEqual([])
    expect(refused(connected)).toEqual([])
  })

  it('query threads, their traces and their totals', async () => {
    const connected = await connectClient('0.12.0')
    const { client } = connected
    const [first, second] = await trace(connected)
    const { id: project_id } = await client.readProject({ projectName: 'shop' })
    const threads = await collect(client.threads.query({ project_id, page_size: 1 }))
    expect(threads).toMatchObject([
      { thread_id: 'a/b', count: 1, num_errored_turns: 1, last_error: 'boom', total_tokens: 4 },
      { thread_id: 'one', count: 2, first_trace_id: first, last_trace_id: second, total_cost: 1 },
    ])
    const selects = ['NAME', 'TURN_NUMBER', 'TOTAL_TOKENS', 'LATENCY'] as const
    const turns = client.threads.listTraces('one', { project_id, selects: [...selects], page_size: 1 })
    expect(await collect(turns)).toMatchObject([
      { trace_id: first, name: 'question 0', turn_number: 1, total_tokens: 2 },
      { trace_id: second, name: 'question 1', turn_number: 2, latency: expect.any(Number) },
    ])
    expect(await collect(client.threads.listTraces('a/b', { project_id }))).toHaveLength(1)
    const stats = { session_id: project_id, selects: ['TURNS' as const, 'TOTAL_TOKENS' as const] }
    expect(await client.threads.stats('one', stats)).toEqual({ turns: 2, total_tokens: 5 })
    const aggregates = await client.threads.aggregateStats({ project_id, select: ['THREAD_COUNT', 'TRACE_COUNT'] })
    expect(aggregates).toEqual({ thread_count: 2, trace_count: 3 })
    expect(refused(connected)).toEqual([])
  })
})
