// Sends lines of builds and runs on, in their order, a batch at a time, again until they were received.
import { randomUUID } from 'node:crypto'
import { LINES_AT_ONCE, type LogBatch } from '../sync/logs.schema.ts'
import { type Control, Refused } from './control.ts'
import type { Level, Ref } from './engines/engine.ts'
import { cutAt } from './last-lines.ts'

type Kind = LogBatch['kind']
/** `left`: how many lines were left out before the first that there is. */
/** `masked`: no secret is in it any more. */
type Line = LogBatch['lines'][number] & { masked: boolean }
type Stream = {
  of: Ref
  kind: Kind
  stream: string
  from: number
  left: number
  withheld: boolean
  lines: Line[]
  /** Characters that came since all were counted. */
  uncounted: number
}
type Options = {
  control: Pick<Control, 'logs'>
  /** Undefined while there is no lease to send under. */
  who: () => { agent_id: string; fence: number } | undefined
  /** Whether what is secret of a revision is known: no line of it leaves before. Null: it never will be. */
  knows: (of: Ref) => boolean | null
  /** What of a text may leave this machine. */
  redacted: (of: Ref, text: string) => string
}

const AT_ONCE = 4
const MOST_KEPT = 20_000
/** Of the lines of one stream together: one that writes long lines may not fill the memory. */
const MOST_CHARACTERS = 8 * 1024 * 1024
const COUNTED_EVERY = MOST_CHARACTERS / 4
/** The oldest go so many at once: one by one, each would move all the others. */
const LEFT_OUT = 1_000
const BATCH_BYTES = 512 * 1024
const LONGEST = 16 * 1024

export class LogShipper {
  readonly #options: Options
  readonly #streams = new Map<string, Stream>()
  #sending: Promise<void> | undefined

  constructor(options: Options) {
    this.#options = options
  }

  add({ deployment_id, revision_id }: Ref, kind: Kind, message: string, level: Level): void {
    const name = `${revision_id} ${kind}`
    // Whatever else it was given with, secrets perhaps, stays here.
    const of = { deployment_id, revision_id }
    const begun = { of, kind, stream: randomUUID(), from: 0, left: 0, withheld: false, lines: [], uncounted: 0 }
    const stream = this.#streams.get(name) ?? begun
    this.#streams.set(name, stream)
    stream.lines.push({
      timestamp: new Date().toISOString(),
      level,
      message: message.slice(0, 2 * LONGEST),
      masked: false,
    })
    // Nobody has received the oldest, so their numbers are free.
    if (stream.lines.length >= MOST_KEPT + LEFT_OUT) stream.left += stream.lines.splice(0, LEFT_OUT).length
    stream.uncounted += message.length
    if (stream.uncounted > COUNTED_EVERY) leaveOutOldest(stream)
  }

  flush(): Promise<void> {
    this.#sending ??= this.#send().finally(() => {
      this.#sending = undefined
    })
    return this.#sending
  }

  /** Once, also where it is sent again. */
  #mask(of: Ref, line: Line): void {
    if (!line.masked) line.message = cutAt(this.#options.redacted(of, line.message), LONGEST)
    line.masked = true
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
        const who = this.#options.who()
        if (!who) return
        const known = this.#options.knows(stream.of)
        if (known === false) break
        if (known === null) withhold(stream)
        const { of, kind, from, left } = stream
        const lines = batchOf(left ? [leftOut(left), ...stream.lines] : stream.lines)
        if (lines.length === 0) break
        for (const line of lines) this.#mask(of, line)
        const batch = lines.map(({ masked: _, ...line }) => line)
        try {
          const { next } = await this.#options.control.logs({
            ...{ ...who, ...of, kind, stream: stream.stream, from, lines: batch },
          })
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
      if (this.#streams.size > 1000 && stream.lines.length === 0) this.#streams.delete(name)
    }
  }
}

function leaveOutOldest(stream: Stream): void {
  stream.uncounted = 0
  let characters = 0
  const last = stream.lines.findLastIndex(({ message }) => {
    characters += message.length
    return characters > MOST_CHARACTERS
  })
  stream.left += stream.lines.splice(0, last + 1).length
}

const warning = (message: string): Line => ({
  ...{ timestamp: new Date().toISOString(), level: 'WARNING', message, masked: true },
})

const leftOut = (count: number) =>
  warning(`… ${count} lines before this one are left out: they came faster than they were received.`)

/** Said once: what a copy of an earlier agent still writes may hold what this one does not know. */
function withhold(stream: Stream): void {
  const said = 'The lines of this revision are left out from here on: this agent does not know its secrets.'
  stream.lines = [...stream.lines.filter(({ masked }) => masked), ...(stream.withheld ? [] : [warning(said)])]
  stream.left = 0
  stream.withheld = true
}

function batchOf(lines: Line[]): Line[] {
  let bytes = 0
  const most = lines.slice(0, LINES_AT_ONCE)
  const end = most.findIndex(({ message }) => {
    bytes += Buffer.byteLength(message) + 100
    return bytes > BATCH_BYTES
  })
  return end === -1 ? most : most.slice(0, Math.max(1, end))
}
