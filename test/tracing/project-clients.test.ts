// The published clients work with projects, feedback and experiments.
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { getServices, send, unusedId } from '../support/app.ts'
import { connectClient, isWorker, type SentRequest, VERSIONS, type Version } from '../support/tracing-clients.ts'

type Client = Awaited<ReturnType<typeof connectClient>>['client']
const EVALUATIONS = {
  '0.12.0': () => import('langsmith/evaluation'),
  '0.7.0': async () => (await import('langsmith-0-7/evaluation')) as unknown as typeof import('langsmith/evaluation'),
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}
const refused = (requests: SentRequest[]) => requests.filter(({ status }) => status >= 400)

/** A root run that has ended. Returns its id. */
async function trace({ client, RunTree }: Awaited<ReturnType<typeof connectClient>>, project: string): Promise<string> {
  const run = new RunTree({ name: 'answer', run_type: 'llm', project_name: project, client, tracingEnabled: true })
  await run.postRun()
  await run.end({ usage_metadata: { input_tokens: 2, output_tokens: 3, total_tokens: 5 } })
  await run.patchRun()
  await client.awaitPendingTraceBatches()
  return run.id
}

describe.each(VERSIONS)('langsmith %s', version => {
  it('creates, finds, reads, changes, lists and deletes projects', async () => {
    const connected = await connectClient(version)
    const { client, requests, tenant } = connected
    const shop = await client.createProject({ projectName: 'shop', description: 'Sells.', metadata: { team: 'a' } })
    expect(shop).toMatchObject({ name: 'shop', description: 'Sells.', extra: { metadata: { team: 'a' } } })
    expect(await client.createProject({ projectName: 'shop', upsert: true })).toMatchObject({ id: shop.id })
    expect([
      await client.hasProject({ projectName: 'shop' }),
      await client.hasProject({ projectId: shop.id }),
      await client.hasProject({ projectName: 'none' }),
    ]).toEqual([true, true, false])
    const run = await trace(connected, 'shop')
    await client.createFeedback(run, 'correct', { score: 1 })
    const read = await client.readProject({ projectName: 'shop', includeStats: true })
    expect(read).toMatchObject({
      id: shop.id,
      tenant_id: tenant.tenant_id,
      run_count: 1,
      total_tokens: 5,
      error_rate: 0,
    })
    expect(read).toMatchObject({ feedback_stats: { correct: { n: 1, avg: 1 } } })
    await client.updateProject(shop.id, { name: 'store', metadata: { team: 'b' }, endTime: '2026-11-30T00:00:00Z' })
    expect(await client.readProject({ projectId: shop.id })).toMatchObject({
      name: 'store',
      description: 'Sells.',
      extra: { metadata: { team: 'b' } },
      end_time: '2026-11-30T00:00:00.000Z',
    })
    const listed = await collect(client.listProjects({ metadata: { team: 'b' }, includeStats: true }))
    expect(listed).toMatchObject([{ name: 'store', run_count: 1 }])
    expect(refused(requests)).toEqual([])
    await client.deleteProject({ projectName: 'store' })
    expect(await client.hasProject({ projectName: 'store' })).toBe(false)
  })

  it('gives, changes, lists and deletes feedback', async () => {
    const connected = await connectClient(version)
    const { client, requests, tenant } = connected
    const run = await trace(connected, 'shop')
    const options = { score: 0.12345, comment: 'Nearly.', value: 'fair', correction: { answer: '42' } }
    const { id } = await client.createFeedback(run, 'correct', options)
    expect(await client.readFeedback(id)).toMatchObject({ ...options, score: 0.1235, run_id: run, trace_id: run })
    // A newer client sends this with the runs, and an older one takes no trace.
    await client.createFeedback(run, 'helpful', { score: true, traceId: run } as { score: boolean })
    await client.awaitPendingTraceBatches()
    await client.updateFeedback(id, { score: 0 })
    const listed = await collect(client.listFeedback({ runIds: [run], feedbackKeys: ['correct', 'helpful'] }))
    expect(listed.map(({ key, score }) => [key, score]).sort()).toEqual([
      ['correct', 0],
      ['helpful', 1],
    ])
    expect(await collect(client.listFeedback({ runIds: [run], feedbackSourceTypes: ['model'] }))).toEqual([])
    await client.deleteFeedback(id)
    expect((await tenant.get(`/feedback?run=${run}`)).body).toHaveLength(1)
    expect(refused(requests)).toEqual([])
    const posts = requests.filter(({ method, path }) => method === 'POST' && path === '/feedback')
    expect(posts).toHaveLength(version === '0.12.0' ? 1 : 2)
  })

  it('makes links for feedback without a key', async () => {
    const { client, tenant } = await connectClient(version)
    const run = unusedId()
    const link = await client.createPresignedFeedbackToken(run, 'helpful', { expiration: { hours: 1 } })
    expect((await send('GET', `${new URL(link.url).pathname}?score=1`)).status).toBe(200)
    expect((await tenant.get(`/feedback?run=${run}`)).body).toMatchObject([{ key: 'helpful', score: 1 }])
    expect(await collect(client.listPresignedFeedbackTokens(run))).toEqual([link])
  })

  it('configures the keys of feedback', async () => {
    const { client } = await connectClient(version)
    const configuration = { feedbackKey: 'stars', feedbackConfig: { type: 'continuous', min: 1, max: 5 } as const }
    expect(await client.createFeedbackConfig(configuration)).toMatchObject({ feedback_key: 'stars' })
    await client.updateFeedbackConfig('stars', { isLowerScoreBetter: true })
    expect(await collect(client.listFeedbackConfigs())).toMatchObject([{ is_lower_score_better: true }])
    await client.deleteFeedbackConfig('stars')
    expect(await collect(client.listFeedbackConfigs())).toEqual([])
  })

  // The client asks git about the working directory, by a process, which workerd has none of.
  it.skipIf(isWorker)('evaluates a function over a dataset', async () => {
    const { client, tenant, requests } = await connectClient(version)
    const experiment = await evaluateSum(version, client)
    await getServices().traces.attachFeedback(getServices())
    const [project] = (await tenant.get(`/sessions?name=${experiment}&include_stats=true`)).body
    expect(project).toMatchObject({
      run_count: 2,
      error_rate: 0,
      test_run_number: 1,
      reference_dataset_id: expect.any(String),
      feedback_stats: { exact: { n: 2, avg: 0.5 } },
      session_feedback_stats: { total: { n: 1, avg: 7 } },
    })
    expect(project.extra.metadata.dataset_version).toEqual(expect.any(String))
    expect(refused(requests)).toEqual([])
  })
})

// Evaluations ask git, as above.
it.skipIf(isWorker).each(VERSIONS)('langsmith %s compares experiments on a dataset', async version => {
  const { client, tenant, requests } = await connectClient(version)
  const first = await evaluateSum(version, client)
  const { reference_dataset_id: datasetId } = await client.readProject({ projectName: first })
  const { name } = await client.readDataset({ datasetId: datasetId! })
  const second = await evaluateSum(version, client, name)
  const { evaluateComparative } = await EVALUATIONS[version]()
  const prefer = ({ runs }: { runs: { id: string }[] }) => ({
    key: 'preferred',
    scores: Object.fromEntries(runs.map(({ id }, i) => [id, i])),
  })
  const { experimentName, results } = await evaluateComparative([first, second], {
    client,
    evaluators: [prefer as never],
    description: 'Pairs',
    metadata: { team: 'core' },
  })
  await client.awaitPendingTraceBatches()
  expect(results).toHaveLength(2)
  const { body } = await tenant.get(`/datasets/${datasetId}/comparative?name_contains=${experimentName}`)
  expect(body).toMatchObject([
    {
      name: experimentName,
      description: 'Pairs',
      reference_dataset_id: datasetId,
      extra: { metadata: { team: 'core' } },
      experiments_info: [{ name: first }, { name: second }],
      feedback_stats: { preferred: { n: 4, avg: 0.5 } },
    },
  ])
  expect(refused(requests)).toEqual([])
})

/** Evaluates two examples, one with a wrong reference. Returns the name of the experiment. */
async function evaluateSum(version: Version, client: Client, data = ''): Promise<string> {
  const { evaluate } = await EVALUATIONS[version]()
  // The client reads only this variable before it traces a target, and prints its progress.
  vi.stubEnv('LANGSMITH_TRACING', 'true')
  vi.stubEnv('LANGSMITH_TEST_TRACKING', '')
  const log = vi.spyOn(console, 'log').mockImplementation(() => {})
  onTestFinished(() => {
    vi.unstubAllEnvs()
    log.mockRestore()
  })
  const exact = ({ outputs, referenceOutputs }: Record<string, { sum: number }>) => ({
    key: 'exact',
    score: outputs!.sum === referenceOutputs!.sum ? 1 : 0,
  })
  const total = ({ outputs }: { outputs: { sum: number }[] }) => ({
    key: 'total',
    score: outputs.reduce((sum, one) => sum + one.sum, 0),
  })
  const results = await evaluate((inputs: { a: number; b: number }) => ({ sum: inputs.a + inputs.b }), {
    data: data || (await createSums(client)),
    client,
    experimentPrefix: 'sums',
    evaluators: [exact as never],
    summaryEvaluators: [total as never],
  })
  await client.awaitPendingTraceBatches()
  return results.experimentName
}

async function createSums(client: Client): Promise<string> {
  const { id, name } = await client.createDataset(`sums-${unusedId()}`)
  await client.createExamples([
    { dataset_id: id, inputs: { a: 1, b: 2 }, outputs: { sum: 3 } },
    { dataset_id: id, inputs: { a: 2, b: 2 }, outputs: { sum: 5 } },
  ])
  return name
}
