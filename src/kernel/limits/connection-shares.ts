// Shares of the connections to the database. Requests wait here for a turn, so that a pool behind it never queues.
// Nothing here knows what a connection is: the caller opens or borrows one while it holds its share.
import type { ConnectionUse } from '../../platform.ts'
import { isStranger } from './share-groups.ts'
import { type Line, takeAll, toKnownGroup, tryTakeAll } from './share-lines.ts'
import { createShares, type Release, ShareExhausted } from './shares.ts'

export type ConnectionShares = ReturnType<typeof createConnectionShares>

/** The headers by which a driver names its use to a gateway in another process. */
export const USE_HEADERS = { group: 'slipway-share', isSlow: 'slipway-slow' } as const
export const toUseHeaders = ({ group, isSlow }: ConnectionUse): Record<string, string> => ({
  [USE_HEADERS.group]: group,
  ...(isSlow && { [USE_HEADERS.isSlow]: 'true' }),
})

/** Slow reads together leave the rest of the connections to requests that take milliseconds. */
const SLOW_PART = 0.4
/** Strangers wait in a line of their address before they wait with others. */
const STRANGERS_PART = 0.3
/** A burst waits for as long as a trip may take. These bound only how much memory it may hold meanwhile. */
const MAX_WAITING_PER_GROUP = 1000
const MAX_WAITING_STRANGERS = 2000

export function createConnectionShares(capacity: number) {
  const part = (size: number) => Math.max(1, Math.floor(capacity * size))
  const open = (size: number) => createShares({ capacity: size, maxWaitingPerGroup: MAX_WAITING_PER_GROUP })
  const all = open(capacity)
  const slow = open(part(SLOW_PART))
  const strangers = open(part(STRANGERS_PART))
  const slowStrangers = open(part(STRANGERS_PART))
  let waitingStrangers = 0

  function linesOf({ group, isSlow }: ConnectionUse): Line[] {
    const known = toKnownGroup(group)
    const lines: Line[] = [{ shares: all, group: known }]
    if (isSlow) lines.unshift({ shares: slow, group: known })
    if (isStranger(group)) lines.unshift({ shares: isSlow ? slowStrangers : strangers, group })
    return lines
  }

  /** Every key is unknown after a restart. Once it is known, its other requests wait with its workspace. */
  async function takeAsStranger(use: ConnectionUse, signal: AbortSignal | undefined): Promise<Release> {
    if (waitingStrangers >= MAX_WAITING_STRANGERS) throw new ShareExhausted()
    const known = use.untilKnown?.()
    const signals = [signal, known].filter(one => one !== undefined)
    waitingStrangers++
    try {
      return await takeAll(linesOf(use), AbortSignal.any(signals))
    } catch (error) {
      if (!known?.aborted || signal?.aborted) throw error
      return takeAll(linesOf({ ...use, group: known.reason as string }), signal)
    } finally {
      waitingStrangers--
    }
  }

  return {
    /** Undefined if the use has to wait. */
    tryTake: (use: ConnectionUse): Release | undefined => tryTakeAll(linesOf(use)),
    /** Waits for its turn. Rejects with the reason of `signal`, or `ShareExhausted` for a group with a long queue. */
    take: (use: ConnectionUse, signal?: AbortSignal): Promise<Release> =>
      isStranger(use.group) ? takeAsStranger(use, signal) : takeAll(linesOf(use), signal),
    waiting: (): number =>
      [all, slow, strangers, slowStrangers].reduce((sum, shares) => sum + shares.state().waiting, 0),
  }
}
