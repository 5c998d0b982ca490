// Patterns and words as regular expressions of Postgres. `like` and `strpos()` try the whole pattern at each place of
// the text and cannot be interrupted. The time of these grows with the text alone, and `statement_timeout` can end the
// statement at each of them.
import { type SQL, sql } from 'drizzle-orm'
import { COMPARED_CHARACTERS, PARSED_BYTES } from '../../runs/filter/bounds.ts'
import { splitPattern } from '../../runs/filter/fields.ts'

/** A text that may be long, as far as it is compared. The length in bytes is known without reading the text. */
export const beginningOf = (text: SQL): SQL => sql`case
    when octet_length(${text}) <= ${COMPARED} then ${text}
    else left(${text}, ${COMPARED})
  end`
/** The text as JSON, or null if it is none or too long to be parsed. */
export const parsedJson = (text: SQL): SQL => sql`case
    when octet_length(${text}) <= ${PARSED} and pg_input_is_valid(${text}, 'jsonb') then ${text}::jsonb
  end`
const COMPARED = sql.raw(String(COMPARED_CHARACTERS))
const PARSED = sql.raw(String(PARSED_BYTES))

/** True if the text matches a pattern of `like`. */
export const matchesPattern = (text: SQL, pattern: string): SQL => sql`${text} ~ ${toRegularExpression(pattern)}`

/** True if the text contains one of the spellings. Case is ignored. */
export const containsAny = (text: SQL, spellings: string[]): SQL => sql`${text} ~* ${spellings.map(quote).join('|')}`

const quote = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

export function toRegularExpression(pattern: string): string {
  const parts = splitPattern(pattern)
  const isEnd = (part: string | undefined) => part === '%'
  const first = parts.findIndex(part => !isEnd(part))
  if (first === -1) return parts.length > 0 ? '' : '^$'
  const last = parts.findLastIndex(part => !isEnd(part))
  const found = parts
    .slice(first, last + 1)
    .map(toPart)
    .join('')
  return `${first === 0 ? '^' : ''}${found}${last === parts.length - 1 ? '$' : ''}`
}

function toPart(part: string): string {
  if (part === '%') return '.*'
  return part === '_' ? '.' : quote(part.startsWith('\\') ? part.slice(1) : part)
}
