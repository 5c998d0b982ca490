// What each source needs and refuses, and whether it is built.
import type { Fault } from '../kernel/errors.ts'
import type { Source } from './parts.schema.ts'
import type { NewDeployment } from './schema.ts'

export type Mode = 'saas' | 'self_hosted'

const config = (...names: (keyof NewDeployment['source_config'])[]) => names.map(name => ['source_config', name])
const revision = (...names: (keyof NewDeployment['source_revision_config'])[]) =>
  names.map(name => ['source_revision_config', name])
const REFERENCES = [['secret_references']]

type Rules = { mode: Mode; builds: boolean; needs: string[][]; refuses: string[][] }
export const SOURCES: Record<Source, Rules> = {
  githost: {
    mode: 'saas',
    builds: true,
    needs: [...config('integration_id', 'repo_url', 'build_on_push'), ...revision('repo_ref', 'platform_config_path')],
    refuses: [
      ...config('listener_id', 'listener_config', 'custom_url'),
      ...revision('image_uri', 'source_tarball_path'),
      ...REFERENCES,
    ],
  },
  external_container: {
    mode: 'self_hosted',
    builds: false,
    needs: [...config('resource_spec'), ...revision('image_uri')],
    refuses: [...config('repo_url', 'build_on_push', 'build_command', 'deployment_type'), ...revision('repo_ref')],
  },
  internal_container: {
    mode: 'saas',
    builds: false,
    needs: [],
    refuses: [...config('repo_url', 'custom_url'), ...revision('repo_ref'), ...REFERENCES],
  },
  internal_source: {
    mode: 'saas',
    builds: true,
    needs: [],
    refuses: [...config('repo_url', 'custom_url'), ...revision('repo_ref', 'image_uri'), ...REFERENCES],
  },
  internal_template: {
    mode: 'saas',
    builds: false,
    needs: config('template_id'),
    refuses: [
      ...config('repo_url', 'custom_url'),
      ...revision('repo_ref', 'image_uri', 'source_tarball_path'),
      ...REFERENCES,
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

type Body = Pick<NewDeployment, 'source_config' | 'source_revision_config' | 'secret_references'>

const fault = (type: SourceFault['type'], path: string[], msg: string): SourceFault => ({
  type,
  loc: ['body', ...path],
  msg,
})
/** An empty list of references asks for nothing; clients send it to every source. */
const supplies = (body: Body, path: string[]): boolean => {
  const value = path.reduce<unknown>((at, name) => (at as Record<string, unknown> | null | undefined)?.[name], body)
  return value != null && !(Array.isArray(value) && value.length === 0)
}

/** Every rule that a new deployment breaks, at once; whether its listener is there, the database says. */
export function sourceFaults(body: Body & { source: Source }, { mode }: { mode: Mode }): SourceFault[] {
  const { source } = body
  const rules = SOURCES[source]
  return [
    ...modeFaults(source, mode),
    ...rules.needs
      .filter(path => !supplies(body, path))
      .map(path => fault('source_member_needed', path, `is required for source \`${source}\``)),
    ...refusedMembers(source, body),
    ...pushFaults(body),
  ]
}

export function modeFaults(source: Source, mode: Mode, member = 'source'): SourceFault[] {
  const at = SOURCES[source].mode
  const elsewhere = at === 'saas' ? 'with SLIPWAY_MODE=saas' : 'with SLIPWAY_MODE=self_hosted'
  return at === mode ? [] : [fault('source_mode', [member], `\`${source}\` is available ${elsewhere} only`)]
}

/** Members that mean nothing to the source. A patch may only say of them what is there. */
export const refusedMembers = (source: Source, body: Body): SourceFault[] =>
  SOURCES[source].refuses
    .filter(path => supplies(body, path))
    .map(path => fault('source_member_refused', path, `is not allowed for source \`${source}\``))

/** A tag does not move by pushes. A patch is held to this too, with what it comes to. */
export const pushFaults = ({ source_config, source_revision_config }: Body): SourceFault[] =>
  source_config.build_on_push && source_revision_config.repo_ref?.startsWith('refs/tags/')
    ? [fault('build_on_push_of_tag', ['source_config', 'build_on_push'], 'needs a branch: `repo_ref` is a tag')]
    : []
