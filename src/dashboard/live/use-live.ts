// Follows the events of the workspace while the page is shown.
import { useEffect } from 'preact/hooks'
import type { LiveEvent } from '../api/affected.ts'
import { sessionEnded } from '../api/client.ts'

export function useLive(workspace: string, onEvent: (event: LiveEvent) => void): void {
  const isEnded = sessionEnded.value
  useEffect(() => {
    // The stream ends with the session. The next session opens its own.
    if (isEnded) return
    let stop: (() => void) | undefined
    let isLeft = false
    // Load the stream after the first content.
    void import('./refresh.ts').then(({ startRefresh }) => {
      if (!isLeft) stop = startRefresh(workspace, onEvent)
    })
    return () => {
      isLeft = true
      stop?.()
    }
  }, [workspace, isEnded])
}
