// Lists tracing projects.
import { type SQL, sql } from 'drizzle-orm'
import { runWithinTime } from '../../kernel/db/bounded-time.ts'
import { type Row, uuidArray } from '../../kernel/db/db.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { sessionFilter } from './project-filter.ts'
import { addUpRuns, readRunStatsRequest } from './project-run-stats.ts'
import { type Counts, type ProjectStats, selectFeedbackScore, selectStatistic, selectStats } from './project-stats.ts'
import type * as schema from './projects.schema.ts'
import { type ProjectRow, projectToWire } from './projects.ts'

const METADATA = sql`p.extra -> 'metadata'`

function conditionsOf(query: schema.ProjectQuery, counts: Counts): SQL {
  const { id, name, name_contains, reference_dataset, reference_free, dataset_version, metadata, tag_value_id } = query
  const conditions = [
    sql`p.tenant_id = current_tenant()`,
    id && sql`p.id = any(${uuidArray(id)})`,
    name && sql`p.name = ${name}`,
    name_contains && sql`strpos(lower(p.name), lower(${name_contains})) > 0`,
    reference_dataset && sql`p.reference_dataset_id = any(${uuidArray(reference_dataset)})`,
    reference_free !== undefined && sql`(p.reference_dataset_id is null) = ${reference_free}`,
    dataset_version && sql`${METADATA} ->> 'dataset_version' = ${dataset_version}`,
    metadata && sql`(${METADATA})::jsonb @> ${metadata}::jsonb`,
    tag_value_id && sql`p.tag_value_ids @> ${uuidArray(tag_value_id)}`,
    sessionFilter(query.filter, counts),
  ]
  return sql.join(
    conditions.filter(condition => condition instanceof Object),
    sql`
        and `,
  )
}

function sortKey({ sort_by, ...query }: schema.ProjectQuery, counts: Counts): SQL {
  switch (sort_by) {
    case 'name':
    case 'start_time':
      return sql`p.${sql.identifier(sort_by)}`
    case 'feedback':
      return selectFeedbackScore(sql`p`, {
        key: query.sort_by_feedback_key!,
        source: query.sort_by_feedback_source ?? 'run',
        since: counts.since,
      })
    case 'runs_count':
      return selectStatistic('run_count', sql`p`, counts)
    default:
      return selectStatistic(sort_by, sql`p`, counts)
  }
}

/** Facets and filters reveal contents of runs. */
const MAY_READ_RUNS = sql`is_permitted_for('runs:read', p.tag_value_ids)`

const readsCounts = ({ include_stats, filter, sort_by }: schema.ProjectQuery): boolean =>
  include_stats || filter !== undefined || !/^(name|start_time|feedback)$/.test(sort_by)

export const listProjects = verb('projects:read', (ctx, query: schema.ProjectQuery) => findProjects(ctx, query), {
  byPolicy: true,
})

export async function findProjects(ctx: Ctx, query: schema.ProjectQuery): Promise<schema.Project[]> {
  const { limit, offset, sort_by, sort_by_desc, stats_start_time: since } = query
  const ofFilter = readRunStatsRequest(query)
  const minutes = readsCounts(query) ? await ctx.traces.countRuns(ctx, { since }) : sql`session_minutes`
  const counts: Counts = { minutes, since }
  // The index of the list has nulls first, and start times are never null.
  const nulls = sort_by === 'start_time' ? sql`` : sql`nulls last`
  const direction = sort_by_desc ? sql`desc` : sql`asc`
  const rows = sql<Row>`
      select to_json(p), (${selectStats(sql`p`, query, counts)}),
        ${ofFilter ? MAY_READ_RUNS : sql`false`}
      from (
        select p.*, ${sortKey(query, counts)} as sort_key
        from projects p
        where ${conditionsOf(query, counts)}
        order by sort_key ${direction} ${nulls}, p.id ${direction}
        limit ${limit}
        offset ${offset}
      ) p
      order by p.sort_key ${direction} ${nulls}, p.id ${direction}`
  const listed = (await runWithinTime(ctx, rows)).map(([project, stats, showsRuns]) => ({
    project: JSON.parse(project as string) as ProjectRow,
    stats: JSON.parse((stats ?? 'null') as string) as ProjectStats,
    showsRuns: showsRuns === true,
  }))
  const shown = listed.filter(({ showsRuns }) => showsRuns).map(({ project }) => project.id)
  const ofRuns = ofFilter && (await addUpRuns(ctx, shown, ofFilter))
  return listed.map(({ project, stats }) => projectToWire(project, { ...stats, ...ofRuns?.get(project.id) }))
}
