// The agent with the kubernetes engine: work becomes objects of a cluster, and their state becomes reports.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Agent } from '../../../src/agent/agent.ts'
import { createControlPlaneClient } from '../../../src/agent/control-plane/client.ts'
import { baseName } from '../../../src/agent/engines/kubernetes/names.ts'
import { KubernetesEngine } from '../../../src/agent/engines/kubernetes.ts'
import { waitFor } from '../../support/commands.ts'
import { type ControlPlane, startControlPlane } from '../../support/fake-control-plane.ts'
import { KubernetesApi } from '../../support/kubernetes-api.ts'
import { makeKubernetesSettings } from '../../support/kubernetes-fixtures.ts'
import { bringUpAutomatically, putPod, setUnavailable } from '../../support/kubernetes-pods.ts'
import { closeAgents, makeTempFolder, runAgent } from '../../support/process-engine.ts'

let api: KubernetesApi
let control: ControlPlane
let home: string
let id: string
beforeEach(async () => {
  home = makeTempFolder()
  id = randomUUID()
  ;[api, control] = await Promise.all([new KubernetesApi().open(), startControlPlane()])
})
afterEach(async () => {
  await closeAgents()
  await Promise.all([control.stop(), api.close()])
  fs.rmSync(home, { recursive: true, force: true })
})
function start() {
  const engine = new KubernetesEngine({ settings: makeKubernetesSettings(), config: api.config, pause_ms: 5 })
  const agent = new Agent({
    agent_id: 'agent-1',
    version: 'test',
    home,
    engine,
    wait: 5,
    logToOperator: () => {},
    control: createControlPlaneClient({ url: control.url, key: 'key' }),
  })
  runAgent(agent)
}
const image = (tag: string) => ({
  source: 'external_container' as const,
  image_uri: `registry.example.com/shop:${tag}`,
})
const objectName = () => baseName({ name: `shop-${id.slice(0, 4)}`, deployment_id: id })
const findReport = (revision: string, state: RegExp) =>
  waitFor(() => control.reports.find(report => report.revision_id === revision && state.test(report.state)))
const listObjects = () => api.all().map(({ kind, metadata }) => `${kind} ${metadata.name}`)

test('a deployment is deployed, updated and removed', async () => {
  bringUpAutomatically(api)
  start()
  const one = control.want(id, image('1'), { secrets: { TOKEN: 'hush' }, k8s_namespace: 'apps' })
  expect(await findReport(one, /deployed/)).toMatchObject({ healthy: true, url: `http://${objectName()}.apps.svc` })
  expect(api.get('Secret', `${objectName()}-r1`).data).toEqual({ TOKEN: Buffer.from('hush').toString('base64') })
  const two = control.want(id, image('2'))
  await findReport(two, /deployed/)
  expect(api.get('Service', objectName()).spec.selector['slipway/revision-id']).toBe(two)
  await waitFor(() => !api.has('Deployment', `${objectName()}-r1`))
  control.wantAbsent(id)
  await waitFor(() => control.reports.find(({ state }) => state === 'removed'))
  expect(listObjects()).toEqual([])
})

test('a revision starts only once its database is ready, together with its queue', async () => {
  start()
  const one = control.want(id, { ...image('1'), parts: ['queue'] }, { needs_database: true })
  await waitFor(() => api.has('StatefulSet', `${objectName()}-db`))
  expect(api.all('Deployment')).toEqual([])
  bringUpAutomatically(api)
  api.put({
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: `${objectName()}-db`, annotations: { now: 'up' } },
  })
  await findReport(one, /deployed/)
  expect(control.reports.map(({ state }) => state).filter(state => state === 'database_ready')).toHaveLength(1)
  expect(listObjects()).toContain(`Deployment ${objectName()}-r1-queue`)
})

test('a revision with an invalid image fails with the reason, and the old one keeps serving', async () => {
  const stop = bringUpAutomatically(api)
  start()
  const one = control.want(id, image('1'))
  await findReport(one, /deployed/)
  stop()
  const two = control.want(id, image('2'))
  await waitFor(() => api.has('Deployment', `${objectName()}-r2`))
  const waiting = { reason: 'InvalidImageName', message: 'no such image' }
  const app = { name: 'app', image: 'shop:2', ready: false, restartCount: 0, state: { waiting } }
  setUnavailable(api, `${objectName()}-r2`, { phase: 'Pending', containerStatuses: [app] })
  expect(await findReport(two, /failed/)).toMatchObject({ message: expect.stringContaining('no such image') })
  expect(api.get('Service', objectName()).spec.selector['slipway/revision-id']).toBe(one)
  await waitFor(() => !listObjects().some(name => name.includes('-r2')))
  expect(listObjects()).toContain(`Deployment ${objectName()}-r1`)
})

/** A container that has waited for its Secret for 58.5 s. The agent gives up after 60 s. */
const waitForSecret = (name: string) => ({
  phase: 'Pending',
  startTime: new Date(Date.now() - 58_500).toISOString(),
  containerStatuses: [
    {
      name,
      image: 'shop:1',
      ready: false,
      restartCount: 0,
      state: { waiting: { reason: 'CreateContainerConfigError', message: 'secret "shared" not found' } },
    },
  ],
})

test('a revision whose Secret is missing fails after a minute, without an event of the cluster', async () => {
  start()
  const one = control.want(id, image('1'))
  await waitFor(() => api.has('Deployment', `${objectName()}-r1`))
  setUnavailable(api, `${objectName()}-r1`, waitForSecret('app'))
  expect(await findReport(one, /failed/)).toMatchObject({ message: expect.stringContaining('"shared"') })
})

test('a revision whose database lacks a Secret fails after a minute, without an event of the cluster', async () => {
  start()
  const one = control.want(id, image('1'), { needs_database: true })
  const database = await waitFor(() => api.all('StatefulSet').find(Boolean))
  putPod(api, database, waitForSecret(database.spec.template.spec.containers[0].name))
  expect(await findReport(one, /failed/)).toMatchObject({ message: expect.stringContaining('"shared"') })
})

test('no revision fails because the API server is unavailable for a while', async () => {
  bringUpAutomatically(api)
  start()
  let requestCount = 0
  api.refuse = () => (requestCount++ < 12 ? { code: 503, message: 'later' } : undefined)
  const one = control.want(id, image('1'))
  await findReport(one, /deployed|failed/)
  expect(control.reportedStates(one)).toContain('deployed')
})

test('a revision that the agent or the cluster refuses fails with the reason', async () => {
  bringUpAutomatically(api)
  start()
  const inForeignNamespace = control.want(id, image('1'), { k8s_namespace: 'kube-system' })
  expect(await findReport(inForeignNamespace, /failed/)).toMatchObject({
    message: expect.stringContaining('kube-system'),
  })
  api.refuse = ({ kind, verb }) =>
    kind === 'Deployment' && verb === 'create' ? { code: 403, message: 'exceeded quota: objects' } : undefined
  const overQuota = control.want(randomUUID(), image('1'))
  expect(await findReport(overQuota, /failed/)).toMatchObject({ message: expect.stringContaining('exceeded quota') })
})
