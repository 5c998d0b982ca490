// What a deployment becomes in a cluster: every member of a specification is somewhere in an object, and every object fits its schema.
import type { KubernetesObject, V1Deployment, V1PodSpec } from '@kubernetes/client-node'
import { describe, expect, test } from 'vitest'
import { revisionObjects } from '../../../src/agent/engines/kubernetes/revision-objects.ts'
import { routesOf, serviceOf, urlOf } from '../../../src/agent/engines/kubernetes/routing.ts'
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

type Given = Parameters<typeof makeKubernetesUnit>[0] & {
  artifact?: Parameters<typeof makeArtifact>[0]
  settings?: KubernetesSettings
}
/** Everything of one revision, as the client sends it. */
function all({ artifact, settings = makeKubernetesSettings(), ...given }: Given = {}): KubernetesObject[] {
  const unit = makeKubernetesUnit(given)
  const stores = storesFor(settings, unit).flatMap(store => [store.secret('generated'), ...store.objects])
  const objects = [...stores, ...revisionObjects(settings, unit, makeArtifact(artifact)), serviceOf(settings, unit)]
  return [...objects, ...routesOf(settings, unit)].map(serializeObject)
}
const BASE = 'shop-aaaaaaaa00'
const findObject = (objects: KubernetesObject[], kind: string, name = `${BASE}-r1`) =>
  objects.find(object => object.kind === kind && object.metadata?.name === name) as unknown as Record<string, never>
const at = (object: unknown, path: string) =>
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

/** Each member of a specification, with a value, and where in which object it is found. */
const MEMBERS: Record<string, [Record<string, unknown>, ReturnType<typeof memberCase>]> = {
  min_scale: [{ min_scale: 2, max_scale: 4 }, SCALE('', 'min', 2)],
  max_scale: [{ max_scale: 7 }, SCALE('', 'max', 7)],
  cpu: [{ cpu: 0.3 }, ROLE('', 'requests.cpu', '300m')],
  cpu_limit: [{ cpu_limit: 3.1 }, ROLE('', 'limits.cpu', '3100m')],
  memory_mb: [{ memory_mb: 333 }, ROLE('', 'requests.memory', '333Mi')],
  memory_limit_mb: [{ memory_limit_mb: 3333 }, ROLE('', 'limits.memory', '3333Mi')],
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
  service_account_name: [{ service_account_name: 'theirs' }, POD('serviceAccountName', 'theirs')],
  image_pull_secrets: [{ image_pull_secrets: [{ name: 'pull' }] }, POD('imagePullSecrets', [{ name: 'pull' }])],
  volumes: [{ volumes: [{ name: 'v', emptyDir: {} }] }, POD('volumes', [{ name: 'v', emptyDir: {} }])],
  volume_mounts: [
    { volume_mounts: [{ name: 'v', mountPath: '/v' }] },
    POD('containers.0.volumeMounts', [{ name: 'v', mountPath: '/v' }]),
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

describe('every member of a specification', () => {
  test('is in the table', () => expect(Object.keys(MEMBERS).sort()).toEqual(Object.keys(ResourceSpec.shape).sort()))

  test.each(Object.entries(MEMBERS))('%s', (_, [spec, [which, path, value]]) => {
    const objects = all({ spec })
    const [kind, name] = which.split(' ')
    expect(at(findObject(objects, kind!, name), path)).toEqual(value)
    expect(objects.flatMap(listSchemaFaults)).toEqual([])
    expect(objects).not.toEqual(all())
  })
})

describe('every member of a volume, of where it is seen, and of a container', () => {
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
  test.each(Object.keys(Volume.shape).filter(name => name !== 'name'))('volume: %s', name => {
    const volume = { name: 'v', [name]: SOURCES[name] }
    const objects = all({ spec: { volumes: [volume] } })
    expect(podOf(objects).volumes).toEqual([volume])
    expect(objects.flatMap(listSchemaFaults)).toEqual([])
  })

  const mount = {
    ...{ name: 'v', mountPath: '/v', subPath: 'a', mountPropagation: 'None', subPathExpr: '$(A)', readOnly: true },
  }
  test('mount', () => {
    expect(Object.keys(mount).sort()).toEqual(Object.keys(VolumeMount.shape).sort())
    const pod = podOf(all({ spec: { volume_mounts: [mount], queue_cpu: 1 } }), '-queue')
    expect(pod.containers[0]!.volumeMounts).toEqual([mount])
  })

  const whole = {
    ...{ name: 'x', image: 'example.com/x:1', imagePullPolicy: 'Always', workingDir: '/w', restartPolicy: 'OnFailure' },
    ...{ command: ['/x'], args: ['-v'], env: [{ name: 'A', value: 'b' }], envFrom: [{ secretRef: { name: 's' } }] },
    resources: { limits: { cpu: '1' }, requests: { cpu: '100m' } },
    volumeMounts: [mount],
    securityContext: { runAsUser: 7 },
  }
  test.each(['init_containers', 'sidecars'])('container: %s', where => {
    expect(Object.keys(whole).sort()).toEqual(Object.keys(Container.shape).sort())
    const objects = all({ spec: { [where]: [whole] } })
    const { initContainers, containers } = podOf(objects)
    expect(where === 'sidecars' ? containers[1] : initContainers![0]).toEqual(whole)
    expect(objects.flatMap(listSchemaFaults)).toEqual([])
  })

  test('a sidecar that always restarts starts before the application, and ends after it', () => {
    const spec = {
      sidecars: [{ ...sidecar, restartPolicy: 'Always' }],
      init_containers: [{ ...sidecar, name: 'first' }],
    }
    const pod = podOf(all({ spec }))
    expect(pod.initContainers!.map(({ name }) => name)).toEqual(['proxy', 'first'])
    expect(pod.containers).toHaveLength(1)
  })
})

describe('what nobody asked for', () => {
  test('what others name is made first, and the application itself last: then all of the revision is there', () => {
    const unit = makeKubernetesUnit({ spec: { queue_cpu: 1, executor_cpu: 1, max_scale: 2 }, secrets: { A: 'b' } })
    const made = revisionObjects(makeKubernetesSettings(), unit, makeArtifact()).map(
      ({ kind, metadata }) => `${kind} ${metadata!.name}`,
    )
    expect(made.slice(0, 2)).toEqual([`ServiceAccount ${BASE}-r1`, `Secret ${BASE}-r1`])
    expect(made.at(-1)).toBe(`Deployment ${BASE}-r1`)
  })

  test('a plain deployment is four objects', () => {
    const kinds = all({ secrets: { TOKEN: 'hush' } }).map(({ kind }) => kind)
    expect(kinds).toEqual(['ServiceAccount', 'Secret', 'Deployment', 'Service'])
    expect(all({ type: 'prod' }).map(({ kind }) => kind)).toContain('HorizontalPodAutoscaler')
  })

  /** What the profile `restricted` looks at, container by container. */
  const restricted = (pod: V1PodSpec) => {
    for (const { securityContext: own } of [...pod.containers, ...(pod.initContainers ?? [])]) {
      expect(own).toMatchObject({
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
        runAsNonRoot: true,
      })
      expect(own).toMatchObject({ seccompProfile: { type: 'RuntimeDefault' } })
    }
    expect(pod.hostNetwork ?? pod.hostPID ?? pod.hostIPC).toBeUndefined()
  }
  test('may do the least', () => {
    const spec = {
      ...{ queue_cpu: 1, orchestrator_cpu: 1, executor_cpu: 1, redis_cpu: 1, db_cpu: 1 },
      sidecars: [sidecar],
    }
    const pods = all({ spec }).filter(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet')
    expect(pods).toHaveLength(6)
    for (const object of pods) restricted((object as V1Deployment).spec!.template.spec!)
    expect(podOf(all())).toMatchObject({ automountServiceAccountToken: false, enableServiceLinks: false })
    expect(podOf(all({ spec: { service_account_name: 'theirs' } })).automountServiceAccountToken).toBeUndefined()
  })

  test('an operator’s user is the pods’, and not the stores’', () => {
    const objects = all({ spec: { db_cpu: 1 }, settings: makeKubernetesSettings({ K8S_RUN_AS_USER: '1000' }) })
    expect(podOf(objects).securityContext).toMatchObject({ runAsUser: 1000, fsGroup: 1000 })
    expect(at(findObject(objects, 'StatefulSet', `${BASE}-db`), 'spec.template.spec.securityContext.runAsUser')).toBe(
      999,
    )
  })
})

describe('environment', () => {
  test('the deployment’s own wins over the configuration’s, and the platform’s is last', () => {
    const references = [{ name: 'LICENCE', secret_name: 'shared', secret_key: 'licence' }]
    const objects = all({
      spec: { db_cpu: 1, redis_cpu: 1 },
      secrets: { TOKEN: 'hush' },
      secret_references: references,
      artifact: { env: { TOKEN: 'no', MODE: 'fast', LICENCE: 'no' } },
    })
    const from = (name: string, key: string) => ({ valueFrom: { secretKeyRef: { name, key } } })
    expect(podOf(objects).containers[0]!.env).toEqual([
      { name: 'MODE', value: 'fast' },
      { name: 'TOKEN', ...from(`${BASE}-r1`, 'TOKEN') },
      { name: 'LICENCE', ...from('shared', 'licence') },
      { name: 'DATABASE_URI', ...from(`${BASE}-db`, 'uri') },
      { name: 'REDIS_URI', ...from(`${BASE}-redis`, 'uri') },
      { name: 'PORT', value: '8000' },
      { name: 'SLIPWAY_ROLE', value: 'web' },
    ])
    expect(JSON.stringify(podOf(objects))).not.toContain('hush')
    expect(at(findObject(objects, 'Secret'), 'data')).toEqual({ TOKEN: Buffer.from('hush').toString('base64') })
    expect(Buffer.from(String(at(findObject(objects, 'Secret', `${BASE}-db`), 'data.uri')), 'base64').toString()).toBe(
      `postgres://app:generated@${BASE}-db:5432/app`,
    )
  })

  test('what looks like a variable of Kubernetes is meant as it stands', () => {
    const artifact = {
      env: { PRICE: 'a$$b $(PORT) $HOME' },
      start_command: 'run --port $PORT --each $(HOME) --pid $$ $$(x) $',
    }
    const app = podOf(all({ artifact })).containers[0]!
    // As Kubernetes reads it.
    const read = (text: string) => text.replace(/\$\$|\$\((\w+)\)/g, (all, name) => (name ? `<${all}>` : '$'))
    expect(read(app.env!.find(({ name }) => name === 'PRICE')!.value!)).toBe(artifact.env.PRICE)
    expect(app.command!.map(read)).toEqual(['/bin/sh', '-c', artifact.start_command])
    expect(app.command![2]).toContain('--port $PORT')
  })

  test('a start command, a health path', () => {
    const app = podOf(all({ artifact: { start_command: 'npm start', health_path: '/ok' } })).containers[0]!
    expect(app.command).toEqual(['/bin/sh', '-c', 'npm start'])
    for (const probe of [app.startupProbe, app.readinessProbe, app.livenessProbe])
      expect(probe).toMatchObject({ httpGet: { path: '/ok', port: 'http' } })
    expect(podOf(all()).containers[0]!.readinessProbe).toMatchObject({ tcpSocket: { port: 'http' } })
    expect(podOf(all({ spec: { queue_cpu: 1 } }), '-queue').containers[0]!.readinessProbe).toBeUndefined()
  })

  test('what a digest names is not pulled again', () => {
    const image = `registry.example.com/shop@sha256:${'a'.repeat(64)}`
    expect(podOf(all({ artifact: { location: image } })).containers[0]!.imagePullPolicy).toBe('IfNotPresent')
    expect(podOf(all()).containers[0]!.imagePullPolicy).toBe('Always')
  })
})

describe('names and labels', () => {
  test('say whose each object is, whatever the user labels', () => {
    const spec = {
      labels: { 'app.kubernetes.io/managed-by': 'me', 'slipway/revision-id': 'x', tier: 'gold' },
      queue_cpu: 1,
    }
    for (const { metadata } of all({ spec, secrets: { A: 'b' } }))
      expect(metadata).toMatchObject({
        namespace: 'apps',
        labels: {
          'app.kubernetes.io/managed-by': 'slipway',
          'slipway/owner': 'default',
          'slipway/deployment-id': DEPLOYMENT_ID,
          tier: 'gold',
        },
      })
    const pod = findObject(all({ spec }), 'Deployment')
    expect(at(pod, 'spec.template.metadata.labels')).toMatchObject({ 'slipway/revision-id': makeRevisionId(1) })
  })

  test('what the agent decides by is never a user’s to write', () => {
    const notes = { 'slipway/revision-id': 'x', 'slipway/draining-since': '2026-01-01T00:00:00Z', tier: 'gold' }
    const spec = { labels: { ...notes, 'slipway/draining-since': 'x' }, annotations: notes, db_cpu: 1, redis_cpu: 1 }
    for (const { kind, metadata } of all({ spec })) {
      expect(metadata!.labels?.['slipway/revision-id'], kind).not.toBe('x')
      expect(metadata!.annotations, kind).not.toHaveProperty(['slipway/draining-since'])
      expect(metadata, kind).toMatchObject({ labels: { tier: 'gold' }, annotations: { tier: 'gold' } })
    }
  })

  test('a secret to pull with is named once', () => {
    const settings = makeKubernetesSettings({ K8S_PULL_SECRETS: 'pull,all' })
    const objects = all({ settings, spec: { image_pull_secrets: [{ name: 'pull' }, { name: 'pull' }] } })
    const names = at(findObject(objects, 'Deployment'), 'spec.template.spec.imagePullSecrets')
    expect(names).toEqual([{ name: 'pull' }, { name: 'all' }])
  })

  test('a selector finds the pods of its revision and part, and the Service those of one revision', () => {
    const objects = all({ spec: { queue_cpu: 1 } })
    const labels = (name: string) => at(findObject(objects, 'Deployment', name), 'spec.template.metadata.labels')
    const selector = (name: string) => at(findObject(objects, 'Deployment', name), 'spec.selector.matchLabels')
    expect(labels(`${BASE}-r1`)).toMatchObject(selector(`${BASE}-r1`) as object)
    expect(labels(`${BASE}-r1-queue`)).not.toMatchObject(selector(`${BASE}-r1`) as object)
    expect(at(findObject(objects, 'Service', BASE), 'spec.selector')).toEqual(selector(`${BASE}-r1`))
    const next = all({ number: 2 })
    expect(at(findObject(next, 'Service', BASE), 'spec.selector')).not.toEqual(selector(`${BASE}-r1`))
  })

  test('stay within what Kubernetes allows', () => {
    const spec = { orchestrator_max_scale: 2, db_cpu: 1 }
    const settings = makeKubernetesSettings({ K8S_ROUTES: 'ingress', K8S_DOMAIN: 'apps.example.com' })
    for (const name of ['9lives', 'a'.repeat(63), `${'a'.repeat(29)}-b`]) {
      const objects = all({ name, number: 12345, spec, settings, custom_url: 'https://a.example.com' })
      for (const { kind, metadata } of objects)
        expect(metadata!.name, kind).toMatch(/^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/)
    }
    expect(all({ namespace: null })[0]!.metadata!.namespace).toBe('apps')
  })
})

describe('ways in', () => {
  const settings = (more: Record<string, string>) => makeKubernetesSettings({ K8S_DOMAIN: 'apps.example.com', ...more })
  test.each<[string, Record<string, string>, string | null, string, number]>([
    ['none', {}, null, `http://${BASE}.apps.svc`, 0],
    ['a domain', { K8S_ROUTES: 'ingress' }, null, `http://${BASE}.apps.example.com`, 1],
    ['with TLS', { K8S_ROUTES: 'ingress', K8S_TLS: 'secret:wild' }, null, `https://${BASE}.apps.example.com`, 1],
    ['a custom address', { K8S_ROUTES: 'ingress' }, 'https://shop.example.com/x', 'https://shop.example.com/x', 2],
    ['a custom host', { K8S_ROUTES: 'ingress' }, 'shop.example.com', 'https://shop.example.com', 2],
    [
      'a gateway',
      { K8S_ROUTES: 'gateway', K8S_GATEWAY: 'infra/main/https' },
      null,
      `http://${BASE}.apps.example.com`,
      1,
    ],
  ])('%s', (_, more, custom_url, url, count) => {
    const routes = routesOf(settings(more), makeKubernetesUnit({ custom_url }))
    expect(routes).toHaveLength(count)
    expect(routes.map(serializeObject).flatMap(listSchemaFaults)).toEqual([])
    expect(urlOf(settings(more), makeKubernetesUnit({ custom_url }))).toBe(url)
  })

  test('a host that is another deployment’s is nobody’s custom_url; its own is', () => {
    const of = (host: string) =>
      routesOf(settings({ K8S_ROUTES: 'ingress' }), makeKubernetesUnit({ custom_url: `https://${host}/pay` }))
    expect(() => of('shop-0123456789.apps.example.com')).toThrow(/Change custom_url/)
    for (const host of [`${BASE}.apps.example.com`, 'shop.apps.example.com', 'shop-0123456789.example.com'])
      expect(of(host)).toHaveLength(2)
  })

  test('an Ingress and an HTTPRoute name the same Service', () => {
    const unit = makeKubernetesUnit({ custom_url: 'https://shop.example.com/x' })
    const ingress = settings({ K8S_ROUTES: 'ingress', K8S_INGRESS_CLASS: 'nginx', K8S_TLS: 'on' })
    const [own, custom] = routesOf(ingress, unit)
    expect(at(own, 'spec.rules.0.http.paths.0.backend.service.name')).toBe(BASE)
    expect(at(own, 'spec.tls')).toEqual([{ hosts: [`${BASE}.apps.example.com`] }])
    expect(at(custom, 'spec.rules.0')).toMatchObject({ host: 'shop.example.com', http: { paths: [{ path: '/x' }] } })
    expect(at(custom, 'spec.tls.0.secretName')).toBe(`${BASE}-custom-tls`)
    const [route] = routesOf(settings({ K8S_ROUTES: 'gateway', K8S_GATEWAY: 'infra/main/https' }), unit)
    expect(at(route, 'spec.parentRefs')).toEqual([{ namespace: 'infra', name: 'main', sectionName: 'https' }])
    expect(at(route, 'spec.rules.0.backendRefs')).toEqual([{ name: BASE, port: 80 }])
  })
})

test('settings that do not fit are refused', () => {
  for (const wrong of [{ K8S_NAMESPACES: '' }, { K8S_ROUTES: 'gateway' }, { K8S_NAMESPACES: 'Bad_Name' }])
    expect(() => makeKubernetesSettings(wrong)).toThrow()
})
