// A draft of changes to a deployment: settings and variables that are edited, and the patch that they make (pure).
import type { CallOptions } from '../../../client/client.ts'
import type { Deployment } from '../../format/state.ts'
import { fieldAt, parseValue, readValue, SPEC } from './setting-fields.ts'
import { listEffective, listVariables, type VariableEdit } from './variable-edits.ts'

export type Draft = {
  /** Texts of the fields, by the path of the member. */
  settings: ReadonlyMap<string, string>
  variables: readonly VariableEdit[]
}

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
