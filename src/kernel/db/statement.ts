// Statements: SQL text that is compiled once for each shape of its input, with the reader of its rows.
// docs/design/drizzle.md says which parts of Drizzle it uses.
import { type Query as BuiltQuery, Column, fillPlaceholders, is, type Placeholder, SQL, sql } from 'drizzle-orm'
import { type NeonHttpQueryResultHKT, NeonHttpSession } from 'drizzle-orm/neon-http/session'
import {
  PgDatabase,
  PgDialect,
  type PgPreparedQuery,
  type PreparedQueryConfig,
  type SelectedFieldsOrdered,
} from 'drizzle-orm/pg-core'
import { ONE_PLAN } from '../../platform.ts'

export type Row = unknown[]
export type Statement<T> = { sql: string; params: unknown[]; read(rows: Row[]): T[] }
export type Query<T> = PromiseLike<T[]> | SQL<T> | Statement<T>

/** The group whose share of the connections a trip uses, by default the system, and the end of its wait. */
export type TripUse = {
  group?: string
  isSlow?: boolean
  untilKnown?: () => AbortSignal
  signal?: AbortSignal | undefined
  /** Called with the milliseconds for which the trip had a connection. */
  onSpent?: (ms: number) => void
}
export type Trip = (statements: Query<unknown>[], use?: TripUse) => Promise<unknown[][]>
/** Trips by the app's login, and by the system's, which row-level security does not confine to one workspace. */
export type Database = Trip & { asSystem: Trip }

/** All trips of a request are of its group, whichever login they use. */
export function bindTrips(
  database: Database,
  useOf: () => Pick<TripUse, 'group' | 'untilKnown' | 'onSpent'>,
): Database {
  const bind =
    (trip: Trip): Trip =>
    (statements, use) =>
      trip(statements, { ...use, ...useOf() })
  return Object.assign(bind(database), { asSystem: bind(database.asSystem) })
}

/** Stands in for the members of an input that are set while a statement is compiled, without their values. */
export type Placeholders<Input> = {
  [Name in keyof Input]: PlaceholderFor<NonNullable<Input[Name]>> | (undefined & Input[Name])
}
type PlaceholderFor<Value> = Value extends string | number | boolean | unknown[] ? Placeholder : Placeholders<Value>

/**
 * Caches one compiled statement for every set of members that are set, so a request only fills in values. Building the
 * SQL text would otherwise take most of the JavaScript time of a read.
 */
export function prepareStatement<Input extends object, T>(build: (placeholders: Placeholders<Input>) => Query<T>) {
  const cache = new Map<string, Statement<T>>()
  return (input: Input): Statement<T> => {
    const values = flattenInput(input)
    const shape = Object.keys(values).join()
    const compiled = cache.get(shape) ?? compileQuery(build(toPlaceholders(input)))
    cache.set(shape, compiled)
    return { ...compiled, params: fillPlaceholders(compiled.params, values) }
  }
}

/** Arrays and instances of classes count as values. */
const isNested = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && [Object.prototype, null].includes(Object.getPrototypeOf(value))

function flattenInput(input: object, into: Record<string, unknown> = {}, path = ''): Record<string, unknown> {
  for (const [name, value] of Object.entries(input)) {
    if (value === undefined) continue
    const key = isNested(value) ? `${path}${name}.` : path + name
    into[key] = value
    if (isNested(value)) flattenInput(value, into, key)
  }
  return into
}

function toPlaceholders<Input extends object>(input: Input, path = ''): Placeholders<Input> {
  const members = Object.entries(input).filter(([, value]) => value !== undefined)
  const toPlaceholder = (name: string, value: unknown) =>
    isNested(value) ? toPlaceholders(value, `${name}.`) : sql.placeholder(name)
  return Object.fromEntries(
    members.map(([name, value]) => [name, toPlaceholder(path + name, value)]),
  ) as Placeholders<Input>
}

const dialect = new PgDialect()

/** Sends nothing. Drizzle has its session prepare each statement, with the fields of its rows. */
class BuildingSession extends NeonHttpSession<Record<string, never>, Record<string, never>> {
  override prepareQuery<T extends PreparedQueryConfig>(
    query: BuiltQuery,
    fields: SelectedFieldsOrdered | undefined,
    name: string | undefined,
    isArrayMode: boolean,
    mapRows?: (rows: Row[]) => T['execute'],
  ): PgPreparedQuery<T> {
    const prepared = super.prepareQuery<T>(query, fields, name, isArrayMode, mapRows)
    const isFlat = fields?.every(({ path, field }) => path.length === 1 && is(field, Column))
    if (isFlat) prepared.mapResult = createRowReader(fields!)
    return prepared
  }
}

export const db = new PgDatabase<NeonHttpQueryResultHKT>(
  dialect,
  new BuildingSession({} as never, dialect, undefined),
  undefined,
)

export function compileQuery<T>(query: Query<T>): Statement<T> {
  if ('read' in query) return query
  if (is(query, SQL)) return { ...dialect.sqlToQuery(query), read: rows => rows as T[] }
  const prepared = (query as unknown as { prepare(name: string): PgPreparedQuery<PreparedQueryConfig> }).prepare('')
  return { ...prepared.getQuery(), read: rows => prepared.mapResult({ rows }) as T[] }
}

/** A read without parameters whose plan is as good for every workspace: connections keep it. */
export function keepPlan<T>(query: Query<T>): Statement<T> {
  const statement = compileQuery(query)
  return { ...statement, sql: `${ONE_PLAN} ${statement.sql}` }
}

/** Drizzle makes a parameter of a number. */
export const literal = (number: number): number => sql.raw(String(number)) as unknown as number

/** Takes half the time of Drizzle's reader: which columns need decoding is decided once and not for each row. */
function createRowReader(fields: SelectedFieldsOrdered): (result: unknown) => unknown[] {
  const columns = fields.map(({ path, field }) => {
    const column = field as Column
    const isText = column.mapFromDriverValue === Column.prototype.mapFromDriverValue
    return { name: path[0]!, decode: isText ? undefined : (value: unknown) => column.mapFromDriverValue(value) }
  })
  return result =>
    (result as { rows: Row[] }).rows.map(row => {
      const record: Record<string, unknown> = {}
      for (let i = 0; i < columns.length; i++) {
        const { name, decode } = columns[i]!
        const value = row[i]
        record[name] = decode === undefined || value === null ? value : decode(value)
      }
      return record
    })
}
