// Copies that follow a queue in a cluster, by ScaledObjects of KEDA.
import { afterEach, beforeEach, expect, test } from 'vitest'
import { NO_EVENTS } from '../../../src/agent/engine.ts'
import { API_VERSIONS } from '../../../src/agent/engines/kubernetes/cluster.ts'
import { KubernetesEngine } from '../../../src/agent/engines/kubernetes.ts'
import { KubernetesApi } from '../../support/kubernetes-api.ts'
import {
  DEPLOYMENT_ID,
  listSchemaFaults,
  makeArtifact,
  makeKubernetesSettings,
  makeKubernetesUnit,
} from '../../support/kubernetes-fixtures.ts'
import { bringUpAutomatically } from '../../support/kubernetes-pods.ts'

const NAME = 'shop-aaaaaaaa00-r1-worker'
let api: KubernetesApi
let engine: KubernetesEngine
const openEngine = async () => {
  engine = new KubernetesEngine({ settings: makeKubernetesSettings(), config: api.config, pause_ms: 2 })
  await engine.open(NO_EVENTS)
  return engine
}
beforeEach(async () => {
  api = await new KubernetesApi().open()
  bringUpAutomatically(api)
})
afterEach(async () => {
  await engine.close()
  await api.close()
})
const artifact = makeArtifact({ start_command: 'serve', processes: [{ name: 'worker', command: 'work' }] })
const byQueue = { min_scale: 0, max_scale: 8, scale_metric: 'queue', scale_target: 20, scale_path: '/queue/worker' }
const makeUnit = (worker: object) => makeKubernetesUnit({ spec: { process_scaling: { worker } } })
const scalers = () =>
  api
    .all()
    .filter(({ kind }) => kind === 'ScaledObject' || kind === 'HorizontalPodAutoscaler')
    .map(({ kind, metadata }) => `${kind} ${metadata.name}`)

test('with KEDA a worker follows what web tells, from no copy, and another metric takes its place', async () => {
  api.missingGroups.delete(API_VERSIONS.ScaledObject)
  await openEngine()
  expect(engine.policy.features).toContain('queue_scaling')
  const apply = async (worker: object) => {
    await engine.start(makeUnit(worker), artifact)
    await engine.route(makeUnit(worker))
  }
  await apply(byQueue)
  const scaled = api.get('ScaledObject', NAME)
  expect(listSchemaFaults(scaled as never)).toEqual([])
  expect(scaled.spec).toMatchObject({
    scaleTargetRef: { kind: 'Deployment', name: NAME },
    minReplicaCount: 0,
    maxReplicaCount: 8,
    triggers: [{ metadata: { url: 'http://shop-aaaaaaaa00.apps.svc/queue/worker', targetValue: '20' } }],
  })
  // The autoscaler that KEDA makes of it must not look like one of the agent.
  const excluded = scaled.metadata.annotations!['scaledobject.keda.sh/hpa-excluded-labels']!.split(',')
  expect(excluded.toSorted()).toEqual(
    ['app.kubernetes.io/managed-by', 'slipway/deployment-id', 'slipway/owner'].toSorted(),
  )
  expect(api.get('Deployment', NAME).spec.replicas).toBe(0)
  expect((await engine.observe(DEPLOYMENT_ID)).running).toMatchObject([{ phase: 'healthy' }])
  expect(scalers()).toEqual([`ScaledObject ${NAME}`])
  await apply({ min_scale: 1, max_scale: 8, scale_metric: 'cpu' })
  expect(scalers()).toEqual([`HorizontalPodAutoscaler ${NAME}`])
  await apply(byQueue)
  expect(scalers()).toEqual([`ScaledObject ${NAME}`])
  await apply({ min_scale: 2, max_scale: 2, scale_metric: 'cpu' })
  expect([scalers(), api.get('Deployment', NAME).spec.replicas]).toEqual([[], 2])
  await apply(byQueue)
  await engine.remove(DEPLOYMENT_ID)
  expect(api.all()).toEqual([])
})

test('without KEDA, or without web, a queue is refused by name before anything is made', async () => {
  await openEngine()
  expect(engine.policy.features).not.toContain('queue_scaling')
  await expect(engine.start(makeUnit(byQueue), artifact)).rejects.toThrow(/KEDA/)
  await engine.close()
  api.missingGroups.delete(API_VERSIONS.ScaledObject)
  await openEngine()
  await expect(engine.start(makeUnit(byQueue), { ...artifact, isWithoutWeb: true })).rejects.toThrow(/`web`/)
  // Nor does a cluster do what only a source asks for.
  await expect(engine.start(makeKubernetesUnit(), { ...artifact, protocol: 'h2c' })).rejects.toThrow(/`h2c`/)
  expect(api.all()).toEqual([])
})

test('an agent that starts while the API does not answer of KEDA sees and removes what is there', async () => {
  api.missingGroups.delete(API_VERSIONS.ScaledObject)
  await openEngine()
  await engine.start(makeUnit(byQueue), artifact)
  await engine.route(makeUnit(byQueue))
  await engine.close()
  api.refuse = ({ kind }) =>
    kind === 'ScaledObject' ? { code: 503, reason: 'ServiceUnavailable', message: 'starting' } : undefined
  await openEngine()
  api.refuse = () => undefined
  await engine.start(makeUnit(byQueue), artifact)
  await engine.remove(DEPLOYMENT_ID)
  expect(api.all()).toEqual([])
})

test('a role that may not list ScaledObjects leaves the feature out', async () => {
  api.missingGroups.delete(API_VERSIONS.ScaledObject)
  api.refuse = ({ kind }) =>
    kind === 'ScaledObject' ? { code: 403, reason: 'Forbidden', message: 'User "agent" cannot list it' } : undefined
  await openEngine()
  expect(engine.policy.features).not.toContain('queue_scaling')
})
