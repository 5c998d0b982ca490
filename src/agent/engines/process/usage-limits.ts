// Ends copies and jobs that use more memory or disk than they may.
import type { RevisionRef } from '../../engine.ts'
import { measureMegabytes } from '../../system/files.ts'
import { listProcesses, type Process, sumResidentMegabytes } from '../../system/processes.ts'
import type { Replica } from '../local/replica.ts'
import type { ReplicaPool } from '../local/replica-pool.ts'
import type { ProcessRun } from './run.ts'

type Options = {
  disk_mb: number
  forEachPool(work: (pool: ReplicaPool, ref: RevisionRef) => void): void
  /** The commands that run once, by the folder of each. `source`: the folder of its files. */
  runs: ReadonlyMap<string, ProcessRun & { source: string }>
  /** The folder of the home and the temporary files of a revision. */
  folderOf(ref: RevisionRef): string
  sourceOf(ref: RevisionRef): string | undefined
}

/** The source folder, with many files, is measured once per this many checks. */
const SOURCE_CHECK_EVERY = 10

export class UsageLimits {
  readonly #options: Options
  /** Revisions whose home and tmp folders are emptied before the next launch. */
  readonly overDiskLimit = new Set<string>()
  #isMeasuring = false
  #measureCount = 0

  constructor(options: Options) {
    this.#options = options
  }

  enforceMemory(): void {
    const { runs, forEachPool } = this.#options
    const replicas: Replica[] = [...runs.values()].map(({ replica }) => replica)
    forEachPool(pool => replicas.push(...pool.replicas()))
    if (replicas.length === 0) return
    let processes: Process[] | undefined
    const list = () => (processes ??= listProcesses())
    const used = new Map(replicas.map(replica => [replica, sumResidentMegabytes(replica.pids?.(list) ?? [])]))
    forEachPool(pool => pool.enforceMemory(used))
    for (const { replica, memory_mb, stop } of runs.values()) {
      const megabytes = used.get(replica) ?? 0
      if (megabytes > memory_mb)
        stop(`used ${Math.round(megabytes)} MB of memory, more than the memory_limit_mb of ${memory_mb}, and was ended`)
    }
  }

  async enforceDisk(isUrgent = false): Promise<void> {
    if (this.#isMeasuring) return
    this.#isMeasuring = true
    const { disk_mb: limit, forEachPool, runs, folderOf, sourceOf } = this.#options
    const all: [ReplicaPool, RevisionRef][] = []
    forEachPool((pool, ref) => all.push([pool, ref]))
    const checksSource = isUrgent || this.#measureCount++ % SOURCE_CHECK_EVERY === 0
    const fullSources = new Set<string>()
    for (const [pool, ref] of all) {
      const reason = `it exceeded its disk limit of ${limit} MB`
      const source = checksSource && sourceOf(ref)
      const replicas = pool.replicas()
      if ((await measureMegabytes(folderOf(ref), limit)) > limit) {
        this.overDiskLimit.add(ref.revision_id)
        pool.killAllForReason(reason, replicas, 'disk_full')
        // Twice the limit, because the source itself may be as large as the limit.
      } else if (source && (await measureMegabytes(source, 2 * limit)) > 2 * limit) {
        fullSources.add(source)
        pool.killAllForReason(
          `${reason} in its source folder: make it write to TMPDIR instead, and deploy it again`,
          replicas,
          'disk_full',
        )
      }
    }
    for (const [folder, run] of runs)
      if (fullSources.has(run.source) || (await measureMegabytes(folder, limit)) > limit)
        run.stop(`exceeded the disk limit of ${limit} MB and was ended`)
    this.#isMeasuring = false
  }
}
