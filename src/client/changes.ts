// The differences between two states of a resource, member by member (pure).
export type Change = { path: string; before: unknown; after: unknown }

const isAbsent = (value: unknown) => value === null || value === undefined
const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const membersOf = (value: unknown) => new Map<string, unknown>(isObject(value) ? Object.entries(value) : [])

/** One change for each member of an object that differs. An object that is new or gone counts as an empty one. */
export function flattenChanges<C extends Change>(changes: C[]): C[] {
  return changes.flatMap(change => {
    const { path, before, after } = change
    if (![before, after].every(value => isObject(value) || isAbsent(value))) return [change]
    const [old, next] = [membersOf(before), membersOf(after)]
    const names = [...new Set([...old.keys(), ...next.keys()])]
    const differing = names.filter(name => JSON.stringify(old.get(name)) !== JSON.stringify(next.get(name)))
    if (differing.length === 0) return [change]
    return flattenChanges(
      differing.map(name => ({
        ...change,
        path: `${path}.${name}`,
        before: old.get(name) ?? null,
        after: next.get(name) ?? null,
      })),
    )
  })
}
