// Everything that is ever deleted by time.
import type { Database, Query } from './database.ts'
import type { Server } from './server.ts'
import { keepLatest, removeThreads } from './thread-state.ts'

/** A stream can be joined again for so long after an event. */
const EVENTS_KEPT = '1 hour'
const BATCH = 10_000

/** Events are read in the order of their ids, which is about that of their times: no index on times. */
async function deleteOldEvents({ query }: Database): Promise<void> {
  for (;;) {
    const deleted = await query(
      `with oldest as (select id, at from graphs.events order by id limit ${BATCH})
      delete from graphs.events e
      using oldest o
      where e.id = o.id and o.at < now() - interval '${EVENTS_KEPT}'
      returning 1`,
    )
    if (deleted.length < BATCH) return
  }
}

const deleteExpiredItems = (query: Query) =>
  query(
    `delete from graphs.store
    where (namespace, key) in (
      select namespace, key from graphs.store where expires_at <= now() limit ${BATCH} for update skip locked
    )`,
  )

async function expireThreads(server: Server): Promise<void> {
  const expired = await server.db.query(
    `update graphs.threads
    set expires_at = null
    where thread_id in (
      select thread_id
      from graphs.threads
      where expires_at <= now() and status <> 'busy'
      order by expires_at
      limit 500
      for update skip locked
    )
    returning thread_id, ttl_strategy`,
  )
  const idsOf = (isKept: boolean) =>
    expired.filter(row => (row.ttl_strategy === 'keep_latest') === isKept).map(row => row.thread_id)
  await removeThreads(server, idsOf(false))
  await keepLatest(server, idsOf(true))
}

/** Answers of `join` are those of the thread after an hour. */
const dropOldOutputs = (query: Query) =>
  query(
    `update graphs.runs
    set output = null
    where run_id in (
      select run_id from graphs.runs
      where output is not null and updated_at < now() - interval '${EVENTS_KEPT}'
      limit 1000
      for update skip locked
    )`,
  )

export async function sweep(server: Server): Promise<void> {
  const { db } = server
  const steps = [
    () => deleteOldEvents(db),
    () => deleteExpiredItems(db.query),
    () => expireThreads(server),
    () => dropOldOutputs(db.query),
  ]
  for (const step of steps) await step().catch(error => console.error(`sweep failed: ${(error as Error).message}`))
}
