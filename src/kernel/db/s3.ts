// A bucket of any S3-compatible store, over its HTTP API, for hosts without the R2 binding of Workers.
import type { S3Settings } from '../../protocol/s3-settings.ts'
import { loadOnce } from '../http/load-once.ts'
import type { Bucket } from './storage.ts'

type Body = string | Uint8Array<ArrayBuffer>

const MAX_TRIES = 3
const RETRY_PAUSE_MS = 200
const RESPONSE_TIMEOUT_MS = 60_000
/** For a body that takes its time on a slow line. */
const SLOWEST_BYTES_PER_MS = 50
const PARALLEL_DELETES = 5
const RETRYABLE_STATUSES = [429, 500, 502, 503, 504]

/** Only the store's error code: its message repeats parts of the request, which must not reach the log. */
const refusalError = (method: string, status: number, text: string): Error => {
  const [, code = 'no error code'] = /<Code>(\w{1,64})<\/Code>/.exec(text) ?? []
  return new Error(`The S3 store answered ${status} to ${method}: ${code}`)
}
const noResponseError = (method: string, cause: Error): Error =>
  new Error(`The S3 store did not answer ${method}: ${((cause.cause as Error | undefined) ?? cause).message}`)

/** Sends a signed request for a path of the bucket. Its answer is good, or a 404 to a GET. */
export type SendToS3 = (method: string, path: string, query?: string, body?: Body) => Promise<Response>

/** `request`: a fetch() that streams. By default that of the runtime. */
export function openS3({ endpoint, bucket, ...credentials }: S3Settings, request = fetch): SendToS3 {
  const loadClient = loadOnce(async () => {
    const { AwsClient } = await import('aws4fetch')
    return new AwsClient({ ...credentials, service: 's3' })
  })
  /** The timeout covers the time to the headers. The body may stream for longer. */
  async function sendOnce(method: string, url: string, body?: Body): Promise<Response> {
    const client = await loadClient()
    const limit = new AbortController()
    const timer = setTimeout(
      () => limit.abort(new Error('no response in time')),
      RESPONSE_TIMEOUT_MS + (body?.length ?? 0) / SLOWEST_BYTES_PER_MS,
    )
    try {
      // The signature is valid for this address only, so redirects are not followed.
      const init: RequestInit = { method, redirect: 'manual', ...(body !== undefined && { body }) }
      return await request(await client.sign(url, init), { signal: limit.signal })
    } finally {
      clearTimeout(timer)
    }
  }

  /** Retries transient failures. A POST without a response may have taken effect, so it is not retried. */
  return async (method, path, query = '', body) => {
    for (let attempt = 1; ; attempt++) {
      const last = attempt === MAX_TRIES
      const response = await sendOnce(method, `${endpoint}/${bucket}/${path}${query}`, body).catch((cause: Error) => {
        if (last || method === 'POST') throw noResponseError(method, cause)
      })
      if (response) {
        if (response.ok || (method === 'GET' && response.status === 404)) return response
        const text = await response.text()
        if (last || !RETRYABLE_STATUSES.includes(response.status)) throw refusalError(method, response.status, text)
      }
      await new Promise(resolve => setTimeout(resolve, RETRY_PAUSE_MS * 2 ** attempt * Math.random()))
    }
  }
}

export function openS3Bucket(settings: S3Settings, request?: typeof fetch): Bucket {
  return toBucket(openS3(settings, request))
}

export const toBucket = (send: SendToS3): Bucket => ({
  async put(path, body) {
    await (await send('PUT', path, '', body)).body?.cancel()
  },
  async createMultipartUpload(path) {
    const xml = await (await send('POST', path, '?uploads')).text()
    const [, id] = /<UploadId>([^<]+)<\/UploadId>/.exec(xml) ?? []
    if (id === undefined) throw new Error('The S3 store started an upload without an UploadId.')
    const upload = `uploadId=${encodeURIComponent(id)}`
    return {
      async uploadPart(partNumber, part) {
        const response = await send('PUT', path, `?partNumber=${partNumber}&${upload}`, part)
        await response.body?.cancel()
        return { partNumber, etag: response.headers.get('ETag') ?? '' }
      },
      async complete(parts) {
        const partList = parts.map(
          part => `<Part><PartNumber>${part.partNumber}</PartNumber><ETag>${part.etag}</ETag></Part>`,
        )
        const body = `<CompleteMultipartUpload>${partList.join('')}</CompleteMultipartUpload>`
        const response = await send('POST', path, `?${upload}`, body)
        // S3 starts the response before it knows the outcome, so a 200 can still carry an error.
        const text = await response.text()
        if (!text.includes('<CompleteMultipartUploadResult')) throw refusalError('POST', response.status, text)
      },
      async abort() {
        await (await send('DELETE', path, `?${upload}`)).body?.cancel()
      },
    }
  },
  async get(path) {
    const { status, body } = await send('GET', path)
    if (status === 200 && body) return { body }
    await body?.cancel()
    return null
  },
  /** One request per object: the bulk delete needs a checksum, and stores disagree about which. */
  async delete(paths) {
    for (let i = 0; i < paths.length; i += PARALLEL_DELETES) {
      const deletions = paths
        .slice(i, i + PARALLEL_DELETES)
        .map(async path => (await send('DELETE', path)).body?.cancel())
      await Promise.all(deletions)
    }
  },
})
