// Reads the threads of a tracing project, page by page.
import { useInfiniteQuery } from '@tanstack/preact-query'
import { getClient } from './client.ts'
import { keyOf } from './queries.ts'

const ROUTE = 'POST /runs/group'

const PAGE_SIZE = 30
const READ_EVERY_MS = 15_000

export function useThreadPages(workspace: string, session_id: string, start_time: string) {
  const { data, ...query } = useInfiniteQuery({
    queryKey: [...keyOf(workspace, ROUTE, { query: { session_id, start_time } }), 'pages'],
    queryFn: ({ signal, pageParam }) =>
      getClient().call(ROUTE, {
        body: { session_id, group_by: 'conversation', start_time, offset: pageParam, limit: PAGE_SIZE },
        signal,
      }),
    initialPageParam: 0,
    getNextPageParam: (page, pages) => (page.groups.length < PAGE_SIZE ? undefined : pages.length * PAGE_SIZE),
    refetchInterval: READ_EVERY_MS,
    placeholderData: previous => previous,
  })
  return { ...query, items: data?.pages.flatMap(({ groups }) => groups), total: data?.pages[0]?.total }
}
