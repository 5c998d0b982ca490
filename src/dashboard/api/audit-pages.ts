// Reading the audit log. Each reading is in the audit log itself, so it is read when a person asks for it only.
import { useInfiniteQuery } from '@tanstack/preact-query'
import { type CallOptions, getClient, type Reply } from './client.ts'

const ROUTE = 'GET /v1/audit-logs'
type AuditQuery = NonNullable<CallOptions<typeof ROUTE>['query']>
export type AuditItem = Reply<typeof ROUTE>['items'][number]
export type AuditFilter = Omit<AuditQuery, 'limit' | 'cursor'>

const PAGE_SIZE = 50

export function useAuditPages(filter: AuditFilter, { enabled }: { enabled: boolean }) {
  const { data, ...query } = useInfiniteQuery({
    // Not below a workspace: no event makes it old.
    queryKey: ['audit', ROUTE, filter],
    queryFn: ({ signal, pageParam }) =>
      getClient().call(ROUTE, {
        query: { ...filter, limit: PAGE_SIZE, ...(pageParam && { cursor: pageParam }) },
        signal,
      }),
    initialPageParam: null as string | null,
    getNextPageParam: page => page.cursor,
    placeholderData: previous => previous,
    enabled,
    staleTime: Number.POSITIVE_INFINITY,
  })
  return { ...query, items: data?.pages.flatMap(page => page.items) }
}
