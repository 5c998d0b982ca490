// The name that somebody may have meant.

const MAX_NAME_LENGTH = 64

/** The known name with the fewest edits, if those are few for its length. */
export function nearestName(name: string, known: string[]): string | undefined {
  if (name.length > MAX_NAME_LENGTH) return undefined
  const maxEdits = (one: string) => Math.max(1, Math.floor(one.length / 3))
  const [best] = known
    .filter(one => Math.abs(one.length - name.length) <= maxEdits(one))
    .map(one => ({ one, edits: editDistance(name.toLowerCase(), one.toLowerCase()) }))
    .filter(({ one, edits }) => edits <= maxEdits(one))
    .sort((a, b) => a.edits - b.edits)
  return best?.one
}

/** Insertions, deletions and replacements that turn `a` into `b`. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1))
    }
    row = next
  }
  return row.at(-1)!
}
