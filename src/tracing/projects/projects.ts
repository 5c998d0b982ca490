// Creates, reads, changes and deletes tracing projects. `project-list.ts` lists them.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, refuseUnless, run, textArray, uuidArray, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { recordTier, requireAllowedTier, requireTierChange } from '../retention/tiers.ts'
import { lockTiers } from '../store/postgres/locks.ts'
import { projects } from '../store/tables.ts'
import { NO_STATS, type ProjectStats, selectStats, statsToWire } from './project-stats.ts'
import type * as schema from './projects.schema.ts'

/** The row that `to_json()` writes. */
export type ProjectRow = typeof projects.$inferSelect
type ProjectParams = z.output<typeof schema.ProjectRef>

export type ProjectWire = schema.Project & { [etagVersion]: number }
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

type ReadQuery = z.output<typeof schema.ProjectReadQuery>

export async function findProject(ctx: Ctx, { session_id, ...query }: ProjectParams & ReadQuery): Promise<ProjectWire> {
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
}

export const readProject = verb('projects:read', findProject)

/** The project of an experiment has its id. */
export const resolveProject = verb(
  'projects:read',
  async (ctx, { kind, id }: z.output<typeof schema.ProjectAddress>): Promise<{ session_id: string }> => {
    if (kind === 'AGENT') throw fail('project_not_found', { detail: NO_AGENTS })
    if (kind === 'EVALUATOR') throw fail('project_not_found', { detail: NO_EVALUATOR_TRACES })
    const statement = sql<Row>`
      select p.id
      from projects p
      where ${isProject(id!)} and p.reference_dataset_id is not null`
    const [session_id] = requireRow(await run(ctx, statement), 'project_not_found')
    return { session_id: session_id as string }
  },
  { byPolicy: true },
)
const NO_AGENTS =
  'Slipway has no agents apart from deployments. Each traces into a project with its name: GET /sessions.'
const NO_EVALUATOR_TRACES = 'Slipway has no traces of evaluators. GET /runs/rules/{rule_id}/logs has what they said.'

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

/** Members that are absent stay as they are, and null removes a value. */
export type ProjectChange = {
  name?: string | undefined
  description?: string | null | undefined
  end_time?: string | null | undefined
  default_dataset_id?: string | null | undefined
  trace_tier?: schema.Project['trace_tier'] | undefined
  longlived_ttl_days?: number | null | undefined
  /** Replaces the stored object, or is merged into it: a null of its members removes one. */
  extra?: Record<string, unknown> | null | undefined
  mergesExtra?: boolean
}

/** The members that a change sets in the row `p`. */
const changeColumns = (change: ProjectChange): SQL => sql`
      name = ${orStored(change.name, text, sql`p.name`)},
      description = ${orStored(change.description, text, sql`p.description`)},
      end_time = ${orStored(change.end_time, time, sql`p.end_time`)},
      extra = ${orStored(change.extra, change.mergesExtra ? mergedExtra : json, sql`p.extra`)},
      default_dataset_id = ${orStored(change.default_dataset_id, uuid, sql`p.default_dataset_id`)},
      longlived_ttl_days = ${changedDays(change)},
      earlier_tiers = ${recordTier(changedTier(change))},
      trace_tier = ${changedTier(change)},
      version = p.version + 1,
      updated_at = clock()`
const orStored = <Value>(value: Value | undefined, write: (value: Value) => SQL, stored: SQL): SQL =>
  value === undefined ? stored : write(value)
function mergedExtra(extra: Record<string, unknown> | null): SQL {
  if (!extra) return json(null)
  const [removed, given] = [Object.keys(extra).filter(name => extra[name] === null), omitNull(extra)]
  return sql`((coalesce(p.extra, '{}')::jsonb - ${textArray(removed)}) || ${JSON.stringify(given)}::jsonb)::json`
}
const changedTier = ({ trace_tier }: ProjectChange): SQL => orStored(trace_tier, text, sql`p.trace_tier`)
const changedDays = ({ longlived_ttl_days: days }: ProjectChange): SQL =>
  orStored(days, integer, sql`p.longlived_ttl_days`)
const requireAllowedChange = (change: ProjectChange): SQL =>
  requireTierChange(
    sql`p.tag_value_ids`,
    { tier: sql`p.trace_tier`, days: sql`p.longlived_ttl_days` },
    { tier: changedTier(change), days: changedDays(change) },
  )

type NonNull<Input> = { [Name in keyof Input]?: NonNullable<Input[Name]> }
const omitNull = <Input extends object>(input: Input) =>
  Object.fromEntries(Object.entries(input).filter(([, value]) => value != null)) as NonNull<Input>

/** The changes of an upsert. A client sends an empty `extra` where it has none. */
function toChange({ extra, ...input }: schema.NewProject): ProjectChange {
  const { description, end_time, default_dataset_id, trace_tier, longlived_ttl_days } = input
  const given = { description, end_time, default_dataset_id, trace_tier, longlived_ttl_days }
  return omitNull({ ...given, extra: extra && Object.keys(extra).length > 0 ? extra : null })
}

const upsertClause = (input: schema.NewProject): SQL => {
  const change = toChange(input)
  const isPermitted =
    Object.keys(change).length > 0
      ? sql`require_permission_for('projects:update', p.tag_value_ids) and ${requireAllowedChange(change)}`
      : sql`true`
  return sql`
    on conflict (tenant_id, name) do update set ${changeColumns(change)}
    where ${isPermitted}`
}

export async function storeProject(
  ctx: Ctx,
  { upsert, ...input }: schema.NewProject & z.output<typeof schema.Upsert>,
): Promise<ProjectWire> {
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
}

export const createProject = verb('projects:create', storeProject)

const isNamed = (name: string): SQL => sql`p.tenant_id = current_tenant() and p.name = ${name}`

// ---- change and delete

export async function updateProject(ctx: Ctx, session_id: string, input: ProjectChange): Promise<ProjectWire> {
  const keepsName = sql`p.name = ${orStored(input.name, text, sql`p.name`)}`
  const change = sql<ProjectRow>`
    update projects p
    set ${changeColumns(input)}
    where ${isProject(session_id)}
      and ${isVersion(ctx)}
      and ${requireDatasets([input.default_dataset_id])}
      and ${refuseUnless('project_of_deployment', sql`p.deployment_id is null or ${keepsName}`)}
      and ${requireAllowedChange(input)}
    returning *`
  const parts = { lock: [lockTiers(), lockProject(session_id)], changes: changedMembers(projects, RECORDED) }
  const rows = await commit(ctx, 'project.updated', change, {}, parts)
  return projectToWire(requireRow(rows, 'project_not_found'))
}

export const changeProject = verb(
  'projects:update',
  (ctx, { session_id, longlived_ttl_days, ...patch }: ProjectParams & schema.ProjectPatch) =>
    updateProject(ctx, session_id, {
      ...omitNull(patch),
      ...(longlived_ttl_days !== undefined && { longlived_ttl_days }),
    }),
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
