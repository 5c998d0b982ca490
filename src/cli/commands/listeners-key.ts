// `slipway listeners key`: another key for the agent of a listener.
import type { Declaration } from '../declaration.ts'
import { createKey, expiryOf, findListener, type KeyFlags, withKeyOptions } from '../listeners.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '<listener>',
  summary: 'show a new key for its agent',
  options: withKeyOptions,
}

export async function run(session: Session, options: KeyFlags, [wanted]: [string]): Promise<void> {
  const expiresAt = expiryOf(options)
  await createKey(session, await findListener(session, wanted), options, expiresAt)
}
