// Calls of the operations on datasets, examples, annotation queues and runs, each with things of its own.
import { type Tenant, unusedId } from './app.ts'
import { appendRuns, newTrace, projectId } from './new-traces.ts'
import { joinParts, MULTIPART, part } from './parts.ts'

/** `create` posts a body, and returns the id of the new resource. */
export function makeDataCalls(
  tenant: Tenant,
  create: (path: string, body?: unknown) => Promise<string>,
  identity_id: string,
) {
  const newDataset = () => create('/datasets', { name: `dataset-${unusedId()}` })
  const newExample = async () => {
    const dataset_id = await newDataset()
    return { dataset_id, example_id: await create('/examples', { dataset_id, inputs: { a: 1 } }) }
  }
  const makeForm = (id: string) => ({
    raw: joinParts([part(id, {}), part(`${id}.inputs`, { a: 2 })]),
    headers: { 'Content-Type': MULTIPART },
  })
  const newExperiment = async () => create('/sessions', { name: unusedId(), reference_dataset_id: await newDataset() })
  const newQueue = () => create('/annotation-queues', { name: 'Queue' })
  const newModel = () =>
    create('/v1/model-configurations', { name: unusedId(), provider: 'openai', model: 'gpt', auth_type: 'none' })
  const judge = async () => ({
    playground_settings_id: await newModel(),
    prompt: [['user', '{output}']],
    schema: { properties: { helpful: { type: 'boolean' } } },
  })
  const newEvaluator = async (): Promise<string> => {
    const body = { name: unusedId(), llm_evaluator: await judge() }
    return (await tenant.post('/v1/platform/evaluators', body)).body.evaluator.id
  }
  const newRun = async () => {
    const { root } = newTrace()
    await appendRuns(tenant, [root])
    return root.id
  }
  const newSharedRun = async () => {
    const run_id = await newRun()
    await tenant.put(`/runs/${run_id}/share`, {})
    return { params: { run_id } }
  }
  const newThread = async () => {
    const [thread_id, { root }] = [unusedId(), newTrace()]
    await appendRuns(tenant, [{ ...root, extra: JSON.stringify({ metadata: { thread_id } }) }])
    return { thread_id, project_id: await projectId(tenant, 'traced') }
  }
  const deletion = async () => ({
    body: { trace_ids: [await newRun()], session_id: await projectId(tenant, 'traced') },
  })
  const newInsight = async (path: string, body: object) => {
    const session_id = await create('/sessions', { name: unusedId() })
    return { session_id, id: await create(`/sessions/${session_id}/insights${path}`, body) }
  }
  const newJob = async () => {
    const { session_id, id } = await newInsight('', { model: 'none' })
    return { params: { session_id, job_id: id } }
  }
  const newConfig = async () => {
    const { session_id, id } = await newInsight('/configs', { name: 'Config', config: { model: 'none' } })
    return { params: { session_id, config_id: id } }
  }
  return {
    createProjectV2: async () => ({ body: { type: 'PROJECT', name: unusedId() } }),
    changeProjectV2: async () => ({ body: { description: unusedId() } }),
    renameInsightJob: newJob,
    deleteInsightJob: newJob,
    changeInsightConfig: newConfig,
    deleteInsightConfig: newConfig,
    deleteDataset: async () => ({ params: { dataset_id: await newDataset() } }),
    deleteDatasets: async () => ({ path: `/datasets?dataset_ids=${await newDataset()}` }),
    tagDatasetVersion: async () => ({ params: await newExample() }),
    changeDatasetSplit: async () => {
      const { dataset_id, example_id } = await newExample()
      return { params: { dataset_id }, body: { split_name: 'train', examples: [example_id] } }
    },
    cloneDataset: async () => {
      const { dataset_id } = await newExample()
      return { body: { source_dataset_id: dataset_id, target_dataset_id: await newDataset() } }
    },
    shareDataset: async () => ({ params: { dataset_id: await newDataset() } }),
    unshareDataset: async () => {
      const dataset_id = await newDataset()
      await tenant.put(`/datasets/${dataset_id}/share`)
      return { params: { dataset_id } }
    },
    changeModelConfiguration: async () => ({ params: { configuration_id: await newModel() } }),
    deleteModelConfiguration: async () => ({ params: { configuration_id: await newModel() } }),
    createOnlineEvaluator: async () => ({ body: { name: unusedId(), llm_evaluator: await judge() } }),
    changeOnlineEvaluator: async () => ({ params: { evaluator_id: await newEvaluator() } }),
    deleteOnlineEvaluator: async () => ({ params: { evaluator_id: await newEvaluator() } }),
    deleteOnlineEvaluators: async () => ({
      path: `/v1/platform/evaluators?evaluator_ids=${await newEvaluator()}`,
    }),
    changeQueue: async () => ({ params: { queue_id: await newQueue() } }),
    deleteQueue: async () => ({ params: { queue_id: await newQueue() } }),
    deleteQueues: async () => ({ path: `/annotation-queues?queue_ids=${await newQueue()}` }),
    addQueueReviewer: async () => ({ params: { queue_id: await newQueue() }, body: { identity_id } }),
    removeQueueReviewer: async () => {
      const queue_id = await newQueue()
      await tenant.post(`/v1/platform/annotation-queues/${queue_id}/reviewers`, { identity_id })
      return { params: { queue_id, identity_id } }
    },
    createComparativeExperiment: async () => ({ body: { experiment_ids: [await newExperiment()] } }),
    deleteComparativeExperiment: async () => ({
      params: {
        comparative_experiment_id: await create('/datasets/comparative', { experiment_ids: [await newExperiment()] }),
      },
    }),
    createExample: async () => ({ body: { dataset_id: await newDataset(), inputs: { a: 1 } } }),
    createExamples: async () => ({ body: [{ dataset_id: await newDataset(), inputs: { a: 1 } }] }),
    changeExample: async () => ({ params: await newExample() }),
    changeExamples: async () => ({ body: [{ id: (await newExample()).example_id, outputs: { b: 1 } }] }),
    changeExampleMetadata: async () => {
      const { dataset_id, example_id } = await newExample()
      const operations = [{ key: 'level', operation: 'SET', value: 2 }]
      return { params: { dataset_id }, body: { example_ids: [example_id], operations } }
    },
    uploadExamples: async () => ({ params: { dataset_id: await newDataset() }, ...makeForm(unusedId()) }),
    changeUploadedExamples: async () => {
      const { dataset_id, example_id } = await newExample()
      return { params: { dataset_id }, ...makeForm(example_id) }
    },
    deleteExample: async () => ({ params: await newExample() }),
    deleteExampleOfDataset: async () => ({ params: await newExample() }),
    deleteExamples: async () => ({ path: `/examples?example_ids=${(await newExample()).example_id}` }),
    eraseExamples: async () => ({ body: { example_ids: [(await newExample()).example_id], hard_delete: true } }),
    shareRun: async () => ({ params: { run_id: await newRun() } }),
    unshareRun: newSharedRun,
    shareTrace: async () => {
      const run_id = await newRun()
      return { params: { run_id }, body: { session_id: unusedId(), trace_id: run_id } }
    },
    unshareTrace: newSharedRun,
    shareThread: async () => {
      const { project_id, ...params } = await newThread()
      return { params, body: { project_id } }
    },
    unshareThread: async () => {
      const { project_id, thread_id } = await newThread()
      await tenant.post(`/v2/threads/${thread_id}/share`, { project_id })
      return { path: `/v2/threads/${thread_id}/share?project_id=${project_id}` }
    },
    deleteRuns: deletion,
    deleteTraces: deletion,
  }
}
