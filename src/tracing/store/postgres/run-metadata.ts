// The metadata of a project's latest runs.
import { sql } from 'drizzle-orm'
import { type Row, run, textArray } from '../../../kernel/db/db.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import type { MetadataQuery } from '../store.ts'
import { isShown } from './relations.ts'

const MAX_RUNS = 10_000
const MAX_KEYS = 1000
/** Longer values differ in every run, so they are useless as a choice. */
const MAX_LENGTH = 256

export async function listMetadata(ctx: Ctx, query: MetadataQuery): Promise<Record<string, string[]> | null> {
  const { session_id, keys, since, roots_only, values } = query
  const rows = await run(
    ctx,
    sql<Row>`
      select (
        select coalesce(json_object_agg(k.key, k.values), '{}')
        from (
          select v.key, json_agg(v.value order by v.n desc, v.value) as values
          from (
            select e.key, e.value, count(*) as n,
              row_number() over (partition by e.key order by count(*) desc, e.value) as place
            from (
              select case when jsonb_typeof(r.metadata) = 'object' then r.metadata else '{}' end as metadata
              from runs r
              where r.tenant_id = current_tenant()
                and r.session_id = p.id
                and ${isShown('r')}
                ${roots_only ? sql`and r.id = r.trace_id` : sql``}
                ${since ? sql`and r.order_time >= ${since}::timestamptz` : sql``}
              order by r.order_time desc, r.id desc
              limit ${MAX_RUNS}
            ) latest
            cross join lateral jsonb_each_text(latest.metadata) e
            where length(e.value) <= ${MAX_LENGTH} ${keys ? sql`and e.key = any(${textArray(keys)})` : sql``}
            group by e.key, e.value
          ) v
          where v.place <= ${values}
          group by v.key
          order by v.key
          limit ${MAX_KEYS}
        ) k
      )
      from projects p
      where p.id = ${session_id}::uuid and p.tenant_id = current_tenant()`,
  )
  return rows[0] ? JSON.parse(rows[0][0] as string) : null
}
