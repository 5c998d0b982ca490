// Archives in an S3-compatible store, over HTTP: multipart uploads, retries and failures.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Config, readConfig } from '../../src/env.ts'
import { openS3Bucket } from '../../src/kernel/s3.ts'
import { createBucketStorage } from '../../src/kernel/storage.ts'
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
const configured = (over: Record<string, string> = {}): Config =>
  readConfig({
    PUBLIC_URL: 'http://slipway.test',
    DATABASE_URL: 'postgres://localhost/x',
    SEALING_KEYS,
    ...s3.settings,
    ...over,
  })
const storage = (over?: Record<string, string>) => createBucketStorage(openS3Bucket(configured(over).s3!))

/** Of so many MiB, each of them different. */
const pieces = (count: number) => Array.from({ length: count }, (_, i) => new Uint8Array(MIB).fill(i + 1))
const streamOf = (chunks: Uint8Array[], end: (out: ReadableStreamDefaultController) => void = out => out.close()) => {
  const left = [...chunks]
  return new ReadableStream<Uint8Array>({
    pull(out) {
      const chunk = left.shift()
      if (chunk) out.enqueue(chunk)
      else end(out)
    },
  })
}
const read = async (path: string) => {
  const body = await storage().get(path)
  return body && Buffer.from(await new Response(body).arrayBuffer())
}
const during = async (work: () => Promise<unknown>) => {
  const [before, already] = [s3.requests.length, s3.unfinished()]
  const outcome = await work().then(
    () => undefined,
    (error: Error) => error,
  )
  const left = s3.unfinished().filter(one => !already.includes(one))
  return { outcome, heard: s3.requests.slice(before), left }
}
const [BEGIN, PART, END, ABORT] = ['POST uploads', 'PUT partNumber uploadId', 'POST uploadId', 'DELETE uploadId']

describe('an archive', () => {
  it('is uploaded in parts, and read back unchanged', async () => {
    const all = pieces(17)
    const { outcome, heard } = await during(() => storage().put('t/1.tar.gz', streamOf(all)))
    expect(outcome).toBe(undefined)
    expect(heard).toEqual([BEGIN, PART, PART, PART, END])
    expect(Buffer.compare((await read('t/1.tar.gz'))!, Buffer.concat(all))).toBe(0)
  })

  it('is streamed while it is read', async () => {
    await storage().put('t/2.tar.gz', streamOf(pieces(9)))
    const reader = (await storage().get('t/2.tar.gz'))!.getReader()
    const { value } = await reader.read()
    expect(value!.byteLength).toBeLessThan(2 * MIB)
    await reader.cancel()
  })

  it('that does not exist is null', async () => {
    expect(await read('t/none.tar.gz')).toBe(null)
  })

  it('can be removed with many others, and twice', async () => {
    const paths = Array.from({ length: 12 }, (_, i) => `t/many-${i}.tar.gz`)
    for (const path of paths) await storage().put(path, streamOf([new Uint8Array(10).fill(1)]))
    await storage().remove(paths.slice(1))
    await storage().remove(paths.slice(1))
    expect(await Promise.all(paths.map(async path => (await read(path)) !== null))).toEqual(
      paths.map((_, i) => i === 0),
    )
  })

  it('whose upload breaks off leaves neither an object nor parts', async () => {
    const cut = new Error('cut')
    const breaking = streamOf(pieces(9), out => out.error(cut))
    const { outcome, heard, left } = await during(() => storage().put('t/cut.tar.gz', breaking))
    expect(outcome).toBe(cut)
    expect(heard).toEqual([BEGIN, PART, ABORT])
    expect([await read('t/cut.tar.gz'), left]).toEqual([null, []])
  })
})

describe('a store that fails', () => {
  /** Of the requests of a kind the first ones, each as told. */
  const failing = (kind: string, times: number, how: Parameters<S3['intercept']>[0]) => {
    let left = times
    s3.intercept((request, response) => s3.requests.at(-1) === kind && left-- > 0 && how(request, response))
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
    ['hangs up', hangUp],
  ])('for a moment gets the part again: the store %s', async (_, how) => {
    failing(PART, 2, how)
    const all = pieces(9)
    const { outcome, heard } = await during(() => storage().put('t/again.tar.gz', streamOf(all)))
    expect(outcome).toBe(undefined)
    expect(heard).toEqual([BEGIN, PART, PART, PART, PART, END])
    expect(Buffer.compare((await read('t/again.tar.gz'))!, Buffer.concat(all))).toBe(0)
  })

  it.each([
    ['a part', PART, busy, [BEGIN, PART, PART, PART, ABORT]],
    ['the beginning', BEGIN, busy, [BEGIN, BEGIN, BEGIN]],
    ['the beginning, unanswered', BEGIN, hangUp, [BEGIN]],
    ['the end, unanswered', END, hangUp, [BEGIN, PART, END, ABORT]],
  ])('for longer fails the upload, which leaves no parts: %s', async (_, kind, how, expected) => {
    failing(kind, 3, how)
    const { outcome, heard, left } = await during(() => storage().put('t/lost.tar.gz', streamOf(pieces(1))))
    expect(outcome).toBeInstanceOf(Error)
    expect(heard).toEqual(expected)
    expect([await read('t/lost.tar.gz'), left]).toEqual([null, []])
  })

  it('within a response of status 200 fails the upload', async () => {
    failing(END, 1, (request, response) => {
      refuseRequest(request, response, 200, 'InternalError')
      return true
    })
    const { outcome, heard } = await during(() => storage().put('t/late.tar.gz', streamOf(pieces(1))))
    expect(outcome!.message).toContain('InternalError')
    expect(heard.at(-1)).toBe(ABORT)
  })

  it('to abort an upload leaves the original error visible', async () => {
    failing(ABORT, 3, busy)
    const cut = new Error('cut')
    expect(
      (
        await during(() =>
          storage().put(
            't/x.tar.gz',
            streamOf([], out => out.error(cut)),
          ),
        )
      ).outcome,
    ).toBe(cut)
  })

  it('to remove an object returns an error, so removal is retried', async () => {
    failing('DELETE', 3, busy)
    const { outcome } = await during(() => storage().remove(['t/x.tar.gz']))
    expect(outcome!.message).toContain('SlowDown')
  })

  it('with a redirect is not followed', async () => {
    let followed = false
    s3.intercept((request, response) => {
      if (request.url === '/elsewhere') followed = true
      else response.writeHead(307, { Location: '/elsewhere' }).end()
      return true
    })
    expect((await during(() => storage().get('t/x.tar.gz'))).outcome).toBeInstanceOf(Error)
    expect(followed).toBe(false)
  })
})

describe('wrong settings', () => {
  it.each([
    ['UPLOADS_S3_SECRET_ACCESS_KEY', 'another', 'SignatureDoesNotMatch'],
    ['UPLOADS_S3_ACCESS_KEY_ID', 'nobody', 'SignatureDoesNotMatch'],
    ['UPLOADS_S3_BUCKET', 'another-bucket', 'NoSuchBucket'],
  ])('%s=%s give an error with the store’s own code, and nothing more', async (name, value, code) => {
    const { outcome, heard } = await during(() => storage({ [name]: value }).put('t/1', streamOf(pieces(1))))
    expect(outcome!.message).toContain(code)
    expect(outcome!.stack).not.toMatch(/hunter2|another/)
    expect(heard).toEqual([BEGIN])
  })

  it('with an unreachable store give an error with the reason', async () => {
    const nowhere = { UPLOADS_S3_ENDPOINT: 'http://127.0.0.1:9' }
    const { outcome } = await during(() => storage(nowhere).put('t/1', streamOf(pieces(1))))
    expect(outcome!.message).toMatch(/ECONNREFUSED|bad port/)
  })
})
