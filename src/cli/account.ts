// The key that is stored on this machine: whose it is, what it may do, and how it is revoked.
import type { Reply } from '../client/client.ts'
import { ApiError } from '../client/errors.ts'
import { type GlobalOptions, openSession } from './session.ts'
import type { StoredLogin } from './settings.ts'

type Me = Reply<'GET /v2/me'>
type Place = { url: string; workspace?: string | undefined }

/** True if the key is no longer valid. */
export async function revokeStored(stored: StoredLogin, options: GlobalOptions, signal: AbortSignal): Promise<boolean> {
  try {
    const { client } = openSession(options, signal, { ...stored, from: 'login' })
    await client.call('DELETE /v2/me/api-key', { signal })
    return true
  } catch (error) {
    return error instanceof ApiError && error.status === 401
  }
}

const workspaceOf = (me: Me, named: string | undefined) =>
  me.workspaces.find(({ id }) => id === (named ?? me.api_key?.tenant_id))

export function describeKey(me: Me, { workspace: named }: Place) {
  const workspace = workspaceOf(me, named)
  return {
    organization: me.organization,
    member: me.api_key?.member ?? null,
    api_key: me.api_key && { id: me.api_key.id, description: me.api_key.description, hint: me.api_key.hint },
    workspace: workspace ? { id: workspace.id, display_name: workspace.display_name } : null,
    permissions: workspace?.permissions ?? me.permissions,
    expires_at: me.api_key?.expires_at ?? null,
  }
}

export function summarizeKey(me: Me, login: Place): string[] {
  const { organization, member, api_key, workspace, permissions, expires_at } = describeKey(me, login)
  const rows: [string, string | undefined][] = [
    ['Installation', login.url],
    ['Organization', organization.display_name],
    ['Workspace', workspace?.display_name],
    ['Workspaces', workspace ? undefined : me.workspaces.map(one => `${one.display_name} (${one.id})`).join(', ')],
    ['As', member?.email ?? `the API key “${api_key?.description}” (${api_key?.hint})`],
    ['Until', expires_at?.slice(0, 10)],
    ['Permissions', permissions.join(', ')],
  ]
  return rows.filter(([, value]) => value).map(([name, value]) => `${name.padEnd(13)}${value}`)
}
