// What crosses the wire about previews: the policy that makes them, and what there is of them.
import * as z from 'zod'
import { DeploymentRef } from '../deployments/schema.ts'
import { checkUniqueNames } from '../protocol/kubernetes.schema.ts'
import { MASK, Secret } from '../protocol/parts.schema.ts'
import { ResourceSpec } from '../protocol/resources.schema.ts'
import { arrayOf, boundedText, listOf, Page, Uuid } from '../protocol/wire.ts'

const Time = z.string().meta({ format: 'date-time' })
const DAY = 86_400
const MAX_PREVIEWS = 50
const MAX_STARS = 8
const GLOB_ERROR = `needs to be a pattern like \`feature/*\`, with at most ${MAX_STARS} stars and 200 characters`
const Glob = boundedText(201, GLOB_ERROR)
  .regex(/^!?[^\s\0]{1,200}$/, { error: GLOB_ERROR })
  .refine(glob => glob.replaceAll('**', '*').split('*').length - 1 <= MAX_STARS, { error: GLOB_ERROR })
/** What every preview is told about itself. */
const PREVIEW_VARIABLES = ['PREVIEW_ID', 'PREVIEW_BRANCH', 'PREVIEW_URL']
const Overlay = Secret.refine(({ name }) => !PREVIEW_VARIABLES.includes(name), {
  error: 'is what a preview is told about itself; choose another name',
  path: ['name'],
})
const HookUrl = boundedText(2048)
  .regex(/^https?:\/\/[^\s\0]+$/, { error: 'needs to be an http(s) address', abort: true })
  .refine(url => URL.canParse(url), { error: 'needs to be an http(s) address' })

const Hooks = z
  .object({
    on_create: HookUrl.nullish().meta({ description: 'Told when a preview is made.' }),
    on_delete: HookUrl.nullish().meta({ description: 'Told when it goes.' }),
    secret: boundedText(255)
      .min(8)
      .meta({
        description: `What they are signed with, as in Standard Webhooks; \`whsec_\` and base64, or any text. In an answer \`${MASK}\`, which sent back keeps it.`,
      }),
  })
  .meta({
    id: 'PreviewHooks',
    description: 'Addresses that are told, so that a preview can have a database branch of its own.',
  })

const policyMembers = {
  branches: arrayOf(Glob, 20, 1).meta({
    description: '`*` stays between slashes, `**` does not; `!` in front excludes.',
  }),
  ttl: z
    .int()
    .min(300)
    .max(90 * DAY)
    .meta({ description: 'Seconds from the last push until it goes.' }),
  max: z
    .int()
    .min(1)
    .max(MAX_PREVIEWS)
    .meta({ description: 'The most at once; a pull request beyond is refused and told so.' }),
  forks: z
    .enum(['deny', 'approve'])
    .meta({ description: 'Whether those of forks may be approved, one commit at a time.' }),
  secrets: z.array(Secret).meta({
    description: 'Over the parent’s. Of a fork’s preview they are all there is.',
  }),
  resource_spec: ResourceSpec.nullable().meta({ description: 'Over the parent’s, member by member.' }),
}

export const NewPreviewPolicy = z
  .object({
    branches: policyMembers.branches,
    ttl: policyMembers.ttl.default(7 * DAY),
    max: policyMembers.max.default(10),
    forks: policyMembers.forks.default('deny'),
    secrets: arrayOf(Overlay, 100).default([]),
    resource_spec: ResourceSpec.nullish(),
    hooks: Hooks.nullish(),
  })
  .superRefine((body, check) => checkUniqueNames(check, 'secrets', body.secrets))
  .meta({
    id: 'NewPreviewPolicy',
    description: 'Which pull requests get a preview, and what it is made of.',
    example: {
      branches: ['feature/*', '!feature/wip-*'],
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
    hooks: z
      .object({ on_create: z.string().nullable(), on_delete: z.string().nullable(), secret: z.string() })
      .nullable(),
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'PreviewPolicy', description: 'Which pull requests of a deployment’s repository get a preview.' })
export type PreviewPolicy = z.output<typeof PreviewPolicy>

export const PreviewQuery = Page
/** What is no number is of no pull request. */
const PullNumber = boundedText(200)
  .transform(number => (/^[1-9]\d{0,8}$/.test(number) ? Number(number) : 0))
  .meta({ type: 'integer', description: 'Of the pull request.' })
export const PreviewRef = z.object({ ...DeploymentRef.shape, number: PullNumber })

export const Approval = z
  .object({
    head_sha: z
      .string()
      .max(64, { error: 'needs to be a full commit id', abort: true })
      .regex(/^([0-9a-f]{40}|[0-9a-f]{64})$/, { error: 'needs to be a full commit id' })
      .meta({ description: 'The commit that was looked at: no other is approved.' }),
  })
  .meta({
    id: 'Approval',
    description: 'Lets one commit of a fork run, with the secrets of the policy.',
    example: { head_sha: '6113728f27ae82c7b1a177c8d03f9e96e0adf246' },
  })

export const PullPreview = z
  .object({
    id: Uuid,
    number: z.int(),
    state: z.enum(['pending', 'awaiting_approval', 'denied', 'full', 'live', 'ended']).meta({
      description:
        '`pending`: about to be made; `awaiting_approval`: a fork’s commit that nobody approved; `denied`: a fork, and the policy says no; `full`: beyond `max`.',
    }),
    deployment_id: Uuid.nullable().meta({ description: 'The preview itself, once there is one.' }),
    url: z.string().nullable(),
    branch: z.string(),
    head_sha: z.string(),
    fork: z.boolean(),
    approved_sha: z.string().nullable(),
    expires_at: Time,
    created_at: Time,
    updated_at: Time,
  })
  .meta({ id: 'PullPreview', description: 'A pull request, and what there is to see of it.' })
export type PullPreview = z.output<typeof PullPreview>
export const PullPreviewList = listOf(PullPreview).meta({
  id: 'PullPreviewList',
  description: 'A page of previews, newest first.',
})
