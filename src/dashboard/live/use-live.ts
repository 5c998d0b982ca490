// Reads again what events have made old.
import { useEffect } from 'preact/hooks'
import { isAffected, type LiveEvent, type ReadKey } from '../api/affected.ts'
import { sessionEnded } from '../api/client.ts'
import { queryClient } from '../api/queries.ts'

/** A deploy has several events at once, which need one read. */
const GATHER_MS = 120

export function useLive(workspace: string): void {
  const isEnded = sessionEnded.value
  useEffect(() => {
    // The stream of a session that has ended does not come back. The next session has one of its own.
    if (isEnded) return
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
    let stop: (() => void) | undefined
    let isLeft = false
    // After what is shown first.
    void import('./follow.ts').then(({ followEvents }) => {
      if (isLeft) return
      stop = followEvents(workspace, {
        onEvent: event => {
          gathered.push(event)
          timer ??= setTimeout(refresh, GATHER_MS)
        },
        onGap: () => void queryClient.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] === workspace }),
      })
    })
    return () => {
      isLeft = true
      clearTimeout(timer)
      stop?.()
    }
  }, [workspace, isEnded])
}
