// What both sides of the protocol name alike. The rest of what crosses the wire between the control plane and an agent is in x.schema.ts; PROTOCOL.md tells how it is used.
import * as z from 'zod'
import { boundedText } from './wire.ts'

export const AgentId = boundedText(64)
  .regex(/^[A-Za-z0-9._:-]+$/, {
    error: 'needs to be 1 to 64 letters, digits, dots, underscores, colons, hyphens',
  })
  .meta({
    description:
      'Names the running agent. It stays the same over restarts, so that a restart need not wait for its own lease to end.',
  })
export const Fence = z.int().min(1).meta({
  description: 'The number of the lease. Each new lease has a higher one, and only the newest is listened to.',
})
export const MAX_INT32 = 2 ** 31 - 1
export const Generation = z.int().min(1).max(MAX_INT32).meta({
  description: 'Counts what is wanted of the deployment: any change of its work is a new generation.',
})
/** 65 bytes, the first of which says that both coordinates follow. */
export const PublicKey = boundedText(87)
  .regex(/^B[A-Za-z0-9_-]{86}$/, { error: 'needs to be an uncompressed P-256 point, 65 bytes in base64url' })
  .meta({
    description: 'The agent’s P-256 public key, raw and uncompressed, in base64url. What is secret is sealed to it.',
  })
export const Digest = boundedText(16)
  .regex(/^[0-9a-f]{16}$/, { error: 'needs to be 16 lower-case hexadecimal digits' })
  .meta({
    description:
      'The exclusive or, over all deployments, of the first 8 bytes of SHA-256 of `<deployment_id>:<generation>`.',
  })
export const Cursor = z.int().min(0)
export const Sealed = z.string().meta({
  description: 'An envelope for the agent’s key: `v1.<ephemeral public key>.<nonce>.<ciphertext>`, each in base64url.',
})
