// Lists and reads incidents, and acknowledges and resolves them by hand.
import { and, eq, getTableColumns, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { db, inTenant, lockRows, run } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { afterCursor, newestFirst, readPage } from '../../kernel/http/paging.ts'
import type * as schema from './schema.ts'
import { incidents } from './tables.ts'

type IncidentParams = z.output<typeof schema.IncidentRef>
type IncidentRow = typeof incidents.$inferSelect
type ChangeRow = schema.IncidentDetails['history'][number]

/** A mute without an end. */
const FOREVER = 'infinity'

const toWire = (row: IncidentRow): schema.Incident => ({
  id: row.id,
  state: row.state,
  severity: row.severity,
  title: row.title,
  cause: row.cause,
  rule: { id: row.rule_id, name: row.rule_name },
  run_rule_id: row.run_rule_id,
  subject: { type: row.subject_type, id: row.subject_id, name: row.subject_name },
  value: row.value === null ? null : Number(row.value),
  reopened: row.reopened,
  muted_until: row.muted_until === FOREVER ? LATEST : toIsoTime(row.muted_until),
  is_told: row.is_told,
  opened_at: toIsoTime(row.opened_at),
  last_at: toIsoTime(row.last_at),
  resolved_at: toIsoTime(row.resolved_at),
})
const LATEST = '9999-12-31T23:59:59.000Z'

const isIncident = ({ incident_id }: IncidentParams | Placeholders<IncidentParams>): SQL =>
  and(eq(incidents.id, incident_id), inTenant(incidents))!

type IncidentPage = z.output<typeof schema.IncidentQuery>
const pageStatement = prepareStatement((page: Placeholders<IncidentPage>) =>
  db
    .select()
    .from(incidents)
    .where(
      and(
        inTenant(incidents),
        page.state &&
          sql`case ${page.state}::text
            when 'unresolved' then ${incidents.state} <> 'resolved'
            else ${incidents.state} = ${page.state}
          end`,
        page.severity && sql`${incidents.severity} = ${page.severity}`,
        page.rule_id && eq(incidents.rule_id, page.rule_id),
        page.deployment_id && eq(incidents.deployment_id, page.deployment_id),
        afterCursor(incidents, page),
      ),
    )
    .orderBy(...newestFirst(incidents))
    .limit(page.limit)
    .offset(page.offset),
)

export const listIncidents = verb(
  'alerts:read',
  (ctx, page: IncidentPage) => readPage(ctx, pageStatement, page, toWire),
  { byPolicy: true },
)

const HISTORY = sql<ChangeRow[]>`(
    select coalesce(json_agg(json_build_object(
        'id', c.id, 'kind', c.kind, 'value', c.value, 'message', c.message, 'actor_id', c.actor_id,
        'actor_name', c.actor_name, 'created_at', c.created_at
      ) order by c.created_at, c.id), '[]')
    from (
      select *
      from incident_changes h
      where h.incident_id = incidents.id and h.tenant_id = current_tenant()
      order by h.created_at desc, h.id desc
      limit 100
    ) c
  )`
const DETAILS = { ...getTableColumns(incidents), history: HISTORY.as('history') }
type DetailsRow = IncidentRow & { history: ChangeRow[] | string }

const toDetails = (row: DetailsRow): schema.IncidentDetails => {
  const { facts, lines, chart } = row.evidence
  const history: ChangeRow[] = typeof row.history === 'string' ? JSON.parse(row.history) : row.history
  return {
    ...toWire(row),
    evidence: { facts, lines, chart: chart ?? null },
    history: history.map(change => ({ ...change, created_at: toIsoTime(change.created_at) })),
  }
}

const incidentStatement = prepareStatement((ref: Placeholders<IncidentParams>) =>
  db.select(DETAILS).from(incidents).where(isIncident(ref)),
)

export const readIncident = verb(
  'alerts:read',
  async (ctx, ref: IncidentParams) =>
    toDetails(requireRow(await run(ctx, incidentStatement(ref)), 'incident_not_found')),
  { byPolicy: true },
)

const ABOUT = sql`json_strip_nulls(json_build_object(
    'title', changed.title, 'deployment_id', changed.deployment_id, 'project_id', changed.project_id
  ))`

/** The function changes the row after the statement began, so the statement sees the row as it was before. */
async function move(ctx: Ctx, ref: IncidentParams, type: string, change: SQL<IncidentRow>): Promise<schema.Incident> {
  const event = sql`case
    when changed.state <> (select b.state from incidents b where b.id = changed.id) then ${type}
  end`
  const parts = {
    lock: lockRows(incidents, isIncident(ref)),
    changes: changedMembers(incidents, recordColumns(incidents, ['state'])),
  }
  return toWire(requireRow(await commit(ctx, event, change, ABOUT, parts), 'incident_not_found'))
}

type Note = { message?: string | null | undefined }

export const acknowledgeIncident = verb(
  'alerts:manage',
  (ctx, { incident_id, message = null }: IncidentParams & Note) =>
    move(
      ctx,
      { incident_id },
      'incident.acknowledged',
      sql<IncidentRow>`select * from acknowledge_incident(${incident_id}::uuid, ${message})`,
    ),
  { byPolicy: true },
)

export const resolveIncident = verb(
  'alerts:manage',
  (ctx, { incident_id, message = null }: IncidentParams & Note) =>
    move(
      ctx,
      { incident_id },
      'incident.resolved',
      sql<IncidentRow>`select * from resolve_incident_by_hand(${incident_id}::uuid, ${message})`,
    ),
  { byPolicy: true },
)
