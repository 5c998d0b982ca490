// The number of clusters of each level (pure). Level 0 has the finest clusters, where the runs are.

/** The names of categories, if given, make the top level. */
export type Partitions = Record<string, string>

/** No level is larger than the one below it. The sizes follow from the number of runs if there is no hierarchy. */
export function sizesOf(hierarchy: number[] | null | undefined, runs: number): number[] {
  const wanted = hierarchy && hierarchy.length > 0 ? hierarchy : defaultSizes(runs)
  let most = Math.max(1, runs)
  return wanted.map(size => {
    most = Math.max(1, Math.min(size, most))
    return most
  })
}

function defaultSizes(runs: number): number[] {
  const finest = Math.min(20, Math.max(1, Math.ceil(Math.sqrt(runs / 2))))
  return [finest, Math.ceil(finest / 4)]
}

/** Shares a number of clusters among parts by their number of runs, each at least one and at most its runs. */
export function shareSize(size: number, runs: number[]): number[] {
  const total = runs.reduce((sum, one) => sum + one, 0)
  return runs.map(one => (one === 0 ? 0 : Math.min(one, Math.max(1, Math.round((size * one) / total)))))
}
