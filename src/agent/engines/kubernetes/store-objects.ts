// Builds the objects of a deployment's database and Redis. Its revisions share them. Pure.
import type {
  KubernetesObject,
  V1Container,
  V1NetworkPolicy,
  V1PersistentVolumeClaim,
  V1Secret,
  V1Service,
  V1StatefulSet,
} from '@kubernetes/client-node'
import type { RevisionSpec } from '../../engine.ts'
import { COMPONENT_LABEL, DECIDED_BY_REVISION, metadataOf, ownerLabels, storeName } from './names.ts'
import { RESTRICTED_SECURITY, resourcesOf } from './pod-template.ts'
import type { KubernetesSettings } from './settings.ts'

/** The user of both official images on Debian. */
export const STORE_USER = 999
export const DATABASE = 'app'

export type StoreObjects = {
  component: 'redis' | 'database'
  port: number
  /** Apply it only if the cluster has no such Secret yet. */
  secret(password: string): V1Secret
  objects: KubernetesObject[]
}

export const storesFor = (settings: KubernetesSettings, spec: RevisionSpec): StoreObjects[] => [
  ...(spec.needs_database ? [databaseObjects(settings, spec)] : []),
  ...(spec.parts.includes('redis') ? [redisObjects(settings, spec)] : []),
]

function databaseObjects(settings: KubernetesSettings, spec: RevisionSpec): StoreObjects {
  const name = storeName(spec, 'database')
  const r = spec.resources
  const volume: V1PersistentVolumeClaim = {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: storeMetadata(settings, spec, 'database'),
    spec: {
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: `${r.db_storage_gi}Gi` } },
      ...(settings.storage_class !== null && { storageClassName: settings.storage_class }),
    },
  }
  const ready = { exec: { command: ['pg_isready', '-h', '127.0.0.1', '-U', DATABASE, '-d', DATABASE] } }
  return storeObjectsOf(settings, spec, {
    component: 'database',
    port: 5432,
    uri: password => `postgresql://${DATABASE}:${password}@${name}:5432/${DATABASE}`,
    before: [volume],
    volumes: [
      { name: 'data', persistentVolumeClaim: { claimName: name } },
      // Parallel queries need more shared memory than a container has by default.
      { name: 'shm', emptyDir: { medium: 'Memory', sizeLimit: '256Mi' } },
    ],
    container: {
      name: 'postgres',
      image: settings.postgres_image,
      args: ['-c', `max_connections=${r.db_max_connections}`],
      env: [
        { name: 'POSTGRES_USER', value: DATABASE },
        { name: 'POSTGRES_DB', value: DATABASE },
        { name: 'POSTGRES_PASSWORD', valueFrom: { secretKeyRef: { name, key: 'password' } } },
        // A folder below the mount, which may contain `lost+found`.
        { name: 'PGDATA', value: '/data/pg' },
      ],
      volumeMounts: [
        { name: 'data', mountPath: '/data' },
        { name: 'shm', mountPath: '/dev/shm' },
      ],
      resources: resourcesOf([r.db_cpu, r.db_cpu_limit], [r.db_memory_mb, r.db_memory_limit_mb]),
      startupProbe: { ...ready, periodSeconds: 2, failureThreshold: 150 },
      readinessProbe: { ...ready, periodSeconds: 5, timeoutSeconds: 5 },
      livenessProbe: { ...ready, periodSeconds: 20, timeoutSeconds: 10, failureThreshold: 6 },
    },
  })
}

function redisObjects(settings: KubernetesSettings, spec: RevisionSpec): StoreObjects {
  const name = storeName(spec, 'redis')
  const r = spec.resources
  const ready = { exec: { command: ['redis-cli', 'ping'] } }
  return storeObjectsOf(settings, spec, {
    component: 'redis',
    port: 6379,
    uri: password => `redis://:${password}@${name}:6379/0`,
    before: [],
    volumes: [],
    container: {
      name: 'redis',
      image: settings.redis_image,
      // Nothing is saved to disk. When memory is full, writes fail instead of evicting queued jobs.
      args: [
        'redis-server',
        '--requirepass',
        '$(REDISCLI_AUTH)',
        '--save',
        '',
        '--appendonly',
        'no',
        '--maxmemory',
        `${Math.floor(r.redis_memory_mb * 0.8)}mb`,
        '--maxmemory-policy',
        'noeviction',
      ],
      env: [{ name: 'REDISCLI_AUTH', valueFrom: { secretKeyRef: { name, key: 'password' } } }],
      resources: resourcesOf([r.redis_cpu, r.redis_cpu_limit], [r.redis_memory_mb, r.redis_memory_limit_mb]),
      readinessProbe: { ...ready, periodSeconds: 5, timeoutSeconds: 5 },
      livenessProbe: { ...ready, periodSeconds: 20, timeoutSeconds: 10, failureThreshold: 6 },
    },
  })
}

type StoreParts = {
  component: StoreObjects['component']
  port: number
  uri(password: string): string
  before: KubernetesObject[]
  volumes: NonNullable<NonNullable<V1StatefulSet['spec']>['template']['spec']>['volumes'] & {}
  container: V1Container
}

function storeObjectsOf(settings: KubernetesSettings, spec: RevisionSpec, parts: StoreParts): StoreObjects {
  const { component, port } = parts
  const name = storeName(spec, component)
  const labels = { ...ownerLabels(settings, spec.deployment_id), [COMPONENT_LABEL]: component }
  const metadata = storeMetadata(settings, spec, component)
  const tcp = { port, protocol: 'TCP' }

  const service: V1Service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata,
    spec: { type: 'ClusterIP', selector: labels, ports: [{ name: component, ...tcp, targetPort: port }] },
  }
  /** Only pods of this deployment may connect, if the cluster enforces network policies. */
  const policy: V1NetworkPolicy = {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata,
    spec: {
      podSelector: { matchLabels: labels },
      policyTypes: ['Ingress'],
      ingress: [{ _from: [{ podSelector: { matchLabels: ownerLabels(settings, spec.deployment_id) } }], ports: [tcp] }],
    },
  }
  const set: V1StatefulSet = {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata,
    spec: {
      serviceName: name,
      replicas: 1,
      selector: { matchLabels: labels },
      template: {
        // Leaves out the user's labels, because a change of them would restart the database.
        metadata: { labels: labels },
        spec: {
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          terminationGracePeriodSeconds: 60,
          securityContext: {
            runAsNonRoot: true,
            runAsUser: STORE_USER,
            runAsGroup: STORE_USER,
            fsGroup: STORE_USER,
            fsGroupChangePolicy: 'OnRootMismatch',
            seccompProfile: { type: 'RuntimeDefault' },
          },
          ...(settings.pull_secrets.length > 0 && { imagePullSecrets: settings.pull_secrets.map(name => ({ name })) }),
          ...(parts.volumes.length > 0 && { volumes: parts.volumes }),
          containers: [
            {
              ...parts.container,
              ports: [{ name: component, containerPort: port, protocol: 'TCP' }],
              securityContext: RESTRICTED_SECURITY,
              terminationMessagePolicy: 'FallbackToLogsOnError',
            },
          ],
        },
      },
    },
  }
  return {
    component,
    port,
    secret: password => ({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata,
      type: 'Opaque',
      data: { password: encodeBase64(password), uri: encodeBase64(parts.uri(password)) },
    }),
    objects: [...parts.before, service, policy, set],
  }
}

function storeMetadata(settings: KubernetesSettings, spec: RevisionSpec, component: StoreObjects['component']) {
  const { annotations, ...meta } = metadataOf(settings, spec, storeName(spec, component), { component })
  return { ...meta, annotations: { ...annotations, [DECIDED_BY_REVISION]: String(spec.number) } }
}

export const encodeBase64 = (text: string) => Buffer.from(text).toString('base64')
