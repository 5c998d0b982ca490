// The operator's settings of the bucket for backups and snapshots.
import * as z from 'zod'
import { describeIssue } from '../../protocol/fault-messages.ts'
import { s3Settings } from '../../protocol/s3-settings.ts'
import type { BucketSettings } from './bucket-store.ts'

const PREFIX_ERROR = 'must be at most 200 letters, digits and any of `._-/`, not at an end `/`'
const Settings = z
  .object({
    BACKUPS_S3_ENDPOINT: s3Settings.endpoint,
    BACKUPS_S3_BUCKET: s3Settings.bucket,
    BACKUPS_S3_REGION: s3Settings.region,
    BACKUPS_S3_ACCESS_KEY_ID: s3Settings.accessKeyId,
    BACKUPS_S3_SECRET_ACCESS_KEY: s3Settings.secretAccessKey,
    BACKUPS_S3_PREFIX: z
      .string()
      .max(200, { error: PREFIX_ERROR })
      .regex(/^[A-Za-z0-9._-]+(\/[A-Za-z0-9._-]+)*$/, { error: PREFIX_ERROR })
      .optional(),
  })
  .transform(
    ({ BACKUPS_S3_REGION: region, ...all }): BucketSettings => ({
      endpoint: all.BACKUPS_S3_ENDPOINT,
      bucket: all.BACKUPS_S3_BUCKET,
      ...(region !== undefined && { region }),
      accessKeyId: all.BACKUPS_S3_ACCESS_KEY_ID,
      secretAccessKey: all.BACKUPS_S3_SECRET_ACCESS_KEY,
      prefix: all.BACKUPS_S3_PREFIX ?? '',
    }),
  )

/** Undefined if none is set: backups and snapshots are in the agent's home. */
export function readBucketSettings(env: Record<string, string | undefined>): BucketSettings | undefined {
  const variables = Object.fromEntries(
    Object.entries(env).filter(([name, value]) => name.startsWith('BACKUPS_S3_') && value),
  )
  if (Object.keys(variables).length === 0) return undefined
  const { data, error } = Settings.safeParse(variables, { error: describeIssue })
  if (data) return data
  throw new Error(error.issues.map(({ path, message }) => `${path.join('.')} ${message}.`).join(' '))
}
