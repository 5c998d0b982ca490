// From a row to the wire: the few turns that every slice's rows take.
import { type Code, fail } from './errors.ts'

/** Postgres writes a time in more than one way; the wire in one. */
export function iso(time: string): string
export function iso(time: string | null): string | null
export function iso(time: string | null): string | null {
  return time && new Date(time).toISOString()
}

/** The one row that a statement found or changed, or the refusal that says it is not there. */
export function found<Row>([row]: Row[], code: Code): Row {
  if (row === undefined) throw fail(code)
  return row
}

/** What a patch supplies: null means the same as left out. */
export function supplied<Patch extends object>(patch: Patch): { [K in keyof Patch]?: NonNullable<Patch[K]> } {
  return Object.fromEntries(Object.entries(patch).filter(([, value]) => value != null)) as never
}

/** Some columns of a table, to select no more than is needed. */
export const columns = <Table, Name extends keyof Table>(table: Table, names: Name[]): Pick<Table, Name> =>
  Object.fromEntries(names.map(name => [name, table[name]])) as Pick<Table, Name>
