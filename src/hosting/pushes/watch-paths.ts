// Decides which pushes concern a deployment that watches a part of its repository (pure).
import { type GlobBudget, matchesGlobs, parseGlobs } from './branch-globs.ts'

/** About 50 ms. The usual paths of a thousand files take a tenth of it. */
const MAX_STEPS = 3_000_000

/**
 * `files`: what changed between the deployed commit and the pushed one. Null: not known, so it concerns every one. So
 * does a list that takes too long to match.
 */
export function concernsPaths(globs: readonly string[], files: readonly string[] | null): boolean {
  if (globs.length === 0 || files === null) return true
  const hasIncluding = globs.some(glob => !glob.startsWith('!'))
  const all = parseGlobs(hasIncluding ? globs : ['**', ...globs])
  const budget: GlobBudget = { left: MAX_STEPS }
  return files.some(file => matchesGlobs(all, file, budget) || budget.left < 0)
}
