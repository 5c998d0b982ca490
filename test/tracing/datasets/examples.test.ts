// Examples by the API: what is stored byte for byte, which versions there are, and what is refused.
import { beforeAll, describe, expect, it } from 'vitest'
import { newLimitedCaller } from '../../support/access-policies.ts'
import { newTenant, send, type Tenant, unusedId } from '../../support/app.ts'
import { appendRuns, newTrace } from '../../support/new-traces.ts'

let tenant: Tenant
beforeAll(async () => {
  tenant = await newTenant()
})
const newDataset = async (body: Record<string, unknown> = {}) =>
  (await tenant.post('/datasets', { name: unusedId(), ...body })).body
const newExample = async (dataset_id: string, body: Record<string, unknown> = {}) =>
  (await tenant.post('/examples', { dataset_id, inputs: { a: 1 }, ...body })).body
/** Sends a body of exactly these bytes. */
const sendRaw = (method: string, path: string, raw: string | Uint8Array<ArrayBuffer>, type = 'application/json') =>
  send(method, path, { raw, headers: { 'X-Api-Key': tenant.key, 'Content-Type': type } })
const list = async (query: string) => (await tenant.get(`/examples?${query}`)).body

describe('an example', () => {
  it('is created, read, listed, counted and deleted', async () => {
    const dataset = await newDataset({ name: `set ${unusedId()}` })
    const created = await newExample(dataset.id, { outputs: { b: [2] }, metadata: { level: 'easy' }, split: 'train' })
    expect(created).toMatchObject({
      dataset_id: dataset.id,
      name: `#1 @ ${dataset.name}`,
      inputs: { a: 1 },
      outputs: { b: [2] },
      metadata: { level: 'easy', dataset_split: ['train'] },
      source_run_id: null,
      attachment_urls: null,
    })
    expect((await tenant.get(`/examples/${created.id}`)).body).toEqual(created)
    const { attachment_urls: _, ...listed } = created
    expect(await list(`dataset=${dataset.id}`)).toEqual([listed])
    expect((await tenant.get(`/examples/count?dataset=${dataset.id}`)).body).toBe(1)
    expect((await tenant.get(`/datasets/${dataset.id}`)).body).toMatchObject({
      example_count: 1,
      modified_at: created.modified_at,
    })
    const { status, body } = await tenant.delete(`/examples/${created.id}`)
    expect([status, body.example_ids]).toEqual([200, [created.id]])
    expect((await tenant.get(`/examples/${created.id}`)).body.code).toBe('example_not_found')
    expect((await tenant.get(`/datasets/${dataset.id}`)).body.example_count).toBe(0)
  })

  it('is deleted below its dataset once, and a repeat makes no version', async () => {
    const [dataset, other] = [await newDataset(), await newDataset()]
    const { id } = await newExample(dataset.id)
    const remove = (dataset_id: string) => tenant.delete(`/v1/platform/datasets/${dataset_id}/examples/${id}`)
    expect((await remove(other.id)).body.code).toBe('example_not_found')
    expect((await remove(unusedId())).body.code).toBe('dataset_not_found')
    expect((await remove(dataset.id)).status).toBe(204)
    const versions = (await tenant.get(`/datasets/${dataset.id}/versions`)).body
    expect((await remove(dataset.id)).status).toBe(204)
    expect((await tenant.get(`/datasets/${dataset.id}/versions`)).body).toEqual(versions)
    expect((await tenant.get(`/datasets/${dataset.id}`)).body.example_count).toBe(0)
    expect((await tenant.get(`/examples/${id}?as_of=${versions.at(-1).as_of}`)).body.id).toBe(id)
  })

  it('keeps its inputs and outputs byte for byte, and its metadata digit by digit', async () => {
    const { id: dataset_id } = await newDataset()
    const inputs = '{"big": 12345678901234567890.10,  "huge":1e400,"nul":"\\u0000","half":"\\ud800"}'
    const outputs = '{ "text" : "\u00e9\\/\\u00e9 \ud83d\ude00" }'
    const metadata = '{"n": 123456789012345678901234567890, "s": "\\u00e9"}'
    const body = `{"dataset_id":"${dataset_id}","metadata":${metadata},"inputs": ${inputs} ,"outputs":${outputs}}`
    const created = await sendRaw('POST', '/examples', body)
    expect(created.status).toBe(200)
    for (const { text } of [created, await tenant.get(`/examples/${created.body.id}`)]) {
      expect(text).toContain(`"inputs":${inputs}`)
      expect(text).toContain(`"outputs":${outputs}`)
      expect(text).toContain('"n": 123456789012345678901234567890')
    }
    expect((await tenant.get(`/examples?dataset=${dataset_id}`)).text).toContain(`"inputs":${inputs}`)
  })

  it('is stored once, if a request with its id is repeated', async () => {
    const { id: dataset_id } = await newDataset()
    const id = unusedId()
    const first = await newExample(dataset_id, { id, metadata: { a: 1 } })
    expect(await newExample(dataset_id, { id, metadata: { a: 1 } })).toEqual(first)
    expect((await tenant.get(`/datasets/${dataset_id}/versions`)).body).toHaveLength(1)
    const other = await tenant.post('/examples', { dataset_id, id, inputs: { a: 2 } })
    expect([other.status, other.body.code]).toEqual([409, 'example_exists'])
    const elsewhere = await tenant.post('/examples', { dataset_id: (await newDataset()).id, id, inputs: { a: 1 } })
    expect([elsewhere.status, elsewhere.body.code]).toEqual([409, 'example_exists'])
  })

  it('is changed member by member, and keeps its splits when its metadata change', async () => {
    const { id: dataset_id } = await newDataset()
    const { id } = await newExample(dataset_id, { outputs: { b: 1 }, metadata: { x: 1 }, split: ['one', 'two'] })
    const change = async (body: object) => {
      expect((await tenant.patch(`/examples/${id}`, body)).status).toBe(200)
      return (await tenant.get(`/examples/${id}`)).body
    }
    expect(await change({ outputs: { b: 2 } })).toMatchObject({ inputs: { a: 1 }, outputs: { b: 2 } })
    expect(await change({ metadata: { y: 2 } })).toMatchObject({ metadata: { y: 2, dataset_split: ['one', 'two'] } })
    expect(await change({ split: 'three', inputs: null })).toMatchObject({
      inputs: { a: 1 },
      metadata: { y: 2, dataset_split: ['three'] },
    })
    expect(await change({ metadata: { dataset_split: 'four' } })).toMatchObject({
      metadata: { dataset_split: ['four'] },
    })
  })

  it('is created and changed with others, all of them or none', async () => {
    const { id: dataset_id } = await newDataset()
    const created = await tenant.post('/examples/bulk', [
      { dataset_id, inputs: { i: 0 } },
      { dataset_id, inputs: { i: 1 } },
    ])
    const [one, two] = created.body
    expect([one.name, two.name].map((name: string) => name.slice(0, 2))).toEqual(['#1', '#2'])
    expect(one.modified_at).toBe(two.modified_at)
    const refused = await tenant.patch('/examples/bulk', [
      { id: one.id, inputs: { i: 9 } },
      { id: unusedId(), inputs: {} },
    ])
    expect([refused.status, refused.body.code]).toEqual([404, 'example_not_found'])
    const mixed = await tenant.post('/examples/bulk', [
      { dataset_id, inputs: {} },
      { dataset_id: unusedId(), inputs: {} },
    ])
    expect(mixed.body.errors).toMatchObject([{ loc: ['body', 1, 'dataset_id'] }])
    expect((await list(`dataset=${dataset_id}`)).map(({ inputs }: { inputs: unknown }) => inputs)).toEqual([
      { i: 0 },
      { i: 1 },
    ])
  })

  it('takes members of a run that the caller may read', async () => {
    const { root } = newTrace()
    await appendRuns(tenant, [{ ...root, inputs: '{"a":1e400}', outputs: '{"b":2}' }])
    const { id: dataset_id } = await newDataset()
    const ofRun = { dataset_id, source_run_id: root.id, use_source_run_io: true }
    const { text } = await tenant.post('/examples', ofRun)
    expect(text).toContain('"inputs":{"a":1e400},"outputs":{"b":2}')
    const corrected = await tenant.post('/examples', { ...ofRun, outputs: { b: 3 } })
    expect(corrected.body).toMatchObject({ outputs: { b: 3 } })
    const missing = await tenant.post('/examples', { ...ofRun, source_run_id: unusedId() })
    expect([missing.status, missing.body.code]).toEqual([404, 'run_not_found'])
    const none = await tenant.post('/examples', { ...ofRun, use_source_run_attachments: ['picture'] })
    expect(none.body.errors).toMatchObject([{ loc: ['body', 'use_source_run_attachments', 0], type: 'missing' }])
    const { key } = await newLimitedCaller(tenant, ['datasets:update', 'datasets:read'], [])
    const refused = await send('POST', '/examples', { body: ofRun, headers: { 'X-Api-Key': key } })
    expect([refused.status, refused.body.code]).toEqual([403, 'permission_missing'])
    expect(await list(`dataset=${dataset_id}`)).toHaveLength(2)
  })

  it('is erased from all versions, by a key that may delete datasets', async () => {
    const { id: dataset_id } = await newDataset()
    const [kept, erased] = [await newExample(dataset_id), await newExample(dataset_id)]
    await tenant.patch(`/examples/${erased.id}`, { inputs: { a: 2 } })
    const { body } = await tenant.post('/v1/platform/datasets/examples/delete', {
      example_ids: [erased.id],
      hard_delete: true,
    })
    expect(body.example_ids).toEqual([erased.id])
    const then = await list(`dataset=${dataset_id}&as_of=${erased.modified_at}`)
    expect(then.map(({ id }: { id: string }) => id)).toEqual([kept.id])
    expect((await tenant.get(`/datasets/${dataset_id}`)).body.example_count).toBe(1)
  })
})

describe('a list of examples', () => {
  let dataset_id: string
  beforeAll(async () => {
    dataset_id = (await newDataset()).id
    const inputs = ['Alpha', 'beta', 'Gamma']
    for (const [i, text] of inputs.entries())
      await newExample(dataset_id, {
        inputs: { text },
        outputs: { i },
        split: i ? 'a,b' : 'c',
        metadata: { i, o: { d: 1 } },
      })
  })
  const texts = async (query: string) =>
    (await list(`dataset=${dataset_id}&${query}`)).map(({ inputs }: { inputs: { text: string } }) => inputs.text)
  const json = (value: unknown) => encodeURIComponent(JSON.stringify(value))

  it.each([
    ['', ['Gamma', 'beta', 'Alpha']],
    ['descending=false', ['Alpha', 'beta', 'Gamma']],
    ['order=recently_created&limit=1&offset=1', ['beta']],
    ['splits=c', ['Alpha']],
    ['splits=a%2Cb&splits=c', ['Gamma', 'beta', 'Alpha']],
    ['splits=a', []],
    [`metadata=${json({ i: 1 })}`, ['beta']],
    [`metadata=${json({ o: { d: 1 } })}`, ['Gamma', 'beta', 'Alpha']],
    ['full_text_contains=ALPHA', ['Alpha']],
    [`filter=${encodeURIComponent('has(split, "c")')}`, ['Alpha']],
    [`filter=${encodeURIComponent('and(eq(metadata_key, "i"), gt(metadata_value, 0))')}`, ['Gamma', 'beta']],
    [
      `filter=${encodeURIComponent('or(and(eq(input_key, "text"), eq(input_value, "beta")), search(outputs, "2"))')}`,
      ['Gamma', 'beta'],
    ],
    [
      `filter=${encodeURIComponent('and(search("alpha"), eq(source_run_id, null), gt(created_at, "2020-01-01"))')}`,
      ['Alpha'],
    ],
    ['full_text_contains=a&full_text_contains=m', ['Gamma']],
  ])('with %j has %j', async (query, expected) => {
    expect(await texts(query)).toEqual(expected)
  })

  it('is refused where its filter cannot be read', async () => {
    const { status, body } = await tenant.get(
      `/examples?dataset=${dataset_id}&filter=${encodeURIComponent('eq(nme, 1)')}`,
    )
    expect([status, body.code]).toEqual([400, 'filter_invalid'])
  })

  it('can be in a random order that its seed decides, and by id', async () => {
    const seeded = await texts('order=random&random_seed=1')
    expect(await texts('order=random&random_seed=1')).toEqual(seeded)
    expect(seeded.toSorted()).toEqual(['Alpha', 'Gamma', 'beta'])
    const ids = (await list(`dataset=${dataset_id}&order=id`)).map(({ id }: { id: string }) => id)
    expect(ids).toEqual(ids.toSorted())
  })

  it('has the members that are selected', async () => {
    const [one] = await list(`dataset=${dataset_id}&limit=1&select=inputs&select=name&exclude_default_fields=true`)
    expect(Object.keys(one).toSorted()).toEqual(['id', 'inputs', 'name'])
    const [whole] = await list(`dataset=${dataset_id}&limit=1&select=attachment_urls`)
    expect(whole).toHaveProperty('attachment_urls', null)
    expect(whole).toHaveProperty('outputs', { i: 2 })
  })

  it('is that of the dataset or of the ids that the query names', async () => {
    const [{ id }] = await list(`dataset=${dataset_id}&limit=1`)
    expect(await list(`id=${id}`)).toHaveLength(1)
    expect((await tenant.get('/examples')).body.errors).toMatchObject([{ loc: ['query', 'dataset'] }])
    expect((await tenant.get(`/examples?dataset=${unusedId()}`)).body.code).toBe('dataset_not_found')
    expect(await list(`dataset=${(await newDataset()).id}`)).toEqual([])
  })
})

describe('a version of a dataset', () => {
  it('is named by the time at which examples changed, and shows them as they were', async () => {
    const { id: dataset_id } = await newDataset()
    const one = await newExample(dataset_id)
    const two = await newExample(dataset_id, { inputs: { a: 2 }, split: 'test' })
    const changed = (await tenant.patch(`/examples/${one.id}`, { inputs: { a: 3 } })).body
    const deleted = (await tenant.delete(`/examples?example_ids=${two.id}`)).body
    const inputsAt = async (as_of: string) =>
      (await list(`dataset=${dataset_id}&as_of=${as_of}`)).map(({ inputs }: { inputs: { a: number } }) => inputs.a)
    expect(await inputsAt(one.modified_at)).toEqual([1])
    expect(await inputsAt(two.modified_at)).toEqual([2, 1])
    expect(await inputsAt(changed.as_of)).toEqual([3, 2])
    expect(await inputsAt(deleted.as_of)).toEqual([3])
    expect(await inputsAt('2020-01-01T00:00:00')).toEqual([])
    expect((await tenant.get(`/examples/${one.id}?as_of=${two.modified_at}`)).body.inputs).toEqual({ a: 1 })

    const times = [deleted.as_of, changed.as_of, two.modified_at, one.modified_at]
    const versions = (await tenant.get(`/datasets/${dataset_id}/versions`)).body
    expect(versions.map(({ as_of }: { as_of: string }) => as_of)).toEqual(times)
    expect(versions[0].tags).toEqual(['latest'])
    const ofOne = (await tenant.get(`/datasets/${dataset_id}/versions?example=${one.id}&limit=1&offset=1`)).body
    expect(ofOne).toEqual([{ as_of: one.modified_at, tags: [] }])

    const diff = async (from: string, to: string) =>
      (await tenant.get(`/datasets/${dataset_id}/versions/diff?from_version=${from}&to_version=${to}`)).body
    expect(await diff(one.modified_at, 'latest')).toEqual({
      examples_added: [],
      examples_removed: [],
      examples_modified: [one.id],
    })
    expect(await diff(one.modified_at, two.modified_at)).toMatchObject({ examples_added: [two.id] })
    expect(await diff(two.modified_at, deleted.as_of)).toMatchObject({ examples_removed: [two.id] })

    const splits = async (as_of: string) => (await tenant.get(`/datasets/${dataset_id}/splits?as_of=${as_of}`)).body
    expect([await splits('latest'), await splits(two.modified_at)]).toEqual([['base'], ['base', 'test']])
  })

  it('has tags, each of which moves from one version to another', async () => {
    const { id: dataset_id } = await newDataset()
    const one = await newExample(dataset_id)
    const two = await newExample(dataset_id)
    const tag = (as_of: string, name = 'prod') => tenant.put(`/datasets/${dataset_id}/tags`, { as_of, tag: name })
    expect((await tag(one.modified_at)).body).toEqual({ as_of: one.modified_at, tags: ['prod'] })
    expect(await list(`dataset=${dataset_id}&as_of=prod`)).toHaveLength(1)
    expect((await tag('latest')).body).toEqual({ as_of: two.modified_at, tags: ['latest', 'prod'] })
    expect((await tenant.get(`/datasets/${dataset_id}/version?tag=prod`)).body.as_of).toBe(two.modified_at)
    expect((await tenant.get(`/datasets/${dataset_id}/versions?search=RO`)).body).toHaveLength(1)
    const between = new Date(Date.parse(two.modified_at) - 1).toISOString()
    if (between !== one.modified_at) {
      expect((await tenant.get(`/datasets/${dataset_id}/version?as_of=${between}`)).body.as_of).toBe(one.modified_at)
      expect((await tag(between)).body.code).toBe('dataset_version_not_found')
    }
    for (const path of [
      'version?tag=none',
      'version?as_of=2020-01-01',
      'splits?as_of=none',
      'versions/diff?from_version=none&to_version=latest',
    ])
      expect((await tenant.get(`/datasets/${dataset_id}/${path}`)).body.code).toBe('dataset_version_not_found')
    expect((await tenant.get(`/examples?dataset=${dataset_id}&as_of=none`)).body.code).toBe('dataset_version_not_found')
    expect((await tag('latest', 'latest')).body.errors).toMatchObject([{ loc: ['body', 'tag'] }])
  })

  it('is made by each of many writes at once, and no two have the same time', async () => {
    const { id: dataset_id } = await newDataset()
    await Promise.all(Array.from({ length: 10 }, () => newExample(dataset_id)))
    const versions = (await tenant.get(`/datasets/${dataset_id}/versions`)).body
    expect(new Set(versions.map(({ as_of }: { as_of: string }) => as_of)).size).toBe(10)
    expect(
      (await list(`dataset=${dataset_id}`)).map(({ name }: { name: string }) => name.split(' ')[0]).toSorted(),
    ).toEqual(Array.from({ length: 10 }, (_, i) => `#${i + 1}`).toSorted())
  })
})

describe('splits and metadata', () => {
  it('are changed for many examples in one version, and the answer names those that do not exist', async () => {
    const { id: dataset_id } = await newDataset()
    const [one, two] = [await newExample(dataset_id), await newExample(dataset_id, { metadata: { list: ['x'] } })]
    const put = (body: object) => tenant.put(`/datasets/${dataset_id}/splits`, body)
    const missing = unusedId()
    expect((await put({ split_name: 'test', examples: [one.id, missing] })).body).toEqual([one.id])
    expect((await put({ split_name: 'base', examples: [one.id], remove: true })).body).toEqual([one.id])
    const path = `/v1/platform/datasets/${dataset_id}/examples/metadata`
    const operations = [
      { key: 'list', operation: 'array_add', values: ['y', 'x', 'z'] },
      { key: 'list', operation: 'ARRAY_REMOVE', values: ['z'] },
      { key: 'note', operation: 'SET', value: { deep: [1] } },
    ]
    const { status, body } = await tenant.patch(path, { example_ids: [one.id, missing, two.id], operations })
    expect([status, body.statuses.map((one: { status: string }) => one.status)]).toEqual([
      207,
      ['UPDATED', 'NOT_FOUND', 'UPDATED'],
    ])
    const metadataOf = async (id: string) => (await tenant.get(`/examples/${id}`)).body.metadata
    expect(await metadataOf(one.id)).toEqual({ dataset_split: ['test'], list: ['y', 'x'], note: { deep: [1] } })
    expect(await metadataOf(two.id)).toEqual({ dataset_split: ['base'], list: ['x', 'y'], note: { deep: [1] } })
    expect(
      (await tenant.patch(path.replace(dataset_id, missing), { example_ids: [missing], operations })).text,
    ).toMatch(/dataset not found/i)
    expect((await tenant.get(`/datasets/${dataset_id}/versions`)).body).toHaveLength(5)
  })
})

describe('the JSON Schema of a dataset', () => {
  it('is checked for new and changed examples', async () => {
    const { id: dataset_id } = await newDataset({
      inputs_schema_definition: { type: 'object', required: ['q'], properties: { q: { type: 'string' } } },
      outputs_schema_definition: { additionalProperties: { type: 'integer' } },
    })
    const refused = await tenant.post('/examples/bulk', [
      { dataset_id, inputs: { q: 1 } },
      { dataset_id, inputs: { q: '' }, outputs: { n: 0.5 } },
      { dataset_id, inputs: {} },
    ])
    expect(refused.status).toBe(422)
    expect(refused.body.errors.map(({ loc }: { loc: unknown }) => loc)).toEqual([
      ['body', 0, 'inputs', 'q'],
      ['body', 1, 'outputs', 'n'],
      ['body', 2, 'inputs', 'q'],
    ])
    const { id } = await newExample(dataset_id, { inputs: { q: 'x' }, outputs: { n: 1 } })
    expect((await tenant.patch(`/examples/${id}`, { outputs: { n: 'x' } })).status).toBe(422)
    expect((await tenant.patch(`/examples/${id}`, { outputs: { n: 2 } })).status).toBe(200)
    expect((await tenant.get(`/datasets/${dataset_id}`)).body.example_count).toBe(1)
  })
})

describe('a body', () => {
  let dataset_id: string
  beforeAll(async () => {
    dataset_id = (await newDataset()).id
  })
  const deep = (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`
  it.each<[string, string | Uint8Array<ArrayBuffer>, unknown[]]>([
    ['that is cut', '{"inputs":{', ['body']],
    [
      'with invalid UTF-8',
      new Uint8Array([...new TextEncoder().encode('{"inputs":{"a":"'), 0xff, 0x22, 0x7d, 0x7d]),
      ['body'],
    ],
    ['without inputs', '{}', ['body', 'inputs']],
    ['with inputs that are no object', '{"inputs":[1]}', ['body', 'inputs']],
    ['with inputs that are too deep', `{"inputs":${deep(65)}}`, ['body', 'inputs']],
    ['with a NUL character in its metadata', '{"inputs":{},"metadata":{"a":"\\u0000"}}', ['body', 'metadata']],
    ['with a lone surrogate in its metadata', '{"inputs":{},"metadata":{"\\udc00":1}}', ['body', 'metadata']],
    ['with a huge number in its metadata', '{"inputs":{},"metadata":{"a":1e99999}}', ['body', 'metadata']],
    ['with too much metadata', `{"inputs":{},"metadata":{"a":"${'x'.repeat(65536)}"}}`, ['body', 'metadata']],
    [
      'with a split that is no text',
      '{"inputs":{},"metadata":{"dataset_split":1}}',
      ['body', 'metadata', 'dataset_split'],
    ],
  ])('%s is refused, naming the place, and stores nothing', async (_, body, loc) => {
    const text =
      typeof body === 'string' ? body.replace('{', `{"dataset_id":"${dataset_id}",`).replace(',}', '}') : body
    const { status, body: problem } = await sendRaw('POST', '/examples', text)
    expect([status, problem.errors.map((fault: { loc: unknown }) => fault.loc)]).toEqual([422, [loc]])
    expect(await list(`dataset=${dataset_id}`)).toEqual([])
  })

  it('with metadata that hold an escaped backslash before `u0000` is stored', async () => {
    const { metadata } = await newExample((await newDataset()).id, { metadata: { a: '\\u0000', b: '1e99999' } })
    expect(metadata).toMatchObject({ a: '\\u0000', b: '1e99999' })
  })
})
