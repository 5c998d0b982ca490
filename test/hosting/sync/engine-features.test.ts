// The control plane refuses what the engine of a listener cannot do, when it is planned, and names the engine that can.
import { sql } from 'drizzle-orm'
import { expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import {
  ENGINE_FEATURES,
  type EngineName,
  engineNames,
  enginesWith,
  type FeatureName,
  featureNames,
  featuresOf,
  UNENFORCED,
} from '../../../src/protocol/engine-features.ts'
import { CLOSED_POLICY } from '../../../src/protocol/listener-policy.ts'
import { getApp, newTenant, type Tenant, unusedId, withClockAhead } from '../../support/app.ts'
import { makeImageBody } from '../../support/deployment-bodies.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

/** Features that no member of `resource_spec` asks for by itself. */
const UNASKED = [
  'images',
  'git_ssh',
  'cpu_limits',
  'database_history',
  'database_copies',
  'protection',
  'traffic',
  'traffic_router',
  'rollout',
  'rollout_gates',
  'request_logs',
] as const
type Unasked = (typeof UNASKED)[number] | `${string}_snapshots`
/** Resources that need a feature, and the path that a refusal names. */
const ASKING: Record<Exclude<FeatureName, Unasked>, [spec: object, path: string]> = {
  autoscaling: [{ min_scale: 1, max_scale: 2 }, 'resource_spec.max_scale'],
  request_scaling: [{ scale_metric: 'requests' }, 'resource_spec.scale_metric'],
  part_autoscaling: [{ queue_max_scale: 2 }, 'resource_spec.queue_max_scale'],
  process_scaling: [
    { process_scaling: { worker: { min_scale: 1, max_scale: 2, scale_metric: 'cpu' } } },
    'resource_spec.process_scaling',
  ],
  queue_scaling: [
    { process_scaling: { worker: { min_scale: 0, max_scale: 2, scale_metric: 'queue' } } },
    'resource_spec.process_scaling.worker.scale_metric',
  ],
  sleep: [{ min_scale: 0, idle_seconds: 60 }, 'resource_spec.idle_seconds'],
  request_limit: [{ request_limit: 50 }, 'resource_spec.request_limit'],
  h2c: [{ protocol: 'h2c' }, 'resource_spec.protocol'],
  drain: [{ drain_seconds: 300 }, 'resource_spec.drain_seconds'],
  processes: [{ process_scale: { worker: 1 } }, 'resource_spec.process_scale'],
  queue: [{ queue_min_scale: 1 }, 'resource_spec.queue_min_scale'],
  orchestrator: [{ orchestrator_cpu: 1 }, 'resource_spec.orchestrator_cpu'],
  executor: [{ executor_memory_mb: 64 }, 'resource_spec.executor_memory_mb'],
  database: [{ db_max_connections: 3 }, 'resource_spec.db_max_connections'],
  attached_database: [{ attached_database: 'DATABASE_URL' }, 'resource_spec.attached_database'],
  redis: [{ redis_memory_mb: 64 }, 'resource_spec.redis_memory_mb'],
  disks: [{ volumes: [{ name: 'a', persistentVolumeClaim: { claimName: 'a' } }] }, 'resource_spec.volumes.0'],
  scratch_volumes: [{ volumes: [{ name: 'a', emptyDir: {} }] }, 'resource_spec.volumes.0.emptyDir'],
  cluster_volumes: [{ volumes: [{ name: 'a', configMap: { name: 'a' } }] }, 'resource_spec.volumes.0.configMap'],
  sub_paths: [
    { volumes: [{ name: 'a', emptyDir: {} }], volume_mounts: [{ name: 'a', mountPath: '/a', subPath: 'b' }] },
    'resource_spec.volume_mounts.0',
  ],
  init_containers: [{ init_containers: [{ name: 'a', image: 'a' }] }, 'resource_spec.init_containers'],
  sidecars: [{ sidecars: [{ name: 'a', image: 'a' }] }, 'resource_spec.sidecars'],
  labels: [{ labels: { team: 'a' } }, 'resource_spec.labels'],
  annotations: [{ annotations: { team: 'a' } }, 'resource_spec.annotations'],
  pull_secrets: [{ image_pull_secrets: [{ name: 'a' }] }, 'resource_spec.image_pull_secrets'],
}

async function newListenerOf(tenant: Tenant, engine: EngineName | undefined) {
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  const declared = engine && { engine, features: featuresOf(engine) }
  await agent.poll({ policy: { ...CLOSED_POLICY, ...declared } })
  return { id: listener.id as string, agent, key }
}
const create = (tenant: Tenant, listener_id: string, resource_spec: object, query = '') =>
  tenant.post(`/v2/deployments${query}`, {
    name: `app-${unusedId()}`,
    source: 'internal_source',
    source_config: { listener_id, resource_spec },
    source_revision_config: {},
    secrets: [],
  })

it.each(engineNames)('the %s engine gets what it does, and the rest is refused by its path', async engine => {
  const tenant = await newTenant()
  const { id } = await newListenerOf(tenant, engine)
  const { body: plain } = await create(tenant, id, {})
  for (const [feature, [resource_spec, path]] of Object.entries(ASKING)) {
    const isDone = ENGINE_FEATURES[feature as FeatureName][engine] !== 'refused'
    const planned = await create(tenant, id, resource_spec, '?dry_run=true')
    const patched = await tenant.patch(`/v2/deployments/${plain.id}?dry_run=true`, { source_config: { resource_spec } })
    const isRefused = { code: 'not_allowed_by_listener', detail: expect.stringContaining(path) }
    for (const { body } of [planned, patched]) {
      if (isDone) expect(body, feature).toMatchObject({ creates_revision: expect.any(Boolean) })
      else expect(body, feature).toMatchObject(isRefused)
      if (!isDone) expect(body.detail).toContain(enginesWith(feature as FeatureName))
    }
  }
  const image = await tenant.post(
    '/v2/deployments?dry_run=true',
    makeImageBody({
      source: 'internal_container',
      source_config: { listener_id: id },
    }),
  )
  expect(image.status).toBe(ENGINE_FEATURES.images[engine] === 'refused' ? 400 : 200)
})

it('all that is refused is named at once, and nothing is created', async () => {
  const tenant = await newTenant()
  const { id } = await newListenerOf(tenant, 'process')
  const asking = { annotations: { a: 'b' }, labels: { a: 'b' }, sidecars: [{ name: 'a', image: 'a' }] }
  const { status, body } = await create(tenant, id, asking)
  expect([status, body.code]).toEqual([400, 'not_allowed_by_listener'])
  for (const name of Object.keys(asking)) expect(body.detail).toContain(`resource_spec.${name}`)
  expect((await tenant.get('/v2/deployments')).body.resources).toEqual([])
})

it('a deployment made before keeps what it has, which its plans name, and writes it no second time', async () => {
  const tenant = await newTenant()
  const { id, agent, key } = await newListenerOf(tenant, undefined)
  const { body: deployment } = await create(tenant, id, { min_scale: 2, max_scale: 4, labels: { a: 'b' }, cpu: 1 })
  const policy = { ...CLOSED_POLICY, engine: 'process', features: featuresOf('process') }
  await makeSyncAgent(tenant, key, agent.agent_id).poll({ policy })
  const path = `/v2/deployments/${deployment.id}`
  const patch = (resource_spec: object) => tenant.patch(path, { source_config: { resource_spec } })
  expect((await patch({ min_scale: 2, max_scale: 4, memory_mb: 512 })).status).toBe(200)
  expect((await patch({ annotations: { a: 'b' } })).body.code).toBe('not_allowed_by_listener')
  expect((await patch({ labels: { a: 'c' } })).body.code).toBe('not_allowed_by_listener')
  const { body: plan } = await tenant.post(`${path}/revisions?dry_run=true`)
  for (const name of ['labels', 'cpu']) expect(plan.warnings.join()).toContain(`\`${name}\``)
})

it('amounts that an engine does not enforce are named by the plan', async () => {
  const tenant = await newTenant()
  for (const engine of engineNames) {
    const { id } = await newListenerOf(tenant, engine)
    const names = UNENFORCED[engine].filter(name => !name.startsWith('redis') && !name.startsWith('volumes'))
    const spec = Object.fromEntries(names.map(name => [name, name.includes('memory') ? 64 : 1]))
    const { warnings } = (await create(tenant, id, spec, '?dry_run=true')).body
    for (const name of names) expect(warnings.join()).toContain(`\`${name}\``)
    // A listener whose machine enforces them tells it.
    const limits = { cpu: 1, cpu_limit: 2 }
    expect((await create(tenant, id, limits, '?dry_run=true')).body.warnings.join()).not.toContain('cpu_limit')
  }
  const { id, agent, key } = await newListenerOf(tenant, undefined)
  const features = featuresOf('process', ['cpu_limits'])
  await makeSyncAgent(tenant, key, agent.agent_id).poll({ policy: { ...CLOSED_POLICY, engine: 'process', features } })
  const { warnings } = (await create(tenant, id, { cpu: 1, cpu_limit: 2 }, '?dry_run=true')).body
  expect(warnings.join()).toContain('`cpu_limit`')
})

it('an agent that tells no features is warned of for processes, which it does not know', async () => {
  const tenant = await newTenant()
  const { id } = await newListenerOf(tenant, undefined)
  const { warnings } = (await create(tenant, id, { process_scale: { worker: 2 } }, '?dry_run=true')).body
  expect(warnings.join()).toContain('`process_scale`')
})

it('parts from before the engine ran them start once they are written again, also as they were', async () => {
  const tenant = await newTenant()
  const { id, key } = await newListenerOf(tenant, 'container')
  const resource_spec = { queue_min_scale: 2, queue_max_scale: 2, orchestrator_cpu: 1 }
  const body = makeListenerDeployment({ id }, { source_config: { resource_spec } })
  const { body: deployment } = await tenant.post('/v2/deployments', { ...body, name: 'app' })
  expect(deployment).toMatchObject({ id: expect.any(String) })
  const dormant = sql`
    update deployments set dormant_parts = '{queue, orchestrator}' where id = ${deployment.id}::uuid`
  await runAsSystem(getApp().database, dormant)
  // The agent acquires its lease anew.
  const read = async () => {
    const agent = makeSyncAgent(tenant, key)
    const policy = { ...CLOSED_POLICY, engine: 'container', features: featuresOf('container') }
    const { changes } = await withClockAhead(3_600_000, () => agent.poll({ policy }))
    return changes[0]!.revision?.parts
  }
  const path = `/v2/deployments/${deployment.id}`
  const patch = (resource_spec: object, query = '') => tenant.patch(path + query, { source_config: { resource_spec } })
  const revisions = async () => (await tenant.get(`${path}/revisions`)).body.resources.length
  const other = (await patch({ memory_mb: 512 }, '?dry_run=true')).body.warnings.join()
  for (const part of ['queue', 'orchestrator']) expect(other).toContain(`\`${part}_*\``)
  const before = await revisions()
  const same = (await patch({ queue_min_scale: 2 }, '?dry_run=true')).body
  expect(same).toMatchObject({ creates_revision: true, reasons: ['source_config.resource_spec.queue_min_scale'] })
  expect(same.warnings.filter((one: string) => one.includes('`queue_*`'))).toEqual([])
  expect(same.warnings.join()).toContain('`orchestrator_*`')
  expect((await patch({ queue_min_scale: 2 })).status).toBe(200)
  expect(await revisions()).toBe(before + 1)
  expect(await read()).toEqual(['queue'])
  const after = (await patch({ queue_min_scale: 2 }, '?dry_run=true')).body
  expect(after.creates_revision).toBe(false)
})

it('every feature has a case', () => {
  expect(Object.keys(ASKING).sort()).toEqual(
    featureNames.filter(name => !(UNASKED as readonly string[]).includes(name) && !name.endsWith('_snapshots')).sort(),
  )
})
