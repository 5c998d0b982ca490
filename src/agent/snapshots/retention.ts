// Decides which snapshots an agent deletes, and how long it keeps each. Pure.
import type { HeldSnapshot, SnapshotReason } from '../../protocol/snapshots.schema.ts'

const KEPT_DAYS: Record<SnapshotReason, number> = {
  manual: 30,
  schedule: 7,
  automatic: 7,
  before_release: 7,
  before_restore: 7,
  last: 7,
}
/** The reasons of data that were removed or replaced. */
const WITHOUT_SUCCESSOR = new Set<SnapshotReason>(['before_restore', 'last'])
const DAY_MS = 86_400_000
/** For each store. The oldest make room. */
const MAX_OF_STORE = 100

export const expiryOf = (reason: SnapshotReason, takenAt: number): string =>
  new Date(takenAt + KEPT_DAYS[reason] * DAY_MS).toISOString()

/**
 * `isAlive`: the deployment still exists, so the newest snapshot of each of its stores is kept. `max_bytes`: of one
 * deployment. Its oldest make room, so that it does not take the space of the others.
 */
export function listExpired(
  snapshots: HeldSnapshot[],
  now: number,
  isAlive: (deployment_id: string) => boolean,
  max_bytes: number,
): HeldSnapshot[] {
  const expired = new Set<HeldSnapshot>()
  const newestFirst = snapshots.toSorted((a, b) => Date.parse(b.taken_at) - Date.parse(a.taken_at))
  for (const [deployment_id, all] of Map.groupBy(newestFirst, one => one.deployment_id)) {
    const places = new Map<string, number>()
    let bytes = 0
    for (const snapshot of all) {
      const { store, reason, expires_at, size_bytes } = snapshot
      const place = places.get(store) ?? 0
      places.set(store, place + 1)
      const isPast = expires_at != null && Date.parse(expires_at) <= now
      const isOver = place > 0 && bytes + size_bytes > max_bytes && !WITHOUT_SUCCESSOR.has(reason)
      if (place >= MAX_OF_STORE || (isPast && !(place === 0 && isAlive(deployment_id))) || isOver) expired.add(snapshot)
      else bytes += size_bytes
    }
  }
  return [...expired]
}
