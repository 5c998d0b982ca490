// Members of an organization, and their roles in its workspaces.
import { and, eq, getTableColumns, type Placeholder, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { bumpVersion, db, inOrganization, inTenant, run, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime, withoutNulls } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { afterCursor, hasName, newestFirst, readPage } from '../../kernel/http/paging.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { ORGANIZATION_USER, VIEWER } from './built-in-roles.ts'
import * as schema from './schema.ts'
import { members, workspaceMembers } from './tables.ts'

type Ref = z.output<typeof schema.MemberRef>
type MembershipRef = z.output<typeof schema.MembershipRef>
type PersonPage = z.output<typeof schema.PersonPage>

/** Locked before the journal: the triggers that keep the last Admin lock the same rows, and another order deadlocks. */
const lockMemberships = (member: string) => sql`select lock_for_admin_checks(${member}::uuid)`
const LOCK_WORKSPACE = sql`select from workspaces where id = current_tenant() for no key update`

const grantableRole = (id: string | SQL, scope: 'workspace' | 'organization') =>
  sql`require_grantable_role(${id}::uuid, ${scope})`

// ---- members of the organization

const lastSeen = (member: SQL | typeof members.id) => sql<string | null>`member_last_seen(${member})`.as('last_seen_at')

const memberColumns = {
  ...getTableColumns(members),
  last_seen_at: lastSeen(members.id),
  is_verified: sql<boolean>`is_verified_member(${members.id})`.as('is_verified'),
}
type MemberRow = typeof members.$inferSelect & { last_seen_at: string | null; is_verified: boolean }

const memberToWire = (ctx: Ctx) => (row: MemberRow) => ({
  id: row.id,
  organization_id: row.organization_id,
  email: row.email,
  full_name: row.full_name,
  role_id: row.role_id,
  is_instance_admin: row.is_verified === true && ctx.config.instanceAdmins.includes(row.email),
  last_seen_at: toIsoTime(row.last_seen_at),
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

const MEMBER_RECORD = recordColumns(members, ['email', 'full_name', 'role_id'])

const memberPageStatement = prepareStatement((page: Placeholders<PersonPage>) =>
  db
    .select(memberColumns)
    .from(members)
    .where(and(inOrganization(members), hasName(members.email, { name: page.email }), afterCursor(members, page)))
    .orderBy(...newestFirst(members))
    .limit(page.limit)
    .offset(page.offset),
)

export const listMembers = verb('organization:read', (ctx, page: PersonPage) =>
  readPage(ctx, memberPageStatement, page, memberToWire(ctx)),
)

const memberStatement = prepareStatement(({ member_id }: Placeholders<Ref>) =>
  db
    .select(memberColumns)
    .from(members)
    .where(and(eq(members.id, member_id), inOrganization(members))),
)

export const readMember = verb('organization:read', async (ctx, { member_id }: Ref) =>
  memberToWire(ctx)(requireRow(await run(ctx, memberStatement({ member_id })), 'member_not_found')),
)

export const addMember = verb('organization:manage-members', async (ctx, input: z.output<typeof schema.NewMember>) => {
  const { email, full_name } = input
  const role_id = grantableRole(input.role_id ?? ORGANIZATION_USER, 'organization')
  const change = db
    .insert(members)
    .values({ organization_id: sql`current_organization()`, email, full_name, role_id })
    .returning(memberColumns)
  const rows = await commit(ctx, 'member.added', change, {}, { changes: createdMembers(MEMBER_RECORD) })
  return memberToWire(ctx)(requireRow(rows, 'organization_not_found'))
})

export const changeMember = verb(
  'organization:manage-members',
  async (ctx, { member_id, full_name, role_id }: Ref & z.output<typeof schema.MemberPatch>) => {
    const changes = withoutNulls({ full_name, role_id })
    const change = db
      .update(members)
      .set({ ...changes, ...(role_id && { role_id: grantableRole(role_id, 'organization') }), ...bumpVersion(members) })
      .where(and(eq(members.id, member_id), inOrganization(members), versionMatches(ctx, members)))
      .returning(memberColumns)
    const parts = { lock: lockMemberships(member_id), changes: changedMembers(members, MEMBER_RECORD) }
    return memberToWire(ctx)(requireRow(await commit(ctx, 'member.updated', change, {}, parts), 'member_not_found'))
  },
)

export const removeMember = verb('organization:manage-members', async (ctx, { member_id }: Ref) => {
  const change = db
    .delete(members)
    .where(and(eq(members.id, member_id), inOrganization(members), versionMatches(ctx, members)))
    .returning()
  const lock = [sql`select lock_credentials(${member_id}::uuid)`, lockMemberships(member_id)]
  const parts = { lock, changes: deletedMembers(MEMBER_RECORD) }
  requireRow(await commit(ctx, 'member.removed', change, {}, parts), 'member_not_found')
})

// ---- members of a workspace

const membershipColumns = (person: SQL) => ({
  ...getTableColumns(workspaceMembers),
  email: sql<string>`(${person}).email`.as('email'),
  full_name: sql<string | null>`(${person}).full_name`.as('full_name'),
  last_seen_at: lastSeen(sql`${workspaceMembers.member_id}`),
})
const storedColumns = membershipColumns(sql`select m from members m where m.id = ${workspaceMembers.member_id}`)
const writtenColumns = membershipColumns(sql`read_member(${workspaceMembers.member_id})`)
type MembershipRow = typeof workspaceMembers.$inferSelect & {
  email: string
  full_name: string | null
  last_seen_at: string | null
}

const membershipToWire = (row: MembershipRow) => ({
  id: row.id,
  organization_id: row.organization_id,
  tenant_id: row.tenant_id,
  member_id: row.member_id,
  email: row.email,
  full_name: row.full_name,
  role_id: row.role_id,
  last_seen_at: toIsoTime(row.last_seen_at),
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

const MEMBERSHIP_RECORD = {
  ...recordColumns(workspaceMembers, ['member_id', 'role_id']),
  email: (row: SQL) => sql`(read_member(${row}.member_id)).email`,
}

const hasEmail = (email: Placeholder | undefined): SQL | undefined =>
  email === undefined
    ? undefined
    : sql`exists (select from members m where m.id = ${workspaceMembers.member_id} and m.email = ${email})`
const membershipById = (id: string | Placeholder) => and(eq(workspaceMembers.id, id), inTenant(workspaceMembers))

const membershipStatement = prepareStatement(({ membership_id }: Placeholders<MembershipRef>) =>
  db.select(storedColumns).from(workspaceMembers).where(membershipById(membership_id)),
)

export const readMembership = verb('workspaces:read-members', async (ctx, { membership_id }: MembershipRef) =>
  membershipToWire(requireRow(await run(ctx, membershipStatement({ membership_id })), 'member_not_found')),
)

const membershipPageStatement = prepareStatement((page: Placeholders<PersonPage>) =>
  db
    .select(storedColumns)
    .from(workspaceMembers)
    .where(and(inTenant(workspaceMembers), hasEmail(page.email), afterCursor(workspaceMembers, page)))
    .orderBy(...newestFirst(workspaceMembers))
    .limit(page.limit)
    .offset(page.offset),
)

export const listMemberships = verb('workspaces:read-members', (ctx, page: PersonPage) =>
  readPage(ctx, membershipPageStatement, page, membershipToWire),
)

const firstOf = <Name extends string>(input: { [N in Name]?: string | null | undefined }, names: readonly Name[]) =>
  names.map(name => input[name]).find(value => value != null)

const hasRole = (body: unknown): boolean =>
  typeof body === 'object' && body !== null && schema.ROLE_NAMES.some(name => (body as Record<string, unknown>)[name])

/** With RBAC, a missing role is refused whatever else is wrong with the request. */
export const requireNamedRole = verb('workspaces:manage-members', async (ctx, { text }: { text: string }) => {
  const body = parseJson(text)
  if (body !== undefined && !hasRole(body)) await run(ctx, sql`select default_member_role()`)
})

function parseJson(text: string): unknown {
  try {
    return text === '' ? {} : JSON.parse(text)
  } catch {
    return undefined
  }
}

export const addMembership = verb(
  'workspaces:manage-members',
  async (ctx, input: z.output<typeof schema.NewMembership>) => {
    const { email, full_name, read_only } = input
    const member_id = firstOf(input, schema.MEMBER_NAMES)
    const role_id = firstOf(input, schema.ROLE_NAMES)
    const defaultRole = read_only
      ? sql`(select case when default_member_role() is not null then ${VIEWER}::uuid end)`
      : sql`default_member_role()`
    const values = {
      organization_id: sql`current_organization()`,
      tenant_id: sql`current_tenant()`,
      member_id: member_id ? sql`require_member(${member_id})` : sql`join_organization(${email}, ${full_name ?? null})`,
      role_id: grantableRole(role_id ?? defaultRole, 'workspace'),
    }
    const change = db.insert(workspaceMembers).values(values).returning(writtenColumns)
    const rows = await commit(ctx, 'workspace_member.added', change, {}, { changes: createdMembers(MEMBERSHIP_RECORD) })
    return membershipToWire(requireRow(rows, 'workspace_not_found'))
  },
)

export const changeMembership = verb(
  'workspaces:manage-members',
  async (ctx, { membership_id, role_id }: MembershipRef & z.output<typeof schema.MembershipPatch>) => {
    const change = db
      .update(workspaceMembers)
      .set({ role_id: grantableRole(role_id, 'workspace'), ...bumpVersion(workspaceMembers) })
      .where(and(membershipById(membership_id), versionMatches(ctx, workspaceMembers)))
      .returning(writtenColumns)
    const parts = { lock: LOCK_WORKSPACE, changes: changedMembers(workspaceMembers, MEMBERSHIP_RECORD) }
    return membershipToWire(
      requireRow(await commit(ctx, 'workspace_member.updated', change, {}, parts), 'member_not_found'),
    )
  },
)

export const removeMembership = verb('workspaces:manage-members', async (ctx, { membership_id }: MembershipRef) => {
  const change = db
    .delete(workspaceMembers)
    .where(and(membershipById(membership_id), versionMatches(ctx, workspaceMembers)))
    .returning()
  const parts = { lock: LOCK_WORKSPACE, changes: deletedMembers(MEMBERSHIP_RECORD) }
  requireRow(await commit(ctx, 'workspace_member.removed', change, {}, parts), 'member_not_found')
})
