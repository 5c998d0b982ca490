// Matches glob patterns in time proportional to pattern times text, whoever wrote them. Pure.

/** Accepts one item, or with `matchMany` any number of them. */
export type GlobStep<Item> = { many: boolean; accepts: (item: Item) => boolean }

export const matchOne = <Item>(accepts: (item: Item) => boolean): GlobStep<Item> => ({ many: false, accepts })
export const matchMany = <Item>(accepts: (item: Item) => boolean): GlobStep<Item> => ({ many: true, accepts })

/**
 * Follows every position the pattern can be at, one item after the other, so it never goes back. With `prefix` it is
 * enough that the pattern matches the first item or the first few.
 */
export function matchesGlob<Item>(steps: GlobStep<Item>[], items: Item[], { prefix = false } = {}): boolean {
  let positions = addSkippedPositions(steps, [0])
  for (const item of items) {
    const next: number[] = []
    for (const position of positions) {
      const step = steps[position]
      if (step?.accepts(item)) next.push(step.many ? position : position + 1)
    }
    if (next.length === 0) return false
    positions = addSkippedPositions(steps, next)
    if (prefix && positions.at(-1) === steps.length) return true
  }
  return positions.at(-1) === steps.length
}

/** A step for many items can also take none. Positions come and go in ascending order, each once. */
function addSkippedPositions<Item>(steps: GlobStep<Item>[], positions: number[]): number[] {
  const reached: number[] = []
  for (const position of positions) {
    if (position <= (reached.at(-1) ?? -1)) continue
    reached.push(position)
    for (let skipped = position; steps[skipped]?.many; skipped++) reached.push(skipped + 1)
  }
  return reached
}
