// The memory that bodies of requests hold in this process, in shares by workspace: stalled or large uploads of one
// workspace leave room for those of others.
import type { BodyLimits } from '../../platform.ts'
import { fail } from '../http/errors.ts'
import { isStranger } from './share-groups.ts'
import { createShares, type Release } from './shares.ts'

const RETRY_AFTER_S = '1'
/** Callers whose workspace is not known divide this part by their addresses. */
const PART_OF_STRANGERS = 1 / 8
/** Workers may drop a request whose client has gone, without an end of its code. Longer than a body may take. */
const MAX_HOLD_MS = 15 * 60_000
/** Room is taken in steps that double, as the buffer of a body grows. */
const FIRST_STEP_BYTES = 4096

export type HeldBytes = ReturnType<typeof createHeldBytes>
/** The room that one body holds. */
export type Hold = {
  /** Throws `bodies_busy` if the share of the group does not allow a body of this size now. */
  growTo(size: number): void
  release(): void
}

export function createHeldBytes({ heldBytes, bytes: maxBytes }: Pick<BodyLimits, 'heldBytes' | 'bytes'>) {
  const known = createShares({ capacity: heldBytes })
  const strangers = createShares({ capacity: heldBytes * PART_OF_STRANGERS })
  /** The oldest first. */
  const holds = new Map<Hold, number>()

  function releaseDropped(): void {
    for (const [hold, since] of holds) {
      if (performance.now() - since < MAX_HOLD_MS) return
      hold.release()
    }
  }

  return {
    /** `groupOf` is called for each step, because a key may become known meanwhile. */
    open(groupOf: () => string): Hold {
      const taken: Release[] = []
      let held = 0
      const hold: Hold = {
        growTo(size) {
          if (size <= held) return
          const step = Math.max(size, Math.min(2 * held, maxBytes), Math.min(FIRST_STEP_BYTES, maxBytes))
          const group = groupOf()
          const shares = isStranger(group) ? strangers : known
          let release = shares.tryTake(group, step - held)
          if (!release) {
            releaseDropped()
            release = shares.tryTake(group, step - held)
          }
          if (!release) throw fail('bodies_busy', { headers: { 'Retry-After': RETRY_AFTER_S } })
          taken.push(release)
          held = step
        },
        release() {
          holds.delete(hold)
          for (const release of taken.splice(0)) release()
        },
      }
      holds.set(hold, performance.now())
      return hold
    },
    state: () => ({ known: known.state(), strangers: strangers.state() }),
  }
}
