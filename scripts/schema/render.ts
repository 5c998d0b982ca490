// Objects of a database as SQL: all of them, for drizzle/schema.sql, and the statements that lead from one database to
// another, for a migration.
import { type DatabaseObject, type Kind, SYSTEM } from './catalog.ts'

const HEADER =
  '-- The database as it is. `npm run db:generate` writes this file, and a test compares it with the migrations.'

/** Runs on an empty database that has the roles. */
export function renderSchema(objects: DatabaseObject[]): string {
  const parts = objects.map(object => `${object.kind === 'table' ? '\n' : ''}${toCreate(object)}`)
  return [HEADER, ...withFunctions(parts)].join('\n')
}

/** The statements for a migration. Tables, their columns and their indexes are up to drizzle-kit. */
export function renderChanges(before: DatabaseObject[], after: DatabaseObject[]): string {
  const stored = new Map(before.filter(isWritten).map(object => [keyOf(object), object]))
  const wanted = after.filter(isWritten)
  const names = new Set(wanted.map(keyOf))
  const removed = [...stored.values()].filter(object => !names.has(keyOf(object)))
  const created = wanted.filter(object => stored.get(keyOf(object))?.create !== object.create)
  const replaced = created.flatMap(object => stored.get(keyOf(object)) ?? [])
  const type = replaced.find(({ kind }) => kind === 'type')
  if (type) throw new Error(`The previous release uses the type ${type.name}. Give the changed one another name.`)
  const moved = wanted.filter(object => {
    const owned = stored.get(keyOf(object))
    return object.kind === 'function' && owned && owned.isOfSystem !== object.isOfSystem
  })

  const removedFunctions = new Set(removed.filter(isCalled).map(({ name }) => `on function ${name}`))
  const statements = [
    ...removed.filter(object => !isCalled(object) && !removedFunctions.has(object.name)).map(toDrop),
    ...replaced.filter(({ kind }) => kind !== 'function').map(toDrop),
    ...moved.map(({ name, isOfSystem }) => `alter function ${name} owner to ${isOfSystem ? SYSTEM : 'session_user'};`),
    ...created.map(toCreate),
    ...removed.filter(isCalled).toReversed().map(toDrop),
  ]
  if (statements.length === 0) return ''
  const text = withFunctions(statements).join('\n')
  return text.replace(/^set (?=role|check)/gm, 'set local ')
}

const WRITTEN: Kind[] = ['type', 'function', 'aggregate', 'trigger', 'security', 'policy', 'grant']
const isWritten = ({ kind }: DatabaseObject) => WRITTEN.includes(kind)
/** Others use it, so it is dropped after them. */
const isCalled = ({ kind }: DatabaseObject) => kind === 'function' || kind === 'aggregate' || kind === 'type'
const keyOf = ({ kind, name }: DatabaseObject) => `${kind} ${name}`

/** Bodies call functions that are created later. The owner of a function has to be allowed to create it. */
const withFunctions = (statements: string[]) => [
  'set check_function_bodies = off;',
  `grant create on schema public to ${SYSTEM};`,
  ...statements,
  `revoke create on schema public from ${SYSTEM};`,
  'set check_function_bodies = on;',
  '',
]

const asOwner = (text: string, { isOfSystem }: DatabaseObject) =>
  isOfSystem ? `set role ${SYSTEM};\n${text};\nreset role;` : `${text};`
const toCreate = (object: DatabaseObject) => asOwner(object.create, object)
const toDrop = (object: DatabaseObject) => asOwner(object.drop, object)
