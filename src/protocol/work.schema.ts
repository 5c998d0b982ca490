// Schemas of work: what an agent has to do for a deployment.
import * as z from 'zod'
import { RevisionStatus, SecretReference, Source } from './parts.schema.ts'
import { WorkProtection } from './protection.schema.ts'
import { RequestLogs } from './request-logs.schema.ts'
import { DeploymentType, parts, ResourceSpec } from './resources.schema.ts'
import { Generation, Sealed } from './sync-fields.schema.ts'
import { WorkTraffic } from './traffic.schema.ts'
import { parseWholeNumber, Uuid } from './wire.ts'

const Archive = z
  .object({
    url: z.string().meta({
      description:
        'Download it here with GET and no key, within 15 minutes. Poll with the previous cursor for a new URL.',
    }),
    sha256: z.string().meta({ description: 'The SHA-256 of the archive, in hexadecimal.' }),
    size: z.int().meta({ description: 'Bytes.' }),
  })
  .meta({ id: 'WorkArchive', description: 'An uploaded source archive, a gzip-compressed tar.' })

const Git = z
  .object({
    url: z.string().meta({ description: 'The URL of the repository, without credentials.' }),
    ref: z.string().meta({ description: 'A branch, a tag or a commit.' }),
    commit_sha: z
      .string()
      .nullable()
      .meta({ description: 'Build this commit. Null: resolve `ref` and report its commit.' }),
  })
  .meta({ id: 'WorkGit', description: 'The repository to clone.' })

/** The content of the envelope `tracing` of a revision. */
export type Tracing = {
  /** Mask it in logs, as the secrets are. */
  key: string
  variables: Record<string, string>
}

export const RevisionWork = z
  .object({
    id: Uuid,
    number: z.int().meta({ description: 'Counts up from 1 within the deployment.' }),
    status: RevisionStatus.meta({ description: 'The status from the last report.' }),
    source: Source.meta({ description: 'The source of the revision, which may differ from the deployment’s.' }),
    platform_config_path: z
      .string()
      .nullable()
      .meta({ description: 'The path of the runtime configuration in the source.' }),
    image_uri: z.string().nullable().meta({ description: 'The image to run: of the source, or built before.' }),
    template_id: z.string().nullable().meta({ description: 'The template to run, for `internal_template`.' }),
    git: Git.nullable().meta({ description: 'For `githost`.' }),
    archive: Archive.nullable().meta({ description: 'For `internal_source`.' }),
    root_directory: z.string().nullish().meta({ description: 'The folder of the application in the source.' }),
    install_command: z.string().nullable().meta({ description: 'Overrides the runtime configuration.' }),
    build_command: z.string().nullable().meta({ description: 'Overrides the runtime configuration.' }),
    resource_spec: ResourceSpec.meta({ description: 'Complete: members that were not set have their default.' }),
    parts: z.array(z.enum(parts)).meta({
      description: 'The parts to run beside the application: those with a member in the resource specification.',
    }),
    secrets: Sealed.nullable().meta({
      description: 'Sealed JSON: an object of environment variables and their values. Null without secrets.',
    }),
    secret_references: z.array(SecretReference).meta({ description: 'Environment variables from cluster secrets.' }),
    tracing: Sealed.nullish().meta({
      description:
        'Sealed JSON: an object of `variables` by which the application traces itself, and the `key` in them, which ' +
        'is masked like a secret. Null if it does not.',
    }),
    application_key: Sealed.nullish().meta({
      description: 'Sealed JSON: the key by which clients call the application, if it serves graphs. A text.',
    }),
    deadline: z
      .string()
      .nullable()
      .meta({ format: 'date-time', description: 'Without another report by then, the revision fails.' }),
  })
  .meta({ id: 'RevisionWork', description: 'A revision to build and run.' })
export type RevisionWork = z.output<typeof RevisionWork>

export const Work = z
  .object({
    deployment_id: Uuid,
    generation: Generation,
    wanted: z.enum(['present', 'absent']).meta({
      description:
        '`absent`: stop it, remove everything created for it, then report `removed`. The members below are null.',
    }),
    tenant_id: Uuid.nullable().meta({ description: 'The workspace.' }),
    name: z.string().nullable().meta({ description: 'Unique in its workspace.' }),
    deployment_type: DeploymentType.nullable().meta({
      description: 'Decides the defaults of the resource specification.',
    }),
    custom_url: z.string().nullable().meta({
      description: 'The additional URL to serve it at. Null until its host is verified for the workspace.',
    }),
    k8s_namespace: z.string().nullable().meta({ description: 'Its namespace in the cluster.' }),
    needs_database: z.boolean().meta({
      description: 'Create a Postgres database, set `DATABASE_URI`, then report `database_ready` once.',
    }),
    cleared_stores: z.array(z.string()).nullish().meta({
      description: 'Take a last snapshot of these, and remove them once no revision runs that used them.',
    }),
    database_copy: z
      .object({
        from_deployment_id: Uuid,
        from_name: z.string(),
        copied: z.boolean().meta({ description: 'The control plane knows that it is complete.' }),
      })
      .nullish()
      .meta({
        description:
          'Fill its database once with the data of this one, before you report `database_ready`, and start nothing ' +
          'until that is accepted. Also with `absent`. Null: its database begins empty.',
      }),
    protection: WorkProtection.nullish().meta({
      description: 'Let only these see what is served, and fail closed. Null: everyone may.',
    }),
    request_logs: RequestLogs.nullish().meta({
      description: 'Send these requests through the router as lines of the kind `request`. Null: none.',
    }),
    host_labels: z
      .array(z.object({ label: z.string(), revision_id: Uuid.nullable() }))
      .nullish()
      .meta({
        description:
          'The first labels of its hosts below the domain of the agent: its own, then further ones. With a revision: ' +
          'only while that one serves. Empty: the agent chooses one.',
      }),
    revision: RevisionWork.nullable().meta({
      description:
        'The revision to build and deploy now, beside the serving one. Also a revision that became `UNKNOWN`, ' +
        'while nothing newer is wanted. Null: stop what is in flight.',
    }),
    serving: RevisionWork.nullable().meta({
      description: 'The revision that serves until another one is healthy. Null before the first one.',
    }),
    beside: RevisionWork.nullish().meta({
      description: 'An earlier revision that runs beside the serving one for a share of the traffic.',
    }),
    traffic: WorkTraffic.nullish().meta({ description: 'Null: nothing is split.' }),
  })
  .meta({ id: 'Work', description: 'The wanted state of one deployment.' })
export type Work = z.output<typeof Work>

// ---- the link of an archive

export const ArchiveRef = z.object({ workspace_id: Uuid, upload_id: Uuid })
export const ArchiveSignature = z
  .object({ expires: z.preprocess(parseWholeNumber, z.int()), signature: z.string().max(200) })
  .meta({ example: { expires: '0', signature: 'none' } })
