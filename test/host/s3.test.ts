// Archives in an S3-compatible store: multipart uploads, retries and failures.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Config, readConfig } from '../../src/env.ts'
import { openS3Bucket } from '../../src/kernel/db/s3.ts'
import { createBucketStorage } from '../../src/kernel/db/storage.ts'
import { refuseRequest, type S3, startS3 } from '../support/s3.ts'

const folder = mkdtempSync(join(tmpdir(), 'slipway-s3-'))
const MIB = 1024 * 1024
let s3: S3

beforeAll(async () => {
  s3 = await startS3(folder)
})
afterEach(() => s3.intercept(() => false))
afterAll(async () => {
  await s3.close()
  rmSync(folder, { recursive: true, force: true, maxRetries: 9 })
})

const SEALING_KEYS = `first:${Buffer.alloc(32, 7).toString('base64url')}`
const makeConfig = (overrides: Record<string, string> = {}): Config =>
  readConfig({
    PUBLIC_URL: 'http://slipway.test',
    DATABASE_URL: 'postgres://localhost/x',
    SEALING_KEYS,
    ...s3.settings,
    ...overrides,
  })
const storage = (overrides?: Record<string, string>) => createBucketStorage(openS3Bucket(makeConfig(overrides).s3!))

/** Chunks of 1 MiB with different content. */
const makeChunks = (count: number) => Array.from({ length: count }, (_, i) => new Uint8Array(MIB).fill(i + 1))
const streamOf = (
  chunks: Uint8Array[],
  end: (controller: ReadableStreamDefaultController) => void = controller => controller.close(),
) => {
  const remaining = [...chunks]
  return new ReadableStream<Uint8Array>({
    pull(controller) {
      const chunk = remaining.shift()
      if (chunk) controller.enqueue(chunk)
      else end(controller)
    },
  })
}
const read = async (path: string) => {
  const body = await storage().get(path)
  return body && Buffer.from(await new Response(body).arrayBuffer())
}
/** Returns the error of the operation, the requests that the store received, and the uploads left unfinished. */
const record = async (operation: () => Promise<unknown>) => {
  const [requestsBefore, unfinishedBefore] = [s3.requests.length, s3.unfinished()]
  const error = await operation().then(
    () => undefined,
    (error: Error) => error,
  )
  const unfinished = s3.unfinished().filter(upload => !unfinishedBefore.includes(upload))
  return { error, requests: s3.requests.slice(requestsBefore), unfinished }
}
const [BEGIN, PART, END, ABORT] = ['POST uploads', 'PUT partNumber uploadId', 'POST uploadId', 'DELETE uploadId']

describe('an archive', () => {
  it('is uploaded in parts, and read back unchanged', async () => {
    const all = makeChunks(17)
    const { error, requests } = await record(() => storage().put('t/1.tar.gz', streamOf(all)))
    expect(error).toBe(undefined)
    expect(requests).toEqual([BEGIN, PART, PART, PART, END])
    expect(Buffer.compare((await read('t/1.tar.gz'))!, Buffer.concat(all))).toBe(0)
  })

  it('is read as a stream', async () => {
    await storage().put('t/2.tar.gz', streamOf(makeChunks(9)))
    const reader = (await storage().get('t/2.tar.gz'))!.getReader()
    const { value } = await reader.read()
    expect(value!.byteLength).toBeLessThan(2 * MIB)
    await reader.cancel()
  })

  it('that does not exist is read as null', async () => {
    expect(await read('t/none.tar.gz')).toBe(null)
  })

  it('can be removed together with others, also repeatedly', async () => {
    const paths = Array.from({ length: 12 }, (_, i) => `t/many-${i}.tar.gz`)
    for (const path of paths) await storage().put(path, streamOf([new Uint8Array(10).fill(1)]))
    await storage().remove(paths.slice(1))
    await storage().remove(paths.slice(1))
    expect(await Promise.all(paths.map(async path => (await read(path)) !== null))).toEqual(
      paths.map((_, i) => i === 0),
    )
  })

  it('whose upload is cut leaves neither an object nor parts', async () => {
    const cut = new Error('cut')
    const breaking = streamOf(makeChunks(9), controller => controller.error(cut))
    const { error, requests, unfinished } = await record(() => storage().put('t/cut.tar.gz', breaking))
    expect(error).toBe(cut)
    expect(requests).toEqual([BEGIN, PART, ABORT])
    expect([await read('t/cut.tar.gz'), unfinished]).toEqual([null, []])
  })
})

describe('a failure of the store', () => {
  /** Makes the first requests of a kind fail. */
  const failRequests = (kind: string, times: number, fail: Parameters<S3['intercept']>[0]) => {
    let remaining = times
    s3.intercept((request, response) => s3.requests.at(-1) === kind && remaining-- > 0 && fail(request, response))
  }
  const busy: Parameters<S3['intercept']>[0] = (request, response) => {
    refuseRequest(request, response, 503, 'SlowDown')
    return true
  }
  const hangUp: Parameters<S3['intercept']>[0] = request => {
    request.socket.destroy()
    return true
  }

  it.each([
    ['is busy', busy],
    ['closes the connection', hangUp],
  ])('is retried with the same part if the store %s for a moment', async (_, fail) => {
    failRequests(PART, 2, fail)
    const all = makeChunks(9)
    const { error, requests } = await record(() => storage().put('t/again.tar.gz', streamOf(all)))
    expect(error).toBe(undefined)
    expect(requests).toEqual([BEGIN, PART, PART, PART, PART, END])
    expect(Buffer.compare((await read('t/again.tar.gz'))!, Buffer.concat(all))).toBe(0)
  })

  it.each([
    ['at a part', PART, busy, [BEGIN, PART, PART, PART, ABORT]],
    ['at the beginning', BEGIN, busy, [BEGIN, BEGIN, BEGIN]],
    ['without an answer to the beginning', BEGIN, hangUp, [BEGIN]],
    ['without an answer to the end', END, hangUp, [BEGIN, PART, END, ABORT]],
  ])('%s that persists fails the upload, which leaves no parts', async (_, kind, fail, expected) => {
    failRequests(kind, 3, fail)
    const { error, requests, unfinished } = await record(() => storage().put('t/lost.tar.gz', streamOf(makeChunks(1))))
    expect(error).toBeInstanceOf(Error)
    expect(requests).toEqual(expected)
    expect([await read('t/lost.tar.gz'), unfinished]).toEqual([null, []])
  })

  it('in a response with the status 200 fails the upload', async () => {
    failRequests(END, 1, (request, response) => {
      refuseRequest(request, response, 200, 'InternalError')
      return true
    })
    const { error, requests } = await record(() => storage().put('t/late.tar.gz', streamOf(makeChunks(1))))
    expect(error!.message).toContain('InternalError')
    expect(requests.at(-1)).toBe(ABORT)
  })

  it('to abort an upload does not replace the original error', async () => {
    failRequests(ABORT, 3, busy)
    const cut = new Error('cut')
    const breaking = streamOf([], controller => controller.error(cut))
    const { error } = await record(() => storage().put('t/x.tar.gz', breaking))
    expect(error).toBe(cut)
  })

  it('to remove an object fails the removal, so that it is retried later', async () => {
    failRequests('DELETE', 3, busy)
    const { error } = await record(() => storage().remove(['t/x.tar.gz']))
    expect(error!.message).toContain('SlowDown')
  })

  it('that is a redirect is not followed', async () => {
    let isFollowed = false
    s3.intercept((request, response) => {
      if (request.url === '/elsewhere') isFollowed = true
      else response.writeHead(307, { Location: '/elsewhere' }).end()
      return true
    })
    expect((await record(() => storage().get('t/x.tar.gz'))).error).toBeInstanceOf(Error)
    expect(isFollowed).toBe(false)
  })
})

describe('wrong settings', () => {
  it.each([
    ['UPLOADS_S3_SECRET_ACCESS_KEY', 'another', 'SignatureDoesNotMatch'],
    ['UPLOADS_S3_ACCESS_KEY_ID', 'unknown', 'SignatureDoesNotMatch'],
    ['UPLOADS_S3_BUCKET', 'another-bucket', 'NoSuchBucket'],
  ])(
    'with %s=%s fail the upload with the error code of the store, and no secret in the message',
    async (name, value, code) => {
      const { error, requests } = await record(() => storage({ [name]: value }).put('t/1', streamOf(makeChunks(1))))
      expect(error!.message).toContain(code)
      expect(error!.stack).not.toMatch(/hunter2|another/)
      expect(requests).toEqual([BEGIN])
    },
  )

  it('with an unreachable store fail the upload with the reason', async () => {
    const unreachable = { UPLOADS_S3_ENDPOINT: 'http://127.0.0.1:9' }
    const { error } = await record(() => storage(unreachable).put('t/1', streamOf(makeChunks(1))))
    expect(error!.message).toMatch(/ECONNREFUSED|bad port/)
  })
})
