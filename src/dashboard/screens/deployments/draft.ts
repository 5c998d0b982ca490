// A draft of changes to a deployment: settings and variables that are edited, and the patch that they make (pure).
import type { CallOptions } from '../../../client/client.ts'
import { parseEnvFile } from '../../../client/env-file.ts'
import type { Deployment } from '../../format/state.ts'
import { fieldAt, parseValue, readValue, SPEC } from './setting-fields.ts'

/** Without a value, the variable is removed. */
export type VariableEdit = { id: number; name: string; value: string | undefined; isNew: boolean }
export type Draft = {
  /** Texts of the fields, by the path of the member. */
  settings: ReadonlyMap<string, string>
  variables: readonly VariableEdit[]
}

/** The API shows this mask instead of a value, and keeps the stored value if it gets the mask. */
export const MASK = '********'

type PatchOptions = CallOptions<'PATCH /v2/deployments/{deployment_id}'>
type Patch = Pick<PatchOptions, 'query'> & { body: NonNullable<PatchOptions['body']> }
type Clearable = NonNullable<NonNullable<PatchOptions['query']>['clear']>[number]

// ---- settings

export function withSetting(draft: Draft, deployment: Deployment, path: string, text: string): Draft {
  const settings = new Map(draft.settings)
  if (readValue(deployment, path) === text) settings.delete(path)
  else settings.set(path, text)
  return { ...draft, settings }
}

export const settingOf = (draft: Draft, deployment: Deployment, path: string): string =>
  draft.settings.get(path) ?? readValue(deployment, path)

const CLEARABLE = ['custom_url', 'root_directory', 'install_command', 'build_command']

function patchSettings({ settings }: Draft): { members: object; clear: Clearable[] } {
  const members: Record<string, unknown> = {}
  const clear: Clearable[] = []
  const put = (parent: string, name: string, value: unknown) => {
    members[parent] = { ...(members[parent] as object | undefined), [name]: value }
  }
  const spec: Record<string, unknown> = {}
  for (const [path, text] of settings) {
    const value = parseValue(fieldAt(path), text)
    const name = path.slice(path.lastIndexOf('.') + 1)
    if (path.startsWith(`${SPEC}.`)) {
      if (value === undefined) clear.push(`resource_spec.${name}` as Clearable)
      else spec[name] = value
    } else if (!path.includes('.')) {
      members[path] = value ?? []
    } else if (value === undefined && CLEARABLE.includes(name)) {
      clear.push(name as Clearable)
    } else {
      put(path.split('.')[0]!, name, value ?? '')
    }
  }
  if (Object.keys(spec).length > 0) put('source_config', 'resource_spec', spec)
  return { members, clear }
}

// ---- variables

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

// ---- the patch

export function toPatch(deployment: Deployment, draft: Draft): Patch {
  const { members, clear } = patchSettings(draft)
  const hasVariables = listEffective(deployment, draft.variables).length > 0
  const secrets = listVariables(deployment, draft.variables)
  // An empty list would keep all.
  if (hasVariables && secrets.length === 0) clear.push('secrets')
  return {
    ...(clear.length > 0 && { query: { clear } }),
    body: { ...members, ...(hasVariables && secrets.length > 0 && { secrets }) },
  }
}

export const countEdits = (deployment: Deployment, draft: Draft): number =>
  draft.settings.size + listEffective(deployment, draft.variables).length
