// Claims runs, has executors run them, and writes their events and ends.
import { randomUUID } from 'node:crypto'
import { deleteCheckpoints, deleteCheckpointsOfRun } from './checkpoints.ts'
import { type Database, isDataError } from './database.ts'
import { EventWriter } from './event-writer.ts'
import { type Executor, ExecutorEnded, type RunResult } from './executor.ts'
import { LIMIT_VARIABLES } from './limits.ts'
import {
  type ClaimedRun,
  claimRuns,
  extendLeases,
  finishRun,
  HEARTBEAT_MS,
  LEASE_SECONDS,
  MAX_ATTEMPTS,
  type RunEnd,
  releaseRuns,
  settleThread,
} from './queue.ts'
import { removeRun } from './runs.ts'

type Failure = NonNullable<RunResult['error']>
type Active = {
  run: ClaimedRun
  executor: Executor
  done: Promise<void>
  isCancelled: boolean
  isLost: boolean
  eventBytes: number
  /** Ends the run, whatever its graph does. */
  failure: Failure | null
}
export type EndedRun = { run: ClaimedRun; end: RunEnd; endedAt: Date }
type Options = {
  db: Database
  executors: Executor[]
  /** Runs at the same time, for each executor. */
  slots: number
  /** The most that the events of a run may have. */
  eventMegabytes: number
  /** After the end of a run was written. */
  onEnd(ended: EndedRun): void
}

const LOOK_MS = 1000
const DELETE_AFTER_MS = 500
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
  /** Slots for runs that are being created, by executor. */
  readonly #reserved = new Map<Executor, number>()
  readonly #ended: string[] = []
  #lastHeartbeat = Date.now()

  constructor(options: Options) {
    this.#options = options
    this.#writer = new EventWriter({
      db: options.db,
      owner: this.owner,
      isHeld: id => this.#active.get(id)?.isLost === false,
      onRefused: (id, error) => this.#fail(id, 'InvalidEvent', `An event could not be stored: ${error.message}`),
      onPressure(isHigh) {
        for (const executor of options.executors) executor.pause(isHigh)
      },
    })
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
    const { db, executors } = this.#options
    let isMoreDue = false
    for (const executor of executors) {
      const limit = this.#freeSlots(executor)
      if (!executor.isReady || this.#isStopping) continue
      if (limit <= 0) {
        isMoreDue = true
        continue
      }
      const graphIds = executor.options.graphs.map(graph => graph.id)
      if (graphIds.length === 0) continue
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

  #freeSlots(executor: Executor): number {
    let free = this.#options.slots - (this.#reserved.get(executor) ?? 0)
    for (const active of this.#active.values()) if (active.executor === executor) free--
    return free
  }

  /**
   * Reserves a slot for a run that is about to be created, which then needs neither to be found nor to be claimed.
   * Nothing if runs wait already, or if this copy has no slot. `begin` gets the row, or null if it is another's.
   */
  reserve(graphId: string): { owner: string; begin(run: ClaimedRun | null): void } | undefined {
    const executor = this.#options.executors.find(one => one.options.graphs.some(graph => graph.id === graphId))
    if (!executor?.isReady || this.#isStopping || this.#hasBacklog || this.#freeSlots(executor) <= 0) return undefined
    const add = (change: number) => this.#reserved.set(executor, (this.#reserved.get(executor) ?? 0) + change)
    add(1)
    return {
      owner: this.owner,
      begin: run => {
        add(-1)
        if (run) this.#begin(run, executor)
      },
    }
  }

  #begin(run: ClaimedRun, executor: Executor): void {
    const active: Active = {
      run,
      executor,
      done: Promise.resolve(),
      isCancelled: false,
      isLost: false,
      eventBytes: 0,
      failure: null,
    }
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
    const executed = await this.#execute(active)
    if (executed === undefined) return
    const { failure } = active
    const result: RunResult = failure ? { ...executed, status: 'error', error: failure, output: null } : executed
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
      return await executor.run(run, (event, data) => this.#addEvent(active, event, data))
    } catch (error) {
      if (!(error instanceof ExecutorEnded) || active.failure) {
        const { name, message } = error as Error
        return { status: 'error', error: { error: name, message }, output: null, state: null }
      }
      if (this.#isStopping) return undefined
      // Its events are written only while it is this copy's.
      await this.#writer.flush()
      await releaseRuns(this.#options.db.query, this.owner, [run])
      return undefined
    }
  }

  #addEvent(active: Active, event: string, data: string): void {
    if (active.isLost || active.failure) return
    const { eventMegabytes } = this.#options
    active.eventBytes += data.length
    const advice = `Ask for fewer stream modes, or raise ${LIMIT_VARIABLES.eventMegabytes}.`
    if (active.eventBytes <= eventMegabytes * 2 ** 20) this.#writer.add(active.run, event, data)
    else
      this.#fail(active.run.run_id, 'TooManyEvents', `The run has more than ${eventMegabytes} MB of events. ${advice}`)
  }

  #fail(runId: string, error: string, message: string): void {
    const active = this.#active.get(runId)
    if (!active || active.failure) return
    active.failure = { error, message }
    active.executor.cancel(runId)
  }

  async #finish({ run }: Active, result: RunResult): Promise<void> {
    const { onEnd } = this.#options
    const { error, state } = result
    const status = result.status as RunEnd['status']
    const output = error ? JSON.stringify({ __error__: error }) : (result.output ?? '{}')
    const end: RunEnd = { status, output, state, error, lastEvent: lastEventOf(run, result) }
    if (!(await this.#writeEnd(run, end))) return this.#deleteOrphans(run)
    onEnd({ run, end, endedAt: new Date() })
    if (run.kwargs.temporary) this.#deleteSoon(run.thread_id)
  }

  /** Deletes the checkpoints of all runs that ended within a while. After a crash, they go with their threads. */
  #deleteSoon(threadId: string): void {
    this.#ended.push(threadId)
    if (this.#ended.length > 1) return
    setTimeout(() => void this.#deleteEnded(), DELETE_AFTER_MS).unref()
  }

  async #deleteEnded(): Promise<void> {
    const ended = this.#ended.splice(0)
    await deleteCheckpoints(this.#options.db.query, ended).catch(error =>
      console.error(`checkpoints not deleted: ${(error as Error).message}`),
    )
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
    await this.#deleteEnded()
  }
}

/** A run that waits for an answer is `interrupted` in the streaming protocol, and a `success` elsewhere. */
function lastEventOf({ kwargs, graph_id }: ClaimedRun, { status, state, error }: RunResult): string | undefined {
  if (!kwargs.protocol || status === 'lost') return undefined
  const isAsking = Object.keys(state?.interrupts ?? {}).length > 0
  const ends = { success: isAsking ? 'interrupted' : 'completed', error: 'failed', interrupted: 'interrupted' }
  const data = { event: ends[status], graph_name: graph_id, ...(error && { error: error.message }) }
  return JSON.stringify({ method: 'lifecycle', namespace: [], timestamp: Date.now(), data })
}
