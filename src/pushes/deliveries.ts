// Deliveries: each is kept once, worked on after it was answered, and taken up again by the schedule where that failed or died.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../kernel/db.ts'
import { Failure } from '../kernel/errors.ts'
import { clockOf } from '../kernel/journal.ts'
import type { Services } from '../kernel/routes.ts'
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
const MOST = 200

/** Null where it is here already, unless all attempts at it failed and somebody had it delivered again. */
export async function store(services: Services, { receiver, delivery_id, event, origin }: Arrived) {
  const statement = sql<Row>`
    insert into githost_deliveries as d (receiver, delivery_id, event, next_attempt_at)
    values (${receiver}, ${delivery_id}, ${JSON.stringify({ event, origin })}::json, clock() + ${LEASE})
    on conflict on constraint githost_deliveries_one do update
      set state = 'waiting', attempts = 1, next_attempt_at = excluded.next_attempt_at, error = null where d.state = 'failed'
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
    await runAsSystem(services.database, sql`update githost_deliveries set state = 'done', error = null where ${held}`)
  } catch (error) {
    const code = error instanceof Failure ? error.code : error instanceof Unsettled ? 'ref_unsettled' : 'internal'
    const last = attempts >= MOST_ATTEMPTS
    if (last || code === 'internal')
      services.config.log({ level: 'error', request_id: requestOf(id), error: code, message: String(error) })
    const statement = sql`
      update githost_deliveries set state = ${last ? 'failed' : 'waiting'}, error = ${code},
        next_attempt_at = clock() + ${pauseOf(attempts, error)} * interval '1 second' where ${held}`
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

/** What is due, and what nobody needs any more goes. */
export async function sweepDeliveries(services: Services): Promise<void> {
  const stale = sql`delete from githost_deliveries where created_at < clock() - ${KEPT}`
  const claim = sql<Row>`
    update githost_deliveries set attempts = attempts + 1, next_attempt_at = clock() + ${LEASE} where id in (
      select id from githost_deliveries where state = 'waiting' and next_attempt_at <= clock()
      order by next_attempt_at limit ${MOST} for update skip locked)
    returning id, receiver, event::text, attempts`
  const [, , rows] = (await runAsSystem(services.database, clockOf(services.config), stale, claim)) as [
    unknown,
    unknown,
    Row[],
  ]
  const left = rows.map(([id, receiver, kept, attempts]) => {
    const { event, origin } = JSON.parse(kept as string) as Pick<Delivery, 'event' | 'origin'>
    return { id, receiver, event, origin, attempts: Number(attempts) } as Delivery
  })
  const worker = async () => {
    for (let next = left.shift(); next; next = left.shift()) await workOn(services, next)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}
