// Logs of rules: their actions on runs.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { formatCursor } from '../../protocol/wire.ts'
import type * as schema from './schema.ts'
import type { RuleOutcomes, StoredVerdict } from './tables.ts'

type RuleParams = z.output<typeof schema.RuleRef>

type Delivery = {
  id: string
  url: string | null
  state: 'waiting' | 'delivered' | 'failed'
  attempts: number
  answer_status: number | null
  error: string | null
}
/** A notice of an alert. */
type Notice = Pick<Delivery, 'id' | 'attempts' | 'answer_status' | 'error'> & { state: Delivery['state'] | 'dropped' }
type Evaluation = {
  id: string
  evaluator_id: string
  state: 'waiting' | 'done' | 'skipped' | 'failed'
  attempts: number
  verdicts: StoredVerdict[] | null
  call_run_id: string | null
  cost_usd: number | null
  error: string | null
  message: string | null
}
type LogRow = {
  run_id: string
  run_name: string | null
  run_type: string | null
  run_session_id: string
  thread_id: string | null
  start_time: string
  end_time: string
  created_at: string
  /** `created_at` as a cursor has it. */
  place: string
  outcomes: RuleOutcomes
  deliveries: Delivery[] | null
  notices: Notice[] | null
  is_disabled: boolean
  evaluations: Evaluation[] | null
}

const DELIVERIES = sql`(
  select json_agg(json_build_object(
    'id', d.id, 'state', d.state, 'attempts', d.attempts, 'answer_status', d.answer_status,
    'error', d.error, 'url', (
      select w ->> 'url'
      from json_array_elements(r.webhooks) w
      where w ->> 'id' = d.target_id::text
    )
  ) order by d.id)
  from rule_deliveries d
  where d.id = any(a.delivery_ids) and d.rule_id = a.rule_id and d.tenant_id = current_tenant() and d.kind = 'webhook'
)`

/** The notices that told of the incident. They go with an alert that the rule no longer has. */
const NOTICES = sql`(
  select json_agg(json_build_object(
    'id', n.id, 'state', n.state, 'attempts', n.attempts, 'answer_status', n.answer_status, 'error', n.error
  ) order by n.id)
  from channels c
  join notices n on n.channel_id = c.id and n.thread = a.outcomes #>> '{alert, incident_id}'
    and n.sequence = (a.outcomes #>> '{alert, sequence}')::bigint
  where c.run_rule_id = a.rule_id and c.tenant_id = current_tenant()
)`

/** PagerDuty has taken nothing for days. */
const IS_DISABLED = sql`exists (
  select from channels c
  where c.run_rule_id = a.rule_id and c.tenant_id = current_tenant() and not c.enabled
)`

const EVALUATIONS = sql`(
  select json_agg(json_build_object(
    'id', e.id, 'evaluator_id', e.evaluator_id, 'state', e.state, 'attempts', e.attempts, 'verdicts', e.verdicts,
    'call_run_id', e.call_run_id, 'cost_usd', e.cost_usd, 'error', e.error, 'message', e.message
  ) order by e.evaluator_id)
  from rule_evaluations e
  where e.rule_id = a.rule_id and e.run_id = a.run_id and e.tenant_id = current_tenant()
)`

/** Selects from the rule, to tell an unknown rule from one that has done nothing. */
const selectLogs = (rule: string, condition: SQL, page: SQL): SQL<Row> => sql<Row>`
  select to_json(l)::text
  from run_rules r
  left join lateral (
    select
      a.run_id, a.run_name, a.run_type, a.run_session_id, a.thread_id, a.created_at, a.outcomes,
      coalesce(a.start_time, a.created_at) as start_time, coalesce(a.end_time, a.start_time, a.created_at) as end_time,
      a.created_at::text as place, ${DELIVERIES} as deliveries,
      ${NOTICES} as notices, ${IS_DISABLED} as is_disabled, ${EVALUATIONS} as evaluations
    from rule_applications a
    where a.rule_id = r.id and a.tenant_id = current_tenant() and ${condition}
    order by a.created_at desc, a.run_id desc
    ${page}
  ) l on true
  where r.id = ${rule}::uuid and r.tenant_id = current_tenant()`

function toWire(rule_id: string, row: LogRow): schema.RuleLog {
  const { run_id, run_name, run_type, run_session_id, thread_id, outcomes } = row
  const show = ({ outcome, payload = null }: NonNullable<RuleOutcomes['extend_only']>) => ({ outcome, payload })
  const { add_to_annotation_queue, add_to_dataset, extend_only } = outcomes
  return {
    rule_id,
    run_id,
    run_name,
    run_type,
    run_session_id,
    thread_id,
    start_time: toIsoTime(row.start_time),
    end_time: toIsoTime(row.end_time),
    application_time: toIsoTime(row.created_at),
    add_to_annotation_queue: add_to_annotation_queue ? show(add_to_annotation_queue) : null,
    add_to_dataset: add_to_dataset ? show(add_to_dataset) : null,
    evaluators: judgedOf(row.evaluations),
    alerts: toldOf(outcomes.alert, row),
    webhooks: sentOf(row.deliveries),
    extend_only: extend_only ? show(extend_only) : null,
  }
}

type Sent = Pick<Delivery, 'id'> & { state: Notice['state'] }

/** Null while some of it is still to be sent. */
function sentOf(sent: Sent[] | null, members: object = {}): schema.RuleLog['webhooks'] {
  if (!sent || sent.some(({ state }) => state === 'waiting')) return null
  const outcome = sent.some(({ state }) => state === 'failed') ? 'error' : 'success'
  return { outcome, payload: { ...members, deliveries: sent.map(({ id, ...one }) => ({ message_id: id, ...one })) } }
}

/** A disabled alert is sent again once `alerts` of the rule are set anew. */
function toldOf(alert: RuleOutcomes['alert'], { notices, is_disabled }: LogRow): schema.RuleLog['alerts'] {
  if (!alert) return null
  const { incident_id, sequence } = alert
  if (sequence === null) return { outcome: 'skipped', payload: { incident_id, reason: 'not_told' } }
  const reason = is_disabled ? 'alert_disabled' : 'alert_removed'
  if (!notices) return { outcome: 'error', payload: { incident_id, reason, deliveries: [] } }
  return sentOf(notices, { incident_id })
}

/** An evaluator that failed shows before one that was skipped. Null while one is still to be asked. */
function judgedOf(evaluations: Evaluation[] | null): schema.RuleLog['evaluators'] {
  if (!evaluations || evaluations.some(({ state }) => state === 'waiting')) return null
  const states = evaluations.map(({ state }) => state)
  const outcome = states.includes('failed') ? 'error' : states.includes('done') ? 'success' : 'skipped'
  const told = evaluations.find(({ state }) => state === 'failed') ?? evaluations.find(({ error }) => error !== null)
  return {
    outcome,
    payload: {
      ...(told && { reason: told.error, ...(told.message && { message: told.message }) }),
      evaluations: evaluations.map(({ id: _, verdicts, call_run_id, ...one }) => ({
        ...one,
        evaluation_run_id: call_run_id,
        feedback: verdicts ?? [],
      })),
    },
  }
}

type LogFilter = Pick<schema.LogQuery, 'start_time' | 'end_time' | 'session_id'>

const matches = ({ start_time, end_time, session_id }: LogFilter): SQL =>
  sql`(${start_time ?? null}::timestamptz is null or a.created_at >= ${start_time ?? null})
      and (${end_time ?? null}::timestamptz is null or a.created_at < ${end_time ?? null})
      and (${session_id ?? null}::uuid is null or a.run_session_id = ${session_id ?? null})`

async function readLogs(ctx: Ctx, rule_id: string, condition: SQL, page: SQL): Promise<LogRow[]> {
  const rows = await run(ctx, selectLogs(rule_id, condition, page))
  requireRow(rows, 'rule_not_found')
  return rows.flatMap(([text]) => (text === null ? [] : [JSON.parse(text as string) as LogRow]))
}

export const listRuleLogs = verb('rules:read', async (ctx, { rule_id, ...query }: RuleParams & schema.LogQuery) => {
  const page = sql`limit ${query.limit} offset ${query.offset}`
  return (await readLogs(ctx, rule_id, matches(query), page)).map(row => toWire(rule_id, row))
})

export const pageRuleLogs = verb(
  'rules:read',
  async (
    ctx,
    { rule_id, cursor, backfill, ...query }: RuleParams & schema.LogPageQuery,
  ): Promise<schema.RuleLogPage> => {
    const after = cursor ? sql`(a.created_at, a.run_id) < (${cursor.at}::timestamptz, ${cursor.id}::uuid)` : sql`true`
    const condition = sql`${matches(query)} and ${after} and ${backfill ? sql`a.is_backfill` : sql`true`}`
    const rows = await readLogs(ctx, rule_id, condition, sql`limit ${query.limit + 1}`)
    const logs = rows.slice(0, query.limit)
    const has_more = rows.length > logs.length
    const last = logs.at(-1)
    return {
      logs: logs.map(row => toWire(rule_id, row)),
      cursor: has_more ? formatCursor({ at: last!.place, id: last!.run_id }) : null,
      has_more,
    }
  },
)

export const readLastApplied = verb(
  'rules:read',
  async (ctx, { rule_id, backfill }: RuleParams & z.output<typeof schema.BackfillFlag>) => {
    const condition = backfill ? sql`a.is_backfill` : sql`true`
    const rows = await readLogs(ctx, rule_id, condition, sql`limit 1`)
    return toWire(rule_id, requireRow(rows, 'rule_not_applied'))
  },
)
