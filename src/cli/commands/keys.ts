// `slipway keys`: the API keys of the workspace, or with --organization those of the organization.
import type { Item } from '../../client/client.ts'
import { findOne } from '../find.ts'
import { age } from '../output.ts'
import { confirm, type Session } from '../session.ts'
import { oneLine } from '../terminal-text.ts'
import { parseDuration } from '../times.ts'

export type KeyScope = { organization?: boolean }
export type CreateOptions = KeyScope & { role?: string; permission?: string[]; expiresIn?: string }
type Key = Item<'GET /workspaces/current/api-keys'>

const pathOf = ({ organization }: KeyScope) =>
  organization ? ('/orgs/current/api-keys' as const) : ('/workspaces/current/api-keys' as const)

const readKeys = ({ client, signal }: Session, scope: KeyScope) =>
  client.list(`GET ${pathOf(scope)}`, { query: { limit: 100 }, signal })

export async function listKeys(session: Session, scope: KeyScope): Promise<void> {
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

export async function createKey(session: Session, description: string, options: CreateOptions): Promise<void> {
  const { client, out, signal } = session
  const expires_in = options.expiresIn && parseDuration(options.expiresIn, '--expires-in')
  const body = {
    description,
    ...(options.role && { role_id: await findRole(session, options.role) }),
    // The server names those that exist.
    ...(options.permission && { permissions: options.permission as 'deployments:read'[] }),
    ...(expires_in && { expires_at: new Date(Date.now() + expires_in).toISOString() }),
  }
  const created = await client.call(`POST ${pathOf(options)}`, { body, signal })
  out.note('This key is shown only now. Keep it secret.')
  out.emit({ ...created }, () => created.key)
}

async function findRole({ client, signal }: Session, wanted: string): Promise<string> {
  const roles = client.list('GET /orgs/current/roles', { query: { limit: 100 }, signal })
  const names = (one: { display_name: string }) => [one.display_name]
  const about = { kind: 'role', code: 'role_not_found', names, list: 'slipway api GET /orgs/current/roles' }
  return (await findOne(roles, wanted, about)).id
}

/** By id, by its hint, or by its description. */
export async function revokeKey(session: Session, wanted: string, scope: KeyScope): Promise<void> {
  const { client, out, signal } = session
  const list = `slipway keys list${scope.organization ? ' --organization' : ''}`
  const names = (one: Key) => [one.hint, one.description]
  const { id } = await findOne(readKeys(session, scope), wanted, {
    kind: 'API key',
    code: 'key_not_found',
    names,
    list,
  })
  const one = `${pathOf(scope)}/{key_id}` as const
  const { hint, description, descendants } = await client.call(`GET ${one}`, { params: { key_id: id }, signal })
  const others = descendants === 0 ? '' : ` and ${descendants} more, which were created with it`
  const next = `slipway keys revoke ${id}${scope.organization ? ' --organization' : ''} --yes`
  await confirm(session, `Revoke the API key ${hint} (${oneLine(description)})${others}?`, next)
  await client.call(`DELETE ${one}`, { params: { key_id: id }, signal })
  const result = { type: 'result', outcome: 'revoked', id, hint, description, descendants }
  out.emit(result, () => `Revoked the API key ${hint}${others}.`)
}
