// The roles of the organization, by id and by scope.
import { useRead } from '../../api/queries.ts'
import type { Role } from './actions.ts'

export type Roles = {
  all: Role[]
  nameOf: (id: string | null | undefined) => string
  of: (scope: Role['scope']) => Role[]
}

export function useRoles(workspace: string): Roles {
  const { data } = useRead(workspace, 'GET /orgs/current/roles', { query: { limit: 100 } })
  const all = data?.resources ?? []
  // Built-in ones first, then by name.
  const rank = ({ organization_id, display_name }: Role) => (organization_id ? '1' : '0') + display_name
  const ordered = all.toSorted((a, b) => rank(a).localeCompare(rank(b)))
  return {
    all: ordered,
    nameOf: id => all.find(one => one.id === id)?.display_name ?? (id ? 'A role' : 'No role'),
    of: scope => ordered.filter(one => one.scope === scope),
  }
}
