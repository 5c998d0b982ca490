// Long computations of background work, in slices: between two of them the process serves requests, and the time
// that they take is shared by workspace.
//
// A slice is counted in operations, because in workerd the clock stands still while code runs. After each slice the
// work rests for so long that all background work together takes half of the time, each workspace of it an equal part,
// and each computation of a workspace an equal part of that. Computations share only these counts: on Workers, a
// promise or a timer belongs to one request.

/** Yields how many operations it did since the last time. Each step must be short. */
export type SlicedWork<Result> = Generator<number, Result, undefined>

/** They take about `SLICE_MS`. */
const SLICE_OPERATIONS = 2_000_000
const SLICE_MS = 10
/** A computation that was not seen for this long has gone, even if its host dropped it without a word. */
const GONE_MS = 60_000
const LEASE_MS = 60_000

type Clock = { now: () => number; pause: (ms: number) => Promise<unknown> }

export function createBackgroundCpu({ now, pause }: Clock) {
  /** The computations of each workspace, with the time at which each was last seen. */
  const running = new Map<string, Map<symbol, number>>()

  function see(workspace: string, id: symbol): void {
    const own = running.get(workspace) ?? new Map<symbol, number>()
    running.set(workspace, own.set(id, now()))
  }

  function leave(workspace: string, id: symbol): void {
    const own = running.get(workspace)
    own?.delete(id)
    if (own?.size === 0) running.delete(workspace)
  }

  function countShares(workspace: string): number {
    for (const [name, computations] of running)
      for (const [id, seenAt] of computations) if (now() - seenAt > GONE_MS) leave(name, id)
    return running.size * (running.get(workspace)?.size ?? 1)
  }

  return {
    /** `keepLease` is called each minute, for work that others may take over otherwise. */
    async run<Result>(
      workspace: string,
      work: SlicedWork<Result>,
      keepLease: () => Promise<void> = async () => {},
    ): Promise<Result> {
      const id = Symbol()
      let keptAt = now()
      const rest = (sliceMs: number) => pause(sliceMs * (2 * countShares(workspace) - 1))
      try {
        see(workspace, id)
        // Many that start at once do not have their first slices one after the other.
        if (countShares(workspace) > 1) await rest(SLICE_MS)
        for (;;) {
          see(workspace, id)
          const startedAt = now()
          for (let done = 0; done < SLICE_OPERATIONS; ) {
            const step = work.next()
            if (step.done) return step.value
            done += step.value
          }
          const sliceMs = Math.max(SLICE_MS, now() - startedAt)
          await rest(sliceMs)
          if (now() - keptAt < LEASE_MS) continue
          await keepLease()
          keptAt = now()
        }
      } finally {
        leave(workspace, id)
      }
    },
  }
}

const pause = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms))
/** There is one for this process, or on Workers for this isolate. */
export const backgroundCpu = createBackgroundCpu({ now: () => performance.now(), pause })
