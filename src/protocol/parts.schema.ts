// Schemas of the parts of deployments and revisions: sources, statuses, the two configurations, secrets.
import * as z from 'zod'
import { CustomUrl } from './custom-url.schema.ts'
import {
  DnsLabel,
  DnsSubdomain,
  HOST_PATTERN,
  ImageReference,
  nullishMembers,
  omitNulls,
  SecretKey,
  textMatching,
} from './kubernetes.schema.ts'
import { isReservedVariable } from './reserved-variables.ts'
import { DeploymentType, RESOURCE_MEMBERS, type ResourceMember, ResourceSpec } from './resources.schema.ts'
import { isSshUrl, SSH_URL_PATTERN } from './ssh-url.ts'
import { arrayOf, Uuid } from './wire.ts'

export const sources = [
  'githost',
  'external_container',
  'internal_container',
  'internal_source',
  'internal_template',
] as const
export const Source = z.enum(sources)
export type Source = z.output<typeof Source>
export const revisionSources = ['githost', 'internal_container', 'internal_source'] as const satisfies Source[]

export const deploymentStatuses = ['AWAITING_DATABASE', 'READY', 'UNUSED', 'AWAITING_DELETE', 'UNKNOWN'] as const
export const DeploymentStatus = z.enum(deploymentStatuses)
export type DeploymentStatus = z.output<typeof DeploymentStatus>

export const revisionStatuses = [
  'CREATING',
  'QUEUED',
  'AWAITING_BUILD',
  'BUILDING',
  'AWAITING_DEPLOY',
  'DEPLOYING',
  'DEPLOYED',
  'CREATE_FAILED',
  'BUILD_FAILED',
  'DEPLOY_FAILED',
  'SKIPPED',
  'INTERRUPTED',
  'UNKNOWN',
] as const
export const RevisionStatus = z.enum(revisionStatuses)
export type RevisionStatus = z.output<typeof RevisionStatus>

// ---- formats of members

/** HOST_PATTERN does not match credentials. */
const REPO_URL_ERROR =
  'must be the http(s) URL of a repository, without credentials, query or fragment, or its URL by SSH'
const RepoUrl = textMatching(2048, `(https?://${HOST_PATTERN}/[!"$->@-~]+|${SSH_URL_PATTERN})`, REPO_URL_ERROR).refine(
  url => /^https?:/.test(url) || isSshUrl(url),
  { error: REPO_URL_ERROR },
)
/** Approximates git's own check. A ref must never look like a command line option. */
const GitRef = textMatching(
  255,
  '(?![-/.])(?!.*(\\.\\.|@\\{|//))[^\\x00-\\x20\\x7f~^:?*[\\\\]+(?<![/.])',
  'must be a git ref',
).meta({ description: 'A branch, a tag or a commit.' })
const RelativePath = textMatching(
  1024,
  '(?!/)(?!(.*/)?\\.\\.(/|$))[^\\\\\\x00-\\x1f]+',
  'must be a path inside the source, without `..`',
)
const Command = textMatching(
  1024,
  '([^\'"`\\\\\\r\\n\\x00\\t|;$<>&]|&&)+',
  'must not contain quotes, backslashes, backticks, line breaks, tabs, |, ;, $, <, > or a single &',
)

export const VariableName = textMatching(
  253,
  '[A-Za-z_][A-Za-z0-9_]*',
  'must be letters, digits or underscores, and must not start with a digit',
).superRefine((name, check) => {
  if (!isReservedVariable(name)) return
  check.addIssue({ code: 'custom', message: `\`${name}\` is set by the platform. Remove it, or choose another name.` })
})

// ---- secrets

/** Replaces every value in an answer. Sent for a known name, it keeps the stored value. */
export const MASK = '********'

export const Secret = z
  .object({ name: VariableName, value: z.string().meta({ description: `Always \`${MASK}\` in an answer.` }) })
  .meta({ id: 'Secret', description: 'An environment variable whose value is stored sealed.' })

export const SecretReference = z
  .object({ name: VariableName, secret_name: DnsSubdomain, secret_key: SecretKey })
  .meta({ id: 'SecretReference', description: 'An environment variable that takes its value from a cluster secret.' })

// ---- the two configurations

const MAX_WATCH_PATHS = 50
const WatchPath = textMatching(255, '[^\\x00-\\x1f\\x7f]+', 'must be a glob of paths')
const sourceConfig = {
  integration_id: Uuid.meta({ description: 'The git host integration.' }),
  repo_url: RepoUrl,
  build_on_push: z.boolean().meta({ description: 'Whether a push to `repo_ref` creates a revision.' }),
  watch_paths: arrayOf(WatchPath, MAX_WATCH_PATHS).meta({
    description:
      'Globs of paths in the repository, such as `apps/web/**`; `!` excludes. A push that changes none of them ' +
      'creates no revision. None: every push does.',
  }),
  custom_url: CustomUrl.meta({
    description:
      'An additional URL to serve the deployment at. A host belongs to one workspace. ' +
      'On a listener of the platform it is served once a DNS record proves the owner.',
  }),
  resource_spec: ResourceSpec,
  listener_id: Uuid.meta({ description: 'The data plane that runs it.' }),
  listener_config: z.object(nullishMembers({ k8s_namespace: DnsLabel })).overwrite(omitNulls),
  root_directory: RelativePath.meta({
    description:
      'The folder of the application in the source, where it is built and started. Default: that of the runtime ' +
      'configuration, or the source itself. Takes effect with the next revision.',
  }),
  install_command: Command,
  build_command: Command,
  deployment_type: DeploymentType.meta({ description: 'Default `dev`. Always `prod` for `external_container`.' }),
  template_id: z.string().min(1).max(128).meta({ description: 'The template, for `internal_template`.' }),
  tracing: z.boolean().meta({
    description: 'Whether the application gets variables by which it traces itself into its project. Default true.',
  }),
}
const { repo_commit_sha, ...sourceRevisionConfig } = {
  repo_ref: GitRef,
  platform_config_path: RelativePath.meta({ description: 'The path of the runtime configuration.' }),
  image_uri: ImageReference,
  source_tarball_path: z.string().min(1).max(1024).meta({ description: 'The `object_path` of an upload.' }),
  repo_commit_sha: z.string(),
}

/** An answer always has every member. */
const nullableMembers = <Shape extends Record<string, z.ZodType>>(shape: Shape) =>
  z.object(Object.fromEntries(Object.entries(shape).map(([name, member]) => [name, member.nullable()]))) as z.ZodObject<
    { [K in keyof Shape]: z.ZodNullable<Shape[K]> },
    z.core.$strip
  >

export const SourceConfig = nullableMembers({
  ...sourceConfig,
  listener_config: nullableMembers({ k8s_namespace: DnsLabel }),
}).meta({ id: 'SourceConfig', description: 'Members that need no new revision, or cannot change.' })

export const SourceRevisionConfig = nullableMembers({ ...sourceRevisionConfig, repo_commit_sha }).meta({
  id: 'SourceRevisionConfig',
  description: 'Members that a revision is made from.',
})

export const SourceConfigInput = z.object(nullishMembers(sourceConfig)).overwrite(omitNulls).meta({
  id: 'SourceConfigInput',
  description: 'Members that need no new revision, or cannot change. The source decides which are required.',
})
export const SourceRevisionConfigInput = z.object(nullishMembers(sourceRevisionConfig)).overwrite(omitNulls).meta({
  id: 'SourceRevisionConfigInput',
  description: 'Members that create a new revision. The source decides which are required.',
})

/** Members that the query can clear. Null in the body means absent. Settings are members of `source_config`. */
const CLEARABLE_SETTINGS = [
  'custom_url',
  'root_directory',
  'install_command',
  'build_command',
  'resource_spec',
] as const
const clearableResource = (name: ResourceMember) => `resource_spec.${name}` as const
const CLEARABLE_WHOLES = [...CLEARABLE_SETTINGS, 'secrets'] as const
export type ClearableMember = (typeof CLEARABLE_WHOLES)[number] | ReturnType<typeof clearableResource>
export const CLEARABLE_MEMBERS: readonly ClearableMember[] = [
  ...CLEARABLE_WHOLES,
  ...RESOURCE_MEMBERS.map(clearableResource),
]

export const HealthState = z.enum(['healthy', 'degraded', 'crash_looping', 'unhealthy', 'sleeping']).meta({
  description:
    '`degraded`: fewer copies than wanted answer. `crash_looping`: its copies keep ending. ' +
    '`unhealthy`: no copy answers. `sleeping`: no copy runs, because no request came, and the next one starts one.',
})
export type HealthState = z.output<typeof HealthState>
