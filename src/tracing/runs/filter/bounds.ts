// Bounds of the stored texts that filters look at (pure). Postgres ends a statement between two comparisons, and never
// within one, so each comparison has to be short.
import type { ResolvedFilter } from './resolve.ts'

/** The part of a text that is compared, from its beginning. */
export const COMPARED_CHARACTERS = 1024 * 1024
/** The longest JSON whose members are compared. Postgres parses it as a whole. Longer JSON has no members here. */
export const PARSED_BYTES = 128 * 1024

/** True if the filter could match in the rest of a text, in one of the fields or families. */
export function looksWithin(filter: ResolvedFilter | undefined, fields: readonly string[]): boolean {
  if (!filter) return false
  if ('parts' in filter) return filter.parts.some(part => looksWithin(part, fields))
  if ('conditions' in filter) return fields.includes(filter.family)
  const { operator, field } = filter
  return (operator === 'like' || operator === 'search') && (field === null || fields.includes(field))
}
