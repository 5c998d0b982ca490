// Decides which deployment of this agent a host label leads to. Pure.
import type { HostLabel } from '../../engine.ts'

export type SavedLabel = HostLabel & { since: number }
/** The deployment of each label. */
export type LabelOwners = Map<string, string>
type SavedLabels = {
  host: string
  host_since?: number | undefined
  tenant_id?: string | undefined
  labels?: SavedLabel[] | undefined
}
type Labelled = { id: string; saved: SavedLabels }

export const labelOf = (host: string): string => host.replace(/\.localhost$/, '')

/** A label that stays keeps its time. */
export const savedLabels = (labels: HostLabel[], previous: SavedLabel[] = []): SavedLabel[] =>
  labels.map(({ label, revision_id }) => ({
    label,
    revision_id,
    since: previous.find(one => one.label === label)?.since ?? Date.now(),
  }))

/**
 * The control plane gives each label to one deployment, and moves it from one that is being deleted: the newest claim
 * wins. A second check: no workspace gets the label of another one.
 */
export function labelOwnersOf(all: Labelled[]): LabelOwners {
  const claims = all.flatMap(({ id, saved: { host, host_since = 0, tenant_id, labels = [] } }) => [
    { id, tenant_id, label: labelOf(host), since: host_since },
    ...labels.map(({ label, since }) => ({ id, tenant_id, label, since })),
  ])
  const owners = new Map<string, (typeof claims)[number]>()
  for (const claim of claims.toSorted((a, b) => a.since - b.since)) {
    const owner = owners.get(claim.label)
    if (!owner || owner.tenant_id === claim.tenant_id) owners.set(claim.label, claim)
  }
  return new Map([...owners].map(([label, { id }]) => [label, id]))
}
