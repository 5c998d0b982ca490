// The tests of the Kubernetes engine share these: units, settings, and the schemas that Kubernetes publishes.

import type { KubernetesObject } from '@kubernetes/client-node'
import { ObjectSerializer } from '@kubernetes/client-node/dist/serializer.js'
import { getSerializationType } from '@kubernetes/client-node/dist/util.js'
import { HTTPRoute } from '@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1'
import { Deployment, StatefulSet } from 'kubernetes-models/apps/v1'
import { HorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2'
import { CronJob, Job } from 'kubernetes-models/batch/v1'
import { Ingress, NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1'
import { PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount } from 'kubernetes-models/v1'
import type { Artifact, RevisionSpec } from '../../src/agent/engine.ts'
import { KubernetesSettings } from '../../src/agent/engines/kubernetes/settings.ts'
import { type DeploymentType, partsOf, ResourceSpec, withDefaults } from '../../src/protocol/resources.schema.ts'

export const makeKubernetesSettings = (more: Record<string, string> = {}): KubernetesSettings =>
  KubernetesSettings.parse({ K8S_NAMESPACES: 'apps,other', K8S_DRAIN_SECONDS: '0', ...more })

export const DEPLOYMENT_ID = 'aaaaaaaa-0000-4000-8000-000000000001'
export const makeRevisionId = (number: number) => `bbbbbbbb-0000-4000-8000-${String(number).padStart(12, '0')}`

/** Makes a unit from a resource specification as a user sends it. */
export function makeKubernetesUnit({
  spec = {},
  type = 'dev',
  ...more
}: Partial<RevisionSpec> & { spec?: unknown; type?: DeploymentType } = {}): RevisionSpec {
  const resourceSpec = ResourceSpec.parse(spec)
  const number = more.number ?? 1
  return {
    deployment_id: DEPLOYMENT_ID,
    revision_id: makeRevisionId(number),
    name: 'shop',
    tenant_id: 'cccccccc-0000-4000-8000-000000000001',
    number,
    source: 'external_container',
    image_uri: 'registry.example.com/shop:1',
    namespace: 'apps',
    custom_url: null,
    needs_database: Object.keys(resourceSpec).some(name => name.startsWith('db_')),
    resources: withDefaults(resourceSpec, type),
    parts: partsOf(resourceSpec),
    secrets: {},
    secret_references: [],
    tracing: null,
    models_url: null,
    ...more,
  }
}

export const makeArtifact = (more: Partial<Artifact> = {}): Artifact => ({
  location: 'registry.example.com/shop:1',
  start_command: null,
  health_path: null,
  env: {},
  commit: null,
  ...more,
})

type Model = new (data: never) => { validate(): void }
const MODELS: Record<string, Model> = Object.fromEntries(
  [
    Deployment,
    StatefulSet,
    HorizontalPodAutoscaler,
    Ingress,
    NetworkPolicy,
    HTTPRoute,
    Job,
    CronJob,
    PersistentVolumeClaim,
    Pod,
    Secret,
    Service,
    ServiceAccount,
  ].map(model => [`${model.apiVersion}/${model.kind}`, model as unknown as Model]),
)

/** The definition of VolumeSnapshots says no more of what the agent sends. */
class VolumeSnapshot {
  readonly #spec: Record<string, unknown>
  constructor({ spec }: { spec: Record<string, unknown> }) {
    this.#spec = spec
  }
  validate(): void {
    const { source, volumeSnapshotClassName = '', ...others } = this.#spec
    const { persistentVolumeClaimName, ...otherSources } = source as Record<string, unknown>
    const unknown = [...Object.keys(others), ...Object.keys(otherSources)]
    if (typeof persistentVolumeClaimName !== 'string' || typeof volumeSnapshotClassName !== 'string' || unknown.length)
      throw new Error(`invalid VolumeSnapshot ${JSON.stringify(this.#spec)}`)
  }
}
MODELS['snapshot.storage.k8s.io/v1/VolumeSnapshot'] = VolumeSnapshot as unknown as Model

/** The members that the agent sends; the definition of KEDA has more. */
const SCALED_OBJECT: Record<string, 'number' | 'object'> = {
  scaleTargetRef: 'object',
  pollingInterval: 'number',
  cooldownPeriod: 'number',
  minReplicaCount: 'number',
  maxReplicaCount: 'number',
  triggers: 'object',
}
class ScaledObject {
  readonly #object: KubernetesObject & { spec: Record<string, unknown> }
  constructor(object: KubernetesObject & { spec: Record<string, unknown> }) {
    this.#object = object
  }
  validate(): void {
    const { spec, metadata } = this.#object
    const triggers = spec.triggers as { metadata: Record<string, unknown> }[]
    const faults = Object.entries(spec).filter(([name, value]) => typeof value !== SCALED_OBJECT[name])
    const values = triggers.flatMap(trigger => Object.values(trigger.metadata))
    if (faults.length > 0 || values.some(value => typeof value !== 'string') || metadata!.name!.length > 63)
      throw new Error(`invalid ScaledObject ${JSON.stringify(this.#object)}`)
  }
}
MODELS['keda.sh/v1alpha1/ScaledObject'] = ScaledObject as unknown as Model

/** The object that the client sends, without members that its types do not know. */
export const serializeObject = <T extends KubernetesObject>(object: T): T =>
  JSON.parse(JSON.stringify(ObjectSerializer.serialize(object, getSerializationType(object.apiVersion, object.kind))))

/** Includes members that the published schemas do not know. */
export function listSchemaFaults(object: KubernetesObject): string[] {
  const { apiVersion, kind } = object
  const Model = MODELS[`${apiVersion}/${kind}`]
  if (!Model) return [`There is no schema of ${apiVersion} ${kind}.`]
  try {
    new Model(JSON.parse(JSON.stringify(object)) as never).validate()
  } catch (fault) {
    return [String(fault)]
  }
  return []
}
