// Learns the entries of the menu that a workspace uses while its pages are open.
import { useEffect, useState } from 'preact/hooks'
import { loadUsed } from './menu-entries.ts'

export function useMenuUse(workspace: string): void {
  // Before the menu is drawn.
  const [isKnown] = useState(() => loadUsed(workspace))
  useEffect(() => {
    let stop: (() => void) | undefined
    let isLeft = false
    void import('./menu-learning.ts').then(({ startLearning }) => {
      if (!isLeft) stop = startLearning(workspace, isKnown)
    })
    return () => {
      isLeft = true
      stop?.()
    }
  }, [workspace])
}

/** Loaded after the first content, like the events themselves. */
export const learnFromEvent = (workspace: string, subject: string): void =>
  void import('./menu-learning.ts').then(({ learnSubject }) => learnSubject(workspace, subject))
