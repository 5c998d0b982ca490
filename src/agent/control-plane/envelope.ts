// Opens what the control plane sealed to this agent's key, which is made at the start and kept in memory only.
import { createDecipheriv, createECDH, hkdfSync } from 'node:crypto'
import { PermanentError } from '../engines/engine.ts'

const CURVE = 'prime256v1'
const HKDF_INFO = 'slipway sync v1'
const TAG_BYTES = 16

export type AgentKeys = ReturnType<typeof makeAgentKeys>

export function makeAgentKeys() {
  const ecdh = createECDH(CURVE)
  const own = ecdh.generateKeys()
  return {
    public_key: own.toString('base64url'),
    /** `bound` names what it belongs to: of anything else it does not open. */
    open<T>(envelope: string, bound: string): T {
      try {
        const [version, ephemeral, nonce, text] = envelope.split('.')
        if (version !== 'v1') throw new Error(version)
        const theirs = Buffer.from(ephemeral!, 'base64url')
        const key = hkdfSync('sha256', ecdh.computeSecret(theirs), Buffer.concat([theirs, own]), HKDF_INFO, 32)
        const sealed = Buffer.from(text!, 'base64url')
        const decipher = createDecipheriv('aes-256-gcm', Buffer.from(key), Buffer.from(nonce!, 'base64url'))
        decipher.setAAD(Buffer.from(bound)).setAuthTag(sealed.subarray(-TAG_BYTES))
        const plain = Buffer.concat([decipher.update(sealed.subarray(0, -TAG_BYTES)), decipher.final()])
        return JSON.parse(plain.toString()) as T
      } catch {
        throw new PermanentError('What is secret of it cannot be opened with this agent’s key: redeploy it.')
      }
    },
  }
}
