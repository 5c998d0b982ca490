// From a row to the wire: the few turns that every slice's rows take.
import type { Code } from './codes.ts'
import { fail } from './errors.ts'

const UTC_TIME = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d+))?\+00$/

/** Postgres writes a time in more than one way, the wire in one. Mostly it is UTC, where the digits are there already. */
export function toIsoTime(time: string): string
export function toIsoTime(time: string | null): string | null
export function toIsoTime(time: string | null): string | null {
  const [, day, clock, fraction = ''] = (time && UTC_TIME.exec(time)) || []
  return day ? `${day}T${clock}.${fraction.slice(0, 3).padEnd(3, '0')}Z` : time && new Date(time).toISOString()
}

/** The members that a schema names and no others: what is unset is told as null, so that a client finds every member. */
export function completeMembers(names: string[], stored: unknown): Record<string, unknown> {
  const made: Record<string, unknown> = {}
  for (const name of names) made[name] = (stored as Record<string, unknown>)[name] ?? null
  return made
}

/** The one row that a statement found or changed, or the refusal that says it is not there. */
export function requireRow<Row>([row]: Row[], code: Code): Row {
  if (row === undefined) throw fail(code)
  return row
}

/** What a patch supplies: null means the same as left out. */
export function withoutNulls<Patch extends object>(patch: Patch): { [K in keyof Patch]?: NonNullable<Patch[K]> } {
  return Object.fromEntries(Object.entries(patch).filter(([, value]) => value != null)) as never
}

/** Some columns of a table, to select no more than is needed. */
export const pickColumns = <Table, Name extends keyof Table>(table: Table, names: Name[]): Pick<Table, Name> =>
  Object.fromEntries(names.map(name => [name, table[name]])) as Pick<Table, Name>
