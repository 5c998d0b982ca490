// `slipway keys revoke`: revokes an API key, which is named by its id, its hint or its description.
import type { Declaration } from '../declaration.ts'
import { findOne } from '../find.ts'
import { type Key, type KeyScope, pathOf, readKeys, withScope } from '../keys.ts'
import { confirm, type Session } from '../session.ts'
import { oneLine } from '../terminal-text.ts'

export const declaration: Declaration = {
  arguments: '<key>',
  summary: 'revoke one, by id or description',
  options: withScope,
}

export async function run(session: Session, scope: KeyScope, [wanted]: [string]): Promise<void> {
  const { client, out, signal } = session
  const list = `slipway keys list${scope.organization ? ' --organization' : ''}`
  const names = (one: Key) => [one.hint, one.description]
  const about = { kind: 'API key', code: 'key_not_found', names, list }
  const { id } = await findOne(readKeys(session, scope), wanted, about)
  const one = `${pathOf(scope)}/{key_id}` as const
  const { hint, description, descendants } = await client.call(`GET ${one}`, { params: { key_id: id }, signal })
  const others = descendants === 0 ? '' : ` and ${descendants} more, which were created with it`
  const next = `slipway keys revoke ${id}${scope.organization ? ' --organization' : ''} --yes`
  await confirm(session, `Revoke the API key ${hint} (${oneLine(description)})${others}?`, next)
  await client.call(`DELETE ${one}`, { params: { key_id: id }, signal })
  const result = { type: 'result', outcome: 'revoked', id, hint, description, descendants }
  out.emit(result, () => `Revoked the API key ${hint}${others}.`)
}
