// Compares a version with those that a source asks for, in the spellings of npm, Python, Cargo and others.
import { coerce, minVersion, satisfies, validRange } from 'semver'

/** True for a range that is not understood, such as the name of a release: nothing contradicts the version. */
export function isWithin(version: string, wanted: string): boolean {
  const range = readRange(wanted)
  const exact = coerce(version)
  return exact === null || range === null || satisfies(exact, range)
}

/** The lowest version that fits. Null for a range that is not understood. */
export function lowestWithin(wanted: string): string | null {
  const range = readRange(wanted)
  return range && (minVersion(range)?.version ?? null)
}

function readRange(wanted: string): string | null {
  const range = wanted
    .replaceAll(',', ' ')
    .replace(/~=\s*/g, '^')
    .replace(/===?\s*/g, '=')
    .replace(/!=\s*[\w.*]+/g, '')
    .trim()
  return range === '' || validRange(range) === null ? null : range
}
