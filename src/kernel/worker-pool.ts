// A pool of workers that claim one item at a time, right before working on it: a worker that dies loses only that item.

const MAX_ITEMS = 200
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
