// Access policies: created, attached to roles, tested, deleted. The database applies them in `limit_access()`.
import { eq, getTableColumns, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { readingOf, TAGGED_TABLES } from '../../kernel/access-scopes.ts'
import { db, inOrganization, type Row, run, uuidArray } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import {
  changesBetween,
  createdMembers,
  deletedMembers,
  type RecordedMembers,
} from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { newestFirst } from '../../kernel/http/paging.ts'
import type * as schema from './policies.schema.ts'
import { accessPolicies } from './policies.tables.ts'
import type { RoleRef } from './schema.ts'

type PolicyParams = z.output<typeof schema.AccessPolicyRef>
type RoleParams = z.output<typeof RoleRef>

const columns = {
  ...getTableColumns(accessPolicies),
  role_ids: sql<string[]>`to_json(array(
      select r.role_id
      from role_access_policies r
      where r.access_policy_id = ${accessPolicies.id} and r.organization_id = current_organization()
      order by r.created_at, r.role_id
    ))`
    .mapWith((text: string) => JSON.parse(text) as string[])
    .as('role_ids'),
}
type PolicyRow = typeof accessPolicies.$inferSelect & { role_ids: string[] }

const toWire = (row: PolicyRow): schema.AccessPolicy => ({
  id: row.id,
  name: row.name,
  description: row.description,
  effect: row.effect,
  condition_groups: row.condition_groups as schema.AccessPolicy['condition_groups'],
  role_ids: row.role_ids,
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
})

const RECORDED: RecordedMembers = Object.fromEntries(
  ['name', 'description', 'effect', 'condition_groups'].map(name => [
    name,
    (row: SQL) => sql`${row}.${sql.identifier(name)}`,
  ]),
)

const requireOn = ({ config }: Ctx): void => {
  if (!config.abac) throw fail('abac_off')
}

const listStatement = prepareStatement(() =>
  db
    .select(columns)
    .from(accessPolicies)
    .where(inOrganization(accessPolicies))
    .orderBy(...newestFirst(accessPolicies)),
)

export const listAccessPolicies = verb('organization:manage', async ctx => {
  requireOn(ctx)
  return { access_policies: (await run(ctx, listStatement({}))).map(toWire) }
})

const policyStatement = prepareStatement(({ access_policy_id }: Placeholders<PolicyParams>) =>
  db
    .select(columns)
    .from(accessPolicies)
    .where(sql`${eq(accessPolicies.id, access_policy_id)} and ${inOrganization(accessPolicies)}`),
)

export const readAccessPolicy = verb('organization:manage', async (ctx, { access_policy_id }: PolicyParams) => {
  requireOn(ctx)
  return toWire(requireRow(await run(ctx, policyStatement({ access_policy_id })), 'access_policy_not_found'))
})

/** Refuses ids that `known` does not select. */
const hasOnlyKnown = (code: string, ids: readonly string[], known: SQL): SQL => {
  const unknown = sql`(
    select string_agg(given.id::text, ', ')
    from unnest(${uuidArray(ids)}) given(id)
    where given.id not in (${known}))`
  return sql`case when ${unknown} is null then true else refuse(${code}, ${unknown}) end`
}
const VISIBLE_ROLES = sql`
  select r.id from roles r where r.organization_id is null or r.organization_id = current_organization()`
const OWN_POLICIES = sql`select p.id from access_policies p where p.organization_id = current_organization()`

export const createAccessPolicy = verb('organization:manage', async (ctx, input: schema.NewAccessPolicy) => {
  requireOn(ctx)
  const { name, description = null, effect, condition_groups } = input
  const role_ids = [...new Set(input.role_ids ?? [])]
  const change = sql<{ id: string }>`
    insert into access_policies (organization_id, name, description, effect, condition_groups)
    select current_organization(), ${name}, ${description}, ${effect}, ${JSON.stringify(condition_groups)}::jsonb
    where ${hasOnlyKnown('role_not_found', role_ids, VISIBLE_ROLES)}
    returning *`
  const attached = sql`attached as (
    insert into role_access_policies (organization_id, access_policy_id, role_id)
    select c.organization_id, c.id, role_id
    from changed c
    cross join unnest(${uuidArray(role_ids)}) role_id)`
  const parts = { ctesAfter: [attached], changes: createdMembers(RECORDED) }
  const rows = await commit(ctx, 'access_policy.created', change, { role_ids }, parts)
  return { id: requireRow(rows, 'organization_not_found').id }
})

export const deleteAccessPolicy = verb('organization:manage', async (ctx, { access_policy_id }: PolicyParams) => {
  requireOn(ctx)
  const change = db
    .delete(accessPolicies)
    .where(sql`${eq(accessPolicies.id, access_policy_id)} and ${inOrganization(accessPolicies)}`)
    .returning()
  const parts = { changes: deletedMembers(RECORDED) }
  requireRow(await commit(ctx, 'access_policy.deleted', change, {}, parts), 'access_policy_not_found')
})

const attachedTo = (role: SQL): SQL => sql`array(
  select a.access_policy_id
  from role_access_policies a
  where a.role_id = ${role} and a.organization_id = current_organization()
  order by a.access_policy_id)`

/** Selects the role with the policies attached before, and refuses policies that the organization does not have. */
const selectRole = (role_id: string, policies: readonly string[]): SQL => sql`
  select r.id, to_jsonb(${attachedTo(sql`r.id`)}) as before
  from roles r
  where r.id = ${role_id}::uuid
    and r.id in (${VISIBLE_ROLES})
    and ${hasOnlyKnown('access_policy_not_found', policies, OWN_POLICIES)}`
const LOCK_ORGANIZATION = sql`select from organizations where id = current_organization() for no key update`

export const attachAccessPolicies = verb(
  'organization:manage',
  async (ctx, { role_id, access_policy_ids }: RoleParams & z.output<typeof schema.Attachment>) => {
    requireOn(ctx)
    const added = uuidArray([...new Set(access_policy_ids)])
    const attached = sql`attached as (
      insert into role_access_policies (organization_id, access_policy_id, role_id)
      select current_organization(), access_policy_id, c.id
      from changed c
      cross join unnest(${added}) access_policy_id
      on conflict do nothing)`
    const after = sql`(
      select jsonb_agg(distinct id order by id)
      from (select jsonb_array_elements_text(changed.before)::uuid union select unnest(${added})) u(id))`
    const changes = changesBetween({ access_policy_ids: sql`changed.before` }, { access_policy_ids: after })
    const parts = { lock: LOCK_ORGANIZATION, ctesAfter: [attached], changes }
    const change = selectRole(role_id, access_policy_ids) as SQL<{ id: string }>
    requireRow(await commit(ctx, 'role.policies_attached', change, { access_policy_ids }, parts), 'role_not_found')
  },
)

export const detachAccessPolicy = verb(
  'organization:manage',
  async (ctx, { role_id, access_policy_id }: z.output<typeof schema.AttachmentRef>) => {
    requireOn(ctx)
    const change = sql<{ id: string }>`
      delete from role_access_policies a
      where a.role_id = ${role_id}::uuid
        and a.access_policy_id = ${access_policy_id}::uuid
        and a.organization_id = current_organization()
      returning a.role_id as id`
    const changes = changesBetween(
      { access_policy_ids: sql`to_jsonb(${attachedTo(sql`changed.id`)})` },
      { access_policy_ids: sql`to_jsonb(array_remove(${attachedTo(sql`changed.id`)}, ${access_policy_id}::uuid))` },
    )
    const parts = { lock: LOCK_ORGANIZATION, changes }
    const rows = await commit(ctx, 'role.policy_detached', change, { access_policy_id }, parts)
    requireRow(rows, 'access_policy_not_found')
  },
)

/** Evaluates the policies for a request with the role. Nothing is journaled. */
export const testAccess = verb(
  'organization:manage',
  async (ctx, { role_id, permission, resource_type, resource_id }: schema.AccessQuestion) => {
    requireOn(ctx)
    const query = sql<Row>`
      select test_access(
        ${role_id}::uuid, ${permission}, ${readingOf(permission, resource_type)}::text,
        ${TAGGED_TABLES[resource_type]}, ${resource_id}::uuid)::text`
    const [text] = requireRow(await run(ctx, query), 'organization_not_found')
    return JSON.parse(text as string) as schema.AccessAnswer
  },
)
