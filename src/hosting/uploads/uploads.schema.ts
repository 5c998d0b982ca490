// Schemas of uploads.
import * as z from 'zod'
import { BuildPlan } from '../../protocol/build-plan.schema.ts'
import { SourceConfigInput, SourceRevisionConfigInput } from '../../protocol/parts.schema.ts'
import { CREDENTIAL, parseWholeNumber, Uuid } from '../../protocol/wire.ts'

export const NewUpload = z
  .object({
    root_directory: SourceConfigInput.shape.root_directory,
    platform_config_path: SourceRevisionConfigInput.shape.platform_config_path,
  })
  .meta({
    id: 'NewUpload',
    description: 'The settings that the deployment will have. The plan of the archive is made with them.',
    example: { root_directory: 'apps/web' },
  })
export type NewUpload = z.output<typeof NewUpload>

export const UploadTarget = z
  .object({
    upload_url: z
      .url()
      .meta({ ...CREDENTIAL, description: 'PUT the archive to this URL, once, within 15 minutes. No key is needed.' }),
    object_path: z
      .string()
      .meta({ description: 'The value for `source_revision_config.source_tarball_path` after the upload.' }),
  })
  .meta({ id: 'UploadTarget' })
export type UploadTarget = z.output<typeof UploadTarget>

export const Upload = z
  .object({
    object_path: z.string(),
    size: z.int().meta({ description: 'Bytes, as received.' }),
    sha256: z.string().meta({ description: 'The SHA-256 of the archive, in hexadecimal, as `sha256sum` prints it.' }),
    build_plan: BuildPlan.nullable().meta({
      description: 'What was found in the archive. Null if it is too large to be listed, or cannot be planned.',
    }),
    build_refusal: z
      .string()
      .nullable()
      .meta({ description: 'Why no agent can build or start the archive, and what to do.' }),
  })
  .meta({ id: 'Upload' })
export type Upload = z.output<typeof Upload>

export const UploadRef = z.object({ workspace_id: Uuid, upload_id: Uuid })

export const UploadSignature = z.object({
  expires: z
    .preprocess(parseWholeNumber, z.int().min(0))
    .meta({ description: 'When the link expires, in milliseconds since 1970.' }),
  signature: z.string().max(200),
})
