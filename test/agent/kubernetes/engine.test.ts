// The kubernetes engine with the real client and a small API server: rollouts, ownership, stores, removal and recovery.
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { NO_EVENTS, PermanentError, TransientError } from '../../../src/agent/engine.ts'
import { API_VERSIONS, type Kind } from '../../../src/agent/engines/kubernetes/cluster.ts'
import { KubernetesEngine } from '../../../src/agent/engines/kubernetes.ts'
import { loadPty } from '../../../src/agent/engines/process/terminal.ts'
import { silenceRejection } from '../../support/commands.ts'
import { KubernetesApi, toPlural } from '../../support/kubernetes-api.ts'
import {
  DEPLOYMENT_ID,
  listSchemaFaults,
  makeArtifact,
  makeKubernetesSettings,
  makeKubernetesUnit,
  makeRevisionId,
  serializeObject,
} from '../../support/kubernetes-fixtures.ts'
import {
  bringUp,
  bringUpAutomatically,
  makeRunningStatus,
  putPod,
  reconcileUntilStable,
  setUnavailable,
} from '../../support/kubernetes-pods.ts'

const hasPty = (await loadPty()) !== undefined
const BASE = 'shop-aaaaaaaa00'
const EVERYTHING_BUT_JOBS = (Object.keys(API_VERSIONS) as Kind[]).filter(kind => kind !== 'Job').map(toPlural)
const OTHER_DEPLOYMENT = 'dddddddd-0000-4000-8000-000000000001'
let api: KubernetesApi
const engines: KubernetesEngine[] = []
const createEngine = (more: Record<string, string> = {}) => {
  const engine = new KubernetesEngine({ settings: makeKubernetesSettings(more), config: api.config, pause_ms: 2 })
  engines.push(engine)
  return engine
}
beforeEach(async () => {
  api = await new KubernetesApi().open()
})
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close()
  await api.close()
})
const listObjects = () =>
  api
    .all()
    .map(({ kind, metadata }) => `${kind} ${metadata.name}`)
    .sort()
const servingRevision = () => api.get('Service', BASE).spec.selector['slipway/revision-id']
const firstUnit = () => makeKubernetesUnit({ secrets: { TOKEN: 'hush' } })
const secondUnit = () =>
  makeKubernetesUnit({ number: 2, secrets: { TOKEN: 'hush' }, image_uri: 'registry.example.com/shop:2' })

describe('a rollout', () => {
  test('routes requests to the first revision only once it is healthy', async () => {
    const engine = createEngine()
    await engine.start(firstUnit(), makeArtifact())
    expect(await engine.observe(DEPLOYMENT_ID)).toMatchObject({
      running: [{ revision_id: makeRevisionId(1), phase: 'starting', reason: null }],
      routed: null,
      hasRemains: true,
    })
    bringUp(api, api.get('Deployment', `${BASE}-r1`))
    expect((await engine.observe(DEPLOYMENT_ID)).running).toMatchObject([{ phase: 'healthy' }])
    expect(api.has('Service', BASE)).toBe(false)
    await engine.route(firstUnit())
    expect(await engine.observe(DEPLOYMENT_ID)).toMatchObject({
      routed: makeRevisionId(1),
      url: `http://${BASE}.apps.svc`,
      running: [{ phase: 'healthy' }],
    })
  })

  test('starts the next revision beside the first, and removes the first completely after the switch', async () => {
    bringUpAutomatically(api)
    const engine = createEngine()
    await reconcileUntilStable(engine, { target: makeRevisionId(1) }, [firstUnit()])
    const { actions } = await reconcileUntilStable(
      engine,
      { target: makeRevisionId(2), serving: makeRevisionId(1) },
      [firstUnit(), secondUnit()],
      () => {
        const selected = api
          .all('Pod')
          .filter(({ metadata }) => metadata.labels!['slipway/revision-id'] === servingRevision())
        expect(selected.length).toBeGreaterThan(0)
      },
    )
    expect(actions).toEqual(['build 2', 'start 2', 'switch 2'])
    const after = await reconcileUntilStable(engine, { serving: makeRevisionId(2) }, [firstUnit(), secondUnit()])
    expect(after.actions).toEqual(['drain 1', 'stop 1', 'forget 1'])
    expect(listObjects().filter(name => name.includes('-r1'))).toEqual([])
    expect(listObjects()).toEqual([
      `Deployment ${BASE}-r2`,
      `Pod ${BASE}-r2-0`,
      `Secret ${BASE}-r2`,
      `Service ${BASE}`,
      `ServiceAccount ${BASE}-r2`,
    ])
  })

  test('changes nothing if an action is repeated', async () => {
    bringUpAutomatically(api)
    const engine = createEngine()
    const unit = makeKubernetesUnit({
      spec: { db_cpu: 1, redis_cpu: 1, queue_cpu: 1, max_scale: 3 },
      secrets: { A: 'b' },
    })
    await reconcileUntilStable(engine, { target: unit.revision_id }, [unit])
    const versions = () => api.all().map(({ metadata }) => metadata.resourceVersion)
    const versionsBefore = versions()
    await engine.provide(unit)
    await engine.start(unit, makeArtifact())
    await engine.route(unit)
    expect(versions()).toEqual(versionsBefore)
  })

  test('drains a revision for K8S_DRAIN_SECONDS, also if the agent restarts meanwhile', async () => {
    bringUpAutomatically(api)
    let now = new Date('2026-11-21T12:00:00Z')
    const settings = makeKubernetesSettings({ K8S_DRAIN_SECONDS: '30' })
    const restart = () => new KubernetesEngine({ settings, config: api.config, now: () => now })
    await reconcileUntilStable(restart(), { target: makeRevisionId(1) }, [firstUnit()])
    await reconcileUntilStable(restart(), { target: makeRevisionId(2), serving: makeRevisionId(1) }, [
      firstUnit(),
      secondUnit(),
    ])
    const engine = restart()
    await engine.drain({ deployment_id: DEPLOYMENT_ID, revision_id: makeRevisionId(1) })
    const phase = async () =>
      (await restart().observe(DEPLOYMENT_ID)).running.find(({ revision_id }) => revision_id === makeRevisionId(1))
        ?.phase
    expect(await phase()).toBe('draining')
    now = new Date('2026-11-21T12:00:10Z')
    await engine.drain({ deployment_id: DEPLOYMENT_ID, revision_id: makeRevisionId(1) })
    now = new Date('2026-11-21T12:00:30Z')
    expect(await phase()).toBe('drained')
    await engine.close()
  })

  test('waits for all replicas, and counts the serving revision as unhealthy only without any', async () => {
    const engine = createEngine()
    const unit = makeKubernetesUnit({ spec: { min_scale: 3, max_scale: 3 } })
    await engine.start(unit, makeArtifact())
    const phaseWith = async (availableReplicas: number) => {
      const { generation } = api.get('Deployment', `${BASE}-r1`).metadata
      api.status('Deployment', `${BASE}-r1`, { observedGeneration: generation, updatedReplicas: 3, availableReplicas })
      return (await engine.observe(DEPLOYMENT_ID)).running[0]!.phase
    }
    expect(await phaseWith(2)).toBe('starting')
    expect(await phaseWith(3)).toBe('healthy')
    await engine.route(unit)
    expect(await phaseWith(1)).toBe('healthy')
    expect(await phaseWith(0)).toBe('unhealthy')
  })

  test('adds and removes a custom URL without a new revision', async () => {
    bringUpAutomatically(api)
    const engine = createEngine({ K8S_ROUTES: 'ingress', K8S_DOMAIN: 'apps.example.com' })
    await reconcileUntilStable(engine, { target: makeRevisionId(1) }, [firstUnit()])
    await engine.route({ ...firstUnit(), custom_url: 'https://shop.example.com' })
    expect(api.all('Ingress').map(({ metadata }) => metadata.name)).toEqual([BASE, `${BASE}-custom`])
    expect((await engine.observe(DEPLOYMENT_ID)).url).toBe('https://shop.example.com')
    await engine.route(firstUnit())
    expect(api.all('Ingress').map(({ metadata }) => metadata.name)).toEqual([BASE])
    expect((await engine.observe(DEPLOYMENT_ID)).url).toBe(`http://${BASE}.apps.example.com`)
  })
})

test('a revision beside the routed one gets its weight of a gateway while it is ready', async () => {
  const engine = createEngine({ K8S_ROUTES: 'gateway', K8S_GATEWAY: 'edge/main', K8S_DOMAIN: 'apps.example.com' })
  expect(engine.policy.features).toContain('traffic')
  expect(createEngine({ K8S_ROUTES: 'ingress' }).policy.features).not.toContain('traffic')
  const weights = () =>
    api.get('HTTPRoute', BASE).spec.rules[0].backendRefs.map((one: { weight?: number }) => one.weight)
  const beside = makeRevisionId(2)
  const split = (share: number) => engine.split(DEPLOYMENT_ID, { revision_id: beside, share, sticky: null })
  await engine.start(firstUnit(), makeArtifact())
  bringUp(api, api.get('Deployment', `${BASE}-r1`))
  await engine.route(firstUnit())
  expect(weights()).toEqual([undefined])
  await engine.start(secondUnit(), makeArtifact())
  await split(10)
  expect([weights(), (await engine.observe(DEPLOYMENT_ID)).split]).toEqual([[100, 0], undefined])
  bringUp(api, api.get('Deployment', `${BASE}-r2`))
  await split(10)
  expect([weights(), servingRevision()]).toEqual([[90, 10], makeRevisionId(1)])
  expect(api.get('Service', `${BASE}-beside`).spec.selector['slipway/revision-id']).toBe(beside)
  expect(await engine.observe(DEPLOYMENT_ID)).toMatchObject({
    routed: makeRevisionId(1),
    split: { revision_id: beside, share: 10 },
  })
  setUnavailable(api, `${BASE}-r2`, null)
  await split(10)
  expect(weights()).toEqual([100, 0])
  // The next agent knows of no split until it is told.
  const next = createEngine({ K8S_ROUTES: 'gateway', K8S_GATEWAY: 'edge/main', K8S_DOMAIN: 'apps.example.com' })
  await next.split(DEPLOYMENT_ID, null)
  await next.route(firstUnit())
  expect([weights(), api.has('Service', `${BASE}-beside`)]).toEqual([[undefined], false])
})

describe('ownership', () => {
  test.each([{ K8S_ROUTES: 'ingress' }, { K8S_ROUTES: 'gateway', K8S_GATEWAY: 'edge/main' }])(
    'leaves a custom host to the first workspace that uses it ($K8S_ROUTES)',
    async settings => {
      const engine = createEngine(settings)
      const shop = { ...firstUnit(), custom_url: 'https://shop.example.com' }
      await engine.start(shop, makeArtifact())
      await engine.route(shop)
      const payDeployment = {
        deployment_id: 'bbbbbbbb-0000-4000-8000-000000000009',
        custom_url: 'https://shop.example.com/pay',
      }
      const unitOfOtherWorkspace = makeKubernetesUnit({
        ...payDeployment,
        tenant_id: 'cccccccc-0000-4000-8000-000000000002',
      })
      await expect(engine.start(unitOfOtherWorkspace, makeArtifact())).rejects.toThrow(TransientError)
      await expect(engine.route(unitOfOtherWorkspace)).rejects.toThrow(TransientError)
      await engine.route(makeKubernetesUnit(payDeployment))
      await engine.route(firstUnit())
      await engine.remove(payDeployment.deployment_id)
      await engine.start(unitOfOtherWorkspace, makeArtifact())
    },
  )

  test('is not taken over from an object with the same name: the start fails', async () => {
    api.put({ apiVersion: 'v1', kind: 'Secret', metadata: { name: `${BASE}-r1` }, data: { A: 'foreign' } })
    await expect(createEngine().start(firstUnit(), makeArtifact())).rejects.toThrow(PermanentError)
    expect(api.get('Secret', `${BASE}-r1`).data).toEqual({ A: 'foreign' })
    expect(api.has('Deployment', `${BASE}-r1`)).toBe(false)
  })

  test('covers the agent’s fields: a foreign change of them is reverted and logged, other fields stay', async () => {
    const lines: string[] = []
    const engine = createEngine()
    await engine.open({ ...NO_EVENTS, log: (_, message, level) => lines.push(`${level} ${message}`) })
    const unit = makeKubernetesUnit({ spec: { min_scale: 2, max_scale: 2 } })
    await engine.start(unit, makeArtifact())
    const metadata = { name: `${BASE}-r1`, labels: { team: 'foreign' } }
    api.put({ apiVersion: 'apps/v1', kind: 'Deployment', metadata, spec: { replicas: 9 } }, 'kubectl')
    await engine.start(unit, makeArtifact())
    expect(api.get('Deployment', `${BASE}-r1`)).toMatchObject({
      spec: { replicas: 2 },
      metadata: { labels: { team: 'foreign' } },
    })
    expect(lines).toHaveLength(1)
    expect(lines[0]).toMatch(/^WARNING .*kubectl/)
  })

  test('leaves the number of replicas to an autoscaler', async () => {
    const engine = createEngine()
    const unit = makeKubernetesUnit({ spec: { max_scale: 5 } })
    await engine.start(unit, makeArtifact())
    api.put(
      { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: `${BASE}-r1` }, spec: { replicas: 4 } },
      'hpa',
    )
    await engine.start(unit, makeArtifact())
    expect(api.get('Deployment', `${BASE}-r1`).spec.replicas).toBe(4)
  })

  test('follows a scale that changes while the revision runs, with an autoscaler and without', async () => {
    const lines: string[] = []
    const engine = createEngine()
    await engine.open({ ...NO_EVENTS, log: (_, message) => lines.push(message) })
    const scale = async (min_scale: number, max_scale: number) => {
      await engine.start(makeKubernetesUnit({ spec: { min_scale, max_scale } }), makeArtifact())
      return [api.get('Deployment', `${BASE}-r1`).spec.replicas, api.has('HorizontalPodAutoscaler', `${BASE}-r1`)]
    }
    expect(await scale(3, 3)).toEqual([3, false])
    const { metadata, spec } = api.get('Deployment', `${BASE}-r1`)
    expect(await scale(2, 5)).toEqual([3, true])
    expect(await scale(4, 6)).toEqual([3, true])
    expect(api.get('HorizontalPodAutoscaler', `${BASE}-r1`).spec).toMatchObject({ minReplicas: 4, maxReplicas: 6 })
    const name = metadata.name
    api.put({ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name }, spec: { replicas: 6 } }, 'hpa')
    expect(await scale(2, 2)).toEqual([2, false])
    expect(await scale(5, 5)).toEqual([5, false])
    expect(await scale(5, 9)).toEqual([5, true])
    // No pod is replaced by it.
    expect(api.get('Deployment', name).spec.template).toEqual(spec.template)
    expect(lines).toEqual([])
  })

  test('starts an autoscaled revision with its minimum of replicas, which it needs to be healthy', async () => {
    const engine = createEngine()
    await engine.start(makeKubernetesUnit({ spec: { min_scale: 2, max_scale: 5 } }), makeArtifact())
    expect(api.get('Deployment', `${BASE}-r1`).spec.replicas).toBe(2)
    const phase = async (replicas: number) => {
      const metadata = { name: `${BASE}-r1` }
      const { generation } = api.put({
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        metadata,
        spec: { replicas },
      }).metadata
      const counts = { updatedReplicas: replicas, availableReplicas: replicas }
      api.status('Deployment', `${BASE}-r1`, { observedGeneration: generation, ...counts })
      return (await engine.observe(DEPLOYMENT_ID)).running[0]!.phase
    }
    expect(await phase(1)).toBe('starting')
    expect(await phase(2)).toBe('healthy')
  })

  test('covers members that were removed from resource_spec: they are removed from the object', async () => {
    const engine = createEngine()
    await engine.start(
      makeKubernetesUnit({ spec: { sidecars: [{ name: 'p', image: 'p' }] } }),
      makeArtifact({ env: { A: '1' } }),
    )
    await engine.start(makeKubernetesUnit(), makeArtifact())
    const { containers } = api.get('Deployment', `${BASE}-r1`).spec.template.spec
    expect(containers).toHaveLength(1)
    expect(containers[0].env.map(({ name }: { name: string }) => name)).toEqual(['PORT', 'SLIPWAY_ROLE'])
  })

  test('is separate for each agent: it lists only its own deployments', async () => {
    await createEngine().start(firstUnit(), makeArtifact())
    await createEngine().start(
      makeKubernetesUnit({ deployment_id: OTHER_DEPLOYMENT, namespace: 'other' }),
      makeArtifact(),
    )
    await createEngine({ K8S_OWNER: 'staging' }).start(
      makeKubernetesUnit({ deployment_id: OTHER_DEPLOYMENT, name: 'staged' }),
      makeArtifact(),
    )
    expect((await createEngine().deployments()).sort()).toEqual([DEPLOYMENT_ID, OTHER_DEPLOYMENT])
    expect(await createEngine({ K8S_OWNER: 'staging' }).deployments()).toEqual([OTHER_DEPLOYMENT])
    expect(await createEngine({ K8S_OWNER: 'unused' }).deployments()).toEqual([])
  })

  test('excludes namespaces that the agent does not serve and reserved container names: they are refused', () => {
    const engine = createEngine()
    expect(engine.refusalReason(firstUnit())).toBeNull()
    expect(engine.refusalReason(makeKubernetesUnit({ namespace: null }))).toBeNull()
    expect(engine.refusalReason(makeKubernetesUnit({ namespace: 'kube-system' }))).toContain('kube-system')
    expect(engine.refusalReason(makeKubernetesUnit({ source: 'githost' }))).toContain('githost')
    expect(engine.refusalReason(makeKubernetesUnit({ spec: { sidecars: [{ name: 'app', image: 'x' }] } }))).toContain(
      '`app`',
    )
  })
})

describe('stores', () => {
  const unit = () => makeKubernetesUnit({ spec: { db_cpu: 1, db_storage_gi: 5, redis_cpu: 1 } })
  test('a database is created before the application, and keeps its password', async () => {
    const engine = createEngine()
    await engine.provide(unit())
    expect((await engine.observe(DEPLOYMENT_ID)).database).toEqual({ ready: false, reason: null })
    expect(listObjects()).toContain(`StatefulSet ${BASE}-db`)
    expect(api.all('Deployment')).toEqual([])
    bringUp(api, api.get('StatefulSet', `${BASE}-db`))
    expect((await engine.observe(DEPLOYMENT_ID)).database).toEqual({ ready: true, reason: null })
    const { data } = api.get('Secret', `${BASE}-db`)
    await createEngine().start(unit(), makeArtifact())
    expect(api.get('Secret', `${BASE}-db`).data).toEqual(data)
    expect(listObjects()).toContain(`StatefulSet ${BASE}-redis`)
  })

  test('a database that is not ready is observed with the reason', async () => {
    const engine = createEngine()
    await engine.provide(unit())
    const labels = api.get('StatefulSet', `${BASE}-db`).spec.template.metadata.labels
    api.put({ apiVersion: 'v1', kind: 'Pod', metadata: { name: `${BASE}-db-0`, labels } })
    const message = '0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.'
    const conditions = [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }]
    api.status('Pod', `${BASE}-db-0`, { phase: 'Pending', conditions })
    expect((await engine.observe(DEPLOYMENT_ID)).database?.reason).toContain('storage class')
  })

  test('no new password is created while the old one may exist, or for existing data', async () => {
    const engine = createEngine()
    api.refuse = ({ kind, verb }) => (kind === 'Secret' && verb === 'get' ? { code: 500, message: 'etcd' } : undefined)
    await expect(engine.provide(unit())).rejects.toThrow(TransientError)
    expect(api.all()).toEqual([])
    api.refuse = () => undefined
    await engine.provide(unit())
    api.delete('Secret', `${BASE}-db`)
    await expect(engine.provide(unit())).rejects.toThrow(PermanentError)
    expect(api.has('Secret', `${BASE}-db`)).toBe(false)
  })

  test('shared stores have the size that the newest revision requests, even if an older one starts again', async () => {
    const cpu = () => api.get('StatefulSet', `${BASE}-db`).spec.template.spec.containers[0].resources.requests.cpu
    for (const [number, requestedCpu, resultingCpu] of [
      [1, 1, '1'],
      [2, 2, '2'],
      [1, 1, '2'],
      [3, 1, '1'],
    ] as const) {
      await createEngine().provide(
        makeKubernetesUnit({ number, spec: { db_cpu: requestedCpu, labels: { release: `r${number}` } } }),
      )
      expect(cpu()).toBe(resultingCpu)
    }
    expect(api.get('StatefulSet', `${BASE}-db`).spec.template.metadata.labels.release).toBeUndefined()
  })

  test('a disk with a size is a claim of the deployment, which goes only when it is cleared', async () => {
    const engine = createEngine()
    const claim = (name: string, more = {}) => ({ name, persistentVolumeClaim: { claimName: name, ...more } })
    api.put({ apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name: 'theirs' } })
    const others = ['x-disk-media', 'my-media'].map(name => claim(name, { storage_gi: 1 }))
    const volumes = [claim('media', { storage_gi: 3 }), claim('theirs'), ...others]
    const sized = makeKubernetesUnit({ spec: { volumes, volume_mounts: [{ name: 'media', mountPath: '/app/m' }] } })
    await engine.start(sized, makeArtifact())
    const { spec } = api.get('PersistentVolumeClaim', `${BASE}-disk-media`)
    expect(spec).toMatchObject({ accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '3Gi' } } })
    const pod = api.all('Deployment')[0]!.spec.template.spec
    expect(pod.volumes.slice(0, 2).map((one: { persistentVolumeClaim: object }) => one.persistentVolumeClaim)).toEqual([
      { claimName: `${BASE}-disk-media` },
      { claimName: 'theirs' },
    ])
    expect(pod.containers[0].env).toContainEqual({ name: 'SLIPWAY_DISK_MEDIA', value: '/app/m' })
    await engine.stop(sized)
    expect(listObjects()).toContain(`PersistentVolumeClaim ${BASE}-disk-media`)
    await engine.removeStore(DEPLOYMENT_ID, 'disk:theirs')
    await engine.removeStore(DEPLOYMENT_ID, 'disk:media')
    const claims = listObjects().filter(name => name.startsWith('PersistentVolumeClaim'))
    const left = [`${BASE}-disk-my-media`, `${BASE}-disk-x-disk-media`, 'theirs']
    expect(claims).toEqual(left.map(name => `PersistentVolumeClaim ${name}`))
  })

  test('a volume can grow but not shrink', async () => {
    const size = () => api.get('PersistentVolumeClaim', `${BASE}-db`).spec.resources.requests.storage
    for (const [requestedGi, resultingSize] of [
      [5, '5Gi'],
      [20, '20Gi'],
      [10, '20Gi'],
      [2048, '2Ti'],
      [10, '2Ti'],
      [2050, '2050Gi'],
      [2048, '2050Gi'],
    ] as const) {
      await createEngine().provide(makeKubernetesUnit({ spec: { db_storage_gi: requestedGi } }))
      expect(size()).toBe(resultingSize)
    }
  })
})

describe('removal', () => {
  const unit = () =>
    makeKubernetesUnit({ spec: { db_cpu: 1, redis_cpu: 1, queue_cpu: 1, max_scale: 3 }, secrets: { A: 'b' } })
  test('deletes the agent’s objects in two phases, and no others', async () => {
    bringUpAutomatically(api)
    const engine = createEngine({ K8S_ROUTES: 'ingress', K8S_DOMAIN: 'apps.example.com' })
    await reconcileUntilStable(engine, { target: unit().revision_id }, [unit()])
    await createEngine().start(makeKubernetesUnit({ deployment_id: OTHER_DEPLOYMENT, name: 'next' }), makeArtifact())
    api.put({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'shared', labels: { 'slipway/deployment-id': DEPLOYMENT_ID } },
    })
    const foreignObjects = listObjects().filter(name => /next|shared/.test(name))
    api.requests.length = 0
    const { actions } = await reconcileUntilStable(engine, { present: false }, [unit()])
    expect(actions).toEqual(['drain 1', 'stop 1', 'forget 1', 'remove'])
    expect(listObjects()).toEqual(foreignObjects)
    const deletedKinds = api.requests.filter(({ verb }) => verb === 'delete').map(({ kind }) => kind)
    expect(deletedKinds.indexOf('PersistentVolumeClaim')).toBeGreaterThan(deletedKinds.lastIndexOf('StatefulSet'))
    expect(deletedKinds.lastIndexOf('Secret')).toBeGreaterThan(deletedKinds.lastIndexOf('Deployment'))
    expect(await engine.observe(DEPLOYMENT_ID)).toEqual({
      running: [],
      routed: null,
      url: null,
      hasRemains: false,
      database: null,
    })
  })

  test('returns before slow pods of a revision have ended, and deletes the remaining objects after them', async () => {
    bringUpAutomatically(api)
    const engine = createEngine()
    await reconcileUntilStable(engine, { target: makeRevisionId(1) }, [makeKubernetesUnit({ secrets: { A: 'b' } })])
    const pod = api.get('Pod', `${BASE}-r1-0`)
    api.put({ ...pod, metadata: { ...pod.metadata, finalizers: ['kubernetes.io/still-ending'] } })
    const ref = { deployment_id: DEPLOYMENT_ID, revision_id: makeRevisionId(1) }
    const phases = async () => (await engine.observe(DEPLOYMENT_ID)).running.map(({ phase }) => phase)
    await engine.stop(ref)
    expect(listObjects()).toEqual([
      `Pod ${BASE}-r1-0`,
      `Secret ${BASE}-r1`,
      `Service ${BASE}`,
      `ServiceAccount ${BASE}-r1`,
    ])
    expect(await phases()).toEqual(['draining'])
    api.release('Pod', `${BASE}-r1-0`)
    expect(await phases()).toEqual(['drained'])
    await engine.stop(ref)
    expect(await phases()).toEqual([])
    expect(listObjects()).toEqual([`Service ${BASE}`])
  })

  test('includes an autoscaler whose Deployment the cluster refused', async () => {
    const engine = createEngine({ K8S_SERVICE_ACCOUNTS: 'robot' })
    api.refuse = ({ kind, verb }) =>
      kind === 'Deployment' && verb === 'create' ? { code: 403, message: 'denied the request' } : undefined
    const unit = makeKubernetesUnit({ spec: { max_scale: 3, service_account_name: 'robot' } })
    await expect(engine.start(unit, makeArtifact())).rejects.toThrow(PermanentError)
    expect(listObjects()).toEqual([`HorizontalPodAutoscaler ${BASE}-r1`])
    expect((await engine.observe(DEPLOYMENT_ID)).running).toMatchObject([
      { revision_id: makeRevisionId(1), phase: 'drained' },
    ])
    await engine.stop({ deployment_id: DEPLOYMENT_ID, revision_id: makeRevisionId(1) })
    expect(listObjects()).toEqual([])
  })

  test('ends only when all objects of a deployment are gone, and can be repeated', async () => {
    bringUpAutomatically(api)
    const engine = createEngine()
    await reconcileUntilStable(engine, { target: unit().revision_id }, [unit()])
    const metadata = { name: `${BASE}-db`, finalizers: ['kubernetes.io/pvc-protection'] }
    api.put({ apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata })
    let isComplete = false
    const removing = silenceRejection(
      engine.remove(DEPLOYMENT_ID).then(() => {
        isComplete = true
      }),
    )
    await expect.poll(() => api.get('PersistentVolumeClaim', `${BASE}-db`).metadata.deletionTimestamp).toBeTruthy()
    await expect
      .poll(() => listObjects())
      .toEqual([`PersistentVolumeClaim ${BASE}-db`, `PersistentVolumeClaim ${BASE}-db-dumps`])
    expect(isComplete).toBe(false)
    expect((await createEngine().observe(DEPLOYMENT_ID)).hasRemains).toBe(true)
    api.release('PersistentVolumeClaim', `${BASE}-db`)
    await removing
    await createEngine().remove(DEPLOYMENT_ID)
  })

  test('does not mistake a failed request for an absent object', async () => {
    bringUpAutomatically(api)
    const engine = createEngine()
    await reconcileUntilStable(engine, { target: unit().revision_id }, [unit()])
    api.refuse = ({ kind, verb }) => (kind === 'Pod' && verb === 'list' ? { code: 503, message: 'later' } : undefined)
    await expect(engine.observe(DEPLOYMENT_ID)).rejects.toThrow()
    await expect(createEngine().observe(DEPLOYMENT_ID)).rejects.toThrow()
    await expect(engine.remove(DEPLOYMENT_ID)).rejects.toThrow()
    expect(listObjects()).toContain(`PersistentVolumeClaim ${BASE}-db`)
  })
})

const isWrite = ({ verb }: { verb: string }) => verb === 'patch' || verb === 'delete'
/** From an agent's nth write on, none of its requests arrives. */
function killAtWrite(n: number): void {
  let remaining = n
  api.refuse = request =>
    (isWrite(request) ? remaining-- : remaining) > 0 ? undefined : { code: 500, message: 'killed' }
}

test('an agent that is killed while it creates a database leaves one database with one password', async () => {
  const unit = makeKubernetesUnit({ spec: { db_cpu: 1 } })
  await createEngine().provide(unit)
  const [allObjects, writeCount] = [listObjects(), api.requests.filter(isWrite).length]
  await createEngine().remove(DEPLOYMENT_ID)
  for (let killed = 0; killed < writeCount; killed++) {
    killAtWrite(killed)
    await expect(createEngine().provide(unit)).rejects.toThrow()
    api.refuse = () => undefined
    const password = api.has('Secret', `${BASE}-db`) ? api.get('Secret', `${BASE}-db`).data.password : null
    await createEngine().provide(unit)
    expect(listObjects()).toEqual(allObjects)
    if (password !== null) expect(api.get('Secret', `${BASE}-db`).data.password).toBe(password)
    await createEngine().remove(DEPLOYMENT_ID)
    expect(listObjects()).toEqual([])
  }
})

// A third of the writes each, because one test would take minutes where others share two slow cores.
test.each([0, 1, 2])(
  'an agent that is killed before write %i, or each third after it, leaves no orphan',
  async first => {
    const units = [1, 2].map(number => makeKubernetesUnit({ number, spec: { queue_cpu: 1 }, secrets: { A: 'b' } }))
    const rollOutBoth = async (engine: KubernetesEngine) => {
      await reconcileUntilStable(engine, { target: makeRevisionId(1) }, units)
      await reconcileUntilStable(engine, { target: makeRevisionId(2), serving: makeRevisionId(1) }, units)
      await reconcileUntilStable(engine, { serving: makeRevisionId(2) }, units)
    }
    bringUpAutomatically(api)
    await rollOutBoth(createEngine())
    const [allObjects, writeCount] = [listObjects(), api.requests.filter(isWrite).length]
    expect(writeCount).toBeGreaterThan(14)
    await reconcileUntilStable(createEngine(), { present: false }, units)
    expect(listObjects()).toEqual([])

    for (let killed = first; killed < writeCount; killed += 3) {
      killAtWrite(killed)
      await rollOutBoth(createEngine()).catch(() => {})
      api.refuse = () => undefined
      const routed = api.has('Service', BASE) ? servingRevision() : null
      const isServed = api.all('Pod').some(({ metadata }) => metadata.labels!['slipway/revision-id'] === routed)
      expect(isServed).toBe(routed !== null)
      const next = createEngine()
      await reconcileUntilStable(next, { target: makeRevisionId(2), serving: routed }, units)
      await reconcileUntilStable(next, { serving: makeRevisionId(2) }, units)
      // An agent calls both once for a revision that it takes over.
      await next.start(units[1]!, makeArtifact())
      await next.route(units[1]!)
      await expect.poll(listObjects).toEqual(allObjects)
      await reconcileUntilStable(next, { present: false }, units)
      expect(listObjects()).toEqual([])
    }
  },
)

describe('the token for models', () => {
  const tokens = new Map<string, string>()
  const unit = (number = 1) => ({ ...makeKubernetesUnit({ number }), models_url: 'https://slipway.example.com/models' })
  const readToken = () => Buffer.from(api.get('Secret', `${BASE}-models`).data?.token ?? '', 'base64').toString()
  const openEngine = async () => {
    const engine = createEngine()
    await engine.open({ ...NO_EVENTS, modelToken: id => tokens.get(id) })
    return engine
  }
  beforeEach(() => tokens.clear())

  test('is in a Secret that is renewed in place, for all revisions, and pods stay', async () => {
    bringUpAutomatically(api)
    const engine = await openEngine()
    tokens.set(DEPLOYMENT_ID, 'first')
    await reconcileUntilStable(engine, { target: makeRevisionId(1) }, [unit()])
    expect(readToken()).toBe('first')
    const pods = api.all('Pod').map(({ metadata }) => metadata.uid)
    tokens.set(DEPLOYMENT_ID, 'second')
    await engine.renewModelToken(DEPLOYMENT_ID)
    expect(readToken()).toBe('second')
    await engine.start(unit(), makeArtifact())
    expect([readToken(), api.all('Pod').map(({ metadata }) => metadata.uid)]).toEqual(['second', pods])
    await reconcileUntilStable(engine, { target: makeRevisionId(2), serving: makeRevisionId(1) }, [unit(), unit(2)])
    expect(readToken()).toBe('second')
  })

  test('may come after the start, and is masked and renewed by the next agent', async () => {
    const engine = await openEngine()
    await engine.start(unit(), makeArtifact())
    expect(readToken()).toBe('')
    tokens.set(DEPLOYMENT_ID, 'eyJ.claims.signature')
    await engine.renewModelToken(DEPLOYMENT_ID)
    tokens.clear()
    const hidden: unknown[] = []
    const next = createEngine()
    const hide = (...values: unknown[]) => void hidden.push(values)
    await next.open({ ...NO_EVENTS, hide, modelToken: id => tokens.get(id) })
    await next.start(unit(), makeArtifact())
    expect([readToken(), hidden]).toEqual(['eyJ.claims.signature', [[DEPLOYMENT_ID, ['signature']]]])
    tokens.set(DEPLOYMENT_ID, 'later')
    await next.renewModelToken(DEPLOYMENT_ID)
    expect(readToken()).toBe('later')
  })

  test('is removed with the deployment, and a late renewal does not bring it back', async () => {
    bringUpAutomatically(api)
    const engine = await openEngine()
    tokens.set(DEPLOYMENT_ID, 'first')
    await reconcileUntilStable(engine, { target: makeRevisionId(1) }, [unit()])
    const other = await openEngine()
    await other.start(unit(), makeArtifact())
    await engine.remove(DEPLOYMENT_ID)
    await Promise.all([engine.renewModelToken(DEPLOYMENT_ID), other.renewModelToken(DEPLOYMENT_ID)])
    expect(api.has('Secret', `${BASE}-models`)).toBe(false)
    expect((await engine.observe(DEPLOYMENT_ID)).hasRemains).toBe(false)
  })
})

describe('processes of other types', () => {
  const processes = [{ name: 'worker', command: 'work', scale: 2, health_command: 'check' }]
  const artifact = makeArtifact({ start_command: 'serve', processes, enter: 'cd /app' })
  const deployments = () => listObjects().filter(name => name.startsWith('Deployment'))

  test('are Deployments without a Service, made once the requests go to their revision', async () => {
    bringUpAutomatically(api)
    const engine = createEngine()
    const spec = { process_scale: { worker: 3 }, process_resources: { worker: { cpu: 0.25, memory_mb: 128 } } }
    const unit = makeKubernetesUnit({ spec })
    await engine.start(unit, artifact)
    expect(deployments()).toEqual([`Deployment ${BASE}-r1`])
    expect((await engine.observe(DEPLOYMENT_ID)).running).toMatchObject([{ phase: 'healthy' }])
    await engine.route(unit)
    const { replicas, template } = api.get('Deployment', `${BASE}-r1-worker`).spec
    const [app] = template.spec.containers
    expect(replicas).toBe(3)
    expect(app.command.at(-1)).toBe('cd /app && exec work')
    expect(app.livenessProbe.exec.command.at(-1)).toBe('cd /app && check')
    expect(app.resources).toMatchObject({ requests: { cpu: '250m' }, limits: { memory: '256Mi' } })
    expect(app.ports).toBeUndefined()
    const next = makeKubernetesUnit({ number: 2 })
    await engine.start(next, artifact)
    await engine.route(next)
    expect(deployments()).toEqual([`${BASE}-r1`, `${BASE}-r2`, `${BASE}-r2-worker`].map(name => `Deployment ${name}`))
    await engine.stop(unit)
    await engine.stop(next)
    expect(deployments()).toEqual([])
  })

  test('that do not run keep their revision from being healthy', async () => {
    const engine = createEngine()
    await engine.start(firstUnit(), artifact)
    bringUp(api, api.get('Deployment', `${BASE}-r1`))
    await engine.route(firstUnit())
    const phase = async () => (await engine.observe(DEPLOYMENT_ID)).running[0]?.phase
    expect(await phase()).toBe('starting')
    setUnavailable(api, `${BASE}-r1-worker`, {
      phase: 'Pending',
      containerStatuses: [{ name: 'app', image: '?', state: { waiting: { reason: 'InvalidImageName' } } }],
    })
    expect(await phase()).toBe('failing')
    bringUp(api, api.get('Deployment', `${BASE}-r1-worker`))
    expect(await phase()).toBe('healthy')
  })

  test('run alone, without a URL', async () => {
    bringUpAutomatically(api)
    const engine = createEngine({ K8S_ROUTES: 'ingress', K8S_DOMAIN: 'apps.example.com' })
    await engine.start(firstUnit(), { ...artifact, isWithoutWeb: true, start_command: null })
    expect((await engine.observe(DEPLOYMENT_ID)).running).toMatchObject([{ phase: 'healthy' }])
    await engine.route(firstUnit())
    expect(await engine.observe(DEPLOYMENT_ID)).toMatchObject({ url: null, routed: makeRevisionId(1) })
    expect(api.get('Deployment', `${BASE}-r1`).spec.replicas).toBe(0)
    expect(listObjects().filter(name => name.startsWith('Ingress'))).toEqual([])
  })
})

describe('a command that runs once', () => {
  const RUN_ID = 'eeeeeeee-0000-4000-8000-123456789abc'
  const JOB = `${BASE}-run-123456789abc`
  const once = { id: RUN_ID, command: 'migrate "$URL"', timeout_seconds: 60 }
  const never = new AbortController().signal
  const unit = () =>
    makeKubernetesUnit({ secrets: { URL: 'x' }, spec: { sidecars: [{ name: 'proxy', image: 'proxy:1' }] } })
  const startRun = async (engine: KubernetesEngine, lines: string[] = []) => {
    await engine.open(NO_EVENTS)
    const end = engine.runOnce(unit(), makeArtifact({ start_command: 'serve' }), once, line => lines.push(line), never)
    await expect.poll(() => api.has('Job', JOB)).toBe(true)
    return { end }
  }
  const endPod = (exitCode: number) => {
    const [status] = makeRunningStatus('app').containerStatuses as object[]
    const ended = { ...status, state: { terminated: { exitCode, reason: exitCode ? 'Error' : 'Completed' } } }
    api.status('Pod', `${JOB}-0`, { phase: exitCode ? 'Failed' : 'Succeeded', containerStatuses: [ended] })
  }

  test('is a Job with the environment of the revision, which is no revision itself', async () => {
    const lines: string[] = []
    const engine = createEngine()
    const { end } = await startRun(engine, lines)
    const job = api.get('Job', JOB)
    expect(listSchemaFaults(serializeObject(job as never))).toEqual([])
    const { containers, initContainers, restartPolicy } = job.spec.template.spec
    expect(job.spec).toMatchObject({ backoffLimit: 0, activeDeadlineSeconds: 60 })
    expect(restartPolicy).toBe('Never')
    expect(initContainers).toMatchObject([{ name: 'proxy', restartPolicy: 'Always' }])
    expect(containers).toHaveLength(1)
    expect(containers[0].command.at(-1)).toBe('exec migrate "$URL"')
    const names = containers[0].env.map(({ name }: { name: string }) => name)
    expect(names).toEqual(['URL', 'SLIPWAY_ROLE', 'SLIPWAY_RUN_ID'])
    putPod(api, job, makeRunningStatus('app'))
    api.writeLog(`${JOB}-0`, 'first')
    await expect.poll(() => lines).toEqual(['first'])
    api.writeLog(`${JOB}-0`, 'second')
    endPod(3)
    expect(await end).toEqual({ exit_code: 3, reason: 'ended with code 3' })
    expect(lines).toEqual(['first', 'second'])
    const { running } = await engine.observe(DEPLOYMENT_ID)
    expect(running.map(({ phase }) => phase)).toEqual(['drained'])
    await engine.forgetRun(DEPLOYMENT_ID, RUN_ID)
    expect(api.has('Job', JOB)).toBe(false)
  })

  test('is found by the next agent, which reads on in its log', async () => {
    const first = createEngine()
    const { end } = await startRun(first)
    putPod(api, api.get('Job', JOB), makeRunningStatus('app'))
    const uid = api.get('Job', JOB).metadata.uid
    await first.close()
    await expect(end).rejects.toBeInstanceOf(TransientError)
    api.writeLog(`${JOB}-0`, 'meanwhile')
    endPod(0)
    const lines: string[] = []
    const next = await startRun(createEngine(), lines)
    expect(await next.end).toEqual({ exit_code: 0, reason: null })
    expect(lines).toEqual(['meanwhile'])
    expect(api.get('Job', JOB).metadata.uid).toBe(uid)
  })

  test('that cannot start, is too late, or whose Job was removed, has no exit code', async () => {
    const engine = createEngine()
    const { end: late } = await startRun(engine)
    api.status('Job', JOB, { conditions: [{ type: 'Failed', status: 'True', reason: 'DeadlineExceeded' }] })
    expect(await late).toMatchObject({ exit_code: null })
    await engine.forgetRun(DEPLOYMENT_ID, RUN_ID)
    const { end: removed } = await startRun(engine)
    api.delete('Job', JOB)
    expect(await removed).toMatchObject({ exit_code: null })
    const again = { ...once, wasStarted: true }
    expect(await engine.runOnce(unit(), makeArtifact(), again, () => {}, never)).toEqual(await removed)
    expect(api.has('Job', JOB)).toBe(false)
    const { end: broken } = await startRun(engine)
    const waiting = { name: 'app', image: '?', state: { waiting: { reason: 'InvalidImageName' } } }
    putPod(api, api.get('Job', JOB), { phase: 'Pending', containerStatuses: [waiting] })
    expect(await broken).toMatchObject({ exit_code: null, reason: expect.stringContaining('image') })
    await expect.poll(() => api.has('Job', JOB)).toBe(false)
  })

  test('needs a permission of its own, without which all else works', async () => {
    const apiGroups = Object.values(API_VERSIONS).map(version => (version.includes('/') ? version.split('/')[0]! : ''))
    api.rules = [{ apiGroups, resources: EVERYTHING_BUT_JOBS, verbs: ['get', 'list', 'create', 'patch', 'delete'] }]
    bringUpAutomatically(api)
    const engine = createEngine()
    const run = engine.runOnce(unit(), makeArtifact(), once, () => {}, never)
    await expect(run).rejects.toBeInstanceOf(PermanentError)
    await reconcileUntilStable(engine, { target: makeRevisionId(1) }, [unit()])
    await reconcileUntilStable(engine, { present: false }, [unit()])
    expect(api.all()).toEqual([])
  })
})

describe('a terminal or a connection', () => {
  const ref = { deployment_id: DEPLOYMENT_ID, revision_id: makeRevisionId(1) }
  const size = { columns: 91, rows: 31 }
  const openServing = async (spec = {}) => {
    bringUpAutomatically(api)
    const engine = createEngine()
    await reconcileUntilStable(engine, { target: makeRevisionId(1) }, [makeKubernetesUnit({ spec })])
    return engine
  }
  const readText = async (source: Readable | null) => (source ? text(source) : '')

  test('runs a command in the pod of a copy, with pipes, signals and an exit code', async () => {
    const engine = await openServing()
    const command = ['sh', '-c', 'cat; echo no >&2; exit 7']
    const pipes = await engine.openTerminal(ref, 'one', { command, tty: false, ...size })
    pipes.input.end('typed\n')
    const ended = await Promise.all([readText(pipes.output), readText(pipes.errors), pipes.exit])
    expect(ended).toEqual(['typed\n', 'no\n', { code: 7, signal: null }])
    const waiting = ['sh', '-c', 'trap "echo got it; exit 5" TERM; echo begun; while :; do sleep 0.05; done']
    const long = await engine.openTerminal(ref, 'two', { command: waiting, tty: false, ...size })
    await once(long.output, 'data')
    long.signal('SIGTERM')
    expect([await readText(long.output), await long.exit]).toEqual(['got it\n', { code: 5, signal: null }])
    const stubborn = ['sh', '-c', 'trap "" HUP; echo $$; while :; do sleep 0.05; done']
    const last = await engine.openTerminal(ref, 'three', { command: stubborn, tty: false, ...size })
    const [pid] = await once(last.output, 'data')
    await last.close()
    await expect.poll(() => existsSync(`/proc/${String(pid).trim()}`)).toBe(false)
  })

  test.runIf(hasPty)('has the size of the client', async () => {
    const engine = await openServing()
    const terminal = await engine.openTerminal(ref, 'four', { tty: true, ...size })
    let shown = ''
    terminal.output.on('data', bytes => {
      shown += bytes
    })
    terminal.input.write('stty size; echo $TERM\n')
    await expect.poll(() => shown).toContain('31 91')
    await expect.poll(() => shown).toContain('xterm-256color')
    terminal.resize({ columns: 77, rows: 17 })
    terminal.input.write('stty size; exit 3\n')
    await expect.poll(() => shown).toContain('17 77')
    expect(await terminal.exit).toEqual({ code: 3, signal: null })
    await terminal.close()
  })

  test('reaches ports of the copy and the stores of the deployment', async () => {
    const server = createServer(socket => socket.end('hello from a port'))
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const engine = await openServing({ db_cpu: 1, redis_cpu: 1 })
    for (const [name, of] of [
      ['r1-0', 8000],
      ['db-0', 5432],
      ['redis-0', 6379],
    ] as const)
      api.sockets.ports.set(`${BASE}-${name}:${of}`, port)
    for (const request of [{}, { port: 8000 }, { store: 'postgres' }, { store: 'redis' }] as const) {
      const target = await engine.openForward(ref, request)
      expect(await text(await target.connect())).toBe('hello from a port')
    }
    const { data } = api.get('Secret', `${BASE}-db`) as unknown as { data: { password: string } }
    const password = Buffer.from(data.password, 'base64').toString()
    const { store } = await engine.openForward(ref, { store: 'postgres' })
    expect(store).toEqual({ user: 'app', password, database: 'app' })
    const silent = await (await engine.openForward(ref, { port: 9 })).connect()
    await expect(text(silent)).rejects.toThrow('ECONNREFUSED')
    server.close()
  })

  test('is refused with a sentence without a copy or a permission', async () => {
    const engine = await openServing()
    const other = { ...ref, revision_id: makeRevisionId(5) }
    await expect(engine.openForward(other, {})).rejects.toBeInstanceOf(PermanentError)
    await expect(engine.openForward(ref, { copy: 9 })).rejects.toThrow('Copy 9')
    await expect(engine.openForward(ref, { store: 'redis' })).rejects.toThrow('no redis')
    api.rules = [{ apiGroups: [''], resources: ['pods', 'secrets'], verbs: ['get', 'list'] }]
    await expect(engine.openTerminal(ref, 'five', { tty: false, ...size })).rejects.toThrow('pods/exec')
  })
})
