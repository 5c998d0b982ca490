// Reads the charts of a tracing project.
import { useQuery } from '@tanstack/preact-query'
import { type CallOptions, getClient, type Reply } from './client.ts'
import { keyOf } from './queries.ts'

const ROUTE = 'POST /sessions/{session_id}/dashboard'
export type Dashboard = Reply<typeof ROUTE>
export type DashboardRequest = NonNullable<CallOptions<typeof ROUTE>['body']>

const READ_EVERY_MS = 30_000

export function useDashboard(workspace: string, project: string, body: DashboardRequest) {
  const params = { session_id: project }
  return useQuery<Dashboard, Error>({
    queryKey: keyOf(workspace, ROUTE, { params, query: body }),
    queryFn: ({ signal }) => getClient().call(ROUTE, { params, body, signal }),
    refetchInterval: READ_EVERY_MS,
    placeholderData: previous => previous,
  })
}
