// Sends lines of builds and runs on, in their order, a batch at a time, again until they were received.
import { randomUUID } from 'node:crypto'
import { LINES_AT_ONCE, type LogBatch } from '../sync/logs.schema.ts'
import { type Control, Refused } from './control.ts'
import type { Level, Ref } from './engines/engine.ts'
import { cutAt, plain } from './last-lines.ts'

type Kind = LogBatch['kind']
/** `left`: how many lines were left out before the first that there is. */
type Stream = { of: Ref; kind: Kind; stream: string; from: number; left: number; lines: LogBatch['lines'] }

const AT_ONCE = 4
const MOST_KEPT = 20_000
/** The oldest go so many at once: one by one, each would move all the others. */
const LEFT_OUT = 1_000
const BATCH_BYTES = 512 * 1024
const LONGEST = 16 * 1024

export class LogShipper {
  readonly #control: Pick<Control, 'logs'>
  readonly #who: () => { agent_id: string; fence: number } | undefined
  readonly #streams = new Map<string, Stream>()
  #sending: Promise<void> | undefined

  constructor(control: Pick<Control, 'logs'>, who: () => { agent_id: string; fence: number } | undefined) {
    this.#control = control
    this.#who = who
  }

  add({ deployment_id, revision_id }: Ref, kind: Kind, message: string, level: Level): void {
    const name = `${revision_id} ${kind}`
    // Whatever else it was given with, secrets perhaps, stays here.
    const of = { deployment_id, revision_id }
    const stream = this.#streams.get(name) ?? { of, kind, stream: randomUUID(), from: 0, left: 0, lines: [] }
    this.#streams.set(name, stream)
    const text = plain(message)
    stream.lines.push({ timestamp: new Date().toISOString(), level, message: cutAt(text, LONGEST) })
    // Nobody has received the oldest, so their numbers are free.
    if (stream.lines.length >= MOST_KEPT + LEFT_OUT) stream.left += stream.lines.splice(0, LEFT_OUT).length
  }

  flush(): Promise<void> {
    this.#sending ??= this.#send().finally(() => {
      this.#sending = undefined
    })
    return this.#sending
  }

  /** Each stream in its order, several streams at once: a request is about one revision only, and there may be a thousand. */
  async #send(): Promise<void> {
    const streams = this.#streams.entries()
    await Promise.all(Array.from({ length: AT_ONCE }, () => this.#sendEach(streams)))
  }

  async #sendEach(streams: Iterable<[string, Stream]>): Promise<void> {
    for (const [name, stream] of streams) {
      // What comes meanwhile goes with the next round: one that always has more would keep all others waiting.
      for (const last = stream.lines.at(-1); last && stream.lines.includes(last); ) {
        const who = this.#who()
        if (!who) return
        const { of, kind, from, left } = stream
        const lines = batchOf(left ? [leftOut(left), ...stream.lines] : stream.lines)
        try {
          const { next } = await this.#control.logs({ ...who, ...of, kind, stream: stream.stream, from, lines })
          stream.lines.splice(0, stream.lines.indexOf(lines.at(-1)!) + 1)
          stream.left -= left
          stream.from = next
        } catch (error) {
          // Of a revision that is gone nobody wants to know anything; a lease may come back.
          if (!(error instanceof Refused) || [401, 403, 409, 429].includes(error.status) || error.status >= 500) return
          Object.assign(stream, { left: 0, lines: [] })
        }
      }
      // Kept for its numbers while it may go on; afterwards a new stream would do as well.
      if (this.#streams.size > 1000) this.#streams.delete(name)
    }
  }
}

const leftOut = (count: number): LogBatch['lines'][number] => ({
  ...{ timestamp: new Date().toISOString(), level: 'WARNING' },
  message: `… ${count} lines before this one are left out: they came faster than they were received.`,
})

function batchOf(lines: LogBatch['lines']): LogBatch['lines'] {
  let bytes = 0
  const most = lines.slice(0, LINES_AT_ONCE)
  const end = most.findIndex(({ message }) => {
    bytes += Buffer.byteLength(message) + 100
    return bytes > BATCH_BYTES
  })
  return end === -1 ? most : most.slice(0, Math.max(1, end))
}
