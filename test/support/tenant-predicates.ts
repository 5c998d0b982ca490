// Takes the first wall out of a statement: every predicate on who asks becomes true, whoever spelt it and for whichever alias.
const COLUMN = '(?:"?\\w+"?\\.)?"?\\w+"?'
const CURRENT_SCOPE = 'current_(?:tenant|organization|listener)\\(\\)'
const TENANT_PREDICATES = new RegExp(`${COLUMN} = (?:${CURRENT_SCOPE}|coalesce\\(${CURRENT_SCOPE}, ${COLUMN}\\))`, 'g')

export const stripTenantPredicates = (sql: string): string => sql.replace(TENANT_PREDICATES, 'true')

/** What would be left of it, however it were spelt: any comparison with who asks. */
export const findTenantPredicate = (sql: string): RegExpMatchArray | null =>
  sql.match(
    new RegExp(
      `(=|<>|\\bin|\\bfrom)\\s*\\(?\\s*(coalesce\\()?${CURRENT_SCOPE}|${CURRENT_SCOPE}[^,)]*(=|<>|\\bin\\b)`,
      'i',
    ),
  )
