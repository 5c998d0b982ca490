// Creates, reads, changes and deletes tracing projects. `project-list.ts` lists them.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, refuseUnless, run, textArray, uuidArray, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { recordTier, requireAllowedTier, requireTierChange } from '../retention/tiers.ts'
import { lockTiers } from '../store/postgres/locks.ts'
import { projects } from '../store/tables.ts'
import { NO_STATS, type ProjectStats, selectStats, statsToWire } from './project-stats.ts'
import type * as schema from './projects.schema.ts'

/** The row that `to_json()` writes. */
export type ProjectRow = typeof projects.$inferSelect
type ProjectParams = z.output<typeof schema.ProjectRef>

type ProjectWire = schema.Project & { [etagVersion]: number }
export const projectToWire = (row: ProjectRow, stats: ProjectStats = NO_STATS): ProjectWire => ({
  id: row.id,
  tenant_id: row.tenant_id,
  name: row.name,
  description: row.description,
  start_time: toIsoTime(row.start_time),
  end_time: toIsoTime(row.end_time),
  extra: row.extra as Record<string, unknown> | null,
  default_dataset_id: row.default_dataset_id,
  reference_dataset_id: row.reference_dataset_id,
  deployment_id: row.deployment_id,
  tag_value_ids: row.tag_value_ids,
  trace_tier: row.trace_tier,
  longlived_ttl_days: row.longlived_ttl_days,
  num_examples: row.num_examples,
  num_repetitions: row.num_repetitions,
  evaluator_keys: row.evaluator_keys,
  created_at: toIsoTime(row.created_at),
  ...statsToWire(stats),
  [etagVersion]: row.version,
})

const RECORDED = recordColumns(projects, [
  'name',
  'description',
  'start_time',
  'end_time',
  'extra',
  'default_dataset_id',
  'reference_dataset_id',
  'tag_value_ids',
  'trace_tier',
  'longlived_ttl_days',
] as const)

const isProject = (id: string): SQL => sql`p.id = ${id}::uuid and p.tenant_id = current_tenant()`
const isVersion = (ctx: Ctx): SQL => versionMatches(ctx, { version: sql`p.version` }) ?? sql`true`
const lockProject = (id: string): SQL => sql`select from projects p where ${isProject(id)} for update`

export const readProject = verb(
  'projects:read',
  async (ctx, { session_id, ...query }: ProjectParams & z.output<typeof schema.ProjectReadQuery>) => {
    const { stats_start_time: since } = query
    const minutes = query.include_stats
      ? await ctx.traces.countRuns(ctx, { projects: [session_id], since })
      : sql`session_minutes`
    const rows = await run(
      ctx,
      sql<Row>`
      select to_json(p), (${selectStats(sql`p`, query, { minutes, since })})
      from projects p
      where ${isProject(session_id)}`,
    )
    const [project, stats] = requireRow(rows, 'project_not_found') as [string, string]
    return projectToWire(JSON.parse(project), JSON.parse(stats))
  },
)

// ---- create

const json = (value: object | null | undefined): SQL => sql`${value ? JSON.stringify(value) : null}::json`
const uuid = (id: string | null | undefined): SQL => sql`${id ?? null}::uuid`
const time = (text: string | null | undefined): SQL => sql`${text ?? null}::timestamptz`
const integer = (number: number | null | undefined): SQL => sql`${number ?? null}::integer`
const text = (value: string | null | undefined): SQL => sql`${value ?? null}::text`

const requireDatasets = (ids: (string | null | undefined)[]): SQL => {
  const given = uuidArray(ids.filter(id => id != null))
  const unknown = sql`(
    select string_agg(g.id::text, ', ')
    from unnest(${given}) g(id)
    where not exists (select from datasets d where d.id = g.id and d.tenant_id = current_tenant()))`
  return sql`case when ${unknown} is null then true else refuse('dataset_not_found', ${unknown}) end`
}

/** Keeps the tags from being deleted meanwhile, as `hosting/tags/tags.ts` does. */
const lockTags = (ids: readonly string[]): SQL => sql`
  select from tag_keys
  where tenant_id = current_tenant()
    and id in (
      select v.tag_key_id from tag_values v where v.id = any(${uuidArray(ids)}) and v.tenant_id = current_tenant()
    )
  order by id
  for key share`

/** The members that a patch sets in the row `p`; others stay. */
const changeColumns = (input: schema.ProjectPatch): SQL => sql`
      name = coalesce(${text(input.name)}, p.name),
      description = coalesce(${text(input.description)}, p.description),
      end_time = coalesce(${time(input.end_time)}, p.end_time),
      extra = coalesce(${json(input.extra)}, p.extra),
      default_dataset_id = coalesce(${uuid(input.default_dataset_id)}, p.default_dataset_id),
      longlived_ttl_days = ${changedDays(input)},
      earlier_tiers = ${recordTier(changedTier(input))},
      trace_tier = ${changedTier(input)},
      version = p.version + 1,
      updated_at = clock()`
const changedTier = ({ trace_tier }: schema.ProjectPatch): SQL => sql`coalesce(${text(trace_tier)}, p.trace_tier)`
const changedDays = ({ longlived_ttl_days: days }: schema.ProjectPatch): SQL =>
  days === undefined ? sql`p.longlived_ttl_days` : integer(days)
const requireAllowedChange = (input: schema.ProjectPatch): SQL =>
  requireTierChange(
    sql`p.tag_value_ids`,
    { tier: sql`p.trace_tier`, days: sql`p.longlived_ttl_days` },
    { tier: changedTier(input), days: changedDays(input) },
  )

/** The changes of an upsert. A client sends an empty `extra` where it has none. */
const toPatch = ({ longlived_ttl_days, extra, ...input }: schema.NewProject): schema.ProjectPatch => ({
  ...input,
  name: null,
  ...(extra && Object.keys(extra).length > 0 && { extra }),
  ...(longlived_ttl_days != null && { longlived_ttl_days }),
})
const hasChanges = ({ description, end_time, extra, ...more }: schema.ProjectPatch): boolean =>
  [description, end_time, extra, more.default_dataset_id, more.trace_tier, more.longlived_ttl_days].some(
    value => value != null,
  )

const upsertClause = (input: schema.NewProject): SQL => {
  const patch = toPatch(input)
  const isPermitted = hasChanges(patch)
    ? sql`require_permission_for('projects:update', p.tag_value_ids) and ${requireAllowedChange(patch)}`
    : sql`true`
  return sql`
    on conflict (tenant_id, name) do update set ${changeColumns(patch)}
    where ${isPermitted}`
}

export const createProject = verb(
  'projects:create',
  async (ctx, { upsert, ...input }: schema.NewProject & z.output<typeof schema.Upsert>) => {
    const id = input.id ?? crypto.randomUUID()
    const name = input.name ?? id
    const tags = input.tag_value_ids ?? []
    const tier = sql`coalesce(${text(input.trace_tier)}, default_trace_tier())`
    const days = integer(input.longlived_ttl_days)
    const change = sql<ProjectRow & { is_new: boolean }>`
    insert into projects as p (
      id, organization_id, tenant_id, name, description, start_time, end_time, extra, default_dataset_id,
      reference_dataset_id, tag_value_ids, trace_tier, longlived_ttl_days, num_examples, num_repetitions, evaluator_keys
    )
    select ${id}::uuid, current_organization(), current_tenant(), ${name}, ${text(input.description)},
      coalesce(${time(input.start_time)}, clock()), ${time(input.end_time)}, ${json(input.extra)},
      ${uuid(input.default_dataset_id)}, ${uuid(input.reference_dataset_id)},
      require_tag_rights('{}', ${uuidArray(tags)}), ${tier}, ${days},
      ${integer(input.num_examples)}, ${integer(input.num_repetitions)},
      ${input.evaluator_keys ? textArray(input.evaluator_keys) : sql`null::text[]`}
    where ${requireDatasets([input.default_dataset_id, input.reference_dataset_id])}
      and ${requireAllowedTier(uuidArray(tags), { tier, days })}
    ${upsert ? upsertClause(input) : sql``}
    returning *, xmax = 0 as is_new`
    const event = sql`case when changed.is_new then 'project.created' else 'project.updated' end`
    const lock = [lockTiers(), lockTags(tags), sql`select from projects p where ${isNamed(name)} for update`]
    const rows = await commit(ctx, event, change, {}, { lock, changes: changedMembers(projects, RECORDED) })
    return projectToWire(requireRow(rows, 'workspace_not_found'))
  },
)

const isNamed = (name: string): SQL => sql`p.tenant_id = current_tenant() and p.name = ${name}`

// ---- change and delete

export const changeProject = verb(
  'projects:update',
  async (ctx, { session_id, ...patch }: ProjectParams & schema.ProjectPatch) => {
    const keepsName = sql`p.name = coalesce(${text(patch.name)}, p.name)`
    const change = sql<ProjectRow>`
    update projects p
    set ${changeColumns(patch)}
    where ${isProject(session_id)}
      and ${isVersion(ctx)}
      and ${requireDatasets([patch.default_dataset_id])}
      and ${refuseUnless('project_of_deployment', sql`p.deployment_id is null or ${keepsName}`)}
      and ${requireAllowedChange(patch)}
    returning *`
    const parts = { lock: [lockTiers(), lockProject(session_id)], changes: changedMembers(projects, RECORDED) }
    const rows = await commit(ctx, 'project.updated', change, {}, parts)
    return projectToWire(requireRow(rows, 'project_not_found'))
  },
)

/** The runs of a deleted project are no longer found, and the schedule deletes them. */
async function deleteRows(ctx: Ctx, ids: string[]): Promise<void> {
  const given = sql`p.id = any(${uuidArray(ids)}) and p.tenant_id = current_tenant()`
  const change = sql<ProjectRow>`
    delete from projects p
    where ${given}
      and ${isVersion(ctx)}
      and ${refuseUnless('project_of_deployment', sql`p.deployment_id is null`)}
      and ${refuseUnless('project_not_found', sql`(select count(*) from projects p where ${given}) = ${ids.length}`)}
    returning *`
  const lock = sql`select from projects p where ${given} order by p.id for update`
  const rows = await commit(ctx, 'project.deleted', change, {}, { lock, changes: deletedMembers(RECORDED) })
  requireRow(rows, 'project_not_found')
}

export const deleteProject = verb('projects:delete', (ctx, { session_id }: ProjectParams) =>
  deleteRows(ctx, [session_id]),
)

/** All of them or, if one does not exist, none. */
export const deleteProjects = verb(
  'projects:delete',
  (ctx, { session_ids }: z.output<typeof schema.ProjectIds>) => deleteRows(ctx, [...new Set(session_ids)]),
  { byPolicy: true },
)
