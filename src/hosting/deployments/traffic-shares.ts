// The shares of the revisions of a deployment, as its answers tell them. Pure.
import type { ReportedTraffic, StoredTraffic, TrafficSettings, TrafficShare } from '../../protocol/traffic.schema.ts'

export type TrafficRow = {
  active_revision_id: string | null
  url: string | null
  /** A stored answer of an earlier release has none. */
  traffic?: StoredTraffic | null
  applied_traffic?: ReportedTraffic | null
}

export function sharesOf({ active_revision_id, url, traffic, applied_traffic }: TrafficRow): TrafficShare[] {
  if (active_revision_id === null) return []
  const beside = traffic?.beside?.revision_id ? traffic.beside : null
  const applied = applied_traffic?.revision_id === beside?.revision_id ? applied_traffic : null
  const isApplied = (applied?.share ?? 0) === (beside?.share ?? 0)
  const named = (of: { name: string | null; label: string | null } | null | undefined) => ({
    name: of?.name ?? null,
    url: of?.label && url ? url.replace(/^(https?:\/\/)[^.]+/, `$1${of.label}`) : null,
  })
  const active: TrafficShare = {
    revision_id: active_revision_id,
    share: 100 - (beside?.share ?? 0),
    applied: isApplied,
    problem: null,
    ...named(traffic?.active),
  }
  if (!beside) return [active]
  const { revision_id, share } = beside
  const problem = applied?.problem ?? null
  // A share of nothing is served only once its agent says that it runs.
  return [
    active,
    { revision_id: revision_id!, share, applied: isApplied && applied != null, problem, ...named(beside) },
  ]
}

export const settingsOf = ({ traffic }: TrafficRow): TrafficSettings => ({
  starts_at: traffic?.starts_at ?? 100,
  sticky: traffic?.sticky ?? null,
})
