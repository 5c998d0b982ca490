// What crosses the wire between the control plane and an agent. PROTOCOL.md tells how it is used.
import * as z from 'zod'
import { ImageReference } from '../deployments/kubernetes.schema.ts'
import { levels } from '../deployments/logs.schema.ts'
import { RevisionStatus, SecretReference, Source } from '../deployments/parts.schema.ts'
import { DeploymentType, parts, ResourceSpec } from '../deployments/resources.schema.ts'
import { Instant, Uuid, wholeNumber } from '../kernel/wire.ts'

// ---- what both sides name

const AgentId = z
  .string()
  .regex(/^[A-Za-z0-9._:-]{1,64}$/, {
    error: 'needs to be 1 to 64 letters, digits, dots, underscores, colons, hyphens',
  })
  .meta({
    description:
      'Names the running agent. It stays the same over restarts, so that a restart need not wait for its own lease to end.',
  })
const Fence = z.int().min(1).meta({
  description: 'The number of the lease. Each new lease has a higher one, and only the newest is listened to.',
})
const MOST = 2 ** 31 - 1
const Generation = z.int().min(1).max(MOST).meta({
  description: 'Counts what is wanted of the deployment: any change of its work is a new generation.',
})
/** 65 bytes, the first of which says that both coordinates follow. */
const PublicKey = z
  .string()
  .regex(/^B[A-Za-z0-9_-]{86}$/, { error: 'needs to be an uncompressed P-256 point, 65 bytes in base64url' })
  .meta({
    description: 'The agent’s P-256 public key, raw and uncompressed, in base64url. What is secret is sealed to it.',
  })
const Digest = z
  .string()
  .regex(/^[0-9a-f]{16}$/, { error: 'needs to be 16 lower-case hexadecimal digits' })
  .meta({
    description:
      'The exclusive or, over all deployments, of the first 8 bytes of SHA-256 of `<deployment_id>:<generation>`.',
  })
const Cursor = z.int().min(0)
const Sealed = z.string().meta({
  description: 'An envelope for the agent’s key: `v1.<ephemeral public key>.<nonce>.<ciphertext>`, each in base64url.',
})

// ---- what is wanted

const Archive = z
  .object({
    url: z.string().meta({
      description:
        'Where to download it, with GET and no key, for 15 minutes. A later poll with the cursor before gives a fresh one.',
    }),
    sha256: z.string().meta({ description: 'Of the archive, in hexadecimal.' }),
    size: z.int().meta({ description: 'In bytes.' }),
  })
  .meta({ id: 'WorkArchive', description: 'An uploaded source archive, a gzip-compressed tar.' })

const Git = z
  .object({
    url: z.string().meta({ description: 'The repository’s address, without credentials.' }),
    ref: z.string().meta({ description: 'A branch, a tag or a commit.' }),
    commit_sha: z
      .string()
      .nullable()
      .meta({ description: 'Build exactly this commit. Null: find out what `ref` is now, and report it.' }),
  })
  .meta({ id: 'WorkGit', description: 'Where the source is cloned from.' })

export const RevisionWork = z
  .object({
    id: Uuid,
    number: z.int().meta({ description: 'Counts up from 1 within the deployment.' }),
    status: RevisionStatus.meta({ description: 'What was last reported of it.' }),
    source: Source.meta({ description: 'That of the revision, which may differ from the deployment’s.' }),
    platform_config_path: z
      .string()
      .nullable()
      .meta({ description: 'The file of the runtime’s configuration, inside the source.' }),
    image_uri: z
      .string()
      .nullable()
      .meta({ description: 'The image to run, for a source that is one, or the one that was built before.' }),
    template_id: z.string().nullable().meta({ description: 'The template to run, for `internal_template`.' }),
    git: Git.nullable().meta({ description: 'For `githost`.' }),
    archive: Archive.nullable().meta({ description: 'For `internal_source`.' }),
    install_command: z.string().nullable().meta({ description: 'Wins over that of the runtime’s configuration.' }),
    build_command: z.string().nullable().meta({ description: 'Wins over that of the runtime’s configuration.' }),
    resource_spec: ResourceSpec.meta({ description: 'No amount is left open: what nobody asked for has its default.' }),
    parts: z.array(z.enum(parts)).meta({
      description: 'What was asked for beside the application itself, by any member of its own in the specification.',
    }),
    secrets: Sealed.nullable().meta({
      description: 'Sealed JSON, an object of environment variables and their values; null where there are none.',
    }),
    secret_references: z.array(SecretReference).meta({ description: 'Environment variables from cluster secrets.' }),
    deadline: z
      .string()
      .nullable()
      .meta({ format: 'date-time', description: 'Without another report until then, it is taken to have failed.' }),
  })
  .meta({ id: 'RevisionWork', description: 'One revision as an agent builds and runs it.' })
export type RevisionWork = z.output<typeof RevisionWork>

export const Work = z
  .object({
    deployment_id: Uuid,
    generation: Generation,
    wanted: z.enum(['present', 'absent']).meta({
      description:
        'Absent: stop it, remove all that was made for it, then report `removed`. Then the members below are null.',
    }),
    tenant_id: Uuid.nullable().meta({ description: 'The workspace.' }),
    name: z.string().nullable().meta({ description: 'Unique in its workspace.' }),
    deployment_type: DeploymentType.nullable().meta({
      description: 'Decides the defaults of the resource specification.',
    }),
    custom_url: z.string().nullable().meta({ description: 'Where it is to be served besides.' }),
    k8s_namespace: z.string().nullable().meta({ description: 'Where in the cluster it belongs.' }),
    needs_database: z.boolean().meta({
      description: 'Give it a Postgres, and its address in `DATABASE_URI`; then report `database_ready`, once.',
    }),
    revision: RevisionWork.nullable().meta({
      description:
        'The one to build and deploy now, beside the one that serves. Null: nothing is in flight; stop what still is.',
    }),
    serving: RevisionWork.nullable().meta({
      description: 'The one that serves until another is healthy. Null: none does yet.',
    }),
  })
  .meta({ id: 'Work', description: 'All that is wanted of one deployment.' })
export type Work = z.output<typeof Work>

// ---- polling

export const LONGEST_POLL = 55
export const POLL_PAGE = 50

export const Poll = z
  .object({
    agent_id: AgentId,
    version: z.string().max(64).nullish().meta({ description: 'The agent’s own version; the listener shows it.' }),
    public_key: PublicKey,
    fence: Fence.nullish().meta({
      description: 'That of the lease it holds; left out at the start, to ask for a new one.',
    }),
    cursor: Cursor.nullish().meta({
      description: 'That of the last answer that was applied whole. Left out: everything.',
    }),
    digest: Digest.nullish().meta({
      description: 'Of what the agent has. Where it differs though nothing changed, everything comes again.',
    }),
    wait: z
      .int()
      .min(0)
      .max(LONGEST_POLL)
      .default(0)
      .meta({ description: 'For how many seconds to wait for a change.' }),
  })
  .meta({
    id: 'Poll',
    description: 'What the agent is, and what it has.',
    example: {
      agent_id: 'agent-1',
      version: '1.0.0',
      public_key: 'BMWOPPT6fvI84CovNcaIsJEn0aiRnU30Qx4O_QXfkW-XP2qQAyULEqKYACUGYluyNPLiLmjuhjV11bQdp-b2qnk',
      cursor: null,
      digest: null,
      wait: 0,
    },
  })
export type Poll = z.output<typeof Poll>

export const Changes = z
  .object({
    listener_id: Uuid.meta({ description: 'The listener whose key asks.' }),
    lease: z
      .object({ fence: Fence, expires_at: z.string().meta({ format: 'date-time' }) })
      .meta({ description: 'It is the agent’s until then, and each poll renews it.' }),
    cursor: Cursor.meta({ description: 'Send it with the next poll, once the changes are applied.' }),
    digest: Digest.meta({
      description: 'Of all that the listener has to have. It says something when `more` is false.',
    }),
    resync: z.boolean().meta({
      description: 'The first page of everything: what is not named until `more` is false is not wanted any more.',
    }),
    more: z.boolean().meta({ description: 'There are further changes: poll again at once with this `cursor`.' }),
    changes: z
      .array(Work)
      .meta({ description: `In the order in which they came about, each deployment once, at most ${POLL_PAGE}.` }),
  })
  .meta({ id: 'Changes', description: 'What is wanted now of the deployments that changed. Empty: nothing did.' })
export type Changes = z.output<typeof Changes>

// ---- giving the lease back

export const Release = z.object({ agent_id: AgentId, fence: Fence }).meta({
  id: 'Release',
  description: 'The lease that an agent has no more use for.',
  example: { agent_id: 'agent-1', fence: 1 },
})
export type Release = z.output<typeof Release>

// ---- reporting

/** What an agent may say of a deployment, in the order of a rollout. */
const reportStates = [
  'building',
  'built',
  'deploying',
  'deployed',
  'failed',
  'interrupted',
  'serving',
  'database_ready',
  'removed',
] as const
export const ReportState = z.enum(reportStates).meta({
  description:
    '`building`, `built`, `deploying`, `deployed`, `failed`: of the revision in flight; steps may be left out. ' +
    '`interrupted`: work on a revision that is wanted no more has stopped. ' +
    '`serving`: this generation is in effect, and `revision_id` is what runs, null where nothing does. ' +
    '`database_ready`: its database is there. `removed`: nothing of it is left.',
})
export type ReportState = z.output<typeof ReportState>
/** Those that speak of a revision and so need to name it. */
export const ofRevision = [
  'building',
  'built',
  'deploying',
  'deployed',
  'failed',
  'interrupted',
] as const satisfies ReportState[]

export const REPORTS_AT_ONCE = 100
const Text = (most: number) => z.string().max(most)

export const Report = z
  .object({
    deployment_id: Uuid,
    revision_id: Uuid.nullish().meta({ description: 'Needed where the state is that of a revision.' }),
    generation: Generation.meta({ description: 'That of the work which this is about.' }),
    state: ReportState,
    message: Text(2000).nullish().meta({
      description:
        'Of a failure: a sentence that a person can act on, perhaps with the last lines of the log. Needed there.',
    }),
    commit: z
      .object({
        sha: z.string().regex(/^[0-9a-f]{40}([0-9a-f]{24})?$/, { error: 'needs to be a whole commit id' }),
        message: Text(2000).nullish(),
        author: Text(200).nullish(),
      })
      .nullish()
      .meta({ description: 'What `ref` was found to be.' }),
    image_uri: ImageReference.nullish().meta({ description: 'The image that was built or pulled, by its digest.' }),
    url: z
      .string()
      .max(2048)
      .regex(/^https?:\/\/[!-~]+$/, { error: 'needs to be an http(s) address' })
      .nullish()
      .meta({ description: 'Where the deployment answers.' }),
    healthy: z.boolean().nullish().meta({ description: 'Whether its health check passes. `deployed` needs true.' }),
    last_request_at: Instant.nullish().meta({
      description:
        'When somebody last used it; before anybody has, since when uses are counted. Left out by an agent that cannot tell: then it never counts as unused.',
    }),
  })
  .superRefine((report, check) => {
    const needs = (path: string, missing: boolean) =>
      missing &&
      check.addIssue({ code: 'custom', path: [path], message: `is needed with the state \`${report.state}\`` })
    needs('revision_id', (ofRevision as readonly string[]).includes(report.state) && report.revision_id == null)
    needs('message', report.state === 'failed' && !report.message?.trim())
    needs('healthy', report.state === 'deployed' && report.healthy !== true)
  })
  .meta({ id: 'Report', description: 'What became of one deployment.' })
export type Report = z.output<typeof Report>

export const Reports = z
  .object({
    agent_id: AgentId,
    fence: Fence,
    reports: z
      .array(Report)
      .min(1)
      .max(REPORTS_AT_ONCE)
      .superRefine((reports, check) => {
        const seen = new Set<string>()
        for (const [i, { deployment_id }] of reports.entries()) {
          if (seen.has(deployment_id))
            check.addIssue({
              code: 'custom',
              path: [i, 'deployment_id'],
              message: 'is reported twice; send the second with the next request',
            })
          seen.add(deployment_id)
        }
      })
      .meta({ description: 'Each deployment once; what follows on it goes with the next request.' }),
  })
  .meta({
    id: 'Reports',
    description: 'What became of deployments, under a lease.',
    example: {
      agent_id: 'agent-1',
      fence: 1,
      reports: [
        {
          deployment_id: '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11',
          revision_id: '45c48cce-2e2d-4fbd-8a1a-c51c7c6ad26a',
          generation: 3,
          state: 'deployed',
          healthy: true,
          url: 'http://shop-agent.localhost:8080',
        },
      ],
    },
  })
export type Reports = z.output<typeof Reports>

export const outcomes = ['accepted', 'stale', 'refused'] as const
export const reportCodes = [
  'revision_ended',
  'generation_passed',
  'generation_unknown',
  'deployment_unknown',
  'revision_unknown',
  'still_wanted',
] as const
export const ReportResult = z
  .object({
    deployment_id: Uuid,
    revision_id: Uuid.nullable(),
    outcome: z.enum(outcomes).meta({
      description:
        'Accepted: it holds, now or since an earlier report. Stale: something newer is wanted; poll. Refused: it cannot be, and is never to be repeated.',
    }),
    code: z
      .enum(reportCodes)
      .nullable()
      .meta({
        description:
          '`revision_ended`: the revision is not in flight any more. `generation_passed`: what is wanted has changed since. ' +
          '`generation_unknown`: no such generation yet. `deployment_unknown`, `revision_unknown`: not this listener’s. ' +
          '`still_wanted`: it was reported as removed or interrupted, and is wanted.',
      }),
    generation: Generation.nullable().meta({
      description:
        'What is wanted from now on. Where the report was that of the newest, this is what the agent has; null when the deployment is gone.',
    }),
  })
  .meta({ id: 'ReportResult', description: 'What a report came to.' })
export type ReportResult = z.output<typeof ReportResult>
export const ReportResults = z
  .object({ results: z.array(ReportResult).meta({ description: 'In the order of the reports.' }) })
  .meta({ id: 'ReportResults' })
export type ReportResults = z.output<typeof ReportResults>

// ---- logs

export const LINES_AT_ONCE = 1000
export const LogBatch = z
  .object({
    agent_id: AgentId,
    fence: Fence,
    deployment_id: Uuid,
    revision_id: Uuid.meta({ description: 'Whose build or run it is.' }),
    kind: z.enum(['build', 'deploy']).meta({ description: '`deploy` is all that it says once it is built.' }),
    stream: Uuid.meta({
      description: 'Made by the agent, anew whenever it no longer knows the number of its next line.',
    }),
    from: z
      .int()
      .min(0)
      .max(MOST - LINES_AT_ONCE)
      .meta({
        description:
          'The number of the first line within the stream, from 0 on. Lines that were received before are passed over.',
      }),
    lines: z
      .array(
        z.object({
          timestamp: Instant,
          level: z.enum(levels),
          message: z.string().meta({ description: 'Longer ones are cut at 16 KiB.' }),
        }),
      )
      .min(1)
      .max(LINES_AT_ONCE),
  })
  .meta({
    id: 'LogBatch',
    description: 'Lines of one log, in their order.',
    example: {
      agent_id: 'agent-1',
      fence: 1,
      deployment_id: '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11',
      revision_id: '45c48cce-2e2d-4fbd-8a1a-c51c7c6ad26a',
      kind: 'build',
      stream: '6512bd43-d9ca-4a6e-8c99-2adbb0b2d0e1',
      from: 0,
      lines: [{ timestamp: '2026-11-21T12:00:00.000Z', level: 'INFO', message: 'Cloning …' }],
    },
  })
export type LogBatch = z.output<typeof LogBatch>
export const LogReceipt = z
  .object({ next: z.int().meta({ description: 'The number of the line to send next in this stream.' }) })
  .meta({ id: 'LogReceipt' })

// ---- credentials

export const CredentialWish = z
  .object({
    agent_id: AgentId,
    fence: Fence,
    public_key: PublicKey,
    deployment_id: Uuid,
    revision_id: Uuid.meta({ description: 'For a repository: of the source `githost`.' }),
    for: z.enum(['repository', 'registry']).default('repository').meta({
      description:
        'What it is to be used at: the git host that the source is cloned from, or the registry of this installation, which images of the deployment are pulled from and pushed to.',
    }),
  })
  .meta({
    id: 'CredentialWish',
    description: 'For which revision an agent is about to clone, pull or push.',
    example: {
      agent_id: 'agent-1',
      fence: 1,
      public_key: 'BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU',
      deployment_id: '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11',
      revision_id: '45c48cce-2e2d-4fbd-8a1a-c51c7c6ad26a',
    },
  })
export const GivenCredential = z
  .object({
    credential: Sealed.nullable().meta({
      description:
        'For a repository sealed JSON `{"username": …, "password": …}` for git over HTTP, bound to `<listener>/<deployment>/<revision>/git`; an App’s is good for an hour. ' +
        'For the registry sealed JSON with `registry`, `repository`, `username`, `password` and `expires_at`, bound to `<listener>/<deployment>/<revision>/registry`; null where this installation has no registry.',
    }),
  })
  .meta({ id: 'GivenCredential' })
/** What the envelope of a credential for the registry holds. */
export const RegistryCredential = z.object({
  registry: z.string(),
  repository: z.string(),
  username: z.string(),
  password: z.string(),
  expires_at: z.iso.datetime(),
})
export type RegistryCredential = z.output<typeof RegistryCredential>

// ---- archives

export const ArchiveRef = z.object({ workspace_id: Uuid, upload_id: Uuid })
export const ArchiveSignature = z
  .object({ expires: z.preprocess(wholeNumber, z.int()), signature: z.string().max(200) })
  .meta({ example: { expires: '0', signature: 'none' } })
