// What one revision of a deployment is in a cluster: unit → objects. Pure; `docs/kubernetes.md` tells which member becomes what.
import type {
  KubernetesObject,
  V1Deployment,
  V1Secret,
  V1ServiceAccount,
  V2HorizontalPodAutoscaler,
} from '@kubernetes/client-node'
import type { Artifact, RevisionSpec } from '../engine.ts'
import { MIN_SCALE, metadataOf, revisionName, selectorLabels, workloadName } from './names.ts'
import { APP_CONTAINER, podTemplateOf, type Workload, workloadsOf } from './pod-template.ts'
import type { KubernetesSettings } from './settings.ts'
import { encodeBase64 } from './store-objects.ts'

/** How busy the processors are kept before another copy is started, in percent of what was requested. */
const TARGET_CPU_PERCENT = 75

/** In the order in which they are made: what others name comes first, and the application itself last, so that it tells that all is there. */
export function revisionObjects(
  settings: KubernetesSettings,
  unit: RevisionSpec,
  artifact: Artifact,
): KubernetesObject[] {
  const workloads = workloadsOf(unit)
  return [
    ...(unit.resources.service_account_name == null ? [serviceAccountOf(settings, unit)] : []),
    ...(Object.keys(unit.secrets).length > 0 ? [secretOf(settings, unit)] : []),
    ...workloads.filter(isAutoscaled).map(workload => autoscalerOf(settings, unit, workload)),
    ...workloads.toReversed().map(workload => deploymentObjectOf(settings, unit, artifact, workload)),
  ]
}

/** Kubernetes scales to none only with a metric from outside. */
const minScaleOf = ({ scale: [least] }: Workload) => Math.max(1, least)
const isAutoscaled = ({ scale: [least, most] }: Workload) => least < most

function serviceAccountOf(settings: KubernetesSettings, unit: RevisionSpec): V1ServiceAccount {
  const metadata = metadataOf(settings, unit, revisionName(unit), { ofRevision: true })
  return { apiVersion: 'v1', kind: 'ServiceAccount', metadata, automountServiceAccountToken: false }
}

/** A revision's values never change: another value is another revision. */
function secretOf(settings: KubernetesSettings, unit: RevisionSpec): V1Secret {
  const metadata = metadataOf(settings, unit, revisionName(unit), { ofRevision: true })
  const data = Object.fromEntries(Object.entries(unit.secrets).map(([name, value]) => [name, encodeBase64(value)]))
  return { apiVersion: 'v1', kind: 'Secret', metadata, type: 'Opaque', immutable: true, data }
}

/** Each revision has Deployments of its own, so that the new one comes up beside the old. */
function deploymentObjectOf(
  settings: KubernetesSettings,
  unit: RevisionSpec,
  artifact: Artifact,
  workload: Workload,
): V1Deployment {
  const { component } = workload
  const metadata = metadataOf(settings, unit, workloadName(unit, component), { component, ofRevision: true })
  const annotations = { ...metadata.annotations, [MIN_SCALE]: String(minScaleOf(workload)) }
  return {
    ...{ apiVersion: 'apps/v1', kind: 'Deployment' },
    metadata: isAutoscaled(workload) ? { ...metadata, annotations } : metadata,
    spec: {
      // Where an autoscaler decides, we say nothing, or the two would take it from each other.
      ...(!isAutoscaled(workload) && { replicas: workload.scale[0] }),
      revisionHistoryLimit: 1,
      progressDeadlineSeconds: settings.progress_seconds,
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: '25%' } },
      selector: { matchLabels: selectorLabels(settings, unit, component) },
      template: podTemplateOf(settings, unit, artifact, workload),
    },
  }
}

function autoscalerOf(settings: KubernetesSettings, unit: RevisionSpec, workload: Workload): V2HorizontalPodAutoscaler {
  const { component, scale } = workload
  const name = workloadName(unit, component)
  return {
    ...{ apiVersion: 'autoscaling/v2', kind: 'HorizontalPodAutoscaler' },
    metadata: metadataOf(settings, unit, name, { component, ofRevision: true }),
    spec: {
      scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name },
      minReplicas: minScaleOf(workload),
      maxReplicas: scale[1],
      metrics: [
        {
          type: 'ContainerResource',
          // Of the application alone: a sidecar may have said nothing of what it needs.
          containerResource: {
            ...{ name: 'cpu', container: APP_CONTAINER },
            target: { type: 'Utilization', averageUtilization: TARGET_CPU_PERCENT },
          },
        },
      ],
    },
  }
}
