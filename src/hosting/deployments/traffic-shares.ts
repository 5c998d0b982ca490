// The shares of the revisions of a deployment, as its answers tell them. Pure.
import type { StoredRollout } from '../../protocol/rollout.schema.ts'
import type { ReportedTraffic, StoredTraffic, TrafficSettings, TrafficShare } from '../../protocol/traffic.schema.ts'

export type TrafficRow = {
  rollout?: StoredRollout | null
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

/** The same as in place_canary() of the database. Null: it takes all requests at once. */
type Splitting = Pick<TrafficRow, 'active_revision_id' | 'traffic' | 'rollout'>
function firstShareOf({ active_revision_id, traffic, rollout }: Splitting) {
  if (active_revision_id === null) return null
  if (rollout) return rollout.steps[0]!.share
  if (!traffic) return null
  return traffic.starts_at < 100 ? traffic.starts_at : (traffic.beside?.first ?? null)
}

/** For the plan of a new revision. */
export function describeFirstShare(row: Splitting, usesDatabase: boolean) {
  const share = firstShareOf(row)
  if (share === null) return []
  const release = usesDatabase ? ' A release command of it runs before, on the database that both use.' : ''
  const rest = row.rollout ? 'the rest by the steps of its rollout' : 'all only when the traffic is set'
  return [`The new revision gets ${share} % of the requests, and ${rest}.${release}`]
}

/** For the explanation of a revision that is still DEPLOYING. */
export function describeShare({ traffic, applied_traffic }: Partial<TrafficRow>, revision_id: string): string {
  if (applied_traffic?.revision_id !== revision_id || traffic?.beside?.revision_id !== revision_id) return ''
  const { rollout } = traffic.beside
  const steps = rollout?.policy.steps.length
  const until = rollout
    ? `in step ${rollout.step + 1} of ${steps} of its rollout${rollout.paused ? ', which is paused' : ''}`
    : 'until the traffic is set or it is interrupted'
  return ` It has ${applied_traffic.share} % of the requests, ${until}.`
}

export const settingsOf = ({ traffic }: TrafficRow): TrafficSettings => ({
  starts_at: traffic?.starts_at ?? 100,
  sticky: traffic?.sticky ?? null,
})
