// Retries webhook deliveries of git hosts, gives up those that crash their worker, and deletes old ones.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { drainInTurns, LEASE, listInTurns } from '../../kernel/db/outbox.ts'
import { deleteExpired } from '../../kernel/db/sweep.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { MAX_ATTEMPTS, OUTBOX, requestIdOf } from './githost-deliveries.ts'

/** No host allows a delivery to be redelivered for longer. */
const RETENTION = sql`interval '7 days'`
const MAX_CONCURRENT = 8
/** Limits attempts in a row without a stored outcome: a delivery that crashes its worker must not stop all replicas. */
const MAX_UNFINISHED = 3

const IS_DUE = sql`state = 'waiting' and next_attempt_at <= clock()`
const HAS_ATTEMPTS_LEFT = sql`attempts < ${MAX_ATTEMPTS} and unfinished_attempts < ${MAX_UNFINISHED}`

export async function sweepDeliveries(services: Services): Promise<void> {
  const { platform, database } = services
  await deleteExpired(services, 'githost deliveries', [
    { table: 'githost_deliveries', where: sql`created_at < clock() - ${RETENTION}` },
  ])
  // A due delivery without attempts left had a worker that died: one that survives stores an outcome.
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
