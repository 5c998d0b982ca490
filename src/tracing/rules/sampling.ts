// Chooses the traces that a rule takes (pure). It depends on nothing but the two ids, so a repeat takes the same.
import { sha256 } from '../../kernel/crypto/digest.ts'

const BYTES = 6

export function isSampled(ruleId: string, traceId: string, rate: number): boolean {
  const digest = sha256().update(`${ruleId} ${traceId}`).digest()
  return digest.readUIntBE(0, BYTES) < rate * 256 ** BYTES
}
