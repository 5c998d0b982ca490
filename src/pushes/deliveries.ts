// Deliveries: each is stored once, worked on after it was answered, and retried by the schedule until its attempts
// are used up.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../kernel/db.ts'
import { Failure } from '../kernel/errors.ts'
import { setClock } from '../kernel/journal.ts'
import type { Services } from '../kernel/routes.ts'
import { findIntegration, UnsettledRefError } from './find-integration.ts'
import { handleInstallation } from './installation-deliveries.ts'
import { handlePullRequest } from './pull-requests.ts'
import { handlePush } from './pushes.ts'
import type { HostEvent } from './webhook-payloads.ts'
import { runWorkerPool } from './worker-pool.ts'

type NewDelivery = { receiver: string; delivery_id: string; event: HostEvent; origin: string }
export type Delivery = Omit<NewDelivery, 'delivery_id'> & { id: string; attempts: number }

/** Whoever takes one up has this long; then it counts as dead, and is anyone's. */
const LEASE = sql`interval '2 minutes'`
const MAX_ATTEMPTS = 10
/** Longer than any host lets one be delivered again. */
const RETENTION = sql`interval '7 days'`
const MAX_CONCURRENT = 8
/** In a row, with no outcome reported: a delivery that kills its worker stops every replica otherwise. */
const MAX_UNFINISHED = 3

/** Null where it is here already, unless all attempts at it failed and somebody had it delivered again. */
export async function storeDelivery(services: Services, { receiver, delivery_id, event, origin }: NewDelivery) {
  const statement = sql<Row>`
    insert into githost_deliveries as d (receiver, delivery_id, event, unfinished_attempts, next_attempt_at)
    values (${receiver}, ${delivery_id}, ${JSON.stringify({ event, origin })}::json, 1, clock() + ${LEASE})
    on conflict on constraint githost_deliveries_one do update
      set state = 'waiting', attempts = 1, unfinished_attempts = 1, next_attempt_at = excluded.next_attempt_at, error = null
      where d.state = 'failed'
    returning d.id`
  const [, [row]] = (await runAsSystem(services.database, setClock(services.config), statement)) as [unknown, Row[]]
  return row ? ({ id: row[0] as string, receiver, event, origin, attempts: 1 } satisfies Delivery) : null
}

/** Never throws: what went wrong is written down, and when it is tried again. */
export async function processDelivery(services: Services, delivery: Delivery): Promise<void> {
  const { id, attempts } = delivery
  // Once its lease is over it may be another's, whose word counts.
  const held = sql`id = ${id}::uuid and attempts = ${attempts}`
  try {
    await handleEvent(services, delivery)
    const finished = sql`
      update githost_deliveries
      set state = 'done', error = null, unfinished_attempts = 0
      where ${held}`
    await runAsSystem(services.database, finished)
  } catch (error) {
    const code =
      error instanceof Failure ? error.code : error instanceof UnsettledRefError ? 'ref_unsettled' : 'internal'
    const last = attempts >= MAX_ATTEMPTS
    if (last || code === 'internal')
      services.config.log({ level: 'error', request_id: requestIdOf(id), error: code, message: String(error) })
    const statement = sql`
      update githost_deliveries
      set state = ${last ? 'failed' : 'waiting'}, error = ${code}, unfinished_attempts = 0,
        next_attempt_at = clock() + ${backoffSeconds(attempts, error)} * interval '1 second'
      where ${held} and state = 'waiting'`
    // Where even that fails, its lease ends.
    await runAsSystem(services.database, setClock(services.config), statement).catch(() => {})
  }
}

/** In seconds: as long as the host asks for, else ever longer, an hour at most. */
function backoffSeconds(attempts: number, error: unknown): number {
  const asked = error instanceof Failure ? Number(error.extra.headers?.['Retry-After']) : Number.NaN
  return Number.isFinite(asked) ? Math.min(3600, Math.max(1, asked)) : Math.min(3600, 15 * 2 ** attempts)
}

const requestIdOf = (id: string) => `delivery-${id}`

async function handleEvent(services: Services, delivery: Delivery): Promise<void> {
  const { event, receiver } = delivery
  const work = { services, requestId: requestIdOf(delivery.id), origin: delivery.origin, attempts: delivery.attempts }
  if (event.kind === 'installation') return handleInstallation(work, receiver, event)
  const integration = await findIntegration(services, receiver, event.installation)
  if (!integration) return
  return event.kind === 'push' ? handlePush(work, integration, event) : handlePullRequest(work, integration, event)
}

// ---- the schedule

const IS_DUE = sql`state = 'waiting' and next_attempt_at <= clock()`
const HAS_ATTEMPTS_LEFT = sql`attempts < ${MAX_ATTEMPTS} and unfinished_attempts < ${MAX_UNFINISHED}`

/** Removes what is old, fails what has no attempts left, and works on what is due. */
export async function sweepDeliveries(services: Services): Promise<void> {
  const { config, database } = services
  const stale = sql`delete from githost_deliveries where created_at < clock() - ${RETENTION}`
  // Its last worker died or stalled: one that survives reports an outcome.
  const exhausted = sql<Row>`
    update githost_deliveries
    set state = 'failed', error = 'worker_died'
    where ${IS_DUE} and not (${HAS_ATTEMPTS_LEFT})
    returning id, attempts`
  const [, , failed] = (await runAsSystem(database, setClock(config), stale, exhausted)) as [unknown, unknown, Row[]]
  for (const [id, attempts] of failed)
    config.log({
      level: 'error',
      request_id: requestIdOf(id as string),
      error: 'worker_died',
      attempts: Number(attempts),
    })
  const work = (delivery: Delivery) => processDelivery(services, delivery)
  await runWorkerPool({
    atOnce: MAX_CONCURRENT,
    claim: () => claimDelivery(services, sql`unfinished_attempts = 0`),
    work,
  })
  // These, or what ran beside them, ended a worker: each is worked on alone, so that only the cause is put aside.
  await runWorkerPool({ atOnce: 1, claim: () => claimDelivery(services, sql`unfinished_attempts > 0`), work })
}

/** Counts the attempt before it is made. */
async function claimDelivery({ config, database }: Services, condition: SQL): Promise<Delivery | null> {
  const statement = sql<Row>`
    update githost_deliveries
    set attempts = attempts + 1, unfinished_attempts = unfinished_attempts + 1, next_attempt_at = clock() + ${LEASE}
    where id = (
      select id
      from githost_deliveries
      where ${IS_DUE} and ${HAS_ATTEMPTS_LEFT} and ${condition}
      order by next_attempt_at
      limit 1
      for update skip locked)
    returning id, receiver, event::text, attempts`
  const [, [row]] = (await runAsSystem(database, setClock(config), statement)) as [unknown, Row[]]
  if (!row) return null
  const [id, receiver, kept, attempts] = row as [string, string, string, string]
  const { event, origin } = JSON.parse(kept) as Pick<Delivery, 'event' | 'origin'>
  return { id, receiver, event, origin, attempts: Number(attempts) }
}
