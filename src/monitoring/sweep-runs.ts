// Stores how the scheduled work went, so that each process can tell, and deletes what only usage needed.
import { sql } from 'drizzle-orm'
import { runAsSystem, textArray } from '../kernel/db/db.ts'
import { setClock } from '../kernel/db/journal.ts'
import { deleteExpired, type SweepServices } from '../kernel/db/sweep.ts'
import type { DatabaseServices } from '../kernel/http/context.ts'

export type SweepRun = [name: string, ms: number, isDone: boolean]

/** In the order of their names, so that two processes do not deadlock. */
export async function recordSweepRuns({ platform, database }: DatabaseServices, runs: SweepRun[]): Promise<void> {
  const names = textArray(runs.map(([name]) => name))
  const durations = sql`${sql.param(runs.map(([, ms]) => ms))}::integer[]`
  const done = sql`${sql.param(runs.map(([, , isDone]) => isDone))}::boolean[]`
  await runAsSystem(
    database,
    setClock(platform),
    sql`
      insert into sweep_runs as s (name, done_at, failed_at, ms)
      select r.name, case when r.is_done then clock() end, case when not r.is_done then clock() end, r.ms
      from unnest(${names}, ${durations}, ${done}) as r(name, ms, is_done)
      order by r.name
      on conflict (name) do update set
        done_at = coalesce(excluded.done_at, s.done_at),
        failed_at = coalesce(excluded.failed_at, s.failed_at),
        ms = excluded.ms`,
  )
}

export const sweepDeletedDeployments = (services: SweepServices): Promise<number> =>
  deleteExpired(services, 'deleted deployments', [
    { table: 'deleted_deployments', where: sql`deleted_at < clock() - interval '400 days'` },
  ])
