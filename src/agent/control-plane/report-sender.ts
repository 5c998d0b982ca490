// Sends the newest report of each deployment, many per request, until the control plane has answered it.
import { setTimeout as delay } from 'node:timers/promises'
import { MAX_BATCH_REPORTS, type Report, type ReportResult } from '../../protocol/report.schema.ts'
import { type ControlPlaneClient, RequestRefused } from './client.ts'

type Options = {
  control: Pick<ControlPlaneClient, 'report'>
  currentLease: () => { agent_id: string; fence: number } | undefined
  signal: AbortSignal
  onSending: (report: Report) => void
  onResult: (report: Report, result: ReportResult) => void
  onRejected: (report: Report, error: RequestRefused) => void
  onFenced: () => void
}

const RETRY_MS = 2_000

export class ReportSender {
  readonly #options: Options
  readonly #queued = new Map<string, Report>()
  #isSending = false
  /** 1 while the invalid report of a rejected batch is searched. */
  #batchSize = MAX_BATCH_REPORTS
  /** False for a control plane of an earlier release, which refuses reports with members that it does not know. */
  #knowsHealth = true

  constructor(options: Options) {
    this.#options = options
  }

  add(report: Report): void {
    this.#queued.set(report.deployment_id, report)
  }

  get waiting(): number {
    return this.#queued.size
  }

  drop(deployment_id: string): void {
    this.#queued.delete(deployment_id)
  }

  clear(): void {
    this.#queued.clear()
  }

  async flush(): Promise<void> {
    const lease = this.#options.currentLease()
    if (this.#isSending || this.#queued.size === 0 || !lease) return
    this.#isSending = true
    const reports = [...this.#queued.values()].slice(0, this.#batchSize)
    for (const report of reports) this.#options.onSending(report)
    try {
      const { results } = await this.#options.control.report(
        { ...lease, reports: reports.map(this.#toSent) },
        this.#options.signal,
      )
      for (const [i, report] of reports.entries()) {
        this.#dropIfUnchanged(report)
        this.#options.onResult(report, results[i]!)
      }
    } catch (error) {
      await this.#handleError(error, reports)
    } finally {
      this.#isSending = false
    }
  }

  #toSent = (report: Report): Report => {
    if (this.#knowsHealth) return report
    const { health, incidents, custom_host, ...known } = report
    return known
  }

  async #handleError(error: unknown, reports: Report[]): Promise<void> {
    const { signal, onFenced, onRejected } = this.#options
    const { status } = error instanceof RequestRefused ? error : {}
    if (status === 409) return onFenced()
    if (status !== 422) {
      await delay(RETRY_MS, undefined, { signal }).catch(() => {})
      return
    }
    if (reports.length > 1) {
      this.#batchSize = 1
      return
    }
    const [report] = reports as [Report]
    this.#batchSize = MAX_BATCH_REPORTS
    if (this.#knowsHealth && (report.health || report.incidents || report.custom_host)) {
      this.#knowsHealth = false
      return
    }
    this.#knowsHealth = true
    this.#dropIfUnchanged(report)
    onRejected(report, error as RequestRefused)
  }

  #dropIfUnchanged(report: Report): void {
    if (this.#queued.get(report.deployment_id) === report) this.drop(report.deployment_id)
  }
}
