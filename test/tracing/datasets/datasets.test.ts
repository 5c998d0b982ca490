// Datasets: what a client can say of them, find them by, and what is refused.
import { beforeAll, describe, expect, it } from 'vitest'
import { newTenant, type Tenant, unusedId } from '../../support/app.ts'

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
