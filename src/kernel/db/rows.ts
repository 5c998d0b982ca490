// Helpers to turn rows into responses and patches into changes.
import type { Code } from '../http/codes.ts'
import { fail } from '../http/errors.ts'

/** Times of Postgres are usually UTC, where copying the digits is faster than parsing the date. */
export function toIsoTime(time: string): string
export function toIsoTime(time: string | null): string | null
export function toIsoTime(time: string | null): string | null {
  if (time === null) return null
  const isUtc = time[10] === ' ' && time.endsWith('+00')
  if (!isUtc) return new Date(time).toISOString()
  const milliseconds = time.slice(20, -3).slice(0, 3).padEnd(3, '0')
  return `${time.slice(0, 10)}T${time.slice(11, 19)}.${milliseconds}Z`
}

/** Exactly the members that a schema names. Unset members are null, so that a client finds every one. */
export function completeMembers(names: string[], stored: unknown): Record<string, unknown> {
  const complete: Record<string, unknown> = {}
  for (const name of names) complete[name] = (stored as Record<string, unknown>)[name] ?? null
  return complete
}

export function requireRow<Row>([row]: Row[], code: Code): Row {
  if (row === undefined) throw fail(code)
  return row
}

/** In a patch, null means the same as an omitted member. */
export function withoutNulls<Patch extends object>(patch: Patch): { [K in keyof Patch]?: NonNullable<Patch[K]> } {
  return Object.fromEntries(Object.entries(patch).filter(([, value]) => value != null)) as never
}

export const pickColumns = <Table, Name extends keyof Table>(table: Table, names: Name[]): Pick<Table, Name> =>
  Object.fromEntries(names.map(name => [name, table[name]])) as Pick<Table, Name>
