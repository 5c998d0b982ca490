// No row of one workspace may contain an id of another. The cases come from the catalog, so new columns are covered.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Postgres, startPostgres } from '../../src/host/embedded-postgres.ts'
import { migrate } from '../../src/host/migrate.ts'
import { connect } from '../support/postgres.ts'

/** Which table a column refers to. A column whose name is not here is named by its table, too. */
const REFERS: Record<string, string> = {
  organization_id: 'organizations',
  tenant_id: 'workspaces',
  scope_id: 'workspaces',
  made_by_workspace: 'workspaces',
  role_id: 'roles',
  member_id: 'members',
  listener_id: 'listeners',
  tag_key_id: 'tag_keys',
  tag_value_ids: 'tag_values',
  deployment_id: 'deployments',
  parent_id: 'deployments',
  parent_deployment_id: 'deployments',
  revision_id: 'revisions',
  latest_revision_id: 'revisions',
  active_revision_id: 'revisions',
  in_flight_revision_id: 'revisions',
  waiting_revision_id: 'revisions',
  from_revision_id: 'revisions',
  provider_id: 'oauth_providers',
  integration_id: 'integrations',
  preview_id: 'previews',
  actor_id: 'api_keys',
  created_by: 'api_keys',
  approved_by: 'api_keys',
  'preview_policies.id': 'deployments',
}
/** Ids that are no reference, and why another tenant's does no harm there. */
const NO_REFERENCE: Record<string, string> = {
  'events.subject_id': 'a word in the journal of whoever writes it: nothing follows it',
  'api_keys.budget_id': 'set by a trigger, whatever a request writes',
  'logs.stream': 'made up by an agent for its own numbering',
}
/** What a tenant's rows are made of, before those that refer to them. */
const FIRST = ['organizations', 'workspaces', 'roles', 'members', 'listeners', 'api_keys', 'deployments', 'revisions']
const ROLES = ['slipway_app', 'slipway_agent'] as const
const REFUSED = ['42501', '23503']

type Column = { table: string; name: string; type: string; nullable: boolean; given: boolean; key: boolean }
type Tenant = Record<string, string>

let folder: string
let postgres: Postgres
let admin: pg.Client
let columns: Column[]
const mine: Tenant = {}
const theirs: Tenant = {}

const isId = ({ type, name, table }: Column) =>
  (type === 'uuid' || type === 'uuid[]') && (name !== 'id' || `${table}.id` in REFERS)
const referred = ({ table, name }: Column) => REFERS[`${table}.${name}`] ?? REFERS[name]
const columnsOf = (table: string) => columns.filter(one => one.table === table)

/** The first column of the primary key. */
const keyOf = (table: string) => columnsOf(table).find(one => one.key)!.name

let made = 0
/** A value that fits the column, of this tenant where it is an id. */
function sampleOf(column: Column, tenant: Tenant): unknown {
  made++
  const id = () => tenant[referred(column) ?? ''] ?? null
  switch (column.type) {
    case 'uuid':
      return isId(column) && referred(column) ? id() : crypto.randomUUID()
    case 'uuid[]':
      return id() === null ? [] : [id()]
    case 'text':
      return column.name === 'scope' ? 'workspace' : `text-${made}`
    case 'text[]':
      return []
    case 'json':
      return '{}'
    case 'boolean':
      return false
    case 'integer':
    case 'bigint':
      return made
    default:
      // A revoked key makes no other key.
      return column.name === 'revoked_at' ? null : new Date()
  }
}

const insertOf = (table: string, row: Record<string, unknown>) => {
  const names = Object.keys(row)
  return {
    text: `insert into ${table} (${names.map(name => `"${name}"`)}) values (${names.map((_, i) => `$${i + 1}`)})`,
    values: Object.values(row),
  }
}

const rowOf = (table: string, tenant: Tenant) =>
  Object.fromEntries(columnsOf(table).map(column => [column.name, sampleOf(column, tenant)]))

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'slipway-ids-'))
  postgres = await startPostgres({ dataDir: join(folder, 'data'), durable: false })
  await migrate(postgres.url, { log: () => {} })
  admin = await connect(postgres.url)
  const { rows } = await admin.query<Column>(`
    select c.relname as table, a.attname as name, format_type(a.atttypid, null) as type, not a.attnotnull as nullable,
      a.attgenerated <> '' as given,
      exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary and a.attnum = any(i.indkey)) as key
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') order by c.relname, a.attnum`)
  columns = rows.filter(one => !one.given)
  const tables = [...new Set(columns.map(one => one.table))]
  for (const tenant of [mine, theirs]) {
    // First what others refer to, and what of it refers to later ones is filled in at the end.
    for (const table of [...FIRST, ...tables.filter(one => !FIRST.includes(one)).sort(referringLast)]) {
      const row = rowOf(table, tenant)
      const { text, values } = insertOf(table, row)
      // A trigger has made some of them already.
      await admin.query(`${text} on conflict do nothing`, values)
      tenant[table] = String(row[keyOf(table)])
    }
    for (const column of columns.filter(one => isId(one) && FIRST.includes(one.table) && referred(one) && !one.key)) {
      const value = sampleOf(column, tenant)
      await admin.query(`update ${column.table} set "${column.name}" = $1 where id = $2`, [value, tenant[column.table]])
    }
  }
})

/** Tables that refer to another one of the same kind come after it. */
const referringLast = (a: string, b: string) => depth(a) - depth(b)
const depth = (table: string): number =>
  1 +
  Math.max(
    0,
    ...columnsOf(table)
      .filter(isId)
      .map(referred)
      .filter(to => to !== undefined && to !== table && !FIRST.includes(to))
      .map(to => depth(to!)),
  )

afterAll(async () => {
  await admin.end()
  await postgres.stop()
  await rm(folder, { recursive: true, force: true, maxRetries: 9 })
})

/** Tries a statement as whoever entered for my tenant, and takes it back. */
async function as(role: (typeof ROLES)[number], workspace: boolean, statement: pg.QueryConfig, before?: string) {
  await admin.query('begin')
  try {
    if (before) await admin.query(before)
    const settings = {
      organization_id: mine.organizations!,
      tenant_id: workspace ? mine.workspaces! : '',
      actor_id: mine.api_keys!,
      listener_id: role === 'slipway_agent' ? mine.listeners! : '',
    }
    for (const [name, value] of Object.entries(settings))
      await admin.query('select set_config($1, $2, true)', [`app.${name}`, value])
    await admin.query(`set local role ${role}`)
    return (await admin.query(statement)).rowCount ?? 0
  } catch (error) {
    return (error as pg.DatabaseError).code!
  } finally {
    await admin.query('rollback')
  }
}

const may = async (role: string, table: string, right: string): Promise<boolean> =>
  (await admin.query('select has_any_column_privilege($1, $2, $3) as may', [role, table, right])).rows[0].may

const whereMine = (table: string) => `"${keyOf(table)}" = '${mine[table]}'`
/** Where there may be only one row of a kind, a second one would be refused for that alone. */
const makeRoom = (table: string) =>
  Object.values(REFERS).includes(table) ? undefined : `delete from ${table} where ${whereMine(table)}`

it('every id column has a known target', () => {
  const unknown = columns
    .filter(isId)
    .filter(one => !referred(one) && !(`${one.table}.${one.name}` in NO_REFERENCE))
    .filter(one => !['sync_items', 'sync_cursors', 'rate_windows'].includes(one.table))
  expect(unknown.map(one => `${one.table}.${one.name}`)).toEqual([])
})

describe.each(ROLES)('%s', role => {
  it('cannot insert a row with an id of another tenant', async () => {
    const kept: string[] = []
    const writable = new Set(columns.map(one => one.table))
    for (const table of writable) {
      if (!(await may(role, table, 'insert'))) continue
      const outcomes = []
      for (const workspace of [true, false])
        outcomes.push(await as(role, workspace, insertOf(table, rowOf(table, mine)), makeRoom(table)))
      expect(outcomes, `${table}: an honest row goes in`).toContain(1)
      for (const column of columnsOf(table).filter(one => isId(one) && referred(one)))
        for (const workspace of [true, false]) {
          const row = { ...rowOf(table, mine), [column.name]: sampleOf(column, theirs) }
          const outcome = await as(role, workspace, insertOf(table, row), makeRoom(table))
          if (!REFUSED.includes(String(outcome))) kept.push(`${table}.${column.name}: ${outcome}`)
        }
    }
    expect(kept).toEqual([])
  })

  it('cannot update a row to an id of another tenant', async () => {
    const kept: string[] = []
    for (const column of columns.filter(one => isId(one) && referred(one))) {
      const { table, name } = column
      if (!(await may(role, table, 'update'))) continue
      for (const workspace of [true, false]) {
        const text = `update ${table} set "${name}" = $1 where ${whereMine(table)}`
        const outcome = await as(role, workspace, { text, values: [sampleOf(column, theirs)] })
        const unseen = outcome === 0 && !workspace
        if (!REFUSED.includes(String(outcome)) && !unseen) kept.push(`${table}.${name}: ${outcome}`)
      }
    }
    expect(kept).toEqual([])
  })
})
