// What an agent computes: the digest of what it has, and what an envelope holds.
import { createDecipheriv, createECDH, createHash, hkdfSync } from 'node:crypto'
import { expect } from 'vitest'

export const computeDigest = (generations: Map<string, number>): string => {
  let digest = 0n
  for (const [id, generation] of generations)
    digest ^= createHash('sha256').update(`${id}:${generation}`).digest().readBigUInt64BE()
  return digest.toString(16).padStart(16, '0')
}

/** Opens as PROTOCOL.md says, with another library than seals. */
export function makeEnvelopeOpener() {
  const own = createECDH('prime256v1')
  const ours = own.generateKeys()
  const open = (envelope: string, place: string): unknown => {
    const [version, ephemeral, nonce, sealed] = envelope
      .split('.')
      .map((part, i) => (i ? Buffer.from(part, 'base64url') : part))
    expect(version).toBe('v1')
    const [theirs, iv, bytes] = [ephemeral, nonce, sealed] as Buffer[] as [Buffer, Buffer, Buffer]
    const salt = Buffer.concat([theirs, ours])
    const key = Buffer.from(hkdfSync('sha256', own.computeSecret(theirs), salt, 'slipway sync v1', 32))
    const cipher = createDecipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(place)).setAuthTag(bytes.subarray(-16))
    return JSON.parse(cipher.update(bytes.subarray(0, -16), undefined, 'utf8') + cipher.final('utf8'))
  }
  return { public_key: ours.toString('base64url'), open }
}
