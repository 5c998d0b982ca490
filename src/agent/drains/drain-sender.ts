// Sends what waits in the buffer of one drain, in order, a batch at a time, until the receiver has taken it.
import { setTimeout as delay } from 'node:timers/promises'
import type { Network } from '../../protocol/address-kind.ts'
import { encodeBatch } from '../../protocol/drain-encoding.ts'
import type { DrainGroup } from '../../protocol/drain-records.ts'
import { encodeSyslog } from '../../protocol/drain-syslog.ts'
import type { WorkDrain } from '../../protocol/drains.schema.ts'
import type { DiskBuffer } from './disk-buffer.ts'
import { failed, type Outcome } from './outcome.ts'
import { ReceiverRefused } from './receiver-address.ts'
import { HttpSender } from './send-http.ts'
import type { SendSlots } from './send-slots.ts'
import { sendSyslog } from './send-syslog.ts'

const MAX_RECORDS = 5000
const [FIRST_PAUSE_MS, MAX_PAUSE_MS] = [1000, 60_000]
const JITTER = 0.2
const MAX_REASON = 300

type Target = Pick<WorkDrain, 'kind' | 'url' | 'compression' | 'tenant_id'> & { headers: Record<string, string> }
type Options = {
  buffer: DiskBuffer
  target: Target
  networks: Network[]
  slots: SendSlots
  /** The first pause after a failure. */
  pause_ms?: number | undefined
}
export type SenderState = { last_sent_at: string | null; failing_since: string | null; error: string | null }

export class DrainSender {
  readonly #options: Options
  readonly #stopping = new AbortController()
  readonly #http = new HttpSender()
  #target: Target
  #maxRecords = MAX_RECORDS
  #wake: () => void = () => {}
  #hasMore = false
  readonly #running: Promise<void>
  state: SenderState = { last_sent_at: null, failing_since: null, error: null }

  constructor(options: Options) {
    this.#options = options
    this.#target = options.target
    this.#running = this.#run()
  }

  /** The next batch goes there. A batch that was refused by the last address is tried at once. */
  redirect(target: Target): void {
    this.#target = target
    this.wake()
  }

  wake(): void {
    this.#hasMore = true
    this.#wake()
  }

  /** The batch of a request that is under way may have been taken or not: it is sent again. */
  async close(): Promise<void> {
    this.#stopping.abort()
    this.#wake()
    await this.#running
    this.#http.close()
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping
    for (let failures = 0; !signal.aborted; ) {
      const pauseMs = await this.#sendNext(failures).catch(error => {
        this.#noteFailure(`The buffer cannot be read: ${String((error as NodeJS.ErrnoException).code)}.`)
        return this.#pauseAfter(failures)
      })
      failures = pauseMs === null ? 0 : failures + 1
      if (pauseMs !== null) await delay(pauseMs, undefined, { signal }).catch(() => {})
    }
  }

  /** The milliseconds to wait after a failure, or null. */
  async #sendNext(failures: number): Promise<number | null> {
    const { buffer } = this.#options
    const { signal } = this.#stopping
    this.#hasMore = false
    const batch = await buffer.read(this.#maxRecords)
    if (!batch) {
      await this.#waitForMore()
      return null
    }
    const outcome = await this.#sendAll(batch.groups)
    if (signal.aborted || outcome.kind === 'failed') {
      buffer.release()
      if (signal.aborted || outcome.kind !== 'failed') return null
      this.#noteFailure(outcome.reason)
      return Math.max(outcome.retryAfterMs, this.#pauseAfter(failures))
    }
    const lost = outcome.kind === 'taken' ? outcome.rejected : batch.records
    await buffer.settle(batch, Math.max(0, batch.records - lost))
    if (outcome.kind === 'taken')
      this.state = { last_sent_at: now(), failing_since: null, error: outcome.reason ?? null }
    else this.#noteFailure(outcome.reason)
    return null
  }

  #waitForMore(): Promise<void> {
    if (this.#hasMore || this.#stopping.signal.aborted) return Promise.resolve()
    return new Promise(resolve => {
      this.#wake = resolve
    })
  }

  #pauseAfter(failures: number): number {
    const { pause_ms = FIRST_PAUSE_MS } = this.#options
    return Math.min(MAX_PAUSE_MS, pause_ms * 2 ** Math.min(failures, 10)) * (1 - JITTER + 2 * JITTER * Math.random())
  }

  #noteFailure(reason: string): void {
    const { last_sent_at, failing_since } = this.state
    this.state = { last_sent_at, failing_since: failing_since ?? now(), error: reason.slice(0, MAX_REASON) }
  }

  /** Halves what is too large, down to one record. */
  async #sendAll(groups: DrainGroup[]): Promise<Exclude<Outcome, { kind: 'too_large' }>> {
    const { slots } = this.#options
    const { signal } = this.#stopping
    // A slot is of one request: a slow receiver that refuses each size would keep it for thousands.
    const sent = slots.run(this.#target.tenant_id, signal, () => this.#send(groups))
    const outcome = await sent.catch(error => failed(describeError(error)))
    if (outcome.kind !== 'too_large') return outcome
    this.#maxRecords = Math.max(1, Math.floor(this.#maxRecords / 2))
    const halves = halve(groups)
    if (!halves) return { kind: 'refused', reason: outcome.reason }
    let [rejected, reason] = [0, undefined as string | undefined]
    for (const half of halves) {
      const part = await this.#sendAll(half)
      if (part.kind === 'failed') return part
      rejected += part.kind === 'taken' ? part.rejected : half.reduce((sum, { records }) => sum + records.length, 0)
      reason = part.reason ?? reason
    }
    return { kind: 'taken', rejected, ...(reason !== undefined && { reason }) }
  }

  #send(groups: DrainGroup[]): Promise<Outcome> {
    const { networks } = this.#options
    const { kind, url, headers, compression } = this.#target
    const { signal } = this.#stopping
    if (kind === 'syslog') return sendSyslog(encodeSyslog(groups), { url, networks, signal })
    return this.#http.send(encodeBatch(kind, url, groups), { networks, headers, compression, signal })
  }
}

const now = (): string => new Date().toISOString()

function halve(groups: DrainGroup[]): [DrainGroup[], DrainGroup[]] | null {
  const [first] = groups as [DrainGroup]
  const middle = Math.ceil((groups.length > 1 ? groups.length : first.records.length) / 2)
  if (groups.length > 1) return [groups.slice(0, middle), groups.slice(middle)]
  if (first.records.length < 2) return null
  const part = (from: number, to?: number) => [{ ...first, records: first.records.slice(from, to) } as DrainGroup]
  return [part(0, middle), part(middle)]
}

/** Codes alone: a message may have parts of what was sent. */
function describeError(error: unknown): string {
  if (error instanceof ReceiverRefused) return error.message
  const { code, name, message } = error as NodeJS.ErrnoException
  if (name === 'TimeoutError' || name === 'AbortError') return 'The receiver does not answer in time.'
  return code ? `The receiver cannot be reached: ${code}.` : `The receiver cannot be reached: ${message}`
}
