// Builds the objects that dump and restore databases: a claim for the dumps, a CronJob, and Jobs. Pure.
import { createHash } from 'node:crypto'
import type {
  KubernetesObject,
  V1CronJob,
  V1EnvVar,
  V1Job,
  V1JobSpec,
  V1PersistentVolumeClaim,
} from '@kubernetes/client-node'
import type { RevisionSpec } from '../../engine.ts'
import { DAILY_FOLDER, DUMP_SCRIPT, DUMPS_FOLDER } from './dump-scripts.ts'
import {
  BACKUP_OF_LABEL,
  baseName,
  COMPONENT_LABEL,
  DEPLOYMENT_LABEL,
  dumpsName,
  INSTANCE_LABEL,
  MANAGED_BY_LABEL,
  metadataOf,
  OWNER_LABEL,
  storeName,
  TASK_LABEL,
  TENANT_LABEL,
} from './names.ts'
import { RESTRICTED_SECURITY, resourcesOf } from './pod-template.ts'
import type { KubernetesSettings } from './settings.ts'
import { DATABASE, STORE_USER } from './store-objects.ts'

export const DUMPS_COMPONENT = 'dumps'
export const DUMP_TASK = 'dump'
const CONTAINER = 'dumps'
const KEPT_SECONDS = 86_400
const DUMP_SECONDS = 6 * 3600
const [CONTROLLER_UID, KEPT_JOBS] = ['batch.kubernetes.io/controller-uid', 10]

/** The place of a deployment in the cluster, by one of its objects. */
export type Place = { namespace: string; base: string; labels: Record<string, string> }

const OWN_LABELS = new Set([
  'app.kubernetes.io/name',
  INSTANCE_LABEL,
  MANAGED_BY_LABEL,
  OWNER_LABEL,
  DEPLOYMENT_LABEL,
  BACKUP_OF_LABEL,
  TENANT_LABEL,
])
export function placeOf({ metadata }: KubernetesObject): Place {
  const { namespace, labels = {} } = metadata!
  const own = Object.fromEntries(Object.entries(labels).filter(([name]) => OWN_LABELS.has(name)))
  return { namespace: namespace!, base: labels[INSTANCE_LABEL]!, labels: own }
}

/** A database goes with what dumps it, but for the claim. */
export const isOfStore = ({ metadata }: KubernetesObject, store: string): boolean =>
  [store, ...(store === 'database' ? [DUMPS_COMPONENT] : [])].includes(metadata?.labels?.[COMPONENT_LABEL] ?? '')

const claimSizeOf = ({ resources }: RevisionSpec) => 2 * resources.db_storage_gi
const KIB_PER_GI = 1024 ** 2

/** It has no label of the deployment, so it stays when that is removed, while it has snapshots. */
export function dumpsClaimOf(settings: KubernetesSettings, spec: RevisionSpec): V1PersistentVolumeClaim {
  const metadata = metadataOf(settings, spec, dumpsName(spec), { component: DUMPS_COMPONENT })
  const { [DEPLOYMENT_LABEL]: _, ...labels } = metadata.labels
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { ...metadata, labels: { ...labels, [BACKUP_OF_LABEL]: spec.deployment_id } },
    spec: {
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: `${claimSizeOf(spec)}Gi` } },
      ...(settings.storage_class !== null && { storageClassName: settings.storage_class }),
    },
  }
}

/** Once a day, at a time of its own for each deployment. */
export function dumpCronJobOf(settings: KubernetesSettings, spec: RevisionSpec): V1CronJob {
  const metadata = metadataOf(settings, spec, `${baseName(spec)}-dump`, { component: DUMPS_COMPONENT })
  const place = placeOf({ metadata })
  const minute = createHash('sha256').update(spec.deployment_id).digest().readUInt16BE() % 1440
  const task: Task = {
    task: DUMP_TASK,
    claim: dumpsName(spec),
    script: DUMP_SCRIPT,
    seconds: DUMP_SECONDS,
    env: [
      { name: 'SNAPSHOT_ID', valueFrom: { fieldRef: { fieldPath: `metadata.labels['${CONTROLLER_UID}']` } } },
      { name: 'FOLDER', value: DAILY_FOLDER },
      { name: 'MAX_KB', value: String(claimSizeOf(spec) * KIB_PER_GI) },
      ...connectionOf(storeName(spec, 'database')),
    ],
  }
  return {
    apiVersion: 'batch/v1',
    kind: 'CronJob',
    metadata,
    spec: {
      schedule: `${minute % 60} ${Math.floor(minute / 60)} * * *`,
      timeZone: 'Etc/UTC',
      concurrencyPolicy: 'Forbid',
      startingDeadlineSeconds: DUMP_SECONDS,
      successfulJobsHistoryLimit: KEPT_JOBS,
      failedJobsHistoryLimit: 1,
      jobTemplate: { metadata: { labels: labelsOf(place, task) }, spec: jobSpecOf(settings, place, task) },
    },
  }
}

export type Task = {
  task: string
  /** The claim with the dumps. */
  claim: string
  script: string
  seconds: number
  env?: V1EnvVar[]
  isReadOnly?: boolean
  /** Pods that are tried after the first one. */
  retries?: number
}

/** `database`: the name of the Service and the Secret of a database. */
export const connectionOf = (database: string): V1EnvVar[] => [
  { name: 'PGHOST', value: database },
  { name: 'PGUSER', value: DATABASE },
  { name: 'PGDATABASE', value: DATABASE },
  { name: 'PGPASSWORD', valueFrom: { secretKeyRef: { name: database, key: 'password' } } },
]

export const taskJobOf = (
  settings: KubernetesSettings,
  place: Place,
  name: string,
  task: Task,
  annotations: Record<string, string> = {},
): V1Job => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: { name, namespace: place.namespace, labels: labelsOf(place, task), annotations },
  spec: { ...jobSpecOf(settings, place, task), ttlSecondsAfterFinished: KEPT_SECONDS },
})

const labelsOf = ({ labels }: Place, { task }: Task) => ({
  ...labels,
  [COMPONENT_LABEL]: DUMPS_COMPONENT,
  [TASK_LABEL]: task,
})

function jobSpecOf(settings: KubernetesSettings, place: Place, task: Task): V1JobSpec {
  const { claim, script, seconds, env = [], isReadOnly = false, retries = 1 } = task
  return {
    backoffLimit: retries,
    activeDeadlineSeconds: seconds,
    template: {
      metadata: { labels: labelsOf(place, task) },
      spec: {
        restartPolicy: 'Never',
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        securityContext: {
          runAsNonRoot: true,
          runAsUser: STORE_USER,
          runAsGroup: STORE_USER,
          fsGroup: STORE_USER,
          fsGroupChangePolicy: 'OnRootMismatch',
          seccompProfile: { type: 'RuntimeDefault' },
        },
        ...(settings.pull_secrets.length > 0 && { imagePullSecrets: settings.pull_secrets.map(name => ({ name })) }),
        volumes: [{ name: 'dumps', persistentVolumeClaim: { claimName: claim } }],
        containers: [
          {
            name: CONTAINER,
            image: settings.postgres_image,
            command: ['/bin/sh', '-c', script],
            ...(env.length > 0 && { env }),
            volumeMounts: [{ name: 'dumps', mountPath: DUMPS_FOLDER, ...(isReadOnly && { readOnly: true }) }],
            resources: resourcesOf([0.1, 1], [128, 512]),
            securityContext: RESTRICTED_SECURITY,
            terminationMessagePolicy: 'FallbackToLogsOnError',
          },
        ],
      },
    },
  }
}
