// The group whose share a request uses, from a hint: the workspace that its key entered last at this instance. The hint
// schedules only. The database checks the key of every request.

import { createExpiringMap } from './expiring-map.ts'
import { toNetworkPrefix } from './network-prefix.ts'

const MAX_HINTS = 10_000
const HINT_MS = 15 * 60_000
/** This is longer than a request waits. */
const ARRIVAL_MS = 10_000
/** The /48 of an IPv6 address. A site has 65,536 smaller networks, each of which would wait in a line of its own. */
const SITE_GROUPS = 3
const ADDRESS = 'address '

export type ShareGroups = ReturnType<typeof createShareGroups>

export function createShareGroups(now: () => number) {
  const workspaceOf = createExpiringMap<string>(MAX_HINTS, now)
  const arrivals = createExpiringMap<AbortController>(MAX_HINTS, now)
  return {
    /** A caller that this instance has not seen lately, or that has no key, belongs to the group of its address. */
    groupOf: (hash: string | undefined, address: string | undefined): string =>
      (hash !== undefined && workspaceOf.get(hash)) ||
      `${ADDRESS}${address ? toNetworkPrefix(address, SITE_GROUPS) : 'unknown'}`,
    /** A key of an organization may enter no workspace. Its organization is then its group. */
    remember(hash: string, organization: string, workspace = organization): void {
      workspaceOf.set(hash, workspace, HINT_MS, organization)
      const arrival = arrivals.get(hash)
      arrivals.delete(hash)
      arrival?.abort(workspace)
    },
    /** Aborts when the workspace of a stranger's key is known, with it as the reason. */
    untilKnown: (hash: string): AbortSignal =>
      (arrivals.get(hash) ?? arrivals.set(hash, new AbortController(), ARRIVAL_MS)).signal,
  }
}

export const isStranger = (group: string): boolean => group.startsWith(ADDRESS)
