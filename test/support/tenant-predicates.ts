// Removes the tenant predicates of a statement, so that tests see row-level security alone: each becomes `true`.
const COLUMN = '(?:"?\\w+"?\\.)?"?\\w+"?'
const CURRENT_SCOPE = 'current_(?:tenant|organization|listener)\\(\\)'
const TENANT_PREDICATES = new RegExp(`${COLUMN} = (?:${CURRENT_SCOPE}|coalesce\\(${CURRENT_SCOPE}, ${COLUMN}\\))`, 'g')

export const stripTenantPredicates = (sql: string): string => sql.replace(TENANT_PREDICATES, 'true')

/** Keeps the role of the database's owner, so that tests see the tenant predicates alone. */
export const keepOwnRole = (sql: string): string => sql.replace(/'slipway_(?:app|limited)'/g, `'none'`)

/** Finds any remaining comparison with the current tenant, however it is spelled. */
export const findTenantPredicate = (sql: string): RegExpMatchArray | null =>
  sql.match(
    new RegExp(
      `(=|<>|\\bin|\\bfrom)\\s*\\(?\\s*(coalesce\\()?${CURRENT_SCOPE}|${CURRENT_SCOPE}[^,)]*(=|<>|\\bin\\b)`,
      'i',
    ),
  )
