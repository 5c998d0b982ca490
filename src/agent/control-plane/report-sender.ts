// What there is to tell of each deployment, the newest of it: sent many at a time, and again until it was answered.
import { setTimeout as delay } from 'node:timers/promises'
import { MAX_BATCH_REPORTS, type Report, type ReportResult } from '../../protocol/report.schema.ts'
import { type ControlPlaneClient, RequestRefused } from './client.ts'

type Options = {
  control: Pick<ControlPlaneClient, 'report'>
  /** Undefined while there is no lease to report under. */
  currentLease: () => { agent_id: string; fence: number } | undefined
  signal: AbortSignal
  /** From now until it is told, the control plane may know of it or not. */
  onSending: (report: Report) => void
  onResult: (report: Report, result: ReportResult) => void
  /** It is in a way that the control plane cannot read. */
  onUnreadable: (report: Report, error: RequestRefused) => void
  onFenced: () => void
}

const RETRY_MS = 2_000

export class ReportSender {
  readonly #options: Options
  readonly #queued = new Map<string, Report>()
  #isSending = false
  /** One that cannot be read holds up no others: each goes alone until it is found. */
  #batchSize = MAX_BATCH_REPORTS

  constructor(options: Options) {
    this.#options = options
  }

  add(report: Report): void {
    this.#queued.set(report.deployment_id, report)
  }

  drop(deployment_id: string): void {
    this.#queued.delete(deployment_id)
  }

  clear(): void {
    this.#queued.clear()
  }

  async flush(): Promise<void> {
    const {
      control,
      currentLease: who,
      signal,
      onSending: sending,
      onResult: told,
      onUnreadable: unreadable,
      onFenced: fenced,
    } = this.#options
    const lease = who()
    if (this.#isSending || this.#queued.size === 0 || !lease) return
    this.#isSending = true
    const reports = [...this.#queued.values()].slice(0, this.#batchSize)
    const done = (report: Report) => {
      if (this.#queued.get(report.deployment_id) === report) this.drop(report.deployment_id)
    }
    for (const report of reports) sending(report)
    try {
      const { results } = await control.report({ ...lease, reports }, signal)
      for (const [i, report] of reports.entries()) {
        done(report)
        told(report, results[i]!)
      }
    } catch (error) {
      const status = error instanceof RequestRefused && error.status
      if (status === 409) fenced()
      else if (status === 422 && reports.length > 1) this.#batchSize = 1
      else if (status === 422) {
        this.#batchSize = MAX_BATCH_REPORTS
        done(reports[0]!)
        unreadable(reports[0]!, error as RequestRefused)
      }
      // Anything else is tried again; the poll beside it knows how long to wait.
      else await delay(RETRY_MS, undefined, { signal }).catch(() => {})
    } finally {
      this.#isSending = false
    }
  }
}
