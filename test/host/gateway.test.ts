// The gateway with a real Postgres and the real driver, over HTTP and in process.
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NeonDbError, neon, neonConfig, types } from '@neondatabase/serverless'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type Postgres, startPostgres } from '../../src/host/embedded-postgres.ts'
import { createGateway, type Gateway } from '../../src/host/gateway.ts'
import { waitFor } from '../support/commands.ts'
import { startMigratedPostgres } from '../support/migrated-postgres.ts'
import { query } from '../support/postgres.ts'

const root = fs.mkdtempSync(join(tmpdir(), 'slipway-gateway-'))
const { fetchEndpoint: defaultEndpoint, fetchFunction: defaultFetch } = neonConfig
// The driver of the app sets it for the whole process, too.
types.setTypeParser(types.builtins.TIMESTAMPTZ as number, text => text)
let server: Postgres
let gateway: Gateway
let endpoint: string
let tables = 0

const inProcess = (to: Gateway) => {
  neonConfig.fetchFunction = to.fetch
  return neon(to.connectionString)
}

beforeAll(async () => {
  server = await startMigratedPostgres(join(root, 'postgres'))
  gateway = createGateway({ databaseUrl: server.url })
  endpoint = (await gateway.listen()).url
})

afterAll(async () => {
  Object.assign(neonConfig, { fetchEndpoint: defaultEndpoint, fetchFunction: defaultFetch })
  await gateway.close()
  await server.stop()
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 9 })
})

describe.each(['over HTTP', 'in process'])('the gateway %s', transport => {
  const sql = (...args: Parameters<ReturnType<typeof neon>['query']>) => driver().query(...args)
  const driver = () => neon(gateway.connectionString)
  let table: string

  beforeEach(async () => {
    neonConfig.fetchEndpoint = transport === 'over HTTP' ? endpoint : defaultEndpoint
    neonConfig.fetchFunction = transport === 'over HTTP' ? fetch : gateway.fetch
    table = `t${++tables}`
    await sql(`create table ${table} (n int primary key)`)
  })

  test('runs a query', async () => {
    expect(await driver()`select ${'a'}::text as a, ${1}::int + 1 as b`).toEqual([{ a: 'a', b: 2 }])
    expect(await sql('')).toEqual([])
  })

  test('returns the command, the row count and the types as full results', async () => {
    const full = neon(gateway.connectionString, { fullResults: true, arrayMode: true })
    const inserted = await full.query(`insert into ${table} values (1), (2) returning n`)
    expect(inserted).toMatchObject({ command: 'INSERT', rowCount: 2, rows: [[1], [2]], rowAsArray: true })
    expect(inserted.fields).toMatchObject([{ name: 'n', dataTypeID: 23 }])
    expect(await full.query(`create index on ${table} (n)`)).toMatchObject({
      command: 'CREATE',
      rowCount: null,
      rows: [],
    })
  })

  test.each([
    ['null', 'text', null, null],
    ['unicode', 'text', 'žluťoučký 🐎 \u2028 "\\', 'žluťoučký 🐎 \u2028 "\\'],
    ['boolean', 'boolean', true, true],
    ['bigint', 'bigint', '9007199254740993', '9007199254740993'],
    ['numeric', 'numeric', '12345678901234567890.0123456789', '12345678901234567890.0123456789'],
    ['jsonb', 'jsonb', { b: [1, null, 'x'], a: 'ž' }, { b: [1, null, 'x'], a: 'ž' }],
    ['array', 'text[]', ['a', null, 'b"c,\\'], ['a', null, 'b"c,\\']],
    ['empty array', 'int[]', [], []],
    ['timestamptz', 'timestamptz', '2026-11-21T09:00:00.123456+02', '2026-11-21 07:00:00.123456+00'],
    ['uuid', 'uuid', '01890a5d-ac96-774b-bcce-b302099a8057', '01890a5d-ac96-774b-bcce-b302099a8057'],
    ['bytea', 'bytea', Buffer.from([0, 1, 254, 255]), Buffer.from([0, 1, 254, 255])],
  ])('returns a parameter of %s unchanged', async (_, type, given, expected) => {
    expect(await driver()`select ${given}::${neon(gateway.connectionString).unsafe(type)} as v`).toEqual([
      { v: expected },
    ])
  })

  test('returns rows as arrays or objects, with the values as Postgres text', async () => {
    const request = (arrayMode: string) =>
      neonConfig.fetchFunction(endpoint, {
        method: 'POST',
        headers: { 'Neon-Connection-String': gateway.connectionString, 'Neon-Array-Mode': arrayMode },
        body: JSON.stringify({ query: "select '2026-11-21T09:00Z'::timestamptz as a, 1.50 as b, null as c" }),
      })
    const row = ['2026-11-21 09:00:00+00', '1.50', null]
    expect(await (await request('true')).json()).toMatchObject({ rows: [row], rowAsArray: true })
    expect(await (await request('false')).json()).toMatchObject({
      rows: [{ a: row[0], b: row[1], c: row[2] }],
      rowAsArray: false,
    })
  })

  test('runs a batch as one transaction, in which each statement sees the ones before', async () => {
    const sql = driver()
    const results = await sql.transaction([
      sql`select set_config('app.tenant_id', 'acme', true)`,
      sql.query(`insert into ${table} values (1) returning n`),
      sql.query(`select n, current_setting('app.tenant_id') as tenant from ${table}`),
      sql.query(`update ${table} set n = 2 where n = 99 returning n`),
    ])
    expect(results.slice(1)).toEqual([[{ n: 1 }], [{ n: 1, tenant: 'acme' }], []])
    expect(await sql`select coalesce(current_setting('app.tenant_id', true), '') as tenant`).toEqual([{ tenant: '' }])
    expect(await sql.transaction([])).toEqual([])
  })

  test('rolls back the whole batch after an error, and runs no later statement', async () => {
    const sql = driver()
    await sql.query(`create sequence ${table}_calls`)
    const batch = sql.transaction([
      sql.query(`insert into ${table} values (1)`),
      sql.query(`insert into ${table} values (1)`),
      sql.query('rollback'),
      sql.query(`select nextval('${table}_calls')`),
    ])
    await expect(batch).rejects.toMatchObject({ code: '23505', table, constraint: `${table}_pkey` })
    expect(await sql.query(`select n from ${table}`)).toEqual([])
    expect(await sql.query(`select nextval('${table}_calls') as n`)).toEqual([{ n: '1' }])
  })

  test('returns an error of the commit', async () => {
    const sql = driver()
    await sql.query(`create table ${table}_child (n int references ${table} deferrable initially deferred)`)
    await expect(sql.transaction([sql.query(`insert into ${table}_child values (7)`)])).rejects.toMatchObject({
      code: '23503',
    })
    expect(await sql.query(`select n from ${table}_child`)).toEqual([])
  })

  test('returns a custom SQLSTATE with its detail and hint', async () => {
    const raise = `do $$ begin
      raise exception 'no' using errcode = 'SW403', detail = 'deployments:update', hint = 'ask'; end $$`
    const error = await sql(raise).catch(error => error)
    expect(error).toBeInstanceOf(NeonDbError)
    expect(error).toMatchObject({
      message: 'no',
      code: 'SW403',
      detail: 'deployments:update',
      hint: 'ask',
      severity: 'ERROR',
    })
  })

  test('returns a syntax error with its position, and refuses wrong parameters and several statements', async () => {
    await expect(sql('selec 1')).rejects.toMatchObject({ code: '42601', position: '1' })
    await expect(sql('select $1::int', ['x'])).rejects.toMatchObject({ code: '22P02' })
    await expect(sql('select $1::int')).rejects.toMatchObject({ code: '08P01' })
    await expect(sql('select 1; select 2')).rejects.toMatchObject({ code: '42601' })
  })

  test('applies the isolation level, read only and deferrable to a batch', async () => {
    const sql = driver()
    const settings = ['transaction_isolation', 'transaction_read_only', 'transaction_deferrable']
    const settingsWith = async (options: object) =>
      (
        await sql.transaction(
          [sql.query(`select ${settings.map(name => `current_setting('${name}')`).join(" || ' ' || ")} as v`)],
          options,
        )
      )[0]
    expect(await settingsWith({})).toEqual([{ v: 'read committed off off' }])
    expect(await settingsWith({ isolationLevel: 'RepeatableRead' })).toEqual([{ v: 'repeatable read off off' }])
    expect(await settingsWith({ isolationLevel: 'Serializable', readOnly: true, deferrable: true })).toEqual([
      { v: 'serializable on on' },
    ])
    await expect(settingsWith({ isolationLevel: 'Serializable; drop table x' })).rejects.toMatchObject({
      code: '08P01',
    })
    const write = sql.transaction([sql.query(`insert into ${table} values (1)`)], { readOnly: true })
    await expect(write).rejects.toMatchObject({ code: '25006' })
  })

  test('returns each of 200 concurrent requests on 10 connections its result', async () => {
    const sql = driver()
    const numbers = Array.from({ length: 200 }, (_, i) => i)
    const results = await Promise.all(
      numbers.map(i => (i % 2 ? sql`select ${i}::int as i` : sql.transaction([sql`select ${i}::int as i`]))),
    )
    expect(results.map((rows, i) => (i % 2 ? rows[0] : (rows[0] as unknown[])[0]))).toEqual(numbers.map(i => ({ i })))
  })

  test('accepts and returns a large value', async () => {
    const large = 'ž'.repeat(2_000_000)
    expect(await driver()`select ${large} as large, length(${large}) as n`).toEqual([{ large, n: 2_000_000 }])
  })
})

describe('a request to the gateway', () => {
  const body = JSON.stringify({ query: 'create table intruded ()' })
  const withWrongToken = () => gateway.connectionString.replace(/:[^:@]*@/, ':wrong@')
  const attempts: [string, () => Record<string, string>][] = [
    ['no connection string', () => ({})],
    ['a wrong token', () => ({ 'Neon-Connection-String': withWrongToken() })],
    ['an empty token', () => ({ 'Neon-Connection-String': 'postgresql://gateway@127.0.0.1/slipway' })],
    ['an invalid connection string', () => ({ 'Neon-Connection-String': 'x' })],
    ['the database password', () => ({ 'Neon-Connection-String': server.url })],
  ]

  test.each(attempts)('with %s is refused, and no statement runs', async (_, headers) => {
    const request = { method: 'POST', headers: headers(), body }
    const response = await fetch(endpoint, request)
    expect([response.status, (await gateway.fetch(endpoint, request)).status]).toEqual([401, 401])
    expect([...response.headers.keys()].filter(name => name.startsWith('access-control'))).toEqual([])
    expect(await inProcess(gateway)`select to_regclass('intruded') as name`).toEqual([{ name: null }])
  })

  test.each(['', 'x', 'null', '[]', '{"query":1}', '{"queries":[null]}', '{"query":"select 1","params":{}}'])(
    'with the body %j is refused',
    async body => {
      for (const send of [fetch, gateway.fetch]) {
        const headers = { 'Neon-Connection-String': gateway.connectionString }
        expect((await send(endpoint, { method: 'POST', headers, body })).status).toBe(400)
      }
    },
  )

  test('with a body over 32 MiB is refused', async () => {
    const body = JSON.stringify({ query: 'select 1', padding: 'x'.repeat(33 * 1024 * 1024) })
    for (const send of [fetch, gateway.fetch]) {
      const headers = { 'Neon-Connection-String': gateway.connectionString }
      const status = await send(endpoint, { method: 'POST', headers, body }).then(
        response => response.status,
        // A refusal may also close the connection while the body is still being sent.
        () => 413,
      )
      expect(status).toBe(413)
    }
  })

  test('is accepted with the connection string of another gateway with the same configured token', async () => {
    const create = () => createGateway({ databaseUrl: server.url, token: 'a token/with: separators' })
    const [first, second] = [create(), create()]
    expect(first.connectionString).toBe(second.connectionString)
    neonConfig.fetchFunction = second.fetch
    expect(await neon(first.connectionString)`select 1 as n`).toEqual([{ n: 1 }])
    await Promise.all([first.close(), second.close()])
  })
})

describe('failures', () => {
  test('an aborted request in process ends at once with an error', async () => {
    neonConfig.fetchFunction = gateway.fetch
    const sql = neon(gateway.connectionString)
    const signal = AbortSignal.timeout(200)
    const start = performance.now()
    await expect(sql.query('select pg_sleep(9)', [], { fetchOptions: { signal } })).rejects.toThrow(NeonDbError)
    expect(performance.now() - start).toBeLessThan(8000)
    await expect(sql.query('select 1', [], { fetchOptions: { signal: AbortSignal.abort() } })).rejects.toThrow(
      NeonDbError,
    )
  })

  const createSmallGateway = (databaseUrl: string, options = {}) =>
    createGateway({ databaseUrl, poolSize: 1, ...options })

  async function statusOf(gateway: Gateway, query: string): Promise<{ status: number; code: string }> {
    const headers = { 'Neon-Connection-String': gateway.connectionString }
    const response = await gateway.fetch(endpoint, { method: 'POST', headers, body: JSON.stringify({ query }) })
    return { status: response.status, code: ((await response.json()) as { code: string }).code }
  }

  test('a request whose backend is killed returns an error, and the next request works', async () => {
    const gateway = createSmallGateway(server.url)
    expect(await statusOf(gateway, 'select pg_terminate_backend(pg_backend_pid())')).toEqual({
      status: 503,
      code: '57P01',
    })
    expect(await statusOf(gateway, 'select 1')).toMatchObject({ status: 200 })
    const sql = inProcess(gateway)
    const batch = sql.transaction([sql`select 1`, sql`select pg_terminate_backend(pg_backend_pid())`, sql`select 2`])
    await expect(batch).rejects.toBeInstanceOf(NeonDbError)
    expect(await sql`select 1 as n`).toEqual([{ n: 1 }])
    await gateway.close()
  })

  test('a backend that is killed while idle causes no error', async () => {
    const gateway = createSmallGateway(server.url)
    const sql = inProcess(gateway)
    const [row] = await sql`select pg_backend_pid() as pid`
    await query(server.url, `select pg_terminate_backend(${row?.pid}, 5000)`)
    await waitFor(() => sql`select 1 as n`.catch(() => undefined))
    await gateway.close()
  })

  test('a request is affected neither by an open transaction of an earlier request nor by its error', async () => {
    const gateway = createSmallGateway(server.url)
    for (const query of ['select 1 / 0', 'copy (select 1) to stdout', 'start transaction read only'])
      await statusOf(gateway, query)
    expect(await inProcess(gateway)`select current_setting('transaction_read_only') as v`).toEqual([{ v: 'off' }])
    for (const query of ['begin', 'create table committed ()']) await statusOf(gateway, query)
    await gateway.close()
    const restarted = createSmallGateway(server.url)
    expect(await inProcess(restarted)`select to_regclass('committed') as name`).toEqual([{ name: 'committed' }])
    await restarted.close()
  })

  test('COPY FROM STDIN fails at once, and the next request works', async () => {
    const gateway = createSmallGateway(server.url)
    const sql = inProcess(gateway)
    const batch = sql.transaction([sql`create temp table w (n int)`, sql`copy w from stdin`, sql`select 1 as n`])
    await expect(batch).rejects.toBeInstanceOf(NeonDbError)
    expect(await sql`select 2 as n`).toEqual([{ n: 2 }])
    await gateway.close()
  })

  test('a slow statement ends at the statement timeout, and the pool keeps working', async () => {
    const gateway = createSmallGateway(server.url, { statementTimeout: 100 })
    expect(await statusOf(gateway, 'select pg_sleep(30)')).toEqual({ status: 400, code: '57014' })
    expect(await statusOf(gateway, 'select 1')).toMatchObject({ status: 200 })
    await gateway.close()
  })

  test('an unreachable server, a wrong password and a missing database give 503', async () => {
    const variant = (change: (url: URL) => void) => {
      const url = new URL(server.url)
      change(url)
      return url.href
    }
    const cases: [string, string][] = [
      ['postgresql://a:b@127.0.0.1:1/none', '08006'],
      [variant(url => Object.assign(url, { password: 'wrong' })), '28P01'],
      [variant(url => Object.assign(url, { pathname: '/none' })), '3D000'],
    ]
    for (const [url, code] of cases) {
      const gateway = createSmallGateway(url)
      expect(await statusOf(gateway, 'select 1')).toEqual({ status: 503, code })
      await gateway.close()
    }
  })

  test('a stopped Postgres gives 503 at once, and requests work again after its restart', async () => {
    const dataDir = fs.mkdtempSync(join(root, 'stopping-'))
    const first = await startMigratedPostgres(dataDir)
    onTestFinished(first.stop)
    const gateway = createSmallGateway(first.url)
    onTestFinished(gateway.close)
    expect(await statusOf(gateway, 'select 1')).toMatchObject({ status: 200 })
    const pending = statusOf(gateway, 'select pg_sleep(30)')
    const sleeping = `select from pg_stat_activity where query like 'select pg_sleep%'`
    await waitFor(async () => (await query(first.url, sleeping)).length === 1)
    await first.stop()
    expect((await pending).status).toBe(503)
    const start = performance.now()
    expect(await statusOf(gateway, 'select 1')).toEqual({ status: 503, code: '08006' })
    expect(performance.now() - start).toBeLessThan(4000)
    const second = await startPostgres({ dataDir, port: first.port, durable: false })
    onTestFinished(second.stop)
    expect(await statusOf(gateway, 'select 1')).toMatchObject({ status: 200 })
  })
})

test('onTrip is called once for each request, and rewrite can change statements', async () => {
  const onTrip = vi.fn()
  const gateway = createGateway({ databaseUrl: server.url, onTrip, rewrite: text => text.replace('before', 'after') })
  const sql = inProcess(gateway)
  expect(await sql`select ${1}::int as n, 'before' as word`).toEqual([{ n: 1, word: 'after' }])
  await sql.transaction([sql`select 1`, sql`select 2`])
  expect(onTrip.mock.calls).toEqual([
    [{ queries: [{ query: "select $1::int as n, 'after' as word", params: ['1'] }] }],
    [
      {
        queries: [
          { query: 'select 1', params: [] },
          { query: 'select 2', params: [] },
        ],
      },
    ],
  ])
  await gateway.close()
})

test('a gateway that prepares statements does so once on each connection, also after one has failed', async () => {
  const gateway = createGateway({ databaseUrl: server.url, poolSize: 1 })
  onTestFinished(gateway.close)
  const sql = inProcess(gateway)
  const text = 'select 12 / $1::int as n'
  const run = (divisor: number) => sql.query(text, [divisor]).catch(error => error.code)
  const transaction = (divisor: number) =>
    sql.transaction([sql.query(text, [divisor]), sql`select 1`]).catch(error => error.code)
  const results = []
  for (const divisor of [0, 3, 0, 4]) results.push(await run(divisor), await transaction(divisor))
  const [division, rows] = ['22012', (n: number) => [{ n }]]
  const one = [{ '?column?': 1 }]
  expect(results).toEqual([division, division, rows(4), [rows(4), one], division, division, rows(3), [rows(3), one]])
  const [count] = await sql.query('select count(*)::int as n from pg_prepared_statements where statement = $1', [text])
  expect(count).toEqual({ n: 1 })
})

describe('an abandoned trip', () => {
  const abandonOnSignal = (sql: ReturnType<typeof inProcess>, text: string, signal: AbortSignal) =>
    sql.query(text, [], { fetchOptions: { signal } }).catch((error: Error) => error)

  test('is cancelled in Postgres, and its connection is closed before the next one begins', async () => {
    const gateway = createGateway({ databaseUrl: server.url, poolSize: 1, statementTimeout: 300_000 })
    onTestFinished(gateway.close)
    const sql = inProcess(gateway)
    const [before] = await sql`select pg_backend_pid() as pid`
    const client = new AbortController()
    const slow = abandonOnSignal(sql, 'select pg_sleep(200)', client.signal)
    const waiting = sql`select pg_backend_pid() as pid`
    client.abort()
    expect(await slow).toBeInstanceOf(Error)
    const [after] = await waiting
    expect(after).not.toEqual(before)
    const sleeping = `select from pg_stat_activity where query like 'select pg_sleep(200)%' and state = 'active'`
    expect(await query(server.url, sleeping)).toEqual([])
  })

  test('writes nothing once it is cancelled', async () => {
    const gateway = createGateway({ databaseUrl: server.url, poolSize: 1, statementTimeout: 300_000 })
    onTestFinished(gateway.close)
    const sql = inProcess(gateway)
    await sql`create table cancelled_writes (n int)`
    const client = new AbortController()
    const write = sql
      .transaction([sql`insert into cancelled_writes values (1)`, sql`select pg_sleep(200)`], {
        fetchOptions: { signal: client.signal },
      })
      .catch((error: Error) => error)
    client.abort()
    expect(await write).toBeInstanceOf(Error)
    expect(await sql`select n from cancelled_writes`).toEqual([])
  })

  test('that waits for its share leaves the queue, and never runs', async () => {
    const texts: string[] = []
    const gateway = createGateway({
      databaseUrl: server.url,
      poolSize: 1,
      statementTimeout: 300_000,
      rewrite: text => texts[texts.push(text) - 1]!,
    })
    onTestFinished(gateway.close)
    const sql = inProcess(gateway)
    await sql`create sequence abandoned_calls`
    const [holder, waiter] = [new AbortController(), new AbortController()]
    const held = abandonOnSignal(sql, 'select pg_sleep(200)', holder.signal)
    const waiting = abandonOnSignal(sql, `select nextval('abandoned_calls')`, waiter.signal)
    await waitFor(async () => gateway.poolState().waiting === 1)
    waiter.abort()
    expect(await waiting).toBeInstanceOf(Error)
    expect(gateway.poolState().waiting).toBe(0)
    holder.abort()
    await held
    expect(await sql`select nextval('abandoned_calls') as n`).toEqual([{ n: '1' }])
  })

  test('holds its connection until Postgres has ended it, and one that waits holds none', async () => {
    const gateway = createGateway({ databaseUrl: server.url, poolSize: 1, statementTimeout: 300_000 })
    onTestFinished(gateway.close)
    const released: string[] = []
    const request = (name: string, text: string, signal?: AbortSignal) =>
      gateway
        .fetch('', {
          method: 'POST',
          headers: { 'Neon-Connection-String': gateway.connectionString },
          body: JSON.stringify({ query: text }),
          use: { group: 'one', onReleased: () => released.push(name) },
          ...(signal && { signal }),
        })
        .catch((error: Error) => error)
    const [holder, waiter] = [new AbortController(), new AbortController()]
    const held = request('holder', 'select pg_sleep(200)', holder.signal)
    const waiting = request('waiter', 'select 1', waiter.signal)
    await waitFor(async () => gateway.poolState().waiting === 1)
    waiter.abort()
    await waiting
    holder.abort()
    await held
    expect(released).toEqual([])
    await request('next', 'select 1')
    expect(released).toEqual(['holder', 'next'])
  })

  test('is cancelled over HTTP when its client disconnects', async () => {
    const gateway = createGateway({ databaseUrl: server.url, poolSize: 1, statementTimeout: 300_000 })
    onTestFinished(gateway.close)
    const { url } = await gateway.listen()
    const request = (text: string, signal?: AbortSignal) =>
      fetch(url, {
        method: 'POST',
        headers: { 'Neon-Connection-String': gateway.connectionString },
        body: JSON.stringify({ query: text }),
        ...(signal && { signal }),
      })
    const client = new AbortController()
    const slow = request('select pg_sleep(200)', client.signal).catch((error: Error) => error)
    await waitFor(async () => gateway.poolState().open === 1 && gateway.poolState().idle === 0)
    client.abort()
    await slow
    expect((await request('select 1')).status).toBe(200)
  })
})

test('trips of a group that is over its share do not hold up those of another', async () => {
  const gateway = createGateway({ databaseUrl: server.url, poolSize: 4, statementTimeout: 300_000 })
  onTestFinished(gateway.close)
  const sql = inProcess(gateway)
  const end = new AbortController()
  const as = (group: string, text: string, signal?: AbortSignal) =>
    sql.query(text, [], { fetchOptions: { use: { group }, ...(signal && { signal }) } }) as Promise<unknown>
  const loud = Array.from({ length: 20 }, () => as('loud', 'select pg_sleep(200)', end.signal).catch(() => 'ended'))
  expect(await as('quiet', 'select 1 as n')).toEqual([{ n: 1 }])
  expect(gateway.poolState().waiting).toBeGreaterThan(0)
  end.abort()
  expect(await Promise.all(loud)).toEqual(loud.map(() => 'ended'))
})
