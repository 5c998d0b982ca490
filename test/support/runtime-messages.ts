// Messages between Vitest and a worker on another runtime, as text: the advanced serialization of child processes is
// V8's own format, which Bun does not have. Vitest sends cycles (a task and its suite), errors, dates and expressions.

type Leaf = null | string | number | boolean | [] | [index: number] | [kind: 'number' | 'bigint', text: string]
type Entry =
  | { array: Leaf[] }
  | { object: Record<string, Leaf> }
  | { error: Record<string, Leaf> }
  | { map: [Leaf, Leaf][] }
  | { set: Leaf[] }
  | { date: number }
  | { expression: [source: string, flags: string] }
  | { bytes: string }

export function encodeMessage(message: unknown): string {
  const indexes = new Map<object, number>()
  const entries: (Entry | undefined)[] = []

  function toLeaf(value: unknown): Leaf {
    if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
    if (typeof value === 'number') return Number.isFinite(value) ? value : ['number', String(value)]
    if (typeof value === 'bigint') return ['bigint', String(value)]
    if (typeof value !== 'object') return []
    const known = indexes.get(value)
    if (known !== undefined) return [known]
    const index = entries.push(undefined) - 1
    indexes.set(value, index)
    entries[index] = toEntry(value)
    return [index]
  }
  const toLeaves = (value: object, names: string[]) =>
    Object.fromEntries(names.map(name => [name, toLeaf((value as Record<string, unknown>)[name])]))

  function toEntry(value: object): Entry {
    if (Array.isArray(value)) return { array: value.map(toLeaf) }
    // The members that are not enumerable come first.
    if (value instanceof Error) {
      const own = ['name', 'message', 'stack', 'cause'].filter(name => name in value)
      return { error: toLeaves(value, [...new Set([...own, ...Object.keys(value)])]) }
    }
    if (value instanceof Map) return { map: [...value].map(([key, member]) => [toLeaf(key), toLeaf(member)]) }
    if (value instanceof Set) return { set: [...value].map(toLeaf) }
    if (value instanceof Date) return { date: value.getTime() }
    if (value instanceof RegExp) return { expression: [value.source, value.flags] }
    if (value instanceof Uint8Array) return { bytes: Buffer.from(value).toString('base64') }
    return { object: toLeaves(value, Object.keys(value)) }
  }

  const root = toLeaf(message)
  return JSON.stringify([root, entries])
}

export function decodeMessage(text: string): unknown {
  const [root, entries] = JSON.parse(text) as [Leaf, Entry[]]
  const values = entries.map(entry => {
    if ('array' in entry) return []
    if ('error' in entry) return new Error()
    if ('map' in entry) return new Map()
    if ('set' in entry) return new Set()
    if ('date' in entry) return new Date(entry.date)
    if ('expression' in entry) return new RegExp(...entry.expression)
    if ('bytes' in entry) return new Uint8Array(Buffer.from(entry.bytes, 'base64'))
    return {}
  })
  const toValue = (leaf: Leaf): unknown => {
    if (!Array.isArray(leaf)) return leaf
    const [first, second] = leaf
    if (first === 'number') return Number(second)
    if (first === 'bigint') return BigInt(second!)
    return first === undefined ? undefined : values[first]
  }
  for (const [index, entry] of entries.entries()) {
    const value = values[index] as never
    if ('array' in entry) for (const leaf of entry.array) (value as unknown[]).push(toValue(leaf))
    if ('set' in entry) for (const leaf of entry.set) (value as Set<unknown>).add(toValue(leaf))
    if ('map' in entry)
      for (const [key, leaf] of entry.map) (value as Map<unknown, unknown>).set(toValue(key), toValue(leaf))
    const members = 'object' in entry ? entry.object : 'error' in entry ? entry.error : {}
    for (const [name, leaf] of Object.entries(members)) {
      Object.defineProperty(value, name, { value: toValue(leaf), enumerable: true, writable: true, configurable: true })
    }
  }
  return toValue(root)
}
