// The objects of a revision in a cluster: every member of resource_spec is in one, and every object fits its schema.
import type { KubernetesObject, V1Deployment, V1PodSpec } from '@kubernetes/client-node'
import { describe, expect, test } from 'vitest'
import { otherObjects, revisionObjects } from '../../../src/agent/engines/kubernetes/revision-objects.ts'
import { hostsOf, routesOf, serviceOf, urlOf } from '../../../src/agent/engines/kubernetes/routing.ts'
import type { KubernetesSettings } from '../../../src/agent/engines/kubernetes/settings.ts'
import { storesFor } from '../../../src/agent/engines/kubernetes/store-objects.ts'
import { Container, Volume, VolumeMount } from '../../../src/protocol/kubernetes.schema.ts'
import { ResourceSpec } from '../../../src/protocol/resources.schema.ts'
import {
  DEPLOYMENT_ID,
  listSchemaFaults,
  makeArtifact,
  makeKubernetesSettings,
  makeKubernetesUnit,
  makeRevisionId,
  serializeObject,
} from '../../support/kubernetes-fixtures.ts'

type RevisionOptions = Parameters<typeof makeKubernetesUnit>[0] & {
  artifact?: Parameters<typeof makeArtifact>[0]
  settings?: KubernetesSettings
}
/** All objects of one revision, as the client sends them. */
function createObjects({
  artifact,
  settings = makeKubernetesSettings(),
  ...options
}: RevisionOptions = {}): KubernetesObject[] {
  const unit = makeKubernetesUnit(options)
  const stores = storesFor(settings, unit).flatMap(store => [store.secret('generated'), ...store.objects])
  const built = makeArtifact(artifact)
  const workloads = [...otherObjects(settings, unit, built), ...revisionObjects(settings, unit, built)]
  const objects = [...stores, ...workloads, serviceOf(settings, unit)]
  return [...objects, ...routesOf(settings, unit)].map(serializeObject)
}
const BASE = 'shop-aaaaaaaa00'
const findObject = (objects: KubernetesObject[], kind: string, name = `${BASE}-r1`) =>
  objects.find(object => object.kind === kind && object.metadata?.name === name) as unknown as Record<string, never>
const valueAt = (object: unknown, path: string) =>
  path.split('.').reduce((value, key) => (value as Record<string, unknown> | undefined)?.[key], object)
const podOf = (objects: KubernetesObject[], component = '') =>
  (findObject(objects, 'Deployment', `${BASE}-r1${component}`) as unknown as V1Deployment).spec!.template.spec!

const APP = 'spec.template.spec.containers.0'
const sidecar = { name: 'proxy', image: 'example.com/proxy:1' }
const memberCase = (kind: string, name: string, path: string, value: unknown) =>
  [`${kind} ${name}`, path, value] as const
const ROLE = (role: string, amount: string, value: string) =>
  memberCase('Deployment', `${BASE}-r1${role}`, `${APP}.resources.${amount}`, value)
const SCALE = (role: string, end: string, value: number) =>
  memberCase('HorizontalPodAutoscaler', `${BASE}-r1${role}`, `spec.${end}Replicas`, value)
const STORE = (store: string, amount: string, value: string) =>
  memberCase('StatefulSet', `${BASE}-${store}`, `${APP}.resources.${amount}`, value)
const POD = (path: string, value: unknown) =>
  memberCase('Deployment', `${BASE}-r1`, `spec.template.spec.${path}`, value)

/** For each member of resource_spec a value, and the object and path where that value must be. */
const MEMBERS: Record<string, [Record<string, unknown>, ReturnType<typeof memberCase>]> = {
  min_scale: [{ min_scale: 2, max_scale: 4 }, SCALE('', 'min', 2)],
  max_scale: [{ max_scale: 7 }, SCALE('', 'max', 7)],
  cpu: [{ cpu: 0.3 }, ROLE('', 'requests.cpu', '300m')],
  cpu_limit: [{ cpu_limit: 3.1 }, ROLE('', 'limits.cpu', '3100m')],
  memory_mb: [{ memory_mb: 333 }, ROLE('', 'requests.memory', '333Mi')],
  memory_limit_mb: [{ memory_limit_mb: 3333 }, ROLE('', 'limits.memory', '3333Mi')],
  process_scale: [
    { queue_cpu: 1, process_scale: { queue: 4 } },
    memberCase('Deployment', `${BASE}-r1-queue`, 'spec.replicas', 4),
  ],
  process_scaling: [
    {
      queue_cpu: 1,
      process_scaling: { queue: { min_scale: 2, max_scale: 4, scale_metric: 'memory', scale_target: 70 } },
    },
    memberCase('HorizontalPodAutoscaler', `${BASE}-r1-queue`, 'spec.metrics.0.containerResource', {
      name: 'memory',
      container: 'app',
      target: { type: 'Utilization', averageUtilization: 70 },
    }),
  ],
  process_resources: [
    { queue_cpu: 1, process_resources: { queue: { cpu: 0.2 } } },
    ROLE('-queue', 'requests.cpu', '200m'),
  ],
  queue_min_scale: [{ queue_min_scale: 2, queue_max_scale: 5 }, SCALE('-queue', 'min', 2)],
  queue_max_scale: [{ queue_max_scale: 6 }, SCALE('-queue', 'max', 6)],
  queue_cpu: [{ queue_cpu: 0.4 }, ROLE('-queue', 'requests.cpu', '400m')],
  queue_cpu_limit: [{ queue_cpu_limit: 4.1 }, ROLE('-queue', 'limits.cpu', '4100m')],
  queue_memory_mb: [{ queue_memory_mb: 444 }, ROLE('-queue', 'requests.memory', '444Mi')],
  queue_memory_limit_mb: [{ queue_memory_limit_mb: 4444 }, ROLE('-queue', 'limits.memory', '4444Mi')],
  orchestrator_cpu: [{ orchestrator_cpu: 0.5 }, ROLE('-orchestrator', 'requests.cpu', '500m')],
  orchestrator_cpu_limit: [{ orchestrator_cpu_limit: 5.1 }, ROLE('-orchestrator', 'limits.cpu', '5100m')],
  orchestrator_memory_mb: [{ orchestrator_memory_mb: 555 }, ROLE('-orchestrator', 'requests.memory', '555Mi')],
  orchestrator_memory_limit_mb: [
    { orchestrator_memory_limit_mb: 5555 },
    ROLE('-orchestrator', 'limits.memory', '5555Mi'),
  ],
  orchestrator_min_scale: [{ orchestrator_min_scale: 2, orchestrator_max_scale: 3 }, SCALE('-orchestrator', 'min', 2)],
  orchestrator_max_scale: [{ orchestrator_max_scale: 8 }, SCALE('-orchestrator', 'max', 8)],
  executor_cpu: [{ executor_cpu: 0.6 }, ROLE('-executor', 'requests.cpu', '600m')],
  executor_cpu_limit: [{ executor_cpu_limit: 6.1 }, ROLE('-executor', 'limits.cpu', '6100m')],
  executor_memory_mb: [{ executor_memory_mb: 666 }, ROLE('-executor', 'requests.memory', '666Mi')],
  executor_memory_limit_mb: [{ executor_memory_limit_mb: 6666 }, ROLE('-executor', 'limits.memory', '6666Mi')],
  redis_cpu: [{ redis_cpu: 0.7 }, STORE('redis', 'requests.cpu', '700m')],
  redis_cpu_limit: [{ redis_cpu_limit: 7.1 }, STORE('redis', 'limits.cpu', '7100m')],
  redis_memory_mb: [{ redis_memory_mb: 777 }, STORE('redis', 'requests.memory', '777Mi')],
  redis_memory_limit_mb: [{ redis_memory_limit_mb: 7777 }, STORE('redis', 'limits.memory', '7777Mi')],
  labels: [
    { labels: { team: 'a' } },
    memberCase('Deployment', `${BASE}-r1`, 'spec.template.metadata.labels.team', 'a'),
  ],
  annotations: [{ annotations: { note: 'b' } }, memberCase('Service', BASE, 'metadata.annotations.note', 'b')],
  service_account_name: [{ service_account_name: 'robot' }, POD('serviceAccountName', 'robot')],
  image_pull_secrets: [{ image_pull_secrets: [{ name: 'pull' }] }, POD('imagePullSecrets', [{ name: 'pull' }])],
  volumes: [{ volumes: [{ name: 'v', emptyDir: {} }] }, POD('volumes.0', { name: 'v', emptyDir: {} })],
  health_timeout_seconds: [
    { health_timeout_seconds: 33 },
    memberCase('Deployment', `${BASE}-r1`, 'spec.progressDeadlineSeconds', 33),
  ],
  drain_seconds: [{ drain_seconds: 90 }, POD('terminationGracePeriodSeconds', 120)],
  volume_mounts: [
    { volume_mounts: [{ name: 'v', mountPath: '/v' }] },
    POD('containers.0.volumeMounts.0', { name: 'v', mountPath: '/v' }),
  ],
  init_containers: [{ init_containers: [sidecar] }, POD('initContainers.0.name', 'proxy')],
  sidecars: [{ sidecars: [sidecar] }, POD('containers.1.name', 'proxy')],
  db_cpu: [{ db_cpu: 0.8 }, STORE('db', 'requests.cpu', '800m')],
  db_cpu_limit: [{ db_cpu_limit: 8.1 }, STORE('db', 'limits.cpu', '8100m')],
  db_memory_mb: [{ db_memory_mb: 888 }, STORE('db', 'requests.memory', '888Mi')],
  db_memory_limit_mb: [{ db_memory_limit_mb: 8888 }, STORE('db', 'limits.memory', '8888Mi')],
  db_storage_gi: [
    { db_storage_gi: 42 },
    memberCase('PersistentVolumeClaim', `${BASE}-db`, 'spec.resources.requests.storage', '42Gi'),
  ],
  db_max_connections: [
    { db_max_connections: 77 },
    memberCase('StatefulSet', `${BASE}-db`, `${APP}.args`, ['-c', 'max_connections=77']),
  ],
}

/** The agent checks it before there are objects, or they are of the HorizontalPodAutoscaler, or only of one machine. */
const WITHOUT_OBJECTS = [
  'attached_database',
  'scale_metric',
  'scale_target',
  'scale_path',
  'idle_seconds',
  'frozen_seconds',
  'request_limit',
  'protocol',
]

describe('every member of resource_spec', () => {
  test('is covered by this test', () =>
    expect([...Object.keys(MEMBERS), ...WITHOUT_OBJECTS].sort()).toEqual(Object.keys(ResourceSpec.shape).sort()))

  test.each(Object.entries(MEMBERS))('has its place in an object: %s', (_, [spec, [which, path, value]]) => {
    const objects = createObjects({ spec })
    const [kind, name] = which.split(' ')
    expect(valueAt(findObject(objects, kind!, name), path)).toEqual(value)
    expect(objects.flatMap(listSchemaFaults)).toEqual([])
    expect(objects).not.toEqual(createObjects())
  })
})

describe('every member is passed on unchanged', () => {
  const SOURCES: Record<string, Record<string, unknown>> = {
    configMap: { name: 'c', items: [{ key: 'k', path: 'p' }] },
    secret: { secretName: 's', optional: true },
    emptyDir: { medium: 'Memory', sizeLimit: '1Gi' },
    persistentVolumeClaim: { claimName: 'p', readOnly: true },
    nfs: { server: 'nfs.example.com', path: '/exports' },
    projected: { sources: [{ serviceAccountToken: { path: 'token', expirationSeconds: 3600 } }] },
    downwardAPI: { items: [{ path: 'labels', fieldRef: { fieldPath: 'metadata.labels' } }] },
    csi: { driver: 'csi.example.com', volumeAttributes: { share: 'a' } },
  }
  test.each(Object.keys(Volume.shape).filter(name => name !== 'name'))('in a volume of the type %s', name => {
    const volume = { name: 'v', [name]: SOURCES[name] }
    const objects = createObjects({ spec: { volumes: [volume] } })
    expect(podOf(objects).volumes![0]).toEqual(volume)
    expect(objects.flatMap(listSchemaFaults)).toEqual([])
  })

  const mount = {
    name: 'v',
    mountPath: '/v',
    subPath: 'a',
    mountPropagation: 'None',
    subPathExpr: '$(A)',
    readOnly: true,
  }
  test('in a volume mount', () => {
    expect(Object.keys(mount).sort()).toEqual(Object.keys(VolumeMount.shape).sort())
    const pod = podOf(createObjects({ spec: { volume_mounts: [mount], queue_cpu: 1 } }), '-queue')
    expect(pod.containers[0]!.volumeMounts![0]).toEqual(mount)
  })

  const fullContainer = {
    name: 'x',
    image: 'example.com/x:1',
    imagePullPolicy: 'Always',
    workingDir: '/w',
    restartPolicy: 'OnFailure',
    command: ['/x'],
    args: ['-v'],
    env: [{ name: 'A', value: 'b' }],
    envFrom: [{ secretRef: { name: 's' } }],
    resources: { limits: { cpu: '1' }, requests: { cpu: '100m' } },
    volumeMounts: [mount],
    securityContext: { runAsUser: 7 },
  }
  test.each(['init_containers', 'sidecars'])('in a container of %s, if the operator allows privileges', where => {
    expect(Object.keys(fullContainer).sort()).toEqual(Object.keys(Container.shape).sort())
    const settings = makeKubernetesSettings({ K8S_PRIVILEGES: 'on' })
    const objects = createObjects({ spec: { [where]: [fullContainer] }, settings })
    const { initContainers, containers } = podOf(objects)
    expect(where === 'sidecars' ? containers[1] : initContainers![0]).toEqual(fullContainer)
    expect(objects.flatMap(listSchemaFaults)).toEqual([])
  })

  test('a sidecar that always restarts starts before the application, and ends after it', () => {
    const spec = {
      sidecars: [{ ...sidecar, restartPolicy: 'Always' }],
      init_containers: [{ ...sidecar, name: 'first' }],
    }
    const pod = podOf(createObjects({ spec }))
    expect(pod.initContainers!.map(({ name }) => name)).toEqual(['proxy', 'first'])
    expect(pod.containers).toHaveLength(1)
  })
})

describe('the objects of a revision', () => {
  test('are created in an order: first those that others name, last the Deployment of the application', () => {
    const unit = makeKubernetesUnit({ spec: { queue_cpu: 1, executor_cpu: 1, max_scale: 2 }, secrets: { A: 'b' } })
    const names = revisionObjects(makeKubernetesSettings(), unit, makeArtifact()).map(
      ({ kind, metadata }) => `${kind} ${metadata!.name}`,
    )
    expect(names.slice(0, 2)).toEqual([`ServiceAccount ${BASE}-r1`, `Secret ${BASE}-r1`])
    expect(names.at(-1)).toBe(`Deployment ${BASE}-r1`)
  })

  test('are four for a plain deployment', () => {
    const kinds = createObjects({ secrets: { TOKEN: 'hush' } }).map(({ kind }) => kind)
    expect(kinds).toEqual(['ServiceAccount', 'Secret', 'Deployment', 'Service'])
    expect(createObjects({ type: 'prod' }).map(({ kind }) => kind)).toContain('HorizontalPodAutoscaler')
  })

  /** The rules of the Pod Security profile `restricted`. */
  const expectRestricted = (pod: V1PodSpec) => {
    for (const { securityContext } of [...pod.containers, ...(pod.initContainers ?? [])]) {
      expect(securityContext).toMatchObject({
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
        runAsNonRoot: true,
      })
      expect(securityContext).toMatchObject({ seccompProfile: { type: 'RuntimeDefault' } })
    }
    expect(pod.hostNetwork ?? pod.hostPID ?? pod.hostIPC).toBeUndefined()
  }
  test('fit the Pod Security profile `restricted`', () => {
    const spec = {
      queue_cpu: 1,
      orchestrator_cpu: 1,
      executor_cpu: 1,
      redis_cpu: 1,
      db_cpu: 1,
      sidecars: [sidecar],
    }
    const pods = createObjects({ spec }).filter(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet')
    expect(pods).toHaveLength(6)
    for (const object of pods) expectRestricted((object as V1Deployment).spec!.template.spec!)
    expect(podOf(createObjects())).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false })
    expect(
      podOf(createObjects({ spec: { service_account_name: 'robot' } })).automountServiceAccountToken,
    ).toBeUndefined()
  })

  test('narrow a security context, and never widen it for any input of the user', () => {
    const contexts = [
      { runAsUser: 7, readOnlyRootFilesystem: true, seLinuxOptions: null },
      { privileged: null, capabilities: { drop: [] }, allowPrivilegeEscalation: true, runAsNonRoot: false },
      { seccompProfile: { type: 'Unconfined' }, privileged: true, runAsUser: 0, seLinuxOptions: { type: 'spc_t' } },
    ]
    const spec = {
      sidecars: contexts.map((securityContext, i) => ({ ...sidecar, name: `s${i}`, securityContext })),
      init_containers: [{ ...sidecar, name: 'first', securityContext: contexts[1] }],
    }
    const pod = podOf(createObjects({ spec }))
    expectRestricted(pod)
    expect(pod.containers[3]!.securityContext).toEqual(pod.containers[0]!.securityContext)
    expect(pod.containers[1]!.securityContext).toEqual({
      runAsUser: 7,
      readOnlyRootFilesystem: true,
      runAsNonRoot: true,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      seccompProfile: { type: 'RuntimeDefault' },
    })
  })

  test('run as the user of K8S_RUN_AS_USER, except the stores', () => {
    const objects = createObjects({
      spec: { db_cpu: 1 },
      settings: makeKubernetesSettings({ K8S_RUN_AS_USER: '1000' }),
    })
    expect(podOf(objects).securityContext).toMatchObject({ runAsUser: 1000, fsGroup: 1000 })
    expect(
      valueAt(findObject(objects, 'StatefulSet', `${BASE}-db`), 'spec.template.spec.securityContext.runAsUser'),
    ).toBe(999)
  })

  test('may write to a disk that the agent makes, and change no owner of a claim that exists', () => {
    const contextWith = (...claims: object[]) => {
      const volumes = claims.map((persistentVolumeClaim, i) => ({ name: `m${i}`, persistentVolumeClaim }))
      return podOf(createObjects({ spec: { volumes } })).securityContext
    }
    expect(contextWith({ claimName: 'media', storage_gi: 1 })).toMatchObject({ fsGroup: 1000 })
    expect(contextWith({ claimName: 'media' })).not.toHaveProperty('fsGroup')
    // The files of the one that exists would get the group, too.
    const both = contextWith({ claimName: 'media', storage_gi: 1 }, { claimName: 'shared' })
    expect(both).not.toHaveProperty('fsGroup')
  })
})

describe('the container of an application', () => {
  test('has an environment in which secrets override the configuration, and the platform’s variables come last', () => {
    const references = [{ name: 'LICENSE_KEY', secret_name: 'shared', secret_key: 'license' }]
    const objects = createObjects({
      spec: { db_cpu: 1, redis_cpu: 1 },
      secrets: { TOKEN: 'hush', REDIS_URL: 'its own' },
      secret_references: references,
      artifact: { env: { TOKEN: 'no', MODE: 'fast', LICENSE_KEY: 'no' } },
    })
    const from = (name: string, key: string) => ({ valueFrom: { secretKeyRef: { name, key } } })
    expect(podOf(objects).containers[0]!.env).toEqual([
      { name: 'MODE', value: 'fast' },
      { name: 'TOKEN', ...from(`${BASE}-r1`, 'TOKEN') },
      { name: 'REDIS_URL', ...from(`${BASE}-r1`, 'REDIS_URL') },
      { name: 'LICENSE_KEY', ...from('shared', 'license') },
      { name: 'DATABASE_URI', ...from(`${BASE}-db`, 'uri') },
      { name: 'REDIS_URI', ...from(`${BASE}-redis`, 'uri') },
      { name: 'DATABASE_URL', ...from(`${BASE}-db`, 'uri') },
      { name: 'PORT', value: '8000' },
      { name: 'SLIPWAY_ROLE', value: 'web' },
    ])
    expect(JSON.stringify(podOf(objects))).not.toContain('hush')
    expect(valueAt(findObject(objects, 'Secret'), 'data')).toMatchObject({
      TOKEN: Buffer.from('hush').toString('base64'),
    })
    expect(
      Buffer.from(String(valueAt(findObject(objects, 'Secret', `${BASE}-db`), 'data.uri')), 'base64').toString(),
    ).toBe(`postgresql://app:generated@${BASE}-db:5432/app`)
  })

  test('takes the variables of its tracing from a Secret that may change or be missing', () => {
    const name = `${BASE}-r1-tracing`
    const envFrom = [name, `${BASE}-r1-models`].map(name => ({ secretRef: { name, optional: true } }))
    const tracing = { key: 'slt_1', variables: { LANGSMITH_API_KEY: 'slt_1', OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'a' } }
    const objects = createObjects({ tracing, secrets: { LANGSMITH_PROJECT: 'mine' }, spec: { queue_cpu: 1 } })
    for (const component of ['', '-queue']) expect(podOf(objects, component).containers[0]!.envFrom).toEqual(envFrom)
    const secret = findObject(objects, 'Secret', name)
    expect(secret).toMatchObject({ metadata: { labels: { 'slipway/revision-id': makeRevisionId(1) } } })
    expect([valueAt(secret, 'data'), valueAt(secret, 'immutable')]).toEqual([
      { OTEL_EXPORTER_OTLP_TRACES_HEADERS: Buffer.from('a').toString('base64') },
      undefined,
    ])
    expect(listSchemaFaults(secret as never)).toEqual([])
    const untraced = createObjects()
    expect(findObject(untraced, 'Secret', name)).toBeUndefined()
    expect(podOf(untraced).containers[0]!.envFrom).toEqual(envFrom)
  })

  test('reads its token for models from a volume that may be empty, with the same pods in any case', () => {
    const models_url = 'https://slipway.example.com/v1/model-proxy'
    const objects = createObjects({ models_url, spec: { queue_cpu: 1, sidecars: [sidecar] } })
    const [without, secret] = [createObjects(), findObject(objects, 'Secret', `${BASE}-r1-models`)]
    expect(valueAt(secret, 'data')).toEqual({
      SLIPWAY_MODELS_URL: Buffer.from(models_url).toString('base64'),
      SLIPWAY_MODEL_TOKEN_FILE: Buffer.from('/var/run/secrets/slipway/token').toString('base64'),
    })
    expect(listSchemaFaults(secret as never)).toEqual([])
    expect(findObject(without, 'Secret', `${BASE}-r1-models`)).toBeUndefined()
    for (const pod of [podOf(objects), podOf(objects, '-queue'), podOf(without)]) {
      expect(pod.volumes).toEqual([
        { name: 'slipway-models', secret: { secretName: `${BASE}-models`, optional: true, defaultMode: 0o444 } },
      ])
      const mount = { name: 'slipway-models', mountPath: '/var/run/secrets/slipway', readOnly: true }
      expect(pod.containers.map(({ volumeMounts }) => volumeMounts)).toEqual([
        [mount],
        ...pod.containers.slice(1).map(() => undefined),
      ])
    }
  })

  test('gets values and commands unexpanded, even if they contain Kubernetes variable references', () => {
    const artifact = {
      env: { PRICE: 'a$$b $(PORT) $HOME' },
      start_command: 'run --port $PORT --each $(HOME) --pid $$ $$(x) $',
    }
    const app = podOf(createObjects({ artifact })).containers[0]!
    // Expands the text as Kubernetes does.
    const expand = (text: string) => text.replace(/\$\$|\$\((\w+)\)/g, (match, name) => (name ? `<${match}>` : '$'))
    expect(expand(app.env!.find(({ name }) => name === 'PRICE')!.value!)).toBe(artifact.env.PRICE)
    expect(app.command!.map(expand)).toEqual(['/bin/sh', '-c', artifact.start_command])
    expect(app.command![2]).toContain('--port $PORT')
  })

  test('has the start command and the health path of the configuration', () => {
    const app = podOf(createObjects({ artifact: { start_command: 'npm start', health_path: '/ok' } })).containers[0]!
    // The application gets the signals of its pod.
    expect(app.command).toEqual(['/bin/sh', '-c', 'exec npm start'])
    for (const probe of [app.startupProbe, app.readinessProbe, app.livenessProbe])
      expect(probe).toMatchObject({ httpGet: { path: '/ok', port: 'http' } })
    expect(podOf(createObjects()).containers[0]!.readinessProbe).toMatchObject({ tcpSocket: { port: 'http' } })
    expect(podOf(createObjects({ spec: { queue_cpu: 1 } }), '-queue').containers[0]!.readinessProbe).toBeUndefined()
  })

  test('pulls its image for each start, unless a digest names it', () => {
    const image = `registry.example.com/shop@sha256:${'a'.repeat(64)}`
    expect(podOf(createObjects({ artifact: { location: image } })).containers[0]!.imagePullPolicy).toBe('IfNotPresent')
    expect(podOf(createObjects()).containers[0]!.imagePullPolicy).toBe('Always')
  })
})

describe('names and labels', () => {
  test('say which deployment an object belongs to, even if the user sets the same labels', () => {
    const spec = {
      labels: { 'app.kubernetes.io/managed-by': 'me', 'slipway/revision-id': 'x', tier: 'gold' },
      queue_cpu: 1,
    }
    for (const { metadata } of createObjects({ spec, secrets: { A: 'b' } }))
      expect(metadata).toMatchObject({
        namespace: 'apps',
        labels: {
          'app.kubernetes.io/managed-by': 'slipway',
          'slipway/owner': 'default',
          'slipway/deployment-id': DEPLOYMENT_ID,
          tier: 'gold',
        },
      })
    const pod = findObject(createObjects({ spec }), 'Deployment')
    expect(valueAt(pod, 'spec.template.metadata.labels')).toMatchObject({ 'slipway/revision-id': makeRevisionId(1) })
  })

  test('cannot be set by users if the agent reads them', () => {
    const notes = { 'slipway/revision-id': 'x', 'slipway/draining-since': '2026-01-01T00:00:00Z', tier: 'gold' }
    const spec = { labels: { ...notes, 'slipway/draining-since': 'x' }, annotations: notes, db_cpu: 1, redis_cpu: 1 }
    for (const { kind, metadata } of createObjects({ spec })) {
      expect(metadata!.labels?.['slipway/revision-id'], kind).not.toBe('x')
      expect(metadata!.annotations, kind).not.toHaveProperty(['slipway/draining-since'])
      expect(metadata, kind).toMatchObject({ labels: { tier: 'gold' }, annotations: { tier: 'gold' } })
    }
  })

  test('are not repeated for pull secrets', () => {
    const settings = makeKubernetesSettings({ K8S_PULL_SECRETS: 'pull,all' })
    const objects = createObjects({ settings, spec: { image_pull_secrets: [{ name: 'pull' }, { name: 'pull' }] } })
    const names = valueAt(findObject(objects, 'Deployment'), 'spec.template.spec.imagePullSecrets')
    expect(names).toEqual([{ name: 'pull' }, { name: 'all' }])
  })

  test('let a selector match the pods of its revision and part, and the Service those of the application', () => {
    const objects = createObjects({ spec: { queue_cpu: 1 } })
    const labels = (name: string) => valueAt(findObject(objects, 'Deployment', name), 'spec.template.metadata.labels')
    const selector = (name: string) => valueAt(findObject(objects, 'Deployment', name), 'spec.selector.matchLabels')
    expect(labels(`${BASE}-r1`)).toMatchObject(selector(`${BASE}-r1`) as object)
    expect(labels(`${BASE}-r1-queue`)).not.toMatchObject(selector(`${BASE}-r1`) as object)
    expect(valueAt(findObject(objects, 'Service', BASE), 'spec.selector')).toEqual(selector(`${BASE}-r1`))
    const next = createObjects({ number: 2 })
    expect(valueAt(findObject(next, 'Service', BASE), 'spec.selector')).not.toEqual(selector(`${BASE}-r1`))
  })

  test('are valid in Kubernetes', () => {
    const spec = { orchestrator_max_scale: 2, db_cpu: 1 }
    const settings = makeKubernetesSettings({ K8S_ROUTES: 'ingress', K8S_DOMAIN: 'apps.example.com' })
    for (const name of ['9lives', 'a'.repeat(63), `${'a'.repeat(29)}-b`]) {
      const objects = createObjects({ name, number: 12345, spec, settings, custom_url: 'https://a.example.com' })
      for (const { kind, metadata } of objects)
        expect(metadata!.name, kind).toMatch(/^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/)
    }
    expect(createObjects({ namespace: null })[0]!.metadata!.namespace).toBe('apps')
  })
})

describe('routes', () => {
  const makeSettings = (more: Record<string, string>) =>
    makeKubernetesSettings({ K8S_DOMAIN: 'apps.example.com', ...more })
  test.each<[string, Record<string, string>, string | null, string, number]>([
    ['without a setting, there is no route', {}, null, `http://${BASE}.apps.svc`, 0],
    ['a domain gets an Ingress', { K8S_ROUTES: 'ingress' }, null, `http://${BASE}.apps.example.com`, 1],
    [
      'a domain with TLS gets an Ingress',
      { K8S_ROUTES: 'ingress', K8S_TLS: 'secret:wild' },
      null,
      `https://${BASE}.apps.example.com`,
      1,
    ],
    [
      'a custom URL gets another Ingress',
      { K8S_ROUTES: 'ingress' },
      'https://shop.example.com/x',
      'https://shop.example.com/x',
      2,
    ],
    [
      'a custom host gets another Ingress',
      { K8S_ROUTES: 'ingress' },
      'shop.example.com',
      'https://shop.example.com',
      2,
    ],
    [
      'a gateway gets an HTTPRoute',
      { K8S_ROUTES: 'gateway', K8S_GATEWAY: 'infra/main/https' },
      null,
      `http://${BASE}.apps.example.com`,
      1,
    ],
  ])('%s', (_, more, custom_url, url, count) => {
    const routes = routesOf(makeSettings(more), makeKubernetesUnit({ custom_url }))
    expect(routes).toHaveLength(count)
    expect(routes.map(serializeObject).flatMap(listSchemaFaults)).toEqual([])
    expect(urlOf(makeSettings(more), makeKubernetesUnit({ custom_url }))).toBe(url)
  })

  test('a custom_url cannot have the host of another deployment', () => {
    const routesFor = (host: string) =>
      routesOf(makeSettings({ K8S_ROUTES: 'ingress' }), makeKubernetesUnit({ custom_url: `https://${host}/pay` }))
    for (const host of ['shop-0123456789.apps.example.com', 'topic--shop.apps.example.com'])
      expect(() => routesFor(host)).toThrow(/Change custom_url/)
    for (const host of [`${BASE}.apps.example.com`, 'shop.apps.example.com', 'shop-0123456789.example.com'])
      expect(routesFor(host)).toHaveLength(2)
  })

  test('a preview has its own name and that of the serving commit, beside the host with its id', () => {
    const labels = (own: string) => [
      ...[...new Set([own, 'topic--shop'])].map(label => ({ label, revision_id: null })),
      { label: `1111111--${own}`, revision_id: makeRevisionId(1) },
      { label: `2222222--${own}`, revision_id: makeRevisionId(2) },
    ]
    const below = (label: string) => `${label}.apps.example.com`
    const hostsFor = (own: string, more: Record<string, string>) => {
      const unit = makeKubernetesUnit({ number: 2, host_labels: labels(own) })
      const settings = makeSettings({ K8S_TLS: 'secret:wild', ...more })
      const routes = routesOf(settings, unit)
      expect(routes.map(serializeObject).flatMap(listSchemaFaults)).toEqual([])
      return {
        url: urlOf(settings, unit),
        names: routes.map(({ metadata }) => metadata!.name),
        hosts: routes.map(hostsOf),
      }
    }
    for (const more of [{ K8S_ROUTES: 'ingress' }, { K8S_ROUTES: 'gateway', K8S_GATEWAY: 'infra/main' }]) {
      const branch = hostsFor('topic--shop', more)
      expect(branch.url).toBe(`https://${below('topic--shop')}`)
      expect(branch.names).toEqual([BASE, `${BASE}-preview`, `${BASE}-commit`])
      expect(branch.hosts).toEqual([[below(BASE)], [below('topic--shop')], [below('2222222--topic--shop')]])
      // A name without the two hyphens could be that of a deployment of another agent.
      const pull = hostsFor('shop-pr-7', more)
      expect(pull.url).toBe(`https://${below(BASE)}`)
      expect(pull.hosts.slice(1)).toEqual([[below('topic--shop')], [below('2222222--shop-pr-7')]])
    }
    expect(routesOf(makeSettings({ K8S_ROUTES: 'none' }), makeKubernetesUnit({ host_labels: labels('a--b') }))).toEqual(
      [],
    )
  })

  test('an Ingress and an HTTPRoute name the same Service', () => {
    const unit = makeKubernetesUnit({ custom_url: 'https://shop.example.com/x' })
    const ingress = makeSettings({ K8S_ROUTES: 'ingress', K8S_INGRESS_CLASS: 'nginx', K8S_TLS: 'on' })
    const [own, custom] = routesOf(ingress, unit)
    expect(valueAt(own, 'spec.rules.0.http.paths.0.backend.service.name')).toBe(BASE)
    expect(valueAt(own, 'spec.tls')).toEqual([{ hosts: [`${BASE}.apps.example.com`] }])
    expect(valueAt(custom, 'spec.rules.0')).toMatchObject({
      host: 'shop.example.com',
      http: { paths: [{ path: '/x' }] },
    })
    expect(valueAt(custom, 'spec.tls.0.secretName')).toBe(`${BASE}-custom-tls`)
    const [route] = routesOf(makeSettings({ K8S_ROUTES: 'gateway', K8S_GATEWAY: 'infra/main/https' }), unit)
    expect(valueAt(route, 'spec.parentRefs')).toEqual([{ namespace: 'infra', name: 'main', sectionName: 'https' }])
    expect(valueAt(route, 'spec.rules.0.backendRefs')).toEqual([{ name: BASE, port: 80 }])
  })
})

test('invalid settings are refused', () => {
  for (const invalid of [{ K8S_NAMESPACES: '' }, { K8S_ROUTES: 'gateway' }, { K8S_NAMESPACES: 'Bad_Name' }])
    expect(() => makeKubernetesSettings(invalid)).toThrow()
})
