// Reads several resources at once, for a list whose items lack a member.
import { useQuery } from '@tanstack/preact-query'
import { getClient, type Reply } from './client.ts'
import { type GetRoute, keyOf, queryClient, type ReadOptions } from './queries.ts'

/** Resources that are cached, and that no event has made stale, are not read again. */
export function useReadEach<R extends GetRoute>(workspace: string, route: R, all: ReadOptions<R>[]) {
  return useQuery<Reply<R>[], Error>({
    queryKey: keyOf(workspace, route, { query: { each: all } }),
    queryFn: () =>
      Promise.all(
        all.map(options =>
          queryClient.fetchQuery<Reply<R>>({
            queryKey: keyOf(workspace, route, options),
            queryFn: ({ signal }) => getClient().call(route, { ...options, signal } as never),
            staleTime: Number.POSITIVE_INFINITY,
          }),
        ),
      ),
    placeholderData: previous => previous,
  })
}
