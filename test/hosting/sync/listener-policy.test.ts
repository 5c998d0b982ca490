// The control plane refuses a change that the agent of the listener does not allow, when it is planned.
import { describe, expect, it } from 'vitest'
import {
  CLOSED_POLICY,
  isAllowed,
  type ListenerPolicy,
  type PolicyNeed,
} from '../../../src/protocol/listener-policy.ts'
import { newTenant, type Tenant } from '../../support/app.ts'
import { makeImageBody } from '../../support/deployment-bodies.ts'
import { makeSyncAgent, newListener } from '../../support/sync-agent.ts'
import { makeSourceBody } from '../../support/uploads-suite.ts'

const PRIVILEGED = { sidecars: [{ name: 'x', image: 'x', securityContext: { privileged: true } }] }

const makeDisk = (storage_gi: number) => ({
  volumes: [{ name: 'media', persistentVolumeClaim: { claimName: 'media', storage_gi } }],
})

async function newListenerWith(tenant: Tenant, policy: ListenerPolicy | undefined) {
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  await agent.poll({ policy })
  // A later poll of the same lease keeps it.
  await agent.poll()
  return { listener, agent, key }
}

const create = (tenant: Tenant, listener_id: string, resource_spec: object, query = '') =>
  tenant.post(
    `/v2/deployments${query}`,
    makeImageBody({ source: 'internal_container', source_config: { listener_id, resource_spec } }),
  )

const CASES: [what: string, spec: object, path: string, open: Partial<ListenerPolicy>][] = [
  ['a privileged sidecar', PRIVILEGED, 'resource_spec.sidecars.0.securityContext.privileged', { privileged: true }],
  [
    'a service account',
    { service_account_name: 'robot' },
    'resource_spec.service_account_name',
    { service_accounts: ['other', 'robot'] },
  ],
  ['999 copies', { min_scale: 999, max_scale: 999 }, 'resource_spec.min_scale', { max_copies: 999 }],
  [
    'a disk of 64 TiB',
    makeDisk(65_536),
    'resource_spec.volumes.0.persistentVolumeClaim.storage_gi (at most 100)',
    { max_disk_gi: 65_536 },
  ],
]
const LIMITS = { ...CLOSED_POLICY, max_copies: 32, max_disk_gi: 100 }

describe('a listener', () => {
  it.each(CASES)(
    'refuses %s by its path, at a creation and a patch, planned and applied',
    async (_, spec, path, open) => {
      const tenant = await newTenant()
      const { listener } = await newListenerWith(tenant, LIMITS)
      for (const query of ['?dry_run=true', '']) {
        const { status, body } = await create(tenant, listener.id, spec, query)
        expect([status, body.code]).toEqual([400, 'not_allowed_by_listener'])
        expect(body.detail).toContain(path)
      }
      const { body: deployment } = await create(tenant, listener.id, { cpu: 1, min_scale: 32, max_scale: 32 })
      for (const query of ['?dry_run=true', '']) {
        const patch = { source_config: { resource_spec: spec } }
        const { status, body } = await tenant.patch(`/v2/deployments/${deployment.id}${query}`, patch)
        expect([status, body.code]).toEqual([400, 'not_allowed_by_listener'])
        expect(body.detail).toContain(path)
      }
      const opened = await newListenerWith(tenant, { ...LIMITS, ...open })
      expect((await create(tenant, opened.listener.id, spec)).status).toBe(201)
    },
  )

  it('whose agent has sent no policy decides by itself, also after one that had sent it', async () => {
    const tenant = await newTenant()
    const { listener, agent, key } = await newListenerWith(tenant, CLOSED_POLICY)
    await makeSyncAgent(tenant, key, agent.agent_id).poll()
    expect((await create(tenant, listener.id, PRIVILEGED)).status).toBe(201)
  })

  it('refuses no patch that keeps the resources as they are', async () => {
    const tenant = await newTenant()
    const { listener, key } = await newListener(tenant)
    const { body: deployment } = await create(tenant, listener.id, PRIVILEGED)
    await makeSyncAgent(tenant, key).poll({ policy: CLOSED_POLICY })
    const patch = { source_config: { resource_spec: deployment.source_config.resource_spec, custom_url: null } }
    expect((await tenant.patch(`/v2/deployments/${deployment.id}`, patch)).status).toBe(200)
  })

  it('refuses to clear an account whose token a volume still has', async () => {
    const tenant = await newTenant()
    const token = { name: 'token', projected: { sources: [{ serviceAccountToken: { path: 'token' } }] } }
    const spec = { service_account_name: 'robot', volumes: [{ name: 'scratch', emptyDir: {} }, token], cpu: 1 }
    const clear = 'clear=resource_spec.service_account_name'
    const { listener } = await newListenerWith(tenant, { ...CLOSED_POLICY, service_accounts: ['robot'] })
    const path = `/v2/deployments/${(await create(tenant, listener.id, spec)).body.id}`
    const same = { source_config: { resource_spec: { volumes: spec.volumes } } }
    for (const query of [clear, `${clear}&dry_run=true`])
      for (const patch of [{}, same]) {
        const { status, body } = await tenant.patch(`${path}?${query}`, patch)
        expect([status, body.code]).toEqual([400, 'not_allowed_by_listener'])
        expect(body.detail).toContain('resource_spec.volumes.1.projected.sources.0.serviceAccountToken')
      }
    expect((await tenant.patch(`${path}?${clear},resource_spec.volumes`, {})).status).toBe(200)
    const opened = await newListenerWith(tenant, { privileged: true, service_accounts: ['robot'] })
    const other = `/v2/deployments/${(await create(tenant, opened.listener.id, spec)).body.id}`
    expect((await tenant.patch(`${other}?${clear}`, {})).status).toBe(200)
  })

  it.each([
    [[], false],
    [['images'], true],
    [undefined, null],
  ])('is %j of features, and plans of creations and patches say whether images run', async (features, planned) => {
    const tenant = await newTenant()
    const { listener } = await newListenerWith(tenant, { ...CLOSED_POLICY, features })
    const body = makeSourceBody({ source_config: { listener_id: listener.id } })
    const creation = await tenant.post('/v2/deployments?dry_run=true', body)
    const { id } = (await tenant.post('/v2/deployments', body)).body
    const patch = await tenant.patch(`/v2/deployments/${id}?dry_run=true`, {})
    expect([creation.body.runs_images, patch.body.runs_images]).toEqual([planned, planned])
  })

  it('decides like the agent itself', async () => {
    const tenant = await newTenant()
    const policies: ListenerPolicy[] = [
      CLOSED_POLICY,
      { privileged: true, service_accounts: ['robot'], max_copies: 3 },
      { privileged: false, service_accounts: ['other'], max_copies: null, max_disk_gi: 8 },
    ]
    const needs: [PolicyNeed, object][] = [
      [{ path: '', needs: 'privileged' }, PRIVILEGED],
      [{ path: '', needs: 'service_account', value: 'robot' }, { service_account_name: 'robot' }],
      [
        { path: '', needs: 'copies', value: 3 },
        { min_scale: 3, max_scale: 3 },
      ],
      [
        { path: '', needs: 'copies', value: 4 },
        { min_scale: 4, max_scale: 4 },
      ],
      [{ path: '', needs: 'disk_size', value: 8 }, makeDisk(8)],
      [{ path: '', needs: 'disk_size', value: 9 }, makeDisk(9)],
    ]
    for (const policy of policies) {
      const { listener } = await newListenerWith(tenant, policy)
      for (const [need, spec] of needs) {
        const { status } = await create(tenant, listener.id, spec, '?dry_run=true')
        expect([policy, need, status]).toEqual([policy, need, isAllowed(need, policy) ? 200 : 400])
      }
    }
  })
})
