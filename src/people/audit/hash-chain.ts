// The hash chain of a journal: each event has a hash over its content and the hash of the event before. The trigger
// `chain_event` writes it, and this computes the same. Heads and checkpoints are signed, because write access to the
// database is enough to compute a whole chain again.
import { sql } from 'drizzle-orm'
import { createSigner } from '../../kernel/crypto/crypto.ts'
import { sha256Hex } from '../../kernel/crypto/digest.ts'

/** The content of a row of `events`, unambiguous, without its number and hash. */
export const EVENT_CONTENT = sql`array[
      scope_id::text,
      organization_id::text,
      tenant_id::text,
      type,
      subject_id::text,
      actor_kind,
      actor_id::text,
      actor_name,
      request_id,
      request::text,
      data::text,
      changes::text,
      part_of::text,
      extract(epoch from created_at)::text
    ]::text`

export const hashEvent = (previous: string | null, seq: number, content: string): string =>
  Buffer.from(sha256Hex(`${previous ?? ''}${seq}${content}`), 'hex').toString('base64')

/** The hash of an event, and a time: when it was signed, or before when every event up to it was written. */
export type SignedPlace = { kind: 'head' | 'checkpoint'; scope: string; seq: number; hash: string | null; at: string }

export const createJournalSigner = (sealingKeys: [kid: string, key: string][]) => {
  const signer = createSigner(sealingKeys, 'audit log')
  const textOf = ({ kind, scope, seq, hash, at }: SignedPlace) => [kind, scope, seq, hash ?? '', at].join('\n')
  return {
    sign: (place: SignedPlace) => signer.sign(textOf(place)),
    verify: (place: SignedPlace, signature: string) => signer.verify(signature, textOf(place)),
    /** False after the key was removed from SEALING_KEYS. */
    hasKeyOf: (signature: string) => sealingKeys.some(([kid]) => signature.startsWith(`${kid}.`)),
  }
}
export type JournalSigner = ReturnType<typeof createJournalSigner>
