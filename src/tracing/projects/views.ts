// Views: saved filters over the runs of a project.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { RUN_FIELDS } from '../runs/filter/fields.ts'
import { readFilters } from '../runs/filter/resolve.ts'
import { filterViews } from '../store/tables.ts'
import type { ProjectRef } from './projects.schema.ts'
import type * as schema from './views.schema.ts'

type ViewRow = typeof filterViews.$inferSelect
type ProjectParams = z.output<typeof ProjectRef>
type ViewParams = z.output<typeof schema.ViewRef>

const toWire = (row: ViewRow): z.output<typeof schema.FilterView> & { [etagVersion]: number } => ({
  id: row.id,
  session_id: row.session_id,
  display_name: row.display_name,
  description: row.description,
  type: row.type,
  filter_string: row.filter_string,
  trace_filter_string: row.trace_filter_string,
  tree_filter_string: row.tree_filter_string,
  start_time: toIsoTime(row.start_time),
  end_time: toIsoTime(row.end_time),
  duration: row.duration,
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

const MEMBERS = [
  'display_name',
  'description',
  'type',
  'filter_string',
  'trace_filter_string',
  'tree_filter_string',
  'start_time',
  'end_time',
  'duration',
] as const
type Members = { [Name in (typeof MEMBERS)[number]]?: string | null | undefined }
const RECORDED = recordColumns(filterViews, ['session_id', ...MEMBERS])

/** A filter that cannot be read would fail whenever the view is opened. */
const checkFilters = ({ filter_string, trace_filter_string, tree_filter_string }: Members): void =>
  void readFilters({ filter_string, trace_filter_string, tree_filter_string }, RUN_FIELDS)

const isProject = (id: string): SQL => sql`p.id = ${id}::uuid and p.tenant_id = current_tenant()`
/** The row `v` of a project that the caller may see. */
const isView = ({ session_id, view_id }: ViewParams): SQL => sql`v.id = ${view_id}::uuid
      and v.session_id = ${session_id}::uuid
      and v.tenant_id = current_tenant()
      and exists (select from projects p where ${isProject(session_id)})`
const isVersion = (ctx: Ctx): SQL => versionMatches(ctx, { version: sql`v.version` }) ?? sql`true`
const lockView = (ref: ViewParams): SQL => sql`select from filter_views v where ${isView(ref)} for update`

export const listViews = verb(
  'projects:read',
  async (ctx, { session_id, type }: ProjectParams & z.output<typeof schema.ViewQuery>) => {
    // Selects from the project, to tell an unknown one from one without views.
    const query = sql<Row>`
      select to_json(v)
      from projects p
      left join filter_views v
        on v.session_id = p.id and v.tenant_id = p.tenant_id ${type ? sql`and v.type = ${type}` : sql``}
      where ${isProject(session_id)}
      order by v.created_at desc, v.id desc`
    const rows = await run(ctx, query)
    requireRow(rows, 'project_not_found')
    return rows.flatMap(([json]) => (json === null ? [] : [toWire(JSON.parse(json as string))]))
  },
)

export const readView = verb('projects:read', async (ctx, ref: ViewParams) => {
  const rows = await run(ctx, sql<Row>`select to_json(v) from filter_views v where ${isView(ref)}`)
  return toWire(JSON.parse(requireRow(rows, 'view_not_found')[0] as string))
})

export const createView = verb(
  'projects:update',
  async (ctx, { session_id, ...input }: ProjectParams & z.output<typeof schema.NewView>) => {
    checkFilters(input)
    const values = MEMBERS.map(name => castTo(name, input[name]))
    const change = sql<ViewRow>`
      insert into filter_views (organization_id, tenant_id, session_id, ${columns(MEMBERS)})
      select p.organization_id, p.tenant_id, p.id, ${sql.join(values, sql`, `)}
      from projects p
      where ${isProject(session_id)}
      returning *`
    const parts = {
      lock: sql`select from projects p where ${isProject(session_id)} for no key update`,
      changes: createdMembers(RECORDED),
    }
    const rows = await commit(ctx, 'filter_view.created', change, ofProject(session_id), parts)
    return toWire(requireRow(rows, 'project_not_found'))
  },
)

/** Access policies that hide the project hide the event too. */
const ofProject = (session_id: string) => ({ project_id: session_id })

const columns = (names: readonly string[]): SQL =>
  sql.join(
    names.map(name => sql.identifier(name)),
    sql`, `,
  )
const castTo = (name: string, value: string | null | undefined): SQL =>
  name.endsWith('_time') ? sql`${value ?? null}::timestamptz` : sql`${value ?? null}::text`

const REQUIRED = ['display_name', 'type']
/** A name or a type that is null stays as it is. */
const isGiven = (patch: Members) => (name: (typeof MEMBERS)[number]) =>
  patch[name] !== undefined && !(patch[name] === null && REQUIRED.includes(name))

export const changeView = verb(
  'projects:update',
  async (ctx, { session_id, view_id, ...patch }: ViewParams & z.output<typeof schema.ViewPatch>) => {
    checkFilters(patch)
    const changes = MEMBERS.filter(isGiven(patch)).map(
      name => sql`${sql.identifier(name)} = ${castTo(name, patch[name])}`,
    )
    const ref = { session_id, view_id }
    const change = sql<ViewRow>`
      update filter_views v
      set ${sql.join([...changes, sql`version = v.version + 1`, sql`updated_at = clock()`], sql`, `)}
      where ${isView(ref)} and ${isVersion(ctx)}
      returning v.*`
    const parts = { lock: lockView(ref), changes: changedMembers(filterViews, RECORDED) }
    const rows = await commit(ctx, 'filter_view.updated', change, ofProject(session_id), parts)
    return toWire(requireRow(rows, 'view_not_found'))
  },
)

export const deleteView = verb('projects:update', async (ctx, ref: ViewParams) => {
  const change = sql<ViewRow>`
    delete from filter_views v
    where ${isView(ref)} and ${isVersion(ctx)}
    returning v.*`
  const parts = { changes: deletedMembers(RECORDED) }
  const rows = await commit(ctx, 'filter_view.deleted', change, ofProject(ref.session_id), parts)
  requireRow(rows, 'view_not_found')
})
