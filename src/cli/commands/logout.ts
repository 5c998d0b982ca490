// `slipway logout`: removes the stored key from this machine.
import { revokeStored } from '../account.ts'
import type { Declaration } from '../declaration.ts'
import type { Session } from '../session.ts'
import { readStoredLogin, removeLogin } from '../settings.ts'

export const declaration: Declaration = {
  summary: 'remove the stored key from this machine, and revoke it if a login made it',
}

export async function run({ out, options, signal }: Session): Promise<void> {
  const stored = readStoredLogin()
  const revoked = stored?.is_own ? await revokeStored(stored, options, signal) : false
  removeLogin()
  const text = revoked
    ? 'Removed the key from this machine, and revoked it.'
    : stored?.is_own
      ? `Removed the key from this machine. ${stored.url} did not revoke it, so it stays valid until it expires.`
      : 'Removed the key from this machine. It stays valid until it is revoked.'
  out.emit({ type: 'result', outcome: 'signed_out', was_stored: stored !== undefined, revoked }, () =>
    stored ? text : 'No key was stored.',
  )
}
