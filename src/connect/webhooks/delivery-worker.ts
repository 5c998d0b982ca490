// Sends the deliveries of webhooks: one at a time for each webhook, first attempts in the order of the events.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { journalTenantEvents, setClock, setRequestId } from '../../kernel/db/journal.ts'
import { AttemptError, drainOutbox, LEASE, type Outbox, type OutboxItem } from '../../kernel/db/outbox.ts'
import { changedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { workInTurns } from '../../kernel/db/worker-pool.ts'
import { pauseUntilAborted } from '../../kernel/http/context.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { createExpiringMap } from '../../kernel/limits/expiring-map.ts'
import type { EventRow } from '../../people/events/rows.ts'
import { eventId } from '../../people/events/rows.ts'
import { storeDueDeliveries } from './due-deliveries.ts'
import { buildPayload } from './payload.ts'
import { type Attempt, type Receiver, sendMessage } from './send.ts'
import { webhooks } from './tables.ts'

/** Seconds before each retry. A random fifth is added. */
const RETRY_SECONDS = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]
const MAX_ATTEMPTS = RETRY_SECONDS.length + 1
const JITTER = 0.2
const DISABLED_AFTER = sql`interval '5 days'`
const GONE = 410
/** The receiver is too slow or too busy for any message. Other failures may be due to one message. */
const BUSY_STATUSES = [429, 502, 503, 504]
const BUSY_ERRORS = ['upstream_timeout', 'upstream_error']
const MAX_PAUSE_S = 300
/** The event is no longer kept: no attempt can succeed, and the receiver is not to blame. */
const EVENT_EXPIRED = 'event_expired'

type Item = OutboxItem & {
  receiver: Receiver
  /** Null if the event is no longer kept. */
  event: EventRow | null
  deployment: unknown
}

class UnansweredError extends AttemptError {
  readonly attempt: Attempt
  constructor(attempt: Attempt) {
    super(attempt.error!, attempt.answer ? `the receiver answered ${attempt.answer.status}` : attempt.error!)
    this.attempt = attempt
  }
}

// ---- one delivery

export const RECEIVER_JSON = sql`json_build_object(
    'id', w.id, 'url', w.url, 'secret', w.secret, 'signing_key', w.signing_key,
    'previous_secret', case when w.previous_secret_until > clock() then w.previous_secret end)`

/** The event `e` as a row, or null. */
export const EVENT_JSON = sql`case when e.seq is not null then to_json(e) end`

/** A retry that is due comes first. Without one, the first attempt of the oldest event. */
const claimDelivery = (webhook: string): SQL<Row> => sql<Row>`
  with w as (
    select *
    from webhooks
    where id = ${webhook}::uuid and enabled and next_send_at <= clock()
    for update
  ),
  due as (
    (
      select d.id, d.attempts, 1 as place
      from w
      join webhook_deliveries d on d.webhook_id = w.id
      where d.state = 'waiting' and d.attempts > 0 and d.next_attempt_at <= clock()
      order by d.next_attempt_at
      limit 1
    )
    union all
    (
      select d.id, d.attempts, 2
      from w
      join webhook_deliveries d on d.webhook_id = w.id
      where d.state = 'waiting' and d.attempts = 0 and d.next_attempt_at <= clock()
      order by d.seq
      limit 1
    )
    order by place
    limit 1
  ),
  claimed as (
    update webhook_deliveries d
    set attempts = d.attempts + 1, next_attempt_at = clock() + ${LEASE}
    from due
    where d.id = due.id and d.state = 'waiting' and d.attempts = due.attempts
    returning d.*
  ),
  leased as (
    update webhooks v
    set next_send_at = clock() + ${LEASE}
    from claimed
    where v.id = claimed.webhook_id
  )
  select json_build_object(
      'id', d.id, 'attempts', d.attempts, 'deployment', d.deployment,
      'receiver', ${RECEIVER_JSON}, 'event', ${EVENT_JSON})::text
  from claimed d
  cross join w
  left join events e on e.scope_id = d.tenant_id and e.seq = d.seq`

/** The columns that describe the last attempt. */
export const setAttempt = ({ headers, answer, duration_ms, error }: Attempt): SQL => sql`
      attempted_at = clock(),
      request_headers = ${JSON.stringify(headers)}::json,
      answer_status = ${answer?.status ?? null}::integer,
      answer_body = ${answer?.body ?? null},
      duration_ms = ${duration_ms}::integer,
      error = ${error}`

/** A redelivery may have succeeded meanwhile, but this worker still holds the webhook. */
const ownAttempt = ({ id, attempts }: Item): SQL => sql`own as (
    select webhook_id
    from webhook_deliveries
    where id = ${id}::uuid and attempts = ${attempts}
  )`
const isOwnAttempt = ({ id, attempts }: Item): SQL =>
  sql`id = ${id}::uuid and attempts = ${attempts} and state = 'waiting'`

async function attemptDelivery(services: Services, { receiver, event, deployment }: Item): Promise<Attempt> {
  if (!event) throw new AttemptError(EVENT_EXPIRED)
  const body = buildPayload(configuredOrigin(services.config), event, deployment)
  const attempt = await sendMessage(services, receiver, eventId(event), body)
  if (attempt.error !== null) throw new UnansweredError(attempt)
  return attempt
}

const markDelivered = (item: Item, attempt: Attempt): SQL => sql`
  with ${ownAttempt(item)},
  delivered as (
    update webhook_deliveries
    set state = 'delivered', next_attempt_at = null, ${setAttempt(attempt)}
    where ${isOwnAttempt(item)}
  )
  update webhooks w
  set next_send_at = clock(), failing_since = null, throttled = 0
  from own
  where w.id = own.webhook_id`

const OUTBOX: Outbox<Item, Attempt> = {
  maxAttempts: MAX_ATTEMPTS,
  work: attemptDelivery,
  markDone: markDelivered,
  markFailed: (item, { code, isLast, nextAttemptAt, error }) => {
    const isExpired = code === EVENT_EXPIRED
    const isOver = isLast || isExpired
    const attempt = error instanceof UnansweredError ? error.attempt : undefined
    const isBusy =
      BUSY_ERRORS.includes(code) || (attempt?.answer != null && BUSY_STATUSES.includes(attempt.answer.status))
    const endsReason = sql`case
        when ${attempt?.answer?.status === GONE} then 'gone'
        when ${!isExpired} and w.failing_since < clock() - ${DISABLED_AFTER} then 'failing'
      end`
    const backoff = sql`least(${MAX_PAUSE_S}, power(2, least(w.throttled, 9)))`
    const pause = isBusy ? sql`greatest(${attempt?.retryAfter ?? 0}, ${backoff})` : sql`0`
    const failed = sql`
      with ${ownAttempt(item)},
      failed as (
        update webhook_deliveries
        set state = ${isOver ? 'failed' : 'waiting'},
          next_attempt_at = ${isOver ? sql`null` : nextAttemptAt},
          ${attempt ? setAttempt(attempt) : sql`attempted_at = clock(), error = ${code}`}
        where ${isOwnAttempt(item)}
      ),
      held as (
        select w.id, ${endsReason} as reason, w.enabled as was_enabled
        from webhooks w
        join own on w.id = own.webhook_id
        for update of w
      ),
      noted as (
        update webhooks w
        set next_send_at = clock() + ${pause} * interval '1 second',
          throttled = ${isBusy ? sql`w.throttled + 1` : sql`0`},
          failing_since = ${isExpired ? sql`w.failing_since` : sql`coalesce(w.failing_since, clock())`},
          enabled = w.enabled and h.reason is null,
          disabled_reason = case when w.enabled then h.reason else w.disabled_reason end,
          disabled_at = case when w.enabled and h.reason is not null then clock() else w.disabled_at end,
          version = w.version + case when w.enabled and h.reason is not null then 1 else 0 end
        from held h
        where w.id = h.id
        returning w.*, h.was_enabled
      )
      select ${journalTenantEvents(sql`
        select tenant_id, organization_id, 'webhook.disabled' as type, id as subject_id,
          json_build_object('reason', disabled_reason, 'failing_since', failing_since) as data,
          ${changedMembers(webhooks, recordColumns(webhooks, ['enabled']), sql`noted`)} as changes
        from noted
        where was_enabled and not enabled`)}`
    return [setRequestId(`webhook-${item.id}`), failed]
  },
  logMembers: ({ id, receiver }) => ({ webhook: receiver.id, delivery: id }),
  backoff: (attempts, error) => {
    const seconds = RETRY_SECONDS[attempts - 1] ?? 0
    const retryAfter = error instanceof UnansweredError ? error.attempt.retryAfter : 0
    return Math.max(retryAfter, Math.round(seconds * (1 + JITTER * Math.random())))
  },
}

// ---- all that are due

const MAX_WEBHOOKS = 500
const MAX_CONCURRENT = 8

/** The webhooks with something to send: of each workspace the one that waits longest, then the second of each. */
const listDue = (condition: SQL): SQL<Row> => sql<Row>`
  select w.id, w.tenant_id
  from webhooks w
  join journals j on j.scope_id = w.tenant_id
  where w.enabled
    and w.next_send_at <= clock()
    and ${condition}
    and (
      j.seq > w.position
      or exists (
        select from webhook_deliveries d
        where d.webhook_id = w.id and d.state = 'waiting' and d.next_attempt_at <= clock()
      )
    )
  order by row_number() over (partition by w.tenant_id order by w.next_send_at), w.next_send_at
  limit ${MAX_WEBHOOKS}`

export async function deliverDue(services: Services, condition: SQL, maxItems?: number): Promise<void> {
  const { platform, database } = services
  const [, rows] = (await runAsSystem(database, setClock(platform), listDue(condition))) as [
    unknown,
    [string, string][],
  ]
  const due = rows.map(([id, workspace]) => ({ id, workspace }))
  const itemsOfEach = maxItems && Math.max(1, Math.floor(maxItems / due.length))
  await workInTurns(maxItems ? due.slice(0, maxItems) : due, {
    maxConcurrent: MAX_CONCURRENT,
    stopping: platform.stopping,
    work: ({ id }) =>
      drainOutbox(services, OUTBOX, {
        claim: claimDelivery(id),
        beforeClaim: [storeDueDeliveries(sql`${id}::uuid`)],
        maxConcurrent: 1,
        ...(itemsOfEach && { maxItems: itemsOfEach }),
      }),
  })
}

/** Writes of a workspace within this time share a look, so that many writes do not use up the database connections. */
const GATHER_MS = 20
/** A host may drop the request that gathers. */
const GATHER_EXPIRY_MS = 1000
const MAX_GATHERING = 10_000

/** Runs in the process that wrote the events, after its response. The schedule sends the rest. */
export function createEventDeliverer(services: Services): (tenant: string) => Promise<void> {
  const { platform } = services
  const gathering = createExpiringMap<true>(MAX_GATHERING, Date.now)
  return async tenant => {
    if (platform.deliveriesPerRequest === 0 || gathering.get(tenant)) return
    gathering.set(tenant, true, GATHER_EXPIRY_MS)
    await pauseUntilAborted(GATHER_MS)
    gathering.delete(tenant)
    try {
      await deliverDue(services, sql`w.tenant_id = ${tenant}::uuid`, platform.deliveriesPerRequest)
    } catch (error) {
      platform.log({ level: 'warn', tenant, error: 'webhooks not delivered', message: String(error) })
    }
  }
}
