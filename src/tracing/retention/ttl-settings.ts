// Settings of a workspace, or of its organization: how long new projects keep their traces.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { LONGLIVED_DAYS } from '../projects/projects.schema.ts'
import { ttlSettings } from '../store/tables.ts'
import { recordTier, requireTierChange } from './tiers.ts'
import type * as schema from './ttl-settings.schema.ts'

type SettingsRow = typeof ttlSettings.$inferSelect
type Effective = SettingsRow & { is_set: boolean }

const RECORDED = recordColumns(ttlSettings, ['default_trace_tier', 'longlived_ttl_days'])

const toWire = (row: Effective, applied = false): schema.TtlSettings => ({
  id: row.id,
  organization_id: row.organization_id,
  tenant_id: row.tenant_id,
  default_trace_tier: row.default_trace_tier ?? 'shortlived',
  longlived_ttl_days: row.longlived_ttl_days ?? LONGLIVED_DAYS,
  apply_to_all_projects: applied,
  configured_by: row.is_set ? 'user' : 'system',
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
})
const readRows = async (ctx: Ctx, query: SQL<Row>) =>
  (await run(ctx, query)).map(([json]) => toWire(JSON.parse(json as string)))

// ---- settings of a workspace

export const listTtlSettings = verb('projects:read', ctx =>
  readRows(
    ctx,
    sql<Row>`
      select json_build_object(
          'id', coalesce(t.id, w.id), 'organization_id', w.organization_id, 'tenant_id', w.id,
          'default_trace_tier', default_trace_tier(), 'longlived_ttl_days', longlived_days(null),
          'created_at', coalesce(t.created_at, w.created_at), 'updated_at', coalesce(t.updated_at, w.created_at),
          'is_set', t.id is not null)
      from workspaces w
      left join ttl_settings t on t.tenant_id = w.id
      where w.id = current_tenant()`,
  ),
)

const DAYS = sql`longlived_days(null)`
const unchanged = { tier: sql`default_trace_tier()`, days: sql`null::integer` }
const NO_TAGS = sql`'{}'::uuid[]`

/** Tags of the project decide on its change, and none on the default. */
const applyToProjects = (tier: string): SQL => sql`applied as (
    update projects p
    set earlier_tiers = ${recordTier(sql`${tier}`)}, trace_tier = ${tier}, updated_at = clock()
    where p.tenant_id = current_tenant()
      and p.trace_tier <> ${tier}
      and ${requireTierChange(
        sql`p.tag_value_ids`,
        { tier: sql`p.trace_tier`, days: sql`p.longlived_ttl_days` },
        { tier: sql`${tier}`, days: sql`p.longlived_ttl_days` },
      )}
    returning p.id)`
const LOCK_PROJECTS = sql`select from projects p where p.tenant_id = current_tenant() order by p.id for update`
const LOCK_WORKSPACE = sql`select from workspaces where id = current_tenant() for no key update`

export const setTtlSettings = verb(
  'projects:update',
  async (ctx, { tenant_id, default_trace_tier: tier, apply_to_all_projects: all }: schema.NewTtlSettings) => {
    const change = sql<Effective>`
      insert into ttl_settings (organization_id, tenant_id, default_trace_tier)
      select current_organization(), w.id, ${tier}
      from workspaces w
      where w.id = current_tenant()
        and case
          when w.id = coalesce(${tenant_id ?? null}::uuid, w.id) then true
          else refuse('workspace_forbidden')
        end
        and ${requireTierChange(NO_TAGS, unchanged, { ...unchanged, tier: sql`${tier}` })}
      on conflict on constraint ttl_settings_one do update set
        default_trace_tier = excluded.default_trace_tier, updated_at = clock()
      returning *, true as is_set`
    const parts = {
      changes: changedMembers(ttlSettings, RECORDED),
      lock: all ? [LOCK_WORKSPACE, LOCK_PROJECTS] : LOCK_WORKSPACE,
      ...(all && { ctesAfter: [applyToProjects(tier)] }),
    }
    const data = all ? sql`json_build_object('projects', (select count(*) from applied))` : {}
    const rows = await commit(ctx, 'ttl_settings.updated', change, data, parts)
    return toWire(requireRow(rows, 'workspace_not_found'), all)
  },
)

type WorkspaceTtl = z.output<typeof schema.WorkspaceTtl>

export const readWorkspaceTtl = verb('projects:read', async (ctx): Promise<WorkspaceTtl> => {
  const query = sql<Row>`
    select json_build_object(
      'tenant_id', current_tenant(), 'longlived_ttl_days', ${DAYS},
      'is_custom', exists (
        select from ttl_settings t where t.tenant_id = current_tenant() and t.longlived_ttl_days is not null
      ))`
  return JSON.parse(requireRow(await run(ctx, query), 'workspace_not_found')[0] as string)
})

export const setWorkspaceTtl = verb(
  'projects:update',
  async (ctx, { longlived_ttl_days: days }: z.output<typeof schema.NewWorkspaceTtl>): Promise<WorkspaceTtl> => {
    const change = sql<SettingsRow>`
      insert into ttl_settings (organization_id, tenant_id, longlived_ttl_days)
      select current_organization(), w.id, ${days}
      from workspaces w
      where w.id = current_tenant()
        and ${requireTierChange(NO_TAGS, unchanged, { ...unchanged, days: sql`${days}::integer` })}
      on conflict on constraint ttl_settings_one do update set
        longlived_ttl_days = excluded.longlived_ttl_days, updated_at = clock()
      returning *`
    const parts = { changes: changedMembers(ttlSettings, RECORDED), lock: LOCK_WORKSPACE }
    const row = requireRow(await commit(ctx, 'ttl_settings.updated', change, {}, parts), 'workspace_not_found')
    return { tenant_id: row.tenant_id!, longlived_ttl_days: days, is_custom: true }
  },
)

// ---- settings of the organization

export const listOrganizationTtlSettings = verb('organization:read', ctx =>
  readRows(
    ctx,
    sql<Row>`
      select json_build_object(
          'id', coalesce(t.id, o.id), 'organization_id', o.id, 'tenant_id', t.tenant_id,
          'default_trace_tier', t.default_trace_tier, 'longlived_ttl_days', t.longlived_ttl_days,
          'created_at', coalesce(t.created_at, o.created_at), 'updated_at', coalesce(t.updated_at, o.created_at),
          'is_set', t.id is not null)
      from (
        select id, organization_id, tenant_id, default_trace_tier, longlived_ttl_days, created_at, updated_at
        from ttl_settings
        where organization_id = current_organization()
          and (current_tenant() is null or coalesce(tenant_id, current_tenant()) = current_tenant())
        union all
        select null, current_organization(), null, null, null, null, null
        where not exists (
          select from ttl_settings where organization_id = current_organization() and tenant_id is null
        )
      ) t
      join organizations o on o.id = current_organization()
      order by t.tenant_id nulls first`,
  ),
)

export const setOrganizationTtlSettings = verb(
  'organization:update',
  async (ctx, { tenant_id, default_trace_tier: tier }: schema.NewOrganizationTtlSettings) => {
    const workspace = sql`${tenant_id ?? null}::uuid`
    const change = sql<Effective>`
      insert into ttl_settings (organization_id, tenant_id, default_trace_tier)
      select o.id, ${workspace}, ${tier}
      from organizations o
      where o.id = current_organization()
        and case
          when ${workspace} is null or exists (
            select from workspaces w where w.id = ${workspace} and w.organization_id = o.id
          ) then true
          else refuse('workspace_not_found')
        end
        and ${requireTierChange(NO_TAGS, unchanged, { ...unchanged, tier: sql`${tier}` })}
      on conflict on constraint ttl_settings_one do update set
        default_trace_tier = excluded.default_trace_tier, updated_at = clock()
      returning *, true as is_set`
    const lock = sql`select from organizations where id = current_organization() for no key update`
    const parts = { changes: changedMembers(ttlSettings, RECORDED), lock }
    const rows = await commit(ctx, 'ttl_settings.updated', change, {}, parts)
    return toWire(requireRow(rows, 'organization_not_found'))
  },
)
