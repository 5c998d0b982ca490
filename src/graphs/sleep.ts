// Tells who runs this deployment whether all its copies may stop or freeze, and when one has to be awake again.

import type { Server } from './server.ts'
import { SENDING_SECONDS, webhooksUnderWay } from './webhooks.ts'

type Sleep = { may_sleep: boolean; wake_at: string | null }

/** Nothing that is due sooner lets it sleep: for so long after the answer, no copy begins anything by itself. */
const QUIET_SECONDS = 10
export const QUIET_MS = QUIET_SECONDS * 1000
const STAYS: Sleep = { may_sleep: false, wake_at: null }

/** Asked of one copy, for all of them. Requests that are in flight are not counted: who asks knows them. */
export async function askSleep(server: Server): Promise<Sleep> {
  const { may_sleep } = await lookAhead(server)
  if (!may_sleep) return STAYS
  await server.db.query(`select pg_notify('graphs_quiet', '')`)
  return (await server.background.settle(QUIET_MS)) ? lookAhead(server) : STAYS
}

/**
 * A frozen copy must have neither a lease nor an open transaction, of the graphs either. A copy that ended a run may
 * still send its webhook. Runs of graphs that are gone are nobody's.
 */
async function lookAhead({ db, worker, configuration }: Server): Promise<Sleep> {
  if (worker.activeCount > 0 || webhooksUnderWay() > 0) return STAYS
  const soon = `now() + ${QUIET_SECONDS} * interval '1 second'`
  const [row] = await db.query(
    `with ahead as (
      select least(
        (select min(start_at) from graphs.runs where status = 'pending' and graph_id = any ($1)),
        (select min(next_run_date) from graphs.crons where enabled)
      ) as at
    )
    select ahead.at,
      coalesce(ahead.at <= ${soon}, false)
        or exists (select from graphs.runs where status = 'running' and graph_id = any ($1))
        or exists (
          select from graphs.runs
          where output is not null
            and updated_at > now() - ${SENDING_SECONDS} * interval '1 second'
            and kwargs ->> 'webhook' is not null
        )
        or exists (
          select from pg_stat_activity
          where datname = current_database() and usename = current_user and state like 'idle in transaction%'
        ) as is_busy
    from ahead`,
    [configuration.graphs.map(({ id }) => id)],
  )
  return row!.is_busy ? STAYS : { may_sleep: true, wake_at: row!.at?.toISOString() ?? null }
}
