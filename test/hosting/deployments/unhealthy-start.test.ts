// A revision that is not healthy yet: its reason is shown while it deploys, and a newer one takes its place at once.
import { describe, expect, it } from 'vitest'
import { DEADLINES } from '../../../src/hosting/deployments/lifecycle.ts'
import { sweepRevisions } from '../../../src/hosting/deployments/sweep.ts'
import { getApp, newTenant, type Tenant, withClockAhead } from '../../support/app.ts'
import {
  advanceRevisionTo,
  expectCompleteJournal,
  listStatuses,
  newDeployment,
  readRevisionHistory,
  readRevisionQueue,
  reportRevision,
} from '../../support/deployments.ts'

const REASON = 'Not healthy yet: GET /health answers 500. It fails at 12:00:05 UTC unless it is healthy by then.'

async function newUnhealthyDeployment(tenant: Tenant, message: string | null = REASON) {
  const { id, latest_revision_id } = await newDeployment(tenant)
  const revision = { deployment_id: id, revision_id: latest_revision_id }
  await reportRevision(revision, 'deploying', { message })
  return { ...revision, path: `/v2/deployments/${id}` }
}

describe('the reason why a revision is not healthy yet', () => {
  it('is shown by the revision and by explain, changes with each report, and ends with the start', async () => {
    const tenant = await newTenant()
    const { path, ...revision } = await newUnhealthyDeployment(tenant, null)
    const read = async () => (await tenant.get(`${path}/revisions/${revision.revision_id}`)).body
    for (const message of [null, REASON, 'Not healthy yet: it ended with exit code 1.']) {
      await reportRevision(revision, 'deploying', { message })
      expect(await read()).toMatchObject({ status: 'DEPLOYING', status_message: message })
      const [obstacle] = (await tenant.get(`${path}/explain`)).body.resources
      expect(obstacle.code).toBe('in_progress')
      expect(obstacle.detail.includes(message ?? 'healthy')).toBe(message !== null)
    }
    await reportRevision(revision, 'deployed')
    expect(await read()).toMatchObject({ status: 'DEPLOYED', status_message: null })
    expect(await readRevisionHistory(revision.revision_id)).toEqual([
      'AWAITING_BUILD',
      'BUILDING',
      'AWAITING_DEPLOY',
      'DEPLOYING',
      'DEPLOYED',
    ])
  })

  it('does not postpone the deadline of the deploy', async () => {
    const tenant = await newTenant()
    const { path, ...revision } = await newUnhealthyDeployment(tenant)
    const { after } = DEADLINES.DEPLOYING!
    await withClockAhead(after - 1000, () => reportRevision(revision, 'deploying', { message: 'Still not healthy.' }))
    await withClockAhead(after + 1000, () => sweepRevisions(getApp()))
    const { status } = (await tenant.get(`${path}/revisions/${revision.revision_id}`)).body
    expect(status).toBe('DEPLOY_FAILED')
  })
})

describe('a new revision', () => {
  it('takes the place of one that is not healthy yet at once, and of the one that waits behind it', async () => {
    const tenant = await newTenant()
    const { path, ...first } = await newUnhealthyDeployment(tenant, null)
    await tenant.post(`${path}/revisions`)
    await reportRevision(first, 'deploying', { message: REASON })
    const third = (await tenant.post(`${path}/revisions`)).body
    expect(await listStatuses(tenant, first.deployment_id)).toEqual([
      [3, 'AWAITING_BUILD'],
      [2, 'SKIPPED'],
      [1, 'INTERRUPTED'],
    ])
    const { status_message } = (await tenant.get(`${path}/revisions/${first.revision_id}`)).body
    expect(status_message).toContain('revision 3')
    expect(await readRevisionQueue(first.deployment_id)).toMatchObject({ waiting: null, flying: 1, queued: 0 })
    expect((await reportRevision(first, 'deployed')).code).toBe('revision_ended')
    await advanceRevisionTo(tenant, first.deployment_id, third.id)
    await expectCompleteJournal(tenant, first.deployment_id)
  })

  it('waits behind one whose agent has told no reason', async () => {
    const tenant = await newTenant()
    const { path, deployment_id } = await newUnhealthyDeployment(tenant, null)
    await tenant.post(`${path}/revisions`)
    expect(await listStatuses(tenant, deployment_id)).toEqual([
      [2, 'QUEUED'],
      [1, 'DEPLOYING'],
    ])
  })

  it('without its archive leaves the one that is not healthy yet', async () => {
    const tenant = await newTenant()
    const { path, deployment_id } = await newUnhealthyDeployment(tenant)
    await tenant.patch(path, { revision_source: 'internal_source' })
    expect(await listStatuses(tenant, deployment_id)).toEqual([
      [2, 'CREATING'],
      [1, 'DEPLOYING'],
    ])
  })
})

describe('the revision that a deployment serves', () => {
  it('is no revision, then the latest, then the one before it', async () => {
    const tenant = await newTenant()
    const { id, latest_revision_id, serving } = await newDeployment(tenant)
    expect(serving).toBe('none')
    const read = async () => {
      const [deployment, explanation] = [`/v2/deployments/${id}`, `/v2/deployments/${id}/explain`].map(path =>
        tenant.get(path),
      )
      return [(await deployment!).body.serving, (await explanation!).body.serving]
    }
    await advanceRevisionTo(tenant, id, latest_revision_id)
    expect(await read()).toEqual(['current', 'current'])
    await tenant.post(`/v2/deployments/${id}/revisions`)
    expect(await read()).toEqual(['previous', 'previous'])
    const { resources } = (await tenant.get('/v2/deployments')).body
    expect(resources.map((one: { serving: string }) => one.serving)).toEqual(['previous'])
  })
})
