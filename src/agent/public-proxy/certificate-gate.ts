// Decides for which hosts the public proxy may order certificates, and how long it waits after an order that failed.

export type Direction = 'here' | 'elsewhere' | 'unknown'
type Options = {
  /** Whether a deployment is served at the host. */
  isServed: (host: string) => boolean
  /** Where the host's addresses lead. An order for a host that leads elsewhere fails. */
  findDirection: (host: string) => Promise<Direction>
  /** Asks the proxy for a TLS handshake, which waits for an order in progress. */
  hasCertificate: (host: string) => Promise<boolean>
  now?: () => number
}
type Host = { state: 'ordering' | 'certified' | 'failed'; failures: number; retryAt: number }

const MINUTE_MS = 60_000
/** One order has a few attempts of its own. Authorities refuse a host with more than five failures an hour. */
const PAUSES_MS = [60, 6 * 60, 24 * 60].map(minutes => minutes * MINUTE_MS)

export function createCertificateGate({ isServed, findDirection, hasCertificate, now = Date.now }: Options) {
  const hosts = new Map<string, Host>()

  async function watchOrder(name: string, host: Host): Promise<void> {
    const isCertified = await hasCertificate(name)
    if (hosts.get(name) !== host) return
    if (isCertified) return void Object.assign(host, { state: 'certified', failures: 0 } satisfies Partial<Host>)
    const pause = PAUSES_MS[Math.min(host.failures, PAUSES_MS.length - 1)]!
    Object.assign(host, { state: 'failed', failures: host.failures + 1, retryAt: now() + pause } satisfies Host)
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
    /** A host that is served again begins anew. */
    forgetUnserved(): void {
      for (const name of hosts.keys()) if (!isServed(name)) hosts.delete(name)
    },
  }
}
