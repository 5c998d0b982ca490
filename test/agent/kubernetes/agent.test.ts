// The agent whole, with the kubernetes engine: from what the control plane says to objects in a cluster, and back.
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
    ...{ agent_id: 'agent-1', version: 'test', home, engine, wait: 5, logToOperator: () => {} },
    control: createControlPlaneClient({ url: control.url, key: 'key' }),
  })
  runAgent(agent)
}
const image = (tag: string) => ({
  source: 'external_container' as const,
  image_uri: `registry.example.com/shop:${tag}`,
})
const base = () => baseName({ name: `shop-${id.slice(0, 4)}`, deployment_id: id })
const findReport = (revision: string, state: RegExp) =>
  waitFor(() => control.reports.find(one => one.revision_id === revision && state.test(one.state)))
const names = () => api.all().map(({ kind, metadata }) => `${kind} ${metadata.name}`)

test('deployed, deployed again, and removed', async () => {
  bringUpAutomatically(api)
  start()
  const one = control.want(id, image('1'), { secrets: { TOKEN: 'hush' }, k8s_namespace: 'apps' })
  expect(await findReport(one, /deployed/)).toMatchObject({ healthy: true, url: `http://${base()}.apps.svc` })
  expect(api.get('Secret', `${base()}-r1`).data).toEqual({ TOKEN: Buffer.from('hush').toString('base64') })
  const two = control.want(id, image('2'))
  await findReport(two, /deployed/)
  expect(api.get('Service', base()).spec.selector['slipway/revision-id']).toBe(two)
  await waitFor(() => !api.has('Deployment', `${base()}-r1`))
  control.wantAbsent(id)
  await waitFor(() => control.reports.find(({ state }) => state === 'removed'))
  expect(names()).toEqual([])
})

test('a database first; and the parts that were asked for', async () => {
  start()
  const one = control.want(id, { ...image('1'), parts: ['queue'] }, { needs_database: true })
  await waitFor(() => api.has('StatefulSet', `${base()}-db`))
  expect(api.all('Deployment')).toEqual([])
  bringUpAutomatically(api)
  api.put({
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: `${base()}-db`, annotations: { now: 'up' } },
  })
  await findReport(one, /deployed/)
  expect(control.reports.map(({ state }) => state).filter(state => state === 'database_ready')).toHaveLength(1)
  expect(names()).toContain(`Deployment ${base()}-r1-queue`)
})

test('a missing image ends as it should, with the reason, and the old revision serving', async () => {
  const stop = bringUpAutomatically(api)
  start()
  const one = control.want(id, image('1'))
  await findReport(one, /deployed/)
  stop()
  const two = control.want(id, image('2'))
  await waitFor(() => api.has('Deployment', `${base()}-r2`))
  const waiting = { reason: 'InvalidImageName', message: 'no such image' }
  const app = { name: 'app', image: 'shop:2', ready: false, restartCount: 0, state: { waiting } }
  setUnavailable(api, `${base()}-r2`, { phase: 'Pending', containerStatuses: [app] })
  expect(await findReport(two, /failed/)).toMatchObject({ message: expect.stringContaining('no such image') })
  expect(api.get('Service', base()).spec.selector['slipway/revision-id']).toBe(one)
  await waitFor(() => !names().some(name => name.includes('-r2')))
  expect(names()).toContain(`Deployment ${base()}-r1`)
})

/** It has waited for almost a minute, and nothing happens in the cluster when that is over. */
const missing = (name: string) => ({
  ...{ phase: 'Pending', startTime: new Date(Date.now() - 58_500).toISOString() },
  containerStatuses: [
    {
      ...{ name, image: 'shop:1', ready: false, restartCount: 0 },
      state: { waiting: { reason: 'CreateContainerConfigError', message: 'secret "shared" not found' } },
    },
  ],
})

test('a secret that does not come is given up when its time is over, though nothing happens then', async () => {
  start()
  const one = control.want(id, image('1'))
  await waitFor(() => api.has('Deployment', `${base()}-r1`))
  setUnavailable(api, `${base()}-r1`, missing('app'))
  expect(await findReport(one, /failed/)).toMatchObject({ message: expect.stringContaining('"shared"') })
})

test('a database that does not come is given up so, too', async () => {
  start()
  const one = control.want(id, image('1'), { needs_database: true })
  const database = await waitFor(() => api.all('StatefulSet').find(Boolean))
  putPod(api, database, missing(database.spec.template.spec.containers[0].name))
  expect(await findReport(one, /failed/)).toMatchObject({ message: expect.stringContaining('"shared"') })
})

test('a cluster that does not answer for a while fails nothing', async () => {
  bringUpAutomatically(api)
  start()
  let asked = 0
  api.refuse = () => (asked++ < 12 ? { code: 503, message: 'later' } : undefined)
  const one = control.want(id, image('1'))
  await findReport(one, /deployed|failed/)
  expect(control.reportedStates(one)).toContain('deployed')
})

test('what the cluster refuses is told', async () => {
  bringUpAutomatically(api)
  start()
  const elsewhere = control.want(id, image('1'), { k8s_namespace: 'kube-system' })
  expect(await findReport(elsewhere, /failed/)).toMatchObject({ message: expect.stringContaining('kube-system') })
  api.refuse = ({ kind, verb }) =>
    kind === 'Deployment' && verb === 'create' ? { code: 403, message: 'exceeded quota: objects' } : undefined
  const other = randomUUID()
  const refused = control.want(other, image('1'))
  expect(await findReport(refused, /failed/)).toMatchObject({ message: expect.stringContaining('exceeded quota') })
})
