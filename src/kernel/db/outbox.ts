// The outbox: work stored in rows, claimed under a lease, retried with backoff, given up after a number of attempts.
import { type SQL, sql } from 'drizzle-orm'
import { Failure } from '../http/errors.ts'
import type { Services } from '../http/routes.ts'
import { type Row, runAsSystem } from './db.ts'
import { setClock } from './journal.ts'
import { MAX_ITEMS, runWorkerPool, workInTurns } from './worker-pool.ts'

/** A worker that stores no outcome within the lease counts as dead, and another one may claim the row. */
export const LEASE = sql`interval '2 minutes'`
const FIRST_BACKOFF_S = 30
const MAX_BACKOFF_S = 3600

/** `attempts` counts the current attempt too: it is counted when the row is claimed. */
export type OutboxItem = { id: string; attempts: number }
type FailedAttempt = { code: string; message: string; isLast: boolean; nextAttemptAt: SQL; error: unknown }

export type Outbox<Item extends OutboxItem, Result = void> = {
  maxAttempts: number
  work: (services: Services, item: Item) => Promise<Result>
  /** These statements change the row only while its attempts are the item's: a later claim owns the outcome. */
  markDone: (item: Item, result: Result) => SQL | SQL[]
  markFailed: (item: Item, failure: FailedAttempt) => SQL | SQL[]
  logMembers: (item: Item) => Record<string, unknown>
  /** Seconds until the next attempt. By default it doubles, from 30 seconds to an hour. */
  backoff?: (attempts: number, error: unknown) => number
}

/** An expected failure. Any other error that is not a `Failure` is logged as `internal`. */
export class AttemptError extends Error {
  readonly code: string
  constructor(code: string, message = code) {
    super(message)
    this.code = code
  }
}

type ClaimOptions = {
  /** Claims one due row and returns the item as JSON text. */
  claim: SQL<Row>
  /** Runs before each claim, in the same trip. */
  beforeClaim?: SQL[]
  maxConcurrent: number
  maxItems?: number
  claimUntil?: number
}

export async function drainOutbox<Item extends OutboxItem, Result>(
  services: Services,
  outbox: Outbox<Item, Result>,
  { claim, beforeClaim = [], ...limits }: ClaimOptions,
): Promise<void> {
  const { platform, database } = services
  await runWorkerPool({
    ...limits,
    stopping: platform.stopping,
    claim: async () => {
      const results = await runAsSystem(database, setClock(platform), ...beforeClaim, claim)
      const [row] = results.at(-1) as Row[]
      return row ? (JSON.parse(row[0] as string) as Item) : null
    },
    work: item => attemptItem(services, outbox, item),
  })
}

type TurnOptions = {
  /** Lists the ids of due rows with their workspaces, in an order that is fair to all of these. */
  list: SQL<Row>
  /** Claims the row if it is still due. */
  claim: (id: string) => SQL<Row>
  maxConcurrent: number
}

/** Drains rows of many workspaces like `drainOutbox()`. No workspace waits until another one has no rows left. */
export async function drainInTurns<Item extends OutboxItem, Result>(
  services: Services,
  outbox: Outbox<Item, Result>,
  { list, claim, maxConcurrent }: TurnOptions,
): Promise<void> {
  const { platform, database } = services
  const [, rows] = (await runAsSystem(database, setClock(platform), list)) as [unknown, [string, string][]]
  const due = rows.map(([id, workspace]) => ({ id, workspace }))
  await workInTurns(due, {
    maxConcurrent,
    stopping: platform.stopping,
    work: ({ id }) => drainOutbox(services, outbox, { claim: claim(id), maxConcurrent: 1, maxItems: 1 }),
  })
}

/**
 * Ids of the relation `due`, which has the columns `id`, `workspace` and `due_at`: of each workspace the one that waits
 * longest, then the second of each.
 */
export const listInTurns = (due: SQL): SQL<Row> => sql<Row>`
  select id, workspace
  from (${due}) due
  order by row_number() over (partition by workspace order by due_at), due_at
  limit ${MAX_ITEMS}`

/** Never throws: the outcome is stored in the row. */
export async function attemptItem<Item extends OutboxItem, Result>(
  services: Services,
  outbox: Outbox<Item, Result>,
  item: Item,
): Promise<void> {
  const { platform, database } = services
  const outcome = await outcomeOf(services, outbox, item)
  // If this write fails, the lease expires and the row is claimed again.
  await runAsSystem(database, setClock(platform), ...[outcome].flat()).catch(() => {})
}

async function outcomeOf<Item extends OutboxItem, Result>(
  services: Services,
  outbox: Outbox<Item, Result>,
  item: Item,
): Promise<SQL | SQL[]> {
  const { attempts } = item
  try {
    // The worker of the last attempt died before it could store that attempt's failure.
    if (attempts > outbox.maxAttempts) throw new AttemptError('worker_died')
    return outbox.markDone(item, await outbox.work(services, item))
  } catch (error) {
    const code = error instanceof Failure || error instanceof AttemptError ? error.code : 'internal'
    const message = error instanceof Error ? error.message : String(error)
    const isLast = attempts >= outbox.maxAttempts
    const level = isLast || code === 'internal' ? 'error' : 'warn'
    services.platform.log({ level, ...outbox.logMembers(item), attempts, error: code, message })
    const seconds = (outbox.backoff ?? backoffSeconds)(attempts, error)
    const nextAttemptAt = sql`clock() + ${seconds} * interval '1 second'`
    return outbox.markFailed(item, { code, message, isLast, nextAttemptAt, error })
  }
}

/** Doubles with each attempt, and is never shorter than the `Retry-After` of the failure. At most an hour. */
export function backoffSeconds(attempts: number, error?: unknown): number {
  const retryAfter = error instanceof Failure ? Number(error.extra.headers?.['Retry-After'] ?? 0) : 0
  const backoff = FIRST_BACKOFF_S * 2 ** (attempts - 1)
  return Math.min(MAX_BACKOFF_S, Math.max(backoff, Number.isFinite(retryAfter) ? retryAfter : 0))
}
