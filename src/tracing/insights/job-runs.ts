// The runs of an insights job, or of one of its clusters, with their summaries.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { PAGE_PAYLOAD_BYTES } from '../runs/object-links.ts'
import { columnsOf, DEFAULT_SELECT } from '../runs/run-wire.ts'
import { showRuns } from '../runs/runs.ts'
import type * as schema from './jobs.schema.ts'
import { isJob } from './jobs.ts'

type Input = z.output<typeof schema.JobRef> & schema.RunsQuery
type Said = Pick<schema.JobRuns['runs'][number], 'summary' | 'attributes' | 'cluster_id' | 'cluster_name'> & {
  run_id: string
}

const SELECT = [...DEFAULT_SELECT, 'inputs_preview', 'outputs_preview'] as const

export const listJobRuns = verb('runs:read', async (ctx, input: Input): Promise<schema.JobRuns> => {
  const { limit, offset } = input
  const page = await readPage(ctx, input)
  return {
    runs: await showPage(ctx, page.slice(0, limit)),
    offset: page.length > limit ? offset + limit : null,
  }
})

/** One more than the limit, to know whether there is a next page. */
async function readPage(ctx: Ctx, { cluster_id, limit, offset, ...input }: Input): Promise<Said[]> {
  const query = sql<Row>`
    with recursive
    job as (
      select j.id, j.tenant_id
      from insight_jobs j
      where ${isJob(input)}
    ),
    inside as (
      select c.id
      from job j
      join insight_clusters c on c.job_id = j.id and c.tenant_id = j.tenant_id
      where c.id = ${cluster_id ?? null}::uuid
      union all
      select c.id
      from inside i
      join insight_clusters c on c.parent_id = i.id and c.tenant_id = current_tenant()
    )
    select
      exists (select from job),
      ${cluster_id ? sql`exists (select from inside)` : sql`true`},
      (
        select json_agg(n.said)
        from (
          select json_build_object(
            'run_id', r.run_id, 'summary', r.summary, 'attributes', r.attributes, 'cluster_id', r.cluster_id,
            'cluster_name', c.name
          ) as said
          from job j
          join insight_runs r on r.job_id = j.id and r.tenant_id = j.tenant_id
          left join insight_clusters c on c.id = r.cluster_id and c.tenant_id = j.tenant_id
          where not r.is_excluded
            ${cluster_id ? sql`and r.cluster_id in (select id from inside)` : sql``}
          order by ${orderOf(input)}
          limit ${limit + 1}
          offset ${offset}
        ) n
      )::text`
  const [[hasJob, hasCluster, page]] = (await run(ctx, query)) as unknown as [[boolean, boolean, string | null]]
  if (!hasJob) throw fail('insight_job_not_found')
  if (!hasCluster) throw fail('insight_cluster_not_found')
  return JSON.parse(page ?? '[]')
}

/** Runs without the attribute are last. Numbers are in the order of their size. */
function orderOf({ attribute_sort_key: key, attribute_sort_order: order = 'asc' }: Partial<schema.RunsQuery>): SQL {
  if (!key) return sql`r.place`
  const direction = sql.raw(order)
  const isNumber = sql`json_typeof(r.attributes -> ${key}) = 'number'`
  return sql`
            case when ${isNumber} then (r.attributes ->> ${key})::numeric end ${direction} nulls last,
            r.attributes ->> ${key} ${direction} nulls last,
            r.place`
}

/** The second trip reads the runs, which may be in another store. The summary of an expired run is left. */
async function showPage(ctx: Ctx, page: Said[]): Promise<schema.JobRuns['runs']> {
  if (page.length === 0) return []
  const ids = page.map(({ run_id }) => run_id)
  const query = { ids, order: 'desc' as const, limit: ids.length, columns: columnsOf(SELECT) }
  const { runs } = await ctx.traces.query(ctx, query)
  const shown = new Map((await showRuns(ctx, runs, SELECT, PAGE_PAYLOAD_BYTES)).map(one => [one.id, one]))
  return page.map(({ run_id, ...said }) => ({ ...shown.get(run_id), id: run_id, ...said }))
}
