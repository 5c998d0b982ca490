// Secrets in answers are masked, however the bytes of an answer are cut.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createSecretFilter, maskSecrets, SECRET_MASK } from '../../../src/connect/models/masked-answers.ts'

const SECRET = 'sk-sk-aa/"b"€'

function filterInChunks(text: Buffer, sizes: number[], secrets: string[]): string {
  const filter = createSecretFilter(secrets)
  const shown: Uint8Array[] = []
  for (let at = 0, i = 0; at < text.length; i++) {
    const size = sizes[i % sizes.length]!
    shown.push(filter.push(text.subarray(at, at + size)))
    at += size
  }
  return Buffer.concat([...shown, filter.end()]).toString()
}

describe('a secret in an answer', () => {
  it.each([
    ['as it is', SECRET],
    ['in JSON', JSON.stringify(SECRET).slice(1, -1)],
    ['in JSON with escaped slashes', JSON.stringify(SECRET).slice(1, -1).replaceAll('/', '\\/')],
    ['percent-encoded', encodeURIComponent(SECRET)],
    ['in hex', Buffer.from(SECRET).toString('hex')],
  ])('%s is masked in all places, in chunks of any size', (_, written) => {
    const text = `sk-${written}sk-${written}${written.slice(0, -1)}`
    const masked = `sk-${SECRET_MASK}sk-${SECRET_MASK}${written.slice(0, -1)}`
    for (const size of [1, 2, 3, 7, 1000]) expect(filterInChunks(Buffer.from(text), [size], [SECRET])).toBe(masked)
    expect(maskSecrets(text, [SECRET])).toBe(masked)
  })

  it('in base64 is masked behind any text', () => {
    for (const before of ['', 'u', 'us', 'user:']) {
      const encoded = Buffer.from(`${before}${SECRET}`).toString('base64')
      const shown = Buffer.from(filterInChunks(Buffer.from(encoded), [5], [SECRET]).replaceAll('*', ''), 'base64')
      expect(shown.toString()).not.toContain(SECRET.slice(2, -2))
    }
  })
})

it('an answer without a secret passes byte for byte, also with a part of one', () => {
  const parts = fc.array(fc.constantFrom('s', 'k', '-', 'a', '/', 'sk-', 'sk-sk-aa'), { maxLength: 40 })
  const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 })
  fc.assert(
    fc.property(parts, sizes, (texts, cut) => {
      const text = texts.join('')
      expect(filterInChunks(Buffer.from(text), cut, [SECRET, 'sk'])).toBe(text)
    }),
  )
  expect(filterInChunks(Buffer.from([0, 255, 254]), [1], [])).toBe(Buffer.from([0, 255, 254]).toString())
})
