// Actions on API keys, each as one request. A key of the organization belongs to no workspace.
import { type Action, request } from '../../api/actions.ts'
import type { Item, Me, Reply } from '../../api/client.ts'
import { explainMissing } from '../../api/permissions.ts'
import { explainMissingInOrganization } from '../members/actions.ts'

export type Key = Item<'GET /workspaces/current/api-keys'>
export type NewKey = Reply<'POST /workspaces/current/api-keys'>
type Caller = { me: Me; workspace: string }

export type KeyDraft = {
  description: string
  role_id: string
  /** Null: all of the role. */
  permissions: string[] | null
  expires_at: string | null
}

export const mayManageOrganizationKeys = (me: Me): boolean => me.permissions.includes('organization:manage-keys')

export function createKey(
  { me, workspace }: Caller,
  { isOrganization, ...draft }: KeyDraft & { isOrganization: boolean },
): Action {
  const { description, role_id, permissions, expires_at } = draft
  const body = { description, role_id, ...(permissions && { permissions }), ...(expires_at && { expires_at }) }
  return {
    label: 'Create key',
    unavailable: isOrganization
      ? explainMissingInOrganization(me, 'organization:manage-keys')
      : explainMissing(me, workspace, 'api-keys:create'),
    request: request(isOrganization ? 'POST /orgs/current/api-keys' : 'POST /workspaces/current/api-keys', {
      body: body as never,
    }),
    done: `The key “${description}” is created.`,
  }
}

export function revokeKey({ me, workspace }: Caller, key: Key, descendants: number): Action {
  const { id, tenant_id, description, hint, listener_id } = key
  const isHere = tenant_id === workspace && !explainMissing(me, workspace, 'api-keys:delete')
  const made = descendants === 1 ? 'The key that was' : `The ${descendants} keys that were`
  const others = descendants > 0 ? ` ${made} made with it ${descendants === 1 ? 'is' : 'are'} revoked too.` : ''
  const agent = listener_id ? ' The agent of a listener uses this key. It stops, and its listener deploys nothing.' : ''
  return {
    label: 'Revoke key',
    unavailable:
      isHere || mayManageOrganizationKeys(me)
        ? undefined
        : (explainMissing(me, workspace, 'api-keys:delete') ??
          explainMissingInOrganization(me, 'organization:manage-keys')),
    request: isHere
      ? request('DELETE /workspaces/current/api-keys/{key_id}', { params: { key_id: id } })
      : request('DELETE /orgs/current/api-keys/{key_id}', { params: { key_id: id } }),
    command: `slipway keys revoke ${id}${isHere ? '' : ' --organization'}`,
    confirm: {
      title: `Revoke “${description}”, ${hint}?`,
      body:
        `Requests with the key are refused immediately, and its sessions end.${others}${agent} ` +
        'This cannot be undone. The audit log keeps its entries.',
      isDestructive: true,
    },
    done: `The key “${description}” is revoked.`,
  }
}

export const describeOwner = ({ client, member, listener_id, tenant_id }: Key): string => {
  if (client && member) return `Connected by ${member.email}`
  if (member) return `Belongs to ${member.email}`
  if (listener_id) return 'The agent of a listener'
  return tenant_id ? 'Another workspace' : 'Organization'
}

/** The text of a connected program's key is replaced every hour, for as long as the program comes back. */
export const endOf = ({ client, expires_at }: Pick<Key, 'client' | 'expires_at'>): string | null =>
  client?.expires_at ?? expires_at

const DAY_MS = 86_400_000
export const isSoon = (expires_at: string | null, now: number): boolean =>
  expires_at !== null && Date.parse(expires_at) - now < 7 * DAY_MS
