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
  const wanted = new Map(after.filter(isWritten).map(object => [keyOf(object), object]))
  const added = [...wanted.values()].filter(object => !stored.has(keyOf(object)))
  const changed = [...wanted.values()].flatMap(after => {
    const before = stored.get(keyOf(after))
    return before && before.create !== after.create ? [{ before, after }] : []
  })
  const moved = [...wanted.values()].filter(after => {
    const before = stored.get(keyOf(after))
    return after.kind === 'function' && before && before.isOfSystem !== after.isOfSystem
  })
  const removed = [...stored.values()].filter(object => !wanted.has(keyOf(object)))
  const type = changed.find(({ after }) => after.kind === 'type')?.after
  if (type) throw new Error(`The previous release uses the type ${type.name}. Give the changed one another name.`)

  const removedFunctions = new Set(removed.filter(isCalled).map(({ name }) => `on function ${name}`))
  const replaced = changed.filter(({ after }) => after.kind !== 'function').map(({ before }) => before)
  const statements = [
    ...removed.filter(object => !isCalled(object) && !removedFunctions.has(object.name)).map(toDrop),
    ...replaced.map(toDrop),
    ...moved.map(({ name, isOfSystem }) => `alter function ${name} owner to ${isOfSystem ? SYSTEM : 'session_user'};`),
    ...[...wanted.values()]
      .filter(one => added.includes(one) || changed.some(({ after }) => after === one))
      .map(toCreate),
    ...removed.filter(isCalled).toReversed().map(toDrop),
  ]
  return statements.length === 0
    ? ''
    : withFunctions(statements)
        .join('\n')
        .replace(/^set (?=role|check)/gm, 'set local ')
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
