// Ships the lines of builds and applications to the control plane, in order, in batches, with retries.
import { randomUUID } from 'node:crypto'
import {
  type LogAttributes,
  type LogBatch,
  MAX_ATTRIBUTE_LENGTH,
  MAX_ATTRIBUTES_BYTES,
  MAX_BATCH_LINES,
} from '../../protocol/logs.schema.ts'
import type { LogLevel, LogSource, RevisionRef } from '../engine.ts'
import { truncateText } from '../system/last-lines.ts'
import { MAX_LINE_LENGTH } from '../system/lines.ts'
import { type ControlPlaneClient, RequestRefused } from './client.ts'

type Kind = LogBatch['kind']
type Line = LogBatch['lines'][number] & { shownLength: number; isMasked: boolean; isDrained: boolean }
type LogStream = {
  ref: RevisionRef
  /** Set for the lines of a job. */
  job_id: string | undefined
  kind: Kind
  id: string
  from: number
  /** The number of lines that were dropped before the first of `lines`. */
  droppedCount: number
  isWithheld: boolean
  lines: Line[]
  uncounted: number
}
type LineDetails = {
  shownLength?: number | undefined
  /** Absent: now. */
  timestamp?: string
  attributes?: LogAttributes | null | undefined
}
type Options = {
  control: Pick<ControlPlaneClient, 'logs'>
  currentLease: () => { agent_id: string; fence: number } | undefined
  /** Lines of a revision are held back until this is true. Null: its secrets will never be known. */
  areSecretsKnown: (ref: RevisionRef) => boolean | null
  /** The text after `from`, redacted. */
  redact: (ref: RevisionRef, text: string, from: number, isOfJob: boolean) => string
  drains?: LineReceiver | undefined
}
/** Gets each line once, redacted, whether the control plane answers or not. */
type LineReceiver = {
  wants: (deployment_id: string) => boolean
  addLines: (source: DrainSource, kind: Kind, lines: LogBatch['lines']) => void
  /** Lines that it does not get. */
  noteLost: (source: DrainSource, kind: Kind, count: number) => void
}
type DrainSource = RevisionRef & { job_id: string | undefined }

const MAX_CONCURRENT_STREAMS = 4
const MAX_LINES = 60_000
const MAX_CHARACTERS = 16 * 1024 * 1024
const RECOUNT_CHARACTERS = MAX_CHARACTERS / 4
/** The oldest lines are dropped in groups, because each removal moves all others. */
const DROP_LINES = 1_000
const MAX_BATCH_BYTES = 512 * 1024
/** Without a valid key or lease, lines are kept until there is one again. */
const RETRYABLE_STATUSES = new Set([401, 403, 409, 429])

export class LogShipper {
  readonly #options: Options
  readonly #streams = new Map<string, LogStream>()
  #sending: Promise<void> | undefined

  constructor(options: Options) {
    this.#options = options
  }

  add(
    { deployment_id, revision_id, job_id, process }: LogSource & { job_id?: string },
    kind: Kind,
    message: string,
    level: LogLevel,
    { shownLength = 0, timestamp = new Date().toISOString(), attributes }: LineDetails = {},
  ): void {
    const name = `${revision_id} ${kind} ${job_id ?? ''}`
    // Callers may pass a whole revision with its secrets: only the ids are kept.
    const stream = this.#streams.get(name) ?? newStream({ deployment_id, revision_id }, kind, job_id)
    this.#streams.set(name, stream)
    stream.lines.push({
      timestamp,
      level,
      message: message.slice(0, 2 * MAX_LINE_LENGTH),
      ...(process !== undefined && { process }),
      ...(attributes && { attributes }),
      shownLength,
      isMasked: false,
      isDrained: false,
    })
    if (stream.lines.length >= MAX_LINES + DROP_LINES) this.#drop(stream, DROP_LINES)
    stream.uncounted += message.length
    if (stream.uncounted > RECOUNT_CHARACTERS) this.#drop(stream, countExcess(stream))
  }

  #drop(stream: LogStream, count: number): void {
    const dropped = stream.lines.splice(0, count)
    stream.droppedCount += dropped.length
    this.#noteLost(stream, dropped)
  }

  #noteLost({ ref, kind, job_id }: LogStream, lines: Line[]): void {
    const lost = lines.filter(({ isDrained }) => !isDrained).length
    if (lost > 0) this.#options.drains?.noteLost({ ...ref, job_id }, kind, lost)
  }

  /** Not after the control plane has them: it may be away for longer than lines are kept in memory. */
  #giveToDrains(stream: LogStream): void {
    const { drains, areSecretsKnown } = this.#options
    const { ref, kind, job_id, lines } = stream
    if (!drains?.wants(ref.deployment_id) || !areSecretsKnown(ref)) return
    const own = lines.slice(lines.findLastIndex(({ isDrained }) => isDrained) + 1)
    for (const line of own) {
      this.#mask(stream, line)
      line.isDrained = true
    }
    drains.addLines({ ...ref, job_id }, kind, own)
  }

  flush(): Promise<void> {
    for (const stream of this.#streams.values()) this.#giveToDrains(stream)
    this.#sending ??= this.#send().finally(() => {
      this.#sending = undefined
    })
    return this.#sending
  }

  #mask({ ref, job_id }: LogStream, line: Line): void {
    if (line.isMasked) return
    const redact = (text: string, from = 0) => this.#options.redact(ref, text, from, job_id !== undefined)
    line.message = truncateText(redact(line.message, line.shownLength), MAX_LINE_LENGTH)
    for (const [name, value] of Object.entries(line.attributes ?? {}))
      if (typeof value === 'string') line.attributes![name] = truncateText(redact(value), MAX_ATTRIBUTE_LENGTH)
    line.isMasked = true
  }

  /** Ships several streams at once, because a request carries the lines of one revision only. */
  async #send(): Promise<void> {
    const streams = this.#streams.entries()
    await Promise.all(Array.from({ length: MAX_CONCURRENT_STREAMS }, () => this.#sendEach(streams)))
  }

  async #sendEach(streams: Iterable<[string, LogStream]>): Promise<void> {
    for (const [name, stream] of streams) {
      // Lines added meanwhile wait for the next round, so that a busy stream cannot starve the others.
      for (const last = stream.lines.at(-1); last && stream.lines.includes(last); ) {
        const lease = this.#options.currentLease()
        if (!lease) return
        const areSecretsKnown = this.#options.areSecretsKnown(stream.ref)
        if (areSecretsKnown === false) break
        if (areSecretsKnown === null) {
          this.#noteLost(
            stream,
            stream.lines.filter(({ isMasked }) => !isMasked),
          )
          withholdLines(stream)
        }
        const { ref, kind, job_id, from, droppedCount } = stream
        const lines = selectBatch(droppedCount ? [droppedLinesWarning(droppedCount), ...stream.lines] : stream.lines)
        if (lines.length === 0) break
        for (const line of lines) this.#mask(stream, line)
        const batch = lines.map(({ shownLength: _, isMasked: __, isDrained: ___, ...line }) => line)
        try {
          const { next } = await this.#options.control.logs({
            ...lease,
            ...ref,
            kind,
            ...(job_id && { job_id }),
            stream: stream.id,
            from,
            lines: batch,
          })
          stream.lines.splice(0, stream.lines.indexOf(lines.at(-1)!) + 1)
          stream.droppedCount -= droppedCount
          stream.from = next
        } catch (error) {
          if (!(error instanceof RequestRefused) || RETRYABLE_STATUSES.has(error.status) || error.status >= 500) return
          // The revision no longer exists: nobody can read its lines.
          Object.assign(stream, { droppedCount: 0, lines: [] })
        }
      }
      // An idle stream keeps its numbering, unless there are many: the next line would then start a new one.
      if (this.#streams.size > 1000 && stream.lines.length === 0) this.#streams.delete(name)
    }
  }
}

const newStream = (ref: RevisionRef, kind: Kind, job_id: string | undefined): LogStream => ({
  ref,
  job_id,
  kind,
  id: randomUUID(),
  from: 0,
  droppedCount: 0,
  isWithheld: false,
  lines: [],
  uncounted: 0,
})

/** Counts the oldest lines that are beyond the limit. */
function countExcess(stream: LogStream): number {
  stream.uncounted = 0
  let characters = 0
  const last = stream.lines.findLastIndex(({ message }) => {
    characters += message.length
    return characters > MAX_CHARACTERS
  })
  return last + 1
}

const warningLine = (message: string): Line => ({
  timestamp: new Date().toISOString(),
  level: 'WARNING',
  message,
  shownLength: 0,
  isMasked: true,
  isDrained: true,
})

const droppedLinesWarning = (count: number) =>
  warningLine(`… ${count} lines before this one are left out: they were written faster than they could be sent.`)

/** A replica started by an earlier agent may write secrets that this one does not know. The warning is sent once. */
function withholdLines(stream: LogStream): void {
  const warning = 'Further lines of this revision are left out: this agent does not know its secrets. Redeploy it.'
  stream.lines = [
    ...stream.lines.filter(({ isMasked }) => isMasked),
    ...(stream.isWithheld ? [] : [warningLine(warning)]),
  ]
  stream.droppedCount = 0
  stream.isWithheld = true
}

function selectBatch(lines: Line[]): Line[] {
  let bytes = 0
  const candidates = lines.slice(0, MAX_BATCH_LINES)
  const end = candidates.findIndex(({ message, attributes }) => {
    bytes += Buffer.byteLength(message) + (attributes ? MAX_ATTRIBUTES_BYTES : 0) + 100
    return bytes > MAX_BATCH_BYTES
  })
  return end === -1 ? candidates : candidates.slice(0, Math.max(1, end))
}
