// A map of bounded size whose entries expire, so that strangers cannot fill the memory of an instance (pure).

export type ExpiringMap<V> = ReturnType<typeof createExpiringMap<V>>

export function createExpiringMap<V>(maxEntries: number, now: () => number) {
  const entries = new Map<string, { value: V; until: number }>()
  const liveEntry = (key: string) => {
    const entry = entries.get(key)
    if (entry && entry.until > now()) return entry
    entries.delete(key)
    return undefined
  }
  return {
    get: (key: string): V | undefined => liveEntry(key)?.value,
    secondsLeft: (key: string): number => Math.ceil(((liveEntry(key)?.until ?? now()) - now()) / 1000),
    set(key: string, value: V, ms: number): V {
      // Deleted first, so that the map is in the order of setting.
      entries.delete(key)
      entries.set(key, { value, until: now() + ms })
      if (entries.size > maxEntries) entries.delete(entries.keys().next().value!)
      return value
    },
    delete: (key: string): void => void entries.delete(key),
    size: (): number => entries.size,
  }
}
