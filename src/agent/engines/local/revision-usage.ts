// The usage of the copies of all revisions, with the answers that the router has counted of them.
import type { RevisionRef, RevisionUsage } from '../../engine.ts'
import { listProcesses, type Process } from '../../system/processes.ts'
import { WEB } from '../process-types.ts'
import type { ReplicaPool } from './replica-pool.ts'
import { type CountedRequests, countsKey, zeroCounts } from './request-counts.ts'

export type PoolOf = [pool: ReplicaPool, of: RevisionRef, type: string]

export async function listUsage(pools: PoolOf[], counted: CountedRequests | undefined): Promise<RevisionUsage[]> {
  const revisions = new Map<string, RevisionUsage>()
  let processes: Process[] | undefined
  const list = () => (processes ??= listProcesses())
  for (const [pool, ref, type] of pools) {
    const key = countsKey(ref.deployment_id, ref.revision_id)
    const copies = (await pool.usage(list)).map(usage => {
      if (type !== WEB) return { ...usage, process: type, copy: `${type}.${usage.copy}`, requests: null }
      // Before its first request the router has no counts of it.
      const requests = counted ? (counted.copies[countsKey(key, usage.copy)] ?? zeroCounts()) : null
      return { ...usage, process: WEB, requests }
    })
    const known = revisions.get(key)
    const queue = pool.queueDepth ?? known?.queue
    revisions.set(key, {
      ...ref,
      copies: [...(known?.copies ?? []), ...copies],
      unreached: counted ? (counted.unreached[key] ?? 0) : null,
      ...(queue !== undefined && { queue }),
    })
  }
  // Copies that have ended still have answers of this minute.
  for (const [name, requests] of Object.entries(counted?.copies ?? {})) {
    const [deployment_id = '', revision_id = '', copy = ''] = name.split('/')
    const key = countsKey(deployment_id, revision_id)
    const ended = { copy, process: WEB, running: false, restarts: 0, cpu_ms: null, memory_bytes: null, requests }
    const revision = revisions.get(key)
    const unreached = counted!.unreached[key] ?? 0
    if (!revision) revisions.set(key, { deployment_id, revision_id, copies: [ended], unreached })
    else if (!revision.copies.some(known => known.copy === copy)) revision.copies.push(ended)
  }
  return [...revisions.values()]
}
