// Remembers which entries of the menu a workspace uses, in this browser.
import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'

export const used = signal<ReadonlySet<string>>(new Set())

const keyOf = (workspace: string) => `slipway-menu-${workspace}`
export const storeUsed = (workspace: string): void =>
  localStorage.setItem(keyOf(workspace), JSON.stringify([...used.peek()]))

export function useMenuUse(workspace: string): void {
  // Before the menu is drawn.
  const [isKnown] = useState(() => {
    const stored = localStorage.getItem(keyOf(workspace))
    used.value = new Set<string>(stored ? JSON.parse(stored) : [])
    return stored !== null
  })
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
