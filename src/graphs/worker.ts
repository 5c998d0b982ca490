// Claims runs, has executors run them, and writes their events and ends.
import { randomUUID } from 'node:crypto'
import { deleteCheckpoints, deleteCheckpointsOfRun } from './checkpoints.ts'
import type { Database } from './database.ts'
import { type Executor, ExecutorEnded, type RunResult } from './executor.ts'
import {
  type ClaimedRun,
  claimRuns,
  extendLeases,
  finishRun,
  HEARTBEAT_MS,
  insertEvents,
  LEASE_SECONDS,
  MAX_ATTEMPTS,
  type NewEvent,
  type RunEnd,
  releaseRuns,
  settleThread,
} from './queue.ts'
import { removeRun } from './runs.ts'

type Active = { run: ClaimedRun; executor: Executor; done: Promise<void>; isCancelled: boolean; isLost: boolean }
export type EndedRun = { run: ClaimedRun; end: RunEnd; endedAt: Date }
type Options = {
  db: Database
  executors: Executor[]
  /** Runs at the same time, for each executor. */
  slots: number
  /** After the end of a run was written. */
  onEnd(ended: EndedRun): void
}

const LOOK_MS = 1000
/** Ten attempts must outlast a restart of the database. */
const GIVE_BACK_MS = 3000

export class Worker {
  readonly #options: Options
  readonly owner = randomUUID()
  readonly #active = new Map<string, Active>()
  readonly #writer: EventWriter
  #timers: NodeJS.Timeout[] = []
  #isStopping = false
  #looking: Promise<void> | undefined
  #isLookingAgain = false
  /** The last look filled the slots, so that more may be due when one is free. */
  #hasBacklog = false
  #lastHeartbeat = Date.now()

  constructor(options: Options) {
    this.#options = options
    this.#writer = new EventWriter(options.db, this.owner)
  }

  get activeCount(): number {
    return this.#active.size
  }

  start(): void {
    const everySecond = setInterval(() => {
      this.wake()
      void this.#claim(true)
    }, LOOK_MS)
    this.#timers = [everySecond, setInterval(() => void this.heartbeat(), HEARTBEAT_MS)]
    this.wake()
  }

  /** Looks for due runs, once more if it is looking already. */
  wake(): void {
    if (this.#isStopping) return
    this.#isLookingAgain = true
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined
    })
  }

  async #look(): Promise<void> {
    while (this.#isLookingAgain && !this.#isStopping) {
      this.#isLookingAgain = false
      this.#hasBacklog = await this.#claim(false)
    }
  }

  /** Returns true if it filled the slots of an executor, or found them full. */
  async #claim(areLost: boolean): Promise<boolean> {
    const { db, executors, slots } = this.#options
    let isMoreDue = false
    for (const executor of executors) {
      const active = [...this.#active.values()].filter(one => one.executor === executor).length
      const limit = slots - active
      if (!executor.isReady || this.#isStopping) continue
      if (limit <= 0) {
        isMoreDue = true
        continue
      }
      const graphIds = executor.options.graphs.map(graph => graph.id)
      const wanted = { owner: this.owner, graphIds, limit, areLost, active: [...this.#active.keys()] }
      const runs = await claimRuns(db.query, wanted).catch(error => {
        console.error(`claim failed: ${(error as Error).message}`)
        return []
      })
      for (const run of runs) this.#begin(run, executor)
      if (runs.length === limit) isMoreDue = true
    }
    return isMoreDue
  }

  #begin(run: ClaimedRun, executor: Executor): void {
    const active: Active = { run, executor, done: Promise.resolve(), isCancelled: false, isLost: false }
    this.#active.set(run.run_id, active)
    active.done = this.#work(active)
      .catch(error => console.error(`run failed to end run=${run.run_id}: ${(error as Error).message}`))
      .finally(() => {
        this.#active.delete(run.run_id)
        if (this.#hasBacklog) this.wake()
      })
  }

  async #work(active: Active): Promise<void> {
    const { run } = active
    if (run.attempt > 1) console.log(`run taken over run=${run.run_id} attempt=${run.attempt}`)
    const result = await this.#execute(active)
    if (result === undefined) return
    if (result.status === 'lost') return this.#giveBack(active)
    if (result.status === 'error') this.#writer.add(run, 'error', JSON.stringify(result.error))
    await this.#writer.flush()
    if (active.isLost) return this.#deleteOrphans(run)
    if (result.status === 'interrupted' && run.cancel_action === 'rollback') return this.#rollBack(active)
    await this.#finish(active, result)
  }

  /** Returns nothing if the run goes back to the queue. */
  async #execute(active: Active): Promise<RunResult | undefined> {
    const { run, executor } = active
    if (run.cancel_action) return { status: 'interrupted', error: null, output: null, state: null }
    if (run.attempt > MAX_ATTEMPTS) {
      const message = `The process that ran it ended ${MAX_ATTEMPTS} times. The last state is kept.`
      return { status: 'error', error: { error: 'RunLost', message }, output: null, state: null }
    }
    try {
      return await executor.run(run, (event, data) => {
        if (!active.isLost) this.#writer.add(run, event, data)
      })
    } catch (error) {
      if (!(error instanceof ExecutorEnded)) {
        const { name, message } = error as Error
        return { status: 'error', error: { error: name, message }, output: null, state: null }
      }
      if (!this.#isStopping) await releaseRuns(this.#options.db.query, this.owner, [run])
      return undefined
    }
  }

  async #finish({ run }: Active, result: RunResult): Promise<void> {
    const { db, onEnd } = this.#options
    const { error, state } = result
    const status = result.status as RunEnd['status']
    const output = error ? JSON.stringify({ __error__: error }) : (result.output ?? '{}')
    const end: RunEnd = { status, output, state, error, lastEvent: lastEventOf(run, result) }
    if (!(await this.#writeEnd(run, end))) return this.#deleteOrphans(run)
    if (run.kwargs.temporary) await deleteCheckpoints(db.query, [run.thread_id])
    onEnd({ run, end, endedAt: new Date() })
  }

  /** The database was away: the run goes on later, here or elsewhere. While it is away, its lease ends by itself. */
  async #giveBack({ run, isLost }: Active): Promise<void> {
    if (isLost) return
    console.error(`run given back, its checkpoints were out of reach run=${run.run_id} attempt=${run.attempt}`)
    await new Promise(resolve => setTimeout(resolve, GIVE_BACK_MS))
    await releaseRuns(this.#options.db.query, this.owner, [run])
  }

  /** A state that Postgres refuses, such as text of another encoding, must not bring the run back for ever. */
  async #writeEnd(run: ClaimedRun, end: RunEnd): Promise<boolean> {
    const { db } = this.#options
    try {
      return await finishRun(db, this.owner, run, end)
    } catch (error) {
      if (!isDataError(error)) throw error
      const failure = { error: 'InvalidState', message: `The state could not be stored: ${error.message}` }
      const output = JSON.stringify({ __error__: failure })
      return finishRun(db, this.owner, run, { status: 'error', output, state: null, error: failure })
    }
  }

  /** A thread may be deleted while its run goes on, which may still have written a checkpoint. */
  async #deleteOrphans({ thread_id }: ClaimedRun): Promise<void> {
    const { query } = this.#options.db
    const threads = await query('select from graphs.threads where thread_id = $1', [thread_id])
    if (threads.length === 0) await deleteCheckpoints(query, [thread_id])
  }

  /** The thread is again as it was before the run, which is deleted. */
  async #rollBack({ run, executor }: Active): Promise<void> {
    const { db } = this.#options
    await deleteCheckpointsOfRun(db.query, executor.options.language, run)
    const state = JSON.parse(
      await executor.ask('summary', { graph_id: run.graph_id, config: { configurable: { thread_id: run.thread_id } } }),
    )
    await db.transaction(async query => {
      await query('select from graphs.threads where thread_id = $1 for update', [run.thread_id])
      await settleThread(query, run, { state, error: null, status: 'success' })
      await removeRun(query, run.run_id)
    })
  }

  /** Cancels a run that is here. The action is in its row. */
  async heartbeat(): Promise<void> {
    const held = [...this.#active.values()]
    if (held.length === 0) {
      this.#lastHeartbeat = Date.now()
      return
    }
    try {
      const kept = await extendLeases(
        this.#options.db.query,
        this.owner,
        held.map(({ run }) => run),
      )
      this.#lastHeartbeat = Date.now()
      const actions = new Map(kept.map(row => [row.run_id, row.cancel_action]))
      for (const active of held) {
        const action = actions.get(active.run.run_id)
        if (action === undefined) this.#lose(active)
        else if (action !== null) this.#cancel(active, action)
      }
    } catch (error) {
      console.error(`heartbeat failed: ${(error as Error).message}`)
      if (Date.now() - this.#lastHeartbeat > LEASE_SECONDS * 1000) for (const active of held) this.#lose(active)
    }
  }

  #cancel(active: Active, action: 'interrupt' | 'rollback'): void {
    if (active.isCancelled) return
    active.isCancelled = true
    active.run.cancel_action = action
    active.executor.cancel(active.run.run_id)
  }

  /** Another copy may have the run, or the run has just ended here: nothing more is written. */
  #lose(active: Active): void {
    if (active.isLost || !this.#active.has(active.run.run_id)) return
    active.isLost = true
    active.executor.cancel(active.run.run_id)
  }

  /** Resolves when the events of a run are written. Refused for a run that another copy may have by now. */
  async flush(runId: string): Promise<void> {
    await this.#writer.flush()
    const active = this.#active.get(runId)
    const isLate = Date.now() - this.#lastHeartbeat > LEASE_SECONDS * 1000
    if (!active || active.isLost || isLate) throw new Error(`The run ${runId} does not belong to this copy any more.`)
  }

  isRunning = (runId: string): boolean => this.#active.has(runId)

  /** Lets runs end for a while, then returns the rest to the queue, after their executors have ended. */
  async stop(graceMs: number): Promise<void> {
    this.#isStopping = true
    for (const timer of this.#timers.slice(0, 1)) clearInterval(timer)
    const all = Promise.all([...this.#active.values()].map(active => active.done))
    await Promise.race([all, new Promise(resolve => setTimeout(resolve, graceMs).unref())])
    for (const timer of this.#timers) clearInterval(timer)
    const left = [...this.#active.values()].map(({ run }) => run)
    await Promise.all(this.#options.executors.map(executor => executor.stop()))
    if (left.length > 0) await releaseRuns(this.#options.db.query, this.owner, left)
  }
}

/** Codes of class 22 are about the data of a statement. */
const isDataError = (error: unknown): error is Error & { code: string } =>
  error instanceof Error && /^22/.test(String((error as { code?: unknown }).code))

/** A run that waits for an answer is `interrupted` in the streaming protocol, and a `success` elsewhere. */
function lastEventOf({ kwargs, graph_id }: ClaimedRun, { status, state, error }: RunResult): string | undefined {
  if (!kwargs.protocol || status === 'lost') return undefined
  const isAsking = Object.keys(state?.interrupts ?? {}).length > 0
  const ends = { success: isAsking ? 'interrupted' : 'completed', error: 'failed', interrupted: 'interrupted' }
  const data = { event: ends[status], graph_name: graph_id, ...(error && { error: error.message }) }
  return JSON.stringify({ method: 'lifecycle', namespace: [], timestamp: Date.now(), data })
}

/** Writes events in order. While one statement is under way, what comes is gathered for the next. */
class EventWriter {
  readonly #db: Database
  readonly #owner: string
  #waiting: NewEvent[] = []
  #writing: Promise<void> | undefined

  constructor(db: Database, owner: string) {
    this.#db = db
    this.#owner = owner
  }

  add(run: ClaimedRun, event: string, data: string): void {
    const { run_id, thread_id, attempt } = run
    this.#waiting.push({ run_id, thread_id, attempt, event, data })
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined
    })
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const events = this.#waiting.splice(0, 500)
      await this.#insert(events)
    }
  }

  /** A lost connection is tried again while leases may still hold. */
  async #insert(events: NewEvent[]): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await insertEvents(this.#db.query, this.#owner, events)
        return
      } catch (error) {
        console.error(`events not written attempt=${attempt}: ${(error as Error).message}`)
        if (attempt === 10) return
        await new Promise(resolve => setTimeout(resolve, 100 * attempt))
      }
    }
  }

  /** Resolves when all that was added is written. */
  async flush(): Promise<void> {
    while (this.#writing) await this.#writing
  }
}
