// The draft of a new deployment, as a request and as a command (pure).
import { toName } from '../../../client/archive-rules.ts'
import type { CallOptions } from '../../../client/client.ts'
import type { Faults } from '../../api/faults.ts'
import { word } from '../../format/shell-word.ts'
import { listEffective, listVariables as listSent, takeText, type VariableEdit } from '../deployments/variable-edits.ts'

export const WAYS = ['template', 'repository', 'image', 'folder'] as const
export type Way = (typeof WAYS)[number]
export type NewDeployment = CallOptions<'POST /v2/deployments'>['body']

/** The part of the draft that is in the address. */
export type Choice = {
  template: string
  integration: string
  repository: string
  branch: string
  image: string
  /** `platform` for none of the workspace. */
  listener: string
}
export type Draft = Choice & {
  way: Way
  name: string
  namespace: string
  /** The path of the runtime configuration in a repository. */
  configuration: string
  /** The folder of the application in a repository or a folder. */
  root: string
  deploysPushes: boolean
  variables: readonly VariableEdit[]
  installCommand: string
  buildCommand: string
}

export const PLATFORM = 'platform'
/** Sources that are built run these commands. */
export const isBuilt = (way: Way): boolean => way === 'repository' || way === 'folder'

export const isChosen = ({ way, template, repository, image }: Choice & { way: Way }, hasFiles: boolean): boolean =>
  ({ template: template !== '', repository: repository !== '', image: image !== '', folder: hasFiles })[way]

/** An application of several is named after its own folder. */
export function suggestName(
  { way, template, repository, image, root }: Choice & Pick<Draft, 'way' | 'root'>,
  folder: string,
): string {
  const last = (path: string) => path.split('/').at(-1)!
  const text = {
    template,
    repository: last(repository).replace(/\.git$/, ''),
    image: last(image.split('@')[0]!).split(':')[0]!,
    folder: last(root.trim().replace(/\/$/, '')) || folder,
  }[way]
  return text ? toName(text) : ''
}

/** Nothing is stored yet. */
const NEW = { secrets: [] }

export const listVariables = (variables: readonly VariableEdit[]) => listSent(NEW, variables)

/** Adds the variables of a text, and tells what it has added, or why nothing. */
export function addVariables(variables: readonly VariableEdit[], text: string, source: string) {
  const taken = takeText(NEW, variables, text, source)
  if ('refusal' in taken) return { variables, notice: { tone: 'bad' as const, text: taken.refusal } }
  const { count, leftOut } = taken
  const outcome = `${source}: ${count === 1 ? '1 variable' : `${count} variables`}.${leftOut}`
  return { variables: taken.variables, notice: { tone: 'ok' as const, text: outcome } }
}

/** The faults of variables by their id: a request has them by number. */
export function faultsOfVariables(faults: Faults, variables: readonly VariableEdit[]) {
  const sent = listEffective(NEW, variables)
  const found = new Map<number, { name?: string; value?: string }>()
  for (const [path, text] of faults) {
    const [member, index, part] = path.split('.')
    const variable = member === 'secrets' ? sent[Number(index)] : undefined
    if (variable) found.set(variable.id, { ...found.get(variable.id), [part === 'value' ? 'value' : 'name']: text })
  }
  return found
}

/** `isSelfHosted`: this installation runs images of others only, as one of their listeners. */
export function toRequest(draft: Draft, isSelfHosted: boolean): NewDeployment {
  const { way, name, listener, namespace, configuration } = draft
  const hasListener = listener !== '' && listener !== PLATFORM && way !== 'repository'
  const place = {
    ...(hasListener && { listener_id: listener }),
    ...(hasListener && namespace && { listener_config: { k8s_namespace: namespace } }),
  }
  const built = {
    ...(draft.root.trim() && { root_directory: draft.root.trim() }),
    ...(draft.installCommand.trim() && { install_command: draft.installCommand.trim() }),
    ...(draft.buildCommand.trim() && { build_command: draft.buildCommand.trim() }),
  }
  const common = { name, secrets: listVariables(draft.variables) }
  const source_config = { ...place, ...(isBuilt(way) && built) }
  const configured = configuration.trim() ? { platform_config_path: configuration.trim() } : {}
  if (way === 'template')
    return {
      ...common,
      source: 'internal_template',
      source_config: { ...source_config, template_id: draft.template },
      source_revision_config: {},
    }
  if (way === 'image')
    return {
      ...common,
      source: isSelfHosted ? 'external_container' : 'internal_container',
      source_config: { ...source_config, ...(isSelfHosted && { resource_spec: {} }) },
      source_revision_config: { image_uri: draft.image.trim() },
    }
  if (way === 'folder') return { ...common, source: 'internal_source', source_config, source_revision_config: {} }
  const { integration, repository, branch, deploysPushes } = draft
  return {
    ...common,
    source: 'githost',
    source_config: {
      ...source_config,
      integration_id: integration,
      repo_url: repository,
      build_on_push: deploysPushes,
    },
    source_revision_config: { repo_ref: branch.trim(), ...configured },
  }
}

/** A request that can be shown and copied. */
export const withoutValues = (body: NewDeployment): NewDeployment => ({
  ...body,
  secrets: body.secrets.map(({ name }) => ({ name, value: `VALUE OF ${name}` })),
})

export function toCommand(draft: Draft): string {
  const { way, name, template, repository, branch, image, variables, root } = draft
  const source = {
    template: `--template ${word(template)}`,
    repository: `--repo ${word(repository)}${branch ? ` --branch ${word(branch)}` : ''}`,
    image: `--image ${word(image.trim())}`,
    folder: '.',
  }[way]
  const folder = isBuilt(way) && root.trim() ? ` --root ${word(root.trim())}` : ''
  const environment = listVariables(variables)
    .map(({ name }) => ` --env ${word(name)}`)
    .join('')
  return `slipway deploy ${source}${folder} --name ${word(name)}${environment} --create`
}

const FIELDS_OF_CODES: Record<string, string> = {
  deployment_name_taken: 'name',
  project_name_taken: 'name',
  template_unknown: 'source_config.template_id',
  integration_unknown: 'source_config.integration_id',
  integration_suspended: 'source_config.integration_id',
  integration_revoked: 'source_config.integration_id',
}
/** Finds the field of a refusal without faults. */
export function fieldOf(code: string, message: string): string | undefined {
  if (code === 'source_rule') return /source(?:_revision)?_config(?:\.\w+){1,2}/.exec(message)?.[0]
  return FIELDS_OF_CODES[code]
}
