// Summaries of feedback as people read them (pure).

export type KeyStats = {
  n: number
  avg: number | null
  min?: number | null
  max?: number | null
  values?: Record<string, number>
  comments?: string[]
  errors?: number
}
export type Score = { key: string; stats: KeyStats }

/** Scores with the most values come first. Names with the same beginning stay together. */
export const scoresOf = (stats: Record<string, object> | null | undefined): Score[] =>
  Object.entries(stats ?? {})
    .map(([key, one]) => ({ key, stats: one as KeyStats }))
    .sort((a, b) => b.stats.n - a.stats.n || a.key.localeCompare(b.key))

export const formatScore = (score: number): string => String(Number(score.toFixed(2)))

/** `helpful 0.83`, or without a score what was said most: `quality good`. */
export function describeScore({ key, stats: { avg, values, n } }: Score): string {
  if (avg !== null && avg !== undefined) return `${key} ${formatScore(avg)}`
  const [most] = Object.entries(values ?? {}).sort(([, a], [, b]) => b - a)
  return most ? `${key} ${most[0]}` : `${key} × ${n}`
}
