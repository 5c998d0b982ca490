import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { takesTenthsOnly } from '../../../src/hosting/sync/work.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { VERSION } from '../../../src/kernel/version.ts'
import {
  getApp,
  newTenant,
  type Reply,
  readEvents,
  startApp,
  type Tenant,
  unusedId,
  withClockAhead,
} from '../../support/app.ts'
import { imageConfig, newDeployment } from '../../support/deployments.ts'
import { computeDigest } from '../../support/envelope-opener.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const makeDeploymentBody = (listener: { id: string }, over: Record<string, unknown> = {}) =>
  makeListenerDeployment(listener, { secrets: [{ name: 'TOKEN', value: 'hush' }], ...over })

async function createAgent() {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  return { tenant, listener, key, agent: makeSyncAgent(tenant, key) }
}

describe('work', () => {
  it('comes with the order to keep deployments that it does not name, after a restore', async () => {
    const { listener, agent } = await createAgent()
    expect(await agent.poll()).toMatchObject({ keep_unknown: false })
    const held = sql`update listeners set holds_removals_since = clock() where id = ${listener.id}::uuid`
    await runAsSystem(getApp().database, held)
    expect(await agent.poll()).toMatchObject({ keep_unknown: true })
  })

  it('has tenths of cores for agents of the releases that take no others', async () => {
    const { tenant, listener, agent } = await createAgent()
    const resource_spec = { cpu: 0.004, cpu_limit: 0.25, db_cpu: 1.249, queue_cpu: 0.1 + 0.2, memory_mb: 65 }
    await newDeployment(
      tenant,
      makeDeploymentBody(listener, { source_config: { listener_id: listener.id, resource_spec } }),
    )
    const read = async (version: string | null) =>
      (await agent.poll({ version, cursor: null })).changes[0]!.revision!.resource_spec
    const tenths = { cpu: 0.1, cpu_limit: 0.3, db_cpu: 1.2, queue_cpu: 0.3, memory_mb: 65 }
    for (const version of ['1.0.0', '0.1.0']) expect(await read(version)).toMatchObject(tenths)
    for (const version of [VERSION, null, 'another']) expect(await read(version)).toMatchObject(resource_spec)
    const releases = ['0.2.0-rc.1', '0.2.0-rc.2', '0.2.0', '0.3.0']
    expect(releases.map(version => takesTenthsOnly(version, '0.3.0'))).toEqual([true, false, false, false])
  })

  it('contains the whole deployment, with secrets sealed to the agent', async () => {
    const { tenant, listener, agent } = await createAgent()
    const deployment = await newDeployment(tenant, makeDeploymentBody(listener))
    const { changes, resync, more, lease } = await agent.poll()
    expect({ resync, more, fence: lease.fence }).toEqual({ resync: true, more: false, fence: 1 })
    expect(changes).toHaveLength(1)
    const [work] = changes
    expect(work).toMatchObject({
      deployment_id: deployment.id,
      generation: 1,
      wanted: 'present',
      tenant_id: tenant.tenant_id,
      name: deployment.name,
      serving: null,
      revision: {
        id: deployment.latest_revision_id,
        number: 1,
        status: 'AWAITING_DEPLOY',
        ...imageConfig,
        resource_spec: { min_scale: 1, memory_mb: 1024, memory_limit_mb: 2048 },
        parts: [],
      },
    })
    expect(agent.open(listener.id, work!)).toEqual({ TOKEN: 'hush' })
    expect(JSON.stringify(changes)).not.toContain('hush')
  })

  it('with secrets is journaled with the listener that received it', async () => {
    const { tenant, listener, agent } = await createAgent()
    const deployment = await newDeployment(tenant, makeDeploymentBody(listener))
    const { headers } = await agent.sendPoll()
    const events = await readEvents(headers.get('X-Request-Id')!)
    expect(events).toMatchObject([
      {
        type: 'revision.secrets_revealed',
        subject_id: deployment.latest_revision_id,
        actor_kind: 'listener',
        actor_id: listener.id,
        tenant_id: tenant.tenant_id,
      },
    ])
  })

  it('is sent once, and again only after a change', async () => {
    const { tenant, listener, agent } = await createAgent()
    const { id } = await newDeployment(tenant, makeDeploymentBody(listener))
    await agent.poll()
    expect((await agent.poll()).changes).toEqual([])
    await tenant.patch(`/v2/deployments/${id}`, { secrets: [{ name: 'TOKEN', value: 'other' }] })
    expect((await agent.poll()).changes).toMatchObject([{ deployment_id: id, generation: 2 }])
    expect((await agent.poll({ digest: computeDigest(agent.generations) })).changes).toEqual([])
  })

  it('is sent in pages, each deployment once', async () => {
    const { tenant, listener, agent } = await createAgent()
    const ids: string[] = []
    for (let i = 0; i < 53; i++)
      ids.push((await newDeployment(tenant, makeDeploymentBody(listener, { secrets: [] }))).id)
    const first = await agent.poll()
    expect([first.changes.length, first.more, first.resync]).toEqual([50, true, true])
    const second = await agent.poll()
    expect([second.changes.length, second.more, second.resync]).toEqual([3, false, false])
    expect([...first.changes, ...second.changes].map(one => one.deployment_id)).toEqual(ids)
    expect(second.digest).toBe(computeDigest(agent.generations))
  })

  it('ends the wait of a poll as soon as it exists', async () => {
    const { tenant, listener, agent } = await createAgent()
    await agent.poll()
    const waiting = agent.poll({ wait: 20 })
    const { id } = await newDeployment(tenant, makeDeploymentBody(listener))
    expect((await waiting).changes).toMatchObject([{ deployment_id: id }])
  })
})

describe('a digest', () => {
  it('that differs although nothing changed causes a resync', async () => {
    const { tenant, listener, agent } = await createAgent()
    const { id } = await newDeployment(tenant, makeDeploymentBody(listener))
    await agent.poll()
    const { resync, changes } = await agent.poll({ digest: computeDigest(new Map([[id, 7]])) })
    expect([resync, changes.length]).toEqual([true, 1])
    expect((await agent.poll({ digest: computeDigest(agent.generations) })).resync).toBe(false)
  })

  it('changes when a deployment is removed', async () => {
    const { tenant, listener, agent } = await createAgent()
    const { id } = await newDeployment(tenant, makeDeploymentBody(listener))
    await newDeployment(tenant, makeDeploymentBody(listener))
    await tenant.delete(`/v2/deployments/${id}`)
    const { changes } = await agent.poll()
    const absent = changes.find(one => one.wanted === 'absent')!
    expect(absent).toMatchObject({ deployment_id: id, revision: null, serving: null })
    await agent.report(absent, { state: 'removed' })
    const { digest, resync } = await agent.poll({ digest: computeDigest(agent.generations) })
    expect([digest, resync]).toEqual([computeDigest(agent.generations), false])
  })
})

describe('a lease', () => {
  it('belongs to one agent until it expires', async () => {
    const { tenant, key, agent } = await createAgent()
    const other = makeSyncAgent(tenant, key)
    await agent.poll()
    const refused = await other.sendPoll()
    expect([refused.status, refused.body.code]).toEqual([409, 'lease_held'])
    expect(Number(refused.headers.get('Retry-After'))).toBeGreaterThan(50)
    await withClockAhead(61_000, async () => {
      expect((await other.poll()).lease.fence).toBe(2)
      const { status, body } = await agent.sendPoll()
      expect([status, body.code]).toEqual([409, 'fence_stale'])
    })
  })

  it('is renewed by its fence even after it has expired, and acquired anew after a restart', async () => {
    const { tenant, key, agent } = await createAgent()
    await agent.poll()
    await withClockAhead(90_000, async () => expect((await agent.poll()).lease.fence).toBe(1))
    const restarted = makeSyncAgent(tenant, key, agent.agent_id)
    expect((await restarted.poll()).lease.fence).toBe(2)
    expect((await agent.sendPoll()).body.code).toBe('fence_stale')
    expect(
      (await agent.sendReports([{ deployment_id: tenant.tenant_id, generation: 1, state: 'removed' }])).body.code,
    ).toBe('fence_stale')
  })

  it('is not renewed during the wait of a poll, because the agent may have died', async () => {
    const { tenant, listener, key, agent } = await createAgent()
    const readLastSeen = async () => (await tenant.get(`/v2/listeners/${listener.id}`)).body.last_seen_at
    const { expires_at } = (await agent.poll()).lease
    const before = await readLastSeen()
    const waiting = agent.poll({ wait: 20 })
    await expect.poll(readLastSeen).not.toBe(before)
    await withClockAhead(40_000, async () => {
      await newDeployment(tenant, makeDeploymentBody(listener))
      const { lease, changes } = await waiting
      expect(changes).toHaveLength(1)
      expect(Date.parse(lease.expires_at) - Date.parse(expires_at)).toBeLessThan(20_000)
    })
    await withClockAhead(61_000 + 20_000, async () =>
      expect((await makeSyncAgent(tenant, key).poll()).lease.fence).toBe(2),
    )
  })

  it('can be released repeatedly, after which another agent acquires it and its old fence is stale', async () => {
    const { tenant, key, agent } = await createAgent()
    await agent.poll()
    const { agent_id, fence } = agent
    const waiting = agent.sendPoll({ wait: 20 })
    const release = () => agent.post('/v1/sync/release', { agent_id, fence })
    for (const _ of [1, 2]) expect((await release()).status).toBe(204)
    expect((await waiting).body.code).toBe('fence_stale')
    expect((await agent.sendPoll()).body.code).toBe('fence_stale')
    const other = makeSyncAgent(tenant, key)
    expect((await other.poll()).lease.fence).toBe(2)
    expect((await release()).body.code).toBe('fence_stale')
    expect((await other.sendPoll()).status).toBe(200)
  })

  it('no longer keeps a poll waiting after its client has disconnected', async () => {
    const { tenant, listener, key, agent } = await createAgent()
    await agent.poll()
    const readLastSeen = async () => (await tenant.get(`/v2/listeners/${listener.id}`)).body.last_seen_at
    const before = await readLastSeen()
    const { agent_id, public_key, fence, cursor } = agent
    const connection = new AbortController()
    const waiting = getApp().fetch(
      new Request('http://slipway.test/v1/sync/poll', {
        method: 'POST',
        headers: { 'X-Api-Key': key, 'Content-Type': 'application/json' },
        body: JSON.stringify({ agent_id, public_key, fence, cursor, wait: 55 }),
        signal: connection.signal,
      }),
    )
    await expect.poll(readLastSeen).not.toBe(before)
    connection.abort()
    expect((await waiting).status).toBe(200)
  })

  it('goes to one of several concurrent agents', async () => {
    const { tenant, key } = await createAgent()
    const replies = await Promise.all(Array.from({ length: 6 }, () => makeSyncAgent(tenant, key).sendPoll()))
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409, 409, 409])
  })

  it('is refused to an agent whose public key is not on the curve', async () => {
    const { agent } = await createAgent()
    const { status, body } = await agent.sendPoll({ public_key: `B${'A'.repeat(86)}` })
    expect([status, body.code]).toEqual([422, 'invalid_request'])
  })
})

describe('an agent’s key', () => {
  const readRefusal = async (tenant: Tenant, key: string, path: string) => {
    const { status, body } = await tenant.as(key).get(path)
    return [status, body.code]
  }

  it('is refused outside the sync protocol', async () => {
    const { tenant, key } = await createAgent()
    for (const path of ['/v2/deployments', '/v2/listeners', '/workspaces/current/api-keys'])
      expect(await readRefusal(tenant, key, path)).toEqual([403, 'permission_missing'])
  })

  it('is required to poll, because other keys have no listener', async () => {
    const { tenant } = await createAgent()
    expect((await makeSyncAgent(tenant, tenant.key).sendPoll()).body.code).toBe('listener_not_found')
  })

  it.each(['gateway', 'withoutTenantPredicates'] as const)(
    'neither reads nor changes a deployment of another listener (database access: %s)',
    async through => {
      const app = through === 'gateway' ? getApp() : startApp({ through })
      const tenant = await newTenant({ app })
      const { listener, key } = await newListener(tenant)
      const agent = makeSyncAgent(tenant, key)
      const other = await newListener(tenant)
      const otherAgent = makeSyncAgent(tenant, other.key)
      const { id, latest_revision_id } = await newDeployment(tenant, makeDeploymentBody(listener))
      await agent.poll()
      expect((await otherAgent.poll()).changes).toEqual([])
      const claim = { deployment_id: id, generation: 1, revision: { id: latest_revision_id } as never }
      for (const state of ['deployed', 'serving', 'interrupted'] as const)
        expect(await otherAgent.report(claim, { state })).toMatchObject({
          outcome: 'refused',
          code: 'deployment_unknown',
        })
      expect((await tenant.get(`/v2/deployments/${id}/revisions/${latest_revision_id}`)).body.status).toBe(
        'AWAITING_DEPLOY',
      )
      const log = { deployment_id: id, revision_id: latest_revision_id, kind: 'build', stream: id, from: 0 }
      const lines = [{ timestamp: new Date().toISOString(), level: 'INFO', message: 'text' }]
      const { body } = await otherAgent.post('/v1/sync/logs', {
        agent_id: otherAgent.agent_id,
        fence: otherAgent.fence,
        ...log,
        lines,
      })
      expect(body.code).toBe('revision_not_found')
    },
  )
})

it('a poll and a report each make one database round trip', async () => {
  const { tenant, listener, agent } = await createAgent()
  const { id, latest_revision_id } = await newDeployment(tenant, makeDeploymentBody(listener))
  const countTripsOf = async (act: (headers: Record<string, string>) => Promise<Reply>) => {
    const requestId = `trip-${unusedId()}`
    const { status } = await act({ 'X-Request-Id': requestId })
    return [status, await countTrips(requestId)]
  }
  expect(await countTripsOf(headers => agent.sendPoll({}, headers))).toEqual([200, 1])
  const { changes, lease } = await agent.poll({ fence: 1 })
  expect([changes.length, lease.fence]).toEqual([1, 1])
  const report = { deployment_id: id, revision_id: latest_revision_id, generation: 1, state: 'deployed', healthy: true }
  expect(await countTripsOf(headers => agent.sendReports([report], {}, headers))).toEqual([200, 1])
})
