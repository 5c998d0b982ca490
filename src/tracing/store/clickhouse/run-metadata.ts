// The metadata of a project's latest runs.

import type { ClickHouse } from '../../../kernel/clickhouse/client.ts'
import { name, sql, texts, uuid } from '../../../kernel/clickhouse/sql.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import type { MetadataQuery } from '../store.ts'
import { selectSource } from './run-source.ts'
import { readScope } from './workspace.ts'

const MAX_RUNS = 10_000
/** A run has a few of them. */
const MAX_WRITES = 40_000
const MAX_KEYS = 1000
/** Longer values differ in every run, so they are useless as a choice. */
const MAX_LENGTH = 256

export async function listMetadata(
  clickHouse: ClickHouse,
  ctx: Ctx,
  { session_id, keys, since, roots_only, values }: MetadataQuery,
): Promise<Record<string, string[]> | null> {
  const scope = await readScope(ctx, [session_id], [])
  if (scope.projects.length === 0) return null
  const now = ctx.platform.clock.now()
  const selection = { projects: [session_id], is_root: roots_only || undefined, start_time: since }
  const source = selectSource(selection, scope, now)
  const reach = sql`w.order_time >= (
      select if(count() = 0, toDateTime64('1900-01-01 00:00:00', 6, 'UTC'), min(order_time))
      from (
        select w.order_time as order_time
        from runs_of(tenant = ${uuid(scope.tenant)}) w
        where ${source.writes}
        order by w.order_time desc
        limit 1 offset ${name(String(MAX_WRITES))}
      )
    )`
  const value = sql`if(startsWith(m.2, '"'), JSONExtractString(m.2), m.2)`
  const rows = await clickHouse.query<[string, string]>(sql`
    select key, value
    from (
      select m.1 as key, ${value} as value, count() as n
      from (
        select r.metadata as metadata ${source.select(['metadata'], { reach })}
        order by r.order_time desc, r.id desc
        limit ${name(String(MAX_RUNS))}
      )
      array join JSONExtractKeysAndValuesRaw(ifNull(metadata, '')) as m
      where m.2 != 'null'
        and lengthUTF8(${value}) <= ${name(String(MAX_LENGTH))}
        ${keys ? sql`and m.1 in ${texts(keys)}` : sql``}
      group by key, value
    )
    order by key, n desc, value
    limit ${name(String(values))} by key`)
  const found: Record<string, string[]> = {}
  for (const [key, one] of rows) found[key] = [...(found[key] ?? []), one]
  return Object.fromEntries(Object.entries(found).slice(0, MAX_KEYS))
}
