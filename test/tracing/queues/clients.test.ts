// The published clients, unchanged, with annotation queues.
import { describe, expect, it } from 'vitest'
import { unusedId } from '../../support/app.ts'
import { appendRuns, newTrace, projectId } from '../../support/new-traces.ts'
import { connectClient, VERSIONS } from '../../support/tracing-clients.ts'

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const found: Item[] = []
  for await (const item of items) found.push(item)
  return found
}

describe.each(VERSIONS)('langsmith %s', version => {
  it('creates a queue, fills it, reviews it and deletes it', async () => {
    const { client, tenant } = await connectClient(version)
    const traces = [newTrace().root, newTrace().root]
    await appendRuns(tenant, traces)
    const runIds = traces.map(({ id }) => id)
    const rubricItems = [{ feedback_key: 'correct', description: 'Is it?', value_descriptions: { yes: 'It is' } }]
    const queueId = unusedId()
    const created = await client.createAnnotationQueue({
      name: 'To review',
      description: 'Answers',
      queueId,
      rubricInstructions: 'Read.',
      rubricItems,
    })
    expect(created).toMatchObject({ id: queueId, name: 'To review', tenant_id: tenant.tenant_id })
    await client.updateAnnotationQueue(queueId, { name: 'Renamed', description: 'Others' })
    const read = await client.readAnnotationQueue(queueId)
    expect(read).toMatchObject({
      name: 'Renamed',
      description: 'Others',
      rubric_instructions: 'Read.',
      rubric_items: rubricItems,
    })
    const other = await client.createAnnotationQueue({ name: 'Copy', rubricItems: read.rubric_items! })
    expect(await collect(client.listAnnotationQueues({ nameContains: 'name' }))).toMatchObject([{ id: queueId }])
    expect(await collect(client.listAnnotationQueues({ queueIds: [queueId, other.id] }))).toHaveLength(2)

    await client.addRunsToAnnotationQueue(queueId, runIds)
    expect(await client.getSizeFromAnnotationQueue(queueId)).toEqual({ size: 2 })
    const first = await client.getRunFromAnnotationQueue(queueId, 0)
    expect(first).toMatchObject({ id: runIds[0], name: 'chat', queue_run_id: expect.any(String) })
    await client.deleteRunFromAnnotationQueue(queueId, (first as unknown as { queue_run_id: string }).queue_run_id)
    expect(await client.getRunFromAnnotationQueue(queueId, 0)).toMatchObject({ id: runIds[1] })
    await expect(client.getRunFromAnnotationQueue(queueId, 1)).rejects.toThrow('404')
    await client.deleteAnnotationQueue(queueId)
    await expect(client.readAnnotationQueue(queueId)).rejects.toThrow('not found')
  })
})

it('langsmith 0.12.0 adds runs by their keys, lists them, and uses items', async () => {
  const { client, tenant } = await connectClient('0.12.0')
  const traces = [newTrace().root, newTrace().root, newTrace().root]
  await appendRuns(tenant, traces)
  const project_id = await projectId(tenant, 'traced')
  const { id } = await client.createAnnotationQueue({ name: 'Keys' })
  const keys = traces.map(({ id: runId, start_time }) => ({ runId, sessionId: project_id, startTime: start_time }))
  await client.addRunsToAnnotationQueue(id, keys)
  const runs = await collect(client.listRunsFromAnnotationQueue(id, { status: 'needs_my_review' }))
  expect(runs).toMatchObject(traces.map(one => ({ id: one.id, completed_by: [] })))

  const { items } = client.annotationQueues
  await items.create(id, { items: [{ item_type: 'THREAD', thread_id: 'talk', project_id }] })
  expect(await items.retrieveCount(id, { status: 'all' })).toEqual({ count: 4 })
  const pages = await collect(items.list(id, { status: 'needs_my_review', page_size: 2 }))
  expect(pages).toMatchObject([...traces.map(one => ({ run_id: one.id })), { thread_id: 'talk' }])
  expect(await items.retrievePlacement(pages[3]!.id!, { queue_id: id })).toMatchObject({ position: 3 })
  expect(await items.createStatus(pages[0]!.id!, { status: 'completed' })).toMatchObject({ is_archived: true })
  await items.deleteAll(id, { item_ids: pages.slice(1).map(one => one.id!) })
  expect(await items.retrieveCount(id, { status: 'archived' })).toEqual({ count: 1 })
})
