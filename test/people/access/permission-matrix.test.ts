// The permission of every route. Permissions are checked by name and do not imply each other, so two keys are enough
// for each operation: one with only its permission, and one with all others.
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, inject, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { isWorkspaceScoped } from '../../../src/kernel/http/context.ts'
import type { KeyedOperation } from '../../../src/kernel/http/routes.ts'
import { organizationPermissions, type Permission, permissionNames } from '../../../src/kernel/permissions.ts'
import {
  ADMIN,
  AUDITOR,
  EDITOR,
  ORGANIZATION_ADMIN,
  ORGANIZATION_USER,
  VIEWER,
} from '../../../src/people/access/built-in-roles.ts'
import {
  getApp,
  getExampleQuery,
  getExampleRequest,
  guardedOperations,
  newTenant,
  onePerPermission,
  send,
  type Tenant,
  unusedId,
} from '../../support/app.ts'
import { newPathParameters } from '../../support/path-parameters.ts'
import { newSiblingWorkspace } from '../../support/providers.ts'
import { cookieHeaders, newSession } from '../../support/sessions.ts'

const workspacePermissions = permissionNames.filter(name => !organizationPermissions.includes(name))
/** Operations that every caller may use have no permission. */
const permittedOperations = guardedOperations.filter(one => one.verb.permission !== null)
const writes = permittedOperations.filter(one => one.method !== 'get' && !one.isReadOnly)
/**
 * Once every operation is known to check its permission, one of them shows what a role may do with the permission.
 * `npm run fuzz` tries all of them with each role.
 */
const shown = (operations: KeyedOperation[]): KeyedOperation[] =>
  inject('fuzz').requests >= 10_000 ? operations : onePerPermission(operations)

const NUMBERS = new Set(['number', 'index'])
const call = (operation: KeyedOperation, headers: Record<string, string>, ids: Record<string, string> = {}) => {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => ids[name] ?? (NUMBERS.has(name) ? '1' : unusedId()))
  const example = getExampleRequest(operation)
  return send(operation.method.toUpperCase(), path + getExampleQuery(operation), {
    ...example,
    headers: { ...example.headers, ...headers },
  })
}

/** The refusals of enter(). Later errors do not matter here. */
const ENTRY_REFUSALS = ['permission_missing', 'workspace_required', 'workspace_forbidden']
const readVerdict = async (operation: KeyedOperation, headers: Record<string, string>) => {
  const { status, body } = await call(operation, headers)
  expect(status, operation.id).not.toBe(401)
  expect(status, operation.id).not.toBe(500)
  return ENTRY_REFUSALS.includes(body?.code) ? body.code : 'passes'
}

let tenant: Tenant
/** Keys with only this permission. A workspace key exists if a workspace role can have the permission. */
const onlyWith = new Map<Permission, { workspace?: string; organization: string }>()
/** Keys with every other permission that a key of their scope can have. */
const allWithout = new Map<Permission, { workspace: string; organization: string }>()

async function createRoleKey(permissions: readonly string[]): Promise<string> {
  const role = { display_name: unusedId(), permissions }
  const role_id = (await tenant.owner.post('/orgs/current/roles', role)).body.id
  const inside = { 'X-Tenant-Id': tenant.tenant_id }
  return (await tenant.owner.post('/workspaces/current/api-keys', { description: 'x', role_id }, inside)).body.key
}

beforeAll(async () => {
  tenant = await newTenant()
  const used = new Set(permittedOperations.map(({ verb }) => verb.permission!))
  for (const name of used) {
    const without = (names: Permission[]) => names.filter(one => one !== name)
    const createOrganizationKey = async (permissions: Permission[]) =>
      (await tenant.owner.post('/orgs/current/api-keys', { description: name, permissions })).body.key
    const organization = await createOrganizationKey([name])
    onlyWith.set(
      name,
      workspacePermissions.includes(name) ? { workspace: await createRoleKey([name]), organization } : { organization },
    )
    allWithout.set(name, {
      workspace: await createRoleKey(without(workspacePermissions)),
      organization: await createOrganizationKey(without(permissionNames)),
    })
  }
})

/** Operations that require a second permission, which the verb checks. */
const SECOND_PERMISSIONS: Record<string, Permission> = { createWebhook: 'events:read' }

describe('the permission check of each route', () => {
  it.each(permittedOperations.map(one => [one.id, one] as const))(
    '%s requires its permission and no other',
    async (id, one) => {
      const permission = one.verb.permission!
      const { workspace, organization } = onlyWith.get(permission)!
      const inside = { 'X-Tenant-Id': tenant.tenant_id }
      const others = allWithout.get(permission)!
      expect(await readVerdict(one, { 'X-Api-Key': others.workspace })).toBe('permission_missing')
      expect(await readVerdict(one, { 'X-Api-Key': others.organization, ...inside })).toBe('permission_missing')
      const verdict = id in SECOND_PERMISSIONS ? 'permission_missing' : 'passes'
      if (workspace) expect(await readVerdict(one, { 'X-Api-Key': workspace })).toBe(verdict)
      expect(await readVerdict(one, { 'X-Api-Key': organization, ...inside })).toBe(verdict)
      const verdictWithoutWorkspace = isWorkspaceScoped(one.verb) ? 'workspace_required' : 'passes'
      expect(await readVerdict(one, { 'X-Api-Key': organization })).toBe(verdictWithoutWorkspace)
    },
  )

  it('lets each built-in role write as its permissions allow', async () => {
    const inside = { 'X-Tenant-Id': tenant.tenant_id }
    const unexpected: string[] = []
    for (const role_id of [ADMIN, EDITOR, VIEWER, ORGANIZATION_ADMIN, ORGANIZATION_USER]) {
      const { permissions } = (await tenant.get(`/orgs/current/roles/${role_id}`)).body
      const { key } = (await tenant.owner.post('/orgs/current/api-keys', { description: 'role', role_id })).body
      for (const one of shown(writes)) {
        const expected = permissions.includes(one.verb.permission!) ? 'passes' : 'permission_missing'
        const verdict = await readVerdict(one, { 'X-Api-Key': key, ...inside })
        if (verdict !== expected) unexpected.push(`${role_id} ${one.id}: ${verdict}`)
      }
    }
    expect(unexpected).toEqual([])
  }, 90_000)
})

describe('a session of a member', () => {
  // Routes that take no session ask none for its permissions.
  const routes = permittedOperations.filter(one => one.kind !== 'passThrough')
  const somePerPermission = shown(routes)
  const sendAs = async (one: KeyedOperation, token: string, headers: Record<string, string> = {}) => {
    const hasJson = one.method !== 'delete' && one.kind !== 'raw'
    const type: Record<string, string> = hasJson ? { 'Content-Type': 'application/json' } : {}
    return readVerdict(one, { ...cookieHeaders(token), ...type, ...headers })
  }

  // One role that may do nearly everything and one that may do nearly nothing show that each route checks.
  it.each([
    ['Organization Admin', ORGANIZATION_ADMIN, routes],
    ['Organization User', ORGANIZATION_USER, routes],
    ['Admin', ADMIN, somePerPermission],
    ['Editor', EDITOR, somePerPermission],
    ['Viewer', VIEWER, somePerPermission],
    ['Auditor', AUDITOR, somePerPermission],
  ])(
    'with the role %s may act as its permissions allow',
    async (_, role_id, operations) => {
      const role = (await tenant.get(`/orgs/current/roles/${role_id}`)).body
      const isOfOrganization = role.scope === 'organization'
      const inside = { 'X-Tenant-Id': tenant.tenant_id }
      const unexpected: string[] = []
      const { token } = await newSession(
        tenant,
        isOfOrganization ? { organizationRole: role_id } : { workspaceRole: role_id },
      )
      const triedWithout = new Set<string>()
      for (const one of operations) {
        const permission = one.verb.permission!
        const isGranted = permission === 'organization:read' || role.permissions.includes(permission)
        const verdict = await sendAs(one, token, inside)
        if (verdict !== (isGranted ? 'passes' : 'permission_missing')) unexpected.push(`${one.id}: ${verdict}`)
        // The answer without a workspace depends on no more than this.
        const scoped = `${permission} ${isWorkspaceScoped(one.verb)}`
        if (triedWithout.has(scoped)) continue
        triedWithout.add(scoped)
        const isGrantedWithout = permission === 'organization:read' || (isOfOrganization && isGranted)
        const refusal = isWorkspaceScoped(one.verb) || isGranted ? 'workspace_required' : 'permission_missing'
        const expected = isGrantedWithout && !isWorkspaceScoped(one.verb) ? 'passes' : refusal
        const without = await sendAs(one, token)
        if (without !== expected) unexpected.push(`${one.id} without a workspace: ${without}`)
      }
      expect(unexpected).toEqual([])
    },
    90_000,
  )
})

it('a workspace role cannot have an organization permission', async () => {
  for (const permission of organizationPermissions) {
    const role = { display_name: unusedId(), permissions: [permission] }
    expect((await tenant.owner.post('/orgs/current/roles', role)).status).toBe(422)
  }
})

/** The operations with which a workspace changes rows of its organization: the effect, then the reason. */
const ALLOWED_EFFECTS: Record<string, string> = {
  createProvider: 'adds oauth_providers: a workspace can create its own providers',
  recheckProvider: 'changes oauth_providers: they follow their servers, as in the daily recheck',
  addMembership: 'adds members: a member of a workspace is a member of the organization, with its least role',
}

/** Reads the catalog, so that a new table is among them. */
async function listOrganizationTables(): Promise<[string, string][]> {
  const catalog = sql`select t.table_name, count(*) filter (where c.column_name = 'tenant_id')
    from information_schema.tables t join information_schema.columns c using (table_schema, table_name)
    where t.table_schema = 'public' and t.table_type = 'BASE TABLE' group by t.table_name
    having bool_or(c.column_name = 'organization_id') and t.table_name <> 'journals'`
  const [tables] = (await runAsSystem(getApp().database, catalog)) as [[string, string][]]
  return tables
}

/** Every row of the organization that is of no workspace, by its table. */
async function readOrganizationRows(
  { organization_id }: Tenant,
  tables: [string, string][],
): Promise<Map<string, string>> {
  const each = tables.map(([table, hasTenant]) => {
    const shared = Number(hasTenant) > 0 ? sql`and tenant_id is null` : sql``
    // Every request updates `last_used_at`.
    return sql`select ${table}::text, (to_jsonb(t) - 'last_used_at')::text from ${sql.identifier(table)} t
      where organization_id = ${organization_id}::uuid ${shared}`
  })
  const all = sql`${sql.join(each, sql` union all `)}
    union all select 'organizations', to_jsonb(o)::text from organizations o where id = ${organization_id}::uuid`
  const [rows] = (await runAsSystem(getApp().database, all)) as [[string, string][]]
  return new Map(rows.map(([table, row]) => [row, table]))
}

describe('a key of one workspace with every workspace permission', () => {
  it('changes nothing of the organization but the listed tables', async () => {
    const target = await newTenant()
    const ids = { ...(await newPathParameters(target)), number: '1' }
    const role = { display_name: 'Everything', permissions: workspacePermissions }
    const sibling = await newSiblingWorkspace(target, (await target.owner.post('/orgs/current/roles', role)).body.id)
    const effectsOf: Record<string, string[]> = {}
    const tables = await listOrganizationTables()
    let before = await readOrganizationRows(target, tables)
    for (const one of writes) {
      await call(one, { 'X-Api-Key': sibling.key }, ids)
      const after = await readOrganizationRows(target, tables)
      const changed = [...before].filter(([row]) => !after.has(row)).map(([, table]) => `changes ${table}`)
      const added = [...after].filter(([row]) => !before.has(row)).map(([, table]) => `adds ${table}`)
      const effects = [...new Set(changed.length > 0 ? changed : added)]
      if (effects.length > 0) effectsOf[one.id] = effects
      before = after
    }
    const allowed = Object.entries(ALLOWED_EFFECTS).map(([id, effect]) => [id, [effect.split(':')[0]]])
    expect(effectsOf).toEqual(Object.fromEntries(allowed))
  }, 90_000)
})
