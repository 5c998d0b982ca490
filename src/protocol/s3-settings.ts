// The settings of an S3-compatible store. Each program has names of its own for them.
import * as z from 'zod'

export type S3Settings = {
  endpoint: string
  bucket: string
  /** By default taken from the endpoint's name, else us-east-1. */
  region?: string
  accessKeyId: string
  secretAccessKey: string
}

/** Plain http is allowed only to this machine. */
const isEndpoint = (text: string): boolean => {
  if (!URL.canParse(text)) return false
  const { protocol, hostname, search, hash, username, password } = new URL(text)
  const isLoopback = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname)
  return (protocol === 'https:' || (protocol === 'http:' && isLoopback)) && !(search || hash || username || password)
}
const ENDPOINT_ERROR = 'must be an address such as https://s3.example.com; http is allowed only for this machine'
const BUCKET_ERROR = 'must be the name of a bucket'

export const s3Settings = {
  endpoint: z
    .string({ error: ENDPOINT_ERROR })
    .refine(isEndpoint, { error: ENDPOINT_ERROR })
    .transform(text => text.replace(/\/$/, '')),
  bucket: z.string({ error: BUCKET_ERROR }).regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, { error: BUCKET_ERROR }),
  region: z
    .string()
    .regex(/^[a-z0-9-]{1,64}$/, { error: 'must be the name of a region, such as eu-central-1' })
    .optional(),
  accessKeyId: z.string({ error: 'must be the id of the access key' }),
  secretAccessKey: z.string({ error: 'must be the secret of the access key' }),
}
