// Who may do what, generated from the routes. A permission is only ever looked for by its name, so two keys decide an
// operation: one that holds only its permission passes, and one that holds every other is refused, and with it every
// key that holds fewer of those.
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { ADMIN, EDITOR, ORGANIZATION_ADMIN, ORGANIZATION_USER, VIEWER } from '../../src/access/built-in-roles.ts'
import { isWorkspaceScoped } from '../../src/kernel/context.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
import { organizationPermissions, type Permission, permissionNames } from '../../src/kernel/permissions.ts'
import type { Operation } from '../../src/kernel/routes.ts'
import {
  getApp,
  getExampleBody,
  getExampleQuery,
  guardedOperations,
  newTenant,
  send,
  type Tenant,
  unusedId,
} from '../support/app.ts'
import { newPathParameters } from '../support/path-parameters.ts'
import { newSiblingWorkspace } from '../support/providers.ts'

const ofWorkspaces = permissionNames.filter(name => !organizationPermissions.includes(name))
const writes = guardedOperations.filter(one => one.method !== 'get' && !one.isReadOnly)

const call = (operation: Operation, headers: Record<string, string>, ids: Record<string, string> = {}) => {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => ids[name] ?? (name === 'number' ? '1' : unusedId()))
  const body = getExampleBody(operation)
  return send(operation.method.toUpperCase(), path + getExampleQuery(operation), { body, headers })
}

/** What enter() says; what comes after it is none of this table's. */
const DOOR = ['permission_missing', 'workspace_required', 'workspace_forbidden']
const verdict = async (operation: Operation, headers: Record<string, string>) => {
  const { status, body } = await call(operation, headers)
  expect(status, operation.id).not.toBe(401)
  expect(status, operation.id).not.toBe(500)
  return DOOR.includes(body?.code) ? body.code : 'passes'
}

let tenant: Tenant
/** Keys that hold only this permission; of a workspace, where a role of a workspace can hold it. */
const only = new Map<Permission, { workspace?: string; organization: string }>()
/** Keys that hold everything else that their kind can hold. */
const allBut = new Map<Permission, { workspace: string; organization: string }>()

async function keyOfRole(permissions: readonly string[]): Promise<string> {
  const wish = { display_name: unusedId(), permissions }
  const role_id = (await tenant.owner.post('/orgs/current/roles', wish)).body.id
  const inside = { 'X-Tenant-Id': tenant.tenant_id }
  return (await tenant.owner.post('/workspaces/current/api-keys', { description: 'x', role_id }, inside)).body.key
}

beforeAll(async () => {
  tenant = await newTenant()
  const used = new Set(guardedOperations.map(({ verb }) => verb!.permission))
  for (const name of used) {
    const others = (names: Permission[]) => names.filter(other => other !== name)
    const ofOrganization = async (permissions: Permission[]) =>
      (await tenant.owner.post('/orgs/current/api-keys', { description: name, permissions })).body.key
    const organization = await ofOrganization([name])
    only.set(
      name,
      ofWorkspaces.includes(name) ? { workspace: await keyOfRole([name]), organization } : { organization },
    )
    allBut.set(name, {
      workspace: await keyOfRole(others(ofWorkspaces)),
      organization: await ofOrganization(others(permissionNames)),
    })
  }
})

describe('the permission check of each route', () => {
  it.each(guardedOperations.map(one => [one.id, one] as const))(
    '%s asks for its permission and nothing else',
    async (_, one) => {
      const { permission } = one.verb!
      const { workspace, organization } = only.get(permission)!
      const inside = { 'X-Tenant-Id': tenant.tenant_id }
      const others = allBut.get(permission)!
      expect(await verdict(one, { 'X-Api-Key': others.workspace })).toBe('permission_missing')
      expect(await verdict(one, { 'X-Api-Key': others.organization, ...inside })).toBe('permission_missing')
      if (workspace) expect(await verdict(one, { 'X-Api-Key': workspace })).toBe('passes')
      expect(await verdict(one, { 'X-Api-Key': organization, ...inside })).toBe('passes')
      const without = isWorkspaceScoped(one.verb!) ? 'workspace_required' : 'passes'
      expect(await verdict(one, { 'X-Api-Key': organization })).toBe(without)
    },
  )

  it('lets each built-in role write what its permissions allow', async () => {
    const inside = { 'X-Tenant-Id': tenant.tenant_id }
    const unexpected: string[] = []
    for (const role_id of [ADMIN, EDITOR, VIEWER, ORGANIZATION_ADMIN, ORGANIZATION_USER]) {
      const { permissions } = (await tenant.get(`/orgs/current/roles/${role_id}`)).body
      const { key } = (await tenant.owner.post('/orgs/current/api-keys', { description: 'role', role_id })).body
      for (const one of writes) {
        const expected = permissions.includes(one.verb!.permission) ? 'passes' : 'permission_missing'
        const found = await verdict(one, { 'X-Api-Key': key, ...inside })
        if (found !== expected) unexpected.push(`${role_id} ${one.id}: ${found}`)
      }
    }
    expect(unexpected).toEqual([])
  }, 90_000)

  it('refuses every workspace role where the organization is changed', async () => {
    const wish = (permission: string) => ({ display_name: unusedId(), permissions: [permission] })
    for (const permission of organizationPermissions)
      expect((await tenant.owner.post('/orgs/current/roles', wish(permission))).status).toBe(422)
  })
})

// ---- what writes do to the organization

/** The writes by which a workspace changes something of its organization, and why it may. */
const BY_A_WORKSPACE: Record<string, string> = {
  createProvider: 'adds oauth_providers: a workspace makes providers of its own',
  recheckProvider: 'changes oauth_providers: what their own servers say; the schedule does so every day',
  addMembership: 'adds members: whoever joins a workspace belongs to the organization, and may do nothing else there',
}

/** The tables with rows of organizations: found in the catalogue, so that a new table is among them. */
async function tablesOfOrganizations(): Promise<[string, string][]> {
  const catalogue = sql`select t.table_name, count(*) filter (where c.column_name = 'tenant_id')
    from information_schema.tables t join information_schema.columns c using (table_schema, table_name)
    where t.table_schema = 'public' and t.table_type = 'BASE TABLE' group by t.table_name
    having bool_or(c.column_name = 'organization_id') and t.table_name <> 'journals'`
  const [tables] = (await runAsSystem(getApp().database, catalogue)) as [[string, string][]]
  return tables
}

/** Every row of the organization that is of no workspace, by its table. */
async function rowsOfOrganization(
  { organization_id }: Tenant,
  tables: [string, string][],
): Promise<Map<string, string>> {
  const each = tables.map(([table, hasTenant]) => {
    const shared = Number(hasTenant) > 0 ? sql`and tenant_id is null` : sql``
    // A stamp of last use is no change that anyone made.
    return sql`select ${table}::text, (to_jsonb(t) - 'last_used_at')::text from ${sql.identifier(table)} t
      where organization_id = ${organization_id}::uuid ${shared}`
  })
  const all = sql`${sql.join(each, sql` union all `)}
    union all select 'organizations', to_jsonb(o)::text from organizations o where id = ${organization_id}::uuid`
  const [rows] = (await runAsSystem(getApp().database, all)) as [[string, string][]]
  return new Map(rows.map(([table, row]) => [row, table]))
}

describe('a role of another workspace with every possible permission', () => {
  it('can change only the listed parts of the organization', async () => {
    const maker = await newTenant()
    const ids = { ...(await newPathParameters(maker)), number: '1' }
    const role = { display_name: 'Everything', permissions: ofWorkspaces }
    const beside = await newSiblingWorkspace(maker, (await maker.owner.post('/orgs/current/roles', role)).body.id)
    const done: Record<string, string[]> = {}
    const tables = await tablesOfOrganizations()
    let before = await rowsOfOrganization(maker, tables)
    for (const one of writes) {
      await call(one, { 'X-Api-Key': beside.key }, ids)
      const after = await rowsOfOrganization(maker, tables)
      const gone = [...before].filter(([row]) => !after.has(row)).map(([, table]) => `changes ${table}`)
      const came = [...after].filter(([row]) => !before.has(row)).map(([, table]) => `adds ${table}`)
      const effects = [...new Set(gone.length > 0 ? gone : came)]
      if (effects.length > 0) done[one.id] = effects
      before = after
    }
    const allowed = Object.entries(BY_A_WORKSPACE).map(([id, why]) => [id, [why.split(':')[0]]])
    expect(done).toEqual(Object.fromEntries(allowed))
  }, 90_000)
})
