// Compares a version with those that a source asks for, in the spellings of npm, Python, Cargo and others.
import { coerce, satisfies, validRange } from 'semver'

/** True for a range that is not understood, such as the name of a release: nothing contradicts the version. */
export function isWithin(version: string, wanted: string): boolean {
  const range = wanted
    .replaceAll(',', ' ')
    .replace(/~=\s*/g, '^')
    .replace(/===?\s*/g, '=')
    .replace(/!=\s*[\w.*]+/g, '')
    .trim()
  const exact = coerce(version)
  if (exact === null || range === '' || validRange(range) === null) return true
  return satisfies(exact, range)
}
