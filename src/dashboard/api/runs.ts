// Reads runs by queries, which are POST requests: pages of a table, and all runs of a trace.
import { useInfiniteQuery, useQuery } from '@tanstack/preact-query'
import { type Answer, type CallOptions, getClient, isPartial, type Reply } from './client.ts'
import { keyOf } from './queries.ts'

const ROUTE = 'POST /runs/query'
export type RunQuery = NonNullable<CallOptions<typeof ROUTE>['body']>
export type Run = Reply<typeof ROUTE>['runs'][number]
type RunPage = Reply<typeof ROUTE>

const PAGE_SIZE = 50
/** The API searches a bounded number of runs per page. Empty pages are followed up to this number, then on request. */
const MAX_EMPTY_PAGES = 10

const keyOfRuns = (workspace: string, query: RunQuery) => keyOf(workspace, ROUTE, { query })

export function useRunPages(workspace: string, query: RunQuery, { enabled = true } = {}) {
  const { data, ...rest } = useInfiniteQuery({
    queryKey: [...keyOfRuns(workspace, query), 'pages'],
    queryFn: async ({ signal, pageParam }) => {
      let answer: Answer<typeof ROUTE>
      let cursor = pageParam
      let empty = 0
      do {
        const body = { ...query, limit: PAGE_SIZE, ...(cursor && { cursor }) }
        answer = await getClient().answer(ROUTE, { body, signal })
        cursor = answer.reply.cursors.next
      } while (answer.reply.runs.length === 0 && cursor && ++empty < MAX_EMPTY_PAGES)
      return { ...answer.reply, isPartial: isPartial(answer) }
    },
    initialPageParam: null as string | null,
    getNextPageParam: page => page.cursors.next,
    enabled,
    placeholderData: previous => previous,
  })
  return { ...rest, items: data?.pages.flatMap(({ runs }) => runs), isPartial: data?.pages[0]?.isPartial ?? false }
}

/** Reads one page again and again, while the tab is shown. */
export const useRunQuery = (
  workspace: string,
  query: RunQuery,
  { enabled = true, everyMs = false }: { enabled?: boolean; everyMs?: number | false } = {},
) =>
  useQuery<RunPage, Error>({
    queryKey: keyOfRuns(workspace, query),
    queryFn: ({ signal }) => getClient().call(ROUTE, { body: query, signal }),
    enabled,
    refetchInterval: everyMs,
  })

/** All runs, page after page. */
export async function* readAllRuns(query: RunQuery, signal: AbortSignal): AsyncGenerator<Run[]> {
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page: RunPage = await getClient().call(ROUTE, { body: { ...query, ...(cursor && { cursor }) }, signal })
    yield page.runs
    cursor = page.cursors.next
  }
}
