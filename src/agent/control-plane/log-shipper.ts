// Sends lines of builds and runs on, in their order, a batch at a time, again until they were received.
import { randomUUID } from 'node:crypto'
import { type LogBatch, MAX_BATCH_LINES } from '../../protocol/logs.schema.ts'
import type { LogLevel, RevisionRef } from '../engines/engine.ts'
import { truncateText } from '../redaction/last-lines.ts'
import { type ControlPlaneClient, RequestRefused } from './client.ts'

type Kind = LogBatch['kind']
/** `droppedCount`: how many lines were left out before the first that there is. */
/** `isMasked`: no secret is in it any more. */
type Line = LogBatch['lines'][number] & { isMasked: boolean }
type LogStream = {
  of: RevisionRef
  kind: Kind
  id: string
  from: number
  droppedCount: number
  isWithheld: boolean
  lines: Line[]
  /** Characters that came since all were counted. */
  uncounted: number
}
type Options = {
  control: Pick<ControlPlaneClient, 'logs'>
  /** Undefined while there is no lease to send under. */
  currentLease: () => { agent_id: string; fence: number } | undefined
  /** Whether what is secret of a revision is known: no line of it leaves before. Null: it never will be. */
  areSecretsKnown: (of: RevisionRef) => boolean | null
  /** What of a text may leave this machine. */
  redact: (of: RevisionRef, text: string) => string
}

const MAX_CONCURRENT_STREAMS = 4
const MAX_LINES = 20_000
/** Of the lines of one stream together: one that writes long lines may not fill the memory. */
const MAX_CHARACTERS = 8 * 1024 * 1024
const RECOUNT_CHARACTERS = MAX_CHARACTERS / 4
/** The oldest go so many at once: one by one, each would move all the others. */
const DROP_LINES = 1_000
const MAX_BATCH_BYTES = 512 * 1024
const MAX_LINE_LENGTH = 16 * 1024

export class LogShipper {
  readonly #options: Options
  readonly #streams = new Map<string, LogStream>()
  #sending: Promise<void> | undefined

  constructor(options: Options) {
    this.#options = options
  }

  add({ deployment_id, revision_id }: RevisionRef, kind: Kind, message: string, level: LogLevel): void {
    const name = `${revision_id} ${kind}`
    // Whatever else it was given with, secrets perhaps, stays here.
    const of = { deployment_id, revision_id }
    const begun: LogStream = {
      of,
      kind,
      id: randomUUID(),
      from: 0,
      droppedCount: 0,
      isWithheld: false,
      lines: [],
      uncounted: 0,
    }
    const stream = this.#streams.get(name) ?? begun
    this.#streams.set(name, stream)
    stream.lines.push({
      timestamp: new Date().toISOString(),
      level,
      message: message.slice(0, 2 * MAX_LINE_LENGTH),
      isMasked: false,
    })
    // Nobody has received the oldest, so their numbers are free.
    if (stream.lines.length >= MAX_LINES + DROP_LINES) stream.droppedCount += stream.lines.splice(0, DROP_LINES).length
    stream.uncounted += message.length
    if (stream.uncounted > RECOUNT_CHARACTERS) dropOldestLines(stream)
  }

  flush(): Promise<void> {
    this.#sending ??= this.#send().finally(() => {
      this.#sending = undefined
    })
    return this.#sending
  }

  /** Once, also where it is sent again. */
  #mask(of: RevisionRef, line: Line): void {
    if (!line.isMasked) line.message = truncateText(this.#options.redact(of, line.message), MAX_LINE_LENGTH)
    line.isMasked = true
  }

  /** Each stream in its order, several streams at once: a request is about one revision only, and there may be a thousand. */
  async #send(): Promise<void> {
    const streams = this.#streams.entries()
    await Promise.all(Array.from({ length: MAX_CONCURRENT_STREAMS }, () => this.#sendEach(streams)))
  }

  async #sendEach(streams: Iterable<[string, LogStream]>): Promise<void> {
    for (const [name, stream] of streams) {
      // What comes meanwhile goes with the next round: one that always has more would keep all others waiting.
      for (const last = stream.lines.at(-1); last && stream.lines.includes(last); ) {
        const who = this.#options.currentLease()
        if (!who) return
        const known = this.#options.areSecretsKnown(stream.of)
        if (known === false) break
        if (known === null) withholdLines(stream)
        const { of, kind, from, droppedCount: left } = stream
        const lines = selectBatch(left ? [droppedLinesWarning(left), ...stream.lines] : stream.lines)
        if (lines.length === 0) break
        for (const line of lines) this.#mask(of, line)
        const batch = lines.map(({ isMasked: _, ...line }) => line)
        try {
          const { next } = await this.#options.control.logs({
            ...{ ...who, ...of, kind, stream: stream.id, from, lines: batch },
          })
          stream.lines.splice(0, stream.lines.indexOf(lines.at(-1)!) + 1)
          stream.droppedCount -= left
          stream.from = next
        } catch (error) {
          // Of a revision that is gone nobody wants to know anything; a lease may come back.
          if (!(error instanceof RequestRefused) || [401, 403, 409, 429].includes(error.status) || error.status >= 500)
            return
          Object.assign(stream, { droppedCount: 0, lines: [] })
        }
      }
      // Kept for its numbers while it may go on; afterwards a new stream would do as well.
      if (this.#streams.size > 1000 && stream.lines.length === 0) this.#streams.delete(name)
    }
  }
}

function dropOldestLines(stream: LogStream): void {
  stream.uncounted = 0
  let characters = 0
  const last = stream.lines.findLastIndex(({ message }) => {
    characters += message.length
    return characters > MAX_CHARACTERS
  })
  stream.droppedCount += stream.lines.splice(0, last + 1).length
}

const warningLine = (message: string): Line => ({
  ...{ timestamp: new Date().toISOString(), level: 'WARNING', message, isMasked: true },
})

const droppedLinesWarning = (count: number) =>
  warningLine(`… ${count} lines before this one are left out: they came faster than they were received.`)

/** Said once: what a copy of an earlier agent still writes may hold what this one does not know. */
function withholdLines(stream: LogStream): void {
  const said = 'The lines of this revision are left out from here on: this agent does not know its secrets.'
  stream.lines = [
    ...stream.lines.filter(({ isMasked: masked }) => masked),
    ...(stream.isWithheld ? [] : [warningLine(said)]),
  ]
  stream.droppedCount = 0
  stream.isWithheld = true
}

function selectBatch(lines: Line[]): Line[] {
  let bytes = 0
  const most = lines.slice(0, MAX_BATCH_LINES)
  const end = most.findIndex(({ message }) => {
    bytes += Buffer.byteLength(message) + 100
    return bytes > MAX_BATCH_BYTES
  })
  return end === -1 ? most : most.slice(0, Math.max(1, end))
}
