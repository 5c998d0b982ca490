// Pages of the audit log: writes of the journal and attempts, merged in the order of time, in one statement.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, run, textArray } from '../../kernel/db/db.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { type AuditRow, toApiActivity } from './items.ts'
import { eventTypesOf } from './operation-names.ts'
import { type AuditCursor, type AuditFilter, type AuditQuery, encodeCursor } from './schema.ts'

/** Takes the place of a journal in the order of attempts. */
const ATTEMPTS_SCOPE = '00000000-0000-0000-0000-000000000000'
const MAX_EVENTS_OF_WRITE = 1000

type PageRequest = { filter: AuditFilter; after: AuditCursor | undefined; limit: number; order: 'newest' | 'oldest' }

export const listAuditLogs = verb('audit-logs:read', async (ctx, { limit, cursor, ...filter }: AuditQuery) => {
  const rows = await readAuditRows(ctx, { filter, after: cursor, limit: limit + 1, order: 'newest' })
  const page = rows.slice(0, limit)
  return { cursor: rows.length > limit ? encodeCursor(cursorOf(page.at(-1)!)) : null, items: page.map(toApiActivity) }
})

/** The trip checks the key and its permission. */
export const createOperationList = (names: readonly string[]) =>
  verb('audit-logs:read', async ctx => {
    requireAuditLogs(ctx)
    await run(ctx, sql`select 1`)
    return { operations: [...names] }
  })

export const cursorOf = ({ created_at, scope_id, number }: AuditRow): AuditCursor => ({
  at: created_at,
  scope: scope_id,
  number,
})

function requireAuditLogs({ config }: Pick<Ctx, 'config'>): void {
  if (!config.auditLogs) throw fail('audit_logs_off')
}

/** With a filter that few events match, Postgres would read the whole table rather than the narrow index in order. */
const PREFER_INDEXES = sql`
  select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)`

export async function readAuditRows(ctx: Ctx, page: PageRequest): Promise<AuditRow[]> {
  requireAuditLogs(ctx)
  const rows = await run(ctx, auditPageQuery(page), PREFER_INDEXES)
  return rows.map(([row]) => JSON.parse(row as string) as AuditRow)
}

function auditPageQuery({ filter, after, limit, order }: PageRequest): SQL<Row> {
  const { start_time, end_time, workspace_id, actor_id, subject_id, operations, succeeded } = filter
  const direction = order === 'newest' ? sql`desc` : sql`asc`
  const beyond = order === 'newest' ? sql`<` : sql`>`
  const within = (conditions: (SQL | undefined | false)[]) =>
    sql.join(
      [
        sql`organization_id = current_organization()`,
        sql`created_at >= ${start_time}::timestamptz`,
        // An end of milliseconds includes the microseconds of that millisecond.
        sql`created_at < ${end_time}::timestamptz + interval '1 millisecond'`,
        actor_id !== undefined && sql`actor_id = ${actor_id}::uuid`,
        ...conditions,
      ].filter(condition => condition !== undefined && condition !== false),
      sql` and `,
    )
  const afterCursor = (scope: SQL, number: SQL) =>
    after &&
    sql`(created_at, ${scope}, ${number})
      ${beyond} (${after.at}::timestamptz, ${after.scope}::uuid, ${after.number}::bigint)`
  const scopeOfAttempts = sql`'${sql.raw(ATTEMPTS_SCOPE)}'::uuid`

  return sql<Row>`
    with matching_writes as (
      select scope_id, seq
      from events
      where ${within([
        sql`part_of is null`,
        workspace_id !== undefined && sql`scope_id = ${workspace_id}::uuid`,
        operations && sql`type = any(${textArray(eventTypesOf(operations))})`,
        subject_id !== undefined && changedSubject(subject_id),
        // A write that is in a journal has succeeded.
        succeeded === false && sql`false`,
        afterCursor(sql`scope_id`, sql`seq`),
      ])}
      order by created_at ${direction}, scope_id ${direction}, seq ${direction}
      limit ${limit}
    ),
    writes as (
      select
        created_at, scope_id, seq as number, organization_id, tenant_id, type, null::text as operation,
        null::integer as status, null::text as code, 0 as left_out, actor_kind, actor_id, actor_name, request_id,
        request, subject_id, data, changes
      from events
      join matching_writes using (scope_id, seq)
    ),
    attempts as (
      select
        created_at, ${scopeOfAttempts} as scope_id, id as number, organization_id, tenant_id, null::text as type,
        operation, status, code, left_out, actor_kind, actor_id, actor_name, request_id,
        request, null::uuid as subject_id, null::json as data, null::json as changes
      from audit_attempts
      where ${within([
        workspace_id !== undefined && sql`tenant_id = ${workspace_id}::uuid`,
        operations && sql`operation = any(${textArray(operations)})`,
        // An attempt changed no resource.
        subject_id !== undefined && sql`false`,
        succeeded !== undefined && (succeeded ? sql`status < 400` : sql`status >= 400`),
        afterCursor(scopeOfAttempts, sql`id`),
      ])}
      order by created_at ${direction}, id ${direction}
      limit ${limit}
    ),
    page as (
      select * from writes
      union all
      select * from attempts
      order by created_at ${direction}, scope_id ${direction}, number ${direction}
      limit ${limit}
    )
    select json_build_object(
      'created_at', created_at::text,
      'scope_id', scope_id,
      'number', number,
      'organization_id', organization_id,
      'tenant_id', tenant_id,
      'type', type,
      'operation', operation,
      'status', status,
      'code', code,
      'left_out', left_out,
      'actor_kind', actor_kind,
      'actor_id', actor_id,
      'actor_name', actor_name,
      'request_id', request_id,
      'request', request,
      'events', ${EVENTS_OF_WRITE}
    )::text
    from page
    order by page.created_at ${direction}, page.scope_id ${direction}, page.number ${direction}`
}

/**
 * The first event of a write has the number that the others name in `part_of`. With `coalesce()`, row-level security
 * would keep the number from the index: Postgres does not know that it reveals nothing.
 */
const changedSubject = (subject_id: string): SQL => sql`(scope_id, seq) in (
          select s.scope_id, case when s.part_of is null then s.seq else s.part_of end
          from events s
          where s.subject_id = ${subject_id}::uuid and s.organization_id = current_organization()
        )`

const EVENTS_OF_WRITE = sql`case when type is null then '[]'::json else (
        select json_agg(json_build_object(
          'number', e.number, 'type', e.type, 'subject_id', e.subject_id, 'data', e.data, 'changes', e.changes
        ) order by e.number)
        from (
          select page.number, page.type, page.subject_id, page.data, page.changes
          union all
          (
            select p.seq, p.type, p.subject_id, p.data, p.changes
            from events p
            where p.scope_id = page.scope_id and p.part_of = page.number
              and p.organization_id = current_organization()
            order by p.seq
            limit ${sql.raw(String(MAX_EVENTS_OF_WRITE))}
          )
        ) e
      ) end`
