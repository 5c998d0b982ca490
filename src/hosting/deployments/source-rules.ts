// The members that each source requires and those that it does not allow. Pure. patch.ts sends them to plan_patch().
import { type Fault, fail } from '../../kernel/http/errors.ts'
import type { Source } from '../../protocol/parts.schema.ts'
import type { NewDeployment } from './schema.ts'

export type Mode = 'saas' | 'self_hosted'

const configPaths = (...names: (keyof NewDeployment['source_config'])[]) => names.map(name => ['source_config', name])
const revisionConfigPaths = (...names: (keyof NewDeployment['source_revision_config'])[]) =>
  names.map(name => ['source_revision_config', name])
const REFERENCE_PATHS = [['secret_references']]

type SourceRules = { mode: Mode; needs: string[][]; refuses: string[][] }
export const SOURCE_RULES: Record<Source, SourceRules> = {
  githost: {
    mode: 'saas',
    needs: [...configPaths('integration_id', 'repo_url'), ...revisionConfigPaths('repo_ref')],
    refuses: [
      ...configPaths('listener_id', 'listener_config'),
      ...revisionConfigPaths('image_uri', 'source_tarball_path'),
      ...REFERENCE_PATHS,
    ],
  },
  external_container: {
    mode: 'self_hosted',
    needs: [...configPaths('resource_spec'), ...revisionConfigPaths('image_uri')],
    refuses: [
      ...configPaths('repo_url', 'build_on_push', 'watch_paths', 'root_directory', 'build_command', 'deployment_type'),
      ...revisionConfigPaths('repo_ref'),
    ],
  },
  internal_container: {
    mode: 'saas',
    needs: [],
    refuses: [
      ...configPaths('repo_url', 'watch_paths', 'root_directory'),
      ...revisionConfigPaths('repo_ref'),
      ...REFERENCE_PATHS,
    ],
  },
  internal_source: {
    mode: 'saas',
    needs: [],
    refuses: [
      ...configPaths('repo_url', 'watch_paths'),
      ...revisionConfigPaths('repo_ref', 'image_uri'),
      ...REFERENCE_PATHS,
    ],
  },
  internal_template: {
    mode: 'saas',
    needs: configPaths('template_id'),
    refuses: [
      ...configPaths('repo_url', 'watch_paths'),
      ...revisionConfigPaths('repo_ref', 'image_uri', 'source_tarball_path'),
      ...REFERENCE_PATHS,
    ],
  },
}

const sourceFaultTypes = [
  'source_mode',
  'source_member_needed',
  'source_member_refused',
  'build_on_push_of_tag',
] as const
export type SourceFault = Fault & { type: (typeof sourceFaultTypes)[number] }

export const sourceRuleError = (faults: Fault[]) =>
  fail('source_rule', {
    about: faults.map(({ loc, msg }) => `${loc.slice(1).join('.')} ${msg}`).join('; '),
    errors: faults,
  })

type SourceMembers = Pick<NewDeployment, 'source_config' | 'source_revision_config' | 'secret_references'>

const createFault = (type: SourceFault['type'], path: string[], msg: string): SourceFault => ({
  type,
  loc: ['body', ...path],
  msg,
})
/** An empty list counts as absent: clients send one for every source. */
const hasMember = (body: SourceMembers, path: string[]): boolean => {
  const value = path.reduce<unknown>((at, name) => (at as Record<string, unknown> | null | undefined)?.[name], body)
  return value != null && !(Array.isArray(value) && value.length === 0)
}

/** Every fault of a new deployment, at once. The database checks the listener. */
export function findSourceFaults(body: SourceMembers & { source: Source }, { mode }: { mode: Mode }): SourceFault[] {
  const { source } = body
  const rules = SOURCE_RULES[source]
  return [
    ...findModeFaults(source, mode),
    ...rules.needs
      .filter(path => !hasMember(body, path))
      .map(path => createFault('source_member_needed', path, `is required for source \`${source}\``)),
    ...findRefusedMembers(source, body),
    ...findPushFaults(body),
  ]
}

export function findModeFaults(source: Source, mode: Mode, member = 'source'): SourceFault[] {
  const required = SOURCE_RULES[source].mode
  const message = `\`${source}\` is only available with SLIPWAY_MODE=${required}`
  return required === mode ? [] : [createFault('source_mode', [member], message)]
}

/** A patch may send such a member only with its stored value. */
export const findRefusedMembers = (source: Source, body: SourceMembers): SourceFault[] =>
  SOURCE_RULES[source].refuses
    .filter(path => hasMember(body, path))
    .map(path => createFault('source_member_refused', path, `is not allowed for source \`${source}\``))

/** A push does not move a tag. require_branch_to_build_on_push() refuses the same of what a patch results in. */
export const findPushFaults = ({ source_config, source_revision_config }: SourceMembers): SourceFault[] =>
  source_config.build_on_push && source_revision_config.repo_ref?.startsWith('refs/tags/')
    ? [
        createFault(
          'build_on_push_of_tag',
          ['source_config', 'build_on_push'],
          'is not allowed: `repo_ref` is a tag, not a branch',
        ),
      ]
    : []
