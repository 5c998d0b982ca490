// The kubernetes engine against a small API server, through the real client: rollouts, stores, removal, and an agent that is killed.
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { NO_EVENTS, PermanentError, TransientError } from '../../../src/agent/engine.ts'
import { KubernetesEngine } from '../../../src/agent/engines/kubernetes.ts'
import { silenceRejection } from '../../support/commands.ts'
import { KubernetesApi } from '../../support/kubernetes-api.ts'
import {
  DEPLOYMENT_ID,
  makeArtifact,
  makeKubernetesSettings,
  makeKubernetesUnit,
  makeRevisionId,
} from '../../support/kubernetes-fixtures.ts'
import { bringUp, bringUpAutomatically, reconcileUntilStable } from '../../support/kubernetes-pods.ts'

const BASE = 'shop-aaaaaaaa00'
const OTHER = 'dddddddd-0000-4000-8000-000000000001'
let api: KubernetesApi
const engines: KubernetesEngine[] = []
const engineOf = (more: Record<string, string> = {}) => {
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
const names = () =>
  api
    .all()
    .map(({ kind, metadata }) => `${kind} ${metadata.name}`)
    .sort()
const serving = () => api.get('Service', BASE).spec.selector['slipway/revision-id']
const first = () => makeKubernetesUnit({ secrets: { TOKEN: 'hush' } })
const second = () =>
  makeKubernetesUnit({ number: 2, secrets: { TOKEN: 'hush' }, image_uri: 'registry.example.com/shop:2' })

describe('a rollout', () => {
  test('the first revision receives requests only once it is healthy', async () => {
    const engine = engineOf()
    await engine.start(first(), makeArtifact())
    expect(await engine.observe(DEPLOYMENT_ID)).toMatchObject({
      running: [{ revision_id: makeRevisionId(1), phase: 'starting', reason: null }],
      routed: null,
      hasRemains: true,
    })
    bringUp(api, api.get('Deployment', `${BASE}-r1`))
    expect((await engine.observe(DEPLOYMENT_ID)).running).toMatchObject([{ phase: 'healthy' }])
    expect(api.has('Service', BASE)).toBe(false)
    await engine.route(first())
    expect(await engine.observe(DEPLOYMENT_ID)).toMatchObject({
      routed: makeRevisionId(1),
      url: `http://${BASE}.apps.svc`,
      running: [{ phase: 'healthy' }],
    })
  })

  test('the next revision starts beside the first, which is removed completely after the switch', async () => {
    bringUpAutomatically(api)
    const engine = engineOf()
    await reconcileUntilStable(engine, { target: makeRevisionId(1) }, [first()])
    const { actions } = await reconcileUntilStable(
      engine,
      { target: makeRevisionId(2), serving: makeRevisionId(1) },
      [first(), second()],
      () => {
        const selected = api.all('Pod').filter(({ metadata }) => metadata.labels!['slipway/revision-id'] === serving())
        expect(selected.length).toBeGreaterThan(0)
      },
    )
    expect(actions).toEqual(['build 2', 'start 2', 'switch 2'])
    const after = await reconcileUntilStable(engine, { serving: makeRevisionId(2) }, [first(), second()])
    expect(after.actions).toEqual(['drain 1', 'stop 1', 'forget 1'])
    expect(names().filter(name => name.includes('-r1'))).toEqual([])
    expect(names()).toEqual([
      ...[`Deployment ${BASE}-r2`, `Pod ${BASE}-r2-0`, `Secret ${BASE}-r2`],
      ...[`Service ${BASE}`, `ServiceAccount ${BASE}-r2`],
    ])
  })

  test('repeating an action changes nothing', async () => {
    bringUpAutomatically(api)
    const engine = engineOf()
    const unit = makeKubernetesUnit({
      spec: { db_cpu: 1, redis_cpu: 1, queue_cpu: 1, max_scale: 3 },
      secrets: { A: 'b' },
    })
    await reconcileUntilStable(engine, { target: unit.revision_id }, [unit])
    const versions = () => api.all().map(({ metadata }) => metadata.resourceVersion)
    const before = versions()
    await engine.provide(unit)
    await engine.start(unit, makeArtifact())
    await engine.route(unit)
    expect(versions()).toEqual(before)
  })

  test('a draining revision is drained after its time, by the annotation in the cluster', async () => {
    bringUpAutomatically(api)
    let now = new Date('2026-11-21T12:00:00Z')
    const settings = makeKubernetesSettings({ K8S_DRAIN_SECONDS: '30' })
    const make = () => new KubernetesEngine({ settings, config: api.config, now: () => now })
    await reconcileUntilStable(make(), { target: makeRevisionId(1) }, [first()])
    await reconcileUntilStable(make(), { target: makeRevisionId(2), serving: makeRevisionId(1) }, [first(), second()])
    const engine = make()
    await engine.drain({ deployment_id: DEPLOYMENT_ID, revision_id: makeRevisionId(1) })
    const phase = async () =>
      (await make().observe(DEPLOYMENT_ID)).running.find(one => one.revision_id === makeRevisionId(1))?.phase
    expect(await phase()).toBe('draining')
    now = new Date('2026-11-21T12:00:10Z')
    await engine.drain({ deployment_id: DEPLOYMENT_ID, revision_id: makeRevisionId(1) })
    now = new Date('2026-11-21T12:00:30Z')
    expect(await phase()).toBe('drained')
    await engine.close()
  })

  test('a serving revision is healthy with one replica, and unhealthy with none', async () => {
    const engine = engineOf()
    const unit = makeKubernetesUnit({ spec: { min_scale: 3, max_scale: 3 } })
    await engine.start(unit, makeArtifact())
    const fares = async (availableReplicas: number) => {
      const { generation } = api.get('Deployment', `${BASE}-r1`).metadata
      api.status('Deployment', `${BASE}-r1`, { observedGeneration: generation, updatedReplicas: 3, availableReplicas })
      return (await engine.observe(DEPLOYMENT_ID)).running[0]!.phase
    }
    expect(await fares(2)).toBe('starting')
    expect(await fares(3)).toBe('healthy')
    await engine.route(unit)
    expect(await fares(1)).toBe('healthy')
    expect(await fares(0)).toBe('unhealthy')
  })

  test('a custom URL is added and removed without a new revision', async () => {
    bringUpAutomatically(api)
    const engine = engineOf({ K8S_ROUTES: 'ingress', K8S_DOMAIN: 'apps.example.com' })
    await reconcileUntilStable(engine, { target: makeRevisionId(1) }, [first()])
    await engine.route({ ...first(), custom_url: 'https://shop.example.com' })
    expect(api.all('Ingress').map(({ metadata }) => metadata.name)).toEqual([BASE, `${BASE}-custom`])
    expect((await engine.observe(DEPLOYMENT_ID)).url).toBe('https://shop.example.com')
    await engine.route(first())
    expect(api.all('Ingress').map(({ metadata }) => metadata.name)).toEqual([BASE])
    expect((await engine.observe(DEPLOYMENT_ID)).url).toBe(`http://${BASE}.apps.example.com`)
  })
})

describe('ownership', () => {
  test.each([{ K8S_ROUTES: 'ingress' }, { K8S_ROUTES: 'gateway', K8S_GATEWAY: 'edge/main' }])(
    'a custom host stays with the workspace that has it first ($K8S_ROUTES)',
    async settings => {
      const engine = engineOf(settings)
      const shop = { ...first(), custom_url: 'https://shop.example.com' }
      await engine.start(shop, makeArtifact())
      await engine.route(shop)
      const other = {
        deployment_id: 'bbbbbbbb-0000-4000-8000-000000000009',
        custom_url: 'https://shop.example.com/pay',
      }
      const theirs = makeKubernetesUnit({ ...other, tenant_id: 'cccccccc-0000-4000-8000-000000000002' })
      await expect(engine.start(theirs, makeArtifact())).rejects.toThrow(TransientError)
      await expect(engine.route(theirs)).rejects.toThrow(TransientError)
      await engine.route(makeKubernetesUnit(other))
      await engine.route(first())
      await engine.remove(other.deployment_id)
      await engine.start(theirs, makeArtifact())
    },
  )

  test('an object of someone else with the same name is left alone and reported', async () => {
    api.put({ apiVersion: 'v1', kind: 'Secret', metadata: { name: `${BASE}-r1` }, data: { A: 'theirs' } })
    await expect(engineOf().start(first(), makeArtifact())).rejects.toThrow(PermanentError)
    expect(api.get('Secret', `${BASE}-r1`).data).toEqual({ A: 'theirs' })
    expect(api.has('Deployment', `${BASE}-r1`)).toBe(false)
  })

  test('foreign changes to the agent’s fields are reverted and logged, and other fields stay', async () => {
    const lines: string[] = []
    const engine = engineOf()
    await engine.open({ ...NO_EVENTS, log: (_, message, level) => lines.push(`${level} ${message}`) })
    const unit = makeKubernetesUnit({ spec: { min_scale: 2, max_scale: 2 } })
    await engine.start(unit, makeArtifact())
    const metadata = { name: `${BASE}-r1`, labels: { team: 'theirs' } }
    api.put({ apiVersion: 'apps/v1', kind: 'Deployment', metadata, spec: { replicas: 9 } }, 'kubectl')
    await engine.start(unit, makeArtifact())
    expect(api.get('Deployment', `${BASE}-r1`)).toMatchObject({
      spec: { replicas: 2 },
      metadata: { labels: { team: 'theirs' } },
    })
    expect(lines).toHaveLength(1)
    expect(lines[0]).toMatch(/^WARNING .*kubectl/)
  })

  test('the agent does not change the number of replicas that an autoscaler set', async () => {
    const engine = engineOf()
    const unit = makeKubernetesUnit({ spec: { max_scale: 5 } })
    await engine.start(unit, makeArtifact())
    api.put(
      { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: `${BASE}-r1` }, spec: { replicas: 4 } },
      'hpa',
    )
    await engine.start(unit, makeArtifact())
    expect(api.get('Deployment', `${BASE}-r1`).spec.replicas).toBe(4)
  })

  test('an autoscaled revision starts with its minimum of replicas, and is not healthy before', async () => {
    const engine = engineOf()
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
      const all = { updatedReplicas: replicas, availableReplicas: replicas }
      api.status('Deployment', `${BASE}-r1`, { observedGeneration: generation, ...all })
      return (await engine.observe(DEPLOYMENT_ID)).running[0]!.phase
    }
    expect(await phase(1)).toBe('starting')
    expect(await phase(2)).toBe('healthy')
  })

  test('a removed member of resource_spec is removed from the object', async () => {
    const engine = engineOf()
    await engine.start(
      makeKubernetesUnit({ spec: { sidecars: [{ name: 'p', image: 'p' }] } }),
      makeArtifact({ env: { A: '1' } }),
    )
    await engine.start(makeKubernetesUnit(), makeArtifact())
    const { containers } = api.get('Deployment', `${BASE}-r1`).spec.template.spec
    expect(containers).toHaveLength(1)
    expect(containers[0].env.map(({ name }: { name: string }) => name)).toEqual(['PORT', 'SLIPWAY_ROLE'])
  })

  test('only deployments of this agent are listed', async () => {
    await engineOf().start(first(), makeArtifact())
    await engineOf().start(makeKubernetesUnit({ deployment_id: OTHER, namespace: 'other' }), makeArtifact())
    await engineOf({ K8S_OWNER: 'staging' }).start(
      makeKubernetesUnit({ deployment_id: OTHER, name: 'staged' }),
      makeArtifact(),
    )
    expect((await engineOf().deployments()).sort()).toEqual([DEPLOYMENT_ID, OTHER])
    expect(await engineOf({ K8S_OWNER: 'staging' }).deployments()).toEqual([OTHER])
    expect(await engineOf({ K8S_OWNER: 'nobody' }).deployments()).toEqual([])
  })

  test('a foreign namespace and a reserved container name are refused', () => {
    const engine = engineOf()
    expect(engine.refusalReason(first())).toBeNull()
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
  test('a database is created before anything starts, and keeps its password', async () => {
    const engine = engineOf()
    await engine.provide(unit())
    expect((await engine.observe(DEPLOYMENT_ID)).database).toEqual({ ready: false, reason: null })
    expect(names()).toContain(`StatefulSet ${BASE}-db`)
    expect(api.all('Deployment')).toEqual([])
    bringUp(api, api.get('StatefulSet', `${BASE}-db`))
    expect((await engine.observe(DEPLOYMENT_ID)).database).toEqual({ ready: true, reason: null })
    const { data } = api.get('Secret', `${BASE}-db`)
    await engineOf().start(unit(), makeArtifact())
    expect(api.get('Secret', `${BASE}-db`).data).toEqual(data)
    expect(names()).toContain(`StatefulSet ${BASE}-redis`)
  })

  test('a database that is not ready reports why', async () => {
    const engine = engineOf()
    await engine.provide(unit())
    const labels = api.get('StatefulSet', `${BASE}-db`).spec.template.metadata.labels
    api.put({ apiVersion: 'v1', kind: 'Pod', metadata: { name: `${BASE}-db-0`, labels } })
    const message = '0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.'
    const conditions = [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }]
    api.status('Pod', `${BASE}-db-0`, { phase: 'Pending', conditions })
    expect((await engine.observe(DEPLOYMENT_ID)).database?.reason).toContain('storage class')
  })

  test('no password is created if the old one may exist, or if there is data with another one', async () => {
    const engine = engineOf()
    api.refuse = ({ kind, verb }) => (kind === 'Secret' && verb === 'get' ? { code: 500, message: 'etcd' } : undefined)
    await expect(engine.provide(unit())).rejects.toThrow(TransientError)
    expect(api.all()).toEqual([])
    api.refuse = () => undefined
    await engine.provide(unit())
    api.delete('Secret', `${BASE}-db`)
    await expect(engine.provide(unit())).rejects.toThrow(PermanentError)
    expect(api.has('Secret', `${BASE}-db`)).toBe(false)
  })

  test('the newest revision decides on shared stores, also if an older one starts again', async () => {
    const cpu = () => api.get('StatefulSet', `${BASE}-db`).spec.template.spec.containers[0].resources.requests.cpu
    for (const [number, asked, comes] of [
      [1, 1, '1'],
      [2, 2, '2'],
      [1, 1, '2'],
      [3, 1, '1'],
    ] as const) {
      await engineOf().provide(
        makeKubernetesUnit({ number, spec: { db_cpu: asked, labels: { release: `r${number}` } } }),
      )
      expect(cpu()).toBe(comes)
    }
    expect(api.get('StatefulSet', `${BASE}-db`).spec.template.metadata.labels.release).toBeUndefined()
  })

  test('a volume can grow but not shrink', async () => {
    const size = () => api.get('PersistentVolumeClaim', `${BASE}-db`).spec.resources.requests.storage
    for (const [asked, comes] of [
      [5, '5Gi'],
      [20, '20Gi'],
      [10, '20Gi'],
      [2048, '2Ti'],
      [10, '2Ti'],
      [2050, '2050Gi'],
      [2048, '2050Gi'],
    ] as const) {
      await engineOf().provide(makeKubernetesUnit({ spec: { db_storage_gi: asked } }))
      expect(size()).toBe(comes)
    }
  })
})

describe('removal', () => {
  const unit = () =>
    makeKubernetesUnit({ spec: { db_cpu: 1, redis_cpu: 1, queue_cpu: 1, max_scale: 3 }, secrets: { A: 'b' } })
  test('removes the agent’s objects in two phases, and nothing else', async () => {
    bringUpAutomatically(api)
    const engine = engineOf({ K8S_ROUTES: 'ingress', K8S_DOMAIN: 'apps.example.com' })
    await reconcileUntilStable(engine, { target: unit().revision_id }, [unit()])
    await engineOf().start(makeKubernetesUnit({ deployment_id: OTHER, name: 'next' }), makeArtifact())
    api.put({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'shared', labels: { 'slipway/deployment-id': DEPLOYMENT_ID } },
    })
    const theirs = names().filter(name => /next|shared/.test(name))
    api.requests.length = 0
    const { actions } = await reconcileUntilStable(engine, { present: false }, [unit()])
    expect(actions).toEqual(['drain 1', 'stop 1', 'forget 1', 'remove'])
    expect(names()).toEqual(theirs)
    const gone = api.requests.filter(({ verb }) => verb === 'delete').map(({ kind }) => kind)
    expect(gone.indexOf('PersistentVolumeClaim')).toBeGreaterThan(gone.lastIndexOf('StatefulSet'))
    expect(gone.lastIndexOf('Secret')).toBeGreaterThan(gone.lastIndexOf('Deployment'))
    expect(await engine.observe(DEPLOYMENT_ID)).toEqual({
      ...{ running: [], routed: null, url: null },
      ...{ hasRemains: false, database: null },
    })
  })

  test('does not wait for slow pods of a revision, and removes the rest after them', async () => {
    bringUpAutomatically(api)
    const engine = engineOf()
    await reconcileUntilStable(engine, { target: makeRevisionId(1) }, [makeKubernetesUnit({ secrets: { A: 'b' } })])
    const pod = api.get('Pod', `${BASE}-r1-0`)
    api.put({ ...pod, metadata: { ...pod.metadata, finalizers: ['kubernetes.io/still-ending'] } })
    const ref = { deployment_id: DEPLOYMENT_ID, revision_id: makeRevisionId(1) }
    const phases = async () => (await engine.observe(DEPLOYMENT_ID)).running.map(({ phase }) => phase)
    await engine.stop(ref)
    expect(names()).toEqual([`Pod ${BASE}-r1-0`, `Secret ${BASE}-r1`, `Service ${BASE}`, `ServiceAccount ${BASE}-r1`])
    expect(await phases()).toEqual(['draining'])
    api.release('Pod', `${BASE}-r1-0`)
    expect(await phases()).toEqual(['drained'])
    await engine.stop(ref)
    expect(await phases()).toEqual([])
    expect(names()).toEqual([`Service ${BASE}`])
  })

  test('finds an autoscaler whose Deployment was refused', async () => {
    const engine = engineOf()
    api.refuse = ({ kind, verb }) =>
      kind === 'Deployment' && verb === 'create' ? { code: 403, message: 'denied the request' } : undefined
    const unit = makeKubernetesUnit({ spec: { max_scale: 3, service_account_name: 'theirs' } })
    await expect(engine.start(unit, makeArtifact())).rejects.toThrow(PermanentError)
    expect(names()).toEqual([`HorizontalPodAutoscaler ${BASE}-r1`])
    expect((await engine.observe(DEPLOYMENT_ID)).running).toMatchObject([
      { revision_id: makeRevisionId(1), phase: 'drained' },
    ])
    await engine.stop({ deployment_id: DEPLOYMENT_ID, revision_id: makeRevisionId(1) })
    expect(names()).toEqual([])
  })

  test('ends when the cluster confirms it, and can be resumed', async () => {
    bringUpAutomatically(api)
    const engine = engineOf()
    await reconcileUntilStable(engine, { target: unit().revision_id }, [unit()])
    const metadata = { name: `${BASE}-db`, finalizers: ['kubernetes.io/pvc-protection'] }
    api.put({ apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata })
    let over = false
    const removing = silenceRejection(
      engine.remove(DEPLOYMENT_ID).then(() => {
        over = true
      }),
    )
    await expect.poll(() => api.get('PersistentVolumeClaim', `${BASE}-db`).metadata.deletionTimestamp).toBeTruthy()
    await expect.poll(() => names()).toEqual([`PersistentVolumeClaim ${BASE}-db`])
    expect(over).toBe(false)
    expect((await engineOf().observe(DEPLOYMENT_ID)).hasRemains).toBe(true)
    api.release('PersistentVolumeClaim', `${BASE}-db`)
    await removing
    await engineOf().remove(DEPLOYMENT_ID)
  })

  test('does not take a failed request for an absent object', async () => {
    bringUpAutomatically(api)
    const engine = engineOf()
    await reconcileUntilStable(engine, { target: unit().revision_id }, [unit()])
    api.refuse = ({ kind, verb }) => (kind === 'Pod' && verb === 'list' ? { code: 503, message: 'later' } : undefined)
    await expect(engine.observe(DEPLOYMENT_ID)).rejects.toThrow()
    await expect(engineOf().observe(DEPLOYMENT_ID)).rejects.toThrow()
    await expect(engine.remove(DEPLOYMENT_ID)).rejects.toThrow()
    expect(names()).toContain(`PersistentVolumeClaim ${BASE}-db`)
  })
})

const writes = ({ verb }: { verb: string }) => verb === 'patch' || verb === 'delete'
/** From its nth write on, nothing of what an agent sends arrives. */
function killedAt(n: number): void {
  let left = n
  api.refuse = asked => ((writes(asked) ? left-- : left) > 0 ? undefined : { code: 500, message: 'killed' })
}

test('an agent that is killed while it creates a database leaves one database with one password', async () => {
  const unit = makeKubernetesUnit({ spec: { db_cpu: 1 } })
  await engineOf().provide(unit)
  const [whole, count] = [names(), api.requests.filter(writes).length]
  await engineOf().remove(DEPLOYMENT_ID)
  for (let killed = 0; killed < count; killed++) {
    killedAt(killed)
    await expect(engineOf().provide(unit)).rejects.toThrow()
    api.refuse = () => undefined
    const password = api.has('Secret', `${BASE}-db`) ? api.get('Secret', `${BASE}-db`).data.password : null
    await engineOf().provide(unit)
    expect(names()).toEqual(whole)
    if (password !== null) expect(api.get('Secret', `${BASE}-db`).data.password).toBe(password)
    await engineOf().remove(DEPLOYMENT_ID)
    expect(names()).toEqual([])
  }
})

test('an agent that is killed before any of its writes leaves no duplicates and no orphans', async () => {
  const units = [1, 2].map(number => makeKubernetesUnit({ number, spec: { queue_cpu: 1 }, secrets: { A: 'b' } }))
  const way = async (engine: KubernetesEngine) => {
    await reconcileUntilStable(engine, { target: makeRevisionId(1) }, units)
    await reconcileUntilStable(engine, { target: makeRevisionId(2), serving: makeRevisionId(1) }, units)
    await reconcileUntilStable(engine, { serving: makeRevisionId(2) }, units)
  }
  bringUpAutomatically(api)
  await way(engineOf())
  const [whole, count] = [names(), api.requests.filter(writes).length]
  expect(count).toBeGreaterThan(15)
  await reconcileUntilStable(engineOf(), { present: false }, units)
  expect(names()).toEqual([])

  for (let killed = 0; killed < count; killed++) {
    killedAt(killed)
    await way(engineOf()).catch(() => {})
    api.refuse = () => undefined
    const routed = api.has('Service', BASE) ? serving() : null
    const answers = api.all('Pod').some(({ metadata }) => metadata.labels!['slipway/revision-id'] === routed)
    expect(answers).toBe(routed !== null)
    const next = engineOf()
    await reconcileUntilStable(next, { target: makeRevisionId(2), serving: routed }, units)
    await reconcileUntilStable(next, { serving: makeRevisionId(2) }, units)
    // Called once for what was taken over.
    await next.start(units[1]!, makeArtifact())
    await expect.poll(names).toEqual(whole)
    await reconcileUntilStable(next, { present: false }, units)
    expect(names()).toEqual([])
  }
})
