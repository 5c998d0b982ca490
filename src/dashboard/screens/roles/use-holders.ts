// The holders of a role that the caller can see.

import type { Me } from '../../api/client.ts'
import { usePages } from '../../api/queries.ts'

export type Holders = { people: { id: string; name: string }[]; keys: { id: string; name: string }[] }

/** People of the organization and of this workspace, and keys of this workspace. */
export function useHolders(workspace: string, me: Me): ((role: string) => Holders) | undefined {
  const may = (permission: string) =>
    me.workspaces.find(({ id }) => id === workspace)?.permissions.includes(permission) === true
  const query = { query: { limit: 100 } }
  const here = usePages(workspace, 'GET /workspaces/current/members', query, {
    enabled: may('workspaces:read-members'),
  })
  const all = usePages(workspace, 'GET /orgs/current/members', query, { enabled: may('organization:read') })
  const keys = usePages(workspace, 'GET /workspaces/current/api-keys', query, { enabled: may('api-keys:read') })
  if (!here.items && !all.items && !keys.items) return undefined
  const members = [...(here.items ?? []).map(one => ({ ...one, id: one.member_id })), ...(all.items ?? [])]
  return role => ({
    people: members
      .filter(one => one.role_id === role)
      .map(({ id, full_name, email }) => ({ id, name: full_name ?? email })),
    keys: (keys.items ?? [])
      .filter(one => one.role_id === role)
      .map(({ id, description }) => ({ id, name: description })),
  })
}

const count = (number: number, thing: string, things: string) =>
  number === 0 ? [] : [`${number} ${number === 1 ? thing : things}`]
export const describeHolders = ({ people, keys }: Holders): string =>
  [...count(people.length, 'person', 'people'), ...count(keys.length, 'key', 'keys')].join(', ') || 'None'
