// Migrations against a real Postgres: each once, in order, all or none, however many starts race.
import { execFile } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type Postgres, startPostgres } from '../../src/host/embedded-postgres.ts'
import { migrate } from '../../src/host/migrate.ts'
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

function folderOf(name: string, statements: string[]): string {
  const path = join(root, name)
  fs.mkdirSync(join(path, 'meta'), { recursive: true })
  const entries = statements.map((_, idx) => ({
    idx,
    version: '7',
    when: 1000 + idx,
    tag: `000${idx}_step`,
    breakpoints: true,
  }))
  statements.forEach((statement, idx) => {
    fs.writeFileSync(join(path, `000${idx}_step.sql`), statement)
  })
  fs.writeFileSync(join(path, 'meta/_journal.json'), JSON.stringify({ version: '7', dialect: 'postgresql', entries }))
  return path
}

/** How many rows the migrations made, or null without their table. */
async function ships(): Promise<number | null> {
  try {
    return (await query(url, 'select count(*)::int as n from ships'))[0]!.n
  } catch (error) {
    expect(error).toMatchObject({ code: '42P01' })
    return null
  }
}

test('every migration is applied once, in order, and named', async () => {
  expect(await migrate(url, { folder, log })).toMatchObject([{ name: '0000_step' }, { name: '0001_step' }])
  expect(await migrate(url, { folder, log })).toEqual([])
  expect(await ships()).toBe(1)
})

test('it stops after the one asked for, and goes on from there', async () => {
  expect(await migrate(url, { folder, log, to: 0 })).toMatchObject([{ name: '0000_step' }])
  expect(await ships()).toBe(0)
  expect(await migrate(url, { folder, log })).toMatchObject([{ name: '0001_step' }])
  expect(await ships()).toBe(1)
})

test('of several starts at once exactly one applies each', async () => {
  const runs = await Promise.all([1, 2, 3, 4].map(() => migrate(url, { folder, log })))
  expect(runs.flat()).toHaveLength(2)
  expect(await ships()).toBe(1)
})

test('a failing migration takes the ones before it back', async () => {
  const bad = folderOf('bad', ['create table ships (id int)', 'insert into ships values (1 / 0)'])
  await expect(migrate(url, { folder: bad, log })).rejects.toThrow('0001_step')
  expect(await ships()).toBe(null)
  expect(await migrate(url, { folder, log })).toHaveLength(2)
})

test('roles and keys that could change commands before that was a permission of its own have it', async () => {
  const { entries } = JSON.parse(fs.readFileSync(join(import.meta.dirname, '../../drizzle/meta/_journal.json'), 'utf8'))
  const at = entries.findIndex(({ tag }: { tag: string }) => tag.endsWith('change_commands'))
  await migrate(url, { log, to: at - 1 })
  const permissions = [
    "'{deployments:read}'",
    "'{deployments:create}'",
    "'{deployments:read,deployments:update}'",
    'null',
  ]
  const named = permissions.map((list, i) => `('${i}', coalesce(${list}, '{}')::text[], ${list}::text[])`)
  await query(
    url,
    `begin; set local role slipway_system;
     with wanted(name, role, narrowed) as (values ${named}),
       o as (insert into organizations (display_name) values ('Acme') returning id),
       r as (insert into roles (organization_id, scope, display_name, permissions)
         select o.id, 'workspace', name, role from o, wanted returning *)
     insert into api_keys (organization_id, description, hint, key_hash, role_id, permissions)
       select r.organization_id, w.name, '', w.name, r.id, w.narrowed from r join wanted w on w.name = r.display_name;
     commit`,
  )
  await migrate(url, { log })
  const rows = await query(
    url,
    `select 'deployments:change-commands' = any(r.permissions) as role, 'deployments:change-commands' = any(k.permissions) as key
     from api_keys k join roles r on r.id = k.role_id order by k.description`,
  )
  const pairs = rows.map(({ role, key }) => [role, key])
  expect(pairs).toEqual([
    [false, false],
    [true, true],
    [true, true],
    [false, null],
  ])
})

test.each([
  ['missing', ''],
  ['unreachable', 'postgresql://someone:hunter2@127.0.0.1:1/none'],
  ['malformed', 'postgresql://someone:hunter2@:none:/'],
])('run with a %s database it says one line without the password, and fails', async (_, DATABASE_URL) => {
  const script = join(import.meta.dirname, '../../src/host/migrate.ts')
  const run = promisify(execFile)(process.execPath, [script], { env: { DATABASE_URL } })
  const { code, stderr } = await run.catch(error => error)
  expect(code).toBe(1)
  expect(stderr.trim().split('\n')).toHaveLength(1)
  expect(stderr).not.toContain('hunter2')
})
