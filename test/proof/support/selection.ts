/** All of them, if none is named. */
export function selectByName<One extends { id: string }>(all: One[], names: string[], kind: string): One[] {
  const ids = names.map(name => name.toUpperCase())
  const unknown = ids.filter(name => !all.some(({ id }) => id === name))
  const known = all.map(({ id }) => id).join(', ')
  if (unknown.length > 0) throw new Error(`Unknown ${kind}: ${unknown.join(', ')}. Choose from ${known}.`)
  return all.filter(({ id }) => ids.length === 0 || ids.includes(id))
}
