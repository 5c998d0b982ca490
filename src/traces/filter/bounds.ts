// How much of a stored text filters look at (pure). No comparison may take time that nothing ends: Postgres sees that a
// statement is to end between comparisons, and never within one.
import type { ResolvedFilter } from './resolve.ts'

/** Of a text. Longer ones are compared by their beginning. */
export const COMPARED_CHARACTERS = 1024 * 1024
/** Of JSON whose members are compared. Postgres parses it at once; longer JSON has no members for a filter. */
export const PARSED_BYTES = 128 * 1024

/** Whether the filter looks for something that the rest of a text may have, in one of the fields or families. */
export function looksWithin(filter: ResolvedFilter | undefined, fields: readonly string[]): boolean {
  if (!filter) return false
  if ('parts' in filter) return filter.parts.some(part => looksWithin(part, fields))
  if ('conditions' in filter) return fields.includes(filter.family)
  const { operator, field } = filter
  return (operator === 'like' || operator === 'search') && (field === null || fields.includes(field))
}
