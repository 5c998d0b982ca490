// What there is to tell of each deployment, the newest of it: sent many at a time, and again until it was answered.
import { setTimeout as delay } from 'node:timers/promises'
import { REPORTS_AT_ONCE, type Report, type ReportResult } from '../sync/report.schema.ts'
import { type Control, Refused } from './control.ts'

type Options = {
  control: Pick<Control, 'report'>
  /** Undefined while there is no lease to report under. */
  who: () => { agent_id: string; fence: number } | undefined
  signal: AbortSignal
  /** From now until it is told, the control plane may know of it or not. */
  sending: (report: Report) => void
  told: (report: Report, result: ReportResult) => void
  /** It is in a way that the control plane cannot read. */
  unreadable: (report: Report, error: Refused) => void
  fenced: () => void
}

const RETRY_MS = 2_000

export class ReportSender {
  readonly #options: Options
  readonly #waiting = new Map<string, Report>()
  #sending = false
  /** One that cannot be read holds up no others: each goes alone until it is found. */
  #atOnce = REPORTS_AT_ONCE

  constructor(options: Options) {
    this.#options = options
  }

  add(report: Report): void {
    this.#waiting.set(report.deployment_id, report)
  }

  drop(deployment_id: string): void {
    this.#waiting.delete(deployment_id)
  }

  clear(): void {
    this.#waiting.clear()
  }

  async flush(): Promise<void> {
    const { control, who, signal, sending, told, unreadable, fenced } = this.#options
    const lease = who()
    if (this.#sending || this.#waiting.size === 0 || !lease) return
    this.#sending = true
    const reports = [...this.#waiting.values()].slice(0, this.#atOnce)
    const done = (report: Report) => {
      if (this.#waiting.get(report.deployment_id) === report) this.drop(report.deployment_id)
    }
    for (const report of reports) sending(report)
    try {
      const { results } = await control.report({ ...lease, reports }, signal)
      for (const [i, report] of reports.entries()) {
        done(report)
        told(report, results[i]!)
      }
    } catch (error) {
      const status = error instanceof Refused && error.status
      if (status === 409) fenced()
      else if (status === 422 && reports.length > 1) this.#atOnce = 1
      else if (status === 422) {
        this.#atOnce = REPORTS_AT_ONCE
        done(reports[0]!)
        unreadable(reports[0]!, error as Refused)
      }
      // Anything else is tried again; the poll beside it knows how long to wait.
      else await delay(RETRY_MS, undefined, { signal }).catch(() => {})
    } finally {
      this.#sending = false
    }
  }
}
