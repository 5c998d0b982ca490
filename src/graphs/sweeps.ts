// Everything that is ever deleted by time.
import type { Query, Row } from './database.ts'
import type { Server } from './server.ts'
import { keepLatest, removeThreads } from './thread-state.ts'

/** A stream can be joined again for so long after an event. */
const EVENTS_KEPT = '1 hour'
const BATCH = 10_000
const THREADS = 500

/**
 * Events are read in the order of their ids, which is about that of their times: no index on times. Returns how many it
 * deleted, as all batches do.
 */
async function deleteOldEvents(query: Query): Promise<number> {
  const deleted = await query(
    `with oldest as (select id, at from graphs.events order by id limit ${BATCH} for update skip locked)
    delete from graphs.events e
    using oldest o
    where e.id = o.id and o.at < now() - interval '${EVENTS_KEPT}'
    returning 1`,
  )
  return deleted.length
}

async function deleteExpiredItems(query: Query): Promise<number> {
  const deleted = await query(
    `delete from graphs.store
    where (namespace, key) in (
      select namespace, key from graphs.store where expires_at <= now() limit ${BATCH} for update skip locked
    )
    returning 1`,
  )
  return deleted.length
}

/** A thread that could not be removed, such as in a database that is busy, is tried again. Others come before it. */
const TRIED_AGAIN_MS = 10 * 60_000
const logFailure = (error: unknown) => console.error(`sweep failed: ${(error as Error).message}`)

/** Returns the number of threads that it found. */
async function expireThreads(server: Server): Promise<number> {
  const { query } = server.db
  const triedAgain = new Date(Date.now() + TRIED_AGAIN_MS)
  const expired = await query(
    `update graphs.threads
    set expires_at = $1
    where thread_id in (
      select thread_id
      from graphs.threads
      where expires_at <= now() and status <> 'busy'
      order by expires_at
      limit ${THREADS}
      for update skip locked
    )
    returning thread_id, ttl_strategy, metadata ->> 'graph_id' as graph_id`,
    [triedAgain],
  )
  const idsOf = (rows: Row[]) => rows.map(row => row.thread_id as string)
  const isKept = (row: Row) => row.ttl_strategy === 'keep_latest'
  const removed = idsOf(expired.filter(row => !isKept(row)))
  await removeThreads(server, removed).catch(async error => {
    logFailure(error)
    for (const id of removed) await removeThreads(server, [id]).catch(logFailure)
  })
  for (const rows of Map.groupBy(expired.filter(isKept), row => row.graph_id).values())
    try {
      await keepLatest(server, idsOf(rows))
      await query(
        'update graphs.threads set expires_at = null where thread_id = any ($1::uuid[]) and expires_at = $2',
        [idsOf(rows), triedAgain],
      )
    } catch (error) {
      logFailure(error)
    }
  return expired.length
}

/** Answers of `join` are those of the thread after an hour. Returns the number of runs. */
async function dropOldOutputs(query: Query): Promise<number> {
  const dropped = await query(
    `update graphs.runs
    set output = null
    where run_id in (
      select run_id
      from graphs.runs
      where output is not null and updated_at < now() - interval '${EVENTS_KEPT}'
      order by updated_at
      limit ${BATCH}
      for update skip locked
    )
    returning 1`,
  )
  return dropped.length
}

/** A busy server ends thousands of runs in a minute, so that one batch would never keep up. */
async function repeat(batch: () => Promise<number>, size: number): Promise<void> {
  while ((await batch()) === size);
}

export async function sweep(server: Server): Promise<void> {
  const { db, usage } = server
  const steps = [
    () => repeat(() => deleteOldEvents(db.query), BATCH),
    () => repeat(() => deleteExpiredItems(db.query), BATCH),
    () => repeat(() => expireThreads(server), THREADS),
    () => repeat(() => dropOldOutputs(db.query), BATCH),
    () => usage.measure(db),
  ]
  for (const step of steps) await step().catch(logFailure)
}
