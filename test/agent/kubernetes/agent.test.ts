// The agent whole, with the kubernetes engine: from what the control plane says to objects in a cluster, and back.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Agent } from '../../../src/agent/agent.ts'
import { controlAt } from '../../../src/agent/control.ts'
import { baseName } from '../../../src/agent/engines/kubernetes/names.ts'
import { KubernetesEngine } from '../../../src/agent/engines/kubernetes.ts'
import { eventually } from '../../support/commands.ts'
import { type ControlPlane, controlPlane } from '../../support/control-plane.ts'
import { closeAgents, folder, run } from '../../support/engine.ts'
import { settingsOf } from '../../support/kubernetes.ts'
import { KubernetesApi } from '../../support/kubernetes-api.ts'
import { autopilot, podOf, staysDown } from '../../support/kubernetes-pods.ts'

let api: KubernetesApi
let control: ControlPlane
let home: string
let id: string
beforeEach(async () => {
  home = folder()
  id = randomUUID()
  ;[api, control] = await Promise.all([new KubernetesApi().open(), controlPlane()])
})
afterEach(async () => {
  await closeAgents()
  await Promise.all([control.stop(), api.close()])
  fs.rmSync(home, { recursive: true, force: true })
})
function start() {
  const engine = new KubernetesEngine({ settings: settingsOf(), config: api.config, pause_ms: 5 })
  const agent = new Agent({
    ...{ agent_id: 'agent-1', version: 'test', home, engine, wait: 5, say: () => {} },
    control: controlAt({ url: control.url, key: 'key' }),
  })
  run(agent)
}
const image = (tag: string) => ({
  source: 'external_container' as const,
  image_uri: `registry.example.com/shop:${tag}`,
})
const base = () => baseName({ name: `shop-${id.slice(0, 4)}`, deployment_id: id })
const told = (revision: string, state: RegExp) =>
  eventually(() => control.reports.find(one => one.revision_id === revision && state.test(one.state)))
const names = () => api.all().map(({ kind, metadata }) => `${kind} ${metadata.name}`)

test('deployed, deployed again, and removed', async () => {
  autopilot(api)
  start()
  const one = control.want(id, image('1'), { secrets: { TOKEN: 'hush' }, k8s_namespace: 'apps' })
  expect(await told(one, /deployed/)).toMatchObject({ healthy: true, url: `http://${base()}.apps.svc` })
  expect(api.get('Secret', `${base()}-r1`).data).toEqual({ TOKEN: Buffer.from('hush').toString('base64') })
  const two = control.want(id, image('2'))
  await told(two, /deployed/)
  expect(api.get('Service', base()).spec.selector['slipway/revision-id']).toBe(two)
  await eventually(() => !api.has('Deployment', `${base()}-r1`))
  control.unwant(id)
  await eventually(() => control.reports.find(({ state }) => state === 'removed'))
  expect(names()).toEqual([])
})

test('a database first; and the parts that were asked for', async () => {
  start()
  const one = control.want(id, { ...image('1'), parts: ['queue'] }, { needs_database: true })
  await eventually(() => api.has('StatefulSet', `${base()}-db`))
  expect(api.all('Deployment')).toEqual([])
  autopilot(api)
  api.put({
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: `${base()}-db`, annotations: { now: 'up' } },
  })
  await told(one, /deployed/)
  expect(control.reports.map(({ state }) => state).filter(state => state === 'database_ready')).toHaveLength(1)
  expect(names()).toContain(`Deployment ${base()}-r1-queue`)
})

test('a missing image ends as it should, with the reason, and the old revision serving', async () => {
  const stop = autopilot(api)
  start()
  const one = control.want(id, image('1'))
  await told(one, /deployed/)
  stop()
  const two = control.want(id, image('2'))
  await eventually(() => api.has('Deployment', `${base()}-r2`))
  const waiting = { reason: 'InvalidImageName', message: 'no such image' }
  const app = { name: 'app', image: 'shop:2', ready: false, restartCount: 0, state: { waiting } }
  staysDown(api, `${base()}-r2`, { phase: 'Pending', containerStatuses: [app] })
  expect(await told(two, /failed/)).toMatchObject({ message: expect.stringContaining('no such image') })
  expect(api.get('Service', base()).spec.selector['slipway/revision-id']).toBe(one)
  await eventually(() => !names().some(name => name.includes('-r2')))
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
  await eventually(() => api.has('Deployment', `${base()}-r1`))
  staysDown(api, `${base()}-r1`, missing('app'))
  expect(await told(one, /failed/)).toMatchObject({ message: expect.stringContaining('"shared"') })
})

test('a database that does not come is given up so, too', async () => {
  start()
  const one = control.want(id, image('1'), { needs_database: true })
  const database = await eventually(() => api.all('StatefulSet').find(Boolean))
  podOf(api, database, missing(database.spec.template.spec.containers[0].name))
  expect(await told(one, /failed/)).toMatchObject({ message: expect.stringContaining('"shared"') })
})

test('a cluster that does not answer for a while fails nothing', async () => {
  autopilot(api)
  start()
  let asked = 0
  api.refuse = () => (asked++ < 12 ? { code: 503, message: 'later' } : undefined)
  const one = control.want(id, image('1'))
  await told(one, /deployed|failed/)
  expect(control.said(one)).toContain('deployed')
})

test('what the cluster refuses is told', async () => {
  autopilot(api)
  start()
  const elsewhere = control.want(id, image('1'), { k8s_namespace: 'kube-system' })
  expect(await told(elsewhere, /failed/)).toMatchObject({ message: expect.stringContaining('kube-system') })
  api.refuse = ({ kind, verb }) =>
    kind === 'Deployment' && verb === 'create' ? { code: 403, message: 'exceeded quota: objects' } : undefined
  const other = randomUUID()
  const refused = control.want(other, image('1'))
  expect(await told(refused, /failed/)).toMatchObject({ message: expect.stringContaining('exceeded quota') })
})
