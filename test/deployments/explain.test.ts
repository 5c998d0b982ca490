import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { listObstacles } from '../../src/deployments/explain.ts'
import { UNUSED_AFTER } from '../../src/deployments/lifecycle.ts'
import { obstacleCodes } from '../../src/deployments/revisions.schema.ts'
import { sweepRevisions } from '../../src/deployments/sweep.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
import { type RevisionStatus, revisionStatuses } from '../../src/protocol/parts.schema.ts'
import { getApp, newTenant, type Tenant, withClockAhead } from '../support/app.ts'
import { advanceRevisionTo, getPlatformAgent, imageConfig, minimalBody, newDeployment } from '../support/deployments.ts'
import { makeRepositoryConfig, newIntegration } from '../support/integrations.ts'

const hold = { since: '', revision_id: 'r', from_commit: null, until: 'released' as const }
const facts = { status: 'READY', hold: null, latest_revision_id: 'r', in_flight_revision_id: null, integration: null }
const codesOf = (over: Partial<Parameters<typeof listObstacles>[0]>, status: RevisionStatus = 'DEPLOYED') =>
  listObstacles({ ...facts, ...over }, [{ id: 'r', number: 1, status, status_message: null }]).map(one => one.code)

describe('the obstacles of a deployment', () => {
  const table: Record<RevisionStatus, string[]> = {
    CREATING: ['awaiting_artifact'],
    QUEUED: ['waiting_behind'],
    AWAITING_BUILD: ['in_progress'],
    BUILDING: ['in_progress'],
    AWAITING_DEPLOY: ['in_progress'],
    DEPLOYING: ['in_progress'],
    DEPLOYED: [],
    CREATE_FAILED: ['revision_failed'],
    BUILD_FAILED: ['revision_failed'],
    DEPLOY_FAILED: ['revision_failed'],
    SKIPPED: ['revision_skipped'],
    INTERRUPTED: ['revision_interrupted'],
    UNKNOWN: ['revision_unknown'],
  }
  it.each(revisionStatuses)('include the latest revision while it is %s', status => {
    expect(codesOf({}, status)).toEqual(table[status])
  })

  it('are listed in the order in which to resolve them', () => {
    expect(codesOf({ status: 'AWAITING_DATABASE', hold }, 'BUILD_FAILED')).toEqual([
      'awaiting_database',
      'revision_failed',
      'held_by_rollback',
    ])
    expect(codesOf({ status: 'UNKNOWN' })).toEqual(['listener_silent'])
    expect(codesOf({ healthy: false }, 'BUILDING')).toEqual(['in_progress', 'unhealthy'])
    expect(codesOf({ status: 'UNUSED', hold })).toEqual(['unused', 'held_by_rollback'])
    expect(codesOf({ status: 'AWAITING_DELETE', hold }, 'BUILD_FAILED')).toEqual(['deleting'])
    expect(codesOf({ hold, integration: 'suspended' })).toEqual(['held_by_rollback', 'integration_suspended'])
    expect(codesOf({ integration: 'active' })).toEqual([])
    expect(new Set(obstacleCodes).size).toBe(obstacleCodes.length)
  })
})

describe('explain', () => {
  const explain = async (tenant: Tenant, id: string) =>
    (await tenant.get(`/v2/deployments/${id}/explain`)).body.resources
  const codes = async (tenant: Tenant, id: string) =>
    (await explain(tenant, id)).map(({ code }: { code: string }) => code)

  it('follows a deployment through its rollout', async () => {
    const tenant = await newTenant()
    const { id, latest_revision_id } = await newDeployment(tenant)
    expect(await codes(tenant, id)).toEqual(['in_progress'])
    await tenant.post(`/v2/deployments/${id}/revisions`)
    const [waits] = await explain(tenant, id)
    expect(waits.code).toBe('waiting_behind')
    expect(waits.detail).toMatch(/2 .* 1\b.*AWAITING_BUILD/)
    const { id: second } = (await tenant.get(`/v2/deployments/${id}/revisions?limit=1`)).body.resources[0]
    await advanceRevisionTo(tenant, id, latest_revision_id, 'BUILD_FAILED', { message: 'image not found' })
    await advanceRevisionTo(tenant, id, second)
    expect(await codes(tenant, id)).toEqual([])
    await tenant.post(`/v2/deployments/${id}/rollback`, { revision_id: second })
    expect(await codes(tenant, id)).toEqual(['in_progress', 'held_by_rollback'])
    await tenant.delete(`/v2/deployments/${id}`)
    expect(await codes(tenant, id)).toEqual(['deleting'])
  })

  it('reports an integration that cannot reach the repository any more', async () => {
    const tenant = await newTenant()
    const integration_id = await newIntegration(tenant)
    const source_config = { ...(await makeRepositoryConfig(tenant)), integration_id }
    const { id, latest_revision_id } = await newDeployment(tenant, { source_config })
    await advanceRevisionTo(tenant, id, latest_revision_id)
    const { database } = getApp()
    for (const state of ['suspended', 'revoked']) {
      await runAsSystem(database, sql`update integrations set state = ${state} where id = ${integration_id}::uuid`)
      expect(await codes(tenant, id)).toEqual([`integration_${state}`])
    }
    await tenant.delete(`/v1/integrations/forge/githost/${integration_id}`)
    expect(await codes(tenant, id)).toEqual(['integration_gone'])
  })

  it('gives the reason that a revision failed', async () => {
    const tenant = await newTenant()
    const { id, latest_revision_id } = await newDeployment(tenant)
    await advanceRevisionTo(tenant, id, latest_revision_id, 'BUILD_FAILED', { message: 'image not found' })
    expect((await explain(tenant, id))[0].detail).toContain('image not found')
  })

  it('reports a missing artifact, a pending database and a deployment that is unused', async () => {
    const tenant = await newTenant()
    const waiting = await newDeployment(tenant, minimalBody)
    expect(await codes(tenant, waiting.id)).toEqual(['awaiting_artifact'])
    const spec = { resource_spec: { db_cpu: 1 } }
    const database = await newDeployment(tenant, { ...minimalBody, source_config: spec })
    expect(await codes(tenant, database.id)).toEqual(['awaiting_database', 'awaiting_artifact'])
    const { id, latest_revision_id } = await newDeployment(tenant, {
      ...minimalBody,
      source_revision_config: imageConfig,
    })
    const last_request_at = new Date().toISOString()
    await advanceRevisionTo(tenant, id, latest_revision_id, 'DEPLOYED', { last_request_at })
    const agent = await getPlatformAgent()
    await withClockAhead(UNUSED_AFTER + 1000, async () => {
      await agent.poll()
      await sweepRevisions(getApp())
    })
    expect(await codes(tenant, id)).toEqual(['unused'])
  })
})
