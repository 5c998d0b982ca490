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
const DAY_MS = 86_400_000
/** For each store. The oldest make room. */
const MAX_OF_STORE = 100

export const expiryOf = (reason: SnapshotReason, takenAt: number): string =>
  new Date(takenAt + KEPT_DAYS[reason] * DAY_MS).toISOString()

/** `isAlive`: the deployment still exists, so the newest snapshot of each of its stores is kept. */
export function listExpired(
  snapshots: HeldSnapshot[],
  now: number,
  isAlive: (deployment_id: string) => boolean,
): HeldSnapshot[] {
  const stores = Map.groupBy(snapshots, ({ deployment_id, store }) => `${deployment_id} ${store}`)
  return [...stores.values()].flatMap(ofStore => {
    const newestFirst = ofStore.toSorted((a, b) => Date.parse(b.taken_at) - Date.parse(a.taken_at))
    return newestFirst.filter(({ deployment_id, expires_at }, place) => {
      const isKept = place === 0 && isAlive(deployment_id)
      return place >= MAX_OF_STORE || (!isKept && expires_at != null && Date.parse(expires_at) <= now)
    })
  })
}
