// The side of the workers: runs claimed under a lease, their events and their end written while the lease holds.
import type { Database, Query, Row } from './database.ts'
import { type StateSummary, statusOf } from './threads.ts'
import { toJsonb, toStorable } from './values.ts'

/** Another copy may claim a run whose lease was last extended so long ago. */
export const LEASE_SECONDS = 10
export const LEASE_END = `now() + ${LEASE_SECONDS} * interval '1 second'`
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
    set status = 'running', attempt = attempt + 1, lease_owner = $1, updated_at = now(), lease_until = ${LEASE_END}
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
    set lease_until = ${LEASE_END}
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
    select pg_notify('graphs_events', run_id || ' ' || thread_id || ' events')
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

/** Ends a run, if its lease still holds. */
export async function finishRun({ query }: Database, owner: string, run: ClaimedRun, end: RunEnd): Promise<boolean> {
  const [row] = await query(`select graphs.finish_run($8, $9, $10, $11::json, $12, ${SETTLED}) as is_ended`, [
    ...settledValues(run, end),
    owner,
    run.attempt,
    end.status,
    end.output,
    end.lastEvent ?? null,
  ])
  return row!.is_ended
}

const SETTLED = '$1::uuid, $2::uuid, $3::boolean, $4::jsonb, $5::jsonb, $6::jsonb, $7::text'
type Settled = Pick<RunEnd, 'state' | 'error' | 'status'>
const settledValues = (
  { run_id, thread_id }: Pick<ClaimedRun, 'run_id' | 'thread_id'>,
  { state, error, status }: Settled,
) => [
  run_id,
  thread_id,
  state !== null,
  state?.values ? toStorable(state.values) : null,
  toJsonb(state?.interrupts ?? {}),
  toJsonb(error),
  status === 'error' ? 'error' : statusOf(state ?? { next: [] }),
]

/** Sets the thread by the end of a run that leaves no trace. The thread is locked. */
export async function settleThread(query: Query, run: ClaimedRun, end: Settled): Promise<void> {
  await query(`select graphs.settle_thread(${SETTLED})`, settledValues(run, end))
}
