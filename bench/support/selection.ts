// Which of all there are somebody asked for by name: none named is all of them.
export function selectByName<One extends { id: string }>(all: One[], names: string[], kind: string): One[] {
  const wanted = names.map(name => name.toUpperCase())
  const unknown = wanted.filter(name => !all.some(({ id }) => id === name))
  const known = all.map(({ id }) => id).join(', ')
  if (unknown.length > 0) throw new Error(`There is no ${kind} ${unknown.join(', ')}; there are ${known}.`)
  return all.filter(({ id }) => wanted.length === 0 || wanted.includes(id))
}
