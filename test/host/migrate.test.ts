// Migrations on a real Postgres: each is applied once and in order, in one transaction, also to a baseline database.
import { execFile } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type Postgres, startPostgres } from '../../src/host/embedded-postgres.ts'
import { migrate } from '../../src/host/migrate.ts'
import { createHost } from '../../src/host/node.ts'
import { newApiKey } from '../../src/kernel/crypto.ts'
import { sha256Hex } from '../../src/kernel/digest.ts'
import { connect, query } from '../support/postgres.ts'

const root = fs.mkdtempSync(join(tmpdir(), 'slipway-migrate-'))
const folder = folderOf('good', ['create table ships (id int)', 'insert into ships values (1)'])
const log = () => {}
let server: Postgres
let admin: pg.Client
let url: string
let databases = 0

beforeAll(async () => {
  server = await startPostgres({ dataDir: join(root, 'postgres'), durable: false })
  admin = await connect(server.url)
})

beforeEach(async () => {
  const name = `migrate_${++databases}`
  await admin.query(`create database ${name}`)
  url = server.url.replace(/postgres$/, name)
})

afterAll(async () => {
  await admin.end()
  await server.stop()
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 9 })
})

function folderOf(name: string, statements: string[], firstTime = 1000): string {
  const path = join(root, name)
  fs.mkdirSync(join(path, 'meta'), { recursive: true })
  const entries = statements.map((_, idx) => ({
    idx,
    version: '7',
    when: firstTime + idx,
    tag: `000${idx}_step`,
    breakpoints: true,
  }))
  statements.forEach((statement, idx) => {
    fs.writeFileSync(join(path, `000${idx}_step.sql`), statement)
  })
  fs.writeFileSync(join(path, 'meta/_journal.json'), JSON.stringify({ version: '7', dialect: 'postgresql', entries }))
  return path
}

/** The number of rows that the migrations inserted, or null without their table. */
async function countShips(): Promise<number | null> {
  try {
    return (await query(url, 'select count(*)::int as n from ships'))[0]!.n
  } catch (error) {
    expect(error).toMatchObject({ code: '42P01' })
    return null
  }
}

test('every migration is applied once, in order, and reported by name', async () => {
  expect(await migrate(url, { folder, log })).toMatchObject([{ name: '0000_step' }, { name: '0001_step' }])
  expect(await migrate(url, { folder, log })).toEqual([])
  expect(await countShips()).toBe(1)
})

test('migrating can stop after a given migration and continue later', async () => {
  expect(await migrate(url, { folder, log, to: 0 })).toMatchObject([{ name: '0000_step' }])
  expect(await countShips()).toBe(0)
  expect(await migrate(url, { folder, log })).toMatchObject([{ name: '0001_step' }])
  expect(await countShips()).toBe(1)
})

test('each migration is applied exactly once by several processes that start at the same time', async () => {
  const runs = await Promise.all([1, 2, 3, 4].map(() => migrate(url, { folder, log })))
  expect(runs.flat()).toHaveLength(2)
  expect(await countShips()).toBe(1)
})

test('a failing migration also rolls back those before it', async () => {
  const bad = folderOf('bad', ['create table ships (id int)', 'insert into ships values (1 / 0)'])
  await expect(migrate(url, { folder: bad, log })).rejects.toThrow('0001_step')
  expect(await countShips()).toBe(null)
  expect(await migrate(url, { folder, log })).toHaveLength(2)
})

describe('a database of another application', () => {
  const tables = async () =>
    (await query(url, `select relname from pg_class where relkind = 'r' and oid >= 16384 order by 1`)).map(
      row => row.relname,
    )

  test.each([
    ['a table', 'create table orders (id integer)', 'public.orders'],
    ['a partitioned table', 'create table orders (id integer) partition by list (id)', 'public.orders'],
    ['a table in another schema', 'create schema "Shop"; create table "Shop".orders (id integer)', '"Shop".orders'],
  ])('with %s is refused by name and left as it is, unless it is to be shared', async (_, statements, table) => {
    await query(url, statements)
    const before = await tables()
    const { pathname } = new URL(url)
    const error: Error = await migrate(url, { folder, log }).catch(error => error)
    expect(error.message).toContain(`"${pathname.slice(1)}"`)
    expect(error.message).toContain(table)
    expect(error.message).toContain('SHARE_DATABASE')
    expect(await tables()).toEqual(before)
    expect(await migrate(url, { folder, log, sharesDatabase: true })).toHaveLength(2)
    // From now on it is ours too.
    expect(await migrate(url, { folder, log })).toEqual([])
  })

  test('that uses drizzle too is always refused: each would skip the migrations of the other', async () => {
    await migrate(url, { folder: folderOf('theirs', ['create table orders (id integer)'], 500), log })
    for (const sharesDatabase of [false, true])
      await expect(migrate(url, { folder, log, sharesDatabase })).rejects.toThrow('drizzle')
    expect(await countShips()).toBe(null)
  })

  test('is not what a fresh database with tables of an extension and of the hosting provider is', async () => {
    const { pathname } = new URL(url)
    const owner = `owner_of_${pathname.slice(1)}`
    await admin.query(`create role ${owner} login password 'pw'`)
    await admin.query(`alter database ${pathname.slice(1)} owner to ${owner}`)
    await query(
      url,
      `create schema auth;
      create table auth.users (id integer);
      create extension cube;
      create table public.spatial_ref_sys (id integer);
      alter extension cube add table public.spatial_ref_sys`,
    )
    const ownerUrl = Object.assign(new URL(url), { username: owner, password: 'pw' }).href
    expect(await migrate(ownerUrl, { folder, log })).toHaveLength(2)
  })
})

describe('a database at the baseline', () => {
  const drizzle = join(import.meta.dirname, '../../drizzle')
  const BASELINE = 4
  const key = newApiKey()
  const headers = { 'X-Api-Key': key, 'X-Tenant-Id': '20000000-0000-4000-8000-000000000001' }
  const deployment = '/v2/deployments/90000000-0000-4000-8000-000000000001'

  beforeEach(async () => {
    await migrate(url, { log, to: BASELINE })
    const rows = fs.readFileSync(join(import.meta.dirname, 'fixtures/baseline-rows.sql'), 'utf8')
    await query(url, rows.replace(`'KEY_HASH'`, `'${sha256Hex(key)}'`))
  })

  /** Copies the repository's migrations and adds one. */
  function copyMigrationsAndAdd(statements: string): string {
    const path = join(root, 'next')
    fs.cpSync(drizzle, path, { recursive: true })
    const journal = JSON.parse(fs.readFileSync(join(drizzle, 'meta/_journal.json'), 'utf8'))
    const { idx, when } = journal.entries.at(-1)
    journal.entries.push({ idx: idx + 1, version: '7', when: when + 1, tag: 'next', breakpoints: true })
    fs.writeFileSync(join(path, 'meta/_journal.json'), JSON.stringify(journal))
    fs.writeFileSync(join(path, 'next.sql'), statements)
    return path
  }

  test('serves all its rows after every later migration', async () => {
    const next = copyMigrationsAndAdd(`
      alter table deployments add column note text;
      --> statement-breakpoint
      grant update (note) on deployments to slipway_app, slipway_agent;
      --> statement-breakpoint
      set local role slipway_system;
      --> statement-breakpoint
      update deployments set note = name;
      --> statement-breakpoint
      reset role;`)
    await migrate(url, { folder: next, log })
    expect(await query(url, 'select name, note from deployments')).toEqual([
      { name: 'billing-agent', note: 'billing-agent' },
    ])

    const { app, close } = createHost(
      { PUBLIC_URL: 'http://slipway.test', SEALING_KEYS: `first:${'A'.repeat(43)}`, DATABASE_URL: url },
      { log },
    )
    onTestFinished(close)
    const get = async (path: string) => {
      const response = await app.request(path, { headers })
      expect([path, response.status]).toEqual([path, 200])
      return JSON.stringify(await response.json())
    }
    expect(await get('/readyz')).toContain('ready')
    for (const [path, value] of [
      ['/orgs/current/info', 'Acme'],
      ['/workspaces', 'Research'],
      ['/orgs/current/roles', 'Operator'],
      ['/orgs/current/members', 'Ada Lovelace'],
      ['/workspaces/current/members', 'ada@example.com'],
      ['/orgs/current/api-keys', 'Of the organization'],
      ['/v2/listeners', 'rack-1'],
      ['/v1/integrations/forge/githost/70000000-0000-4000-8000-000000000001', 'acme'],
      ['/v2/tag-keys', 'team'],
      ['/v2/tag-values/81000000-0000-4000-8000-000000000001', 'search'],
      ['/v2/deployments', 'billing-agent'],
      [deployment, 'https://github.com/acme/billing-agent'],
      [`${deployment}/revisions`, 'DEPLOYED'],
      [`${deployment}/tags`, 'search'],
      [`${deployment}/preview-policy`, '86400'],
      [`${deployment}/previews`, 'feature'],
      ['/v2/custom-hosts', 'billing.example.com'],
      ['/v2/auth/providers', 'Calendar'],
      ['/v2/auth/tokens', 'ada'],
    ] as const)
      expect(await get(path), path).toContain(value)

    const patched = await app.request(deployment, {
      method: 'PATCH',
      headers: { ...headers, 'Content-Type': 'application/json' },
      body: JSON.stringify({ source_config: { build_on_push: false } }),
    })
    expect(patched.status).toBe(200)
  })
})

test.each([
  ['missing', ''],
  ['unreachable', 'postgresql://someone:hunter2@127.0.0.1:1/none'],
  ['malformed', 'postgresql://someone:hunter2@:none:/'],
])(
  'with a %s DATABASE_URL the command fails with one line that does not contain the password',
  async (_, DATABASE_URL) => {
    const script = join(import.meta.dirname, '../../src/host/migrate.ts')
    const run = promisify(execFile)(process.execPath, [script], { env: { DATABASE_URL } })
    const { code, stderr } = await run.catch(error => error)
    expect(code).toBe(1)
    expect(stderr.trim().split('\n')).toHaveLength(1)
    expect(stderr).not.toContain('hunter2')
  },
)
