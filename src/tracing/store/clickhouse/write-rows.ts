// Rows of `runs` in ClickHouse: the write of a request, and the place of the run from Postgres.

import type { ClickHouse } from '../../../kernel/clickhouse/client.ts'
import { toClickHouseTime } from '../../../kernel/clickhouse/sql.ts'
import { sha256 } from '../../../kernel/crypto/digest.ts'
import { MERGED_MEMBERS } from '../../ingest/merged-operations.ts'
import type { StoredRuns } from '../../ingest/run-objects.ts'

/** The JSON that Postgres writes. */
export type PlacedRun = {
  id: string
  session_id: string
  trace_tier: string
  trace_id: string
  trace_time: string
  order_time: string
  dotted_order: string
  parent_run_id: string | null
}
type Values = Partial<Omit<StoredRuns['runs'][number], 'id' | 'place' | 'session_id'>>

const DAY_MS = 86_400_000
const KEPT_MS = 400 * DAY_MS
const MONDAY = 4 * DAY_MS
const TIMES = ['start_time', 'end_time', 'first_token_time']
const JSON_COLUMNS = ['tags', 'metadata', 'usage_details']

/** `version` is the time of the write in microseconds, by the clock of Postgres. */
export function toWriteRow(tenant: string, place: PlacedRun, values: Values, version: bigint, now: number): object {
  const { trace_tier: tier, trace_time, order_time, ...where } = place
  const content = {
    ...where,
    trace_time: toClickHouseTime(trace_time),
    order_time: toClickHouseTime(order_time),
    patched: values.patched ?? 0,
    objects: values.objects && JSON.stringify(values.objects),
    ...Object.fromEntries(MERGED_MEMBERS.flat().map(column => [column, toColumn(column, values[column])])),
  }
  return {
    ...content,
    tenant_id: tenant,
    tier,
    week: weekOf(order_time, now),
    digest: digestOf(content),
    version: String(version),
  }
}

function toColumn(column: string, value: unknown): unknown {
  if (value === undefined || value === null) return undefined
  if (TIMES.includes(column)) return toClickHouseTime(value as string)
  if (JSON_COLUMNS.includes(column)) return JSON.stringify(value)
  return column.endsWith('_cost') ? toDecimal(value as number) : value
}

/** Eighteen digits after the point. A cost with an exponent has fewer significant digits than that. */
const toDecimal = (cost: number): string => (/e-/.test(String(cost)) ? cost.toFixed(18) : String(cost))

/** The Monday before, within the time that runs are kept: a wrong clock makes no partition of its own. */
function weekOf(orderTime: string, now: number): string {
  const at = Math.min(Math.max(Date.parse(orderTime), now - KEPT_MS), now + 7 * DAY_MS)
  const monday = at - ((((at - MONDAY) % (7 * DAY_MS)) + 7 * DAY_MS) % (7 * DAY_MS))
  return new Date(monday).toISOString().slice(0, 10)
}

/** Digests the contents of a write: a repeated write is the same row. */
const digestOf = (content: object): string =>
  sha256().update(JSON.stringify(content)).digest().readBigUInt64LE(0).toString()

export const insertRuns = (clickHouse: ClickHouse, rows: object[]): Promise<void> => clickHouse.insert('runs', rows)
