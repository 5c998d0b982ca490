// The published SDK, unchanged, over what it can call of an installation: a line of JSON for each step.
// sdk.mjs FOLDER URL KEY, where FOLDER has the package.
import { strict as assert } from 'node:assert'
import { createRequire } from 'node:module'
import { join } from 'node:path'

const [folder, url, key] = process.argv.slice(2)
const load = createRequire(join(folder, 'package.json'))
process.noDeprecation = true
const { Client } = load('langsmith/client')
const { Langsmith } = load('langsmith')
const { version } = load('langsmith/package.json')

const client = new Client({ apiUrl: url, apiKey: key, autoBatchTracing: false })
const generated = new Langsmith({ baseURL: url, apiKey: key, maxRetries: 0 })
const name = `javascript-${crypto.randomUUID().slice(0, 8)}`
const made = {}

const say = line => console.log(JSON.stringify(line))
async function step(what, act) {
  try {
    await act()
    say({ step: what, ok: true, detail: '' })
  } catch (error) {
    say({ step: what, ok: false, detail: `${error.message}`.slice(0, 400) })
  }
}
async function collect(items) {
  const all = []
  for await (const item of items) all.push(item)
  return all
}

await step('projects: create, read, list, update', async () => {
  const project = await client.createProject({ projectName: name, description: 'first' })
  made.project = project.id
  assert.equal((await client.readProject({ projectName: name })).id, project.id)
  assert.equal((await collect(client.listProjects({ name }))).length, 1)
  await client.updateProject(project.id, { description: 'second' })
})
await step('runs: create, update, read, list', async () => {
  made.run = crypto.randomUUID()
  const run = { id: made.run, name: 'question', run_type: 'chain', inputs: { source: 'github' }, project_name: name }
  await client.createRun({ ...run, start_time: Date.now() })
  await client.updateRun(made.run, { outputs: { answer: 'internal_docker' }, end_time: Date.now() })
  const read = await client.readRun(made.run)
  assert.deepEqual([read.inputs, read.outputs], [{ source: 'github' }, { answer: 'internal_docker' }])
  assert.equal((await collect(client.listRuns({ projectName: name }))).length, 1)
})
await step('feedback: create, read, list, update, delete', async () => {
  const { id } = await client.createFeedback(made.run, 'correct', { score: 1, comment: 'github' })
  assert.equal((await client.readFeedback(id)).comment, 'github')
  assert.equal((await collect(client.listFeedback({ runIds: [made.run] }))).length, 1)
  await client.updateFeedback(id, { score: 0 })
  await client.deleteFeedback(id)
})
await step('runs: share, unshare', async () => {
  assert.ok(await client.shareRun(made.run))
  await client.unshareRun(made.run)
})
await step('datasets: create, read, list, examples, share, delete', async () => {
  const dataset = await client.createDataset(name, { description: 'first' })
  const created = await client.createExamples([{ dataset_id: dataset.id, inputs: { a: 1 }, outputs: { b: 2 } }])
  await client.updateExample({ id: created[0].id, dataset_id: dataset.id, outputs: { b: 3 } })
  assert.deepEqual((await client.readExample(created[0].id)).outputs, { b: 3 })
  assert.equal((await collect(client.listDatasets({ datasetName: name }))).length, 1)
  await client.shareDataset(dataset.id)
  await client.unshareDataset(dataset.id)
  await client.deleteExample(created[0].id)
  await client.deleteDataset({ datasetId: dataset.id })
})
await step('annotation queues: create, add, read, delete', async () => {
  const queue = await client.createAnnotationQueue({ name })
  await client.addRunsToAnnotationQueue(queue.id, [made.run])
  assert.equal((await client.getRunFromAnnotationQueue(queue.id, 0)).id, made.run)
  await client.deleteAnnotationQueue(queue.id)
})
await step('sessions of the second version: list', async () => {
  assert.ok((await collect(generated.sessions.listV2({ name_contains: name }))).length > 0)
})
await step('datasets of the second version: list, runs of experiments, delete an example', async () => {
  const { id } = await client.createDataset(`${name}-v2`)
  const experiment = await client.createProject({ projectName: `${name}-v2`, referenceDatasetId: id })
  assert.equal((await generated.sessions.resolve({ kind: 'EXPERIMENT', id: experiment.id })).session_id, experiment.id)
  assert.deepEqual(
    (await collect(generated.datasets.listV2({ name: `${name}-v2` }))).map(one => one.id),
    [id],
  )
  await client.createExamples([{ dataset_id: id, inputs: { a: 1 } }])
  const query = { experiment_ids: [experiment.id], selects: ['NAME'] }
  const [example] = await collect(generated.datasets.experimentRuns.query(id, query))
  assert.deepEqual([example.inputs, example.runs], [{ a: 1 }, []])
  await generated.datasets.examples.delete(example.id, { dataset_id: id })
  await client.deleteDataset({ datasetId: id })
  await client.deleteProject({ projectId: experiment.id })
})
await step('threads: share, read, unshare', async () => {
  const run = { id: crypto.randomUUID(), name: 'turn', run_type: 'chain', inputs: {}, project_name: name }
  await client.createRun({ ...run, start_time: Date.now(), extra: { metadata: { thread_id: name } } })
  const place = { project_id: made.project }
  const { share_token } = await generated.threads.share.create(name, place)
  assert.equal((await generated.threads.share.retrieve(name, place)).share_token, share_token)
  await generated.threads.share.delete(name, place)
  assert.equal((await generated.threads.share.retrieve(name, place)).share_token, undefined)
})
await step('evaluators: list', () => generated.evaluators.list())
await step('info', () => generated.info.list())
await step('refused: prompts', () => collect(client.listPrompts()))
await step('refused: sandboxes', () => collect(generated.sandboxes.boxes.list()))
await step('refused: agents', () => collect(generated.agents.list()))
await step('refused: address of an agent', () => generated.sessions.resolve({ kind: 'AGENT', id: 'a' }))
await step('projects: delete', () => client.deleteProject({ projectName: name }))
say({ step: `version ${version}`, ok: true, detail: '' })
