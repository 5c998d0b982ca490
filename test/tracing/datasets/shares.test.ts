// Datasets that leave their workspace, or their place in it: shared by a link, cloned, downloaded.
import { beforeAll, describe, expect, it } from 'vitest'
import { newTenant, send, type Tenant, unusedId } from '../../support/app.ts'

let tenant: Tenant
beforeAll(async () => {
  tenant = await newTenant()
})
const newDataset = async (body: Record<string, unknown> = {}) =>
  (await tenant.post('/datasets', { name: unusedId(), ...body })).body.id as string
const newExample = async (dataset_id: string, body: Record<string, unknown> = {}) =>
  (await tenant.post('/examples', { dataset_id, inputs: { a: 1 }, ...body })).body
const inputsOf = async (dataset: string) =>
  (await tenant.get(`/examples?dataset=${dataset}`)).body.map(({ inputs }: { inputs: unknown }) => inputs)

describe('a shared dataset', () => {
  it('is read by anyone with the link, until it is no longer shared', async () => {
    const dataset = await newDataset({ description: 'Open' })
    const other = await newDataset()
    const example = await newExample(dataset, { source_run_id: unusedId(), split: 'train' })
    const foreign = await newExample(other)
    expect((await tenant.get(`/datasets/${dataset}/share`)).body).toBeNull()
    const { share_token } = (await tenant.put(`/datasets/${dataset}/share`)).body
    expect((await tenant.put(`/datasets/${dataset}/share`)).body).toEqual({ dataset_id: dataset, share_token })
    const read = (path: string) => send('GET', `/public/${share_token}/${path}`)

    const shared = (await read('datasets')).body
    expect(shared).toMatchObject({ id: dataset, description: 'Open', example_count: 1 })
    expect(shared).not.toHaveProperty('tenant_id')
    const { source_run_id: _, ...visible } = example
    expect((await read('examples')).body).toEqual([visible])
    expect((await read(`examples?id=${foreign.id}`)).body).toEqual([])
    expect((await read('examples?splits=test')).body).toEqual([])
    expect((await read('examples/count')).body).toBe(1)
    expect((await read('examples?as_of=none')).body.code).toBe('dataset_version_not_found')

    expect((await tenant.delete(`/datasets/${dataset}/share`)).status).toBe(200)
    for (const path of ['datasets', 'examples', 'examples/count'])
      expect((await read(path)).body.code).toBe('share_not_found')
    expect((await tenant.put(`/datasets/${dataset}/share`)).body.share_token).not.toBe(share_token)
  })
})

describe('a clone of a dataset', () => {
  it('has the examples of a version, or those that the request names', async () => {
    const source = await newDataset()
    const one = await newExample(source, { inputs: { i: 1 }, metadata: { m: 1 }, split: 'train' })
    const two = await newExample(source, { inputs: { i: 2 }, outputs: { o: 2 } })
    await tenant.delete(`/examples/${one.id}`)
    const clone = async (body: object = {}) => {
      const target = await newDataset()
      const ids = { source_dataset_id: source, target_dataset_id: target }
      const { status, body: copies } = await tenant.post('/datasets/clone', { ...ids, ...body })
      expect(status).toBe(200)
      return { target, sources: copies.map((copy: { source_example_id: string }) => copy.source_example_id) }
    }
    const latest = await clone()
    expect([latest.sources, await inputsOf(latest.target)]).toEqual([[two.id], [{ i: 2 }]])
    const earlier = await clone({ as_of: two.modified_at })
    expect([earlier.sources, await inputsOf(earlier.target)]).toEqual([
      [one.id, two.id],
      [{ i: 1 }, { i: 2 }],
    ])
    expect((await clone({ as_of: two.modified_at, split: 'train' })).sources).toEqual([one.id])
    expect((await clone({ as_of: two.modified_at, examples: [two.id] })).sources).toEqual([two.id])
    expect((await tenant.get(`/datasets/${earlier.target}`)).body.example_count).toBe(2)
    const [copied] = (await tenant.get(`/examples?dataset=${earlier.target}`)).body
    expect(copied).toMatchObject({ metadata: { m: 1, dataset_split: ['train'] }, name: expect.stringMatching(/^#1 @/) })
    expect(copied.id).not.toBe(one.id)
  })

  it('needs both datasets, and matches the schemas of the target', async () => {
    const source = await newDataset()
    await newExample(source, { inputs: { a: 1 } })
    const strict = await newDataset({ inputs_schema_definition: { properties: { a: { type: 'string' } } } })
    const clone = async (source_dataset_id: string, target_dataset_id: string, more = {}) =>
      (await tenant.post('/datasets/clone', { source_dataset_id, target_dataset_id, ...more })).body
    expect((await clone(source, strict)).errors).toMatchObject([{ type: 'schema_mismatch' }])
    expect((await clone(unusedId(), source)).code).toBe('dataset_not_found')
    expect((await clone(source, unusedId())).code).toBe('dataset_not_found')
    expect((await clone(source, strict, { as_of: 'none' })).code).toBe('dataset_version_not_found')
    const lenient = await newDataset({ inputs_schema_definition: { properties: { a: { type: 'integer' } } } })
    expect(await clone(source, lenient)).toHaveLength(1)
  })
})

describe('a download of a dataset', () => {
  it('has one example in each line, byte for byte but for line breaks between tokens', async () => {
    const dataset = await newDataset({ name: `a b/"${unusedId()}` })
    const inputs = '{\n"big":123456789012345678901234567890,"t":"\\n"}'
    const body = `{"dataset_id":"${dataset}","inputs":${inputs},"outputs":null}`
    const headers = { 'X-Api-Key': tenant.key, 'Content-Type': 'application/json' }
    const { id, modified_at } = (await send('POST', '/examples', { raw: body, headers })).body
    const { text, headers: answered } = await tenant.get(`/datasets/${dataset}/jsonl`)
    expect(answered.get('Content-Disposition')).toMatch(/^attachment; filename="a-b-[\w-]+\.jsonl"$/)
    expect(text).toBe(
      `{"id":"${id}","inputs":{ "big":123456789012345678901234567890,"t":"\\n"},"outputs":null,` +
        '"metadata":{"dataset_split": ["base"]}}\n',
    )
    await newExample(dataset)
    expect((await tenant.get(`/datasets/${dataset}/jsonl?as_of=${modified_at}`)).text).toBe(text)
    expect((await tenant.get(`/datasets/${dataset}/jsonl?as_of=none`)).body.code).toBe('dataset_version_not_found')
  })

  it('goes through all pages of a large dataset, and is empty for one without examples', async () => {
    const dataset = await newDataset()
    expect((await tenant.get(`/datasets/${dataset}/jsonl`)).text).toBe('')
    const examples = Array.from({ length: 450 }, (_, i) => ({ dataset_id: dataset, inputs: { i } }))
    await tenant.post('/examples/bulk', examples)
    const lines = (await tenant.get(`/datasets/${dataset}/jsonl`)).text.trim().split('\n')
    expect(lines.map(line => JSON.parse(line).inputs.i)).toEqual(examples.map((_, i) => i))
  })
})
