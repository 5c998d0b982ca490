// Keeps the entries of the menu that a workspace uses, in this browser.
import { signal } from '@preact/signals'

export const used = signal<ReadonlySet<string>>(new Set())

const keyOf = (workspace: string) => `slipway-menu-${workspace}`
export const storeUsed = (workspace: string): void =>
  localStorage.setItem(keyOf(workspace), JSON.stringify([...used.peek()]))

/** Returns false if this browser knows nothing of the workspace. */
export function loadUsed(workspace: string): boolean {
  const stored = localStorage.getItem(keyOf(workspace))
  used.value = new Set<string>(stored ? JSON.parse(stored) : [])
  return stored !== null
}
