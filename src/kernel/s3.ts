// A bucket of any S3-compatible store, over its HTTP API; a host that has no binding of Workers is given this one.
import { AwsClient } from 'aws4fetch'
import type { S3Settings } from '../env.ts'
import type { Bucket } from './storage.ts'

const MAX_TRIES = 3
const RETRY_PAUSE_MS = 200
const ANSWER_TIMEOUT_MS = 60_000
const PARALLEL_DELETES = 5
const RETRYABLE_STATUSES = [429, 500, 502, 503, 504]

/** What the store refused, in its own code. What was sent and what it says of it are not for the log. */
const refusalError = (method: string, status: number, text: string): Error => {
  const [, code = 'without a code'] = /<Code>(\w{1,64})<\/Code>/.exec(text) ?? []
  return new Error(`The S3 store answered ${status} to ${method}: ${code}`)
}
const noAnswerError = (method: string, cause: Error): Error =>
  new Error(`The S3 store did not answer ${method}: ${((cause.cause as Error | undefined) ?? cause).message}`)

export function openS3Bucket({ endpoint, bucket, ...credentials }: S3Settings): Bucket {
  const client = new AwsClient({ ...credentials, service: 's3' })
  type Body = string | Uint8Array<ArrayBuffer>

  /** The limit is for the answer to begin: what it then streams may take its time. */
  async function once(method: string, url: string, body?: Body): Promise<Response> {
    const limit = new AbortController()
    const timer = setTimeout(() => limit.abort(new Error('it took too long')), ANSWER_TIMEOUT_MS)
    try {
      // Signed for this address: a redirect is not followed.
      const init: RequestInit = { method, redirect: 'manual', ...(body !== undefined && { body }) }
      return await fetch(await client.sign(url, init), { signal: limit.signal })
    } finally {
      clearTimeout(timer)
    }
  }

  /** Tries again what may pass. A POST that went unanswered may have happened, and is not repeated. */
  async function ask(method: string, path: string, query = '', body?: Body): Promise<Response> {
    for (let attempt = 1; ; attempt++) {
      const last = attempt === MAX_TRIES
      const answer = await once(method, `${endpoint}/${bucket}/${path}${query}`, body).catch((cause: Error) => {
        if (last || method === 'POST') throw noAnswerError(method, cause)
      })
      if (answer) {
        if (answer.ok || (method === 'GET' && answer.status === 404)) return answer
        const text = await answer.text()
        if (last || !RETRYABLE_STATUSES.includes(answer.status)) throw refusalError(method, answer.status, text)
      }
      await new Promise(resolve => setTimeout(resolve, RETRY_PAUSE_MS * 2 ** attempt * Math.random()))
    }
  }

  return {
    async createMultipartUpload(path) {
      const offered = await (await ask('POST', path, '?uploads')).text()
      const [, id] = /<UploadId>([^<]+)<\/UploadId>/.exec(offered) ?? []
      if (id === undefined) throw new Error('The S3 store began an upload without naming it')
      const upload = `uploadId=${encodeURIComponent(id)}`
      return {
        async uploadPart(partNumber, part) {
          const answer = await ask('PUT', path, `?partNumber=${partNumber}&${upload}`, part)
          await answer.body?.cancel()
          return { partNumber, etag: answer.headers.get('ETag') ?? '' }
        },
        async complete(parts) {
          const listed = parts.map(
            part => `<Part><PartNumber>${part.partNumber}</PartNumber><ETag>${part.etag}</ETag></Part>`,
          )
          const body = `<CompleteMultipartUpload>${listed.join('')}</CompleteMultipartUpload>`
          const answer = await ask('POST', path, `?${upload}`, body)
          // It begins its answer before it knows, so a 200 may still say that it failed.
          const text = await answer.text()
          if (!text.includes('<CompleteMultipartUploadResult')) throw refusalError('POST', answer.status, text)
        },
        async abort() {
          await (await ask('DELETE', path, `?${upload}`)).body?.cancel()
        },
      }
    },
    async get(path) {
      const { status, body } = await ask('GET', path)
      if (status === 200 && body) return { body }
      await body?.cancel()
      return null
    },
    /** One by one: what removes many at once wants a checksum, and each store another one. */
    async delete(paths) {
      for (let at = 0; at < paths.length; at += PARALLEL_DELETES) {
        const removed = paths
          .slice(at, at + PARALLEL_DELETES)
          .map(async path => (await ask('DELETE', path)).body?.cancel())
        await Promise.all(removed)
      }
    },
  }
}
