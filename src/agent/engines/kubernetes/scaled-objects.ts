// Copies that follow a queue in a cluster: by ScaledObjects of KEDA, whose operator asks `web` at the Service.
import type { KubernetesObject } from '@kubernetes/client-node'
import type { Artifact, RevisionSpec } from '../../engine.ts'
import { PermanentError } from '../../engine.ts'
import type { Cluster } from './cluster.ts'
import { baseName, metadataOf, namespaceOf, ownerLabels, scaledObjectName, workloadName } from './names.ts'
import type { ScalingMetric, Workload } from './pod-template.ts'
import type { KubernetesSettings } from './settings.ts'

type QueueMetric = Extract<ScalingMetric, { name: 'queue' }>

/** Between two questions while there are no copies, and the time without tasks until the last one ends. */
const POLLING_SECONDS = 5
const COOLDOWN_SECONDS = 60

/** The HorizontalPodAutoscaler that KEDA makes of it is KEDA's: without these labels the agent leaves it alone. */
const EXCLUDED_LABELS = 'scaledobject.keda.sh/hpa-excluded-labels'

export function scaledObjectOf(
  settings: KubernetesSettings,
  spec: RevisionSpec,
  { component, scale }: Workload,
  { tasks, path }: QueueMetric,
  least: number,
): KubernetesObject {
  const name = workloadName(spec, component)
  const metadata = metadataOf(settings, spec, scaledObjectName(name), { component, ofRevision: true })
  const excluded = Object.keys(ownerLabels(settings, spec.deployment_id)).join(',')
  const scaling = {
    scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name },
    pollingInterval: POLLING_SECONDS,
    cooldownPeriod: COOLDOWN_SECONDS,
    minReplicaCount: least,
    maxReplicaCount: scale[1],
    triggers: [
      {
        type: 'metrics-api',
        metricType: 'AverageValue',
        metadata: {
          url: `http://${baseName(spec)}.${namespaceOf(settings, spec)}.svc${path}`,
          // The answer is a number and nothing else.
          format: 'json',
          valueLocation: '@this',
          targetValue: String(tasks),
        },
      },
    ],
  }
  return {
    apiVersion: 'keda.sh/v1alpha1',
    kind: 'ScaledObject',
    metadata: { ...metadata, annotations: { ...metadata.annotations, [EXCLUDED_LABELS]: excluded } },
    spec: scaling,
  } as KubernetesObject
}

/** Null: the agent may use KEDA. Throws if the cluster does not answer. */
export async function reasonWithoutKeda(cluster: Cluster, settings: KubernetesSettings): Promise<string | null> {
  if (!(await cluster.hasKind('ScaledObject'))) return 'the cluster has no KEDA'
  try {
    await cluster.list('ScaledObject', settings.namespaces[0]!, { labels: ownerLabels(settings) })
    return null
  } catch (error) {
    if (error instanceof PermanentError) return 'the agent may not list ScaledObjects'
    throw error
  }
}

/** The control plane does not know the source, and the cluster may have lost KEDA. Null: nothing is in the way. */
export function describeUnaskedQueue(
  { resources }: RevisionSpec,
  artifact: Artifact,
  mayHaveKeda: boolean,
): string | null {
  const isOfWeb = resources.scale_metric === 'queue' && resources.max_scale > Math.max(1, resources.min_scale)
  const moving = Object.values(resources.process_scaling ?? {}).filter(({ scale_metric }) => scale_metric === 'queue')
  if (!isOfWeb && moving.length === 0) return null
  if (!mayHaveKeda)
    return 'Scaling by a queue needs KEDA in the cluster, and an agent that may manage its ScaledObjects. Use `cpu`.'
  return artifact.isWithoutWeb
    ? '`web` tells the depth of the queue, and this source has none. Scale its processes by `cpu` or `memory`.'
    : null
}
