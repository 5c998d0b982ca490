import { describe, expect, it } from 'vitest'
import { createSealer, looksLikeApiKey, makeKeyHint, newApiKey } from '../../src/kernel/crypto/crypto.ts'
import { sha256Hex } from '../../src/kernel/crypto/digest.ts'
import * as fc from '../support/seeded-fast-check.ts'

const LETTERS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const position = fc.nat({ max: 41 }).map(index => index + 4)
const splice = (key: string, index: number, length: number, by: string) =>
  key.slice(0, index) + by + key.slice(index + length)

describe('a key', () => {
  it('is recognized as a key, and no two are equal', () => {
    const keys = Array.from({ length: 500 }, newApiKey)
    for (const key of keys) expect(looksLikeApiKey(key)).toBe(true)
    expect(new Set(keys).size).toBe(500)
  })

  it('with one mistyped character is not recognized', () => {
    fc.assert(
      fc.property(position, fc.constantFrom(...LETTERS, '-', ' ', 'é'), (index, letter) => {
        const key = newApiKey()
        expect(looksLikeApiKey(splice(key, index, 1, letter))).toBe(key[index] === letter)
      }),
      { numRuns: 2000 },
    )
  })

  it('with two swapped adjacent characters is not recognized', () => {
    fc.assert(
      fc.property(fc.nat({ max: 40 }), index => {
        const key = newApiKey()
        const [left, right] = [key[index + 4]!, key[index + 5]!]
        expect(looksLikeApiKey(splice(key, index + 4, 2, right + left))).toBe(left === right)
      }),
      { numRuns: 2000 },
    )
  })

  it('that is cut, extended or padded is not recognized', () => {
    const key = newApiKey()
    const malformed = [
      '',
      key.slice(1),
      key.slice(0, -1),
      `${key}0`,
      ` ${key}`,
      `${key}\n`,
      key.toUpperCase(),
      `x${key}`,
    ]
    for (const text of malformed) expect(looksLikeApiKey(text)).toBe(false)
  })

  it('uses every character equally often', () => {
    const counts = new Map<string, number>()
    const keys = 4000
    for (let i = 0; i < keys; i++) {
      for (const letter of newApiKey().slice(4, 40)) counts.set(letter, (counts.get(letter) ?? 0) + 1)
    }
    const expected = (keys * 36) / LETTERS.length
    const square = [...LETTERS].reduce((sum, one) => sum + ((counts.get(one) ?? 0) - expected) ** 2 / expected, 0)
    // 61 degrees of freedom: chance exceeds 130 once in a million runs, a biased remainder of 256 exceeds 500.
    expect(square).toBeLessThan(130)
    expect(counts.size).toBe(LETTERS.length)
  })

  it('has a hint that shows only its first eight and last four characters', () => {
    const key = newApiKey()
    expect(makeKeyHint(key)).toBe(`${key.slice(0, 8)}…${key.slice(-4)}`)
    expect(key).not.toBe(makeKeyHint(key))
    expect(makeKeyHint(key)).toHaveLength(13)
  })

  it('is stored as its SHA-256', () => {
    expect(sha256Hex('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
  })
})

describe('a sealed secret', () => {
  const pair = (kid: string, fill: number): [string, string] => [kid, Buffer.alloc(32, fill).toString('base64url')]
  const [first, second] = [pair('first', 1), pair('second', 2)]
  const sealer = createSealer([first])

  it('opens to the original, and each sealing of the same text is different', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'grapheme' }), fc.string(), async (plain, owner) => {
        const sealed = await sealer.seal(plain, owner, 'place')
        expect(await sealer.open(sealed, owner, 'place')).toBe(plain)
        expect(sealed).not.toBe(await sealer.seal(plain, owner, 'place'))
      }),
      { numRuns: 50 },
    )
  })

  it('does not open for another owner, in another place, or with another key', async () => {
    const sealed = await sealer.seal('secret', 'owner', 'place')
    await expect(sealer.open(sealed, 'other', 'place')).rejects.toThrow()
    await expect(sealer.open(sealed, 'owner', 'elsewhere')).rejects.toThrow()
    await expect(createSealer([pair('first', 3)]).open(sealed, 'owner', 'place')).rejects.toThrow()
    await expect(createSealer([second]).open(sealed, 'owner', 'place')).rejects.toThrow()
  })

  it('does not open when a bit has changed or a part is missing', async () => {
    const sealed = await sealer.seal('secret', 'owner', 'place')
    const [kid, iv, ciphertext] = sealed.split('.') as [string, string, string]
    const flipped = (part: string, bit: number) => {
      const bytes = Buffer.from(part, 'base64url')
      const index = bit % (bytes.length * 8)
      bytes[index >> 3]! ^= 1 << (index & 7)
      return bytes.toString('base64url')
    }
    await fc.assert(
      fc.asyncProperty(fc.nat({ max: 1000 }), async bit => {
        await expect(sealer.open([kid, flipped(iv, bit), ciphertext].join('.'), 'owner', 'place')).rejects.toThrow()
        await expect(sealer.open([kid, iv, flipped(ciphertext, bit)].join('.'), 'owner', 'place')).rejects.toThrow()
      }),
      { numRuns: 50 },
    )
    for (const broken of ['', kid, `${kid}.${iv}`, `unknown.${iv}.${ciphertext}`, `.${iv}.${ciphertext}`]) {
      await expect(sealer.open(broken, 'owner', 'place')).rejects.toThrow()
    }
  })

  it('is sealed with the first key and opened with the key that sealed it', async () => {
    const old = await sealer.seal('secret', 'owner', 'place')
    const rotated = createSealer([second, first])
    expect(await rotated.open(old, 'owner', 'place')).toBe('secret')
    const fresh = await rotated.seal('secret', 'owner', 'place')
    expect(fresh).toMatch(/^second\./)
    expect(await createSealer([second]).open(fresh, 'owner', 'place')).toBe('secret')
    await expect(sealer.open(fresh, 'owner', 'place')).rejects.toThrow()
  })
})
