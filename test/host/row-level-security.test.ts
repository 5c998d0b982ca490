// Row-level security, grants and logins on a real Postgres.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { openDatabase, requireReady, requireRole } from '../../src/host/database-connection.ts'
import { applyLogins, createLogins, type Logins } from '../../src/host/database-logins.ts'
import { type Postgres, startPostgres } from '../../src/host/embedded-postgres.ts'
import { createHost } from '../../src/host/host.ts'
import { migrate } from '../../src/host/migrate.ts'
import { connect as connectDatabase } from '../../src/kernel/db/db.ts'
import { bootstrap } from '../../src/people/access/bootstrap.ts'
import { connect } from '../support/postgres.ts'

const SEALING_KEYS = `first:${Buffer.alloc(32, 7).toString('base64url')}`
const PUBLIC_URL = 'http://slipway.test'
const quiet = { log: () => {} }
let folder: string
let postgres: Postgres
let admin: pg.Client

const urlOf = (database: string) => Object.assign(new URL(postgres.url), { pathname: `/${database}` }).toString()
async function createDatabase(database: string): Promise<void> {
  await admin.query(`drop database if exists ${database} with (force)`)
  await admin.query(`create database ${database}`)
}

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await connect(url)
  return work(client).finally(() => client.end())
}

const listTables = (client: pg.Client) =>
  client.query(`select relname, relrowsecurity, relforcerowsecurity, pg_get_userbyid(relowner) as owner
    from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`)
const addresses = ({ app, system }: Logins) => ({ DATABASE_URL: app, DATABASE_SYSTEM_URL: system })

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'slipway-rls-'))
  postgres = await startPostgres({ dataDir: join(folder, 'data'), durable: false })
  admin = await connect(postgres.url)
})

afterAll(async () => {
  await admin.end()
  await postgres.stop()
  await rm(folder, { recursive: true, force: true, maxRetries: 9 })
})

describe('row-level security', () => {
  beforeAll(async () => {
    await createDatabase('rls')
    await migrate(urlOf('rls'), quiet)
    const { app, close } = createHost({ PUBLIC_URL, SEALING_KEYS, DATABASE_URL: urlOf('rls') }, quiet)
    await bootstrap(app.database, { organization: 'Acme', emails: ['a@example.com'] })
    await close()
  })

  it('is forced on every table, and the roles of requests own no table', async () => {
    const { rows } = await withClient(urlOf('rls'), listTables)
    expect(rows.length).toBeGreaterThan(8)
    for (const row of rows) expect(row, row.relname).toMatchObject({ relrowsecurity: true, relforcerowsecurity: true })
    for (const row of rows) expect(['slipway_app', 'slipway_system']).not.toContain(row.owner)
  })

  it('hides all rows but the built-in roles before enter_by_key() has been called', async () => {
    await withClient(urlOf('rls'), async client => {
      const { rows } = await listTables(client)
      await client.query('set role slipway_app')
      for (const { relname } of rows) {
        const outcome = await client.query(`select * from ${relname}`).catch(error => error.code)
        if (relname === 'roles')
          expect(outcome.rows.every((row: { organization_id: null }) => row.organization_id === null)).toBe(true)
        // Either no row, or no permission to select.
        else expect(outcome.rows ?? outcome, relname).toEqual(outcome.rows ? [] : '42501')
      }
    })
  })

  it('does not let requests change or delete events of the journal', async () => {
    await withClient(urlOf('rls'), async client => {
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

  it('does not let slipway_app call enter_by_key(), or every role call a security definer function', async () => {
    await withClient(urlOf('rls'), async client => {
      expect(await listPublicFunctions(client)).toEqual([])
      await client.query('set role slipway_app')
      const enter = `select enter_by_key('', null, '', true, '', '0', false, null, null, null)`
      await expect(client.query(enter)).rejects.toMatchObject({ code: '42501' })
    })
  })
})

/** The security definer functions that every role may call. */
const listPublicFunctions = async (client: pg.Client) => {
  const { rows } = await client.query(`select oid::regprocedure::text as name from pg_proc
    where pronamespace = 'public'::regnamespace and prosecdef
      and exists (select from aclexplode(coalesce(proacl, acldefault('f', proowner))) where grantee = 0)`)
  return rows
}

const insertKey = (client: pg.Client, ...[organization, id, creator, listener]: (string | null)[]) =>
  client.query(
    `insert into api_keys (organization_id, id, created_by, listener_id, description, hint, key_hash, role_id)
      values ($1, $2::uuid, $3, $4, 'x', 'x', $2::uuid::text, '00000000-0000-4000-8000-000000000001')`,
    [organization, id, creator ?? null, listener ?? null],
  )

it('revoking a key also revokes a descendant that is being created at the same time', async () => {
  const organization = crypto.randomUUID()
  const [root, child, late] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()]
  await withClient(urlOf('rls'), async creator => {
    await creator.query(`insert into organizations (id, display_name) values ($1, 'Racing')`, [organization])
    await insertKey(creator, organization, root)
    await insertKey(creator, organization, child, root)
    await withClient(urlOf('rls'), async revoker => {
      await creator.query('begin')
      await insertKey(creator, organization, late, child)
      await revoker.query(
        `select set_config('app.organization_id', $1, false), set_config('app.request_id', 'race', false),
        set_config('app.actor_kind', 'key', false)`,
        [organization],
      )
      const revoked = revoker.query('select revoke_key_tree($1) as id', [root])
      const waitingRevocations = `select from pg_stat_activity
        where wait_event_type = 'Lock' and query like 'select revoke_key_tree%'`
      await expect.poll(async () => (await admin.query(waitingRevocations)).rows.length).toBe(1)
      await creator.query('commit')
      expect((await revoked).rows.map(row => row.id).toSorted()).toEqual([root, child, late].toSorted())
    })
  })
})

it('the database parses host and path of a custom URL, also if it was stored before normalization', async () => {
  await withClient(urlOf('rls'), async client => {
    for (const [url, host, path] of [
      ['https://App.example.com:8443/pay/', 'app.example.com', '/pay'],
      ['https://app.example.com', 'app.example.com', '/'],
      ['/pay', null, '/pay'],
    ]) {
      const { rows } = await client.query('select custom_host($1) as host, custom_path($1) as path', [url])
      expect(rows, String(url)).toEqual([{ host, path }])
    }
  })
})

describe('a table that requests insert into', () => {
  /** The limits of tables without a quota. */
  const OTHER_LIMITS: Record<string, string> = {
    workspace_members: 'one for each member and workspace',
    alert_settings: 'one for each workspace',
    incident_changes: 'a few for each step of an incident, which goes after 90 days',
    feedbacks: 'the request rate is limited, and they expire',
    feedback_tokens: 'a hundred for each run, checked by the insert, and they expire',
    ttl_settings: 'one for each workspace',
    deleted_projects: 'one for each project',
    trace_objects: 'as long as their trace, and the request rate is limited',
    upgraded_traces: 'one for each trace',
    waiting_patches: 'a patch of a run each, kept for 14 days, and the request rate is limited',
    otlp_spans: 'kept for a day, and the request rate is limited',
    open_runs: 'kept for a day, and the request rate is limited',
    role_access_policies: 'one for each role and policy',
    dataset_versions: 'EVENTS_PER_DAY',
    examples: 'EVENTS_PER_DAY, and a limit for each dataset',
    example_contents: 'EVENTS_PER_DAY, and a limit for each dataset',
    example_objects: 'UPLOADS_MAX_GIB',
    annotation_queue_items: 'ten thousand for each queue, checked by the insert',
    annotation_queue_reviews: 'one for each item and reviewer',
    model_proxy_settings: 'one for each organization',
    run_rules: 'two hundred, checked by the insert',
    rule_applications: 'one for each rule and run, for a month',
    rule_deliveries: 'one for each webhook and page of runs, for a month',
    rule_evaluations: 'one for each evaluator of a rule and run, for a month',
    insight_clusters: 'as many as a job asks for, and the jobs have a quota',
    insight_runs: 'a thousand for each job, and the jobs have a quota',
    insight_steps: 'a few for each run of a job, and the jobs have a quota',
    tag_keys: 'a hundred, checked by the insert',
    tag_values: 'a thousand for each key, checked by the insert',
    revisions: 'EVENTS_PER_DAY',
    deployment_secrets: 'EVENTS_PER_DAY, and the size of a body',
    tunnels: '200 open ones for each workspace',
    uploads: 'a hundred unused links, and UPLOADS_MAX_GIB',
    logs: 'two for each revision',
    log_lines: 'a limit of bytes for each log',
    oauth_reservations: 'they expire, and the request rate is limited',
    oauth_flows: 'they expire, and the request rate is limited',
    oauth_tokens: 'each takes the consent of a person',
    deploy_hooks: 'twenty for each deployment, checked by the insert',
    protection_bypasses: 'fifty for each deployment, checked by the insert',
    deployment_heads: 'one for each deployment',
    commit_statuses: 'one for each revision of a push, for 7 days',
    preview_policies: 'one for each deployment',
    previews: 'one for each pull request, branch and request, and EVENTS_PER_DAY',
    preview_hooks: 'they expire',
    integration_listings: 'one for each integration',
    integration_installs: 'they expire, and the request rate is limited',
    jobs: 'a thousand open ones, checked by the insert, and they expire',
    journals: 'one for each workspace',
    sessions: 'they expire, and EVENTS_PER_DAY',
    sign_in_links: 'they expire, and EVENTS_PER_DAY',
    events: 'EVENTS_PER_DAY, for 400 days',
    idempotency_keys: 'kept for a day, and the request rate is limited',
  }

  it('has a quota or another limit that this test lists', async () => {
    await createDatabase('quotas')
    await migrate(urlOf('quotas'), quiet)
    const { rows } = await withClient(urlOf('quotas'), client =>
      client.query(`select c.relname as name from pg_class c
        where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
          and has_table_privilege('slipway_app', c.oid, 'insert')
          and not exists (select from pg_trigger t where t.tgrelid = c.oid and t.tgname = 'enforce_quota')`),
    )
    expect(rows.map(row => row.name).sort()).toEqual(Object.keys(OTHER_LIMITS).sort())
  })
})

describe('the database logins', () => {
  const logins = {} as Logins
  beforeAll(async () => {
    await createDatabase('logins')
    await migrate(urlOf('logins'), quiet)
    Object.assign(logins, await createLogins(urlOf('logins')))
    const { app, close } = createHost({ PUBLIC_URL, SEALING_KEYS, ...addresses(logins) }, quiet)
    await bootstrap(app.database, { organization: 'Acme' })
    await close()
  })

  const errorCodes = async (url: string, statements: string[]) =>
    withClient(url, async client => {
      const codes: Record<string, unknown> = {}
      for (const statement of statements)
        codes[statement] = await client.query(statement).then(
          () => 'done',
          error => error.code,
        )
      return codes
    })
  const becomeStatements = (...roles: string[]) => [
    ...roles.flatMap(role => [`set role ${role}`, `select set_config('role', '${role}', false)`]),
    ...roles.map(role => `set session authorization ${role}`),
  ]

  it('let the app login become only slipway_app and slipway_agent, and do nothing else', async () => {
    const owner = new URL(postgres.url).username
    const names = await withClient(urlOf('logins'), async client => ({
      tables: (await listTables(client)).rows.map(row => row.relname as string),
      functions: (
        await client.query(`select p.oid::regprocedure::text as name from pg_proc p
          where pronamespace = 'public'::regnamespace and prosecdef and prorettype <> 'trigger'::regtype`)
      ).rows.map(row => row.name as string),
    }))
    const entryFunctions = /^(enter\w*|become_listener|count_\w+|record_attempts)\(/
    const nullArguments = (types: string) => (types ? types.split(/, ?/).map(type => `null::${type}`) : '')
    const callStatement = (name: string) =>
      `select ${name.replace(/\((.*)\)$/, (_, types) => `(${nullArguments(types)})`)}`
    expect(names.functions.filter(name => entryFunctions.test(name))).toHaveLength(16)
    const statements = [
      ...becomeStatements('slipway_system', owner, new URL(logins.system).username),
      ...names.tables.map(table => `select from "${table}"`),
      ...names.tables.map(table => `delete from "${table}"`),
      ...names.functions.filter(name => !entryFunctions.test(name)).map(callStatement),
      'create table mine (id integer)',
      'create role somebody',
      'create extension pg_trgm',
      'select pg_sleep_for(null) from pg_authid',
      `copy (select 1) to program 'true'`,
      `alter role current_user superuser`,
    ]
    const codes = await errorCodes(logins.app, statements)
    for (const [statement, code] of Object.entries(codes)) expect([statement, code]).toEqual([statement, '42501'])
    // Neither role sees a row before enter_by_key(), and neither can become slipway_system.
    for (const role of ['slipway_app', 'slipway_agent'])
      await withClient(logins.app, async client => {
        await client.query(`set role ${role}`)
        await expect(client.query('set role slipway_system')).rejects.toMatchObject({ code: '42501' })
        for (const table of names.tables.filter(name => name !== 'roles')) {
          const outcome = await client.query(`select from "${table}"`).catch(error => error.code)
          expect(outcome.rowCount ?? outcome, table).toBe(typeof outcome === 'string' ? '42501' : 0)
        }
      })
  })

  it('let the system login become slipway_system, but neither the owner nor a superuser', async () => {
    const owner = new URL(postgres.url).username
    expect(await errorCodes(logins.system, ['set role slipway_system'])).toEqual({ 'set role slipway_system': 'done' })
    const statements = [...becomeStatements(owner), 'drop table events', 'create role somebody', 'select from events']
    for (const [statement, code] of Object.entries(await errorCodes(logins.system, statements)))
      expect([statement, code]).toEqual([statement, '42501'])
  })

  it('are sufficient for the operator’s commands and for the server', async () => {
    for (const url of Object.values(logins)) {
      const { database, pools, close } = openDatabase({ url }, { poolSize: 1 })
      await requireReady(connectDatabase({ database }, pools?.connections)).finally(close)
    }
    const { database, pools, close } = openDatabase({ url: logins.system }, { poolSize: 1 })
    const { api_key } = await bootstrap(connectDatabase({ database }, pools?.connections), {
      organization: 'Acme',
    }).finally(close)
    const { app, close: stop } = createHost({ PUBLIC_URL, SEALING_KEYS, ...addresses(logins) }, quiet)
    const headers = { 'X-Api-Key': api_key }
    expect((await app.request('/orgs/current/info', { headers })).status).toBe(200)
    await stop()
  })

  it('are checked by the server, which does not start with swapped or missing ones', async () => {
    const { app, system } = logins
    const startError = async (addresses: { url: string; systemUrl?: string }) => {
      const { database, pools, close } = openDatabase(addresses, { poolSize: 1 })
      const connected = connectDatabase({ database }, pools?.connections)
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
    const wrongPassword = Object.assign(new URL(system), { password: 'hunter2' }).href
    expect(await startError({ url: app, systemUrl: system })).toBeUndefined()
    expect(await startError({ url: urlOf('logins') })).toBeUndefined()
    expect(await startError({ url: system, systemUrl: app })).toMatch(
      /^The login of DATABASE_URL cannot become slipway_app\. /,
    )
    expect(await startError({ url: app })).toBe(
      'The login of DATABASE_URL cannot become slipway_system. ' +
        'Set DATABASE_SYSTEM_URL to the address that `npm run db:logins` prints.',
    )
    expect(await startError({ url: app, systemUrl: wrongPassword })).toMatch(
      /^The database of DATABASE_SYSTEM_URL cannot be used: password authentication failed/,
    )
  })

  it('can be created only by the owner', async () => {
    await expect(createLogins(logins.system)).rejects.toThrow('Set DATABASE_OWNER_URL')
  })

  it('get new passwords when they are created again', async () => {
    const renewed = await createLogins(urlOf('logins'))
    await expect(connect(logins.app)).rejects.toMatchObject({ code: '28P01' })
    expect(await errorCodes(renewed.app, ['select 1'])).toEqual({ 'select 1': 'done' })
    Object.assign(logins, renewed)
  })

  it('are created from the addresses that an operator chose, and left alone once they work', async () => {
    const address = (username: string, password: string) =>
      Object.assign(new URL(urlOf('logins')), { username, password: encodeURIComponent(password) }).href
    const chosen = { app: address('chosen_app', `a'b/c`), system: address('chosen_system', 'first') }
    expect(await applyLogins(urlOf('logins'), chosen)).toEqual(['app', 'system'])
    expect(await applyLogins('postgres://nobody:@127.0.0.1:1/none', chosen)).toEqual([])
    expect(await errorCodes(chosen.app, ['set role slipway_system'])).toEqual({ 'set role slipway_system': '42501' })
    const changed = { ...chosen, system: address('chosen_system', 'second') }
    expect(await applyLogins(urlOf('logins'), changed)).toEqual(['system'])
    await expect(connect(chosen.system)).rejects.toMatchObject({ code: '28P01' })

    const owner = new URL(urlOf('logins'))
    const shared = { ...changed, app: address(owner.username, 'wrong') }
    await expect(applyLogins(urlOf('logins'), shared)).rejects.toThrow('a user of its own')
  })

  it('cause one warning at the start if the app login can become slipway_system', async () => {
    const notices: string[] = []
    for (const env of [{ DATABASE_URL: urlOf('logins') }, addresses(logins)]) {
      const { close } = createHost(
        { PUBLIC_URL, SEALING_KEYS, ...env },
        { log: line => void notices.push(String(line.notice)) },
      )
      await close()
    }
    expect(notices).toEqual([expect.stringContaining('DATABASE_SYSTEM_URL')])
  })
})

describe('a database owner without superuser rights', () => {
  it('migrates and serves, with the same row-level security', async () => {
    // Roles belong to the server, and the plain owner creates them here. So this test has a separate server.
    const server = await startPostgres({ dataDir: await mkdtemp(join(folder, 'plain-')), durable: false })
    onTestFinished(server.stop)
    await withClient(server.url, async client => {
      await client.query(`create role plain login createrole password 'pw'`)
      await client.query('create database plain owner plain')
    })
    const url = Object.assign(new URL(server.url), { pathname: '/plain', username: 'plain', password: 'pw' }).toString()
    await migrate(url, quiet)
    const { app, close } = createHost({ PUBLIC_URL, SEALING_KEYS, ...addresses(await createLogins(url)) }, quiet)
    const { api_key } = await bootstrap(app.database, { organization: 'Plain' })
    const get = (path: string) => app.request(path, { headers: { 'X-Api-Key': api_key } })
    const roles = (await (await get('/orgs/current/roles')).json()) as { resources: unknown[] }
    expect(roles.resources).toHaveLength(6)
    expect((await get('/readyz')).status).toBe(200)
    // Cascading deletes pass row-level security for such an owner too.
    const owner = await bootstrap(app.database, { organization: 'Plain', scope: 'organization' })
    const headers = { 'X-Api-Key': owner.api_key }
    const path = `http://x/workspaces/${owner.tenant_id}`
    expect((await app.fetch(new Request(path, { method: 'DELETE', headers }))).status).toBe(204)
    expect((await get('/orgs/current/roles')).status).toBe(401)
    await close()
    const { rows } = await withClient(url, client => client.query('select * from api_keys'))
    expect(rows).toEqual([])
    expect(await withClient(url, listPublicFunctions)).toEqual([])
  })
})

describe('a database that is not fully migrated', () => {
  it('is reported as not ready', async () => {
    await createDatabase('behind')
    for (const to of [undefined, 0]) {
      if (to !== undefined) await migrate(urlOf('behind'), { ...quiet, to })
      const { app, close } = createHost({ PUBLIC_URL, SEALING_KEYS, DATABASE_URL: urlOf('behind') }, quiet)
      const reply = await app.fetch(new Request('http://x/readyz'))
      expect([reply.status, ((await reply.json()) as { code: string }).code]).toEqual([503, 'not_ready'])
      await close()
    }
  })
})
