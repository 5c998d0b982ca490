import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { bootstrap } from '../../src/access/bootstrap.ts'
import { migrate } from '../../src/host/migrate.ts'
import { hosted } from '../../src/host/node.ts'
import { type Postgres, startPostgres } from '../../src/host/postgres.ts'
import { connect } from '../support/postgres.ts'

const SEALING_KEYS = `first:${Buffer.alloc(32, 7).toString('base64url')}`
const quiet = { log: () => {} }
let folder: string
let postgres: Postgres
let admin: pg.Client

const at = (database: string) => Object.assign(new URL(postgres.url), { pathname: `/${database}` }).toString()
/** Also where the test is tried again. */
async function fresh(database: string): Promise<void> {
  await admin.query(`drop database if exists ${database} with (force)`)
  await admin.query(`create database ${database}`)
}

async function connected<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await connect(url)
  return work(client).finally(() => client.end())
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'slipway-walls-'))
  postgres = await startPostgres({ dataDir: join(folder, 'data'), durable: false })
  admin = await connect(postgres.url)
})

afterAll(async () => {
  await admin.end()
  await postgres.stop()
  await rm(folder, { recursive: true, force: true, maxRetries: 9 })
})

describe('the second wall', () => {
  beforeAll(async () => {
    await fresh('walls')
    await migrate(at('walls'), quiet)
    const { app, close } = hosted({ SEALING_KEYS, DATABASE_URL: at('walls') }, quiet)
    await bootstrap(app.database, { organization: 'Somebody', emails: ['a@example.com'] })
    await close()
  })

  const tables = (client: pg.Client) =>
    client.query(`select relname, relrowsecurity, relforcerowsecurity, pg_get_userbyid(relowner) as owner
      from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`)

  it('stands on every table, forced, and the app’s role owns none', async () => {
    const { rows } = await connected(at('walls'), tables)
    expect(rows.length).toBeGreaterThan(8)
    for (const row of rows) expect(row, row.relname).toMatchObject({ relrowsecurity: true, relforcerowsecurity: true })
    for (const row of rows) expect(['slipway_app', 'slipway_system']).not.toContain(row.owner)
  })

  it('shows nothing but the built-in roles to who has not entered', async () => {
    await connected(at('walls'), async client => {
      const { rows } = await tables(client)
      await client.query('set role slipway_app')
      for (const { relname } of rows) {
        const found = await client.query(`select * from ${relname}`).catch(error => error.code)
        if (relname === 'roles')
          expect(found.rows.every((row: { organization_id: null }) => row.organization_id === null)).toBe(true)
        // Either no row, or not even the right to ask.
        else expect(found.rows ?? found, relname).toEqual(found.rows ? [] : '42501')
      }
    })
  })

  it('lets the app append to the journal and never rewrite it', async () => {
    await connected(at('walls'), async client => {
      await client.query('set role slipway_app')
      for (const statement of [
        'update events set type = type',
        'delete from events',
        'truncate events',
        'drop table events',
      ]) {
        await expect(client.query(statement)).rejects.toMatchObject({ code: '42501' })
      }
    })
  })

  it('keeps enter() from the app’s own role, and its helpers from everyone else', async () => {
    await connected(at('walls'), async client => {
      const { rows } = await client.query(`select proname, proacl::text from pg_proc
        where pronamespace = 'public'::regnamespace and prosecdef`)
      expect(rows.length).toBeGreaterThan(3)
      for (const { proname, proacl } of rows) expect(proacl, proname).not.toMatch(/(^|[{,])=X/)
      await client.query('set role slipway_app')
      const enter = `select enter('', null, '', true, '', '0', false, null, null, null)`
      await expect(client.query(enter)).rejects.toMatchObject({ code: '42501' })
    })
  })
})

describe('an owner that is no superuser', () => {
  it('migrates, serves and is confined like any other', async () => {
    // A server of its own: roles are a server's, and here the plain owner is who makes them.
    const server = await startPostgres({ dataDir: await mkdtemp(join(folder, 'plain-')), durable: false })
    onTestFinished(server.stop)
    await connected(server.url, async client => {
      await client.query(`create role plain login createrole password 'pw'`)
      await client.query('create database plain owner plain')
    })
    const url = Object.assign(new URL(server.url), { pathname: '/plain', username: 'plain', password: 'pw' }).toString()
    await migrate(url, quiet)
    const { app, close } = hosted({ SEALING_KEYS, DATABASE_URL: url }, quiet)
    const { api_key } = await bootstrap(app.database, { organization: 'Plain' })
    const call = (path: string, method = 'GET') =>
      app.fetch(new Request(`http://x${path}`, { method, headers: { 'X-Api-Key': api_key } }))
    const roles = (await (await call('/orgs/current/roles')).json()) as { resources: unknown[] }
    expect(roles.resources).toHaveLength(5)
    expect((await call('/readyz')).status).toBe(200)
    // Cascades pass the walls for such an owner too.
    const owner = await bootstrap(app.database, { organization: 'Plain', scope: 'organization' })
    const headers = { 'X-Api-Key': owner.api_key }
    const path = `http://x/workspaces/${owner.tenant_id}`
    expect((await app.fetch(new Request(path, { method: 'DELETE', headers }))).status).toBe(204)
    expect((await call('/orgs/current/roles')).status).toBe(401)
    await close()
    const { rows } = await connected(url, client => client.query('select * from api_keys'))
    expect(rows).toEqual([])
  })
})

describe('the migrations', () => {
  it('backfill the permissions of roles and of narrowed keys', async () => {
    await fresh('backfill')
    await migrate(at('backfill'), { ...quiet, to: 2 })
    await connected(at('backfill'), async client => {
      await client.query(
        `insert into organizations (id, display_name) values ('11111111-1111-4111-8111-111111111111', 'Old')`,
      )
      await client.query(`insert into roles (organization_id, scope, display_name, permissions) values
        ('11111111-1111-4111-8111-111111111111', 'workspace', 'Keeper', '{projects:read,projects:update-retention}'),
        ('11111111-1111-4111-8111-111111111111', 'workspace', 'Manager', '{workspaces:manage-members}'),
        ('11111111-1111-4111-8111-111111111111', 'workspace', 'Reader', '{projects:read}')`)
      await client.query(`insert into api_keys (organization_id, description, hint, key_hash, role_id, permissions)
        select organization_id, 'old', 'slw_', 'none', id, '{projects:update-retention}' from roles where display_name = 'Keeper'`)
    })
    await migrate(at('backfill'), quiet)
    await connected(at('backfill'), async client => {
      const role = async (name: string) =>
        (await client.query('select permissions from roles where display_name = $1', [name])).rows[0].permissions
      const both = ['projects:increase-trace-tier', 'projects:decrease-trace-tier']
      expect(await role('Keeper')).toEqual(['projects:read', ...both])
      expect(await role('Manager')).toEqual(['workspaces:manage-members', 'fleet-admin:read'])
      expect(await role('Reader')).toEqual(['projects:read'])
      expect(await role('Admin')).toEqual(expect.arrayContaining([...both, 'fleet-admin:read']))
      const { rows } = await client.query('select permissions from api_keys')
      expect(rows).toEqual([{ permissions: both }])
    })
  })

  it('leave a database that they have not reached unready, and say so', async () => {
    await fresh('behind')
    for (const to of [undefined, 2]) {
      if (to) await migrate(at('behind'), { ...quiet, to })
      const { app, close } = hosted({ SEALING_KEYS, DATABASE_URL: at('behind') }, quiet)
      const reply = await app.fetch(new Request('http://x/readyz'))
      expect([reply.status, ((await reply.json()) as { code: string }).code]).toEqual([503, 'not_ready'])
      await close()
    }
  })
})
