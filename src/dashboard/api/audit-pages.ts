// Reads the audit log. Each read is recorded in the log itself, so pages read it only when a person asks for it.
import { useInfiniteQuery } from '@tanstack/preact-query'
import { type CallOptions, getClient, type Reply } from './client.ts'

const ROUTE = 'GET /v1/audit-logs'
type AuditQuery = NonNullable<CallOptions<typeof ROUTE>['query']>
export type AuditItem = Reply<typeof ROUTE>['items'][number]
export type AuditFilter = Omit<AuditQuery, 'limit' | 'cursor'>

const PAGE_SIZE = 50

export function useAuditPages(filter: AuditFilter, { enabled }: { enabled: boolean }) {
  const { data, ...query } = useInfiniteQuery({
    // No workspace in the key: no event makes the audit log stale.
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
