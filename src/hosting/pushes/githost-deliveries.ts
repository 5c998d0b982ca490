// Webhook deliveries: each is stored once, processed after it was answered, and retried by the schedule.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { attemptItem, drainInTurns, LEASE, listInTurns, type Outbox, type OutboxItem } from '../../kernel/db/outbox.ts'
import { deleteExpired } from '../../kernel/db/sweep.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { handlePullRequest } from '../previews/pull-requests.ts'
import { findIntegration } from './find-integration.ts'
import { handleInstallation } from './installation-deliveries.ts'
import { handlePush } from './pushes.ts'
import type { HostEvent } from './webhook-payloads.ts'

/** The column `event`: `origin` is the origin at which the host reached this installation, `request` is for events. */
type StoredEvent = { event: HostEvent; origin: string; request?: string | null }
type NewDelivery = StoredEvent & { receiver: string; delivery_id: string }
export type Delivery = OutboxItem & { receiver: string; stored: StoredEvent }

const MAX_ATTEMPTS = 10
/** Longer than any host allows a delivery to be redelivered. */
const RETENTION = sql`interval '7 days'`
const MAX_CONCURRENT = 8
/** Consecutive attempts without a stored outcome: a delivery that crashes its worker must not stop every replica. */
const MAX_UNFINISHED = 3

/** Null where the delivery is stored already. A failed one is accepted again when the host redelivers it. */
export async function storeDelivery(services: Services, { receiver, delivery_id, ...stored }: NewDelivery) {
  const statement = sql<Row>`
    insert into githost_deliveries as d (receiver, delivery_id, event, unfinished_attempts, next_attempt_at)
    values (${receiver}, ${delivery_id}, ${JSON.stringify(stored)}::json, 1, clock() + ${LEASE})
    on conflict on constraint githost_deliveries_one do update
      set state = 'waiting',
        attempts = 1,
        unfinished_attempts = 1,
        next_attempt_at = excluded.next_attempt_at,
        error = null
      where d.state = 'failed'
    returning d.id`
  const [, [row]] = (await runAsSystem(services.database, setClock(services.platform), statement)) as [unknown, Row[]]
  return row ? ({ id: row[0] as string, receiver, stored, attempts: 1 } satisfies Delivery) : null
}

const isOwnAttempt = ({ id, attempts }: Delivery): SQL => sql`id = ${id}::uuid and attempts = ${attempts}`
const requestIdOf = (id: string) => `delivery-${id}`

const OUTBOX: Outbox<Delivery> = {
  maxAttempts: MAX_ATTEMPTS,
  work: handleEvent,
  markDone: delivery => sql`
    update githost_deliveries
    set state = 'done', error = null, unfinished_attempts = 0
    where ${isOwnAttempt(delivery)}`,
  markFailed: (delivery, { code, isLast, nextAttemptAt }) => sql`
    update githost_deliveries
    set state = ${isLast ? 'failed' : 'waiting'},
      error = ${code},
      unfinished_attempts = 0,
      next_attempt_at = ${nextAttemptAt}
    where ${isOwnAttempt(delivery)} and state = 'waiting'`,
  logMembers: ({ id }) => ({ request_id: requestIdOf(id) }),
}

export const processDelivery = (services: Services, delivery: Delivery): Promise<void> =>
  attemptItem(services, OUTBOX, delivery)

async function handleEvent(services: Services, { id, receiver, attempts, stored }: Delivery): Promise<void> {
  const { event, origin, request = null } = stored
  const context = { services, requestId: requestIdOf(id), origin, request, attempts }
  if (event.kind === 'installation') return handleInstallation(context, receiver, event)
  const integration = await findIntegration(services, receiver, event.installation)
  if (!integration) return
  return event.kind === 'push'
    ? handlePush(context, integration, event)
    : handlePullRequest(context, integration, event)
}

// ---- the schedule

const IS_DUE = sql`state = 'waiting' and next_attempt_at <= clock()`
const HAS_ATTEMPTS_LEFT = sql`attempts < ${MAX_ATTEMPTS} and unfinished_attempts < ${MAX_UNFINISHED}`

export async function sweepDeliveries(services: Services): Promise<void> {
  const { platform, database } = services
  await deleteExpired(services, 'githost deliveries', [
    { table: 'githost_deliveries', where: sql`created_at < clock() - ${RETENTION}` },
  ])
  // Due without attempts left: the last worker died, since one that survives stores an outcome.
  const failExhausted = sql<Row>`
    update githost_deliveries
    set state = 'failed', error = 'worker_died'
    where ${IS_DUE} and not (${HAS_ATTEMPTS_LEFT})
    returning id, attempts`
  const results = await runAsSystem(database, setClock(platform), failExhausted)
  const [, exhausted] = results as [unknown, [string, unknown][]]
  for (const [id, attempts] of exhausted) {
    const request_id = requestIdOf(id)
    platform.log({ level: 'error', request_id, error: 'worker_died', attempts: Number(attempts) })
  }
  const drain = (condition: SQL, maxConcurrent: number) =>
    drainInTurns(services, OUTBOX, {
      list: listInTurns(sql`
        select id, ${RECEIVING_INTEGRATION} as workspace, next_attempt_at as due_at
        from githost_deliveries
        where ${IS_DUE} and ${HAS_ATTEMPTS_LEFT} and ${condition}`),
      claim: id => claimDelivery(id, condition),
      maxConcurrent,
    })
  await drain(sql`unfinished_attempts = 0`, MAX_CONCURRENT)
  // One of these may have crashed its worker. Alone, it cannot take the others' attempts with it.
  await drain(sql`unfinished_attempts > 0`, 1)
}

/** All installations of an App have one receiver. */
const RECEIVING_INTEGRATION = sql`receiver || ' ' || coalesce(event #>> '{event,installation}', '')`

const claimDelivery = (id: string, condition: SQL) => sql<Row>`
  update githost_deliveries
  set attempts = attempts + 1, unfinished_attempts = unfinished_attempts + 1, next_attempt_at = clock() + ${LEASE}
  where id = (
    select id
    from githost_deliveries
    where id = ${id}::uuid and ${IS_DUE} and ${HAS_ATTEMPTS_LEFT} and ${condition}
    for update skip locked)
  returning json_build_object('id', id, 'receiver', receiver, 'attempts', attempts, 'stored', event)::text`
