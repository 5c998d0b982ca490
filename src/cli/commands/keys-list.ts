// `slipway keys list`: the API keys of the workspace or of the organization.
import type { Declaration } from '../declaration.ts'
import { type Key, type KeyScope, readKeys, withScope } from '../keys.ts'
import { age } from '../output.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = { summary: 'list them', options: withScope }

export async function run(session: Session, scope: KeyScope): Promise<void> {
  const keys: Key[] = []
  for await (const key of readKeys(session, scope)) keys.push(key)
  const columns = {
    key: (one: Key) => one.hint,
    description: (one: Key) => one.description,
    permissions: (one: Key) => one.permissions?.join(', ') ?? 'all of its role',
    expires: (one: Key) => (one.client?.expires_at ?? one.expires_at)?.slice(0, 10) ?? 'never',
    used: (one: Key) => (one.last_used_at ? age(one.last_used_at) : 'never'),
    id: (one: Key) => one.id,
  }
  session.out.table(keys, columns, 'No API keys.')
}
