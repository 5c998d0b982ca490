// The columns of the runs of a page: from their writes, from the other runs of their traces, and from Postgres.
import { sql as pg, type SQL } from 'drizzle-orm'
import type { ClickHouse } from '../../../kernel/clickhouse/client.ts'
import { bind, join, name, type Sql, sql, toClickHouseTime, uuids } from '../../../kernel/clickhouse/sql.ts'
import { fromClickHouseTime, fromMicroseconds } from '../../../kernel/clickhouse/times.ts'
import { type Row, run } from '../../../kernel/db/db.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import { RELATED_COLUMNS } from '../postgres/related-columns.ts'
import { type DetailColumn, type StoredRun, TOTALS } from '../queries.ts'
import { LONG_MEMBERS, PAYLOADS, type StoredObjects } from '../store.ts'
import { isAt, selectRuns } from './run-columns.ts'
import type { Scope } from './workspace.ts'

type Found = StoredRun[]
type Wanted = { columns: readonly DetailColumn[]; hasProjects: boolean }

export async function addDetails(
  clickHouse: ClickHouse,
  ctx: Ctx,
  scope: Scope,
  runs: Found,
  { columns, hasProjects }: Wanted,
): Promise<StoredRun[]> {
  if (runs.length === 0) return []
  const [own, ofTraces, related] = await Promise.all([
    readOwnColumns(clickHouse, scope.tenant, runs, columns),
    readTraces(clickHouse, scope.tenant, runs, columns),
    readRelated(ctx, runs, columns, hasProjects),
  ])
  return runs
    .filter(({ id }) => !related || related.has(id))
    .map(run => ({ ...run, ...own?.get(run.id), ...ofTraces?.(run), ...related?.get(run.id) }))
}

// ---- the run itself

const OWN: DetailColumn[] = [
  ...TOTALS,
  'end_time',
  'first_token_time',
  'received_at',
  'error',
  'tags',
  'metadata',
  'thread_id',
  'reference_example_id',
  ...PAYLOADS,
  'inputs_preview',
  'outputs_preview',
  'objects',
  'usage_details',
]
type Details = { [Name in DetailColumn]?: string | null }

async function readOwnColumns(clickHouse: ClickHouse, tenant: string, runs: Found, columns: readonly DetailColumn[]) {
  const own = OWN.filter(column => columns.includes(column))
  if (own.length === 0) return undefined
  const isRun = sql`(w.session_id, w.order_time, w.id) in (
      select arrayJoin(arrayZip(
        ${uuids(runs.map(({ session_id }) => session_id))},
        ${bind(
          "Array(DateTime64(6, 'UTC'))",
          runs.map(({ order_time }) => toClickHouseTime(order_time)),
        )},
        ${uuids(runs.map(({ id }) => id))}
      ))
    )`
  const rows = await clickHouse.query(sql`
    select toString(r.id), ${list(own)}
    from (${selectRuns(tenant, own, isRun)}
    ) r`)
  return new Map(rows.map(([id, ...values]) => [id!, toDetails(own, values)]))
}

const list = (columns: readonly string[]): Sql =>
  join(
    columns.map(column => sql`toString(r.${name(column)})`),
    ', ',
  )

function toDetails(columns: readonly DetailColumn[], values: Row): Details {
  return Object.fromEntries(columns.map((column, i) => [column, toText(column, values[i] as string | null)]))
}

function toText(column: DetailColumn, value: string | null): string | null {
  if (value === null) return null
  if (column === 'received_at') return fromMicroseconds(value)
  if (column === 'objects') return joinObjects(value)
  return column.endsWith('_time') ? fromClickHouseTime(value) : value
}

/** Takes each long member from the write that wins, and the attachments of all writes, later ones first. */
export function joinObjects(writes: string): string | null {
  const [winners, all] = JSON.parse(writes) as [(string | null)[], string[]]
  const objects: StoredObjects = {}
  for (const [i, member] of LONG_MEMBERS.entries()) {
    const object = winners[i] ? (JSON.parse(winners[i]) as StoredObjects)[member] : undefined
    if (object) objects[member] = object
  }
  const attachments = Object.assign({}, ...all.map(one => (JSON.parse(one) as StoredObjects).attachments))
  if (Object.keys(attachments).length > 0) objects.attachments = attachments
  return Object.keys(objects).length > 0 ? JSON.stringify(objects) : null
}

// ---- its trace

const OF_CHILDREN: DetailColumn[] = ['child_run_ids', 'direct_child_run_ids']
const OF_SPAN: DetailColumn[] = ['trace_min_start_time', 'trace_max_start_time']
type Member = { id: string; dotted_order: string; parent_run_id: string | null }

/** Totals of a root are those of its trace. */
async function readTraces(clickHouse: ClickHouse, tenant: string, runs: Found, columns: readonly DetailColumn[]) {
  const totals = TOTALS.filter(column => columns.includes(column))
  const hasSpan = OF_SPAN.some(column => columns.includes(column))
  const hasChildren = OF_CHILDREN.some(column => columns.includes(column))
  const concerned =
    hasSpan || hasChildren ? runs : runs.filter(({ id, trace_id }) => totals.length > 0 && id === trace_id)
  if (concerned.length === 0) return undefined
  const traces = uuids([...new Set(concerned.map(({ trace_id }) => trace_id))])
  const needed = [...totals, 'start_time', ...(hasChildren ? ['dotted_order', 'parent_run_id'] : [])]
  const selected = [
    ...totals.map(column => sql`toString(sum(r.${name(column)}))`),
    sql`toString(min(r.start_time))`,
    sql`toString(max(r.start_time))`,
    ...(hasChildren
      ? [sql`toJSONString(groupArray((toString(r.id), r.dotted_order, toString(r.parent_run_id))))`]
      : []),
  ]
  const rows = await clickHouse.query(sql`
    select toString(r.trace_id), ${join(selected, ', ')}
    from (${selectRuns(tenant, needed, isAt(tenant, traces))}
    ) r
    where r.trace_id in ${traces}
    group by r.trace_id`)
  const byTrace = new Map(rows.map(([trace, ...values]) => [trace!, values]))
  return ({ id, trace_id, dotted_order }: StoredRun): Details => {
    const values = byTrace.get(trace_id) ?? []
    const [min, max, members] = values.slice(totals.length)
    const isRoot = id === trace_id
    return {
      ...(isRoot && Object.fromEntries(totals.map((column, i) => [column, values[i]!]))),
      ...(hasSpan && {
        trace_min_start_time: fromClickHouseTime(min ?? null),
        trace_max_start_time: fromClickHouseTime(max ?? null),
      }),
      ...(hasChildren && childrenOf({ id, dotted_order }, JSON.parse(members ?? '[]'))),
    }
  }
}

function childrenOf(parent: Pick<Member, 'id' | 'dotted_order'>, members: [string, string, string | null][]): Details {
  const below = members
    .map(([id, dotted_order, parent_run_id]) => ({ id, dotted_order, parent_run_id }))
    .filter(({ dotted_order }) => dotted_order.startsWith(`${parent.dotted_order}.`))
    .sort((a, b) => (a.dotted_order < b.dotted_order ? -1 : 1))
  const idsOf = (list: Member[]) => JSON.stringify(list.map(({ id }) => id))
  return {
    child_run_ids: idsOf(below),
    direct_child_run_ids: idsOf(below.filter(({ parent_run_id }) => parent_run_id === parent.id)),
  }
}

// ---- Postgres

const RELATED: { [Name in DetailColumn]?: SQL } = {
  ...RELATED_COLUMNS,
  reference_dataset_id: pg`project.reference_dataset_id`,
}

/**
 * Drops runs of projects that the caller may not read, or that keep long-lived traces for less. Undefined if nothing is
 * asked of Postgres, and the projects are known.
 */
async function readRelated(ctx: Ctx, runs: Found, columns: readonly DetailColumn[], hasProjects: boolean) {
  const related = columns.filter(column => RELATED[column])
  if (hasProjects && related.length === 0) return undefined
  const given = JSON.stringify(
    runs.map(({ id, trace_id, session_id, trace_time, trace_tier }) => ({
      id,
      trace_id,
      session_id,
      trace_time,
      trace_tier,
    })),
  )
  const rows = await run(
    ctx,
    pg<Row>`
      select ${pg.join([pg`r.id`, ...related.map(column => RELATED[column]!)], pg`, `)}
      from json_to_recordset(${given}::json) as r(
        id uuid, trace_id uuid, session_id uuid, trace_time timestamptz, trace_tier text
      )
      join projects project on project.tenant_id = current_tenant() and project.id = r.session_id
      where r.trace_tier = 'shortlived'
        or r.trace_time > clock() - kept_for('shortlived')
        or r.trace_time > clock() - make_interval(days => longlived_days(project.longlived_ttl_days))`,
  )
  return new Map(
    rows.map(([id, ...values]) => [
      id as string,
      Object.fromEntries(related.map((column, i) => [column, values[i]])) as Details,
    ]),
  )
}
