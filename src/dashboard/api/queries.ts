// Reads: answers are cached by route and parameters, and read again when an event says that they have changed.
import { QueryClient, useInfiniteQuery, useQuery } from '@tanstack/preact-query'
import type { ReadKey } from './affected.ts'
import type { Route } from './client.ts'
import { ApiError, type CallOptions, getClient, type Item, type ListRoute, nextCursor, type Reply } from './client.ts'

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // Events say when something changes. Until the stream is live, pages that are opened read again.
      staleTime: 5_000,
      gcTime: 10 * 60_000,
      // The client retries requests itself.
      retry: false,
      refetchOnWindowFocus: false,
      refetchOnReconnect: false,
    },
  },
})

export type GetRoute = Extract<Route, `GET ${string}`>
export type ReadOptions<R extends Route> = Pick<CallOptions<R>, Extract<keyof CallOptions<R>, 'params' | 'query'>>

export const keyOf = (workspace: string, route: string, options: object): ReadKey => [workspace, route, options]

type Freshness = {
  enabled?: boolean
  /** For data without events: the interval of reads, while the tab is shown. */
  everyMs?: number | false
}
type ReadFreshness<T> = Omit<Freshness, 'everyMs'> & {
  everyMs?: Freshness['everyMs'] | ((last: T | undefined) => number | false)
}

/** Reads a resource of the workspace, and keeps it current. */
export function useRead<R extends GetRoute>(
  workspace: string,
  route: R,
  options: ReadOptions<R>,
  { enabled = true, everyMs = false }: ReadFreshness<Reply<R>> = {},
) {
  return useQuery<Reply<R>, Error>({
    queryKey: keyOf(workspace, route, options),
    queryFn: ({ signal }) => getClient().call(route, { ...options, signal } as never),
    enabled,
    refetchInterval: typeof everyMs === 'function' ? ({ state }) => everyMs(state.data) : everyMs,
    // Keep the old data while the parameters change.
    placeholderData: (previous, query) =>
      query?.queryKey[1] === route && paramsOf(query.queryKey[2] as object) === paramsOf(options)
        ? previous
        : undefined,
  })
}
const paramsOf = ({ params }: { params?: object }) => JSON.stringify(params)

/** Reads a list page by page. */
export function usePages<R extends ListRoute & GetRoute>(
  workspace: string,
  route: R,
  options: ReadOptions<R>,
  { enabled = true, everyMs = false }: Freshness = {},
) {
  const { data, ...query } = useInfiniteQuery({
    // `useRead` caches another shape for the same route.
    queryKey: [...keyOf(workspace, route, options), 'pages'],
    queryFn: async ({ signal, pageParam }) => {
      const query = { ...(options as { query?: object }).query, ...(pageParam && { cursor: pageParam }) }
      const { reply, headers } = await getClient().answer(route, { ...options, query, signal } as never)
      return { items: (reply as { resources: Item<R>[] }).resources, next: nextCursor(headers.get('Link')) }
    },
    initialPageParam: undefined as string | undefined,
    getNextPageParam: page => page.next,
    enabled,
    refetchInterval: everyMs,
    placeholderData: previous => previous,
  })
  return { ...query, items: data?.pages.flatMap(page => page.items) }
}

export const isMissing = (error: unknown): boolean => error instanceof ApiError && error.status === 404
