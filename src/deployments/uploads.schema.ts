// What crosses the wire of uploads.
import * as z from 'zod'
import { parseWholeNumber, Uuid } from '../protocol/wire.ts'

export const UploadTarget = z
  .object({
    upload_url: z.url().meta({ description: 'PUT the archive here, once, within 15 minutes; it takes no key.' }),
    object_path: z
      .string()
      .meta({ description: 'For `source_revision_config.source_tarball_path`, once it is uploaded.' }),
  })
  .meta({ id: 'UploadTarget' })
export type UploadTarget = z.output<typeof UploadTarget>

export const Upload = z
  .object({
    object_path: z.string(),
    size: z.int().meta({ description: 'In bytes, as it came.' }),
    sha256: z.string().meta({ description: 'The SHA-256 of the archive, in hexadecimal, as `sha256sum` prints it.' }),
  })
  .meta({ id: 'Upload' })
export type Upload = z.output<typeof Upload>

export const UploadRef = z.object({ workspace_id: Uuid, upload_id: Uuid })

export const UploadSignature = z.object({
  expires: z
    .preprocess(parseWholeNumber, z.int().min(0))
    .meta({ description: 'When the link ends, in milliseconds since 1970.' }),
  signature: z.string().max(200),
})
