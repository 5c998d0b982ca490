// Migrations on a real Postgres: each is applied once and in order, also to a database that serves requests.
import { execFile } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { readSchema } from '../../scripts/schema/compare.ts'
import { type Postgres, startPostgres } from '../../src/host/embedded-postgres.ts'
import { createHost } from '../../src/host/host.ts'
import { migrate, waitForMigrations } from '../../src/host/migrate.ts'
import { newApiKey } from '../../src/kernel/crypto/crypto.ts'
import { addOlderRoles, findOlderRoleFaults, findRoleFaults, loadBeforeSquash } from '../support/before-squash.ts'
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

test('a failing migration of an empty database also rolls back those before it', async () => {
  const bad = folderOf('bad', ['create table ships (id int)', 'insert into ships values (1 / 0)'])
  await expect(migrate(url, { folder: bad, log })).rejects.toThrow('0001_step')
  expect(await countShips()).toBe(null)
  expect(await migrate(url, { folder, log })).toHaveLength(2)
})

test('a migrator says that it waits for another one, and gives up after its time', async () => {
  const other = await connect(url)
  onTestFinished(() => other.end())
  await other.query('begin; select pg_advisory_xact_lock(7547929)')
  const lines: string[] = []
  const options = { folder, log: (line: string) => lines.push(line) }
  await expect(migrate(url, { ...options, patienceMs: 0 })).rejects.toThrow('Another process')
  const migrated = migrate(url, options)
  await expect.poll(() => lines).toEqual([expect.stringContaining('waits for another process')])
  await other.query('commit')
  expect(await migrated).toHaveLength(2)
})

describe('a database that serves requests', () => {
  const lines: string[] = []
  const collect = (line: string) => lines.push(line)
  /** Migrated by the first of the statements only. */
  async function serve(name: string, statements: string[]) {
    lines.length = 0
    const path = folderOf(name, statements)
    await migrate(url, { folder: path, log, to: 0 })
    return path
  }
  const indexes = async () =>
    (
      await query(
        url,
        `select c.relname || case when i.indisvalid then '' else ' invalid' end as name
        from pg_index i
        join pg_class c on c.oid = i.indexrelid and c.relnamespace = 'public'::regnamespace
        order by 1`,
      )
    ).map(row => row.name)

  test('keeps the migrations before one that fails, and continues with that one', async () => {
    const path = await serve('failing', ['create table ships (id int)', 'create table docks ()', 'select 1 / 0'])
    await expect(migrate(url, { folder: path, log })).rejects.toThrow(/0002_step.*changed nothing/)
    fs.writeFileSync(join(path, '0002_step.sql'), 'insert into ships values (1)')
    expect(await migrate(url, { folder: path, log })).toMatchObject([{ name: '0002_step' }])
    expect(await countShips()).toBe(1)
  })

  test('gets an index of its tables without a lock that an open transaction of a writer would hold up', async () => {
    const path = await serve('index', ['create table ships (id int)', 'create index ships_id on ships (id)'])
    const writer = await connect(url)
    onTestFinished(() => writer.end())
    await writer.query('begin; insert into ships values (7)')
    const migrated = migrate(url, { folder: path, log: collect })
    await expect.poll(indexes).toEqual(['ships_id invalid'])
    await query(url, 'insert into ships values (8)')
    await writer.query('commit')
    await migrated
    expect(await indexes()).toEqual(['ships_id'])
    expect(await query(url, 'select id from ships order by id')).toEqual([{ id: 7 }, { id: 8 }])
  })

  test('gets an index that was interrupted by the next run', async () => {
    const path = await serve('resumed', ['create table ships (id int)', 'create unique index ship on ships (id)'])
    await query(url, 'insert into ships values (1), (1)')
    await expect(migrate(url, { folder: path, log })).rejects.toThrow(/index ship of migration 0001_step failed/)
    expect(await indexes()).toEqual(['ship invalid'])
    await query(url, 'delete from ships')
    expect(await migrate(url, { folder: path, log: collect })).toEqual([])
    expect([await indexes(), lines]).toEqual([['ship'], [expect.stringContaining('index=ship'), 'database up to date']])
    expect(await query(url, 'select from drizzle.unfinished_steps')).toEqual([])
  })

  test('gets an index of each partition, and of their partitions', async () => {
    const path = await serve('partitions', [
      `create table ships (id int, dock text, day int) partition by list (dock);
      create table ships_east partition of ships for values in ('east') partition by range (day);
      create table ships_east_1 partition of ships_east for values from (0) to (10);
      create table ships_west partition of ships for values in ('west')`,
      'create index ships_id on ships (id) where id > 0',
    ])
    await migrate(url, { folder: path, log })
    const names = await indexes()
    expect(names.filter(name => name.endsWith('invalid'))).toEqual([])
    expect(names).toHaveLength(4)
    expect(names).toContain('ships_id')
    await query(url, `create table ships_north partition of ships for values in ('north')`)
    expect(await indexes()).toHaveLength(5)
  })

  test('waits for a locked table without holding up requests behind it', async () => {
    const path = await serve('locked', ['create table ships (id int)', 'alter table ships add column name text'])
    const reader = await connect(url)
    onTestFinished(() => reader.end())
    await reader.query('begin; select from ships')
    const migrated = migrate(url, { folder: path, log: collect })
    await expect.poll(() => lines).toEqual(['migration waits for a lock name=0001_step'])
    await query(url, 'insert into ships values (1)')
    await reader.query('commit')
    await migrated
    expect(await query(url, 'select * from ships')).toEqual([{ id: 1, name: null }])
  })

  test('has many rows changed in batches, each in a transaction of its own', async () => {
    const path = await serve('batches', [
      'create table ships (id int, name text)',
      `alter table ships add constraint named check (name is not null) not valid;
      --> statement-breakpoint
      --> batches
      update ships set name = id || ' ' || pg_current_xact_id()
      where id in (select id from ships where name is null limit 2);
      --> statement-breakpoint
      alter table ships validate constraint named`,
    ])
    await admin.query('do $$ begin create role slipway_system; exception when duplicate_object then null; end $$')
    await query(url, 'grant select, update on ships to slipway_system; insert into ships select generate_series(1, 5)')
    await migrate(url, { folder: path, log })
    expect(
      await query(url, `select count(distinct split_part(name, ' ', 2))::int as n, count(*)::int from ships`),
    ).toEqual([{ n: 3, count: 5 }])
    expect(await query(url, `select convalidated from pg_constraint where conname = 'named'`)).toEqual([
      { convalidated: true },
    ])
  })
})

describe('waiting for another one to migrate', () => {
  test('ends when the database has every migration', async () => {
    const lines: string[] = []
    const waited = waitForMigrations(url, { seconds: 60, log: line => lines.push(line) })
    await expect.poll(() => lines).toEqual([expect.stringContaining('has no schema')])
    await migrate(url, { log })
    await waited
    expect(lines.at(-1)).toMatch(/^database migrated name=\d{4}_/)
  })

  test('fails after the time, and says what is missing', async () => {
    await migrate(url, { log, to: 0 })
    await expect(waitForMigrations(url, { seconds: 0, log })).rejects.toThrow('older schema')
    const unreachable = 'postgresql://someone:hunter2@127.0.0.1:1/none'
    const error: Error = await waitForMigrations(unreachable, { seconds: 0, log }).catch(error => error)
    expect(error.message).toContain('ECONNREFUSED')
    expect(error.message).not.toContain('hunter2')
  })
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
    // The database is ours from now on, too.
    expect(await migrate(url, { folder, log })).toEqual([])
  })

  test('that uses drizzle too is always refused: each would skip the migrations of the other', async () => {
    await migrate(url, { folder: folderOf('theirs', ['create table orders (id integer)'], 500), log })
    for (const sharesDatabase of [false, true])
      await expect(migrate(url, { folder, log, sharesDatabase })).rejects.toThrow('drizzle')
    expect(await countShips()).toBe(null)
  })

  test('is not assumed of a fresh database with tables of an extension and of the hosting provider', async () => {
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

describe('a database from before the squash', () => {
  const drizzle = join(import.meta.dirname, '../../drizzle')
  const key = newApiKey()
  const headers = { 'X-Api-Key': key, 'X-Tenant-Id': '20000000-0000-4000-8000-000000000001' }
  const deployment = '/v2/deployments/90000000-0000-4000-8000-000000000001'

  beforeEach(() => loadBeforeSquash(url, key))

  test('comes to the schema that an empty database gets', async () => {
    await migrate(url, { log })
    expect(await readSchema(url)).toBe(fs.readFileSync(join(drizzle, 'schema.sql'), 'utf8'))
  })

  test('has its roles backfilled, and none loses a permission', async () => {
    await migrate(url, { log })
    expect(await findRoleFaults(url)).toEqual([])
  })

  test('is refused by name if it has not even the migrations that were squashed', async () => {
    await query(url, 'delete from drizzle.__drizzle_migrations where id > 40')
    await expect(migrate(url, { log })).rejects.toThrow('0065_listener_policies')
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

  test('has roles and keys that may do what they could before, and see no fleet by a workspace', async () => {
    await addOlderRoles(url)
    const readRoles = async () =>
      Object.fromEntries(
        (
          await query(
            url,
            `select display_name as name, array_to_string(permissions, ' ') as permissions from roles where
            display_name in ('Admin', 'Viewer', 'Organization Admin')`,
          )
        ).map(({ name, permissions }) => [name, permissions.split(' ')]),
      )
    await query(
      url,
      `update api_keys set permissions = '{api-keys:create,feedback:update,fleet-admin:read}'
        where tenant_id is not null`,
    )
    const before = await readRoles()
    expect(before.Admin).toContain('fleet-admin:read')
    expect(before.Admin).not.toContain('workspaces:manage-keys')
    await migrate(url, { log })
    const after = await readRoles()
    const roles = await query(url, 'select display_name, to_json(permissions) as permissions from roles')
    expect(findOlderRoleFaults(roles as never)).toEqual([])
    expect(after.Viewer).toEqual([...before.Viewer, 'channels:read', 'alerts:read'])
    const added = [
      'workspaces:manage-keys',
      'feedback-configs:create',
      'feedback-configs:update',
      'feedback-configs:delete',
      'deployments:exec',
      'deployments:copy-database',
      'channels:read',
      'channels:manage',
      'alerts:read',
      'alerts:manage',
      'drains:read',
      'drains:manage',
    ]
    expect(after.Admin).toEqual([...before.Admin.filter((name: string) => name !== 'fleet-admin:read'), ...added])
    expect(after['Organization Admin']).toEqual([...before['Organization Admin'], ...added])
    const keys = await query(
      url,
      `select distinct array_to_string(permissions, ' ') as p from api_keys where tenant_id is not null`,
    )
    expect(keys.map(({ p }) => p)).toEqual([
      'api-keys:create feedback:update workspaces:manage-keys feedback-configs:update',
    ])
  })

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
    expect(await query(url, 'select name, note from deployments order by name')).toEqual([
      { name: 'billing-agent', note: 'billing-agent' },
      { name: 'search', note: 'search' },
    ])

    // Each deployment that was there has a label of its own.
    const unlabelled = `select d.name from deployments d where d.listener_id is not null
      and (d.url is null or d.url like '%//' || d.name || '.%')
      and not exists (select from host_labels h where h.deployment_id = d.id and h.label like d.name || '%')`
    expect(await query(url, unlabelled)).toEqual([])

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
      ['/workspaces/current/api-keys', 'Of a program'],
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
      ['/datasets', 'capitals'],
      ['/annotation-queues', 'Review'],
      ['/runs/rules', 'Everything'],
      ['/sessions', 'support'],
      ['/v2/webhooks', 'hooks.example.com'],
      ['/v1/platform/orgs/current/access-policies', 'Only search'],
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
