// Reads lists that are arrays: page by page, where a shorter page is the last, or as a whole.
import { useInfiniteQuery } from '@tanstack/preact-query'
import { getClient, isPartial, type Reply } from './client.ts'
import { type GetRoute, keyOf, type ReadOptions, useRead } from './queries.ts'

export type ArrayRoute = { [R in GetRoute]: Reply<R> extends unknown[] ? R : never }[GetRoute]
type ItemOf<R extends ArrayRoute> = Reply<R> extends (infer Item)[] ? Item : never
type Freshness = { enabled?: boolean; everyMs?: number | false; pageSize?: number }

export function useOffsetPages<R extends ArrayRoute>(
  workspace: string,
  route: R,
  options: ReadOptions<R>,
  { enabled = true, everyMs = false, pageSize = 50 }: Freshness = {},
) {
  const { data, ...query } = useInfiniteQuery({
    queryKey: [...keyOf(workspace, route, options), 'pages', pageSize],
    queryFn: async ({ signal, pageParam }) => {
      const page = { ...(options as { query?: object }).query, limit: pageSize, offset: pageParam }
      const answer = await getClient().answer(route, { ...options, query: page, signal } as never)
      return { items: answer.reply as ItemOf<R>[], isPartial: isPartial(answer) }
    },
    initialPageParam: 0,
    getNextPageParam: ({ items }, pages) => (items.length < pageSize ? undefined : pages.length * pageSize),
    enabled,
    refetchInterval: everyMs,
    placeholderData: previous => previous,
  })
  return { ...query, items: data?.pages.flatMap(({ items }) => items), isPartial: data?.pages[0]?.isPartial ?? false }
}

/** Reads a list that has no pages. */
export function useReadList<R extends ArrayRoute>(
  workspace: string,
  route: R,
  options: ReadOptions<R>,
  freshness: { everyMs?: number | false } = {},
) {
  const { data, ...read } = useRead(workspace, route, options, freshness)
  return { ...read, items: data as ItemOf<R>[] | undefined }
}
