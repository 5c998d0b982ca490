// Invalidates reads that an event makes stale.
import { isAffected, type LiveEvent, type ReadKey } from '../api/affected.ts'
import { queryClient } from '../api/queries.ts'
import { followEvents } from './follow.ts'

/** A deploy causes several events at once. One read is enough. */
const GATHER_MS = 120

/** Returns a function that stops it. */
export function startRefresh(workspace: string, onEvent: (event: LiveEvent) => void): () => void {
  let gathered: LiveEvent[] = []
  let timer: ReturnType<typeof setTimeout> | undefined
  const refresh = () => {
    const events = gathered
    gathered = []
    timer = undefined
    queryClient.invalidateQueries({
      predicate: ({ queryKey }) =>
        queryKey[0] === workspace && events.some(event => isAffected(event, queryKey as unknown as ReadKey)),
    })
  }
  const stop = followEvents(workspace, {
    onEvent: event => {
      onEvent(event)
      gathered.push(event)
      timer ??= setTimeout(refresh, GATHER_MS)
    },
    onGap: () => void queryClient.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] === workspace }),
  })
  return () => {
    clearTimeout(timer)
    stop()
  }
}
