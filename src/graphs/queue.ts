// The side of the workers: runs claimed under a lease, their events and their end written while the lease holds.
import type { Database, Query, Row } from './database.ts'
import { type StateSummary, statusOf } from './threads.ts'
import { toJsonb, toStorable } from './values.ts'

/** Another copy may claim a run whose lease was last extended so long ago. */
export const LEASE_SECONDS = 10
export const HEARTBEAT_MS = 2000
/** A run that ends its process each time must not do so for ever. */
export const MAX_ATTEMPTS = 10

export type Claim = { run_id: string; attempt: number }
export type ClaimedRun = Claim & {
  thread_id: string
  assistant_id: string
  graph_id: string
  kwargs: Row
  metadata: Row
  multitask_strategy: string
  cancel_action: 'interrupt' | 'rollback' | null
  created_at: Date
  claimed_at: Date
}

/** Each part has an index of its own: a caller may queue thousands of runs on one thread. */
const NO_EARLIER_RUN = `not exists (
        select from graphs.runs o where o.thread_id = r.thread_id and o.status = 'running'
      ) and not exists (
        select from graphs.runs o
        where o.thread_id = r.thread_id and o.status = 'pending' and o.start_at <= now() and o.run_id < r.run_id
      )`
const DUE = `r.status = 'pending' and r.start_at <= now() and ${NO_EARLIER_RUN}`
const LOST = `r.status = 'running' and r.lease_until < now()`

type Wanted = {
  owner: string
  graphIds: string[]
  limit: number
  areLost: boolean
  /** Runs that this copy still works on: one whose lease it lost may come back to it, but not while it is there. */
  active: string[]
}

export async function claimRuns(
  query: Query,
  { owner, graphIds, limit, areLost, active }: Wanted,
): Promise<ClaimedRun[]> {
  const claim = `with chosen as (
      select r.run_id
      from graphs.runs r
      where ${areLost ? LOST : DUE} and r.graph_id = any ($2) and r.run_id <> all ($4::uuid[])
      order by r.start_at, r.run_id
      limit $3
      for update skip locked
    )
    update graphs.runs r
    set status = 'running', attempt = attempt + 1, lease_owner = $1, updated_at = now(),
      lease_until = now() + ${LEASE_SECONDS} * interval '1 second'
    from chosen
    where r.run_id = chosen.run_id
    returning r.run_id, r.thread_id, r.assistant_id, r.graph_id, r.kwargs, r.metadata, r.multitask_strategy, r.attempt,
      r.cancel_action, r.created_at, r.updated_at as claimed_at`
  try {
    return await query<ClaimedRun>(claim, [owner, graphIds, limit, active])
  } catch (error) {
    // Another copy claimed another run of the same thread. The next look sees it.
    if ((error as { code?: string }).code === '23505') return []
    throw error
  }
}

/** Extends the leases of runs, and returns those that are still held, with a cancellation that was asked for. */
export const extendLeases = (
  query: Query,
  owner: string,
  claims: Claim[],
): Promise<{ run_id: string; cancel_action: 'interrupt' | 'rollback' | null }[]> =>
  query(
    `update graphs.runs r
    set lease_until = now() + ${LEASE_SECONDS} * interval '1 second'
    from unnest($2::uuid[], $3::int[]) as held (run_id, attempt)
    where r.run_id = held.run_id and r.attempt = held.attempt and r.lease_owner = $1 and r.status = 'running'
    returning r.run_id, r.cancel_action`,
    [owner, claims.map(claim => claim.run_id), claims.map(claim => claim.attempt)],
  )

/** Returns runs to the queue, at a shutdown or when an executor ended. */
export const releaseRuns = (query: Query, owner: string, claims: Claim[]): Promise<Row[]> =>
  query(
    `with released as (
      update graphs.runs r
      set status = 'pending', lease_owner = null, lease_until = null, updated_at = now()
      from unnest($2::uuid[], $3::int[]) as held (run_id, attempt)
      where r.run_id = held.run_id and r.attempt = held.attempt and r.lease_owner = $1 and r.status = 'running'
      returning r.run_id
    )
    select pg_notify('graphs_runs', run_id::text) from released`,
    [owner, claims.map(claim => claim.run_id), claims.map(claim => claim.attempt)],
  )

export type NewEvent = Claim & { thread_id: string; event: string; data: string }

/** Inserts events in their order, but not those of runs whose lease another copy has. */
export const insertEvents = (query: Query, owner: string, events: NewEvent[]): Promise<Row[]> =>
  query(
    `with added as (
      insert into graphs.events (run_id, thread_id, event, data)
      select given.run_id, given.thread_id, given.event, given.data
      from unnest($2::uuid[], $3::int[], $4::uuid[], $5::text[], $6::text[])
        with ordinality as given (run_id, attempt, thread_id, event, data, position)
      join graphs.runs r
        on r.run_id = given.run_id and r.attempt = given.attempt and r.lease_owner = $1 and r.status = 'running'
      order by given.position
      returning run_id, thread_id
    )
    select pg_notify('graphs_events', run_id || ' ' || thread_id)
    from (select distinct run_id, thread_id from added) as changed`,
    [
      owner,
      events.map(event => event.run_id),
      events.map(event => event.attempt),
      events.map(event => event.thread_id),
      events.map(event => event.event),
      events.map(event => event.data),
    ],
  )

export type RunEnd = {
  status: 'success' | 'error' | 'interrupted'
  /** The answer of `wait` and `join`: JSON. */
  output: string
  /** The state of the thread; null leaves it. */
  state: StateSummary | null
  error: unknown
  /** An event of the streaming protocol that tells of the end: sent with it, neither before nor after. */
  lastEvent?: string | undefined
}

/** Ends a run, if its lease still holds. Its thread is locked first, so that a run created meanwhile is seen. */
export const finishRun = (db: Database, owner: string, run: ClaimedRun, end: RunEnd): Promise<boolean> =>
  db.transaction(async query => {
    await query('select from graphs.threads where thread_id = $1 for update', [run.thread_id])
    const ended = await query(
      `update graphs.runs
      set status = $4, output = $5::json, lease_owner = null, lease_until = null, updated_at = now()
      where run_id = $1 and lease_owner = $2 and attempt = $3 and status = 'running'
      returning 1`,
      [run.run_id, owner, run.attempt, end.status, end.output],
    )
    if (ended.length === 0) return false
    if (end.lastEvent)
      await query(`insert into graphs.events (run_id, thread_id, event, data) values ($1, $2, 'protocol', $3)`, [
        run.run_id,
        run.thread_id,
        end.lastEvent,
      ])
    await settleThread(query, run, end)
    return true
  })

/** Sets the thread by the end of a run, and wakes the readers of both, and workers if the next run waits. */
export async function settleThread(
  query: Query,
  run: Pick<ClaimedRun, 'run_id' | 'thread_id'>,
  { state, error, status }: Pick<RunEnd, 'state' | 'error' | 'status'>,
): Promise<void> {
  await query(
    `with thread as (
      update graphs.threads t
      set "values" = case when $3 then $4::jsonb else "values" end,
        interrupts = case when $3 then $5::jsonb else interrupts end,
        error = $6::jsonb,
        updated_at = now(),
        state_updated_at = now(),
        status = case
          when exists (
            select from graphs.runs r
            where r.thread_id = t.thread_id and r.run_id <> $1::uuid and r.status in ('pending', 'running')
          ) then 'busy'
          else $7
        end,
        expires_at = case
          when is_temporary then now() + interval '10 minutes'
          when ttl_minutes is not null then now() + ttl_minutes * interval '1 minute'
          else expires_at
        end
      where thread_id = $2::uuid
      returning status
    )
    select pg_notify('graphs_events', $1::uuid || ' ' || $2::uuid),
      case when (select status from thread) = 'busy' then pg_notify('graphs_runs', '') end`,
    [
      run.run_id,
      run.thread_id,
      state !== null,
      state?.values ? toStorable(state.values) : null,
      toJsonb(state?.interrupts ?? {}),
      toJsonb(error),
      status === 'error' ? 'error' : statusOf(state ?? { next: [] }),
    ],
  )
}
