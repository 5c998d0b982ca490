// Readers of runs: they wait until a run changes, and read what is new. A reader's place is the id of an event.
import type { Database } from './database.ts'
import { hasEnded } from './runs.ts'

export type StreamEvent = { id: string; event: string; data: string }

/** The output of a run that has ended: JSON. */
export type RunOutput = { output: string }
type Woken = 'timeout' | RunOutput | undefined

/** Waits of this copy, for events by the id of a run or a thread, and for the end of a run. */
export class Waiters {
  readonly #waiting = new Map<string, Set<(ended?: RunOutput) => void>>()
  /** Requests that read a run or a thread, or wait for its end. */
  size = 0

  wake(key: string, ended?: RunOutput): void {
    for (const wake of this.#waiting.get(key) ?? []) wake(ended)
  }

  /** Begins to wait; to be called before the query, so that nothing falls between. */
  begin(key: string, signal?: AbortSignal) {
    const waiting = this.#waiting.get(key) ?? new Set()
    this.#waiting.set(key, waiting)
    const { promise, resolve } = Promise.withResolvers<Woken>()
    let timer: NodeJS.Timeout | undefined
    const end = (woken?: Woken) => {
      clearTimeout(timer)
      waiting.delete(wake)
      if (waiting.size === 0 && this.#waiting.get(key) === waiting) this.#waiting.delete(key)
      signal?.removeEventListener('abort', leave)
      resolve(woken)
    }
    const wake = (ended?: RunOutput) => end(ended)
    const leave = () => end()
    waiting.add(wake)
    if (signal?.aborted) end()
    else signal?.addEventListener('abort', leave, { once: true })
    return {
      end: leave,
      /** A notification can be lost with its connection, so a wait has a limit. */
      wait(limitMs: number): Promise<Woken> {
        timer = setTimeout(() => end('timeout'), limitMs)
        return promise
      },
    }
  }
}
export type Wait = ReturnType<Waiters['begin']>

/** The key of those who wait only for the end of a run. */
export const endOf = (runId: string) => `end ${runId}`

const PAGE = 500
/** Each reader holds a page, so that thousands of slow readers must not hold large ones. */
const PAGE_BYTES = 2 ** 20
const LOOK_AGAIN_MS = 10_000

/** The next events of a run or a thread. `found` are those that came with them, of which the last may be left out. */
const nextEvents = (column: 'run_id' | 'thread_id') => `select id, event, data, found
      from (
        select *, count(*) over ()::int as found,
          sum(octet_length(data)) over (order by id) - octet_length(data) as before
        from (
          select id, event, data from graphs.events where ${column} = $1 and id > $2 order by id limit ${PAGE}
        ) as next
      ) as sized
      where before < ${PAGE_BYTES}
      order by id`

/** Yields the events of a run after an id until it has ended. An empty list is a sign of life. */
export async function* followRun(
  db: Database,
  waiters: Waiters,
  runId: string,
  { after, signal }: { after: string; signal?: AbortSignal },
): AsyncGenerator<StreamEvent[]> {
  let last = after
  waiters.size++
  try {
    while (!signal?.aborted) {
      const wait = waiters.begin(runId, signal)
      try {
        const rows = await db.query(
          `select r.status, e.*
          from graphs.runs r
          left join lateral (${nextEvents('run_id')}) e on true
          where r.run_id = $1`,
          [runId, last],
        )
        const events = rows.filter(row => row.id !== null) as StreamEvent[]
        const isWhole = events.length < PAGE && events.length === (rows[0]?.found ?? 0)
        if (events.length > 0) {
          last = events.at(-1)!.id
          yield events
        }
        // The row is gone after a rollback.
        if (rows.length === 0 || (hasEnded(rows[0]!.status) && isWhole)) return
        if (events.length > 0) continue
        if ((await wait.wait(LOOK_AGAIN_MS)) === 'timeout') yield []
      } finally {
        wait.end()
      }
    }
  } finally {
    waiters.size--
  }
}

/** Yields the events of all runs of a thread after an id, until the caller goes. */
export async function* followThread(
  db: Database,
  waiters: Waiters,
  threadId: string,
  { after, signal }: { after: string; signal: AbortSignal },
): AsyncGenerator<StreamEvent[]> {
  let last = after
  waiters.size++
  try {
    while (!signal.aborted) {
      const wait = waiters.begin(threadId, signal)
      try {
        const events = await db.query<StreamEvent>(nextEvents('thread_id'), [threadId, last])
        if (events.length > 0) {
          last = events.at(-1)!.id
          yield events
          continue
        }
        if ((await wait.wait(LOOK_AGAIN_MS)) === 'timeout') yield []
      } finally {
        wait.end()
      }
    }
  } finally {
    waiters.size--
  }
}

/** The place of a reader that joins now, and gets only what comes. */
export async function latestEventId(db: Database, column: 'run_id' | 'thread_id', id: string): Promise<string> {
  const [row] = await db.query(`select coalesce(max(id), 0) as last from graphs.events where ${column} = $1`, [id])
  return row!.last
}

/**
 * Waits until a run has ended, and returns its output, or null after a rollback. `first` is a wait that began before
 * the run was created, so that it need not be looked for yet.
 */
export async function joinRun(
  db: Database,
  waiters: Waiters,
  runId: string,
  { signal, first }: { signal?: AbortSignal; first?: Wait | undefined } = {},
): Promise<RunOutput | null> {
  let wait = first
  waiters.size++
  try {
    while (!signal?.aborted) {
      const isFirst = wait !== undefined
      wait ??= waiters.begin(endOf(runId), signal)
      try {
        if (!isFirst) {
          const [run] = await db.query(
            `select r.status, coalesce(r.output::text, t."values"::text, '{}') as output
            from graphs.runs r
            join graphs.threads t using (thread_id)
            where r.run_id = $1`,
            [runId],
          )
          if (!run) return null
          if (hasEnded(run.status)) return { output: run.output }
        }
        const woken = await wait.wait(LOOK_AGAIN_MS)
        if (typeof woken === 'object') return woken
      } finally {
        wait.end()
        wait = undefined
      }
    }
    return null
  } finally {
    waiters.size--
  }
}
