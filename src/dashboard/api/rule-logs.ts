// Reads the log of an automation rule, page by page.
import { useInfiniteQuery } from '@tanstack/preact-query'
import { getClient } from './client.ts'
import { keyOf } from './queries.ts'

const ROUTE = 'GET /runs/rules/{rule_id}/logs/v2'
const PAGE_SIZE = 50
const READ_EVERY_MS = 10_000

export function useRuleLogs(workspace: string, rule_id: string) {
  const params = { rule_id }
  const { data, ...query } = useInfiniteQuery({
    queryKey: [...keyOf(workspace, ROUTE, { params }), 'pages'],
    queryFn: ({ signal, pageParam }) =>
      getClient().call(ROUTE, {
        params,
        query: { limit: PAGE_SIZE, ...(pageParam && { cursor: pageParam as never }) },
        signal,
      }),
    initialPageParam: null as string | null,
    getNextPageParam: page => (page.has_more ? page.cursor : undefined),
    refetchInterval: READ_EVERY_MS,
  })
  return { ...query, items: data?.pages.flatMap(({ logs }) => logs) }
}
