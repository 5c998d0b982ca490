// The published clients, unchanged, with datasets and examples.
import { describe, expect, it } from 'vitest'
import { getApp, unusedId } from '../../support/app.ts'
import { appendRuns, newTrace } from '../../support/new-traces.ts'
import { connectClient, VERSIONS } from '../../support/tracing-clients.ts'

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const found: Item[] = []
  for await (const item of items) found.push(item)
  return found
}
const PICTURE = Uint8Array.of(0, 13, 10, 45, 45, 255)
const name = () => `capitals ${unusedId()}`

describe.each(VERSIONS)('langsmith %s', version => {
  it('creates, finds, changes and deletes datasets', async () => {
    const { client } = await connectClient(version)
    const created = await client.createDataset(name(), {
      description: 'Questions',
      dataType: 'kv',
      metadata: { team: 'core' },
      inputsSchema: { type: 'object', properties: { question: { type: 'string' } } },
    })
    const datasetName = created.name
    expect(await client.readDataset({ datasetName })).toMatchObject({ id: created.id, description: 'Questions' })
    expect([await client.hasDataset({ datasetName }), await client.hasDataset({ datasetName: 'none' })]).toEqual([
      true,
      false,
    ])
    expect(await client.hasDataset({ datasetId: unusedId() })).toBe(false)
    await client.updateDataset({ datasetId: created.id, description: 'Others' })
    const found = await collect(client.listDatasets({ datasetNameContains: 'capitals', metadata: { team: 'core' } }))
    expect(found).toMatchObject([{ id: created.id, description: 'Others' }])
    await client.deleteDataset({ datasetName })
    expect(await client.hasDataset({ datasetName })).toBe(false)
  })

  it('creates examples, and lists them by split, metadata, filter, version and tag', async () => {
    const { client } = await connectClient(version)
    const { id: datasetId } = await client.createDataset(name())
    const created = await client.createExamples([
      { dataset_id: datasetId, inputs: { a: 1 }, outputs: { b: 1 }, split: 'train', metadata: { level: 1 } },
      { dataset_id: datasetId, inputs: { a: 2 }, split: ['test', 'hard'], metadata: { level: 2 } },
    ])
    expect(created.map(({ inputs }) => inputs)).toEqual([{ a: 1 }, { a: 2 }])
    const single = await client.createExample({ a: 3 }, { b: 3 }, { datasetId, metadata: { level: 2 } })
    const list = async (options: object) =>
      (await collect(client.listExamples({ datasetId, ...options }))).map(({ inputs }) => inputs.a).toSorted()
    expect(await list({})).toEqual([1, 2, 3])
    expect(await list({ limit: 1 })).toHaveLength(1)
    expect(await list({ splits: ['train', 'hard'] })).toEqual([1, 2])
    expect(await list({ metadata: { level: 2 } })).toEqual([2, 3])
    expect(await list({ exampleIds: [single.id] })).toEqual([3])
    expect(await list({ filter: 'and(has(metadata, \'{"level": 2}\'), not(exists(metadata, "none")))' })).toEqual([
      2, 3,
    ])
    expect((await client.listDatasetSplits({ datasetId })).toSorted()).toEqual(['base', 'hard', 'test', 'train'])

    const { as_of: before } = await client.readDatasetVersion({ datasetId, asOf: new Date(Date.now() + 1000) })
    await client.updateDatasetTag({ datasetId, asOf: before, tag: 'prod' })
    await client.updateExample({ id: single.id, dataset_id: datasetId, inputs: { a: 4 } })
    await client.updateDatasetSplits({ datasetId, splitName: 'train', exampleIds: [single.id] })
    await client.deleteExample(created[0]!.id)
    expect(await list({})).toEqual([2, 4])
    expect([await list({ asOf: 'prod' }), await list({ asOf: before })]).toEqual([
      [1, 2, 3],
      [1, 2, 3],
    ])
    expect(await client.readExample(single.id)).toMatchObject({ inputs: { a: 4 }, outputs: { b: 3 } })
    const { as_of: after } = await client.readDatasetVersion({ datasetId, asOf: new Date(Date.now() + 1000) })
    expect(await client.diffDatasetVersions({ datasetId, fromVersion: before, toVersion: after })).toMatchObject({
      examples_added: [],
      examples_removed: [created[0]!.id],
      examples_modified: [single.id],
    })
    await client.deleteExamples([created[1]!.id, single.id], { hardDelete: true } as never)
    expect(await list({})).toEqual([])
  })

  it('gets the attachments of examples back, renames and removes them', async () => {
    const { client, readAttachment } = await connectDatasets(version)
    const { id: dataset_id } = await client.createDataset(name())
    const id = unusedId()
    const attachments = { picture: ['image/png', PICTURE], note: { mimeType: 'text/plain', data: PICTURE } }
    await client.uploadExamplesMultipart(dataset_id, [{ id, inputs: { a: 1 }, attachments: attachments as never }])
    const read = async () => {
      const [example] = await collect(client.listExamples({ datasetId: dataset_id, includeAttachments: true }))
      return example!.attachments ?? {}
    }
    const first = await read()
    expect(Object.keys(first).toSorted()).toEqual(['note', 'picture'])
    expect(first.picture!.mime_type).toBe('image/png')
    expect(await readAttachment(first.picture!.presigned_url!)).toEqual(PICTURE)
    await client.updateExamplesMultipart(dataset_id, [
      { id, inputs: { a: 2 }, attachments_operations: { rename: { picture: 'photo' }, retain: [] } },
    ])
    const second = await read()
    expect(Object.keys(second)).toEqual(['photo'])
    expect(await readAttachment(second.photo!.presigned_url!)).toEqual(PICTURE)
  })

  it('makes examples of runs, with their inputs, outputs and attachments', async () => {
    const { client, tenant, readAttachment } = await connectDatasets(version)
    const { root } = newTrace()
    const picture = { name: 'picture', type: 'image/png', bytes: PICTURE }
    await appendRuns(tenant, [
      { ...root, inputs: '{"a":12345678901234567890}', outputs: '{"b":1}', attachments: [picture] },
    ])
    const { id: dataset_id } = await client.createDataset(name())
    await client.createExamples([
      {
        dataset_id,
        source_run_id: root.id,
        use_source_run_io: true,
        use_source_run_attachments: ['picture'],
      } as never,
    ])
    const [example] = await collect(client.listExamples({ datasetId: dataset_id, includeAttachments: true }))
    expect(example).toMatchObject({ outputs: { b: 1 }, source_run_id: root.id })
    expect((await tenant.get(`/examples/${example!.id}`)).text).toContain('12345678901234567890')
    expect(await readAttachment(example!.attachments!.picture!.presigned_url!)).toEqual(PICTURE)
  })

  it('shares datasets, and clones shared ones', async () => {
    const { client } = await connectClient(version)
    const { id: datasetId, name: datasetName } = await client.createDataset(name())
    await client.createExample({ a: 1 }, { b: 1 }, { datasetId })
    const { share_token } = await client.shareDataset(datasetId)
    expect(await client.readDatasetSharedSchema(datasetId)).toMatchObject({ share_token })
    expect(await client.readSharedDataset(share_token)).toMatchObject({ name: datasetName })
    expect(await client.listSharedExamples(share_token)).toMatchObject([{ inputs: { a: 1 }, outputs: { b: 1 } }])
    await client.unshareDataset(datasetId)
    await expect(client.readSharedDataset(share_token)).rejects.toThrow('not found')
  })

  it('uploads a table', async () => {
    const { client } = await connectClient(version)
    const csvFile = new Blob(['question,answer\n"Capital of France, please?",Paris\nOf Spain?,"Mad\n""rid"""\n'])
    const created = await client.uploadCsv({
      csvFile,
      fileName: 'capitals.csv',
      inputKeys: ['question'],
      outputKeys: ['answer'],
      name: name(),
      description: 'From a table',
      dataType: 'kv',
    })
    expect(created).toMatchObject({ description: 'From a table', example_count: 2 })
    const examples = await collect(client.listExamples({ datasetId: created.id }))
    expect(examples.map(({ inputs, outputs }) => [inputs, outputs])).toEqual([
      [{ question: 'Capital of France, please?' }, { answer: 'Paris' }],
      [{ question: 'Of Spain?' }, { answer: 'Mad\n"rid"' }],
    ])
  })
})

async function connectDatasets(version: (typeof VERSIONS)[number]) {
  const connected = await connectClient(version)
  const readAttachment = async (url: string) => {
    const response = await getApp().fetch(new Request(url))
    expect(response.status).toBe(200)
    return new Uint8Array(await response.arrayBuffer())
  }
  return { ...connected, readAttachment }
}
