import { arrayBuffer } from 'node:stream/consumers'
import { constants, createZstdCompress, gzipSync, zstdCompressSync } from 'node:zlib'
import type { HonoRequest } from 'hono'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Failure } from '../../src/kernel/http/errors.ts'
import { type RawBody, readRawBody } from '../../src/kernel/http/raw-body.ts'
import { createHeldBytes } from '../../src/kernel/limits/held-bytes.ts'
import { streamBytes } from '../support/hostile-requests.ts'

const LIMITS = { wireBytes: 100_000, bytes: 300_000, heldBytes: 500_000 }
const TYPES = ['multipart/form-data', 'application/json']
const TEXT = new TextEncoder().encode('some text '.repeat(20_000))
const SMALL = new Uint8Array(60_000)
const LARGE = new Uint8Array(90_000)

type Bytes = Uint8Array<ArrayBuffer>
const ENCODERS: Record<string, (bytes: Bytes) => Bytes> = {
  identity: bytes => bytes,
  gzip: bytes => Uint8Array.from(gzipSync(bytes)),
  zstd: bytes => Uint8Array.from(zstdCompressSync(bytes)),
}
const encode = (encoding: string, bytes: Bytes) => ({
  body: ENCODERS[encoding]!(bytes),
  headers: { 'Content-Encoding': encoding },
})
const COMPRESSED = ['gzip', 'zstd']

type Sent = {
  body: Bytes | ReadableStream
  headers?: Record<string, string>
  limits?: typeof LIMITS
  beforeLarge?: () => Promise<void>
  group?: string
  room?: ReturnType<typeof createHeldBytes>
}
const held = createHeldBytes(LIMITS)
const returnBody = async (body: RawBody): Promise<RawBody> => body
async function read<T = RawBody>(sent: Sent, use = returnBody as Use<T>) {
  const { body, headers, limits = LIMITS, beforeLarge = async () => {}, group = 'workspace', room = held } = sent
  const init = { method: 'POST', duplex: 'half', body, headers: { 'Content-Type': 'application/json', ...headers } }
  const raw = new Request('http://slipway.test', init as RequestInit)
  const request = { raw, header: (name: string) => raw.headers.get(name) ?? undefined } as unknown as HonoRequest
  const hold = room.open(() => group)
  try {
    return await use(await readRawBody(request, TYPES, limits, beforeLarge, hold))
  } finally {
    hold.release()
  }
}
type Use<T> = (body: RawBody) => Promise<T>

async function readRefusal(sent: Sent): Promise<string[]> {
  const error: unknown = await read(sent).catch(error => error)
  expect(error).toBeInstanceOf(Failure)
  const { code, extra } = error as Failure
  return [code, ...(extra.errors ?? []).map(({ type }) => type)]
}

afterEach(() => {
  expect(held.state()).toMatchObject({ known: { held: 0 }, strangers: { held: 0 } })
})

describe('a body that is read as bytes', () => {
  it('is passed on with its media type', async () => {
    const contentType = 'Multipart/Form-Data; boundary=a'
    const body = await read({ body: SMALL, headers: { 'Content-Type': contentType } })
    expect(body).toMatchObject({ bytes: SMALL, mediaType: 'multipart/form-data', contentType })
  })

  it.each(['identity', 'gzip', 'zstd'])('is decompressed, in chunks of any size: %s', async encoding => {
    const { body, headers } = encode(encoding, TEXT.slice(0, 95_000))
    for (const sent of [body, streamBytes(body)])
      expect((await read({ body: sent, headers })).bytes).toEqual(TEXT.slice(0, 95_000))
  })

  it.each(['text/plain', 'application/jsonp'])('is refused with the type %s', async type => {
    expect(await readRefusal({ body: TEXT, headers: { 'Content-Type': type } })).toEqual(['media_type_unsupported'])
  })

  it.each(['br', 'deflate', 'gzip, gzip', 'x'])('is refused with the encoding %s', async encoding => {
    const refusal = { code: 'encoding_unsupported', extra: { headers: { 'Accept-Encoding': 'gzip, zstd' } } }
    await expect(read({ body: TEXT, headers: { 'Content-Encoding': encoding } })).rejects.toMatchObject(refusal)
  })

  it('is refused when it is too large, declared or not', async () => {
    const headers = { 'Content-Length': '100001' }
    expect(await readRefusal({ body: streamBytes(SMALL), headers })).toEqual(['batch_too_large'])
    expect(await readRefusal({ body: streamBytes(TEXT) })).toEqual(['batch_too_large'])
  })

  it.each(COMPRESSED)('is refused when it becomes too large, without decompressing the rest: %s', async encoding => {
    const bomb = encode(encoding, new Uint8Array(1024 * 1024))
    const pieces = [bomb.body, ...Array<Bytes>(100).fill(LARGE)]
    let sent = 0
    const body = new ReadableStream({
      pull: controller => (sent < pieces.length ? controller.enqueue(pieces[sent++]) : controller.close()),
    })
    const limits = { ...LIMITS, wireBytes: 10_000_000 }
    expect(await readRefusal({ body, headers: bomb.headers, limits })).toEqual(['batch_too_large'])
    expect(sent).toBeLessThan(50)
  })

  it.each(COMPRESSED)('is refused when it is cut or not compressed: %s', async encoding => {
    const { body, headers } = encode(encoding, TEXT)
    for (const broken of [body.slice(0, -5), body.slice(0, 3), TEXT.slice(0, 50_000)])
      expect(await readRefusal({ body: broken, headers })).toEqual(['invalid_request', 'encoding_invalid'])
  })

  it('is refused when a block is invalid after one that filled the output of the decoder', async () => {
    const blocks = { header: '28b52ffd0058', ofEqualBytes: '02001000', invalid: '250000ffffffff' }
    const body = Uint8Array.from(Buffer.from(Object.values(blocks).join(''), 'hex'))
    expect(await readRefusal({ body, headers: { 'Content-Encoding': 'zstd' } })).toEqual([
      'invalid_request',
      'encoding_invalid',
    ])
  })

  const REMAINDERS = {
    text: TEXT.slice(0, 20),
    'four bytes': TEXT.slice(0, 4),
    zeros: new Uint8Array(20),
    'one zero': new Uint8Array(1),
    'an obsolete frame of zstd': Uint8Array.from(Buffer.from('27b52ffd'.padEnd(32, '0'), 'hex')),
  }
  it.each(
    COMPRESSED.flatMap(encoding => Object.entries(REMAINDERS).map(([what, rest]) => [encoding, what, rest] as const)),
  )('is refused when it goes on after its end: %s, %s', async (encoding, _, rest) => {
    const { body, headers } = encode(encoding, TEXT)
    const whole = Buffer.concat([body, rest])
    const parts = (...chunks: Uint8Array[]) =>
      new ReadableStream({
        start(controller) {
          for (const chunk of chunks) controller.enqueue(chunk)
          controller.close()
        },
      })
    for (const sent of [Uint8Array.from(whole), parts(body, rest), streamBytes(Uint8Array.from(whole))])
      expect(await readRefusal({ body: sent, headers })).toEqual(['invalid_request', 'encoding_invalid'])
  })

  it.each(COMPRESSED)('may be one after another: %s', async encoding => {
    const [first, second] = [TEXT.slice(0, 1000), TEXT.slice(1000, 3000)].map(text => encode(encoding, text).body)
    const { headers } = encode(encoding, SMALL)
    const body = Uint8Array.from(Buffer.concat([first!, second!]))
    for (const sent of [body, streamBytes(body)])
      expect((await read({ body: sent, headers })).bytes).toEqual(TEXT.slice(0, 3000))
  })

  it('is refused when its decompression takes much memory', async () => {
    const compressor = createZstdCompress({ params: { [constants.ZSTD_c_windowLog]: 26 } })
    // The first block is written before the size is known, so that the window is not reduced to it.
    compressor.write(SMALL)
    compressor.flush(() => compressor.end())
    const body = new Uint8Array(await arrayBuffer(compressor))
    expect(await readRefusal({ body, headers: { 'Content-Encoding': 'zstd' } })).toEqual([
      'invalid_request',
      'encoding_invalid',
    ])
  })

  it.each(['identity', 'gzip', 'zstd'])('is refused when the connection closes: %s', async encoding => {
    const { body, headers } = encode(encoding, TEXT.slice(0, 90_000))
    let pulls = 0
    const broken = new ReadableStream({
      pull: controller => (pulls++ === 0 ? controller.enqueue(body.slice(0, 20)) : controller.error(new Error('gone'))),
    })
    expect(await readRefusal({ body: broken, headers })).toEqual(['body_cut'])
  })

  it.each([
    ['identity', SMALL, 0],
    ['identity', LARGE, 1],
    ['gzip', SMALL, 0],
    ['gzip', LARGE, 1],
    ['zstd', LARGE, 1],
  ])('waits for its key to be verified once, before it is large: %s', async (encoding, bytes, expected) => {
    const { body, headers } = encode(encoding, bytes)
    for (const sent of [body, streamBytes(body)]) {
      let verified = 0
      await read({ body: sent, headers, beforeLarge: async () => void verified++ })
      expect(verified).toBe(expected)
    }
    const refuse = () => Promise.reject(new Failure('key_unknown'))
    if (expected > 0) expect(await readRefusal({ body, headers, beforeLarge: refuse })).toEqual(['key_unknown'])
  })

  it('counts as held until it is processed, within the share of its workspace', async () => {
    const body = encode('gzip', new Uint8Array(290_000))
    await read(body, async () => {
      const refusal = { code: 'bodies_busy', extra: { headers: { 'Retry-After': '1' } } }
      await expect(read(body)).rejects.toMatchObject(refusal)
      await read({ body: LARGE, group: 'other' })
    })
    await expect(read(body, () => Promise.reject(new Error('failed')))).rejects.toThrow('failed')
    expect((await read(body)).bytes).toHaveLength(290_000)
  })

  it('leaves room for other workspaces while stalled ones of one workspace hold its share', async () => {
    const stalled = Array.from({ length: 20 }, () => stallAfter(SMALL))
    const reads = stalled.map(({ body }) => readRefusal({ body }))
    await expect.poll(() => held.state().known.held).toBeGreaterThan(LIMITS.heldBytes / 2)
    const others = await read({ body: new Uint8Array(30_000), group: 'other' }).finally(() => {
      for (const { cut } of stalled) cut()
    })
    expect(others.bytes).toHaveLength(30_000)
    expect(new Set((await Promise.all(reads)).flat())).toEqual(new Set(['bodies_busy', 'body_cut']))
  })

  it('from callers that are not known divides a small part by their addresses', async () => {
    const stranger = 'address 192.0.2.1'
    const { body, cut } = stallAfter(new Uint8Array(40_000))
    const reading = readRefusal({ body, group: stranger })
    await expect.poll(() => held.state().strangers.held).toBe(40_000)
    await expect(read({ body: SMALL, group: stranger })).rejects.toMatchObject({ code: 'bodies_busy' })
    expect((await read({ body: new Uint8Array(3000), group: 'address 192.0.2.2' })).bytes).toHaveLength(3000)
    cut()
    expect(await reading).toEqual(['body_cut'])
  })
})

/** Stays open after these bytes, until it is cut. */
function stallAfter(bytes: Bytes) {
  let cut = () => {}
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(bytes)
      cut = () => controller.error(new Error('gone'))
    },
  })
  return { body, cut }
}

describe('a body that arrives slowly', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
  afterEach(() => void vi.useRealTimers())

  it.each(['identity', 'gzip', 'zstd'])('is ended when it brings nothing for some seconds: %s', async encoding => {
    const { body, headers } = encode(encoding, TEXT.slice(0, 90_000))
    let isCancelled = false
    const stalled = new ReadableStream<Uint8Array>({
      start: controller => controller.enqueue(body.slice(0, 100)),
      cancel: () => {
        isCancelled = true
      },
    })
    const reading = readRefusal({ body: stalled, headers })
    const ended = vi.fn()
    reading.then(ended)
    await vi.waitFor(() => expect(vi.getTimerCount()).toBe(1))
    await vi.advanceTimersByTimeAsync(9000)
    expect(ended).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(1100)
    expect(await reading).toEqual(['body_too_slow'])
    expect(isCancelled).toBe(true)
  })

  it('gives its room back after a while where its request was dropped', async () => {
    const room = createHeldBytes(LIMITS)
    room.open(() => 'workspace').growTo(LIMITS.bytes)
    await expect(read({ body: LARGE, room })).rejects.toMatchObject({ code: 'bodies_busy' })
    await vi.advanceTimersByTimeAsync(16 * 60_000)
    expect((await read({ body: LARGE, room })).bytes).toEqual(LARGE)
  })

  /** Brings so many bytes every second. */
  const trickle = (bytesPerSecond: number, seconds: number) => {
    let left = seconds
    let isCancelled = false
    return new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          await new Promise(resolve => setTimeout(resolve, 1000))
          if (isCancelled) return
          if (left-- === 0) controller.close()
          else controller.enqueue(new Uint8Array(bytesPerSecond))
        },
        cancel: () => {
          isCancelled = true
        },
      },
      { highWaterMark: 0 },
    )
  }

  it('is ended when it brings too little', async () => {
    const reading = readRefusal({ body: trickle(1, 1000) })
    await vi.advanceTimersByTimeAsync(25_000)
    expect(await reading).toEqual(['body_too_slow'])
  })

  it('is read to its end when it brings enough', async () => {
    const large = createHeldBytes({ ...LIMITS, bytes: 4_000_000, heldBytes: 8_000_000 })
    const limits = { wireBytes: 4_000_000, bytes: 4_000_000, heldBytes: 8_000_000 }
    const reading = read({ body: trickle(40_000, 60), limits, room: large })
    await vi.advanceTimersByTimeAsync(62_000)
    expect((await reading).bytes).toHaveLength(60 * 40_000)
  })
})
