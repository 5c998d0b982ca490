// Several shares that are held together: the narrow one of some callers, and the wide one of all.
import { isStranger } from './share-groups.ts'
import type { Release, Shares } from './shares.ts'

export type Line = { shares: Shares; group: string; amount?: number }

/** Callers that are not known are one group among the others. */
const STRANGERS = 'strangers'
export const toKnownGroup = (group: string): string => (isStranger(group) ? STRANGERS : group)

/** Returns undefined if one of the lines has to wait. */
export function tryTakeAll(lines: Line[]): Release | undefined {
  const held: Release[] = []
  for (const { shares, group, amount } of lines) {
    const release = shares.tryTake(group, amount)
    if (!release) return void releaseAll(held)
    held.push(release)
  }
  return () => releaseAll(held)
}

/** Waits in one line after the other, so the narrowest comes first. Holds nothing after a failure. */
export async function takeAll(lines: Line[], signal: AbortSignal | undefined): Promise<Release> {
  const held: Release[] = []
  try {
    for (const { shares, group, amount = 1 } of lines)
      held.push(await shares.take(group, { amount, ...(signal && { signal }) }))
    return () => releaseAll(held)
  } catch (error) {
    releaseAll(held)
    throw error
  }
}

/** The widest comes first, so that the next of a narrow line finds room in it. */
function releaseAll(held: Release[]): void {
  for (const release of held.splice(0).reverse()) release()
}
