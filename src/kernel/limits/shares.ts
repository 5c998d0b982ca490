// Divides what all tenants of an instance share, such as connections and memory, into shares by group (pure). A group
// is usually a workspace.
//
// There is one rule, the dynamic threshold of shared-buffer switches: what a group holds must not exceed `factor` times
// what stays free. A group alone gets most of the capacity, several greedy groups get equal parts, and something stays
// free for a group that holds nothing yet.

const DEFAULT_FACTOR = 3
const MAX_WAITING_PER_GROUP = 100

/** Gives the taken amount back. Only the first call has an effect. */
export type Release = () => void
export type Shares = ReturnType<typeof createShares>

type Waiting = { amount: number; grant(): void }

/** Thrown when a group has too many requests waiting for its share. */
export class ShareExhausted extends Error {}

type SharesOptions = { capacity: number; factor?: number; maxWaitingPerGroup?: number }

export function createShares({
  capacity,
  factor = DEFAULT_FACTOR,
  maxWaitingPerGroup = MAX_WAITING_PER_GROUP,
}: SharesOptions) {
  const heldBy = new Map<string, number>()
  const waitingOf = new Map<string, Set<Waiting>>()
  let free = capacity

  const held = (group: string): number => heldBy.get(group) ?? 0

  function canTake(group: string, amount: number): boolean {
    const freeAfter = free - amount
    return freeAfter >= 0 && (held(group) === 0 || held(group) + amount <= factor * freeAfter)
  }

  function hold(group: string, amount: number): void {
    const total = held(group) + amount
    if (total === 0) heldBy.delete(group)
    else heldBy.set(group, total)
    free -= amount
  }

  function takeNow(group: string, amount: number): Release {
    let isHeld = true
    hold(group, amount)
    return () => {
      if (!isHeld) return
      isHeld = false
      hold(group, -amount)
      grantWaiting()
    }
  }

  /** The group that holds least comes first; of equal ones, the one that has waited longest. */
  function grantWaiting(): void {
    for (;;) {
      const ready = [...waitingOf]
        .map(([group, waiting]) => ({ group, first: waiting.values().next().value! }))
        .filter(({ group, first }) => canTake(group, first.amount))
      if (ready.length === 0) return
      ready.reduce((least, one) => (held(one.group) < held(least.group) ? one : least)).first.grant()
    }
  }

  function wait(group: string, amount: number, signal: AbortSignal | undefined): Promise<Release> {
    const waiting = waitingOf.get(group) ?? new Set()
    if (waiting.size >= maxWaitingPerGroup) return Promise.reject(new ShareExhausted())
    waitingOf.set(group, waiting)
    return new Promise((resolve, reject) => {
      const leave = () => {
        signal?.removeEventListener('abort', abort)
        waiting.delete(entry)
        // Deleted and set again, so that the groups are in the order in which they were last granted something.
        waitingOf.delete(group)
        if (waiting.size > 0) waitingOf.set(group, waiting)
      }
      const abort = () => {
        leave()
        reject(signal!.reason)
        // The next of the group may ask for less.
        grantWaiting()
      }
      const grant = () => {
        leave()
        resolve(takeNow(group, amount))
      }
      const entry = { amount, grant }
      waiting.add(entry)
      signal?.addEventListener('abort', abort, { once: true })
    })
  }

  return {
    /** Returns undefined if the share of the group does not allow it now. */
    tryTake: (group: string, amount = 1): Release | undefined =>
      canTake(group, amount) ? takeNow(group, amount) : undefined,
    /** Waits for its turn. Rejects with the reason of `signal`, or with `ShareExhausted`. */
    async take(
      group: string,
      { amount = 1, signal }: { amount?: number; signal?: AbortSignal } = {},
    ): Promise<Release> {
      signal?.throwIfAborted()
      const mustQueue = waitingOf.has(group) || !canTake(group, amount)
      return mustQueue ? wait(group, amount, signal) : takeNow(group, amount)
    },
    state: () => ({
      free,
      held: capacity - free,
      groups: heldBy.size,
      waiting: [...waitingOf.values()].reduce((sum, { size }) => sum + size, 0),
    }),
  }
}
