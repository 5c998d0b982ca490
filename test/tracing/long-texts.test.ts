// Filters over texts of any length: the time limit ends every comparison.
import { type SQL, sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { createTraceKey } from '../../src/kernel/crypto/trace-keys.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { countRows } from '../../src/tracing/datasets/example-list.ts'
import { type Fields, RUN_FIELDS } from '../../src/tracing/runs/filter/fields.ts'
import { resolveFilters } from '../../src/tracing/runs/filter/resolve.ts'
import { statsStatement } from '../../src/tracing/store/postgres/stats.ts'
import { getApp, newTenant, send, startApp, type Tenant, unusedId } from '../support/app.ts'
import { minimalBody } from '../support/deployment-bodies.ts'
import { query } from '../support/postgres.ts'
import { appendEnded, appliedRuns, newTracedTenant, sweep } from '../support/rules.ts'
import { onClickHouse } from '../support/stored-runs.ts'
import { readRows } from '../support/traces.ts'
import { database } from '../support/worker-database.ts'

const MAX_IN_ROW = 32 * 1024
const LONG_ERROR = `boom ${'a'.repeat(40_000)} end`
/** Each matches at no place of a text of one letter, which shows only at its end. */
const PATTERNS = [`%${'a'.repeat(252)}b%`, `%a${'_'.repeat(14)}${'a'.repeat(237)}b%`]
const WORDS = `${`${'a'.repeat(254)}b `.repeat(20)}`.trim()
const TIMEOUT_MS = 100

const VALUES: Record<string, string[]> = {
  like: PATTERNS.map(pattern => `"${pattern}"`),
  search: [`"${WORDS}"`],
  has: [`"a"`, `'{"a": "${'a'.repeat(15_000)}"}'`],
  in: [`["${'a'.repeat(9000)}", "${'a'.repeat(9001)}"]`],
}
const OPERATORS = ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'in', 'like', 'search', 'has', 'exists']

/** Every operator of every field that takes a text. */
function filtersOf(fields: Fields): string[] {
  const texts = Object.keys(fields).flatMap(field =>
    OPERATORS.flatMap(operator =>
      (VALUES[operator] ?? [`"${'a'.repeat(19_000)}"`]).map(value => `${operator}(${field}, ${value})`),
    ),
  )
  return [`search("${WORDS}")`, ...texts].filter(filter => resolveFilters({ filter }, fields).faults.length === 0)
}

/** Reads like a request in the workspace, with a time limit of its own. */
async function readBriefly({ tenant_id }: Tenant, statement: SQL): Promise<string> {
  const enter = sql`select set_config('app.tenant_id', ${tenant_id}, true)`
  const limit = sql`select set_config('statement_timeout', ${String(TIMEOUT_MS)}, true)`
  return runAsSystem(getApp().database, enter, limit, statement).then(
    () => 'read',
    error => error.extra?.cause?.code ?? error.code,
  )
}
async function countRunning(): Promise<number> {
  const running = sql`
    select count(*)
    from pg_stat_activity
    where datname = current_database() and state = 'active' and query like '%octet_length%' and pid <> pg_backend_pid()`
  const [rows] = await runAsSystem(getApp().database, running)
  return Number((rows as [string][])[0]![0])
}

describe.skipIf(onClickHouse)('every operator over the longest text ends in time', () => {
  let tenant: Tenant
  let project: string
  let dataset: string

  beforeAll(async () => {
    const traced = await newTracedTenant()
    tenant = traced.tenant
    project = traced.session_id
    await appendEnded(tenant, 1, { error: 'boom', inputs: '{}', outputs: '{}', extra: '{"metadata":{"a":"b"}}' })
    dataset = (await tenant.post('/datasets', { name: unusedId() })).body.id
    await tenant.post('/examples', { dataset_id: dataset, inputs: {}, outputs: {} })
    // A body has at most 64 MiB. The other text is the longest whose members are compared, with long names.
    const long = `'{"a":"' || repeat('a', 62 * 1024 * 1024) || '"}'`
    const deep = `repeat('{"' || repeat('k', 200) || '":', 300)
      || '[' || rtrim(repeat('{"a":"a"},', 6000), ',') || ']' || repeat('}', 300)`
    const ofTenant = `where tenant_id = '${tenant.tenant_id}'`
    await query(database.url, `update runs set error = ${long}, inputs = ${deep}, outputs = ${deep} ${ofTenant}`)
    await query(database.url, `update example_contents set inputs = ${long}, outputs = ${deep} ${ofTenant}`)
  })

  it('on runs', async () => {
    for (const filter of filtersOf(RUN_FIELDS)) {
      const { filters } = resolveFilters({ filter }, RUN_FIELDS)
      const statement = statsStatement({ projects: [project], ...filters, statistics: ['run_count'] })
      expect(await readBriefly(tenant, statement), filter.slice(0, 60)).toMatch(/^(read|57014)$/)
    }
    expect(await countRunning()).toBe(0)
  })

  it('on examples', async () => {
    const ofExamples = filtersOf(RUN_FIELDS).filter(filter =>
      /^\w+\((inputs?|outputs?|metadata)\b|^search\("/.test(filter),
    )
    const statements = [
      ...ofExamples.map(filter => countRows({ dataset, filter } as never)),
      countRows({
        dataset,
        full_text_contains: Array.from({ length: 10 }, (_, i) => `${'a'.repeat(240)}b${i}`),
      } as never),
    ]
    for (const statement of statements) expect(await readBriefly(tenant, statement)).toMatch(/^(read|57014)$/)
    expect(await countRunning()).toBe(0)
  })
})

describe('a long error', () => {
  async function newTraced() {
    const tenant = await newTenant()
    const { id } = (await tenant.post('/v2/deployments', { ...minimalBody, name: `a${unusedId()}` })).body
    const key = await createTraceKey(getApp().config, { deployment_id: id, version: 1 })
    const traced = (method: string, path: string, body: object) =>
      send(method, path, { headers: { 'X-Api-Key': key }, body: body as never })
    return { tenant, traced }
  }
  const newRun = () => ({ id: unusedId(), name: 'x', run_type: 'chain', start_time: new Date().toISOString() })

  it('is stored apart from its row, and is whole on the wire', async () => {
    const { tenant, traced } = await newTraced()
    const run = newRun()
    expect((await traced('POST', '/runs', { ...run, error: LONG_ERROR })).status).toBe(202)
    const [row] = await readRows<{ error: string; status: string; objects: { error: object } }>(tenant)
    expect([row!.status, row!.error]).toEqual(['error', LONG_ERROR.slice(0, MAX_IN_ROW)])
    expect(row!.objects.error).toMatchObject({ bytes: LONG_ERROR.length, type: 'text/plain' })
    expect((await tenant.get(`/runs/${run.id}`)).body.error).toBe(LONG_ERROR)
    const page = (await tenant.post('/runs/query', { id: [run.id], select: ['error'] })).body
    expect(page.runs[0].error).toBe(LONG_ERROR)
  })

  it('goes with a shorter one that replaces it', async () => {
    const { tenant, traced } = await newTraced()
    const run = newRun()
    await traced('POST', '/runs', { ...run, error: LONG_ERROR })
    await traced('PATCH', `/runs/${run.id}`, { error: 'short' })
    expect((await tenant.get(`/runs/${run.id}`)).body.error).toBe('short')
    expect(await readRows(tenant)).toMatchObject([{ error: 'short', objects: null }])
  })

  it('is stored in the row of its run in base64 where there is no object store', async () => {
    const app = startApp({ overrides: { storage: undefined } })
    const tenant = await newTenant({ app })
    const run = newRun()
    await tenant.post('/runs', { ...run, error: LONG_ERROR })
    expect(await readRows(tenant)).toMatchObject([
      { error: LONG_ERROR.slice(0, MAX_IN_ROW), objects: { error: { base64: expect.any(String) } } },
    ])
    expect((await tenant.get(`/runs/${run.id}`)).body.error).toBe(LONG_ERROR)
  })

  it('is found by its beginning, also by a rule', async () => {
    const { tenant, session_id, createRule } = await newTracedTenant()
    const [found, missed] = [
      await createRule({ filter: 'like(error, "boom%")' }),
      await createRule({ filter: 'search(error, "end")' }),
    ]
    const [run] = await appendEnded(tenant, 1, { error: LONG_ERROR })
    await sweep(tenant)
    expect([await appliedRuns(tenant, found), await appliedRuns(tenant, missed)]).toEqual([[run], []])
    const { body } = await tenant.post('/runs/query', { session: [session_id], filter: 'like(error, "boom%")' })
    expect(body.runs.map(({ id }: { id: string }) => id)).toEqual([run])
  })
})

describe('a filter that compares long texts in part', () => {
  const warningOf = ({ headers }: { headers: Headers }) => headers.get('Slipway-Warnings') !== null

  it('is answered with a warning, and no other filter is', async () => {
    const { tenant, session_id: project } = await newTracedTenant()
    const query = async (filter: string) => warningOf(await tenant.post('/runs/query', { session: [project], filter }))
    const partial = ['search("a")', 'like(error, "%a%")', 'not(search(inputs, "a"))', 'eq(output_key, "a")']
    const whole = ['eq(error, "a")', 'like(name, "%a%")', 'eq(metadata_key, "a")', 'neq(error, null)']
    expect(await Promise.all(partial.map(query))).toEqual(partial.map(() => true))
    expect(await Promise.all(whole.map(query))).toEqual(whole.map(() => false))
    expect(warningOf(await tenant.post('/runs/stats', { session: [project], filter: 'search("a")' }))).toBe(true)
    const rule = { display_name: 'r', sampling_rate: 1, session_id: project, filter: 'search("a")' }
    expect(warningOf(await tenant.post('/runs/rules', rule))).toBe(true)
  })

  it('is answered with a warning for examples', async () => {
    const tenant = await newTenant()
    const { id } = (await tenant.post('/datasets', { name: unusedId() })).body
    const list = async (query: string) => warningOf(await tenant.get(`/examples?dataset=${id}&${query}`))
    expect(await list('filter=like(inputs,"%25a%25")')).toBe(true)
    expect(await list('full_text_contains=a')).toBe(true)
    expect(await list('filter=has(metadata,\'{"a":1}\')')).toBe(false)
  })
})
