// Deliveries: each is stored once, worked on after it was answered, and retried by the schedule until its attempts
// are used up.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../kernel/db.ts'
import { Failure } from '../kernel/errors.ts'
import { clockOf } from '../kernel/journal.ts'
import type { Services } from '../kernel/routes.ts'
import { drain } from './drain.ts'
import type { HostEvent } from './events.ts'
import { heardOf } from './installations.ts'
import { pulled } from './pulls.ts'
import { pushed } from './pushes.ts'
import { Unsettled, whose } from './whose.ts'

type Arrived = { receiver: string; delivery_id: string; event: HostEvent; origin: string }
export type Delivery = Omit<Arrived, 'delivery_id'> & { id: string; attempts: number }

/** Whoever takes one up has this long; then it counts as dead, and is anyone's. */
const LEASE = sql`interval '2 minutes'`
const MOST_ATTEMPTS = 10
/** Longer than any host lets one be delivered again. */
const KEPT = sql`interval '7 days'`
const AT_ONCE = 8
/** In a row, with no outcome reported: a delivery that kills its worker stops every replica otherwise. */
const MOST_UNFINISHED = 3

/** Null where it is here already, unless all attempts at it failed and somebody had it delivered again. */
export async function store(services: Services, { receiver, delivery_id, event, origin }: Arrived) {
  const statement = sql<Row>`
    insert into githost_deliveries as d (receiver, delivery_id, event, unfinished_attempts, next_attempt_at)
    values (${receiver}, ${delivery_id}, ${JSON.stringify({ event, origin })}::json, 1, clock() + ${LEASE})
    on conflict on constraint githost_deliveries_one do update
      set state = 'waiting', attempts = 1, unfinished_attempts = 1, next_attempt_at = excluded.next_attempt_at, error = null
      where d.state = 'failed'
    returning d.id`
  const [, [row]] = (await runAsSystem(services.database, clockOf(services.config), statement)) as [unknown, Row[]]
  return row ? ({ id: row[0] as string, receiver, event, origin, attempts: 1 } satisfies Delivery) : null
}

/** Never throws: what went wrong is written down, and when it is tried again. */
export async function workOn(services: Services, delivery: Delivery): Promise<void> {
  const { id, attempts } = delivery
  // Once its lease is over it may be another's, whose word counts.
  const held = sql`id = ${id}::uuid and attempts = ${attempts}`
  try {
    await done(services, delivery)
    const finished = sql`
      update githost_deliveries
      set state = 'done', error = null, unfinished_attempts = 0
      where ${held}`
    await runAsSystem(services.database, finished)
  } catch (error) {
    const code = error instanceof Failure ? error.code : error instanceof Unsettled ? 'ref_unsettled' : 'internal'
    const last = attempts >= MOST_ATTEMPTS
    if (last || code === 'internal')
      services.config.log({ level: 'error', request_id: requestOf(id), error: code, message: String(error) })
    const statement = sql`
      update githost_deliveries
      set state = ${last ? 'failed' : 'waiting'}, error = ${code}, unfinished_attempts = 0,
        next_attempt_at = clock() + ${pauseOf(attempts, error)} * interval '1 second'
      where ${held} and state = 'waiting'`
    // Where even that fails, its lease ends.
    await runAsSystem(services.database, clockOf(services.config), statement).catch(() => {})
  }
}

/** In seconds: as long as the host asks for, else ever longer, an hour at most. */
function pauseOf(attempts: number, error: unknown): number {
  const asked = error instanceof Failure ? Number(error.extra.headers?.['Retry-After']) : Number.NaN
  return Number.isFinite(asked) ? Math.min(3600, Math.max(1, asked)) : Math.min(3600, 15 * 2 ** attempts)
}

const requestOf = (id: string) => `delivery-${id}`

async function done(services: Services, delivery: Delivery): Promise<void> {
  const { event, receiver } = delivery
  const work = { services, requestId: requestOf(delivery.id), origin: delivery.origin, attempts: delivery.attempts }
  if (event.kind === 'installation') return heardOf(work, receiver, event)
  const integration = await whose(services, receiver, event.installation)
  if (!integration) return
  return event.kind === 'push' ? pushed(work, integration, event) : pulled(work, integration, event)
}

// ---- the schedule

const DUE = sql`state = 'waiting' and next_attempt_at <= clock()`
const HAS_ATTEMPTS = sql`attempts < ${MOST_ATTEMPTS} and unfinished_attempts < ${MOST_UNFINISHED}`

/** Removes what is old, fails what has no attempts left, and works on what is due. */
export async function sweepDeliveries(services: Services): Promise<void> {
  const { config, database } = services
  const stale = sql`delete from githost_deliveries where created_at < clock() - ${KEPT}`
  // Its last worker died or stalled: one that survives reports an outcome.
  const exhausted = sql<Row>`
    update githost_deliveries
    set state = 'failed', error = 'worker_died'
    where ${DUE} and not (${HAS_ATTEMPTS})
    returning id, attempts`
  const [, , failed] = (await runAsSystem(database, clockOf(config), stale, exhausted)) as [unknown, unknown, Row[]]
  for (const [id, attempts] of failed)
    config.log({
      level: 'error',
      request_id: requestOf(id as string),
      error: 'worker_died',
      attempts: Number(attempts),
    })
  const work = (delivery: Delivery) => workOn(services, delivery)
  await drain({ atOnce: AT_ONCE, claim: () => claim(services, sql`unfinished_attempts = 0`), work })
  // These, or what ran beside them, ended a worker: each is worked on alone, so that only the cause is put aside.
  await drain({ atOnce: 1, claim: () => claim(services, sql`unfinished_attempts > 0`), work })
}

/** Counts the attempt before it is made. */
async function claim({ config, database }: Services, condition: SQL): Promise<Delivery | null> {
  const statement = sql<Row>`
    update githost_deliveries
    set attempts = attempts + 1, unfinished_attempts = unfinished_attempts + 1, next_attempt_at = clock() + ${LEASE}
    where id = (
      select id
      from githost_deliveries
      where ${DUE} and ${HAS_ATTEMPTS} and ${condition}
      order by next_attempt_at
      limit 1
      for update skip locked)
    returning id, receiver, event::text, attempts`
  const [, [row]] = (await runAsSystem(database, clockOf(config), statement)) as [unknown, Row[]]
  if (!row) return null
  const [id, receiver, kept, attempts] = row as [string, string, string, string]
  const { event, origin } = JSON.parse(kept) as Pick<Delivery, 'event' | 'origin'>
  return { id, receiver, event, origin, attempts: Number(attempts) }
}
