// All runs of a selection, in the projects that the caller may read.

import type { ClickHouse } from '../../../kernel/clickhouse/client.ts'
import { sql } from '../../../kernel/clickhouse/sql.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import type { RunSelection } from '../queries.ts'
import { type RunSource, selectSource } from './run-source.ts'
import { readScope, type Scope } from './workspace.ts'

type Whole = { scope: Scope; source: RunSource; hasAllProjects: boolean; isEmpty: boolean }

/** A lookup by ids names no project, so those of the runs that it finds are asked for. */
export async function selectWhole(clickHouse: ClickHouse, ctx: Ctx, query: RunSelection): Promise<Whole> {
  const { projects, filter, trace_filter, tree_filter } = query
  const filters = [filter, trace_filter, tree_filter]
  const now = ctx.platform.clock.now()
  const first = await readScope(ctx, projects ?? [], filters)
  if (projects) {
    const hasAllProjects = first.projects.length === new Set(projects).size
    return {
      scope: first,
      source: selectSource(query, first, now),
      hasAllProjects,
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
  const inProjects = { ...query, projects: scope.projects.map(({ id }) => id) }
  const isEmpty = scope.projects.length === 0
  return { scope, source: selectSource(inProjects, scope, now), hasAllProjects: true, isEmpty }
}
