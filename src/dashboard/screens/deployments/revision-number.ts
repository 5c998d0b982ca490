// Finds a revision by the number in the address.
import type { Item } from '../../../client/client.ts'
import { useRead } from '../../api/queries.ts'

type Revision = Item<'GET /v2/deployments/{deployment_id}/revisions'>

/** Numbers have no gaps, so the place of a revision follows from its number. */
export function useRevision(workspace: string, deployment_id: string, newest: Revision[], number: number) {
  const found = newest.find(one => one.number === number)
  const place = (newest[0]?.number ?? 0) - number
  const older = useRead(
    workspace,
    'GET /v2/deployments/{deployment_id}/revisions',
    { params: { deployment_id }, query: { limit: 1, offset: Math.max(0, place) } },
    { enabled: !found && place > 0 },
  )
  const revision = found ?? older.data?.resources.find(one => one.number === number)
  const isMissing = !revision && (!(place > 0) || older.isFetched)
  return { revision, isMissing }
}
