// Compares the list with a model in memory.
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { deploymentStatuses } from '../../../src/protocol/parts.schema.ts'
import { getApp, newTenant, type Reply, type Tenant, unusedId } from '../../support/app.ts'
import { query } from '../../support/postgres.ts'
import * as fc from '../../support/seeded-fast-check.ts'
import { database } from '../../support/worker-database.ts'

const TYPES = ['dev_free', 'dev', 'prod'] as const
const VERSIONS = [null, '1', '1.0', '1.0.0', 'latest', '%']
/** Parts of names: characters of LIKE patterns, both cases, letters outside ASCII. */
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
/** The ids of the values of each tag key. */
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
    // Few distinct times, so that many rows have the same one.
    created_at: fc.integer({ min: 0, max: 40 }).map(n => new Date(Date.UTC(2026, 0, 1) + n).toISOString()),
  })
  rows = fc.sample(fc.uniqueArray(row, { selector: ({ id }) => id, minLength: ROWS, maxLength: ROWS }), {
    numRuns: 1,
  })[0]!
  // Only deployments that are being deleted can have the same name.
  await runAsSystem(
    getApp().database,
    sql`
      insert into deployments (
        organization_id, tenant_id,
        id, name, status, image_version, deployment_type, remote_reconciled, tag_value_ids, created_at,
        source, source_config, source_revision_config, secrets, deleting_at
      )
      select
        ${tenant.organization_id}::uuid, ${tenant.tenant_id}::uuid,
        r.*,
        'internal_container', '{}', '{}', '[]', clock()
      from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) r(
        id uuid, name text, status text, image_version text, deployment_type text, remote_reconciled boolean,
        tag_value_ids uuid[], created_at timestamptz
      )`,
  )
  // Autovacuum has not seen the rows yet. Without statistics, a filter by tags takes fifteen times as long.
  await query(database.url, 'analyze')
  rows.sort(newestFirst)
})

const lowerName = ({ name }: Row) => name.toLowerCase()
const splitItems = (text: string | undefined) => (text ? text.split(',') : undefined)

/** The ids that the list has to return, without paging. */
function filterRows(query: Query): string[] {
  const [statuses, tags, ids] = [query.status, query.tag_value_ids, query.deployment_ids].map(splitItems)
  const valuesByKey = [...keys, ...(tags ?? []).filter(id => !keys.flat().includes(id)).map(id => [id])]
    .map(values => values.filter(value => tags?.includes(value)))
    .filter(values => values.length > 0)
  return rows
    .filter(
      row =>
        // Names that the API accepts are lower-case.
        (!query.name || lowerName(row) === query.name) &&
        row.name.toLowerCase().includes((query.name_contains ?? '').toLowerCase()) &&
        (!statuses || statuses.includes(row.status)) &&
        (!query.remote_reconciled || row.remote_reconciled === (query.remote_reconciled === 'true')) &&
        valuesByKey.every(values => values.some(value => row.tag_value_ids.includes(value))) &&
        (!query.image_version || row.image_version === query.image_version) &&
        (!query.deployment_type || row.deployment_type === query.deployment_type) &&
        (!ids || ids.includes(row.id)),
    )
    .map(row => row.id)
}

const pathOf = (query: Query) => `/v2/deployments?${new URLSearchParams(query as Record<string, string>)}`
const idsOf = ({ body }: Reply): string[] => body.resources.map(({ id }: { id: string }) => id)
const linkOf = ({ headers }: Reply) => /^<(.*)>; rel="next"$/.exec(headers.get('Link') ?? '')?.[1]

const arbitrarySome = <T>(from: T[], maxLength: number) =>
  fc.uniqueArray(fc.constantFrom(...from), { minLength: 1, maxLength }).map(chosen => chosen.join())
const arbitraryQuery = () =>
  fc.record(
    {
      // Rare, because it leaves few rows.
      name: fc.oneof({ weight: 9, arbitrary: fc.constant('') }, fc.constantFrom('a', ...rows.map(lowerName))),
      name_contains: fc.array(fc.constantFrom(...PIECES), { maxLength: 2 }).map(pieces => pieces.join('')),
      status: fc.oneof(arbitrarySome([...deploymentStatuses], 4), fc.constant('')),
      remote_reconciled: fc.constantFrom('true', 'false', ''),
      tag_value_ids: fc.oneof(
        { weight: 5, arbitrary: arbitrarySome(keys.flat(), 4) },
        arbitrarySome([...keys.flat(), unusedId()], 3),
        fc.constant(''),
      ),
      image_version: fc.constantFrom(...VERSIONS.filter(version => version !== null), '2', ''),
      deployment_type: fc.constantFrom(...TYPES, ''),
      deployment_ids: fc.oneof(arbitrarySome([...rows.map(({ id }) => id), unusedId()], 100), fc.constant('')),
    },
    { requiredKeys: [] },
  ) as fc.Arbitrary<Query>

describe('the list of deployments', () => {
  it('returns the same rows as the model for any filters and pages', async () => {
    // Most queries match few rows, so half of the pages begin at the first one.
    const offset = fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: ROWS }))
    const page = fc.record({ limit: fc.integer({ min: 1, max: 100 }), offset })
    let rowCount = 0
    const equalsModel = fc.asyncProperty(arbitraryQuery(), page, async (query, { limit, offset }) => {
      const expected = filterRows(query)
      const reply = await tenant.get(pathOf({ ...query, limit: `${limit}`, offset: `${offset}` }))
      expect(idsOf(reply)).toEqual(expected.slice(offset, offset + limit))
      expect(reply.body.offset).toBe(offset + idsOf(reply).length)
      expect(reply.headers.has('Link')).toBe(expected.length > offset + limit)
      rowCount += idsOf(reply).length
    })
    await fc.assert(equalsModel, { numRuns: 250 })
    expect(rowCount).toBeGreaterThan(250)
  }, 60_000)

  it('returns each row once if a client follows the offsets or the links to the end', async () => {
    const single = ['name_contains', 'status', 'tag_value_ids', 'remote_reconciled'] as const
    const returnsEachOnce = fc.asyncProperty(
      arbitraryQuery(),
      fc.constantFrom(...single),
      fc.integer({ min: 7, max: 60 }),
      async (query, name, limit) => {
        const firstPage: Query = { ...(query[name] && { [name]: query[name] }), limit: `${limit}` }
        const expected = filterRows(firstPage)
        const [byOffset, byLink]: string[][] = [[], []]
        let reply = await tenant.get(pathOf(firstPage))
        byOffset!.push(...idsOf(reply))
        while (idsOf(reply).length === limit) {
          reply = await tenant.get(pathOf({ ...firstPage, offset: `${reply.body.offset}` }))
          byOffset!.push(...idsOf(reply))
        }
        for (let path: string | undefined = pathOf(firstPage); path; path = linkOf(reply)) {
          reply = await tenant.get(path)
          byLink!.push(...idsOf(reply))
          expect(reply.body.offset).toBe(byLink!.length)
        }
        expect(byOffset).toEqual(expected)
        expect(byLink).toEqual(expected)
      },
    )
    await fc.assert(returnsEachOnce, { numRuns: 12 })
  }, 60_000)

  it.each(PIECES)('is filtered by %j in a name literally and without regard to case', async piece => {
    const expected = filterRows({ name_contains: piece })
    expect(expected.length).toBeGreaterThan(0)
    for (const name_contains of [piece, piece.toUpperCase(), piece.toLowerCase()]) {
      expect(idsOf(await tenant.get(pathOf({ name_contains, limit: '100' })))).toEqual(expected.slice(0, 100))
    }
  })

  it('matches any of several tag values of one key, and all of several keys', async () => {
    const [[a, b], [c]] = keys as [[string, string], [string]]
    const listRowsWith = (test: (tags: string[]) => unknown) =>
      rows
        .filter(row => test(row.tag_value_ids))
        .map(row => row.id)
        .slice(0, 100)
    const listByTags = async (...ids: string[]) =>
      idsOf(await tenant.get(pathOf({ tag_value_ids: ids.join(), limit: '100' })))
    expect(await listByTags(a, b)).toEqual(listRowsWith(tags => tags.includes(a) || tags.includes(b)))
    expect(await listByTags(a, c)).toEqual(listRowsWith(tags => tags.includes(a) && tags.includes(c)))
    expect(await listByTags(a, b, c, a)).toEqual(
      listRowsWith(tags => (tags.includes(a) || tags.includes(b)) && tags.includes(c)),
    )
    expect(await listByTags(unusedId())).toEqual([])
    expect(await listByTags(a, unusedId())).toEqual([])
  })

  it('has nothing of an unknown status, which a warning names', async () => {
    const path = '/v2/deployments'
    for (const status of ['ready', 'NEVER', '', '%C3%9C%0A"']) {
      const { body, headers } = await tenant.get(`${path}?status=${status || ','}`)
      expect(body).toEqual({ resources: [], offset: 0 })
      expect(headers.get('Slipway-Warnings')).toContain('AWAITING_DATABASE')
    }
    const some = await tenant.get(`${path}?status=READY,NEVER&limit=100`)
    expect(idsOf(some)).toEqual(idsOf(await tenant.get(`${path}?status=READY&limit=100`)))
    expect(some.headers.get('Slipway-Warnings')).toContain('NEVER')
    const counted = await tenant.get('/v2/deployment-counts?status=NEVER')
    expect([counted.body.total, counted.headers.get('Slipway-Warnings') !== null]).toEqual([0, true])
    const revisions = await tenant.get(`${path}/${rows[0]!.id}/revisions?status=READY`)
    expect(revisions.body.resources).toEqual([])
    expect(revisions.headers.get('Slipway-Warnings')).toContain('BUILDING')
  })

  it('has twenty rows by default, and refuses invalid parameters', async () => {
    expect(idsOf(await tenant.get('/v2/deployments'))).toEqual(rows.slice(0, 20).map(({ id }) => id))
    const bad = ['limit=0', 'limit=101', 'offset=-1', 'tag_value_ids=x', 'deployment_type=x', 'cursor=x']
    for (const query of bad) expect((await tenant.get(`/v2/deployments?${query}`)).status, query).toBe(422)
  })
})

describe('paging while deployments are added', () => {
  const addDeployment = async (tenant: Tenant) => {
    const source = { source: 'internal_container', source_config: {}, source_revision_config: {}, secrets: [] }
    return (await tenant.post('/v2/deployments', { name: `a${unusedId()}`, ...source })).body.id as string
  }

  it.each(['cursor', 'offset'] as const)('by %s skips no deployment that existed before', async way => {
    const tenant = await newTenant()
    const existing = await Promise.all(Array.from({ length: 40 }, () => addDeployment(tenant)))
    const listed: string[] = []
    let reply = await tenant.get('/v2/deployments?limit=7')
    for (;;) {
      listed.push(...idsOf(reply))
      const next = way === 'cursor' ? linkOf(reply) : pathOf({ limit: '7', offset: `${reply.body.offset}` })
      if (idsOf(reply).length < 7 || !next) break
      await Promise.all([addDeployment(tenant), addDeployment(tenant)])
      reply = await tenant.get(next)
    }
    expect([...new Set(listed)].sort()).toEqual(existing.sort())
    // An offset counts from the newest deployment, so new ones repeat some rows. A cursor repeats none.
    if (way === 'cursor') expect(listed).toHaveLength(40)
  })
})
