// Glob matching in time proportional to pattern times text, so that a hostile pattern is harmless (pure).

/** Accepts one item, or any number of items if `many`. */
export type GlobStep<Item> = { many: boolean; accepts: (item: Item) => boolean }

export const matchOne = <Item>(accepts: (item: Item) => boolean): GlobStep<Item> => ({ many: false, accepts })
export const matchMany = <Item>(accepts: (item: Item) => boolean): GlobStep<Item> => ({ many: true, accepts })

/** Tracks all possible positions, so it never backtracks. With `prefix`, matching the first items is enough. */
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

/** A step for many items can also match none. Positions are unique and in ascending order. */
function addSkippedPositions<Item>(steps: GlobStep<Item>[], positions: number[]): number[] {
  const reached: number[] = []
  for (const position of positions) {
    if (position <= (reached.at(-1) ?? -1)) continue
    reached.push(position)
    for (let skipped = position; steps[skipped]?.many; skipped++) reached.push(skipped + 1)
  }
  return reached
}
