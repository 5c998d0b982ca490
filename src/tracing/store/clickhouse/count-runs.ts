// Adds up the runs of projects, as a relation like `session_minutes`: one row for each project, or for each bin.
import { sql as pg, type SQL } from 'drizzle-orm'
import type { ClickHouse } from '../../../kernel/clickhouse/client.ts'
import { all, join, name, type Sql, sql, time, uuids } from '../../../kernel/clickhouse/sql.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import type { CountQuery } from '../store.ts'
import { selectRuns } from './run-columns.ts'
import { enterWorkspace } from './workspace.ts'

const MINUTE_MS = 60_000
const isRoot = sql`r.id = r.trace_id`
/** Mirrors `latency_bucket()` of Postgres. */
const buckets = (until: string): Sql => {
  const ms = sql`dateDiff('microsecond', r.start_time, r.${name(until)}) / 1000`
  const bucket = sql`assumeNotNull(1 + least(239, floor(8 * log2(greatest(1, ${ms})))))`
  return sql`sumMapIf([toUInt16(${bucket})], [1], ${isRoot} and ifNull(r.${name(until)} >= r.start_time, false))`
}
const SUMS = ['prompt_tokens', 'completion_tokens', 'total_tokens', 'prompt_cost', 'completion_cost', 'total_cost']
const MEMBERS: [string, Sql][] = [
  ['runs', sql`count()`],
  ['roots', sql`countIf(${isRoot})`],
  ['ended', sql`countIf(${isRoot} and r.end_time is not null)`],
  ['errors', sql`countIf(${isRoot} and r.error is not null)`],
  ['streamed', sql`countIf(${isRoot} and r.first_token_time is not null)`],
  ...SUMS.map((column): [string, Sql] => [column, sql`toString(ifNull(sum(r.${name(column)}), 0))`]),
  ['last_start_time', sql`toString(max(r.start_time))`],
]
const HISTOGRAMS: [string, Sql][] = [
  ['latencies', buckets('end_time')],
  ['first_token_latencies', buckets('first_token_time')],
]
const COLUMNS = ['start_time', 'end_time', 'first_token_time', 'error', ...SUMS]

const toIso = (ms: number): string => new Date(ms).toISOString()

export async function countRuns(clickHouse: ClickHouse, ctx: Ctx, query: CountQuery): Promise<SQL> {
  const tenant = await enterWorkspace(ctx)
  const { projects, since, until, strideMs } = query
  const start =
    since === undefined ? 0 : strideMs ? Date.parse(since) : Math.floor(Date.parse(since) / MINUTE_MS) * MINUTE_MS
  const minute = sql`toStartOfMinute(w.order_time)`
  const condition = all([
    ...(projects ? [sql`w.session_id in ${uuids(projects)}`] : []),
    ...(since ? [sql`w.order_time >= ${time(toIso(start))} and ${minute} >= ${time(toIso(start))}`] : []),
    ...(until
      ? [sql`w.order_time < ${time(toIso(Date.parse(until) + MINUTE_MS))} and ${minute} < ${time(until)}`]
      : []),
    sql`true`,
  ])
  const at = sql`toUnixTimestamp64Milli(toDateTime64(toStartOfMinute(r.order_time), 3, 'UTC'))`
  const [from, stride] = [name(String(start)), name(String(strideMs))]
  const bin = strideMs ? sql`toInt64(${from}) + intDiv(${at} - toInt64(${from}), ${stride}) * ${stride}` : from
  const rows = await clickHouse.query(sql`
    select toString(r.session_id), toString(${bin}) as bin, ${join(
      [...MEMBERS, ...HISTOGRAMS].map(([, member]) => member),
      ', ',
    )}
    from (${selectRuns(tenant, COLUMNS, condition)}
    ) r
    where r.name is not null and r.run_type is not null
    group by r.session_id, bin`)
  return toRelation(rows.map(toCounts))
}

function toCounts([session_id, minute, ...values]: unknown[]): object {
  const members = MEMBERS.map(([member], i) => [member, values[i]])
  const histograms = HISTOGRAMS.map(([member], i) => [
    member,
    spread(values[MEMBERS.length + i] as [number[], string[]]),
  ])
  const counts = Object.fromEntries([...members, ...histograms])
  return {
    ...counts,
    session_id,
    minute: toIso(Number(minute)),
    last_start_time: counts.last_start_time && `${counts.last_start_time}Z`,
  }
}

/** One element for each bucket up to the last that is not empty. */
function spread([places, counts]: [number[], string[]]): number[] {
  const buckets: number[] = Array(Math.max(0, ...places)).fill(0)
  for (const [i, place] of places.entries()) buckets[place - 1] = Number(counts[i])
  return buckets
}

const toRelation = (rows: object[]): SQL => pg`(
        select current_tenant() as tenant_id, k.*
        from json_to_recordset(${JSON.stringify(rows)}::json) as k(
          session_id uuid, minute timestamptz, runs bigint, roots bigint, ended bigint, errors bigint, streamed bigint,
          prompt_tokens bigint, completion_tokens bigint, total_tokens bigint, prompt_cost numeric,
          completion_cost numeric, total_cost numeric, latencies integer[], first_token_latencies integer[],
          last_start_time timestamptz
        )
      )`
