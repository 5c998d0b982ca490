// Reads a log: the newest lines or those around a line, then older ones, and follows new lines. A hidden tab pauses,
// and resumes after its last line.
import { signal } from '@preact/signals'
import { type CallOptions, getClient, type Reply } from '../../api/client.ts'
import {
  type ArrivedLine,
  appendLines,
  type Block,
  countLines,
  dropOldest,
  type Line,
  prependLines,
  toLine,
} from './blocks.ts'

const ROUTE = 'GET /v2/deployments/{deployment_id}/logs'
type Page = Reply<typeof ROUTE>
export type LogFilters = Pick<
  NonNullable<CallOptions<typeof ROUTE>['query']>,
  'kind' | 'revision_id' | 'process' | 'level' | 'query' | 'start_time'
>

const PAGE_LINES = 1000
/** The number of lines that are read unasked: as many as the log of a revision keeps. */
const FILL_LINES = 10_000
const MAX_LINES = 30_000
const DROPPED_LINES = 5_000
/** Numbers of lines that one search for older lines covers, if few of them match. */
const FILTERED_WINDOW = 10_000
const FEW_LINES = 200
const SILENCE_MS = 40_000

export type LogState = {
  blocks: Block[]
  /** `ended`: following failed with `error`. */
  phase: 'loading' | 'live' | 'reconnecting' | 'paused' | 'reading' | 'ended'
  hasOlder: boolean
  /** Later lines are known that are not read yet, so nothing is followed. */
  hasNewer: boolean
  isFilling: boolean
  error: Error | undefined
}

const EMPTY: LogState = {
  blocks: [],
  phase: 'loading',
  hasOlder: false,
  hasNewer: false,
  isFilling: true,
  error: undefined,
}

export class LogReader {
  readonly state = signal<LogState>(EMPTY)
  readonly #params: { deployment_id: string }
  readonly #filters: LogFilters
  /** Oldest lines may be dropped only then. */
  isAtEnd = true
  #reading = new AbortController()
  #following: AbortController | undefined
  /** All lines after `#first` and up to `#cursor` are read. */
  #first = 0
  #cursor = 0
  /** No line that matches has a number up to this one. */
  #bottom = 0
  #lost = 0
  #arrived: Line[] = []
  #frame: number | undefined

  constructor(deployment_id: string, filters: LogFilters) {
    this.#params = { deployment_id }
    this.#filters = filters
  }

  /** Begins at the newest lines, or around a line. */
  async open(line?: number): Promise<void> {
    this.close()
    this.#reading = new AbortController()
    const { signal } = this.#reading
    this.state.value = EMPTY
    this.#lost = 0
    try {
      const oldest = this.#read({ after: 0, limit: 1 }, signal)
      oldest.catch(() => {})
      const page = await this.#read(line ? { after: line - 1 } : { tail: PAGE_LINES }, signal)
      const lines = page.logs.map(one => toLine(one))
      this.#cursor = page.next_after
      this.#first = line ? line - 1 : lines[0] ? lines[0].arrival - 1 : page.next_after
      const { logs, next_after } = await oldest
      this.#bottom = logs[0] ? logs[0].arrival - 1 : next_after
      const blocks = appendLines([], lines)
      this.#set({ blocks, hasNewer: page.has_more, hasOlder: this.#first > this.#bottom, phase: 'reading' })
      if (line) await this.#readOlder(FEW_LINES, signal)
      while (this.state.value.hasNewer && this.#count < FILL_LINES) await this.#readNewer(signal)
      if (!this.state.value.hasNewer) this.resume()
      await this.#readOlder(FILL_LINES - this.#count, signal)
      this.#set({ isFilling: false })
    } catch (error) {
      this.#fail(error, signal)
    }
  }

  close(): void {
    this.#reading.abort()
    this.pause()
  }

  /** Shows the lines that have arrived, and reads no others until `resume`. */
  pause(): void {
    if (!this.#following) return
    this.#following.abort()
    this.#following = undefined
    this.#flush()
    this.#set({ phase: 'paused' })
  }

  resume(): void {
    const { phase, hasNewer } = this.state.value
    if (this.#following || phase === 'loading' || hasNewer) return
    if (document.hidden) this.#set({ phase: 'paused' })
    else void this.#follow()
  }

  async readOlder(): Promise<void> {
    await this.#whileFilling(signal => this.#readOlder(FILL_LINES, signal))
  }

  async readNewer(): Promise<void> {
    await this.#whileFilling(async signal => {
      const enough = this.#count + FILL_LINES
      while (this.state.value.hasNewer && this.#count < enough) await this.#readNewer(signal)
      if (!this.state.value.hasNewer) this.resume()
    })
  }

  async #whileFilling(read: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { signal } = this.#reading
    if (this.state.value.isFilling) return
    this.#set({ isFilling: true })
    try {
      await read(signal)
      this.#set({ isFilling: false })
    } catch (error) {
      this.#fail(error, signal)
    }
  }

  get #count(): number {
    return countLines(this.state.value.blocks)
  }

  #set(change: Partial<LogState>): void {
    this.state.value = { ...this.state.value, ...change }
  }

  #fail(error: unknown, signal: AbortSignal): void {
    if (signal.aborted) return
    this.#following?.abort()
    this.#following = undefined
    this.#flush()
    this.#set({ phase: 'ended', isFilling: false, error: error as Error })
  }

  #read(from: { after?: number; tail?: number; limit?: number }, signal: AbortSignal): Promise<Page> {
    const query = { limit: PAGE_LINES, ...this.#filters, ...from }
    return getClient().call(ROUTE, { params: this.#params, query, signal })
  }

  async #readNewer(signal: AbortSignal): Promise<void> {
    const page = await this.#read({ after: this.#cursor }, signal)
    this.#cursor = page.next_after
    const lines = page.logs.map((one, i) => toLine(one, i === 0 ? page.dropped : 0))
    this.#set({ blocks: appendLines(this.state.value.blocks, lines), hasNewer: page.has_more })
  }

  /** There is no page before a line, so pages are read from a number that is far enough before it. */
  async #readOlder(enough: number, signal: AbortSignal): Promise<void> {
    const { process, level, query, start_time } = this.#filters
    let reach = process || level || query || start_time ? FILTERED_WINDOW : PAGE_LINES
    for (let count = 0; count < enough && this.#first > this.#bottom; ) {
      const start = Math.max(this.#bottom, this.#first - reach)
      const lines = await this.#readBetween(start, this.#first, signal)
      this.#first = start
      count += lines.length
      if (lines.length < FEW_LINES) reach *= 2
      this.#set({ blocks: prependLines(this.state.value.blocks, lines), hasOlder: start > this.#bottom })
    }
  }

  /** The lines after one number and up to another. */
  async #readBetween(after: number, last: number, signal: AbortSignal): Promise<Line[]> {
    const found: ArrivedLine[] = []
    for (let from = after, hasMore = true; hasMore && from < last; ) {
      const page = await this.#read({ after: from, limit: Math.min(PAGE_LINES, last - from) }, signal)
      found.push(...page.logs.filter(({ arrival }) => arrival <= last))
      from = page.next_after
      hasMore = page.has_more
    }
    return found.map(one => toLine(one))
  }

  async #follow(): Promise<void> {
    const following = new AbortController()
    this.#following = following
    const { signal } = following
    const onState = ({ state }: { state: 'live' | 'reconnecting' }) => this.#set({ phase: state, error: undefined })
    try {
      const query = { ...this.#filters, after: this.#cursor }
      const options = { params: this.#params, query, signal, onState, silenceMs: SILENCE_MS }
      for await (const item of getClient().stream(`${ROUTE}/stream`, options)) {
        if (signal.aborted) return
        if (item.event === 'message') this.#receive(item.data)
        else if (item.event === 'dropped') this.#lost += (item.data as { lines: number }).lines
        else return void this.open()
      }
    } catch (error) {
      this.#fail(error, signal)
    }
  }

  #receive(line: ArrivedLine): void {
    if (line.arrival <= this.#cursor) return
    this.#cursor = line.arrival
    this.#arrived.push(toLine(line, this.#lost))
    this.#lost = 0
    this.#frame ??= requestAnimationFrame(() => this.#flush())
  }

  /** Once for each frame: lines can arrive by the thousand. */
  #flush(): void {
    if (this.#frame !== undefined) cancelAnimationFrame(this.#frame)
    this.#frame = undefined
    if (this.#arrived.length === 0) return
    let blocks = appendLines(this.state.value.blocks, this.#arrived)
    this.#arrived = []
    const { isFilling } = this.state.value
    let { hasOlder } = this.state.value
    if (this.isAtEnd && !isFilling && countLines(blocks) > MAX_LINES) {
      blocks = dropOldest(blocks, MAX_LINES - DROPPED_LINES)
      this.#first = blocks[0]![0]!.arrival - 1
      hasOlder = true
    }
    this.#set({ blocks, hasOlder })
  }
}
