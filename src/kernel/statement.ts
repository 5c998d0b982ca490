// Statements: their text is written once for each shape, and how their rows are read is decided with it.
import { Column, fillPlaceholders, is, type Placeholder, SQL, sql } from 'drizzle-orm'
import { PgDialect } from 'drizzle-orm/pg-core'

export type Row = unknown[]
export type Statement<T> = { sql: string; params: unknown[]; read(rows: Row[]): T[] }
/** A statement of Drizzle's builder, SQL whose rows come back as they are, or one that is written already. */
export type Query<T> = PromiseLike<T[]> | SQL<T> | Statement<T>

/** Runs statements in one round trip and one transaction. */
export type Trip = (statements: Query<unknown>[]) => Promise<unknown[][]>
/** Trips by the app's login, and by the system's, which row-level security does not confine to one workspace. */
export type Database = Trip & { asSystem: Trip }

/** What stands for the members of an input while a statement is written: those that are given, and no values. */
export type Placeholders<Input> = {
  [Name in keyof Input]: PlaceholderFor<NonNullable<Input[Name]>> | (undefined & Input[Name])
}
type PlaceholderFor<Value> = Value extends string | number | boolean | unknown[] ? Placeholder : Placeholders<Value>

/**
 * Building the text anew is what a read would spend most of its own JavaScript on. So a statement that is asked for often is written once
 * for every set of members that are given, and a request brings only their values.
 */
export function prepareStatement<Input extends object, T>(write: (given: Placeholders<Input>) => Query<T>) {
  const written = new Map<string, Statement<T>>()
  return (input: Input): Statement<T> => {
    const values = flattenInput(input)
    const shape = Object.keys(values).join()
    const made = written.get(shape) ?? compileQuery(write(toPlaceholders(input)))
    written.set(shape, made)
    return { ...made, params: fillPlaceholders(made.params, values) }
  }
}

/** An array and an instance are values. */
const isNested = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && [Object.prototype, null].includes(Object.getPrototypeOf(value))

function flattenInput(input: object, into: Record<string, unknown> = {}, path = ''): Record<string, unknown> {
  for (const [name, value] of Object.entries(input)) {
    if (value === undefined) continue
    const place = isNested(value) ? `${path}${name}.` : path + name
    into[place] = value
    if (isNested(value)) flattenInput(value, into, place)
  }
  return into
}

function toPlaceholders<Input extends object>(input: Input, path = ''): Placeholders<Input> {
  const members = Object.entries(input).filter(([, value]) => value !== undefined)
  const stand = (name: string, value: unknown) =>
    isNested(value) ? toPlaceholders(value, `${name}.`) : sql.placeholder(name)
  return Object.fromEntries(members.map(([name, value]) => [name, stand(path + name, value)])) as Placeholders<Input>
}

type SelectedField = { path: string[]; field: unknown }
type DrizzleQuery = {
  _prepare(): {
    getQuery(): { sql: string; params: unknown[] }
    mapResult(result: { rows: Row[] }): unknown[]
    fields?: SelectedField[]
  }
}
const dialect = new PgDialect()

export function compileQuery<T>(query: Query<T>): Statement<T> {
  if ('read' in query) return query
  if (is(query, SQL)) return { ...dialect.sqlToQuery(query), read: rows => rows as T[] }
  const built = (query as unknown as DrizzleQuery)._prepare()
  const { fields } = built
  const isFlat = fields?.every(({ path, field }) => path.length === 1 && is(field, Column))
  const read = isFlat ? createRowReader(fields!) : (rows: Row[]) => built.mapResult({ rows })
  return { ...built.getQuery(), read: read as Statement<T>['read'] }
}

/** Of one table's columns: which of them need more than their text is known before the rows are. */
function createRowReader(fields: SelectedField[]): (rows: Row[]) => unknown[] {
  const columns = fields.map(({ path, field }) => {
    const column = field as Column
    const plain = column.mapFromDriverValue === Column.prototype.mapFromDriverValue
    return { name: path[0]!, decoded: plain ? undefined : (value: unknown) => column.mapFromDriverValue(value) }
  })
  return rows =>
    rows.map(row => {
      const made: Record<string, unknown> = {}
      for (let i = 0; i < columns.length; i++) {
        const { name, decoded } = columns[i]!
        const value = row[i]
        made[name] = decoded === undefined || value === null ? value : decoded(value)
      }
      return made
    })
}
