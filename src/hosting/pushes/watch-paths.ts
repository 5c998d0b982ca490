// Decides which pushes concern a deployment that watches a part of its repository (pure).
import { matchesBranch } from './branch-globs.ts'

/** `files`: what changed between the deployed commit and the pushed one. Null: not known, so it concerns every one. */
export function concernsPaths(globs: readonly string[], files: readonly string[] | null): boolean {
  if (globs.length === 0 || files === null) return true
  const hasIncluding = globs.some(glob => !glob.startsWith('!'))
  const all = hasIncluding ? globs : ['**', ...globs]
  return files.some(file => matchesBranch(all, file))
}
