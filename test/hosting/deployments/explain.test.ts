import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { listObstacles } from '../../../src/hosting/deployments/explain.ts'
import { UNUSED_AFTER } from '../../../src/hosting/deployments/lifecycle.ts'
import { obstacleCodes } from '../../../src/hosting/deployments/revisions.schema.ts'
import { sweepRevisions } from '../../../src/hosting/deployments/sweep.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { type RevisionStatus, revisionStatuses } from '../../../src/protocol/parts.schema.ts'
import { getApp, newTenant, type Tenant, withClockAhead } from '../../support/app.ts'
import {
  advanceRevisionTo,
  getPlatformAgent,
  imageConfig,
  minimalBody,
  newDeployment,
} from '../../support/deployments.ts'
import { makeRepositoryConfig, newIntegration } from '../../support/integrations.ts'

const hold = { since: '', revision_id: 'r', from_commit: null, until: 'released' as const }
const facts = {
  status: 'READY',
  hold: null,
  latest_revision_id: 'r',
  in_flight_revision_id: null,
  active_revision_id: null,
  listener_id: null,
  integrationId: null,
  integration: null,
}
const listCodes = (over: Partial<Parameters<typeof listObstacles>[0]>, status: RevisionStatus = 'DEPLOYED') =>
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
    expect(listCodes({}, status)).toEqual(table[status])
  })

  it('are listed in the order in which to resolve them', () => {
    expect(listCodes({ status: 'AWAITING_DATABASE', hold }, 'BUILD_FAILED')).toEqual([
      'awaiting_database',
      'revision_failed',
      'held_by_rollback',
    ])
    expect(listCodes({ status: 'UNKNOWN' })).toEqual(['listener_silent'])
    expect(listCodes({ healthy: false }, 'BUILDING')).toEqual(['unhealthy', 'in_progress'])
    expect(listCodes({ status: 'UNUSED', hold })).toEqual(['unused', 'held_by_rollback'])
    expect(listCodes({ status: 'AWAITING_DELETE', hold }, 'BUILD_FAILED')).toEqual(['deleting'])
    expect(listCodes({ hold, integration: 'suspended' })).toEqual(['held_by_rollback', 'integration_suspended'])
    expect(listCodes({ integration: 'active' })).toEqual([])
    expect(new Set(obstacleCodes).size).toBe(obstacleCodes.length)
  })
})

describe('the remedies of an obstacle', () => {
  const remediesOf = (over: Partial<Parameters<typeof listObstacles>[0]>, status: RevisionStatus) =>
    listObstacles({ ...facts, ...over }, [
      { id: 'r', number: 2, status, status_message: null },
      { id: 'q', number: 1, status: 'BUILDING', status_message: null },
    ])[0]

  it('name the revision to act on, which is another one where the latest waits', () => {
    expect(remediesOf({ in_flight_revision_id: 'q' }, 'QUEUED')).toMatchObject({
      code: 'waiting_behind',
      revision_id: 'r',
      listener_id: null,
      remedies: [{ action: 'interrupt', revision_id: 'q' }],
    })
  })

  it('leave out what has no object: a comparison before anything served, a listener that is not assigned', () => {
    const actions = (over: Partial<Parameters<typeof listObstacles>[0]>, status: RevisionStatus) =>
      remediesOf(over, status)!.remedies.map(({ action }) => action)
    expect(actions({}, 'BUILD_FAILED')).toEqual(['view_logs', 'edit_environment', 'redeploy'])
    expect(actions({ active_revision_id: 'q' }, 'BUILD_FAILED')).toContain('compare')
    expect(actions({}, 'UNKNOWN')).toEqual(['redeploy'])
    expect(actions({ listener_id: 'l' }, 'UNKNOWN')).toEqual(['open_listener', 'redeploy'])
  })

  it('lead to the listener and to the integration that are in the way', () => {
    expect(remediesOf({ status: 'UNKNOWN', listener_id: 'l' }, 'DEPLOYED')).toMatchObject({ listener_id: 'l' })
    expect(remediesOf({ integration: 'revoked', integrationId: 'i' }, 'DEPLOYED')).toMatchObject({
      integration_id: 'i',
      remedies: [{ action: 'open_integration', revision_id: null }],
    })
  })
})

describe('explain', () => {
  const explain = async (tenant: Tenant, id: string) =>
    (await tenant.get(`/v2/deployments/${id}/explain`)).body.resources
  const readCodes = async (tenant: Tenant, id: string) =>
    (await explain(tenant, id)).map(({ code }: { code: string }) => code)

  it('reports the current obstacle at every step of a rollout, a rollback and a deletion', async () => {
    const tenant = await newTenant()
    const { id, latest_revision_id } = await newDeployment(tenant)
    expect(await readCodes(tenant, id)).toEqual(['in_progress'])
    await tenant.post(`/v2/deployments/${id}/revisions`)
    const [obstacle] = await explain(tenant, id)
    expect(obstacle.code).toBe('waiting_behind')
    expect(obstacle.detail).toMatch(/2 .* 1\b/)
    const { id: second } = (await tenant.get(`/v2/deployments/${id}/revisions?limit=1`)).body.resources[0]
    await advanceRevisionTo(tenant, id, latest_revision_id, 'BUILD_FAILED', { message: 'image not found' })
    await advanceRevisionTo(tenant, id, second)
    expect(await readCodes(tenant, id)).toEqual([])
    await tenant.post(`/v2/deployments/${id}/rollback`, { revision_id: second })
    expect(await readCodes(tenant, id)).toEqual(['in_progress', 'held_by_rollback'])
    await tenant.delete(`/v2/deployments/${id}`)
    expect(await readCodes(tenant, id)).toEqual(['deleting'])
  })

  it('reports an integration that is suspended, revoked or deleted', async () => {
    const tenant = await newTenant()
    const integration_id = await newIntegration(tenant)
    const source_config = { ...(await makeRepositoryConfig(tenant)), integration_id }
    const { id, latest_revision_id } = await newDeployment(tenant, { source_config })
    await advanceRevisionTo(tenant, id, latest_revision_id)
    const { database } = getApp()
    for (const state of ['suspended', 'revoked']) {
      await runAsSystem(database, sql`update integrations set state = ${state} where id = ${integration_id}::uuid`)
      expect(await readCodes(tenant, id)).toEqual([`integration_${state}`])
    }
    await tenant.delete(`/v1/integrations/forge/githost/${integration_id}`)
    expect(await readCodes(tenant, id)).toEqual(['integration_gone'])
  })

  it('reports the reason why a revision failed', async () => {
    const tenant = await newTenant()
    const { id, latest_revision_id } = await newDeployment(tenant)
    await advanceRevisionTo(tenant, id, latest_revision_id, 'BUILD_FAILED', { message: 'image not found' })
    expect((await explain(tenant, id))[0].detail).toContain('image not found')
  })

  it('reports a missing artifact, a pending database and an unused deployment', async () => {
    const tenant = await newTenant()
    const withoutArtifact = await newDeployment(tenant, minimalBody)
    expect(await readCodes(tenant, withoutArtifact.id)).toEqual(['awaiting_artifact'])
    const spec = { resource_spec: { db_cpu: 1 } }
    const withDatabase = await newDeployment(tenant, { ...minimalBody, source_config: spec })
    expect(await readCodes(tenant, withDatabase.id)).toEqual(['awaiting_database', 'awaiting_artifact'])
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
    expect(await readCodes(tenant, id)).toEqual(['unused'])
  })
})
