// Gathers what requests leave to be counted, and counts it after their responses, many in one trip.
import type { Platform } from '../platform.ts'
import type { Caller } from './context.ts'

const MAX_WAITING = 10_000
/** A host may drop the trip that counts, with the request that started it. After this time another one may start. */
const TIMEOUT_MS = 10_000

type BatchOptions<Entry> = {
  count: (batch: Map<string, Entry>) => Promise<void>
  /** What the log says when `count` fails. */
  failure: string
  onFailure?: (batch: Map<string, Entry>) => void
}

/** Returns what merges an entry into the batch that waits. It returns false if there is no room for the key. */
export function createDeferredBatches<Entry>(
  { log }: Pick<Platform, 'log'>,
  { count, failure, onFailure }: BatchOptions<Entry>,
): (key: string, merge: (waiting: Entry | undefined) => Entry, waitUntil: Caller['waitUntil']) => boolean {
  let waiting = new Map<string, Entry>()
  let countingSince = 0

  async function countAll(): Promise<void> {
    while (waiting.size > 0) {
      countingSince = Date.now()
      const batch = waiting
      waiting = new Map()
      await count(batch).catch(error => {
        onFailure?.(batch)
        log({ level: 'error', error: failure, message: String(error) })
      })
    }
    countingSince = 0
  }

  return (key, merge, waitUntil) => {
    if (waiting.size >= MAX_WAITING && !waiting.has(key)) return false
    waiting.set(key, merge(waiting.get(key)))
    if (Date.now() - countingSince >= TIMEOUT_MS) waitUntil?.(countAll())
    return true
  }
}
