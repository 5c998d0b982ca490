// Limits of what callers use, so that none can fill the database or the memory of a copy.
import type { Database } from './database.ts'
import { HttpError } from './errors.ts'

export type Limits = {
  /** Runs that wait for their start, of all threads. */
  queuedRuns: number
  queuedRunsOfThread: number
  threads: number
  /** Live rows of all tables, without what a vacuum has yet to free. */
  storedMegabytes: number
  /** The events of one run. */
  eventMegabytes: number
  /** Requests of one copy that wait for a run or a thread. */
  streams: number
}

/** The variables by which an operator sets them. */
export const LIMIT_VARIABLES: Record<keyof Limits, string> = {
  queuedRuns: 'GRAPHS_MAX_QUEUED_RUNS',
  queuedRunsOfThread: 'GRAPHS_MAX_QUEUED_RUNS_OF_THREAD',
  threads: 'GRAPHS_MAX_THREADS',
  storedMegabytes: 'GRAPHS_MAX_STORED_MB',
  eventMegabytes: 'GRAPHS_MAX_EVENT_MB',
  streams: 'GRAPHS_MAX_STREAMS',
}

export const DEFAULT_LIMITS: Limits = {
  queuedRuns: 10_000,
  queuedRunsOfThread: 1000,
  threads: 1_000_000,
  storedMegabytes: 20_480,
  eventMegabytes: 100,
  streams: 5000,
}

const orRaise = (limit: keyof Limits) => `or raise ${LIMIT_VARIABLES[limit]}`

/**
 * The database is not asked for each request, so that callers may pass a limit by what they send within a second, and
 * that of stored bytes within a minute. What a copy makes of little that is sent counts at once.
 */
export class Usage {
  readonly limits: Limits
  #queuedRuns = 0
  #lastCount = 0
  #lastMeasure = 0
  #threads = 0
  #storedBytes = 0

  constructor(limits: Limits) {
    this.limits = limits
  }

  /** To be called each second. */
  async countQueue({ query }: Database): Promise<void> {
    const turn = ++this.#lastCount
    const [row] = await query(
      `select count(*)::int as runs from (select from graphs.runs where status = 'pending' limit $1) r`,
      [this.limits.queuedRuns],
    )
    // An earlier count may take longer.
    if (turn === this.#lastCount) this.#queuedRuns = row!.runs
  }

  /** To be called each minute. */
  async measure(db: Database): Promise<void> {
    const turn = ++this.#lastMeasure
    const [row] = await db.query('select count(*)::int as threads from (select from graphs.threads limit $1) t', [
      this.limits.threads,
    ])
    const bytes = await measureBytes(db)
    if (turn !== this.#lastMeasure) return
    this.#threads = row!.threads
    this.#storedBytes = bytes
  }

  /** `added`: bytes that the request makes without sending them, such as those of a copy. They count at once. */
  admitBytes(added = 0): void {
    const { storedMegabytes } = this.limits
    if (this.#storedBytes + added < storedMegabytes * 2 ** 20) {
      this.#storedBytes += added
      return
    }
    throw new HttpError(
      413,
      `This deployment has more than ${storedMegabytes} MB of state. Delete threads or items, give them a \`ttl\`, ` +
        `${orRaise('storedMegabytes')}. It is measured each minute.`,
    )
  }

  admitThread(): void {
    this.admitBytes()
    if (this.#threads++ < this.limits.threads) return
    throw new HttpError(
      429,
      `This deployment has ${this.limits.threads} threads. Delete some, give them a \`ttl\`, ${orRaise('threads')}.`,
      { retryAfter: 60 },
    )
  }

  /** `hasThread` is false for a run that brings a thread of its own. */
  admitRun(hasThread: boolean): void {
    if (hasThread) this.admitBytes()
    else this.admitThread()
    if (this.#queuedRuns < this.limits.queuedRuns) return
    throw new HttpError(
      429,
      `${this.limits.queuedRuns} runs wait already. Try again later, add workers, ${orRaise('queuedRuns')}.`,
      { retryAfter: 10 },
    )
  }

  refuseRunOfThread(threadId: string): HttpError {
    const { queuedRunsOfThread } = this.limits
    return new HttpError(
      429,
      `${queuedRunsOfThread} runs wait on thread ${threadId} already. Try again later, cancel some, use another, ` +
        `${orRaise('queuedRunsOfThread')}.`,
      { retryAfter: 10 },
    )
  }

  admitStream(open: number): void {
    if (open < this.limits.streams) return
    throw new HttpError(
      429,
      `${open} requests wait at this copy already. Try again later, add copies, ${orRaise('streams')}.`,
      { retryAfter: 10 },
    )
  }
}

const CHECKPOINTS = { checkpoints: ['checkpoint', 'metadata'], checkpoint_blobs: ['blob'], checkpoint_writes: ['blob'] }
const ASSISTANT = ['name', 'description', 'config', 'context', 'metadata']
const WIDE_COLUMNS: Record<string, string[]> = {
  'graphs.assistants': ASSISTANT,
  'graphs.assistant_versions': ASSISTANT,
  'graphs.crons': ['payload', 'metadata'],
  'graphs.events': ['data'],
  'graphs.runs': ['kwargs', 'output', 'metadata'],
  'graphs.store': ['value'],
  'graphs.store_vectors': ['vector'],
  'graphs.threads': ['"values"', 'metadata', 'config', 'interrupts', 'error'],
  ...Object.fromEntries(
    ['graphs_javascript', 'graphs_python'].flatMap(schema =>
      Object.entries(CHECKPOINTS).map(([table, columns]) => [`${schema}.${table}`, columns]),
    ),
  ),
}
const PAGES_OF_SAMPLE = 200
const BYTES_OF_ROW = 100

/**
 * Files do not shrink when rows are deleted, so that a caller could not get below a limit again. Rows of a sample
 * of pages are added up instead. Values in other pages are not read for that.
 */
async function measureBytes({ query }: Database): Promise<number> {
  const tables = await query(
    `select name,
      least(100, 819200.0 * ${PAGES_OF_SAMPLE} / greatest(1, pg_relation_size(to_regclass(name))))::float4 as percent
    from unnest($1::text[]) as name
    where to_regclass(name) is not null`,
    [Object.keys(WIDE_COLUMNS)],
  )
  let total = 0
  for (const { name, percent } of tables) {
    const width = WIDE_COLUMNS[name]!.map(column => `coalesce(pg_column_size(${column}), 0)`).join(' + ')
    const [row] = await query(
      `select coalesce(sum(${width} + ${BYTES_OF_ROW}), 0)::float8 as bytes from ${name} tablesample system ($1)`,
      [percent],
    )
    total += (row!.bytes * 100) / percent
  }
  return total
}
