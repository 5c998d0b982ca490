// All runs of a selection, in the projects that the caller may read.
import type { Ctx } from '../../../kernel/http/context.ts'
import type { RunSelection } from '../run-query.ts'
import type { ClickHouse } from './client.ts'
import { type RunSource, selectSource } from './run-source.ts'
import { sql } from './sql.ts'
import { readScope, type Scope } from './workspace.ts'

type Whole = { scope: Scope; source: RunSource; hasAllSessions: boolean; isEmpty: boolean }

/** A lookup by ids names no project, so those of the runs that it finds are asked for. */
export async function selectWhole(clickHouse: ClickHouse, ctx: Ctx, query: RunSelection): Promise<Whole> {
  const { sessions, filter, trace_filter, tree_filter } = query
  const filters = [filter, trace_filter, tree_filter]
  const now = ctx.platform.clock.now()
  const first = await readScope(ctx, sessions ?? [], filters)
  if (sessions) {
    const hasAllSessions = first.projects.length === new Set(sessions).size
    return {
      scope: first,
      source: selectSource(query, first, now),
      hasAllSessions,
      isEmpty: first.projects.length === 0,
    }
  }
  const found = await clickHouse.query<[string]>(sql`
    select distinct toString(r.session_id) ${selectSource(query, first, now).select([])}`)
  const scope = await readScope(
    ctx,
    found.map(([id]) => id),
    filters,
  )
  const inProjects = { ...query, sessions: scope.projects.map(({ id }) => id) }
  const isEmpty = scope.projects.length === 0
  return { scope, source: selectSource(inProjects, scope, now), hasAllSessions: true, isEmpty }
}
