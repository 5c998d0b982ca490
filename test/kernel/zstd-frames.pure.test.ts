import { constants, zstdCompressSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { decompress } from '../../src/kernel/http/decompress.ts'
import { createFrameReader } from '../../src/kernel/http/zstd-frames.ts'

const TEXT = Buffer.from(Array.from({ length: 300 }, (_, i) => `${i * 7919}`).join())
const compress = (bytes: Uint8Array, params: Record<number, number> = {}) => zstdCompressSync(bytes, { params })
const withChecksum = { [constants.ZSTD_c_checksumFlag]: 1 }
const withoutSize = { [constants.ZSTD_c_contentSizeFlag]: 0 }

const BODIES: Record<string, Uint8Array[]> = {
  'one frame': [compress(TEXT)],
  'with a checksum': [compress(TEXT, withChecksum)],
  'without its size': [compress(TEXT, withoutSize)],
  'of nothing': [compress(new Uint8Array())],
  'of equal bytes': [compress(new Uint8Array(200_000))],
  'of several blocks': [compress(crypto.getRandomValues(new Uint8Array(60_000))), compress(new Uint8Array(300_000))],
  'several frames, one of which is skipped': [
    compress(TEXT, withChecksum),
    Uint8Array.of(0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3),
    Uint8Array.of(0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0),
    compress(TEXT, withoutSize),
  ],
}

it.each(Object.entries(BODIES))('a body that is cut is not whole: %s', (_, frames) => {
  const body = Buffer.concat(frames)
  const starts = [...frames, Buffer.from('28b52ffd', 'hex')].map(frame => Buffer.from(frame).readUInt32LE())
  // A frame ends where another one starts: Deno's encoder writes an empty one at the end.
  const isEnd = (length: number) =>
    length === body.length || (length + 4 < body.length && starts.includes(body.readUInt32LE(length)))
  const reader = createFrameReader()
  expect(reader.isWhole()).toBe(false)
  for (let length = 1; length <= body.length; length++) {
    reader.push(body.subarray(length - 1, length))
    if (reader.isWhole() !== isEnd(length)) expect.fail(`the first ${length} bytes of ${body.length}`)
  }
  const whole = createFrameReader()
  whole.push(body)
  expect(whole.isWhole()).toBe(true)
})

it('a body with anything but frames is not whole', () => {
  for (const body of [TEXT, Buffer.concat([compress(TEXT), TEXT])]) {
    const reader = createFrameReader()
    reader.push(body)
    expect(reader.isWhole()).toBe(false)
  }
})

async function inflate(body: Uint8Array, size: number): Promise<string> {
  async function* chunks() {
    for (let at = 0; at < body.length; at += size) yield body.subarray(at, at + size)
  }
  const parts: Uint8Array[] = []
  for await (const part of decompress(chunks(), 'zstd')) parts.push(part)
  return Buffer.concat(parts).toString()
}

it('every frame is decompressed wherever its chunks end, and a flood of frames or blocks is refused', async () => {
  const frames = BODIES['several frames, one of which is skipped']!
  const body = Buffer.concat(frames)
  for (const size of [body.length, frames[0]!.length + 2, frames[0]!.length, 5])
    expect(await inflate(body, size), `in chunks of ${size}`).toBe(`${TEXT}${TEXT}`)
  const flood = Buffer.concat(Array<Uint8Array>(5000).fill(compress(new Uint8Array())))
  const blocks = Buffer.from(`28b52ffd0058${'000000'.repeat(5000)}010000`, 'hex')
  for (const body of [flood, blocks])
    await expect(inflate(body, body.length)).rejects.toMatchObject({ code: 'invalid_request' })
})
