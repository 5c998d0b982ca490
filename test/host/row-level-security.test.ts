import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { bootstrap } from '../../src/access/bootstrap.ts'
import { openDatabase, requireReady, requireRole } from '../../src/host/database-connection.ts'
import { createLogins, type Logins } from '../../src/host/database-logins.ts'
import { type Postgres, startPostgres } from '../../src/host/embedded-postgres.ts'
import { migrate } from '../../src/host/migrate.ts'
import { createHost } from '../../src/host/node.ts'
import { connect as connectDatabase } from '../../src/kernel/db.ts'
import { connect } from '../support/postgres.ts'

const SEALING_KEYS = `first:${Buffer.alloc(32, 7).toString('base64url')}`
const PUBLIC_URL = 'http://slipway.test'
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

const tables = (client: pg.Client) =>
  client.query(`select relname, relrowsecurity, relforcerowsecurity, pg_get_userbyid(relowner) as owner
    from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`)
const addresses = ({ app, system }: Logins) => ({ DATABASE_URL: app, DATABASE_SYSTEM_URL: system })

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
    const { app, close } = createHost({ PUBLIC_URL, SEALING_KEYS, DATABASE_URL: at('walls') }, quiet)
    await bootstrap(app.database, { organization: 'Somebody', emails: ['a@example.com'] })
    await close()
  })

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
      expect(await callableByAll(client)).toEqual([])
      await client.query('set role slipway_app')
      const enter = `select enter('', null, '', true, '', '0', false, null, null, null)`
      await expect(client.query(enter)).rejects.toMatchObject({ code: '42501' })
    })
  })
})

/** Functions that see every tenant, and that every role may call. */
const callableByAll = async (client: pg.Client) => {
  const { rows } = await client.query(`select oid::regprocedure::text as name from pg_proc
    where pronamespace = 'public'::regnamespace and prosecdef
      and exists (select from aclexplode(coalesce(proacl, acldefault('f', proowner))) where grantee = 0)`)
  return rows
}

const insertKey = (client: pg.Client, ...[organization, id, maker, listener]: (string | null)[]) =>
  client.query(
    `insert into api_keys (organization_id, id, created_by, listener_id, description, hint, key_hash, role_id)
      values ($1, $2::uuid, $3, $4, 'x', 'x', $2::uuid::text, '00000000-0000-4000-8000-000000000001')`,
    [organization, id, maker ?? null, listener ?? null],
  )

it('revokes a key that is being made deep in the tree of the key that is revoked', async () => {
  const organization = crypto.randomUUID()
  const [root, child, late] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()]
  await connected(at('walls'), async making => {
    await making.query(`insert into organizations (id, display_name) values ($1, 'Racing')`, [organization])
    await insertKey(making, organization, root)
    await insertKey(making, organization, child, root)
    await connected(at('walls'), async revoking => {
      await making.query('begin')
      await insertKey(making, organization, late, child)
      await revoking.query(
        `select set_config('app.organization_id', $1, false), set_config('app.request_id', 'race', false),
        set_config('app.actor_kind', 'key', false)`,
        [organization],
      )
      const revoked = revoking.query('select revoke_key_tree($1) as id', [root])
      const waits = `select from pg_stat_activity
        where wait_event_type = 'Lock' and query like 'select revoke_key_tree%'`
      await expect.poll(async () => (await admin.query(waits)).rows.length).toBe(1)
      await making.query('commit')
      expect((await revoked).rows.map(row => row.id).toSorted()).toEqual([root, child, late].toSorted())
    })
  })
})

describe('a table that requests add rows to', () => {
  /** Why no quota of its own bounds it. */
  const BOUNDED_OTHERWISE: Record<string, string> = {
    workspace_members: 'one for each member and workspace',
    projects: 'one for each deployment',
    tag_keys: 'a hundred, in the write itself',
    tag_values: 'a thousand for each key, in the write itself',
    revisions: 'EVENTS_PER_DAY',
    deployment_secrets: 'EVENTS_PER_DAY, and the size of a body',
    uploads: 'a hundred unused links, and UPLOADS_MAX_GIB',
    logs: 'two for each revision',
    log_lines: 'so many bytes for each log',
    oauth_reservations: 'they end by themselves, at the rate of requests',
    oauth_flows: 'they end by themselves, at the rate of requests',
    oauth_tokens: 'each takes a person who consents',
    deployment_heads: 'one for each deployment',
    preview_policies: 'one for each deployment',
    previews: 'one for each pull request',
    preview_hooks: 'they end by themselves',
    integration_listings: 'one for each integration',
    integration_installs: 'they end by themselves, at the rate of requests',
    journals: 'one for each workspace',
    events: 'EVENTS_PER_DAY, for 400 days',
    idempotency_keys: 'for a day, at the rate of requests',
  }

  it('has a limit', async () => {
    await fresh('quotas')
    await migrate(at('quotas'), quiet)
    const { rows } = await connected(at('quotas'), client =>
      client.query(`select c.relname as name from pg_class c
        where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and has_table_privilege('slipway_app', c.oid, 'insert')
          and not exists (select from pg_trigger t where t.tgrelid = c.oid and t.tgname = 'within_quota')`),
    )
    expect(rows.map(row => row.name).sort()).toEqual(Object.keys(BOUNDED_OTHERWISE).sort())
  })
})

describe('the logins', () => {
  const logins = {} as Logins
  beforeAll(async () => {
    await fresh('logins')
    await migrate(at('logins'), quiet)
    Object.assign(logins, await createLogins(at('logins')))
    const { app, close } = createHost({ PUBLIC_URL, SEALING_KEYS, ...addresses(logins) }, quiet)
    await bootstrap(app.database, { organization: 'Somebody' })
    await close()
  })

  const refusals = async (url: string, statements: string[]) =>
    connected(url, async client => {
      const codes: Record<string, unknown> = {}
      for (const one of statements)
        codes[one] = await client.query(one).then(
          () => 'done',
          error => error.code,
        )
      return codes
    })
  const become = (...roles: string[]) => [
    ...roles.flatMap(role => [`set role ${role}`, `select set_config('role', '${role}', false)`]),
    ...roles.map(role => `set session authorization ${role}`),
  ]

  it('of the app becomes the two roles of callers and nobody else, and does nothing by itself', async () => {
    const owner = new URL(postgres.url).username
    const names = await connected(at('logins'), async client => ({
      tables: (await tables(client)).rows.map(row => row.relname as string),
      functions: (
        await client.query(`select p.oid::regprocedure::text as name from pg_proc p
          where pronamespace = 'public'::regnamespace and prosecdef and prorettype <> 'trigger'::regtype`)
      ).rows.map(row => row.name as string),
    }))
    const entries = /^(enter|become_listener|count_requests?)\(/
    const called = (name: string) =>
      `select ${name.replace(/\((.*)\)$/, (_, types) => `(${types ? types.split(/, ?/).map((type: string) => `null::${type}`) : ''})`)}`
    expect(names.functions.filter(name => entries.test(name))).toHaveLength(5)
    const statements = [
      ...become('slipway_system', owner, new URL(logins.system).username),
      ...names.tables.map(table => `select from "${table}"`),
      ...names.tables.map(table => `delete from "${table}"`),
      ...names.functions.filter(name => !entries.test(name)).map(called),
      ...[
        'create table mine (id integer)',
        'create role somebody',
        'create extension pg_trgm',
        'select pg_sleep_for(null) from pg_authid',
      ],
      `copy (select 1) to program 'true'`,
      `alter role current_user superuser`,
    ]
    const codes = await refusals(logins.app, statements)
    for (const [statement, code] of Object.entries(codes)) expect([statement, code]).toEqual([statement, '42501'])
    // Nothing is shown to either role before somebody has entered, and a role does not lead to another.
    for (const role of ['slipway_app', 'slipway_agent'])
      await connected(logins.app, async client => {
        await client.query(`set role ${role}`)
        await expect(client.query('set role slipway_system')).rejects.toMatchObject({ code: '42501' })
        for (const table of names.tables.filter(name => name !== 'roles')) {
          const found = await client.query(`select from "${table}"`).catch(error => error.code)
          expect(found.rowCount ?? found, table).toBe(typeof found === 'string' ? '42501' : 0)
        }
      })
  })

  it('of scheduled work becomes slipway_system, and neither the owner nor a superuser', async () => {
    const owner = new URL(postgres.url).username
    expect(await refusals(logins.system, ['set role slipway_system'])).toEqual({ 'set role slipway_system': 'done' })
    const statements = [...become(owner), 'drop table events', 'create role somebody', 'select from events']
    for (const [statement, code] of Object.entries(await refusals(logins.system, statements)))
      expect([statement, code]).toEqual([statement, '42501'])
  })

  it('are enough for the operator’s commands and for the server', async () => {
    for (const url of Object.values(logins)) {
      const { database, via, close } = openDatabase({ url }, { poolSize: 1 })
      await requireReady(connectDatabase({ database }, via)).finally(close)
    }
    const { database, via, close } = openDatabase({ url: logins.system }, { poolSize: 1 })
    const made = await bootstrap(connectDatabase({ database }, via), { organization: 'Somebody' }).finally(close)
    const { app, close: stop } = createHost({ PUBLIC_URL, SEALING_KEYS, ...addresses(logins) }, quiet)
    const headers = { 'X-Api-Key': made.api_key }
    expect((await app.request('/orgs/current/info', { headers })).status).toBe(200)
    await stop()
  })

  it('are refused at the start where each stands in the place of the other, or one is missing', async () => {
    const { app, system } = logins
    const refusalOf = async (addresses: { url: string; systemUrl?: string }) => {
      const { database, via, close } = openDatabase(addresses, { poolSize: 1 })
      const connected = connectDatabase({ database }, via)
      const name = addresses.systemUrl ? 'DATABASE_SYSTEM_URL' : 'DATABASE_URL'
      try {
        await requireRole(connected, 'DATABASE_URL')
        await requireRole(connected, 'DATABASE_SYSTEM_URL', name)
        return undefined
      } catch (error) {
        return (error as Error).message
      } finally {
        await close()
      }
    }
    const stranger = Object.assign(new URL(system), { password: 'hunter2' }).href
    expect(await refusalOf({ url: app, systemUrl: system })).toBeUndefined()
    expect(await refusalOf({ url: at('logins') })).toBeUndefined()
    expect(await refusalOf({ url: system, systemUrl: app })).toMatch(
      /^The login of DATABASE_URL cannot become slipway_app\. /,
    )
    expect(await refusalOf({ url: app })).toBe(
      'The login of DATABASE_URL cannot become slipway_system. Set DATABASE_SYSTEM_URL to the address that `npm run db:logins` prints.',
    )
    expect(await refusalOf({ url: app, systemUrl: stranger })).toMatch(
      /^DATABASE_SYSTEM_URL leads to no database that answers: password authentication failed/,
    )
  })

  it('are made by the owner', async () => {
    await expect(createLogins(logins.system)).rejects.toThrow('Set DATABASE_OWNER_URL')
  })

  it('get new passwords when they are made again', async () => {
    const again = await createLogins(at('logins'))
    await expect(connect(logins.app)).rejects.toMatchObject({ code: '28P01' })
    expect(await refusals(again.app, ['select 1'])).toEqual({ 'select 1': 'done' })
    Object.assign(logins, again)
  })

  it('that may become slipway_system are said to be too strong for requests, in one line', async () => {
    const told: string[] = []
    for (const env of [{ DATABASE_URL: at('logins') }, addresses(logins)]) {
      const { close } = createHost(
        { PUBLIC_URL, SEALING_KEYS, ...env },
        { log: line => void told.push(String(line.notice)) },
      )
      await close()
    }
    expect(told).toEqual([expect.stringContaining('DATABASE_SYSTEM_URL')])
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
    const { app, close } = createHost({ PUBLIC_URL, SEALING_KEYS, ...addresses(await createLogins(url)) }, quiet)
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
    expect(await connected(url, callableByAll)).toEqual([])
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

  it('keep people connected when more endpoints join the binding of what they granted', async () => {
    await fresh('bindings')
    await migrate(at('bindings'), { ...quiet, to: 18 })
    const id = '11111111-1111-4111-8111-111111111111'
    await connected(at('bindings'), async client => {
      await client.query(`insert into organizations (id, display_name) values ('${id}', 'Old')`)
      await client.query(`insert into workspaces (id, organization_id, display_name) values ('${id}', '${id}', 'Old')`)
      await client.query(`insert into roles (organization_id, scope, display_name, permissions) values
        ('${id}', 'organization', 'Keeper', '{organization:update}'), ('${id}', 'workspace', 'Worker', '{deployments:update}')`)
      await client.query(`insert into oauth_providers (id, organization_id, provider_id, name, client_id, client_secret, auth_url, token_url,
          uses_pkce, token_endpoint_auth_method, registration, redirect_uri)
        values ('${id}', '${id}', 'p', 'P', 'c', 'sealed', 'https://a.example/a', 'https://a.example/t', true, 'none', 'given', 'r')`)
      await client.query(`insert into oauth_tokens (organization_id, tenant_id, provider_id, user_id, scopes, access_token, token_type, bound_to)
        select '${id}', '${id}', p.id, user_id, '{}', 'sealed', 'Bearer', case user_id when 'ada' then oauth_binding(p) else 'older' end
        from oauth_providers p, unnest(array['ada', 'bob']) user_id`)
    })
    await migrate(at('bindings'), quiet)
    await connected(at('bindings'), async client => {
      const { rows } =
        await client.query(`select user_id, bound_to = oauth_binding(p) as bound, client_secret_urls, made_by_workspace
        from oauth_tokens t join oauth_providers p on p.id = t.provider_id order by user_id`)
      const provider = { client_secret_urls: ['https://a.example/t'], made_by_workspace: null }
      expect(rows).toEqual([
        { user_id: 'ada', bound: true, ...provider },
        { user_id: 'bob', bound: false, ...provider },
      ])
      const { rows: holders } = await client.query(
        `select display_name from roles where 'organization:manage-providers' = any(permissions) order by 1`,
      )
      expect(holders.map(({ display_name }) => display_name)).toEqual(['Keeper', 'Organization Admin'])
    })
  })

  it('give each host of old custom URLs one owner, unproved, and tell agents anew', async () => {
    await fresh('hosts')
    await migrate(at('hosts'), { ...quiet, to: 18 })
    const [old, young] = ['11111111-1111-4111-8111-111111111111', '22222222-2222-4222-8222-222222222222']
    await connected(at('hosts'), async client => {
      for (const [i, id] of [old, young].entries()) {
        await client.query(`insert into organizations (id, display_name) values ('${id}', 'Some')`)
        await client.query(
          `insert into workspaces (id, organization_id, display_name) values ('${id}', '${id}', 'Some')`,
        )
        for (const url of ['https://App.example.com:8443/pay/', 'https://App.example.com:8443/pay/', '/pay', null])
          await client.query(
            `insert into deployments (organization_id, tenant_id, name, source, deployment_type, status, source_config,
              source_revision_config, secrets, created_at)
            values ($1, $1, gen_random_uuid()::text, 'external_container', 'prod', 'READY', $2, '{}', '[]', now() - $3::interval)`,
            [id, JSON.stringify(url === null ? {} : { custom_url: url }), `${2 - i} days`],
          )
      }
    })
    await migrate(at('hosts'), quiet)
    await connected(at('hosts'), async client => {
      const hosts = await client.query('select host, tenant_id, verified_at from custom_hosts')
      expect(hosts.rows).toEqual([{ host: 'app.example.com', tenant_id: old, verified_at: null }])
      const { rows } = await client.query(
        `select source_config ->> 'custom_url' as url, custom_host, custom_path, generation from deployments
        where tenant_id = '${young}' order by url`,
      )
      const claimed = { custom_host: 'app.example.com', custom_path: '/pay', generation: 2 }
      expect(rows).toEqual([
        { url: '/pay', custom_host: null, custom_path: '/pay', generation: 2 },
        { url: 'https://App.example.com:8443/pay/', ...claimed },
        { url: 'https://App.example.com:8443/pay/', ...claimed },
        { url: null, custom_host: null, custom_path: null, generation: 1 },
      ])
    })
  })

  it('give keys that are there already the budget of the key that they come from', async () => {
    await fresh('budgets')
    await migrate(at('budgets'), { ...quiet, to: 18 })
    const organization = '11111111-1111-4111-8111-111111111111'
    const idOf = (n: number) => `22222222-2222-4222-8222-22222222222${n}`
    const listener = '33333333-3333-4333-8333-333333333333'
    // A root, what it made, what that made, an agent's key, and one whose maker is gone.
    const keys: [number, number | null, string | null][] = [
      [3, 2, null],
      [2, 1, null],
      [1, null, null],
      [4, 2, listener],
      [5, 9, null],
    ]
    await connected(at('budgets'), async client => {
      await client.query(`insert into organizations (id, display_name) values ('${organization}', 'Old')`)
      await client.query(`insert into listeners (id, organization_id, compute_type, compute_id, compute_config)
        values ('${listener}', '${organization}', 'local', 'here', '{"k8s_namespaces": []}')`)
      for (const [id, maker, of] of keys)
        await insertKey(client, organization, idOf(id), maker === null ? null : idOf(maker), of)
    })
    await migrate(at('budgets'), quiet)
    await connected(at('budgets'), async client => {
      const { rows } = await client.query('select budget_id from api_keys order by id')
      expect(rows.map(row => row.budget_id)).toEqual([idOf(1), idOf(1), idOf(1), listener, idOf(5)])
    })
  })

  it('leave a database that they have not reached unready, and say so', async () => {
    await fresh('behind')
    for (const to of [undefined, 2]) {
      if (to) await migrate(at('behind'), { ...quiet, to })
      const { app, close } = createHost({ PUBLIC_URL, SEALING_KEYS, DATABASE_URL: at('behind') }, quiet)
      const reply = await app.fetch(new Request('http://x/readyz'))
      expect([reply.status, ((await reply.json()) as { code: string }).code]).toEqual([503, 'not_ready'])
      await close()
    }
  })
})
