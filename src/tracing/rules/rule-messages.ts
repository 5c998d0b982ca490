// Sends the webhooks of rules, signed as in Standard Webhooks, to each rule's URLs.
import { type SQL, sql } from 'drizzle-orm'
import { postMessage } from '../../connect/webhooks/send.ts'
import { type Row, run, uuidArray } from '../../kernel/db/db.ts'
import { AttemptError, drainOutbox, type Outbox, type OutboxItem } from '../../kernel/db/outbox.ts'
import { workInTurns } from '../../kernel/db/worker-pool.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { rawJson, writeJson } from '../../kernel/json/raw-json.ts'
import { messageHeaders, signBySecret } from '../../protocol/webhook-signing.ts'
import { PAGE_PAYLOAD_BYTES } from '../runs/object-links.ts'
import { columnsOf, DEFAULT_SELECT } from '../runs/run-wire.ts'
import { showRuns } from '../runs/runs.ts'
import { feedbackStats } from '../store/postgres/feedback-stats.ts'
import { actAsRule } from './claimed-rule.ts'
import { claimNext, isOwnAttempt, listDueRules, type RuleWork } from './due-work.ts'
import { HEADER_PLACE, type RuleWebhook, SECRET_PLACE } from './tables.ts'

/** Two of the attempts are repeats, after a connection that failed or an answer of 500 and more. */
const MAX_ATTEMPTS = 3
const TIMEOUT_MS = 5000
const MAX_CONCURRENT = 8
/** The limit of one rule in a sweep, so that a slow receiver does not take the time of the others. */
const DELIVERIES_PER_RULE = 20

type Delivery = OutboxItem & {
  rule: { id: string; organization_id: string; tenant_id: string; display_name: string; secret: string }
  /** Null if the rule does not have it any more. */
  webhook: RuleWebhook | null
  run_ids: string[]
  start_time: string
  end_time: string
}
type Post = { url: string; headers: Record<string, string>; body: string }

class UnansweredError extends AttemptError {
  readonly status: number | null
  readonly isFinal: boolean
  constructor(code: string, status: number | null, isFinal: boolean) {
    super(code, status === null ? code : `the receiver answered ${status}`)
    this.status = status
    this.isFinal = isFinal
  }
}

const DELIVERIES: RuleWork = { table: 'rule_deliveries', lastAt: 'last_sent_at' }

const claimDelivery = (rule: string): SQL<Row> => sql<Row>`
  with ${claimNext(DELIVERIES, rule)}
  select json_build_object(
      'id', d.id, 'attempts', d.attempts, 'run_ids', d.run_ids, 'start_time', d.start_time, 'end_time', d.end_time,
      'webhook', (select w from json_array_elements(r.webhooks) w where w ->> 'id' = d.target_id::text),
      'rule', json_build_object(
        'id', r.id, 'organization_id', r.organization_id, 'tenant_id', r.tenant_id, 'display_name', r.display_name,
        'secret', r.webhook_secret
      )
    )::text
  from claimed d
  join run_rules r on r.id = d.rule_id`

const OUTBOX: Outbox<Delivery, number> = {
  maxAttempts: MAX_ATTEMPTS,
  work: sendDelivery,
  markDone: (item, status) => sql`
    update rule_deliveries
    set state = 'delivered', next_attempt_at = null, attempted_at = clock(), answer_status = ${status}, error = null
    where ${isOwnAttempt(item)}`,
  markFailed: (item, { code, isLast, nextAttemptAt, error }) => {
    const isOver = isLast || !(error instanceof UnansweredError) || error.isFinal
    const status = error instanceof UnansweredError ? error.status : null
    return sql`
      update rule_deliveries
      set state = ${isOver ? 'failed' : 'waiting'}, next_attempt_at = ${isOver ? sql`null` : nextAttemptAt},
        attempted_at = clock(), answer_status = ${status}::integer, error = ${code}
      where ${isOwnAttempt(item)}`
  },
  logMembers: ({ id, rule }) => ({ rule: rule.id, delivery: id }),
}

async function sendDelivery(services: Services, item: Delivery): Promise<number> {
  const { url, headers, body } = await writeMessage(services, item)
  const { answer, error } = await postMessage(services, url, headers, body, TIMEOUT_MS)
  if (error === null) return answer!.status
  const isBusy = answer !== null && answer.status >= 500
  throw new UnansweredError(error, answer?.status ?? null, !isBusy && error !== 'upstream_error')
}

async function writeMessage(services: Services, item: Delivery): Promise<Post> {
  const { id, rule, webhook } = item
  if (!webhook) throw new UnansweredError('webhook_removed', null, true)
  const { sealer } = services
  const body = await buildBody(services, item)
  const message = { id, timestamp: Math.floor(Date.now() / 1000), body }
  const signature = await signBySecret(await sealer.open(rule.secret, rule.id, SECRET_PLACE), message)
  const open = async ([name, sealed]: [string, string]) =>
    [name, await sealer.open(sealed, rule.id, HEADER_PLACE)] as const
  const own = Object.fromEntries(await Promise.all(Object.entries(webhook.headers).map(open)))
  return { url: webhook.url, headers: { ...own, ...messageHeaders(message, [signature]) }, body }
}

/** The runs as they are now. Long payloads are included up to a limit, and otherwise behind signed URLs. */
async function buildBody(services: Services, { rule, run_ids, start_time, end_time }: Delivery): Promise<string> {
  const ctx = actAsRule(services, rule)
  const query = { ids: run_ids, order: 'asc' as const, limit: run_ids.length, columns: columnsOf(DEFAULT_SELECT) }
  const { runs } = await ctx.traces.query(ctx, query)
  if (runs.length === 0) throw new UnansweredError('runs_expired', null, true)
  const [shown, stats] = await Promise.all([
    showRuns(ctx, runs, DEFAULT_SELECT, PAGE_PAYLOAD_BYTES),
    run(ctx, sql<Row>`select ${feedbackStats(sql`f.run_id = any(${uuidArray(run_ids)})`)}::text`),
  ])
  const feedback_stats = rawJson((stats[0]![0] as string | null) ?? '{}')
  return writeJson({ rule_id: rule.id, start_time, end_time, runs: shown, feedback_stats })
}

export async function sendRuleWebhooks(services: Services, condition: SQL = sql`true`): Promise<void> {
  const due = await listDueRules(services, DELIVERIES, condition)
  await workInTurns(due, {
    maxConcurrent: MAX_CONCURRENT,
    stopping: services.platform.stopping,
    work: ({ id }) =>
      drainOutbox(services, OUTBOX, { claim: claimDelivery(id), maxConcurrent: 1, maxItems: DELIVERIES_PER_RULE }),
  })
}
