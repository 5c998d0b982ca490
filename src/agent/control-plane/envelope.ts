// Opens the envelopes that the control plane seals to this agent's key pair, which is kept in memory only.
import { createDecipheriv, createECDH, hkdfSync } from 'node:crypto'
import { PermanentError } from '../engine.ts'

const CURVE = 'prime256v1'
const HKDF_INFO = 'slipway sync v1'
const TAG_BYTES = 16

export type AgentKeys = ReturnType<typeof makeAgentKeys>

export function makeAgentKeys() {
  const ecdh = createECDH(CURVE)
  const own = ecdh.generateKeys()
  return {
    public_key: own.toString('base64url'),
    /** `context` names the owner of the content: an envelope of another owner does not open. */
    open<T>(envelope: string, context: string): T {
      try {
        const [version, ephemeral, nonce, ciphertext] = envelope.split('.')
        if (version !== 'v1') throw new Error(version)
        const theirs = Buffer.from(ephemeral!, 'base64url')
        const key = hkdfSync('sha256', ecdh.computeSecret(theirs), Buffer.concat([theirs, own]), HKDF_INFO, 32)
        const sealed = Buffer.from(ciphertext!, 'base64url')
        const decipher = createDecipheriv('aes-256-gcm', Buffer.from(key), Buffer.from(nonce!, 'base64url'))
        decipher.setAAD(Buffer.from(context)).setAuthTag(sealed.subarray(-TAG_BYTES))
        const plain = Buffer.concat([decipher.update(sealed.subarray(0, -TAG_BYTES)), decipher.final()])
        return JSON.parse(plain.toString()) as T
      } catch {
        throw new PermanentError('This agent cannot decrypt the secrets of this revision. Redeploy it.')
      }
    },
  }
}
