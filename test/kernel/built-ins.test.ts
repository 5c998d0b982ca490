// Built-ins of Node that the app uses, on each runtime: see docs/design/runtimes.md. For node:dns see
// edge/txt-records.test.ts and host/txt-records.test.ts.
import { describe, expect, it } from 'vitest'
import { derivedUuid, hmacSha256, isSameDigest, sha256, sha256Hex } from '../../src/kernel/crypto/digest.ts'
import { decompress } from '../../src/kernel/http/decompress.ts'

const ABC = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'

describe('node:crypto', () => {
  it('hashes text and bytes, at once and in parts', () => {
    expect(sha256Hex('abc')).toBe(ABC)
    expect(sha256Hex(Uint8Array.of(97, 98, 99))).toBe(ABC)
    expect(sha256().update('a').update(Uint8Array.of(98, 99)).digest('hex')).toBe(ABC)
    expect(derivedUuid('abc')).toBe('ba7816bf-8f01-8fea-a141-40de5dae2223')
  })

  it('signs by HMAC, and compares digests', () => {
    const signature = hmacSha256('key').update('The quick brown fox jumps over the lazy dog').digest('hex')
    expect(signature).toBe('f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8')
    expect(isSameDigest(signature, signature)).toBe(true)
    expect(isSameDigest(signature, ABC)).toBe(false)
    expect(isSameDigest(signature, ABC.slice(2))).toBe(false)
  })
})

describe('node:zlib and node:stream', () => {
  const text = 'slipway '.repeat(64)
  const bodies = {
    gzip: new Blob([text]).stream().pipeThrough(new CompressionStream('gzip')),
    zstd: new Blob([Buffer.from('KLUv/WAAAX0AAEBzbGlwd2F5IAEA9VMLFw==', 'base64')]).stream(),
  }

  it.each(Object.entries(bodies))('decompress %s while it arrives', async (coding, body) => {
    const chunks: Uint8Array[] = []
    for await (const chunk of decompress(body, coding as keyof typeof bodies)) chunks.push(chunk)
    expect(Buffer.concat(chunks).toString()).toBe(text)
  })
})

it('the global Buffer converts text and bytes', () => {
  const bytes = Uint8Array.of(0, 0xfb, 0xff, 0xc3, 0xa9)
  const texts = { base64: 'APv/w6k=', base64url: 'APv_w6k', hex: '00fbffc3a9', latin1: '\0ûÿÃ©' } as const
  for (const [encoding, text] of Object.entries(texts)) {
    expect(Buffer.from(bytes).toString(encoding as 'hex')).toBe(text)
    expect(new Uint8Array(Buffer.from(text, encoding as 'hex'))).toEqual(bytes)
  }
  // Without padding, with it, and with characters that do not belong to the alphabet: each is read.
  for (const text of ['w6k', 'w6k=', 'w 6\nk']) expect(Buffer.from(text, 'base64url').toString()).toBe('é')
  expect([Buffer.byteLength('é€😀'), Buffer.concat([bytes, bytes]).byteLength]).toEqual([9, 10])
})
