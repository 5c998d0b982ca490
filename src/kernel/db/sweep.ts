// Deletes what has expired: in batches, so that no statement is long, and until nothing is left, so that a backlog of
// any size is worked off. Of several processes, one works on a sweep at a time.
import { type SQL, sql } from 'drizzle-orm'
import { createClock } from '../../platform.ts'
import type { DatabaseServices } from '../http/context.ts'
import type { Services } from '../http/routes.ts'
import { type Row, runAsSystem } from './db.ts'
import { setClock } from './journal.ts'

/** `where` must use an index. */
export type ExpiredRows = { table: string; where: SQL }
export type SweepServices = DatabaseServices & Pick<Services, 'onSweep'>

export const SWEEP_BATCH = 5000
/** Under half the minute until the next one. */
const BUDGET_MS = 25_000

export const HAS_SWEEP_LEASE = sql`setting('has_sweep_lease') = 'true'`

const countDeleted = (deletion: SQL): SQL<Row> => sql`
  with deleted as (${deletion}
    returning 1
  )
  select count(*)
  from deleted`

const deleteBatch = ({ table, where }: ExpiredRows, batch: number): SQL<Row> =>
  countDeleted(sql`
    delete from ${sql.identifier(table)}
    where ctid = any(array(
      select ctid
      from ${sql.identifier(table)}
      where ${HAS_SWEEP_LEASE} and ${where}
      limit ${batch}
      for update skip locked
    ))`)

/** The lease is a lock of the transaction: it cannot outlive its process. */
export const takeSweepLease = (sweep: string): SQL => sql`
  select set_config(
    'app.has_sweep_lease',
    pg_try_advisory_xact_lock(hashtextextended(${`sweep of ${sweep}`}, 0))::text,
    true
  )`

/** Returns how many rows were deleted. All tables are in one trip, which is repeated while any has a full batch. */
export async function deleteExpired(
  services: SweepServices,
  sweep: string,
  tables: ExpiredRows[],
  batch = SWEEP_BATCH,
): Promise<number> {
  const { platform, database, onSweep } = services
  const end = Date.now() + BUDGET_MS
  let total = 0
  let left = tables
  while (left.length > 0) {
    const startedAt = Date.now()
    const statements = left.map(table => deleteBatch(table, batch))
    const [, , ...counts] = await runAsSystem(database, setClock(platform), takeSweepLease(sweep), ...statements)
    const deleted = left.map((_, i) => Number((counts[i] as Row[])[0]![0]))
    const ms = Date.now() - startedAt
    for (const [i, { table }] of left.entries()) onSweep?.({ table, rows: deleted[i]!, ms })
    total += deleted.reduce((sum, count) => sum + count, 0)
    left = Date.now() < end && !platform.stopping?.aborted ? left.filter((_, i) => deleted[i] === batch) : []
  }
  return total
}

/** A sweep that fails does not keep the others from their work. The first failure is thrown at the end. */
export async function runSweeps(
  sweeps: Record<string, () => Promise<unknown>>,
  onRun: (sweep: string, ms: number, isDone: boolean) => void,
): Promise<void> {
  const runs = Object.entries(sweeps).map(async ([name, sweep]) => {
    const startedAt = Date.now()
    let isDone = false
    try {
      await sweep()
      isDone = true
    } finally {
      onRun(name, Date.now() - startedAt, isDone)
    }
  })
  await Promise.allSettled(runs)
  await Promise.all(runs)
}

/** By the real clock: the rows are those of all workspaces. */
export const sweepExpiredRows = ({ platform, ...services }: SweepServices): Promise<number> =>
  deleteExpired({ ...services, platform: { ...platform, clock: createClock() } }, 'requests', [
    { table: 'rate_windows', where: sql`started_at < clock() - interval '2 minutes'` },
    { table: 'idempotency_keys', where: sql`created_at < clock() - interval '24 hours'` },
  ])
