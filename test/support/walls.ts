// Takes the first wall out of a statement: every predicate on who asks becomes true, whoever spelt it and for whichever alias.
const COLUMN = '(?:"?\\w+"?\\.)?"?\\w+"?'
const ASKER = 'current_(?:tenant|organization|listener)\\(\\)'
const PREDICATES = new RegExp(`${COLUMN} = (?:${ASKER}|coalesce\\(${ASKER}, ${COLUMN}\\))`, 'g')

export const withoutFirstWall = (sql: string): string => sql.replace(PREDICATES, 'true')

/** What would be left of it, however it were spelt: any comparison with who asks. */
export const firstWallIn = (sql: string): RegExpMatchArray | null =>
  sql.match(new RegExp(`(=|<>|\\bin|\\bfrom)\\s*\\(?\\s*(coalesce\\()?${ASKER}|${ASKER}[^,)]*(=|<>|\\bin\\b)`, 'i'))
