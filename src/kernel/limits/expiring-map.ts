// A map of bounded size whose entries expire, so that strangers cannot fill the memory of an instance (pure).

/** An entry that is set again so soon keeps its place: a busy key would else rebuild the maps with each request. */
const SAME_AGE_MS = 1000

type Entry<V> = { value: V; until: number; group: string }

export function createExpiringMap<V>(maxEntries: number, now: () => number) {
  const entries = new Map<string, Entry<V>>()
  /** The keys of each group, in the order of setting. */
  const groups = new Map<string, Set<string>>()
  /** The groups by how many entries they have, so that the largest is found at once. */
  const groupsOfSize = new Map<number, Set<string>>()
  let largest = 0

  function resize(group: string, before: number, after: number): void {
    const old = groupsOfSize.get(before)
    old?.delete(group)
    if (old?.size === 0) groupsOfSize.delete(before)
    if (after > 0) {
      const same = groupsOfSize.get(after) ?? new Set()
      groupsOfSize.set(after, same.add(group))
    }
    // The size of one group changes by one.
    if (after > largest) largest = after
    else if (!groupsOfSize.has(largest)) largest = Math.max(0, largest - 1)
  }

  function remove(key: string): void {
    const entry = entries.get(key)
    if (!entry) return
    entries.delete(key)
    const keys = groups.get(entry.group)!
    keys.delete(key)
    if (keys.size === 0) groups.delete(entry.group)
    resize(entry.group, keys.size + 1, keys.size)
  }

  function add(key: string, entry: Entry<V>): void {
    remove(key)
    entries.set(key, entry)
    const keys = groups.get(entry.group) ?? new Set()
    groups.set(entry.group, keys.add(key))
    resize(entry.group, keys.size - 1, keys.size)
  }

  /** Removes the oldest entry of the largest group. Of equal groups, it takes the one that grew first. */
  function evict(): void {
    const [group] = groupsOfSize.get(largest)!
    const [key] = groups.get(group!)!
    remove(key!)
  }

  const liveEntry = (key: string) => {
    const entry = entries.get(key)
    if (entry && entry.until > now()) return entry
    remove(key)
    return undefined
  }
  return {
    get: (key: string): V | undefined => liveEntry(key)?.value,
    secondsLeft: (key: string): number => Math.ceil(((liveEntry(key)?.until ?? now()) - now()) / 1000),
    /** `group` names who the entry is for, usually a workspace: a full map evicts from the group that has most. */
    set(key: string, value: V, ms: number, group = ''): V {
      const until = now() + ms
      const known = entries.get(key)
      if (known?.group === group && Math.abs(until - known.until) < SAME_AGE_MS) {
        known.value = value
        known.until = until
        return value
      }
      add(key, { value, until, group })
      if (entries.size > maxEntries) evict()
      return value
    },
    delete: (key: string): void => remove(key),
    size: (): number => entries.size,
  }
}
