// The usage of pods: restarts from their status, CPU and memory from the metrics API of the cluster.
import type { V1Pod } from '@kubernetes/client-node'
import type { CopyUsage, RevisionUsage } from '../../engine.ts'
import { WEB } from '../process-types.ts'
import { parseMeasuredCpu, parseMemory } from '../quantities.ts'
import { type Cluster, deploymentIdOf } from './cluster.ts'
import { COMPONENT_LABEL, REVISION_LABEL } from './names.ts'
import { labelOf } from './observed-status.ts'

type Containers = { usage?: { cpu?: unknown; memory?: unknown } }[]

/** Null unless every container was measured: a part would look like less. */
function sumMeasured(containers: Containers | undefined, read: (usage: { cpu?: unknown; memory?: unknown }) => number) {
  const amounts = containers?.map(({ usage }) => read(usage ?? {})) ?? []
  const total = amounts.reduce((sum, amount) => sum + amount, 0)
  return amounts.length > 0 && Number.isFinite(total) ? total : null
}

function usageOf({ metadata, status }: V1Pod, containers: Containers | undefined): CopyUsage {
  const statuses = status?.containerStatuses ?? []
  return {
    copy: metadata!.name!,
    process: metadata?.labels?.[COMPONENT_LABEL] ?? WEB,
    running: status?.phase === 'Running',
    restarts: statuses.reduce((sum, { restartCount }) => sum + restartCount, 0),
    cpu_cores: sumMeasured(containers, ({ cpu }) => parseMeasuredCpu(cpu)),
    memory_bytes: sumMeasured(containers, ({ memory }) => parseMemory(memory)),
    // Requests do not pass through the agent.
    requests: null,
  }
}

export async function readPodUsage(cluster: Cluster, namespaces: string[]): Promise<RevisionUsage[]> {
  const revisions = new Map<string, RevisionUsage>()
  for (const namespace of namespaces) {
    const [pods, measured] = await Promise.all([
      cluster.listOwned<V1Pod>('Pod', namespace),
      cluster.podMetrics(namespace),
    ])
    for (const pod of pods) {
      const [deployment_id, revision_id] = [deploymentIdOf(pod), labelOf(pod, REVISION_LABEL)]
      // Pods of databases belong to no revision.
      if (deployment_id === undefined || revision_id === undefined) continue
      const revision = revisions.get(revision_id) ?? { deployment_id, revision_id, copies: [], unreached: null }
      revision.copies.push(usageOf(pod, measured?.get(pod.metadata!.name!)))
      revisions.set(revision_id, revision)
    }
  }
  return [...revisions.values()]
}
