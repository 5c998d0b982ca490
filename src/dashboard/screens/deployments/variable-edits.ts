// Edits of the variables of a deployment, in rows and as the text of a .env file (pure).
import { describeUnreadLines, parseEnvFile } from '../../../protocol/env-file.ts'
import { isReservedVariable } from '../../../protocol/reserved-variables.ts'
import type { Deployment } from '../../format/state.ts'

/** Without a value, the variable is removed. */
export type VariableEdit = { id: number; name: string; value: string | undefined; isNew: boolean }

/** The API shows this mask instead of a value, and keeps the stored value if it gets the mask. */
export const MASK = '********'

const isBlank = ({ name, value, isNew }: VariableEdit) => isNew && name === '' && !value
const isRemoval = ({ value }: VariableEdit) => value === undefined

/** The edits that have an effect. A variable that another person has removed needs no removal. */
export const listEffective = ({ secrets }: Pick<Deployment, 'secrets'>, edits: readonly VariableEdit[]) =>
  edits.filter(edit => !isBlank(edit) && (!isRemoval(edit) || secrets.some(({ name }) => name === edit.name)))

export const editOf = (edits: readonly VariableEdit[], name: string): VariableEdit | undefined =>
  edits.find(edit => !edit.isNew && edit.name === name)

let lastId = 0
export const newEdit = (name: string, value: string | undefined, isNew: boolean): VariableEdit => ({
  id: ++lastId,
  name,
  value,
  isNew,
})

export function withStoredEdit(edits: readonly VariableEdit[], name: string, value: string | undefined | null) {
  const others = edits.filter(edit => edit.isNew || edit.name !== name)
  const old = editOf(edits, name)
  if (value === null) return others
  return old ? edits.map(edit => (edit === old ? { ...edit, value } : edit)) : [...others, newEdit(name, value, false)]
}

export const readVariables = (text: string) => new Map(Object.entries(parseEnvFile(text)))

/** Adds and replaces variables. Those that the file does not name stay. */
export function withImported(
  { secrets }: Pick<Deployment, 'secrets'>,
  edits: readonly VariableEdit[],
  imported: ReadonlyMap<string, string>,
): VariableEdit[] {
  let next = edits.filter(edit => !isBlank(edit))
  for (const [name, value] of imported) {
    const added = next.find(edit => edit.isNew && edit.name === name)
    if (added) next = next.map(edit => (edit === added ? { ...edit, value } : edit))
    else if (secrets.some(secret => secret.name === name)) next = [...withStoredEdit(next, name, value)]
    else next = [...next, newEdit(name, value, true)]
  }
  return next
}

const MAX_VARIABLES = 500

/** The variables with those of a text, and how many these are, or the reason why nothing was read. */
type TakenText = { refusal: string } | { variables: VariableEdit[]; count: number; known: number; leftOut: string }

/** A file for a machine of one's own often has a PORT, which the platform sets: that is left out. */
export function takeText(
  deployment: Pick<Deployment, 'secrets'>,
  edits: readonly VariableEdit[],
  text: string,
  source: string,
): TakenText {
  const unread = describeUnreadLines(text)
  if (unread) return { refusal: `${source}: ${unread} Nothing was read.` }
  const all = readVariables(text)
  const reserved = [...all.keys()].filter(isReservedVariable)
  const imported = new Map([...all].filter(([name]) => !reserved.includes(name)))
  const leftOut = reserved.length > 0 ? ` ${reserved.join(', ')} is left out, because the platform sets it.` : ''
  const count = imported.size
  if (count === 0) return { refusal: `${source} has no variables to add.${leftOut} Nothing was read.` }
  if (count > MAX_VARIABLES) {
    const most = `A deployment can have ${MAX_VARIABLES}.`
    return { refusal: `${source} has ${count} variables. ${most} Nothing was read.` }
  }
  const known = deployment.secrets.filter(({ name }) => imported.has(name)).length
  return { variables: withImported(deployment, edits, imported), count, known, leftOut }
}

/** Compares a text with the variables that it was written from. A deleted line removes its variable. */
export function editsOfText(base: readonly string[], text: ReadonlyMap<string, string>): VariableEdit[] {
  const stored = base.flatMap(name => {
    if (!text.has(name)) return [newEdit(name, undefined, false)]
    const value = text.get(name)!
    return value === MASK ? [] : [newEdit(name, value, false)]
  })
  const added = [...text].filter(([name]) => !base.includes(name)).map(([name, value]) => newEdit(name, value, true))
  return [...stored, ...added]
}

/** All variables of the request: the mask keeps a stored value. */
export function listVariables(deployment: Pick<Deployment, 'secrets'>, edits: readonly VariableEdit[]) {
  const effective = listEffective(deployment, edits)
  const kept = deployment.secrets
    .filter(({ name }) => effective.every(edit => edit.name !== name))
    .map(({ name }) => ({ name, value: MASK }))
  const sent = effective.flatMap(({ name, value }) => (value === undefined ? [] : [{ name, value }]))
  return [...kept, ...sent]
}
