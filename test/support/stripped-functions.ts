// Functions of the database without their tenant predicates, so that tests see row-level security alone. A gateway
// rewrites only the statements that are sent.
import { query } from './postgres.ts'
import { findTenantPredicate, stripTenantPredicates } from './tenant-predicates.ts'

const SCHEMA = 'without_predicates'

/** Functions that run as the caller; the others see every tenant anyway, so nothing is behind their predicates. */
const FUNCTIONS = `
  select pg_get_functiondef(p.oid) as definition
  from pg_proc p
  where p.pronamespace = 'public'::regnamespace and p.prokind = 'f' and not p.prosecdef and p.prosrc <> ''`

/** Replaces them, or creates copies in a schema of their own, for connections by `preferStripped()`. */
export async function stripFunctions(
  url: string,
  { isCopy = false } = {},
): Promise<{ names: string[]; left: string[] }> {
  const found = await query<{ definition: string }>(url, FUNCTIONS)
  const stripped = found
    .map(({ definition }) => ({ definition, without: stripTenantPredicates(definition) }))
    .filter(({ definition, without }) => without !== definition)
    .map(({ without }) => (isCopy ? without.replace('FUNCTION public.', `FUNCTION ${SCHEMA}.`) : without))
  const schema = isCopy ? [`create schema ${SCHEMA}`, `grant usage on schema ${SCHEMA} to public`] : []
  await query(url, [...schema, ...stripped].join(';\n'))
  const nameOf = (definition: string) => /FUNCTION \w+\.(\w+)/.exec(definition)![1]!
  return { names: stripped.map(nameOf), left: stripped.filter(findTenantPredicate).map(nameOf) }
}

export function preferStripped(url: string): string {
  const preferring = new URL(url)
  preferring.searchParams.set('options', `-c search_path=${SCHEMA},public`)
  return preferring.href
}
