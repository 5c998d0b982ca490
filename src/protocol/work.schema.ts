// What is wanted of a deployment, as an agent is told.
import * as z from 'zod'
import { RevisionStatus, SecretReference, Source } from './parts.schema.ts'
import { DeploymentType, parts, ResourceSpec } from './resources.schema.ts'
import { Generation, Sealed } from './sync-fields.schema.ts'
import { parseWholeNumber, Uuid } from './wire.ts'

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
    custom_url: z.string().nullable().meta({
      description: 'Where it is to be served besides. Null until the host is the workspace’s to be served here.',
    }),
    k8s_namespace: z.string().nullable().meta({ description: 'Where in the cluster it belongs.' }),
    needs_database: z.boolean().meta({
      description: 'Give it a Postgres, and its address in `DATABASE_URI`; then report `database_ready`, once.',
    }),
    revision: RevisionWork.nullable().meta({
      description:
        'The one to build and deploy now, beside the one that serves; also one that became `UNKNOWN`, while nothing newer is wanted. Null: stop what is still in flight.',
    }),
    serving: RevisionWork.nullable().meta({
      description: 'The one that serves until another is healthy. Null: none does yet.',
    }),
  })
  .meta({ id: 'Work', description: 'All that is wanted of one deployment.' })
export type Work = z.output<typeof Work>

// ---- the link of an archive

export const ArchiveRef = z.object({ workspace_id: Uuid, upload_id: Uuid })
export const ArchiveSignature = z
  .object({ expires: z.preprocess(parseWholeNumber, z.int()), signature: z.string().max(200) })
  .meta({ example: { expires: '0', signature: 'none' } })
