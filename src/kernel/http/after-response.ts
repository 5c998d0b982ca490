// Work that is done after the responses of many requests, in batches: counting and recording them.
import type { Platform } from '../../platform.ts'
import { type Caller, pauseUntilAborted } from './context.ts'

const MAX_WAITING = 10_000
/** A host may drop the work, with the request that started it. After this time other work may start. */
const TIMEOUT_MS = 10_000

type Work<Batch> = {
  /** Undefined if nothing waits. */
  take: () => Batch | undefined
  handle: (batch: Batch) => Promise<void>
  /** The next batch waits for so long, unless the process ends. */
  everyMs?: number
  /** Logged when `handle` fails. */
  failure: string
  onFailure?: (batch: Batch) => void
}
type CountingWork<Entry> = Omit<Work<Map<string, Entry>>, 'take'>

/** Returns a function that starts the work. Work in progress takes the next batch, too. */
export function createWorkAfterResponses<Batch>(
  { log, stopping }: Pick<Platform, 'log' | 'stopping'>,
  { take, handle, everyMs = 0, failure, onFailure }: Work<Batch>,
): (waitUntil: Caller['waitUntil']) => void {
  let workingSince = 0

  async function handleAll(): Promise<void> {
    let since = 0
    for (let batch = take(); batch !== undefined; batch = take()) {
      since = workingSince = Date.now()
      try {
        await handle(batch)
      } catch (error) {
        onFailure?.(batch)
        log({ level: 'error', error: failure, message: String((error as Error).cause ?? error) })
      }
      if (everyMs > 0) await pauseUntilAborted(everyMs, stopping)
    }
    // Unless this was taken for dropped, and other work has started.
    if (workingSince === since) workingSince = 0
  }

  return waitUntil => {
    if (Date.now() - workingSince >= TIMEOUT_MS) waitUntil?.(handleAll())
  }
}

/** Returns a function that merges an entry into the next batch. It returns false if there is no room for the key. */
export function createCountAfterResponses<Entry>(
  platform: Pick<Platform, 'log' | 'stopping'>,
  work: CountingWork<Entry>,
): (key: string, merge: (waiting: Entry | undefined) => Entry, waitUntil: Caller['waitUntil']) => boolean {
  let waiting = new Map<string, Entry>()
  function take(): Map<string, Entry> | undefined {
    if (waiting.size === 0) return undefined
    const batch = waiting
    waiting = new Map()
    return batch
  }
  const start = createWorkAfterResponses(platform, { ...work, take })

  return (key, merge, waitUntil) => {
    if (waiting.size >= MAX_WAITING && !waiting.has(key)) return false
    waiting.set(key, merge(waiting.get(key)))
    start(waitUntil)
    return true
  }
}
