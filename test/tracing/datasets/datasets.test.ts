// Datasets: what a client can say of them, find them by, and what is refused.
import { beforeAll, describe, expect, it } from 'vitest'
import { newLimitedCaller } from '../../support/access-policies.ts'
import { newTenant, type Tenant, unusedId } from '../../support/app.ts'
import { appendRuns, newTrace } from '../../support/new-traces.ts'

let tenant: Tenant
beforeAll(async () => {
  tenant = await newTenant()
})
const create = async (body: Record<string, unknown> = {}) =>
  (await tenant.post('/datasets', { name: unusedId(), ...body })).body

describe('a dataset', () => {
  it('is created with the members of a client, and read by id and by name', async () => {
    const name = unusedId()
    const inputs_schema_definition = { type: 'object', properties: { question: { type: 'string' } } }
    const created = await create({
      name,
      description: 'Questions',
      data_type: 'chat',
      inputs_schema_definition,
      extra: { source: 'sdk', metadata: { team: 'core' } },
    })
    expect(created).toMatchObject({
      name,
      description: 'Questions',
      data_type: 'chat',
      inputs_schema_definition,
      metadata: { team: 'core' },
      example_count: 0,
      session_count: 0,
      tenant_id: tenant.tenant_id,
    })
    expect((await tenant.get(`/datasets/${created.id}`)).body).toEqual(created)
    expect((await tenant.get(`/datasets?limit=1&name=${name}`)).body).toEqual([created])
  })

  it('has an id that a client may choose, and both are used once', async () => {
    const id = unusedId()
    const created = await create({ id })
    expect(created.id).toBe(id)
    const again = await tenant.post('/datasets', { id, name: unusedId() })
    expect([again.status, again.body.code]).toEqual([409, 'dataset_exists'])
    const named = await tenant.post('/datasets', { name: created.name })
    expect([named.status, named.body.code]).toEqual([409, 'dataset_name_taken'])
  })

  it('is changed member by member, and null removes a value', async () => {
    const { id } = await create({ description: 'Old', extra: { metadata: { a: 1 } } })
    const renamed = (await tenant.patch(`/datasets/${id}`, { name: unusedId() })).body
    expect(renamed).toMatchObject({ description: 'Old', metadata: { a: 1 } })
    const emptied = (await tenant.patch(`/datasets/${id}`, { description: null, metadata: null })).body
    expect(emptied).toMatchObject({ name: renamed.name, description: null, metadata: null })
  })

  it('is changed only in the version that was read, with If-Match', async () => {
    const { id } = await create()
    const { headers } = await tenant.get(`/datasets/${id}`)
    const ifMatch = { 'If-Match': headers.get('ETag')! }
    expect((await tenant.patch(`/datasets/${id}`, { description: 'One' }, ifMatch)).status).toBe(200)
    expect((await tenant.patch(`/datasets/${id}`, { description: 'Two' }, ifMatch)).status).toBe(412)
  })

  it('is deleted alone or with others, and then all of them or none', async () => {
    const [one, two, three] = [await create(), await create(), await create()]
    expect((await tenant.delete(`/datasets/${one.id}`)).body).toEqual({ id: one.id })
    expect((await tenant.get(`/datasets/${one.id}`)).status).toBe(404)
    const ids = (list: string[]) => list.map(id => `dataset_ids=${id}`).join('&')
    expect((await tenant.delete(`/datasets?${ids([two.id, unusedId()])}`)).status).toBe(404)
    expect((await tenant.delete(`/datasets?${ids([two.id, three.id])}`)).body.ids.toSorted()).toEqual(
      [two.id, three.id].toSorted(),
    )
  })

  it('is tagged with values that exist', async () => {
    const key = (await tenant.post('/v2/tag-keys', { key: unusedId() })).body
    const value = (await tenant.post(`/v2/tag-keys/${key.id}/values`, { value: 'one' })).body
    const tagged = await create({ tag_value_ids: [value.id, value.id] })
    expect(tagged.tag_value_ids).toEqual([value.id])
    expect((await tenant.get(`/datasets?tag_value_id=${value.id}`)).body).toEqual([tagged])
    const refused = await tenant.patch(`/datasets/${tagged.id}`, { tag_value_ids: [unusedId()] })
    expect([refused.status, refused.body.code]).toEqual([404, 'tag_value_not_found'])
  })
})

describe('a list of datasets', () => {
  let own: Tenant
  const names = ['Alpha', 'beta', 'Gamma']
  beforeAll(async () => {
    own = await newTenant()
    for (const [i, name] of names.entries())
      await own.post('/datasets', { name, data_type: i ? 'kv' : 'llm', extra: { metadata: { at: i, in: { a: 'x' } } } })
  })
  const list = async (query: string) =>
    (await own.get(`/datasets?${query}`)).body.map(({ name }: { name: string }) => name)

  it.each([
    ['', ['Gamma', 'beta', 'Alpha']],
    ['sort_by=name&sort_by_desc=false', ['Alpha', 'beta', 'Gamma']],
    ['sort_by=name&limit=1&offset=1', ['beta']],
    ['sort_by=created_at&sort_by_desc=false&limit=2', ['Alpha', 'beta']],
    ['sort_by=session_count&sort_by_desc=true', ['Gamma', 'beta', 'Alpha']],
    ['name=beta', ['beta']],
    ['name=Beta', []],
    ['name_contains=A&sort_by=name&sort_by_desc=false', ['Alpha', 'beta', 'Gamma']],
    ['name_contains=%25', []],
    ['data_type=llm', ['Alpha']],
    ['data_type=llm&data_type=kv', ['Gamma', 'beta', 'Alpha']],
    [`metadata=${encodeURIComponent('{"in":{"a":"x"}}')}`, ['Gamma', 'beta', 'Alpha']],
    [`metadata=${encodeURIComponent('{"at":1}')}`, ['beta']],
  ])('with %j has %j', async (query, expected) => {
    expect(await list(query)).toEqual(expected)
  })

  it.each(['metadata=1', 'metadata={', `metadata=${encodeURIComponent('{"a":"\\u0000"}')}`, 'id=1', 'limit=101'])(
    'is refused for %j',
    async query => {
      expect((await own.get(`/datasets?${query}`)).body.code).toBe('invalid_request')
    },
  )
})

describe('the JSON Schema of a dataset', () => {
  it.each<[unknown, (string | number)[]]>([
    [{ type: 'text' }, ['type']],
    [{ properties: { a: 1 } }, ['properties', 'a']],
    [{ anyOf: [{}, { minimum: 'x' }] }, ['anyOf', 1, 'minimum']],
    [{ $ref: 'https://example.com/schema' }, ['$ref']],
    [{ $ref: '#/$defs/missing' }, ['$ref']],
    [{ items: { enum: 5 } }, ['items', 'enum']],
    [{ enum: [{ type: 5 }], $ref: '#/enum/0' }, ['$ref', 'type']],
  ])('%j is refused, naming the place', async (schema, path) => {
    const { status, body } = await tenant.post('/datasets', { name: 'x', outputs_schema_definition: schema })
    expect(status).toBe(422)
    expect(body.errors.map(({ loc }: { loc: unknown }) => loc)).toEqual([
      ['body', 'outputs_schema_definition', ...path],
    ])
  })
})

describe('the second version', () => {
  it('lists datasets page by page', async () => {
    const own = await newTenant()
    for (const name of ['a', 'b', 'c']) await own.post('/datasets', { name })
    const list = async (query: string) => (await own.get(`/v2/datasets?sort_by=name&sort_order=asc&${query}`)).body
    const first = await list('page_size=2')
    expect([first.items.map(({ name }: { name: string }) => name), first.has_more]).toEqual([['a', 'b'], true])
    const second = await list(`page_size=2&cursor=${first.next_cursor}&exclude=example_count`)
    expect(second).toMatchObject({ items: [{ name: 'c', example_count: null }], next_cursor: null, has_more: false })
    expect((await list('name_contains=B&data_type=kv&data_type=llm')).items).toMatchObject([{ name: 'b' }])
    expect((await own.get('/v2/datasets?cursor=none')).status).toBe(422)
  })

  it('lists examples with the runs of experiments', async () => {
    const own = await newTenant()
    const dataset_id = (await own.post('/datasets', { name: 'set' })).body.id
    const other = (await own.post('/datasets', { name: 'other' })).body.id
    const newExample = async (dataset: string) =>
      (await own.post('/examples', { dataset_id: dataset, inputs: { a: 1 } })).body.id as string
    const ids = [await newExample(dataset_id), await newExample(dataset_id)].toSorted()
    const elsewhere = await newExample(other)
    const experiment_ids: string[] = []
    for (const name of ['first', 'second'])
      experiment_ids.push((await own.post('/sessions', { name, reference_dataset_id: dataset_id })).body.id)
    const about = (id: string, session_name: string) => {
      const [root, below] = newTrace(['below']).runs
      return [
        { ...root!, session_name, reference_example_id: id },
        { ...below!, session_name },
      ]
    }
    const runs = [about(ids[0]!, 'first'), about(ids[0]!, 'second'), about(elsewhere, 'first')]
    await appendRuns(own, runs.flat())
    const query = (body: object) => own.post(`/v2/datasets/${dataset_id}/experiment-runs`, { experiment_ids, ...body })
    const { body: page } = await query({ selects: ['ID', 'NAME', 'PROJECT_ID'] })
    expect(page).toMatchObject({ next_cursor: null, has_more: false })
    expect(page.items.map(({ id }: { id: string }) => id)).toEqual(ids)
    const found = page.items.map((example: { runs: { id: string }[] }) => example.runs.map(({ id }) => id).toSorted())
    expect(found).toEqual([[runs[0]![0]!.id, runs[1]![0]!.id].toSorted(), []])
    expect(page.items[0]).toMatchObject({ inputs: { a: 1 }, attachment_urls: null })
    const one = (await query({ page_size: 1, experiment_ids: [experiment_ids[0]] })).body
    expect([one.items.length, one.items[0].runs]).toEqual([1, [{ id: runs[0]![0]!.id }]])
    const { cursor: _, ...second } = (await query({ page_size: 1, cursor: one.next_cursor })).body
    expect(second).toMatchObject({ items: [{ id: ids[1], runs: [] }], has_more: false })
    expect((await query({ example_ids: [ids[1]] })).body.items).toMatchObject([{ id: ids[1] }])

    const codes = [
      await query({ experiment_ids: [unusedId()] }),
      await own.post(`/v2/datasets/${unusedId()}/experiment-runs`, { experiment_ids }),
    ].map(({ body }) => body.code)
    expect(codes).toEqual(['project_not_found', 'dataset_not_found'])
    const wrong = { experiment_ids: [], comparative_experiment_id: unusedId(), filters: {}, sort: { by: 'a' } }
    expect((await query(wrong)).body.errors.map(({ loc }: { loc: string[] }) => loc[1])).toEqual(Object.keys(wrong))
    for (const permissions of [['runs:read'], ['datasets:read']]) {
      const { post } = await newLimitedCaller(own, permissions, [])
      expect((await post(`/v2/datasets/${dataset_id}/experiment-runs`, { experiment_ids })).status).toBe(403)
    }
  })
})
