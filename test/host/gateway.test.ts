// The gateway with a real Postgres and the real driver, and the connections behind it.
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getHeapSpaceStatistics } from 'node:v8'
import { NeonDbError, neon, neonConfig, types } from '@neondatabase/serverless'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { openPools } from '../../src/host/database-pools.ts'
import { type Postgres, startPostgres } from '../../src/host/embedded-postgres.ts'
import { ROWS_PATH, sendToGateway } from '../../src/kernel/db/gateway.ts'
import { sendToNeon } from '../../src/kernel/db/neon.ts'
import { type SendStatements, StatementError } from '../../src/platform.ts'
import { waitFor } from '../support/commands.ts'
import { type OpenGateway, openGateway } from '../support/gateway.ts'
import { startMigratedPostgres } from '../support/migrated-postgres.ts'
import { query } from '../support/postgres.ts'

const root = fs.mkdtempSync(join(tmpdir(), 'slipway-gateway-'))
const { fetchEndpoint: defaultEndpoint, fetchFunction: defaultFetch } = neonConfig
// The driver of the app sets it for the whole process, too.
types.setTypeParser(types.builtins.TIMESTAMPTZ as number, text => text)
let server: Postgres
let gateway: OpenGateway
let endpoint: string
let tables = 0

const driverOf = (to: OpenGateway) => {
  neonConfig.fetchFunction = to.fetch
  return neon(to.connectionString)
}

beforeAll(async () => {
  server = await startMigratedPostgres(join(root, 'postgres'))
  gateway = openGateway({ databaseUrl: server.url })
  endpoint = (await gateway.listen()).url
})

afterAll(async () => {
  Object.assign(neonConfig, { fetchEndpoint: defaultEndpoint, fetchFunction: defaultFetch })
  await gateway.close()
  await server.stop()
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 9 })
})

describe('the gateway', () => {
  const sql = (...args: Parameters<ReturnType<typeof neon>['query']>) => driver().query(...args)
  const driver = () => neon(gateway.connectionString)
  let table: string

  beforeEach(async () => {
    neonConfig.fetchEndpoint = endpoint
    neonConfig.fetchFunction = fetch
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
    expect((await fetch(endpoint + ROWS_PATH, request)).status).toBe(401)
    const response = await fetch(endpoint, request)
    expect(response.status).toBe(401)
    expect([...response.headers.keys()].filter(name => name.startsWith('access-control'))).toEqual([])
    expect(await driverOf(gateway)`select to_regclass('intruded') as name`).toEqual([{ name: null }])
  })

  test.each(['', 'x', 'null', '[]', '{"query":1}', '{"queries":[null]}', '{"query":"select 1","params":{}}'])(
    'with the body %j is refused',
    async body => {
      const headers = { 'Neon-Connection-String': gateway.connectionString }
      for (const path of ['', ROWS_PATH])
        expect((await fetch(endpoint + path, { method: 'POST', headers, body })).status).toBe(400)
    },
  )

  test('with a body over 32 MiB is refused', async () => {
    const body = JSON.stringify({ query: 'select 1', padding: 'x'.repeat(33 * 1024 * 1024) })
    const headers = { 'Neon-Connection-String': gateway.connectionString }
    const status = await fetch(endpoint, { method: 'POST', headers, body }).then(
      response => response.status,
      // A refusal may also close the connection while the body is still being sent.
      () => 413,
    )
    expect(status).toBe(413)
  })

  test('is accepted with the connection string of another gateway with the same configured token', async () => {
    const create = () => openGateway({ databaseUrl: server.url, token: 'a token/with: separators' })
    const [first, second] = [create(), create()]
    expect(first.connectionString).toBe(second.connectionString)
    neonConfig.fetchFunction = second.fetch
    expect(await neon(first.connectionString)`select 1 as n`).toEqual([{ n: 1 }])
    await Promise.all([first.close(), second.close()])
  })
})

describe('failures', () => {
  test('an aborted request ends at once with an error', async () => {
    const sql = driverOf(gateway)
    const signal = AbortSignal.timeout(200)
    const start = performance.now()
    await expect(sql.query('select pg_sleep(9)', [], { fetchOptions: { signal } })).rejects.toThrow(NeonDbError)
    expect(performance.now() - start).toBeLessThan(8000)
    await expect(sql.query('select 1', [], { fetchOptions: { signal: AbortSignal.abort() } })).rejects.toThrow(
      NeonDbError,
    )
  })

  const createSmallGateway = (databaseUrl: string, options = {}) =>
    openGateway({ databaseUrl, poolSize: 1, ...options })

  async function statusOf(gateway: OpenGateway, query: string): Promise<{ status: number; code: string }> {
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
    const sql = driverOf(gateway)
    const batch = sql.transaction([sql`select 1`, sql`select pg_terminate_backend(pg_backend_pid())`, sql`select 2`])
    await expect(batch).rejects.toBeInstanceOf(NeonDbError)
    expect(await sql`select 1 as n`).toEqual([{ n: 1 }])
    await gateway.close()
  })

  test('a backend that is killed while idle causes no error', async () => {
    const gateway = createSmallGateway(server.url)
    const sql = driverOf(gateway)
    const [row] = await sql`select pg_backend_pid() as pid`
    await query(server.url, `select pg_terminate_backend(${row?.pid}, 5000)`)
    await waitFor(() => sql`select 1 as n`.catch(() => undefined))
    await gateway.close()
  })

  test('a request is affected neither by an open transaction of an earlier request nor by its error', async () => {
    const gateway = createSmallGateway(server.url)
    for (const query of ['select 1 / 0', 'copy (select 1) to stdout', 'start transaction read only'])
      await statusOf(gateway, query)
    expect(await driverOf(gateway)`select current_setting('transaction_read_only') as v`).toEqual([{ v: 'off' }])
    for (const query of ['begin', 'create table committed ()']) await statusOf(gateway, query)
    await gateway.close()
    const restarted = createSmallGateway(server.url)
    expect(await driverOf(restarted)`select to_regclass('committed') as name`).toEqual([{ name: 'committed' }])
    await restarted.close()
  })

  test('COPY FROM STDIN fails at once, and the next request works', async () => {
    const gateway = createSmallGateway(server.url)
    const sql = driverOf(gateway)
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
  const gateway = openGateway({ databaseUrl: server.url, onTrip, rewrite: text => text.replace('before', 'after') })
  const sql = driverOf(gateway)
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
  const gateway = openGateway({ databaseUrl: server.url, poolSize: 1 })
  onTestFinished(gateway.close)
  const sql = driverOf(gateway)
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

describe.each(['a connection of the process', 'the gateway', "Neon's driver"])('the app by way of %s', way => {
  const ways: Record<string, () => SendStatements> = {
    'a connection of the process': () => gateway.connections.app,
    'the gateway': () => sendToGateway(gateway.connectionString, endpoint + ROWS_PATH),
    "Neon's driver": () => sendToNeon(gateway.connectionString, undefined),
  }
  const send = (statements: [sql: string, ...params: unknown[]][], signal = new AbortController().signal) =>
    ways[way]!()(
      statements.map(([sql, ...params]) => ({ sql, params })),
      { group: 'one' },
      signal,
    )

  beforeEach(() => {
    neonConfig.fetchEndpoint = endpoint
    neonConfig.fetchFunction = fetch
  })

  test('reads the text of Postgres, and booleans', async () => {
    const values = `$1::text, $2::int, $3::boolean, null::boolean, $4::text[], $5::jsonb, $6::timestamptz, 1.50`
    const given = ['ž', 7, true, ['a', 'b"c'], { a: [null, 'x'] }, '2026-11-21T09:00:00Z']
    expect(await send([[`select ${values}`, ...given], ['select 1 where false']])).toEqual([
      [['ž', '7', true, null, '{a,"b\\"c"}', '{"a": [null, "x"]}', '2026-11-21 09:00:00+00', '1.50']],
      [],
    ])
  })

  test('gets the error of a statement, and nothing of its batch is done', async () => {
    const table = `t${++tables}`
    await send([[`create table ${table} (n int primary key)`]])
    const batch = [[`insert into ${table} values (1)`], [`insert into ${table} values (1)`]] as [string][]
    const error = await send(batch).catch((error: unknown) => error)
    expect(error).toBeInstanceOf(StatementError)
    expect(error).toMatchObject({ code: '23505', constraint: `${table}_pkey`, detail: 'Key (n)=(1) already exists.' })
    expect(await send([[`select from ${table}`]])).toEqual([[]])
  })

  test('gets an error that is no answer of Postgres when it gives up', async () => {
    const error = await send([['select pg_sleep(9)']], AbortSignal.timeout(200)).catch((error: unknown) => error)
    expect(error).toBeInstanceOf(Error)
    expect(error).not.toBeInstanceOf(StatementError)
  })
})

describe('an abandoned trip', () => {
  const alone = { poolSize: 1, statementTimeout: 300_000 }
  function open() {
    const { connections, poolState, close } = openPools({ ...alone, databaseUrl: server.url })
    onTestFinished(close)
    const released: string[] = []
    const send = (texts: string[], { signal } = new AbortController()) =>
      connections
        .app(
          texts.map(sql => ({ sql, params: [] })),
          { group: 'one', onReleased: () => released.push(texts.at(-1)!) },
          signal,
        )
        .catch((error: Error) => error)
    return { send, poolState, released }
  }

  test('is cancelled in Postgres, and its connection is closed before the next one begins', async () => {
    const { send } = open()
    const before = await send(['select pg_backend_pid()'])
    const client = new AbortController()
    const slow = send(['select pg_sleep(200)'], client)
    const waiting = send(['select pg_backend_pid()'])
    client.abort()
    expect(await slow).toBeInstanceOf(Error)
    expect(await waiting).not.toEqual(before)
    const sleeping = `select from pg_stat_activity where query like 'select pg_sleep(200)%' and state = 'active'`
    expect(await query(server.url, sleeping)).toEqual([])
  })

  test('writes nothing once it is cancelled', async () => {
    const { send } = open()
    await send(['create table cancelled_writes (n int)'])
    const client = new AbortController()
    const write = send(['insert into cancelled_writes values (1)', 'select pg_sleep(200)'], client)
    client.abort()
    expect(await write).toBeInstanceOf(Error)
    expect(await send(['select n from cancelled_writes'])).toEqual([[]])
  })

  test('that waits for its share leaves the queue, and never runs', async () => {
    const { send, poolState } = open()
    await send(['create sequence abandoned_calls'])
    const [holder, waiter] = [new AbortController(), new AbortController()]
    const held = send(['select pg_sleep(200)'], holder)
    const waiting = send([`select nextval('abandoned_calls')`], waiter)
    await waitFor(async () => poolState().waiting === 1)
    waiter.abort()
    expect(await waiting).toBeInstanceOf(Error)
    expect(poolState().waiting).toBe(0)
    holder.abort()
    await held
    expect(await send([`select nextval('abandoned_calls')`])).toEqual([[['1']]])
  })

  test('holds its connection until Postgres has ended it, and one that waits holds none', async () => {
    const { send, poolState, released } = open()
    const [holder, waiter] = [new AbortController(), new AbortController()]
    const held = send(['select pg_sleep(200)'], holder)
    const waiting = send(['select 1'], waiter)
    await waitFor(async () => poolState().waiting === 1)
    waiter.abort()
    await waiting
    holder.abort()
    await held
    expect(released).toEqual([])
    await send(['select 2'])
    expect(released).toEqual(['select pg_sleep(200)', 'select 2'])
  })

  test('is cancelled over HTTP when its client disconnects', async () => {
    const gateway = openGateway({ ...alone, databaseUrl: server.url })
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
  const { connections, poolState, close } = openPools({
    databaseUrl: server.url,
    poolSize: 4,
    statementTimeout: 300_000,
  })
  onTestFinished(close)
  const end = new AbortController()
  const as = (group: string, sql: string) => connections.app([{ sql, params: [] }], { group }, end.signal)
  const loud = Array.from({ length: 20 }, () => as('loud', 'select pg_sleep(200)').catch(() => 'ended'))
  expect(await as('quiet', 'select 1')).toEqual([[['1']]])
  expect(poolState().waiting).toBeGreaterThan(0)
  end.abort()
  expect(await Promise.all(loud)).toEqual(loud.map(() => 'ended'))
})

describe('connections of this process', () => {
  const { signal } = new AbortController()
  const send = async (...statements: [sql: string, ...params: unknown[]][]) => {
    const { connections, close } = openPools({ databaseUrl: server.url, poolSize: 1 })
    const sent = statements.map(([sql, ...params]) => ({ sql, params }))
    return connections.app(sent, { group: 'one' }, signal).finally(close)
  }

  test('give rows as the text of Postgres, and booleans as values', async () => {
    const text = `select true, false, null::boolean, 1.50, '2026-11-21T09:00Z'::timestamptz, null, '{"b":1}'::jsonb`
    expect(await send([text])).toEqual([[[true, false, null, '1.50', '2026-11-21 09:00:00+00', null, '{"b": 1}']]])
  })

  test.each([
    ['text', 'žluťoučký 🐎 \u2028 "\\', 'žluťoučký 🐎 \u2028 "\\'],
    ['text', null, null],
    ['boolean', true, true],
    ['int', 7, '7'],
    ['text[]', ['a', null, 'b"c,\\'], '{a,NULL,"b\\"c,\\\\"}'],
    ['int[]', [], '{}'],
    ['json', { b: [1, null, 'x'] }, '{"b":[1,null,"x"]}'],
    ['bytea', Buffer.from([0, 1, 254, 255]), '\\x0001feff'],
  ])('send a parameter of %s: %j', async (type, given, expected) => {
    expect(await send([`select $1::${type}`, given])).toEqual([[[expected]]])
  })

  test('run statements in one transaction, of which a failure leaves nothing', async () => {
    await send(['create table direct_writes (n int primary key)'])
    const write = `insert into direct_writes values ($1) returning n`
    expect(
      await send([`select set_config('app.x', 'y', true)`], [write, 1], [`select current_setting('app.x')`]),
    ).toEqual([[['y']], [['1']], [['y']]])
    const failure = await send([write, 2], [write, 1], [write, 3]).catch((error: Error) => error)
    expect(failure).toBeInstanceOf(StatementError)
    expect(failure).toMatchObject({ code: '23505', constraint: 'direct_writes_pkey' })
    expect(await send(['select n from direct_writes'])).toEqual([[['1']]])
    expect(await send(['select count(*) from direct_writes where n > $1', 0], ['select 1 where false'])).toEqual([
      [['1']],
      [],
    ])
  })

  test('end when Postgres no longer answers, and the next trip has another', async () => {
    const { connections, close } = openPools({ databaseUrl: server.url, poolSize: 1 })
    onTestFinished(close)
    const ask = () => connections.app([{ sql: 'select pg_backend_pid()', params: [] }], { group: 'one' }, signal)
    const backend = Number((await ask())[0]![0]![0])
    process.kill(backend, 'SIGSTOP')
    onTestFinished(() => void process.kill(backend, 'SIGCONT'))
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const silent = ask().catch((error: Error) => error)
    await vi.advanceTimersByTimeAsync(15_000)
    expect(await silent).toBeInstanceOf(Error)
    expect(await ask()).not.toEqual([[[String(backend)]]])
  })

  test('leave the rows of earlier trips to the collections of young objects', async () => {
    const { connections, close } = openPools({ databaseUrl: server.url, poolSize: 1 })
    onTestFinished(close)
    const sql = `select repeat('x', 100) || n, repeat('y', 100) || n from generate_series(1, 100) n`
    const readOld = () => getHeapSpaceStatistics().find(one => one.space_name === 'old_space')!.space_used_size
    const growths: number[] = []
    for (let i = 0; i < 1000; i++) {
      const before = readOld()
      await connections.app([{ sql, params: [] }], { group: 'one' }, signal)
      growths.push(Math.max(0, readOld() - before))
    }
    const grown = growths.slice(growths.length / 2).reduce((sum, one) => sum + one, 0)
    expect(grown).toBeLessThan(2_000_000)
  })

  test('reject with another error if there is no answer', async () => {
    const failure = await send(['select pg_terminate_backend(pg_backend_pid())']).catch((error: Error) => error)
    expect(failure).toBeInstanceOf(Error)
    expect(failure).not.toBeInstanceOf(StatementError)
  })
})
