// Figures from slices. Candidates are measured in turn and compared with their neighbors in time, so that a busy
// machine affects all of them alike.

export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** The slices of both were measured in the same rounds. */
export const medianRatio = (numerators: number[], denominators: number[]): number =>
  median(numerators.map((value, i) => value / denominators[i]!))

/** A figure is the median of so many slices. Fewer are for trying a bench. */
export const SLICES = Number(process.env.BENCH_SLICES || 5)

/** One slice of each candidate per round. */
export async function measureSlices<Name extends string, Value = number>(
  candidates: Record<Name, () => Promise<Value>>,
  progress: (text: string) => void,
  rounds = SLICES,
): Promise<Record<Name, Value[]>> {
  const names = Object.keys(candidates) as Name[]
  const slices = Object.fromEntries(names.map(name => [name, [] as Value[]])) as Record<Name, Value[]>
  for (let round = 1; round <= rounds; round++) {
    progress(`slice ${round} of ${rounds}`)
    // The order is reversed every other round, so that no candidate is always first.
    for (const name of round % 2 ? names : names.toReversed()) slices[name].push(await candidates[name]())
  }
  return slices
}

/** Sends one request after another. */
export async function measureMedianMs(times: number, request: () => Promise<Response>): Promise<number> {
  const durations: number[] = []
  for (let i = 0; i < times; i++) {
    const start = performance.now()
    const response = await request()
    await response.arrayBuffer()
    durations.push(performance.now() - start)
    if (!response.ok) throw new Error(`${response.url} answers ${response.status}`)
  }
  return median(durations)
}

export const formatNumber = (value: number, digits = 2): string => value.toFixed(digits)
