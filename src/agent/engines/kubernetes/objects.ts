// What one revision of a deployment is in a cluster: unit → objects. Pure; `docs/kubernetes.md` tells which member becomes what.
import type {
  KubernetesObject,
  V1Deployment,
  V1Secret,
  V1ServiceAccount,
  V2HorizontalPodAutoscaler,
} from '@kubernetes/client-node'
import type { Artifact, Unit } from '../engine.ts'
import { LEAST, metaOf, revisionName, selectorLabels, workloadName } from './names.ts'
import { APP, podOf, type Workload, workloadsOf } from './pods.ts'
import type { KubernetesSettings } from './settings.ts'
import { base64 } from './stores.ts'

/** How busy the processors are kept before another copy is started, in percent of what was requested. */
const BUSY = 75

/** In the order in which they are made: what others name comes first, and the application itself last, so that it tells that all is there. */
export function revisionObjects(settings: KubernetesSettings, unit: Unit, artifact: Artifact): KubernetesObject[] {
  const workloads = workloadsOf(unit)
  return [
    ...(unit.resources.service_account_name == null ? [accountOf(settings, unit)] : []),
    ...(Object.keys(unit.secrets).length > 0 ? [secretOf(settings, unit)] : []),
    ...workloads.filter(scales).map(workload => autoscalerOf(settings, unit, workload)),
    ...workloads.toReversed().map(workload => deploymentOf(settings, unit, artifact, workload)),
  ]
}

/** Kubernetes scales to none only with a metric from outside. */
const leastOf = ({ scale: [least] }: Workload) => Math.max(1, least)
const scales = ({ scale: [least, most] }: Workload) => least < most

function accountOf(settings: KubernetesSettings, unit: Unit): V1ServiceAccount {
  const metadata = metaOf(settings, unit, revisionName(unit), { ofRevision: true })
  return { apiVersion: 'v1', kind: 'ServiceAccount', metadata, automountServiceAccountToken: false }
}

/** A revision's values never change: another value is another revision. */
function secretOf(settings: KubernetesSettings, unit: Unit): V1Secret {
  const metadata = metaOf(settings, unit, revisionName(unit), { ofRevision: true })
  const data = Object.fromEntries(Object.entries(unit.secrets).map(([name, value]) => [name, base64(value)]))
  return { apiVersion: 'v1', kind: 'Secret', metadata, type: 'Opaque', immutable: true, data }
}

/** Each revision has Deployments of its own, so that the new one comes up beside the old. */
function deploymentOf(settings: KubernetesSettings, unit: Unit, artifact: Artifact, workload: Workload): V1Deployment {
  const { component } = workload
  const metadata = metaOf(settings, unit, workloadName(unit, component), { component, ofRevision: true })
  const annotations = { ...metadata.annotations, [LEAST]: String(leastOf(workload)) }
  return {
    ...{ apiVersion: 'apps/v1', kind: 'Deployment' },
    metadata: scales(workload) ? { ...metadata, annotations } : metadata,
    spec: {
      // Where an autoscaler decides, we say nothing, or the two would take it from each other.
      ...(!scales(workload) && { replicas: workload.scale[0] }),
      revisionHistoryLimit: 1,
      progressDeadlineSeconds: settings.progress_seconds,
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: '25%' } },
      selector: { matchLabels: selectorLabels(settings, unit, component) },
      template: podOf(settings, unit, artifact, workload),
    },
  }
}

function autoscalerOf(settings: KubernetesSettings, unit: Unit, workload: Workload): V2HorizontalPodAutoscaler {
  const { component, scale } = workload
  const name = workloadName(unit, component)
  return {
    ...{ apiVersion: 'autoscaling/v2', kind: 'HorizontalPodAutoscaler' },
    metadata: metaOf(settings, unit, name, { component, ofRevision: true }),
    spec: {
      scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name },
      minReplicas: leastOf(workload),
      maxReplicas: scale[1],
      metrics: [
        {
          type: 'ContainerResource',
          // Of the application alone: a sidecar may have said nothing of what it needs.
          containerResource: {
            ...{ name: 'cpu', container: APP },
            target: { type: 'Utilization', averageUtilization: BUSY },
          },
        },
      ],
    },
  }
}
