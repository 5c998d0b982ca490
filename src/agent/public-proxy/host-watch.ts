// Watches the custom hosts of a machine with a public proxy: their DNS, and the ends of orders for certificates.
import type { ReportedHost } from '../../protocol/report.schema.ts'
import type { Certificates, Direction } from './certificate-gate.ts'

type Options = {
  listHosts: () => string[]
  /** Covers hosts whose last order has ended. */
  readCertificates: () => Promise<Certificates>
  findDirection: (host: string) => Promise<Direction>
  onChange: (host: string) => void
  now?: () => number
}
type Watched = { report: ReportedHost; elsewhere: number; lookAt: number }

const MINUTE_MS = 60_000
const LOOK_MS = 10 * MINUTE_MS
/** A record that is just being changed may be missing for a moment. */
const LOOKS_UNTIL_LOST = 3
const LOOKUPS_AT_ONCE = 10

export class HostWatch {
  readonly #options: Options
  readonly #hosts = new Map<string, Watched>()
  #isLooking = false

  constructor(options: Options) {
    this.#options = options
  }

  /** Undefined while nothing is known. */
  read(host: string): ReportedHost | undefined {
    const report = this.#hosts.get(host)?.report
    return report && (report.certificate != null || report.leads_here != null) ? report : undefined
  }

  async look(): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    try {
      const { listHosts, readCertificates, now = Date.now } = this.#options
      const names = new Set(listHosts())
      for (const host of this.#hosts.keys()) if (!names.has(host)) this.#hosts.delete(host)
      for (const host of names)
        if (!this.#hosts.has(host)) this.#hosts.set(host, { report: { host }, elsewhere: 0, lookAt: 0 })
      if (names.size === 0) return
      const due = [...this.#hosts].filter(([, { lookAt }]) => lookAt <= now()).slice(0, LOOKUPS_AT_ONCE)
      await Promise.all(due.map(([host, watched]) => this.#lookUp(host, watched, now())))
      for (const [host, certificate] of Object.entries(await readCertificates())) {
        const watched = this.#hosts.get(host)
        if (watched) this.#change(watched, { certificate })
      }
    } finally {
      this.#isLooking = false
    }
  }

  async #lookUp(host: string, watched: Watched, at: number): Promise<void> {
    const direction = await this.#options.findDirection(host)
    watched.elsewhere = direction === 'elsewhere' ? watched.elsewhere + 1 : direction === 'here' ? 0 : watched.elsewhere
    const isDoubtful = watched.elsewhere > 0 && watched.elsewhere < LOOKS_UNTIL_LOST
    watched.lookAt = at + (isDoubtful ? MINUTE_MS : LOOK_MS)
    if (direction === 'here') this.#change(watched, { leads_here: true })
    if (watched.elsewhere >= LOOKS_UNTIL_LOST) this.#change(watched, { leads_here: false })
  }

  #change(watched: Watched, change: Partial<ReportedHost>): void {
    const { host, certificate = null, leads_here = null } = { ...watched.report, ...change }
    const known = { host, certificate, leads_here }
    const reason = describeProblem(known)
    const report = reason === null ? known : { ...known, reason }
    if (JSON.stringify(report) === JSON.stringify(watched.report)) return
    watched.report = report
    this.#options.onChange(host)
  }
}

function describeProblem({ host, certificate, leads_here }: ReportedHost): string | null {
  if (leads_here === false)
    return `The DNS records of ${host} do not lead to the machine that serves it. Correct its A, AAAA or CNAME records.`
  if (certificate !== 'failed') return null
  return (
    `The proxy could not get a certificate for ${host}. All its DNS records must lead to the machine, whose ports 80 ` +
    'and 443 must be open, and a CAA record must allow the authority. The proxy tries again after an hour, then less ' +
    'often. Its log has the answer of the authority.'
  )
}
