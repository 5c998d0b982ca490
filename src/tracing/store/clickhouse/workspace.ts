// Reads from Postgres the workspace of the caller, its projects, and feedback.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, run, uuidArray } from '../../../kernel/db/db.ts'
import { type Ctx, hasCredential } from '../../../kernel/http/context.ts'
import { fail } from '../../../kernel/http/errors.ts'
import type { ResolvedFilter } from '../../runs/filter/resolve.ts'
import { filterCondition } from '../postgres/filter-sql.ts'
import { FEEDBACK_COLUMNS } from '../postgres/run-fields.ts'

/** The first trip of a request. An idempotency key is for the last one. */
export async function enterWith(ctx: Ctx, query: SQL<Row>): Promise<{ tenant: string; row: Row }> {
  const [row] = await run({ ...ctx, idempotency: null }, query)
  return { tenant: ctx.requestInfo.tenant!, row: row! }
}

/** The workspace of the caller, who has the permission of the request. */
export async function enterWorkspace(ctx: Ctx): Promise<string> {
  if (!hasCredential(ctx.actor)) return ctx.actor.tenant!
  if (ctx.requestInfo.tenant) return ctx.requestInfo.tenant
  return (await enterWith(ctx, sql<Row>`select`)).tenant
}

/** A project that the caller may read, and for how many days it keeps long-lived traces. */
type ReadableProject = { id: string; days: number }

type PairFilter = Extract<ResolvedFilter, { conditions: unknown }>

const MAX_FEEDBACK_MATCHES = 10_000

export type Scope = {
  tenant: string
  projects: ReadableProject[]
  /** The runs with some feedback that meets the conditions of each filter. */
  feedback: Map<ResolvedFilter, string[]>
}

const selectProjects = (ids: string[]): SQL => sql`(
  select coalesce(json_agg(json_build_object('id', p.id, 'days', longlived_days(p.longlived_ttl_days))), '[]')
  from projects p
  where p.tenant_id = current_tenant() and p.id = any(${uuidArray(ids)})
)`

export async function readScope(
  ctx: Ctx,
  projectIds: string[],
  filters: (ResolvedFilter | undefined)[],
): Promise<Scope> {
  const about = filters.flatMap(filter => (filter ? feedbackFilters(filter) : []))
  const matches = about.map(
    filter => sql`(
      select coalesce(json_agg(f.run_id), '[]')
      from (
        select distinct f.run_id
        from feedbacks f
        where f.tenant_id = current_tenant()
          and f.run_id is not null
          and (${projectIds.length === 0} or f.session_id = any(${uuidArray(projectIds)}))
          and ${filterCondition({ ...filter, operator: 'some' }, FEEDBACK_SOURCE)}
        limit ${MAX_FEEDBACK_MATCHES + 1}
      ) f
    )`,
  )
  const { tenant, row } = await enterWith(
    ctx,
    sql<Row>`select ${sql.join([selectProjects(projectIds), ...matches], sql`, `)}`,
  )
  const [projects, ...runIds] = row.map(json => JSON.parse(json as string))
  if (runIds.some(({ length }) => length > MAX_FEEDBACK_MATCHES)) throw fail('query_too_slow')
  return { tenant, projects, feedback: new Map(about.map((filter, i) => [filter, runIds[i]])) }
}

const FEEDBACK_SOURCE = {
  column: (field: string) => FEEDBACK_COLUMNS[field]!,
  pairs: () => sql`(select f.*) p`,
  texts: [],
}

function feedbackFilters(filter: ResolvedFilter): PairFilter[] {
  if ('parts' in filter) return filter.parts.flatMap(feedbackFilters)
  return 'conditions' in filter && filter.family === 'feedback' ? [filter] : []
}
