// Request and response schemas of preview policies and previews.
import * as z from 'zod'
import { checkUniqueNames } from '../../protocol/kubernetes.schema.ts'
import { MASK, RevisionStatus, Secret, SourceRevisionConfigInput } from '../../protocol/parts.schema.ts'
import { followedKinds, previewKinds, previewStates } from '../../protocol/preview-kinds.ts'
import { NewProtection, Protection } from '../../protocol/protection.schema.ts'
import { ResourceSpec } from '../../protocol/resources.schema.ts'
import {
  arrayOf,
  boundedText,
  CREDENTIAL,
  commaSeparated,
  listOf,
  optionalFilter,
  Page,
  SecretFingerprint,
  SecretFingerprints,
  Uuid,
} from '../../protocol/wire.ts'
import { DeploymentRef } from '../deployments/schema.ts'

const Time = z.string().meta({ format: 'date-time' })
const DAY = 86_400
const MAX_PREVIEWS = 50
const MAX_STARS = 8
const GLOB_ERROR = `must be a pattern like \`feature/*\`, with at most ${MAX_STARS} stars and 200 characters`
const Glob = boundedText(201, GLOB_ERROR)
  .regex(/^!?[^\s\0]{1,200}$/, { error: GLOB_ERROR })
  .refine(glob => glob.replaceAll('**', '*').split('*').length - 1 <= MAX_STARS, { error: GLOB_ERROR })
  .meta({ pattern: `^(?=!?\\S{1,200}$)!?[^\\s*]*(?:[*]{1,2}[^\\s*]+){0,${MAX_STARS - 1}}[*]{0,2}$` })
const PREVIEW_VARIABLES = ['PREVIEW_ID', 'PREVIEW_BRANCH', 'PREVIEW_URL']
const Overlay = Secret.refine(({ name }) => !PREVIEW_VARIABLES.includes(name), {
  error: 'is reserved: every preview sets this variable itself; choose another name',
  path: ['name'],
})
const HookUrl = boundedText(2048)
  .regex(/^https?:\/\/[^\s\0]+$/, { error: 'must be an http or https URL', abort: true })
  .refine(url => URL.canParse(url), { error: 'must be an http or https URL' })
  .meta({ format: 'uri' })

const Hooks = z
  .object({
    on_create: HookUrl.nullish().meta({ description: 'Called when a preview is created.' }),
    on_delete: HookUrl.nullish().meta({ description: 'Called when a preview ends.' }),
    secret: boundedText(255)
      .min(8)
      .meta({
        description: [
          'Signs the hooks as Standard Webhooks specify: `whsec_` and base64, or any text.',
          `Answers contain \`${MASK}\`. Send that back to keep the secret.`,
        ].join(' '),
      }),
  })
  .meta({
    id: 'PreviewHooks',
    description: 'URLs that are called when a preview is created or ends, for example to branch a database.',
  })

const policyMembers = {
  branches: arrayOf(Glob, 20, 1).meta({
    description: 'Globs of branches. `*` matches within a path segment, `**` across segments. A leading `!` excludes.',
  }),
  ttl: z
    .int()
    .min(300)
    .max(90 * DAY)
    .meta({ description: 'Seconds from the last push until the preview is deleted.' }),
  max: z
    .int()
    .min(1)
    .max(MAX_PREVIEWS)
    .meta({ description: 'How many previews can exist at once. Further pull requests wait in state `full`.' }),
  forks: z.enum(['deny', 'approve']).meta({
    description:
      'Whether pull requests of forks get a preview: `deny` never, `approve` once someone approves the commit.',
  }),
  secrets: z.array(Secret).meta({
    description: 'Added to the parent’s secrets, and override them. A preview of a fork gets only these.',
  }),
  resource_spec: ResourceSpec.nullable().meta({ description: 'Overrides the parent’s, member by member.' }),
  kinds: arrayOf(z.enum(followedKinds), followedKinds.length).meta({
    description:
      'What gets previews: `pull_requests`, `branches`, both or none. A branch with a pull request has that preview ' +
      'only. Branches that exist when `branches`, `kinds` or `max` is set get a preview at once, up to `max`; the ' +
      'others with their next push.',
  }),
  inherited_secrets: arrayOf(boundedText(255).min(1), 100).meta({
    description: 'Secrets of the parent that previews of branches and of requests get. Others get none of these.',
  }),
  database: z
    .discriminatedUnion('mode', [
      z.object({ mode: z.enum(['none', 'empty']) }),
      z.object({
        mode: z.literal('copy'),
        from_deployment_id: Uuid.optional().meta({
          description: 'The deployment whose database is copied, of the same listener. By default the parent.',
        }),
      }),
    ])
    .nullable()
    .meta({
      description: [
        'The database of each preview: `none`, an `empty` one, or a `copy` of that of a deployment, made once from its',
        'newest backup. A copy requires the permission `deployments:copy-database` for that deployment; previews of',
        'forks get an empty one instead. Null: as the resources say.',
      ].join(' '),
    }),
}

export const NewPreviewPolicy = z
  .object({
    branches: policyMembers.branches,
    ttl: policyMembers.ttl.default(7 * DAY),
    max: policyMembers.max.default(10),
    forks: policyMembers.forks.default('deny'),
    secrets: arrayOf(Overlay, 100).default([]),
    resource_spec: ResourceSpec.nullish(),
    protection: NewProtection.nullish().meta({
      description:
        'Who may see the previews that are created from now on. Left out, it stays; a new policy then has `members` ' +
        'if this installation is public and the agent of the deployment can, otherwise everyone.',
    }),
    kinds: policyMembers.kinds.default(['pull_requests']),
    inherited_secrets: policyMembers.inherited_secrets.default([]),
    database: policyMembers.database.nullish(),
    hooks: Hooks.nullish(),
  })
  .superRefine((body, check) => checkUniqueNames(check, 'secrets', body.secrets))
  .meta({
    id: 'NewPreviewPolicy',
    description: 'Which pull requests and branches get a preview, and how it differs from its parent.',
    example: {
      branches: ['feature/*', '!feature/wip-*'],
      kinds: ['pull_requests', 'branches'],
      ttl: 3 * DAY,
      max: 5,
      forks: 'approve',
      secrets: [{ name: 'STRIPE_KEY', value: 'sk_test_…' }],
      resource_spec: { cpu: 0.5, memory_mb: 512 },
      hooks: { on_create: 'https://ci.example.com/branch-database', secret: 'whsec_c2xpcHdheQ==' },
    },
  })
export type NewPreviewPolicy = z.output<typeof NewPreviewPolicy>

export const PreviewPolicy = z
  .object({
    deployment_id: Uuid,
    ...policyMembers,
    protection: Protection.meta({ description: 'Who may see the previews that are created from now on.' }),
    existing_branches: z
      .object({
        compared_at: Time.nullable().meta({ description: 'Null until all of them were looked at.' }),
        previews: z.int().meta({ description: 'How many of them got a preview.' }),
        left: z.int().meta({ description: 'How many get one with their next push: the policy had no room.' }),
      })
      .nullable()
      .meta({ description: 'The branches that existed when the policy was set. Null if it follows none.' }),
    hooks: z
      .object({
        on_create: z.string().nullable(),
        on_delete: z.string().nullable(),
        secret: z.string().meta(CREDENTIAL),
      })
      .nullable(),
    secret_fingerprints: SecretFingerprints,
    hook_secret_fingerprint: SecretFingerprint,
    created_at: Time,
    updated_at: Time,
  })
  .meta({
    id: 'PreviewPolicy',
    description: 'What of a deployment’s repository gets a preview, and how it differs from its parent.',
  })
export type PreviewPolicy = z.output<typeof PreviewPolicy>

export const PreviewQuery = Page
/** An invalid number becomes 0, which no pull request has: the answer is 404. */
const PullNumber = boundedText(200)
  .transform(number => (/^[1-9]\d{0,8}$/.test(number) ? Number(number) : 0))
  .meta({ type: 'integer', description: 'The number of the pull request.' })
export const PullRef = z.object({ ...DeploymentRef.shape, number: PullNumber })
const PreviewName = boundedText(200)
  .transform(name => (Uuid.safeParse(name).success ? { id: name } : { number: PullNumber.parse(name) }))
  .meta({ type: 'string', description: 'The id of the preview, or the number of its pull request.' })
export const PreviewRef = z.object({ ...DeploymentRef.shape, number: PreviewName })

const CommitId = z
  .string()
  .max(64, { error: 'must be a full commit id', abort: true })
  .regex(/^([0-9a-f]{40}|[0-9a-f]{64})$/, { error: 'must be a full commit id' })

export const Approval = z
  .object({
    head_sha: CommitId.meta({ description: 'The commit to approve. It must be the head of the pull request.' }),
  })
  .meta({
    id: 'Approval',
    description: 'Approves one commit of a fork. Its preview gets the secrets of the policy.',
    example: { head_sha: '6113728f27ae82c7b1a177c8d03f9e96e0adf246' },
  })

const { repo_ref, source_tarball_path, image_uri } = SourceRevisionConfigInput.shape
const SOURCES = ['repo_ref', 'repo_commit_sha', 'source_tarball_path', 'image_uri'] as const
export const NewPreview = z
  .object({
    branch: boundedText(200)
      .regex(/^[^\s\0]{1,200}$/, { error: 'must be 1 to 200 characters without spaces' })
      .nullish()
      .meta({
        description:
          'Names the preview, for example the branch that CI builds. A request with the same name updates it. ' +
          'By default the `repo_ref` or the commit.',
      }),
    repo_ref: repo_ref.meta({ description: 'A branch or tag of the deployment’s repository.' }),
    repo_commit_sha: CommitId.nullish().meta({ description: 'A commit of the deployment’s repository.' }),
    source_tarball_path: source_tarball_path.meta({ description: 'The `object_path` of an upload.' }),
    image_uri: image_uri.meta({ description: 'An image.' }),
    database: policyMembers.database.nullish().meta({
      description:
        'Its database, decided when it is made. By default that of the policy. A copy, also by the policy, requires ' +
        'the permission `deployments:copy-database` for the deployment that is copied.',
    }),
    ttl: policyMembers.ttl.nullish().meta({
      description: 'Seconds from the last request until it is deleted. By default the policy’s, or 7 days.',
    }),
  })
  .superRefine((body, check) => {
    const sent = SOURCES.filter(name => body[name] != null)
    const fault = (path: string, message: string) => check.addIssue({ code: 'custom', path: [path], message })
    if (sent.length === 0) fault('repo_ref', `is required, or one of ${SOURCES.slice(1).join(', ')}`)
    for (const extra of sent.slice(1)) fault(extra, `excludes \`${sent[0]}\``)
    if (body.branch == null && body.repo_ref == null && body.repo_commit_sha == null) fault('branch', 'is required')
  })
  .meta({
    id: 'NewPreview',
    description: 'A preview of a ref, a commit, an archive or an image. It needs no connected git host.',
    example: { branch: 'feature/cart', image_uri: 'registry.example.com/shop:pr-7' },
  })
export type NewPreview = z.output<typeof NewPreview>

const PreviewState = z.enum(previewStates)

export const PullPreview = z
  .object({
    id: Uuid,
    parent_deployment_id: Uuid,
    parent_name: z.string(),
    kind: z.enum(previewKinds).meta({ description: 'What it is of. `request`: of a request of the API.' }),
    number: z.int().nullable().meta({ description: 'Of the pull request.' }),
    state: PreviewState.meta({
      description: [
        '`pending`: will be created.',
        '`awaiting_approval`: the head is a commit of a fork that is not approved.',
        '`denied`: from a fork, which the policy denies.',
        '`full`: waits because the policy’s `max` is reached.',
        '`failed`: could not be created, as `problem` says.',
        '`live`: has a deployment.',
        '`ended`: the pull request is closed, the branch is deleted, or the preview expired or was deleted.',
      ].join(' '),
    }),
    deployment_id: Uuid.nullable().meta({ description: 'The preview’s own deployment. Null before it is created.' }),
    url: z.string().nullable(),
    newest_commit_url: z.string().nullable().meta({
      description: 'The address of its newest commit alone, which answers 410 once another one serves.',
    }),
    problem: z.string().nullable().meta({ description: 'Why it could not be created.' }),
    branch: z.string().meta({ description: 'Of a request, the name that it gave.' }),
    head_sha: z.string().nullable().meta({ description: 'Null for a preview of an archive or an image.' }),
    commit: z
      .object({ sha: z.string(), message: z.string().nullable(), author: z.string().nullable() })
      .nullable()
      .meta({ description: 'The commit at the head, as its git host described it.' }),
    commit_url: z.string().nullable().meta({ description: 'Its page at the git host.' }),
    pull_request_url: z.string().nullable(),
    fork: z.boolean(),
    approved_sha: z.string().nullable(),
    revision_status: RevisionStatus.nullable().meta({
      description: 'Of the latest revision of its deployment. Null without a deployment.',
    }),
    last_request_at: Time.nullable().meta({
      description: 'When its deployment last got a request. Null if its listener has reported none.',
    }),
    expires_at: Time,
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'PullPreview', description: 'A pull request, a branch or a request, and the state of its preview.' })
export type PullPreview = z.output<typeof PullPreview>
export const PullPreviewList = listOf(PullPreview).meta({
  id: 'PullPreviewList',
  description: 'A page of previews, newest first.',
})

const stateNames = PreviewState.options.map(state => `\`${state}\``).join(', ')
export const WorkspacePreviewQuery = z.object({
  ...Page.shape,
  state: optionalFilter(commaSeparated(PreviewState, PreviewState.options.length)).meta({
    type: 'string',
    description: `One or several, separated by commas: ${stateNames}.`,
  }),
  branch_contains: optionalFilter(boundedText(255)).meta({ description: 'Part of the branch. Case does not matter.' }),
})
export type WorkspacePreviewQuery = z.output<typeof WorkspacePreviewQuery>

export const PreviewPolicyPlan = z
  .object({
    changes: z
      .array(z.object({ path: z.string(), before: z.unknown(), after: z.unknown() }))
      .meta({ description: 'The members that change. Of secrets, their names.' }),
    new_values: z.array(z.string()).meta({ description: 'The secrets whose value is sent.' }),
    previews: z
      .array(z.object({ number: z.int().nullable(), branch: z.string(), matches: z.boolean() }))
      .meta({ description: 'The 200 newest previews that exist, and whether the new policy covers them.' }),
    warnings: z.array(z.string()),
    plan_digest: z
      .string()
      .meta({ description: 'Send it as `Plan-Digest` with the same request to apply this plan and no other.' }),
  })
  .meta({ id: 'PreviewPolicyPlan', description: 'What a policy would change.' })
export type PreviewPolicyPlan = z.output<typeof PreviewPolicyPlan>
