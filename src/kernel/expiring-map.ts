// A map of bounded size whose entries expire: what an instance remembers without letting strangers fill its memory
// (pure).

export type ExpiringMap<V> = ReturnType<typeof createExpiringMap<V>>

/** Keeps at most `most` entries, those that were set last. */
export function createExpiringMap<V>(most: number, now: () => number) {
  const entries = new Map<string, { value: V; until: number }>()
  const live = (key: string) => {
    const entry = entries.get(key)
    if (entry && entry.until > now()) return entry
    entries.delete(key)
    return undefined
  }
  return {
    get: (key: string): V | undefined => live(key)?.value,
    /** Whole seconds until the entry expires; 0 where there is none. */
    secondsLeft: (key: string): number => Math.ceil(((live(key)?.until ?? now()) - now()) / 1000),
    set(key: string, value: V, ms: number): V {
      // Deleted first, so that the map's own order is the order of setting.
      entries.delete(key)
      entries.set(key, { value, until: now() + ms })
      if (entries.size > most) entries.delete(entries.keys().next().value!)
      return value
    },
    delete: (key: string): void => void entries.delete(key),
    size: (): number => entries.size,
  }
}
