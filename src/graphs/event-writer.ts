// Writes events of runs in order. While one statement is under way, what comes is gathered for the next.
import { type Database, isDataError } from './database.ts'
import { type ClaimedRun, insertEvents, type NewEvent } from './queue.ts'

type Options = {
  db: Database
  owner: string
  /** Tells whether the run is still this copy's. Events of others are dropped. */
  isHeld(runId: string): boolean
  /** Postgres refuses an event of the run, and would again. */
  onRefused(runId: string, error: Error): void
  /** The memory of this copy is not for what a slow database has yet to take. */
  onPressure(isHigh: boolean): void
}

const HIGH_BYTES = 16 * 2 ** 20
const LOW_BYTES = 4 * 2 ** 20
const BATCH = 500
const BATCH_BYTES = 32 * 2 ** 20
const LONGEST_PAUSE_MS = 1000

export class EventWriter {
  readonly #options: Options
  #waiting: NewEvent[] = []
  #waitingBytes = 0
  #writing: Promise<void> | undefined

  constructor(options: Options) {
    this.#options = options
  }

  add(run: ClaimedRun, event: string, data: string): void {
    const { run_id, thread_id, attempt } = run
    this.#waiting.push({ run_id, thread_id, attempt, event, data })
    this.#waitingBytes += data.length
    if (this.#waitingBytes > HIGH_BYTES) this.#options.onPressure(true)
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined
    })
  }

  /** Resolves when all that was added is written. */
  async flush(): Promise<void> {
    while (this.#writing) await this.#writing
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const events = this.#takeBatch()
      await this.#insert(events)
      for (const { data } of events) this.#waitingBytes -= data.length
      if (this.#waitingBytes < LOW_BYTES) this.#options.onPressure(false)
    }
  }

  #takeBatch(): NewEvent[] {
    let count = 0
    for (let bytes = 0; count < Math.min(BATCH, this.#waiting.length) && bytes < BATCH_BYTES; count++)
      bytes += this.#waiting[count]!.data.length
    return this.#waiting.splice(0, count)
  }

  /** Tried again for as long as the runs are here: a stream never lacks an event in its middle. */
  async #insert(events: NewEvent[]): Promise<void> {
    const { db, owner, isHeld } = this.#options
    let left = events
    for (let attempt = 1; left.length > 0; attempt++) {
      try {
        await insertEvents(db.query, owner, left)
        return
      } catch (error) {
        if (isDataError(error)) return this.#insertEach(left, error)
        console.error(`events not written attempt=${attempt}: ${(error as Error).message}`)
        await new Promise(resolve => setTimeout(resolve, Math.min(100 * attempt, LONGEST_PAUSE_MS)))
        left = left.filter(event => isHeld(event.run_id))
      }
    }
  }

  /** One event that is refused must not take those of other runs with it. */
  async #insertEach(events: NewEvent[], error: Error): Promise<void> {
    if (events.length === 1) return this.#options.onRefused(events[0]!.run_id, error)
    for (const event of events) await this.#insert([event])
  }
}
