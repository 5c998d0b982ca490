// Prepared statements of the gateway: how many are kept and how they are planned, and what serving survives.
import { neon, neonConfig } from '@neondatabase/serverless'
import type pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { createHost } from '../../src/host/host.ts'
import { bootstrap } from '../../src/people/access/bootstrap.ts'
import { ONE_PLAN } from '../../src/platform.ts'
import { openGateway as openGatewayTo } from '../support/gateway.ts'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'
import { connect } from '../support/postgres.ts'

const { fetchFunction: fetchOfApps } = neonConfig
let databaseUrl: string
let admin: pg.Client

beforeAll(async () => {
  databaseUrl = await createMigratedDatabase()
  admin = await connect(databaseUrl)
})
afterAll(() => admin.end())

const onStatementsLost = vi.fn()
beforeEach(() => onStatementsLost.mockClear())

/** A gateway with one connection, so that every request finds what the ones before have prepared. */
function openGateway() {
  const gateway = openGatewayTo({ databaseUrl, poolSize: 1, onStatementsLost })
  neonConfig.fetchFunction = gateway.fetch
  onTestFinished(async () => {
    neonConfig.fetchFunction = fetchOfApps
    await gateway.close()
  })
  return neon(gateway.connectionString)
}

const PLANS = 'select generic_plans, custom_plans from pg_prepared_statements where statement = $1'
let tables = 0
async function createTable(columns: string): Promise<string> {
  const table = `prepared_${++tables}`
  await admin.query(`create table ${table} (${columns})`)
  return table
}

describe('a gateway that prepares statements', () => {
  it('keeps a bounded number of them, those that are used', async () => {
    const { query } = openGateway()
    for (let i = 0; i < 250; i++) {
      await query(`select ${i} as n`)
      await query('select $1::int as used', [i])
    }
    const kept = await query('select statement from pg_prepared_statements')
    // The next request closes those over the bound, which are at most as many as the last one had statements.
    expect(kept.length).toBeLessThanOrEqual(51)
    expect(kept.map(({ statement }) => statement)).toContain('select $1::int as used')
  })

  it('closes those that failed, and keeps none that is huge', async () => {
    const { query } = openGateway()
    for (let i = 0; i < 150; i++) await query(`select 1 / $1::int + ${i}`, [0]).catch(() => {})
    expect(await query(`select '${'x'.repeat(40_000)}' as large`)).toEqual([{ large: 'x'.repeat(40_000) }])
    await query('select 1')
    const kept = await query('select statement from pg_prepared_statements')
    expect(kept.length).toBeLessThanOrEqual(3)
  })

  it('plans reads for their values, and lets Postgres keep the plans of writes', async () => {
    const table = await createTable('id int primary key, n int')
    const { query } = openGateway()
    const read = `select n from ${table} where id = $1`
    const write = `update ${table} set n = n + 1 where id = $1`
    for (let i = 0; i < 20; i++) {
      await query(read, [i])
      await query(write, [i])
    }
    const [planned] = await query(PLANS, [read])
    expect(planned).toMatchObject({ generic_plans: '0' })
    expect(Number(planned!.custom_plans)).toBeGreaterThan(0)
    expect(await query(PLANS, [write])).toEqual([{ generic_plans: '15', custom_plans: '5' }])
  })

  it('answers as if nothing was prepared when the schema has changed', async () => {
    const table = await createTable('n int')
    await admin.query(`insert into ${table} values (1)`)
    const { query } = openGateway()
    const [all, filtered] = [`select * from ${table}`, `select n from ${table} where n = $1`]
    expect([await query(all), await query(filtered, [1])]).toEqual([[{ n: 1 }], [{ n: 1 }]])
    await admin.query(`alter table ${table} add column word text default 'a', alter column n type text`)
    expect([await query(all), await query(filtered, ['1'])]).toEqual([[{ n: '1', word: 'a' }], [{ n: '1' }]])
    await admin.query(`alter table ${table} drop column n`)
    expect(await query(all)).toEqual([{ word: 'a' }])
    await expect(query(filtered, ['1'])).rejects.toMatchObject({ code: '42703' })
    expect(onStatementsLost).not.toHaveBeenCalled()
  })

  it.each([
    ['lost', () => 'deallocate all'],
    ['stale', (table: string) => `alter table ${table} alter column n type bigint`],
  ])('repeats a whole batch once when a statement is %s', async (failure, breaking) => {
    const table = await createTable('n int')
    const sql = openGateway()
    const batch = () =>
      sql.transaction([
        // It is parsed each time, so that it does not fail.
        sql.query(`insert into ${table} values (${calls++})`),
        sql.query(`select count(*)::int as n, max(n) from ${table}`),
      ])
    let calls = 0
    for (let i = 1; i <= 3; i++) expect((await batch()).at(-1)).toMatchObject([{ n: i }])
    await sql.query(breaking(table))
    expect((await batch()).at(-1)).toMatchObject([{ n: 4 }])
    expect((await batch()).at(-1)).toMatchObject([{ n: 5 }])
    expect(onStatementsLost).toHaveBeenCalledTimes(failure === 'lost' ? 1 : 0)
  })

  it.each(['deallocate all', 'alter table TABLE alter column n type bigint'])(
    'repeats nothing that a client has committed within its batch: %s',
    async breaking => {
      const table = await createTable('n int')
      const sql = openGateway()
      const read = () => sql.query(`select max(n) from ${table}`)
      await read()
      await read()
      await sql.query(breaking.replace('TABLE', table))
      const batch = [`begin`, `insert into ${table} values (1)`, 'commit'].map(text => sql.query(text))
      await expect(sql.transaction([...batch, read()])).rejects.toThrow()
      expect(await sql.query(`select count(*)::int as n from ${table}`)).toEqual([{ n: 1 }])
    },
  )

  it('keeps the plan of a read that says so, and describes it once', async () => {
    const table = await createTable('id int primary key, n int')
    const { query } = openGateway()
    const read = `${ONE_PLAN} select n, $1::int > 3 as late from ${table} where id = $1`
    await admin.query(`insert into ${table} select i, i from generate_series(1, 20) i`)
    for (let i = 1; i <= 20; i++) expect(await query(read, [i])).toEqual([{ n: i, late: i > 3 }])
    expect(await query(PLANS, [read])).toEqual([{ generic_plans: '15', custom_plans: '5' }])
  })

  it('prepares none any more once a pooler has lost one', async () => {
    const { query } = openGateway()
    for (let i = 0; i < 3; i++) {
      for (const n of [1, 2]) expect(await query('select $1::int as n', [n])).toEqual([{ n }])
      await query('deallocate all')
    }
    expect(await query('select statement from pg_prepared_statements')).toEqual([])
    expect(onStatementsLost).toHaveBeenCalledTimes(1)
  })

  it('reports an error of a statement as without preparing it', async () => {
    const { query } = openGateway()
    for (let i = 0; i < 7; i++) {
      await expect(query('select 1 / $1::int', [0])).rejects.toMatchObject({ code: '22012' })
      await expect(query('selec 1')).rejects.toMatchObject({ code: '42601', position: '1' })
      expect(await query('select 12 / $1::int as n', [i + 1])).toEqual([{ n: Math.floor(12 / (i + 1)) }])
    }
  })
})

describe('an installation that prepares statements', () => {
  const SETTINGS = { PUBLIC_URL: 'http://slipway.test', SEALING_KEYS: `first:${'A'.repeat(43)}` }
  const LIMIT = 10_000
  const open = async () => {
    const settings = { ...SETTINGS, DATABASE_URL: databaseUrl, RATE_LIMIT_PER_MINUTE: String(LIMIT) }
    const host = createHost(settings, { log: () => {} })
    onTestFinished(host.close)
    const { api_key } = await bootstrap(host.app.database, { organization: crypto.randomUUID() })
    const request = (path: string, method = 'GET', body?: object) =>
      host.app.request(`http://slipway.test${path}`, {
        method,
        headers: { 'X-Api-Key': api_key, 'Content-Type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
      })
    const create = (name: string) =>
      request('/v2/deployments', 'POST', {
        name,
        source: 'internal_template',
        source_config: { template_id: 'web-service' },
        source_revision_config: {},
        secrets: [],
      })
    const { id } = (await (await create('app')).json()) as { id: string }
    const visit = async (i: number) => {
      const requests = [
        () => request('/v2/deployments'),
        () => request(`/v2/deployments/${id}`),
        () => request(`/v2/deployments/${id}`, 'PATCH', { secrets: [{ name: 'TOKEN', value: `${i}` }] }),
      ]
      const response = await requests[i % requests.length]!()
      return { status: response.status, remaining: /r=(\d+)/.exec(response.headers.get('RateLimit') ?? '')?.[1] }
    }
    return { visit, create }
  }

  it('answers each request, and counts it once, while the schema changes', async () => {
    const { visit } = await open()
    const replies: Awaited<ReturnType<typeof visit>>[] = []
    for (const type of ['text', 'varchar', 'text', 'varchar', 'text']) {
      const visits = Array.from({ length: 24 }, (_, i) => visit(i))
      await admin.query(`alter table deployments alter column url type ${type}`)
      for (let i = 0; i < 6; i++) replies.push(await visit(i))
      replies.push(...(await Promise.all(visits)))
    }
    expect(replies.filter(({ status }) => status !== 200)).toEqual([])
    // The first request created the deployment.
    expect(Math.min(...replies.map(({ remaining }) => Number(remaining)))).toBe(LIMIT - 1 - replies.length)
  })

  it('serves on after its backends were killed', async () => {
    const { visit } = await open()
    for (let round = 0; round < 5; round++) {
      const visits = Array.from({ length: 24 }, (_, i) => visit(i))
      await admin.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()`,
      )
      const statuses = (await Promise.all(visits)).map(({ status }) => status)
      expect(statuses.filter(status => ![200, 503].includes(status))).toEqual([])
      await expect.poll(async () => (await visit(round)).status).toBe(200)
    }
  })
})
