// Works through what is due, claiming each item right before it is worked on: a worker that dies takes along only
// what it holds.

const MAX_ITEMS = 200
/** Two of them are over before the schedule comes again, so that what is worked on alone stays alone. */
const CLAIM_PERIOD_MS = 25_000

type PoolOptions<T> = {
  atOnce: number
  /** Counts the attempt and takes a lease; null where nothing is due. */
  claim: () => Promise<T | null>
  /** A worker that throws ends; the others go on. */
  work: (item: T) => Promise<void>
}

/** Another worker starts only while there is something to claim. */
export async function runWorkerPool<T>({ atOnce, claim, work }: PoolOptions<T>): Promise<void> {
  const until = Date.now() + CLAIM_PERIOD_MS
  let left = MAX_ITEMS
  const failures: unknown[] = []
  const workers: Promise<unknown>[] = []
  const begin = () => workers.push(worker().catch(error => failures.push(error)))
  const worker = async () => {
    while (left-- > 0 && Date.now() < until) {
      const item = await claim()
      if (item === null) {
        left = 0
        return
      }
      if (workers.length < atOnce) begin()
      await work(item)
    }
  }
  begin()
  // The list grows while it is waited for.
  for (const one of workers) await one
  if (failures.length > 0) throw failures[0]
}
