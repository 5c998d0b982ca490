// The permission of every route. Permissions are checked by name and do not imply each other, so two keys are enough
// for each operation: one with only its permission, and one with all others. enter_by_key() and enter_by_session()
// judge every other caller, by the same arguments.
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
import { type Entry, findUnexpected, insertKeys, insertRoles } from '../../support/entries.ts'
import { newPathParameters } from '../../support/path-parameters.ts'
import { newSiblingWorkspace } from '../../support/providers.ts'
import { cookieHeaders, newSession } from '../../support/sessions.ts'

const workspacePermissions = permissionNames.filter(name => !organizationPermissions.includes(name))
/** Operations that every caller may use have no permission. */
const permittedOperations = guardedOperations.filter(one => one.verb.permission !== null)
const writes = permittedOperations.filter(one => one.method !== 'get' && !one.isReadOnly)
const EXTREMES: [string, string][] = [
  ['Organization Admin', ORGANIZATION_ADMIN],
  ['Organization User', ORGANIZATION_USER],
]
const ROLES: [string, string][] = [
  ...EXTREMES,
  ['Admin', ADMIN],
  ['Editor', EDITOR],
  ['Viewer', VIEWER],
  ['Auditor', AUDITOR],
]

/** Parameters that are no ids. */
const FIXED = new Map([
  ['number', '1'],
  ['index', '1'],
  ['action', 'pause'],
])
const call = (operation: KeyedOperation, headers: Record<string, string>, ids: Record<string, string> = {}) => {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => ids[name] ?? FIXED.get(name) ?? unusedId())
  const example = getExampleRequest(operation)
  return send(operation.method.toUpperCase(), path + getExampleQuery(operation), {
    ...example,
    headers: { ...example.headers, ...headers },
  })
}

/** The refusals of enter_by_key(). Later errors do not matter here. */
const ENTRY_REFUSALS = ['permission_missing', 'workspace_required', 'workspace_forbidden']
const readVerdict = async (operation: KeyedOperation, headers: Record<string, string>) => {
  const { status, body } = await call(operation, headers)
  expect(status, operation.id).not.toBe(401)
  expect(status, operation.id).not.toBe(500)
  return ENTRY_REFUSALS.includes(body?.code) ? body.code : 'passes'
}

let tenant: Tenant
type Keys = { workspace: string; organization: string }
/** Keys with only this permission. A workspace role cannot have a permission of the organization. */
const onlyWith = new Map<Permission, Keys>()
/** Keys with every other permission that a key of their scope can have. */
const allWithout = new Map<Permission, Keys>()

beforeAll(async () => {
  tenant = await newTenant()
  const { tenant_id } = tenant
  const lists = permissionNames.flatMap(name => [
    { keys: onlyWith, name, permissions: [name] },
    { keys: allWithout, name, permissions: permissionNames.filter(one => one !== name) },
  ])
  const inWorkspaces = lists.map(({ permissions }) => permissions.filter(one => workspacePermissions.includes(one)))
  const roles = await insertRoles(tenant, inWorkspaces)
  const workspace = await insertKeys(
    tenant,
    roles.map(role_id => ({ tenant_id, role_id })),
  )
  const organization = await insertKeys(
    tenant,
    lists.map(({ permissions }) => ({ role_id: ORGANIZATION_ADMIN, permissions })),
  )
  for (const [i, { keys, name }] of lists.entries())
    keys.set(name, { workspace: workspace[i]!, organization: organization[i]! })
})

/** Operations that require a second permission, which the verb checks. */
const SECOND_PERMISSIONS: Record<string, Permission> = {
  createWebhook: 'events:read',
  createDrain: 'deployments:read',
  createChannel: 'deployments:read',
}

/** `npm run fuzz` tries every route where a short run tries one of each permission. */
const isDeep = inject('fuzz').requests >= 10_000
/** The routes whose caller names no workspace: all of a permission are refused, or let in, by the same function. */
const triedWithoutWorkspace = new Set(isDeep ? permittedOperations : onePerPermission(permittedOperations))

describe('the permission check of each route', () => {
  it.each(permittedOperations.map(one => [one.id, one] as const))(
    '%s requires its permission and no other',
    async (id, one) => {
      const permission = one.verb.permission!
      const { workspace, organization } = onlyWith.get(permission)!
      const inside = { 'X-Tenant-Id': tenant.tenant_id }
      const others = allWithout.get(permission)!
      expect(await readVerdict(one, { 'X-Api-Key': others.organization, ...inside })).toBe('permission_missing')
      const isOfWorkspaces = workspacePermissions.includes(permission)
      const only = isOfWorkspaces ? { 'X-Api-Key': workspace } : { 'X-Api-Key': organization, ...inside }
      expect(await readVerdict(one, only)).toBe(id in SECOND_PERMISSIONS ? 'permission_missing' : 'passes')
      if (!triedWithoutWorkspace.has(one)) return
      const verdictWithoutWorkspace = isWorkspaceScoped(one.verb) ? 'workspace_required' : 'passes'
      expect(await readVerdict(one, { 'X-Api-Key': organization })).toBe(verdictWithoutWorkspace)
    },
  )
})

/** Every permission, in a workspace and of the organization, with each workspace that a request can name. */
async function listRequests() {
  const foreign = (await newTenant()).tenant_id
  return permissionNames.flatMap(permission =>
    [true, false].flatMap(inWorkspace =>
      [undefined, tenant.tenant_id, foreign].map(workspace => ({
        permission,
        inWorkspace,
        workspace,
        isForeign: workspace === foreign,
      })),
    ),
  )
}

type Judged = Entry & { isForeign: boolean; granted: readonly string[]; isOfOrganization: boolean }
const expectKey = ({ isForeign, workspace, inWorkspace, permission, granted, isOfOrganization }: Judged) => {
  if (isForeign) return 'workspace_forbidden'
  if (isOfOrganization && inWorkspace && !workspace) return 'workspace_required'
  return granted.includes(permission) ? 'passes' : 'permission_missing'
}

describe('enter_by_key()', () => {
  it('lets keys with one permission, and with all others, in by its name alone', async () => {
    const entries = (await listRequests()).flatMap(request => {
      const others = permissionNames.filter(one => one !== request.permission)
      const lists = [[onlyWith, [request.permission]] as const, [allWithout, others] as const]
      return lists.flatMap(([keys, granted]) => {
        const { workspace, organization } = keys.get(request.permission)!
        const grantedInWorkspace = granted.filter(one => workspacePermissions.includes(one))
        return [
          { ...request, key: workspace, granted: grantedInWorkspace, isOfOrganization: false },
          { ...request, key: organization, granted, isOfOrganization: true },
        ]
      })
    })
    expect(await findUnexpected(entries, expectKey)).toEqual([])
  })

  it.each(ROLES)('lets a key of the organization with the role %s in as its permissions allow', async (_, role_id) => {
    const { permissions: granted } = (await tenant.get(`/orgs/current/roles/${role_id}`)).body
    const [key] = await insertKeys(tenant, [{ role_id }])
    const entries = (await listRequests()).map(one => ({ ...one, key: key!, granted, isOfOrganization: true }))
    expect(await findUnexpected(entries, expectKey)).toEqual([])
  })
})

describe('a session of a member', () => {
  const signIn = async (role_id: string) => {
    const { scope, permissions } = (await tenant.get(`/orgs/current/roles/${role_id}`)).body
    const isOfOrganization = scope === 'organization'
    const { token } = await newSession(
      tenant,
      isOfOrganization ? { organizationRole: role_id } : { workspaceRole: role_id },
    )
    // Organization User, the least role, may read the organization.
    return { token, isOfOrganization, granted: ['organization:read', ...permissions] as string[] }
  }
  const expectSession = ({ isForeign, workspace, inWorkspace, permission, granted, isOfOrganization }: Judged) => {
    if (isForeign) return 'workspace_forbidden'
    const isGranted = granted.includes(permission)
    if (workspace) return isGranted ? 'passes' : 'permission_missing'
    if (inWorkspace) return 'workspace_required'
    if (permission === 'organization:read' || (isOfOrganization && isGranted)) return 'passes'
    return isGranted ? 'workspace_required' : 'permission_missing'
  }

  it.each(ROLES)('with the role %s enters as its permissions allow', async (_, role_id) => {
    const { token, ...session } = await signIn(role_id)
    const requests = await listRequests()
    const entries = requests.map(one => ({ ...one, ...session, key: token, isSession: true }))
    expect(await findUnexpected(entries, expectSession)).toEqual([])
  })

  // Routes that take no session ask none for its permissions.
  const takingSessions = permittedOperations.filter(one => one.kind !== 'passThrough')
  // Keys have shown that each route asks for its own permission, and a session is judged by what the route asks for.
  const routes = isDeep ? takingSessions : onePerPermission(takingSessions)
  const sendAs = async (one: KeyedOperation, token: string, headers: Record<string, string> = {}) => {
    const hasJson = one.method !== 'delete' && one.kind !== 'raw'
    const type: Record<string, string> = hasJson ? { 'Content-Type': 'application/json' } : {}
    return readVerdict(one, { ...cookieHeaders(token), ...type, ...headers })
  }

  // One role that may do nearly everything and one that may do nearly nothing show that sessions are checked.
  it.each(isDeep ? ROLES : EXTREMES)(
    'with the role %s may act as its permissions allow',
    async (_, role_id) => {
      const { token, ...session } = await signIn(role_id)
      const unexpected: string[] = []
      const triedWithout = new Set<string>()
      for (const one of routes) {
        const permission = one.verb.permission!
        const inWorkspace = isWorkspaceScoped(one.verb)
        const request = { ...session, key: token, permission, inWorkspace, isForeign: false }
        const verdict = await sendAs(one, token, { 'X-Tenant-Id': tenant.tenant_id })
        if (verdict !== expectSession({ ...request, workspace: tenant.tenant_id }))
          unexpected.push(`${one.id}: ${verdict}`)
        // The answer without a workspace depends on no more than this.
        const scoped = `${permission} ${inWorkspace}`
        if (triedWithout.has(scoped)) continue
        triedWithout.add(scoped)
        const without = await sendAs(one, token)
        if (without !== expectSession(request)) unexpected.push(`${one.id} without a workspace: ${without}`)
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
