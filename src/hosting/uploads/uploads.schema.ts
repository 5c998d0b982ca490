// Schemas of uploads.
import * as z from 'zod'
import { CREDENTIAL, parseWholeNumber, Uuid } from '../../protocol/wire.ts'

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
