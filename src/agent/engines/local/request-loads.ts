// The load of each deployment: its requests, and the time that they were in flight. The mean number in flight is the
// growth of that time by that of the clock, which no moment of measurement distorts.

/** Totals since the router started. `busy_ms`: the sum over all requests of the time in flight, so far. */
export type RequestLoad = {
  requests: number
  busy_ms: number
  in_flight: number
  held: boolean
  last_at: number | null
}

type Total = { requests: number; busyMs: number; inFlight: number; at: number }

export class RequestLoads {
  readonly #totals = new Map<string, Total>()

  begin(deployment: string): void {
    this.#advance(deployment).inFlight++
  }

  /** A copy has accepted it. */
  count(deployment: string): void {
    this.#advance(deployment).requests++
  }

  end(deployment: string): void {
    this.#advance(deployment).inFlight--
  }

  #advance(deployment: string): Total {
    const now = performance.now()
    const total = this.#totals.get(deployment) ?? { requests: 0, busyMs: 0, inFlight: 0, at: now }
    total.busyMs += total.inFlight * (now - total.at)
    total.at = now
    this.#totals.set(deployment, total)
    return total
  }

  /** A deployment with requests in flight stays until these end. */
  keepOnly(deployments: Set<string | undefined>): void {
    for (const [deployment, { inFlight }] of this.#totals)
      if (inFlight === 0 && !deployments.has(deployment)) this.#totals.delete(deployment)
  }

  read(lastRequests: Map<string, number>, held: string[]): Record<string, RequestLoad> {
    const all = new Set([...this.#totals.keys(), ...held])
    return Object.fromEntries(
      [...all].map(deployment => {
        const { requests, busyMs, inFlight } = this.#advance(deployment)
        const last_at = lastRequests.get(deployment) ?? null
        const load = { requests, busy_ms: busyMs, in_flight: inFlight, held: held.includes(deployment), last_at }
        return [deployment, load satisfies RequestLoad]
      }),
    )
  }
}
