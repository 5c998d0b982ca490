// Decides for which hosts the public proxy may order certificates, and how long it waits after an order that failed.

/** The ends of orders, by host. */
export type Certificates = Record<string, 'valid' | 'failed'>
export type Direction = 'here' | 'elsewhere' | 'unknown'
type Options = {
  isServed: (host: string) => boolean
  /** Resolves the host. An order for a host that resolves to another machine fails. */
  findDirection: (host: string) => Promise<Direction>
  /** Asks the proxy for a TLS handshake, which waits for an order in progress. */
  hasCertificate: (host: string) => Promise<boolean>
  /** The pauses that an earlier process has stored, by host. */
  pauses?: Pauses
  storePauses?: (pauses: Pauses) => void
  now?: () => number
}
type Host = { state: 'ordering' | 'certified' | 'failed'; failures: number; retryAt: number }
export type Pauses = Record<string, Pick<Host, 'failures' | 'retryAt'>>

const MINUTE_MS = 60_000
/** One order has a few attempts of its own. Authorities refuse a host with more than five failures an hour. */
const PAUSES_MS = [60, 6 * 60, 24 * 60].map(minutes => minutes * MINUTE_MS)

/** The failures of a host that is not served are forgotten so long after its pause has ended. */
const REMEMBERED_MS = PAUSES_MS.at(-1)!
/** Beyond this number of hosts that are not served, those whose pauses end first are forgotten. */
const MAX_UNSERVED = 10_000

export function createCertificateGate({
  isServed,
  findDirection,
  hasCertificate,
  pauses = {},
  storePauses = () => {},
  now = Date.now,
}: Options) {
  const hosts = new Map<string, Host>(
    Object.entries(pauses).map(([name, pause]) => [name, { state: 'failed', ...pause }]),
  )

  function store(): void {
    const failed = [...hosts].filter(([, { state }]) => state === 'failed')
    storePauses(Object.fromEntries(failed.map(([name, { failures, retryAt }]) => [name, { failures, retryAt }])))
  }

  async function watchOrder(name: string, host: Host): Promise<void> {
    const isCertified = await hasCertificate(name)
    if (hosts.get(name) !== host) return
    const pause = PAUSES_MS[Math.min(host.failures, PAUSES_MS.length - 1)]!
    const { failures } = host
    const result: Host = isCertified
      ? { state: 'certified', failures: 0, retryAt: 0 }
      : { state: 'failed', failures: failures + 1, retryAt: now() + pause }
    Object.assign(host, result)
    if (!isCertified || failures > 0) store()
  }

  return {
    /** The proxy asks before it orders or renews, and may ask before it loads what it has stored. */
    async mayOrder(name: string): Promise<boolean> {
      if (!isServed(name)) return false
      const host = hosts.get(name)
      if (host?.state === 'ordering') return true
      if (host?.state === 'failed' && now() < host.retryAt) return false
      if ((await findDirection(name)) === 'elsewhere') return false
      if (host?.state === 'certified') return true
      const present = hosts.get(name)
      if (present !== host) return present?.state !== 'failed'
      const ordering: Host = { state: 'ordering', failures: host?.failures ?? 0, retryAt: 0 }
      hosts.set(name, ordering)
      void watchOrder(name, ordering)
      return true
    },
    /** Covers hosts whose last order has ended. */
    certificates(): Certificates {
      const ended = [...hosts].filter(([name, { state }]) => state !== 'ordering' && isServed(name))
      return Object.fromEntries(ended.map(([name, { state }]) => [name, state === 'failed' ? 'failed' : 'valid']))
    },
    /** The pause belongs to the host: a deployment that is deleted and created again does not end it. */
    forgetUnserved(): void {
      const unserved = [...hosts].filter(([name]) => !isServed(name))
      const failed = unserved
        .filter(([, { state, retryAt }]) => state === 'failed' && now() < retryAt + REMEMBERED_MS)
        .sort(([, a], [, b]) => b.retryAt - a.retryAt)
      const kept = new Set(failed.slice(0, MAX_UNSERVED).map(([name]) => name))
      const forgotten = unserved.filter(([name, { state }]) => state !== 'ordering' && !kept.has(name))
      for (const [name] of forgotten) hosts.delete(name)
      if (forgotten.some(([, { state }]) => state === 'failed')) store()
    },
  }
}
