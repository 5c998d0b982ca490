// Fields that several messages of the sync protocol share. PROTOCOL.md describes their use.
import * as z from 'zod'
import { boundedText } from './wire.ts'

export const AgentId = boundedText(64)
  .regex(/^[A-Za-z0-9._:-]+$/, {
    error: 'must be 1 to 64 letters, digits, dots, underscores, colons or hyphens',
  })
  .meta({
    description:
      'The id of the agent. Keep it over restarts, so that a restart need not wait for the agent’s own lease to expire.',
  })
export const Fence = z.int().min(1).meta({
  description: 'The number of the lease. Each new lease has a higher number; requests with a lower one are refused.',
})
export const MAX_INT32 = 2 ** 31 - 1
export const Generation = z.int().min(1).max(MAX_INT32).meta({
  description: 'The number of the wanted state of the deployment. Every change of its work is a new generation.',
})
/** 65 bytes. The first one is 4, for an uncompressed point. */
export const PublicKey = boundedText(87)
  .regex(/^B[A-Za-z0-9_-]{86}$/, { error: 'must be an uncompressed P-256 point, 65 bytes in base64url' })
  .meta({
    description: 'The agent’s P-256 public key, raw and uncompressed, in base64url. Secrets are sealed to it.',
  })
export const Digest = boundedText(16)
  .regex(/^[0-9a-f]{16}$/, { error: 'must be 16 lower-case hexadecimal digits' })
  .meta({
    description:
      'The exclusive or, over all deployments, of the first 8 bytes of SHA-256 of `<deployment_id>:<generation>`.',
  })
export const Cursor = z.int().min(0)
export const Sealed = z.string().meta({
  description: 'Sealed to the agent’s key: `v1.<ephemeral public key>.<nonce>.<ciphertext>`, each in base64url.',
})
