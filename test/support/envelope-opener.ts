// An agent's cryptography: it computes digests and opens envelopes.
import { createDecipheriv, createECDH, createHash, hkdfSync } from 'node:crypto'
import { expect } from 'vitest'

export const computeDigest = (generations: Map<string, number>): string => {
  let digest = 0n
  for (const [id, generation] of generations)
    digest ^= createHash('sha256').update(`${id}:${generation}`).digest().readBigUInt64BE()
  return digest.toString(16).padStart(16, '0')
}

/** Follows PROTOCOL.md with another library than the one that seals. */
export function makeEnvelopeOpener() {
  const keyPair = createECDH('prime256v1')
  const publicKey = keyPair.generateKeys()
  const open = (envelope: string, context: string): unknown => {
    const [version, ephemeral, nonce, sealed] = envelope
      .split('.')
      .map((part, i) => (i ? Buffer.from(part, 'base64url') : part))
    expect(version).toBe('v1')
    const [ephemeralKey, iv, bytes] = [ephemeral, nonce, sealed] as Buffer[] as [Buffer, Buffer, Buffer]
    const salt = Buffer.concat([ephemeralKey, publicKey])
    const key = Buffer.from(hkdfSync('sha256', keyPair.computeSecret(ephemeralKey), salt, 'slipway sync v1', 32))
    const cipher = createDecipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(context)).setAuthTag(bytes.subarray(-16))
    return JSON.parse(cipher.update(bytes.subarray(0, -16), undefined, 'utf8') + cipher.final('utf8'))
  }
  return { public_key: publicKey.toString('base64url'), open }
}
