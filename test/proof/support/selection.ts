/** All of them, if none is named. */
export function selectByName<One extends { id: string }>(all: One[], names: string[], kind: string): One[] {
  const ids = names.map(name => name.toLowerCase())
  const isNamed = ({ id }: One) => ids.includes(id.toLowerCase())
  const unknown = names.filter(name => !all.some(({ id }) => id.toLowerCase() === name.toLowerCase()))
  const known = all.map(({ id }) => id).join(', ')
  if (unknown.length > 0) throw new Error(`Unknown ${kind}: ${unknown.join(', ')}. Choose from ${known}.`)
  return ids.length === 0 ? all : all.filter(isNamed)
}
