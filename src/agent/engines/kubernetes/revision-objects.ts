// Builds the objects of one revision in a cluster. `docs/operate/kubernetes.md` maps every member. Pure.
import type {
  KubernetesObject,
  V1Deployment,
  V1Secret,
  V1ServiceAccount,
  V2HorizontalPodAutoscaler,
} from '@kubernetes/client-node'
import { SCALE_TARGETS } from '../../../protocol/scaling.ts'
import type { Artifact, RevisionSpec } from '../../engine.ts'
import { graphVariables } from '../graph-variables.ts'
import { MODEL_TOKEN_FILE, modelVariables } from '../model-variables.ts'
import { WEB } from '../process-types.ts'
import { tracingVariables } from '../tracing-variables.ts'
import {
  MIN_SCALE,
  metadataOf,
  modelTokenName,
  modelVariablesName,
  revisionName,
  selectorLabels,
  tracingName,
  workloadName,
} from './names.ts'
import {
  APP_CONTAINER,
  otherWorkloadsOf,
  podTemplateOf,
  progressSecondsOf,
  type ScalingMetric,
  TOKEN_FOLDER,
  type Workload,
  webWorkloadOf,
} from './pod-template.ts'
import { scaledObjectOf } from './scaled-objects.ts'
import type { KubernetesSettings } from './settings.ts'
import { encodeBase64 } from './store-objects.ts'

/** The objects in the order of creation. The application's Deployment is last, so its presence means complete. */
export function revisionObjects(
  settings: KubernetesSettings,
  spec: RevisionSpec,
  artifact: Artifact,
): KubernetesObject[] {
  return [
    ...environmentObjects(settings, spec, artifact),
    ...workloadObjects(settings, spec, artifact, [webWorkloadOf(spec, artifact.isWithoutWeb)]),
  ]
}

/** The processes besides the one that listens. They run while the revision gets the requests. */
export const otherObjects = (settings: KubernetesSettings, spec: RevisionSpec, artifact: Artifact) =>
  workloadObjects(settings, spec, artifact, otherWorkloadsOf(spec, artifact))

const workloadObjects = (
  settings: KubernetesSettings,
  spec: RevisionSpec,
  artifact: Artifact,
  workloads: Workload[],
): KubernetesObject[] => [
  ...workloads.filter(isAutoscaled).map(workload => scalerOf(settings, spec, workload)),
  ...workloads.map(workload => deploymentObjectOf(settings, spec, artifact, workload)),
]

/** The objects that the pods of a revision name, also one that runs a command once. */
export function environmentObjects(
  settings: KubernetesSettings,
  spec: RevisionSpec,
  artifact: Artifact,
): KubernetesObject[] {
  const tracing = { ...tracingVariables(spec, artifact.env), ...graphVariables(spec, artifact) }
  const models = modelVariables(spec, `${TOKEN_FOLDER}/${MODEL_TOKEN_FILE}`)
  return [
    ...(spec.resources.service_account_name == null ? [serviceAccountOf(settings, spec)] : []),
    ...(Object.keys(spec.secrets).length > 0 ? [secretsOf(settings, spec)] : []),
    ...(Object.keys(tracing).length > 0 ? [secretOf(settings, spec, tracingName(spec), tracing)] : []),
    ...(Object.keys(models).length > 0 ? [secretOf(settings, spec, modelVariablesName(spec), models)] : []),
  ]
}

/** Kubernetes scales to zero only with an external metric, and `web` tells that of a queue. */
const minScaleOf = ({ component, scale: [min], metric }: Workload) =>
  metric?.name === 'queue' && component !== WEB ? min : Math.max(1, min)
const isAutoscaled = ({ scale: [min, max] }: Workload) => min < max

function serviceAccountOf(settings: KubernetesSettings, spec: RevisionSpec): V1ServiceAccount {
  const metadata = metadataOf(settings, spec, revisionName(spec), { ofRevision: true })
  return { apiVersion: 'v1', kind: 'ServiceAccount', metadata, automountServiceAccountToken: false }
}

type Variables = Record<string, string>
function secretOf(settings: KubernetesSettings, spec: RevisionSpec, name: string, values: Variables): V1Secret {
  const metadata = metadataOf(settings, spec, name, { ofRevision: true })
  const data = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, encodeBase64(value)]))
  return { apiVersion: 'v1', kind: 'Secret', metadata, type: 'Opaque', data }
}

/** Leaves out the token, which is written apart and renewed. */
export function modelTokenSecretOf(settings: KubernetesSettings, spec: RevisionSpec): V1Secret {
  const metadata = metadataOf(settings, spec, modelTokenName(spec), { component: 'models' })
  return { apiVersion: 'v1', kind: 'Secret', metadata, type: 'Opaque' }
}

/** Immutable, because a changed secret is a new revision. */
const secretsOf = (settings: KubernetesSettings, spec: RevisionSpec): V1Secret => ({
  ...secretOf(settings, spec, revisionName(spec), spec.secrets),
  immutable: true,
})

/** Each revision has its own Deployments, so that it starts beside the previous one. */
function deploymentObjectOf(
  settings: KubernetesSettings,
  spec: RevisionSpec,
  artifact: Artifact,
  workload: Workload,
): V1Deployment {
  const { component } = workload
  const metadata = metadataOf(settings, spec, workloadName(spec, component), { component, ofRevision: true })
  const annotations = { ...metadata.annotations, [MIN_SCALE]: String(minScaleOf(workload)) }
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: isAutoscaled(workload) ? { ...metadata, annotations } : metadata,
    spec: {
      // Left out for an autoscaled Deployment, or each apply would undo the autoscaler's value.
      ...(!isAutoscaled(workload) && { replicas: workload.scale[0] }),
      revisionHistoryLimit: 1,
      progressDeadlineSeconds: progressSecondsOf(spec, settings),
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: '25%' } },
      selector: { matchLabels: selectorLabels(settings, spec, component) },
      template: podTemplateOf(settings, spec, artifact, workload),
    },
  }
}

const DEFAULT_METRIC: ScalingMetric = { name: 'cpu', percent: SCALE_TARGETS.cpu }

function scalerOf(settings: KubernetesSettings, spec: RevisionSpec, workload: Workload): KubernetesObject {
  const { metric = DEFAULT_METRIC } = workload
  return metric.name === 'queue'
    ? scaledObjectOf(settings, spec, workload, metric, minScaleOf(workload))
    : autoscalerOf(settings, spec, workload, metric)
}

function autoscalerOf(
  settings: KubernetesSettings,
  spec: RevisionSpec,
  workload: Workload,
  metric: Exclude<ScalingMetric, { name: 'queue' }>,
): V2HorizontalPodAutoscaler {
  const { component, scale } = workload
  const name = workloadName(spec, component)
  return {
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    metadata: metadataOf(settings, spec, name, { component, ofRevision: true }),
    spec: {
      scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name },
      minReplicas: minScaleOf(workload),
      maxReplicas: scale[1],
      metrics: [
        {
          type: 'ContainerResource',
          // Measures the application's container only, because sidecars may have no request.
          containerResource: {
            name: metric.name,
            container: APP_CONTAINER,
            target: { type: 'Utilization', averageUtilization: metric.percent },
          },
        },
      ],
    },
  }
}
