// The group whose share a request uses, from a hint: the workspace that its key entered last at this instance. The hint
// schedules only. It admits nobody, because the database checks the key of every request.
import { toNetworkPrefix } from './address-limits.ts'
import { createExpiringMap } from './expiring-map.ts'

const MAX_HINTS = 10_000
const HINT_MS = 15 * 60_000
const ADDRESS = 'address '

export type ShareGroups = ReturnType<typeof createShareGroups>

export function createShareGroups(now: () => number) {
  const workspaceOf = createExpiringMap<string>(MAX_HINTS, now)
  return {
    /** A caller that this instance has not seen lately, or that has no key, belongs to the group of its address. */
    groupOf: (hash: string | undefined, address: string | undefined): string =>
      (hash !== undefined && workspaceOf.get(hash)) || `${ADDRESS}${address ? toNetworkPrefix(address) : 'unknown'}`,
    /** A key of an organization enters several workspaces, or none. Its organization is then its group. */
    remember: (hash: string, workspace: string): void => void workspaceOf.set(hash, workspace, HINT_MS),
  }
}

export const isStranger = (group: string): boolean => group.startsWith(ADDRESS)
