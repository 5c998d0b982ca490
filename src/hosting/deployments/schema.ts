// Schemas of deployments and their revisions.
import * as z from 'zod'
import { BuildPlan } from '../../protocol/build-plan.schema.ts'
import { checkUniqueNames, isObject, textMatching } from '../../protocol/kubernetes.schema.ts'
import {
  CLEARABLE_MEMBERS,
  DeploymentStatus,
  HealthState,
  MASK,
  RevisionStatus,
  revisionSources,
  Secret,
  SecretReference,
  Source,
  SourceConfig,
  SourceConfigInput,
  SourceRevisionConfig,
  SourceRevisionConfigInput,
  VariableName,
} from '../../protocol/parts.schema.ts'
import { NewProtection, Protection } from '../../protocol/protection.schema.ts'
import { RequestLogs } from '../../protocol/request-logs.schema.ts'
import { DeploymentType } from '../../protocol/resources.schema.ts'
import { RevisionRollout, Rollout, RolloutProgress } from '../../protocol/rollout.schema.ts'
import { TrafficSettings, TrafficShare } from '../../protocol/traffic.schema.ts'
import {
  arrayOf,
  boundedText,
  commaSeparated,
  emptyAsAbsent,
  exactName,
  listOf,
  Owner,
  optionalFilter,
  ownedBy,
  Page,
  parseBoolean,
  SecretFingerprints,
  Uuid,
} from '../../protocol/wire.ts'
import { Hold, Serving } from './revisions.schema.ts'
import { DeploymentState, DeploymentSummary, Include, RevisionActor } from './summary.schema.ts'

const Time = z.string().meta({ format: 'date-time' })
const TimeMembers = { created_at: Time, updated_at: Time }

// ---- deployments

const MAX_SECRETS = 500
const DeploymentName = textMatching(
  63,
  // Addresses of branches and commits have two hyphens before the name.
  '[a-z0-9]+(-[a-z0-9]+)*',
  'must be 1 to 63 lower-case letters, digits and single hyphens, without a hyphen at either end',
)

export const DeploymentHealth = z.enum([...HealthState.options, 'nothing_serves'])
export type DeploymentHealth = z.output<typeof DeploymentHealth>
const Health = z
  .object({
    state: DeploymentHealth,
    since: Time,
    reason: z.string().nullable().meta({ description: 'Why it is not healthy, and what to do.' }),
    processes: z
      .array(
        z.object({
          name: z.string(),
          state: HealthState,
          reason: z.string().nullable(),
          copies: z
            .object({ wanted: z.int(), running: z.int() })
            .optional()
            .meta({ description: 'Of a process whose number of copies moves by itself.' }),
        }),
      )
      .meta({
        description:
          'The health of each process type. Empty: there is only `web`, whose copies do not move, or it is not known.',
      }),
  })
  .meta({
    id: 'Health',
    description:
      'What is true of the copies, beside the `status`. `nothing_serves`: no revision has been deployed yet. ' +
      `${HealthState.meta()!.description} Null while its listener is silent, or before its agent reported.`,
  })

export const DeploymentRef = z.object({ deployment_id: Uuid })

const checkUniqueVariables = (body: { secrets?: unknown; secret_references?: unknown }, check: z.RefinementCtx) => {
  const names = new Set()
  checkUniqueNames(check, 'secrets', body.secrets, names)
  checkUniqueNames(check, 'secret_references', body.secret_references, names)
}
/** Runs even when single members are invalid: an answer lists every fault at once. */
const alwaysCheck = { when: ({ value }: { value: unknown }) => isObject(value) }

export const NewDeployment = z
  .object({
    name: DeploymentName.meta({ description: 'Also the name of its tracing project. Cannot be changed.' }),
    source: Source,
    integration_id: Uuid.nullish().meta({ description: 'The same as `source_config.integration_id`.' }),
    source_config: SourceConfigInput,
    source_revision_config: SourceRevisionConfigInput,
    secrets: arrayOf(Secret, MAX_SECRETS),
    secret_references: arrayOf(SecretReference, MAX_SECRETS)
      .nullish()
      .meta({ description: 'Only for `external_container`.' }),
    owner: Owner.nullish(),
    protection: NewProtection.nullish().meta({ description: 'Everyone may see it by default.' }),
  })
  .superRefine(checkUniqueVariables, alwaysCheck)
  .superRefine(({ integration_id, source_config }, check) => {
    const inConfig = (source_config as { integration_id?: unknown } | null | undefined)?.integration_id
    if (integration_id == null || inConfig == null || integration_id === inConfig) return
    check.addIssue({ code: 'custom', path: ['integration_id'], message: 'differs from `source_config.integration_id`' })
  }, alwaysCheck)
  .overwrite(({ integration_id, source_config, ...body }) => ({
    ...body,
    source_config: {
      ...(body.source === 'githost' && { build_on_push: false }),
      ...(integration_id != null && { integration_id }),
      ...source_config,
    },
  }))
  .meta({
    id: 'NewDeployment',
    description: 'A new deployment, with the members that its source requires.',
    example: {
      name: 'my-service',
      source: 'internal_template',
      source_config: { template_id: 'web-service', resource_spec: { cpu: 1, memory_mb: 512 } },
      source_revision_config: {},
      secrets: [{ name: 'TOKEN', value: 'hush' }],
    },
  })
export type NewDeployment = z.output<typeof NewDeployment>

export const DeploymentPatch = z
  .object({
    name: boundedText(255).nullish().meta({ description: 'Cannot be changed: only the stored name is accepted.' }),
    source: Source.nullish().meta({ description: 'Cannot be changed: only the stored source is accepted.' }),
    revision_source: z
      .enum(revisionSources)
      .nullish()
      .meta({ description: 'The source of this revision instead of `source`.' }),
    source_config: SourceConfigInput.nullish(),
    source_revision_config: SourceRevisionConfigInput.nullish(),
    secrets: arrayOf(Secret, MAX_SECRETS)
      .nullish()
      .meta({
        description: `Replaces all. \`${MASK}\` keeps one value, \`[]\` keeps all; \`?clear=secrets\` removes all.`,
      }),
    secret_references: arrayOf(SecretReference, MAX_SECRETS)
      .nullish()
      .meta({ description: 'Only for `external_container`. `[]` removes all.' }),
  })
  .superRefine(checkUniqueVariables, alwaysCheck)
  .meta({
    id: 'DeploymentPatch',
    description: 'Members that are absent or null stay as they are.',
    example: { source_config: { resource_spec: { min_scale: 2 } } },
  })
export type DeploymentPatch = z.output<typeof DeploymentPatch>

export const Preview = z
  .object({
    kind: z.enum(['pull_request', 'branch', 'request']),
    number: z.int().nullable().meta({ description: 'The number of the pull request.' }),
    branch: z.string(),
    head_sha: z.string().nullable(),
    expires_at: Time.meta({ description: 'When the preview is deleted, unless it is pushed to before.' }),
    database_copy: z
      .object({
        from_deployment_id: Uuid,
        from_name: z.string().meta({ description: 'The name of that deployment when the preview was made.' }),
        copied_at: Time.nullable().meta({ description: 'Null until the copy is complete. Nothing starts before.' }),
      })
      .nullable()
      .meta({ description: 'The database of which its own is a copy. Null if it is none.' }),
  })
  .meta({ id: 'Preview', description: 'The pull request, branch or request of a preview.' })

export const Deployment = z
  .object({
    id: Uuid,
    tenant_id: Uuid.meta({ description: 'The workspace.' }),
    name: z.string(),
    source: Source,
    source_config: SourceConfig,
    source_revision_config: SourceRevisionConfig.meta({ description: 'The configuration of the latest revision.' }),
    secrets: z.array(Secret),
    secret_fingerprints: SecretFingerprints,
    secret_references: z.array(SecretReference).nullable(),
    status: DeploymentStatus,
    serving: Serving,
    health: Health.nullable(),
    image_version: z.string().nullable().meta({
      description:
        'The tag of the image, or the version of the application that the agent found when it built the revision.',
    }),
    hold: Hold.nullable(),
    latest_revision_id: Uuid.nullable(),
    active_revision_id: Uuid.nullable().meta({ description: 'The revision that serves.' }),
    parent_deployment_id: Uuid.nullable().meta({ description: 'The deployment that this is a preview of.' }),
    preview: Preview.nullable(),
    url: z.string().nullable().meta({ description: 'The URL that its listener reported; null before that.' }),
    local_url: z.string().nullable().meta({
      description: 'The same on the machine of the agent, by an address that needs no name. Null elsewhere.',
    }),
    application_key: z
      .string()
      .optional()
      .meta({
        description:
          'The key by which clients call it, with `reveal=true` and none or this one in `reveal_only`, if it serves ' +
          'graphs and is not open to everyone.',
      }),
    owner: Owner.nullable(),
    protection: Protection,
    request_logs: RequestLogs,
    traffic: z.array(TrafficShare).meta({
      description: 'The shares of the revision that serves and of the one beside it. Empty while none serves.',
    }),
    traffic_settings: TrafficSettings,
    rollout: Rollout.nullable().meta({ description: 'Null: later revisions take all traffic once they are healthy.' }),
    rollout_progress: RolloutProgress.nullable().meta({
      description: 'Null: no revision gets its traffic by steps now.',
    }),
    ...TimeMembers,
    summary: DeploymentSummary.optional(),
  })
  .meta({ id: 'Deployment', description: 'A hosted application.' })
export type Deployment = z.output<typeof Deployment>
export const DeploymentList = listOf(Deployment).meta({
  id: 'DeploymentList',
  description: 'A page of deployments, newest first.',
})

export const DeploymentOwner = z
  .object({ owner: Owner.nullable() })
  .meta({ id: 'DeploymentOwner', description: 'The owner of a deployment, or null.', example: { owner: 'shop/infra' } })

const MAX_IDS = 100
export const DeletionQuery = z.object({
  delete_tracing_project: z.preprocess(parseBoolean, z.boolean().default(true)).meta({
    description: 'Whether its traces are deleted, too. Otherwise its tracing project stays, and keeps the name taken.',
  }),
})
/** The ids are required, unlike in the filter of the same name. */
export const DeploymentIds = z
  .object({
    ...DeletionQuery.shape,
    deployment_ids: commaSeparated(Uuid, MAX_IDS).meta({
      type: 'string',
      description: `Ids separated by commas, at most ${MAX_IDS}.`,
    }),
  })
  .meta({ example: { deployment_ids: '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11' } })
export const Deletions = z
  .object({ results: z.array(z.object({ id: Uuid, status: z.int(), code: z.string().nullable() })) })
  .meta({ id: 'Deletions', description: 'The result for each id, in the order of the request.' })

// ---- plans

const Effect = z.enum(['in_place', 'revision', 'immutable'])
export const Plan = z
  .object({
    creates_revision: z.boolean(),
    reasons: z.array(z.string()).meta({ description: 'The changed members that require a revision.' }),
    changes: z.array(z.object({ path: z.string(), before: z.unknown(), after: z.unknown(), effect: Effect })),
    secrets: z
      .array(z.object({ name: z.string(), change: z.enum(['added', 'changed', 'removed']) }))
      .meta({ description: 'The secrets that change. One that is sent with its stored value does not.' }),
    warnings: z.array(z.string()),
    build_plan: BuildPlan.optional().meta({
      description: 'How the uploaded archive will be built and started, for a plan that brings one.',
    }),
    runs_images: z
      .boolean()
      .nullable()
      .optional()
      .meta({
        description:
          'Whether an agent that could serve the deployment runs images, also those that it builds by a ' +
          '`Dockerfile`. Null if none has said so, and one may. For creations and patches, but for templates.',
      }),
    plan_digest: z
      .string()
      .meta({ description: 'Send it as `Plan-Digest` with the same request to apply this plan and no other.' }),
  })
  .meta({ id: 'Plan', description: 'What a request would change. For secrets, only their names.' })
export type Plan = z.output<typeof Plan>

// ---- templates

export const Template = z
  .object({
    name: z.string().meta({ description: 'The `template_id` of a deployment.' }),
    description: z.string().nullable(),
    platform: z.boolean().meta({ description: 'Whether a deployment that names no listener can use it.' }),
    listener_ids: z.array(Uuid).meta({ description: 'The listeners of this workspace that offer it.' }),
  })
  .meta({ id: 'Template', description: 'An application to deploy with the source `internal_template`.' })
export const TemplateList = listOf(Template).meta({ id: 'TemplateList', description: 'A page of templates, by name.' })
export const TemplateQuery = Page.pick({ limit: true, offset: true })

// ---- queries

export const DryRun = z.object({
  dry_run: z
    .preprocess(parseBoolean, z.boolean().default(false))
    .meta({ description: 'Answer with the plan and change nothing.' }),
})
const MAX_REVEALED = 100
export const RevealQuery = z
  .object({
    ...Include.shape,
    reveal: z.preprocess(parseBoolean, z.boolean().default(false)).meta({
      description: 'Show the values of secrets. Also requires the permission `secrets:read`, and is journaled.',
    }),
    reveal_only: optionalFilter(commaSeparated(VariableName, MAX_REVEALED)).meta({
      type: 'string',
      description:
        'With `reveal=true`: the names of the secrets to show, separated by commas. Others stay masked. ' +
        '`GRAPHS_API_KEY` also shows the `application_key`.',
    }),
  })
  .refine(({ reveal, reveal_only }) => reveal || reveal_only === undefined, {
    path: ['reveal_only'],
    error: 'needs `reveal=true`',
  })
export const PatchQuery = z.object({
  ...DryRun.shape,
  clear: z
    .preprocess(emptyAsAbsent, commaSeparated(z.enum(CLEARABLE_MEMBERS), CLEARABLE_MEMBERS.length).default([]))
    .meta({
      type: 'string',
      default: '',
      description:
        'Members to clear, separated by commas: custom_url, root_directory, install_command, build_command, secrets, ' +
        'resource_spec, or one member of it, such as resource_spec.cpu.',
    }),
})

const idsFilter = (kind: string) =>
  optionalFilter(commaSeparated(Uuid, MAX_IDS)).meta({
    type: 'string',
    description: `Ids of ${kind}, separated by commas, at most ${MAX_IDS}.`,
  })
/** An unknown status matches nothing, and warnUnknownStatuses() names it: a later release may know it. */
const MAX_STATUSES = 20
const statusFilter = <Status extends z.ZodEnum>(status: Status) =>
  optionalFilter(commaSeparated(z.string(), MAX_STATUSES)).meta({
    type: 'string',
    description: `One or several, separated by commas: ${status.options.map(option => `\`${option}\``).join(', ')}.`,
  })
const booleanFilter = optionalFilter(z.preprocess(parseBoolean, z.boolean()))

const DeploymentFilters = z.object({
  name: exactName('name'),
  name_contains: optionalFilter(z.string()).meta({
    description: 'Part of the name. Case does not matter.',
  }),
  status: statusFilter(DeploymentStatus),
  health: statusFilter(DeploymentHealth),
  remote_reconciled: booleanFilter.meta({
    description: 'Whether the data plane has reached the current configuration.',
  }),
  tag_value_ids: idsFilter('tag values (values of one key are alternatives, different keys must all match)'),
  image_version: optionalFilter(z.string()).meta({ description: 'The exact image version.' }),
  deployment_type: optionalFilter(DeploymentType).meta({ description: 'The type it was created with.' }),
  deployment_ids: idsFilter('deployments'),
  source: optionalFilter(Source).meta({ description: 'The source it was created with.' }),
  listener_id: optionalFilter(Uuid).meta({ description: 'The listener that serves it.' }),
  owner: ownedBy,
})
export const CountQuery = DeploymentFilters
export type CountQuery = z.output<typeof CountQuery>
export const DeploymentQuery = z.object({
  ...Page.shape,
  ...DeploymentFilters.shape,
  state: optionalFilter(DeploymentState),
  ...Include.shape,
})
export type DeploymentQuery = z.output<typeof DeploymentQuery>

// ---- revisions

export const RevisionRef = z.object({ deployment_id: Uuid, revision_id: Uuid })

const RevisionState = z
  .object({
    status: RevisionStatus,
    since: Time,
    seconds: z.number().nullable().meta({ description: 'How long it lasted. Null for the current state.' }),
  })
  .meta({ id: 'RevisionState' })

export const Revision = z
  .object({
    id: Uuid,
    deployment_id: Uuid,
    number: z.int().meta({ description: 'Counts up from 1 within the deployment.' }),
    source: Source,
    source_config: SourceConfig.meta({ description: 'The configuration of the deployment when it was created.' }),
    source_revision_config: SourceRevisionConfig,
    secrets: z
      .array(z.object({ name: z.string(), version: z.int() }))
      .meta({ description: 'The secrets it runs with. The version is the number of the revision that set the value.' }),
    secret_references: z.array(SecretReference).nullable(),
    status: RevisionStatus,
    status_message: z.string().nullable().meta({
      description: 'Why it failed, was skipped or became UNKNOWN. While it deploys, why it is not healthy yet.',
    }),
    actor: RevisionActor,
    commit: z
      .object({ sha: z.string(), message: z.string().nullable(), author: z.string().nullable() })
      .nullable()
      .meta({ description: 'The commit it is built from.' }),
    reasons: z
      .array(z.string())
      .meta({ description: 'Why it was created: the changed members, or for example `requested` or `rolled_back`.' }),
    build_plan: BuildPlan.nullable().meta({
      description: 'How it is built and started: found in its archive, or reported by the agent that built it.',
    }),
    from_revision_id: Uuid.nullable().meta({ description: 'The revision that this one redeploys or rolls back to.' }),
    states: z
      .array(RevisionState)
      .meta({ description: 'The states it has been in, oldest first. Of an old revision, only the current one.' }),
    rollout: RevisionRollout.nullable().meta({
      description: 'The steps that it has passed, and why it was sent back. Null: none yet.',
    }),
    ...TimeMembers,
  })
  .meta({ id: 'Revision', description: 'One version of a deployment.' })
export type Revision = z.output<typeof Revision>
export const RevisionList = listOf(Revision).meta({
  id: 'RevisionList',
  description: 'A page of revisions, newest first.',
})

export const RevisionQuery = z.object({
  ...Page.shape,
  status: statusFilter(RevisionStatus),
  remote_reconciled: booleanFilter.meta({
    description: 'Whether the revision has ended, so that the data plane has nothing left to do for it.',
  }),
})
export type RevisionQuery = z.output<typeof RevisionQuery>

// ---- descriptions of routes

export const COMMAND_PERMISSION_NOTE = [
  'Changing `install_command`, `build_command`, or `init_containers` or `sidecars` of `resource_spec`',
  'also requires the permission `deployments:change-commands`.',
].join(' ')

export const PLAN_NOTE = [
  'With `dry_run=true`, the answer is the plan and nothing changes.',
  'Send the plan’s `plan_digest` as `Plan-Digest` to apply that plan and no other.',
].join(' ')
