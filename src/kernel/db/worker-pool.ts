// A pool of workers that claim one item at a time, right before working on it: a worker that dies loses only that item.

import { createShares, type Release, type Shares } from '../limits/shares.ts'

export const MAX_ITEMS = 200
/** Under half the schedule's minute: the two pools of a delivery sweep end before the next sweep starts. */
const CLAIM_PERIOD_MS = 25_000

type PoolOptions<T> = {
  maxConcurrent: number
  maxItems?: number
  /** No item is claimed after this time. */
  claimUntil?: number
  /** No item is claimed once it has aborted. */
  stopping?: AbortSignal | undefined
  claim: () => Promise<T | null>
  /** A worker whose work throws ends. The others continue. */
  work: (item: T) => Promise<void>
}

/** Starts with one worker. Each worker that claims an item starts the next one. */
export async function runWorkerPool<T>({
  maxConcurrent,
  maxItems = MAX_ITEMS,
  claimUntil = Number.POSITIVE_INFINITY,
  stopping,
  claim,
  work,
}: PoolOptions<T>): Promise<void> {
  const deadline = Math.min(claimUntil, Date.now() + CLAIM_PERIOD_MS)
  let claimsLeft = maxItems
  const failures: unknown[] = []
  const workers: Promise<unknown>[] = []
  const startWorker = () => workers.push(runWorker().catch(error => failures.push(error)))
  const runWorker = async () => {
    while (claimsLeft-- > 0 && Date.now() < deadline && !stopping?.aborted) {
      const item = await claim()
      if (item === null) {
        claimsLeft = 0
        return
      }
      if (workers.length < maxConcurrent) startWorker()
      await work(item)
    }
  }
  startWorker()
  // Promise.all would miss workers that start meanwhile.
  for (const worker of workers) await worker
  if (failures.length > 0) throw failures[0]
}

type Due = { id: string; workspace: string }

/**
 * Works on items whose ids were listed, each of which `work` claims by itself. The items of one workspace never have
 * all workers, however long they take, so that an item of another one begins at once.
 */
export async function workInTurns<Item extends Due>(
  due: Item[],
  { maxConcurrent, stopping, work }: Pick<PoolOptions<Item>, 'maxConcurrent' | 'stopping' | 'work'>,
): Promise<void> {
  const workers = createShares({ capacity: maxConcurrent })
  const waiting = [...due]
  const deadline = Date.now() + CLAIM_PERIOD_MS
  const failures: unknown[] = []
  const runWorker = async () => {
    while (Date.now() < deadline && !stopping?.aborted) {
      const taken = takeFirst(waiting, workers)
      // The workers of these workspaces go on with what is left.
      if (!taken) return
      try {
        await work(taken.item)
      } finally {
        taken.release()
      }
    }
  }
  await Promise.all(Array.from({ length: maxConcurrent }, () => runWorker().catch(error => failures.push(error))))
  if (failures.length > 0) throw failures[0]
}

function takeFirst<Item extends Due>(waiting: Item[], workers: Shares): { item: Item; release: Release } | undefined {
  const full = new Set<string>()
  for (const [i, item] of waiting.entries()) {
    if (full.has(item.workspace)) continue
    const release = workers.tryTake(item.workspace)
    if (!release) {
      full.add(item.workspace)
      continue
    }
    waiting.splice(i, 1)
    return { item, release }
  }
  return undefined
}
