// Schemas of rollbacks and their hold, of waiting for a revision, and of explanations.
import * as z from 'zod'
import { RevisionStatus } from '../../protocol/parts.schema.ts'
import { parseWholeNumber, Uuid } from '../../protocol/wire.ts'

export const Serving = z.enum(['none', 'previous', 'current']).meta({
  description: 'What receives requests: no revision, one older than the latest, or the latest.',
})
export type Serving = z.output<typeof Serving>

export const Hold = z
  .object({
    since: z.string().meta({ format: 'date-time' }),
    reason: z.enum(['rolled_back', 'rollout_failed']),
    revision_id: Uuid.meta({ description: 'The revision that the rollback created, or whose rollout failed.' }),
    from_commit: z
      .string()
      .nullable()
      .meta({ description: 'The commit that was rolled back, which is never deployed automatically, or that failed.' }),
    until: z.enum(['released', 'newer_commit']).meta({ description: 'What ends the hold.' }),
  })
  .meta({ id: 'Hold', description: 'A rollback or a failed rollout holds automatic deploys.' })

export const Rollback = z
  .object({
    revision_id: Uuid.meta({ description: 'The revision to roll back to.' }),
    release_on_newer_commit: z
      .boolean()
      .nullish()
      .meta({ description: 'Whether a newer commit ends the hold. By default only a release does.' }),
  })
  .meta({
    id: 'Rollback',
    description: 'The revision whose commit or image, configuration, resources and secrets to restore.',
    example: { revision_id: '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11', release_on_newer_commit: true },
  })
export type Rollback = z.output<typeof Rollback>

const MAX_WAIT_SECONDS = 60
export const WaitQuery = z.object({
  until: z
    .enum(['terminal', 'active'])
    .default('terminal')
    .meta({ description: '`terminal`: the revision has ended. `active`: it serves, or has ended.' }),
  timeout: z
    .preprocess(parseWholeNumber, z.int().min(0).max(MAX_WAIT_SECONDS).default(MAX_WAIT_SECONDS))
    .meta({ description: 'Seconds.' }),
})

export const obstacleCodes = [
  'deleting',
  'awaiting_database',
  'listener_silent',
  'awaiting_artifact',
  'waiting_behind',
  'in_progress',
  'revision_failed',
  'revision_skipped',
  'revision_interrupted',
  'revision_unknown',
  'crash_looping',
  'degraded',
  'unhealthy',
  'sleeping',
  'unused',
  'held_by_rollback',
  'held_by_rollout',
  'ref_gone',
  'integration_gone',
  'integration_suspended',
  'integration_revoked',
  'integration_limited',
  'repository_unreadable',
  'webhook_missing',
  'custom_url_unverified',
  'custom_url_lost',
] as const

const remedyActions = [
  'redeploy',
  'interrupt',
  'release_hold',
  'view_logs',
  'compare',
  'edit_environment',
  'upload_source',
  'set_ref',
  'open_listener',
  'open_integration',
  'verify_host',
] as const
const Remedy = z
  .object({
    action: z.enum(remedyActions),
    revision_id: Uuid.nullable().meta({ description: 'The revision to act on, such as the one to interrupt.' }),
  })
  .meta({ id: 'Remedy', description: 'What can be done about an obstacle.' })

const Obstacle = z
  .object({
    code: z.enum(obstacleCodes),
    detail: z.string(),
    revision_id: Uuid.nullable().meta({ description: 'The revision that the obstacle is about.' }),
    listener_id: Uuid.nullable().meta({ description: 'The listener that the obstacle is about.' }),
    integration_id: Uuid.nullable().meta({ description: 'The integration that the obstacle is about.' }),
    remedies: z.array(Remedy).meta({ description: 'The most useful one first. Empty if it resolves by itself.' }),
  })
  .meta({ id: 'Obstacle', description: 'A reason why a deployment does not serve its latest revision.' })
export type Obstacle = z.output<typeof Obstacle>

const RepositoryContact = z
  .object({
    url: z.string(),
    heard_at: z
      .string()
      .nullable()
      .meta({ format: 'date-time', description: 'When the git host last sent a webhook about it.' }),
    compared_at: z.string().nullable().meta({
      format: 'date-time',
      description: 'When its refs and pull requests were last compared with what is deployed.',
    }),
    webhook: z.enum(['made', 'of_app', 'by_hand', 'missing']).meta({
      description:
        '`made`: Slipway made it. `of_app`: that of the GitHub App. `by_hand`: any git server has it from you, if at ' +
        'all. `missing`: it could not be made; one that you made yourself works all the same.',
    }),
  })
  .meta({ id: 'RepositoryContact', description: 'The repository of a deployment, as its git host was last heard.' })

export const Explanation = z
  .object({
    serving: Serving,
    resources: z.array(Obstacle),
    repository: RepositoryContact.nullable().meta({
      description: 'Null for a deployment without an integration, and until its repository was first compared.',
    }),
  })
  .meta({
    id: 'Explanation',
    description: 'The reasons a deployment does not serve its latest revision, in order. Empty when it does.',
  })
export type Explanation = z.output<typeof Explanation>

export const ComparedRevisions = z.object({ deployment_id: Uuid, revision_id: Uuid, other_revision_id: Uuid })

const ComparedRevision = z
  .object({
    id: Uuid,
    number: z.int(),
    status: RevisionStatus,
    created_at: z.string().meta({ format: 'date-time' }),
    commit: z.string().nullable().meta({ description: 'The id of the commit it is built from.' }),
    image_digest: z
      .string()
      .nullable()
      .meta({ description: 'The digest of the image it runs; null unless `image_uri` names or resolved to one.' }),
    build_seconds: z.number().nullable().meta({ description: 'How long it was BUILDING; null if it has not built.' }),
    error_lines: z.int().meta({ description: 'The number of stored log lines of level ERROR or CRITICAL.' }),
  })
  .meta({ id: 'ComparedRevision' })

export const RevisionComparison = z
  .object({
    before: ComparedRevision,
    after: ComparedRevision,
    commits: z
      .object({
        from: z.string(),
        to: z.string(),
        repo_url: z.string(),
        compare_url: z
          .string()
          .nullable()
          .meta({ description: 'The page of the git host; null without an integration, and for the same commit.' }),
      })
      .nullable()
      .meta({ description: 'The range of commits; null unless both revisions are built from a known commit.' }),
    changes: z
      .array(z.object({ path: z.string(), before: z.unknown(), after: z.unknown() }))
      .meta({ description: 'The members that differ. `secrets.NAME` has versions, never values.' }),
  })
  .meta({
    id: 'RevisionComparison',
    description: 'What differs from one revision (`before`) to another (`after`).',
  })
export type RevisionComparison = z.output<typeof RevisionComparison>
