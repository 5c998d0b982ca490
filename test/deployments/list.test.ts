// The list against a model in memory: the same filters, the same order, the same pages.
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../src/kernel/db.ts'
import { deploymentStatuses } from '../../src/protocol/parts.schema.ts'
import { getApp, newTenant, type Reply, type Tenant, unusedId } from '../support/app.ts'
import * as fc from '../support/seeded-fast-check.ts'

const TYPES = ['dev_free', 'dev', 'prod'] as const
const VERSIONS = [null, '1', '1.0', '1.0.0', 'latest', '%']
/** Pieces of names: patterns of LIKE, both cases, letters past ASCII. */
const PIECES = ['a', 'A', 'b', '%', '_', '\\', '%a', 'ä', 'Ä', 'Ж', 'ж', '界', '😀', "'", ' ', '.*']
const ROWS = 300

type Row = {
  id: string
  name: string
  status: string
  image_version: string | null
  deployment_type: string
  remote_reconciled: boolean
  tag_value_ids: string[]
  created_at: string
}
type Query = Partial<Record<string, string>>

let tenant: Tenant
let rows: Row[]
/** Values by their key. */
let keys: string[][]

const newestFirst = (a: Row, b: Row) =>
  a.created_at === b.created_at ? (a.id < b.id ? 1 : -1) : a.created_at < b.created_at ? 1 : -1

beforeAll(async () => {
  tenant = await newTenant()
  keys = []
  for (const key of ['team', 'stage', 'cost']) {
    const { id } = (await tenant.post('/v2/tag-keys', { key })).body
    const values = ['one', 'two', 'three'].map(value => tenant.post(`/v2/tag-keys/${id}/values`, { value }))
    keys.push((await Promise.all(values)).map(({ body }) => body.id))
  }
  const row = fc.record({
    id: fc.uuid({ version: 4 }),
    name: fc.array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 5 }).map(pieces => pieces.join('')),
    status: fc.constantFrom(...deploymentStatuses),
    image_version: fc.constantFrom(...VERSIONS),
    deployment_type: fc.constantFrom(...TYPES),
    remote_reconciled: fc.boolean(),
    tag_value_ids: fc.uniqueArray(fc.constantFrom(...keys.flat()), { maxLength: 4 }),
    // Few instants, so that many rows share theirs.
    created_at: fc.integer({ min: 0, max: 40 }).map(n => new Date(Date.UTC(2026, 0, 1) + n).toISOString()),
  })
  rows = fc.sample(fc.uniqueArray(row, { selector: ({ id }) => id, minLength: ROWS, maxLength: ROWS }), {
    numRuns: 1,
  })[0]!
  // Names repeat among those that are being deleted, as they may.
  await runAsSystem(
    getApp().database,
    sql`insert into deployments (organization_id, tenant_id, id, name, status, image_version, deployment_type, remote_reconciled,
        tag_value_ids, created_at, source, source_config, source_revision_config, secrets, deleting_at)
      select ${tenant.organization_id}::uuid, ${tenant.tenant_id}::uuid, r.*, 'internal_container', '{}', '{}', '[]', clock()
      from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) r(id uuid, name text, status text, image_version text, deployment_type text,
        remote_reconciled boolean, tag_value_ids uuid[], created_at timestamptz)`,
  )
  rows.sort(newestFirst)
})

const items = (text: string | undefined) => (text ? text.split(',') : undefined)

function model(query: Query): string[] {
  const [statuses, tags, ids] = [items(query.status), items(query.tag_value_ids), items(query.deployment_ids)]
  const asked = [...keys, ...(tags ?? []).filter(id => !keys.flat().includes(id)).map(id => [id])]
    .map(values => values.filter(value => tags?.includes(value)))
    .filter(values => values.length > 0)
  return rows
    .filter(
      row =>
        row.name.toLowerCase().includes((query.name_contains ?? '').toLowerCase()) &&
        (!statuses || statuses.includes(row.status)) &&
        (!query.remote_reconciled || row.remote_reconciled === (query.remote_reconciled === 'true')) &&
        asked.every(values => values.some(value => row.tag_value_ids.includes(value))) &&
        (!query.image_version || row.image_version === query.image_version) &&
        (!query.deployment_type || row.deployment_type === query.deployment_type) &&
        (!ids || ids.includes(row.id)),
    )
    .map(row => row.id)
}

const pathOf = (query: Query) => `/v2/deployments?${new URLSearchParams(query as Record<string, string>)}`
const idsOf = ({ body }: Reply): string[] => body.resources.map(({ id }: { id: string }) => id)
const linkOf = ({ headers }: Reply) => /^<(.*)>; rel="next"$/.exec(headers.get('Link') ?? '')?.[1]

const some = <T>(from: T[], most: number) =>
  fc.uniqueArray(fc.constantFrom(...from), { minLength: 1, maxLength: most }).map(chosen => chosen.join())
const queries = () =>
  fc.record(
    {
      name_contains: fc.array(fc.constantFrom(...PIECES), { maxLength: 2 }).map(pieces => pieces.join('')),
      status: fc.oneof(some([...deploymentStatuses], 4), fc.constant('')),
      remote_reconciled: fc.constantFrom('true', 'false', ''),
      tag_value_ids: fc.oneof(
        { weight: 5, arbitrary: some(keys.flat(), 4) },
        some([...keys.flat(), unusedId()], 3),
        fc.constant(''),
      ),
      image_version: fc.constantFrom(...VERSIONS.filter(version => version !== null), '2', ''),
      deployment_type: fc.constantFrom(...TYPES, ''),
      deployment_ids: fc.oneof(some([...rows.map(({ id }) => id), unusedId()], 100), fc.constant('')),
    },
    { requiredKeys: [] },
  ) as fc.Arbitrary<Query>

describe('the list', () => {
  it('gives what the model gives, for any filters and pages', async () => {
    // Most find few rows: beyond the first ones there is often nothing left to compare.
    const offset = fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: ROWS }))
    const page = fc.record({ limit: fc.integer({ min: 1, max: 100 }), offset })
    let found = 0
    const agrees = fc.asyncProperty(queries(), page, async (query, { limit, offset }) => {
      const wanted = model(query)
      const reply = await tenant.get(pathOf({ ...query, limit: `${limit}`, offset: `${offset}` }))
      expect(idsOf(reply)).toEqual(wanted.slice(offset, offset + limit))
      expect(reply.body.offset).toBe(offset + idsOf(reply).length)
      expect(reply.headers.has('Link')).toBe(wanted.length > offset + limit)
      found += idsOf(reply).length
    })
    await fc.assert(agrees, { numRuns: 250 })
    expect(found).toBeGreaterThan(250)
  }, 60_000)

  it('shows each row once when the offsets or the links are followed to the end', async () => {
    const single = ['name_contains', 'status', 'tag_value_ids', 'remote_reconciled'] as const
    const walks = fc.asyncProperty(
      queries(),
      fc.constantFrom(...single),
      fc.integer({ min: 7, max: 60 }),
      async (query, name, limit) => {
        const one: Query = { ...(query[name] && { [name]: query[name] }), limit: `${limit}` }
        const wanted = model(one)
        const [byOffset, byLink]: string[][] = [[], []]
        let reply = await tenant.get(pathOf(one))
        byOffset!.push(...idsOf(reply))
        while (idsOf(reply).length === limit) {
          reply = await tenant.get(pathOf({ ...one, offset: `${reply.body.offset}` }))
          byOffset!.push(...idsOf(reply))
        }
        for (let path: string | undefined = pathOf(one); path; path = linkOf(reply)) {
          reply = await tenant.get(path)
          byLink!.push(...idsOf(reply))
          expect(reply.body.offset).toBe(byLink!.length)
        }
        expect(byOffset).toEqual(wanted)
        expect(byLink).toEqual(wanted)
      },
    )
    await fc.assert(walks, { numRuns: 12 })
  }, 60_000)

  it.each(PIECES)('takes %s in a name literally, in either case', async piece => {
    const wanted = model({ name_contains: piece })
    expect(wanted.length).toBeGreaterThan(0)
    for (const name_contains of [piece, piece.toUpperCase(), piece.toLowerCase()]) {
      expect(idsOf(await tenant.get(pathOf({ name_contains, limit: '100' })))).toEqual(wanted.slice(0, 100))
    }
  })

  it('takes values of one key as alternatives, different keys together, and an unknown value for nothing', async () => {
    const [[a, b], [c]] = keys as [[string, string], [string]]
    const bearing = (test: (tags: string[]) => unknown) =>
      rows
        .filter(row => test(row.tag_value_ids))
        .map(row => row.id)
        .slice(0, 100)
    const asked = async (...ids: string[]) =>
      idsOf(await tenant.get(pathOf({ tag_value_ids: ids.join(), limit: '100' })))
    expect(await asked(a, b)).toEqual(bearing(tags => tags.includes(a) || tags.includes(b)))
    expect(await asked(a, c)).toEqual(bearing(tags => tags.includes(a) && tags.includes(c)))
    expect(await asked(a, b, c, a)).toEqual(bearing(tags => (tags.includes(a) || tags.includes(b)) && tags.includes(c)))
    expect(await asked(unusedId())).toEqual([])
    expect(await asked(a, unusedId())).toEqual([])
  })

  it('is twenty long unless asked, and refuses what is out of bounds', async () => {
    expect(idsOf(await tenant.get('/v2/deployments'))).toEqual(rows.slice(0, 20).map(({ id }) => id))
    const bad = [
      'limit=0',
      'limit=101',
      'offset=-1',
      'status=ready',
      'tag_value_ids=x',
      'deployment_type=x',
      'cursor=x',
    ]
    for (const query of bad) expect((await tenant.get(`/v2/deployments?${query}`)).status, query).toBe(422)
  })
})

describe('while deployments are added', () => {
  const add = async (tenant: Tenant) => {
    const source = { source: 'internal_container', source_config: {}, source_revision_config: {}, secrets: [] }
    return (await tenant.post('/v2/deployments', { name: `a${unusedId()}`, ...source })).body.id as string
  }

  it.each(['cursor', 'offset'] as const)('by %s none of those that were there is skipped', async way => {
    const tenant = await newTenant()
    const there = await Promise.all(Array.from({ length: 40 }, () => add(tenant)))
    const seen: string[] = []
    let reply = await tenant.get('/v2/deployments?limit=7')
    for (;;) {
      seen.push(...idsOf(reply))
      const next = way === 'cursor' ? linkOf(reply) : pathOf({ limit: '7', offset: `${reply.body.offset}` })
      if (idsOf(reply).length < 7 || !next) break
      await Promise.all([add(tenant), add(tenant)])
      reply = await tenant.get(next)
    }
    expect([...new Set(seen)].sort()).toEqual(there.sort())
    // An offset counts from the newest, so what it has shown may come again; a cursor stays where it was.
    if (way === 'cursor') expect(seen).toHaveLength(40)
  })
})
