// How slices become a figure: measured in turn, compared with their neighbours in time, so that a busy machine bears on all alike.

export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** The median of the ratios of slices that were measured side by side. */
export const medianRatio = (over: number[], under: number[]): number =>
  median(over.map((value, i) => value / under[i]!))

/** One slice of each thing in turn, the first round first and last in turn, as often as asked. */
export async function measureSlices<Name extends string>(
  rounds: number,
  things: Record<Name, () => Promise<number>>,
  progress: (text: string) => void,
): Promise<Record<Name, number[]>> {
  const names = Object.keys(things) as Name[]
  const slices = Object.fromEntries(names.map(name => [name, [] as number[]])) as Record<Name, number[]>
  for (let round = 1; round <= rounds; round++) {
    progress(`slice ${round} of ${rounds}`)
    // Whoever goes first would otherwise always be first.
    for (const name of round % 2 ? names : names.toReversed()) slices[name].push(await things[name]())
  }
  return slices
}

/** The median milliseconds of one request after another. */
export async function measureMedianMs(times: number, request: () => Promise<Response>): Promise<number> {
  const taken: number[] = []
  for (let i = 0; i < times; i++) {
    const start = performance.now()
    const response = await request()
    await response.arrayBuffer()
    taken.push(performance.now() - start)
    if (!response.ok) throw new Error(`${response.url} answers ${response.status}`)
  }
  return median(taken)
}

export const formatNumber = (value: number, digits = 2): string => value.toFixed(digits)
