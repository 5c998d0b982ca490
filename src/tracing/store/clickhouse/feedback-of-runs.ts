// Adds up the feedback of groups of runs: Postgres has the feedback, ClickHouse knows the runs.
import { sql as pg } from 'drizzle-orm'
import type { ClickHouse } from '../../../kernel/clickhouse/client.ts'
import { type Sql, sql, uuids } from '../../../kernel/clickhouse/sql.ts'
import { type Row, run } from '../../../kernel/db/db.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import { fail } from '../../../kernel/http/errors.ts'
import { type FeedbackSummary, summarizeFeedback } from '../../feedback/feedback-summary.ts'

const MAX_RUNS = 10_000

/** `members` selects the ids of runs and the names of their groups, from those that meet the condition on `r`. */
export async function summarizeByGroup(
  clickHouse: ClickHouse,
  ctx: Ctx,
  projects: string[],
  members: (isWanted: Sql) => Sql,
): Promise<Map<string, FeedbackSummary>> {
  const rated = pg<Row>`
    select distinct f.run_id
    from feedbacks f
    where f.tenant_id = current_tenant()
      and f.session_id = any(${pg.param(projects)}::uuid[])
      and f.run_id is not null
    limit ${MAX_RUNS + 1}`
  const ids = (await run({ ...ctx, idempotency: null }, rated)).map(([id]) => id as string)
  if (ids.length > MAX_RUNS) throw fail('query_too_slow')
  if (ids.length === 0) return new Map()
  const found = await clickHouse.query<[string, string]>(members(sql`r.id in ${uuids(ids)}`))
  const groups = JSON.stringify(found.map(([id, group]) => ({ id, group })))
  const rows = await run(
    { ...ctx, idempotency: null },
    pg<Row>`
      with members as materialized (
        select id, "group"
        from json_to_recordset(${groups}::json) as m(id uuid, "group" text)
      )
      select g."group", ${summarizeFeedback(pg`f.run_id in (select m.id from members m where m."group" = g."group")`)}
      from (select distinct "group" from members) g`,
  )
  return new Map(
    rows.filter(([, json]) => json !== null).map(([group, json]) => [group as string, JSON.parse(json as string)]),
  )
}
