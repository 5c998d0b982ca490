// Adds up the runs of a cluster (pure). The runs are counted, and no model has a say in it.
import type { Attributes } from './attributes.ts'

const MAX_VALUES = 20

/** The facts of one run at the time it was read. */
export type RunFacts = {
  /** Seconds. Null while it runs. */
  latency: number | null
  has_error: boolean
  tokens: number
  cost: number
  feedback: Record<string, { n: number; avg: number | null }>
}
export type CountedRun = { facts: RunFacts; attributes?: Attributes | null }

type AttributeStats =
  | { type: 'number'; n: number; avg: number; min: number; max: number }
  | { type: 'boolean'; n: number; true: number }
  | { type: 'string'; n: number; values: Record<string, number> }
export type ClusterStats = {
  num_runs: number
  latency_p50: number | null
  latency_p99: number | null
  error_rate: number
  total_tokens: number
  total_cost: number
  feedback_stats: Record<string, { n: number; avg: number | null }>
  attributes: Record<string, AttributeStats>
}

/** Needs at least one run. */
export function computeStats(runs: CountedRun[]): ClusterStats {
  const latencies = runs
    .map(({ facts }) => facts.latency)
    .filter(one => one !== null)
    .sort((a, b) => a - b)
  return {
    num_runs: runs.length,
    latency_p50: percentileOf(latencies, 0.5),
    latency_p99: percentileOf(latencies, 0.99),
    error_rate: round(runs.filter(({ facts }) => facts.has_error).length / runs.length),
    total_tokens: sum(runs.map(({ facts }) => facts.tokens)),
    total_cost: round(sum(runs.map(({ facts }) => facts.cost))),
    feedback_stats: addFeedback(runs),
    attributes: addAttributes(runs),
  }
}

const sum = (numbers: number[]): number => numbers.reduce((total, one) => total + one, 0)
const round = (number: number): number => Number(number.toFixed(6))

/** The nearest rank, so that it is the latency of a run. */
const percentileOf = (sorted: number[], part: number): number | null =>
  sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? null

function addFeedback(runs: CountedRun[]): ClusterStats['feedback_stats'] {
  const total = new Map<string, { n: number; scored: number; score: number }>()
  for (const { facts } of runs)
    for (const [key, { n, avg }] of Object.entries(facts.feedback)) {
      const one = total.get(key) ?? { n: 0, scored: 0, score: 0 }
      const scored = avg === null ? 0 : n
      total.set(key, { n: one.n + n, scored: one.scored + scored, score: one.score + (avg ?? 0) * scored })
    }
  return Object.fromEntries(
    [...total].map(([key, { n, scored, score }]) => [key, { n, avg: scored > 0 ? round(score / scored) : null }]),
  )
}

function addAttributes(runs: CountedRun[]): ClusterStats['attributes'] {
  const values = new Map<string, (string | number | boolean)[]>()
  for (const { attributes } of runs)
    for (const [name, value] of Object.entries(attributes ?? {}))
      if (value !== null) values.set(name, [...(values.get(name) ?? []), value])
  return Object.fromEntries([...values].map(([name, given]) => [name, describeValues(given)]))
}

/** All values of an attribute have one type. */
function describeValues(values: (string | number | boolean)[]): AttributeStats {
  const n = values.length
  const [first] = values
  if (typeof first === 'boolean') return { type: 'boolean', n, true: values.filter(Boolean).length }
  if (typeof first === 'string') return { type: 'string', n, values: countTexts(values as string[]) }
  const numbers = values as number[]
  return {
    type: 'number',
    n,
    avg: round(sum(numbers) / n),
    min: numbers.reduce((least, one) => Math.min(least, one)),
    max: numbers.reduce((most, one) => Math.max(most, one)),
  }
}

/** The most frequent ones. */
function countTexts(texts: string[]): Record<string, number> {
  const counts = new Map<string, number>()
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1)
  return Object.fromEntries([...counts].sort((a, b) => b[1] - a[1]).slice(0, MAX_VALUES))
}
