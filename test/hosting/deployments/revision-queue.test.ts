import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { DEADLINES } from '../../../src/hosting/deployments/lifecycle.ts'
import { sweepRevisions } from '../../../src/hosting/deployments/sweep.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { type RevisionStatus, revisionStatuses } from '../../../src/protocol/parts.schema.ts'
import { getApp, newTenant, readEvents, type Tenant, unusedId, withClockAhead } from '../../support/app.ts'
import {
  advanceRevisionTo,
  expectCompleteJournal,
  listRevisions,
  listStatuses,
  minimalBody,
  newDeployment,
  readRevisionHistory,
  readRevisionQueue,
  reportRevision,
} from '../../support/deployments.ts'
import { findReportPath, movingStates } from '../../support/report-path.ts'
import { canFollow } from '../../support/revision-steps.ts'

type RevisionIds = { deployment_id: string; revision_id: string }
/** Creates a revision in each status through the API, reports of agents, and the schedule. */
const REACH_STATUS: Record<RevisionStatus, (tenant: Tenant) => Promise<RevisionIds>> = {
  CREATING: tenant => createRevision(tenant, minimalBody),
  QUEUED: async tenant => {
    const { deployment_id } = await createRevision(tenant)
    const { body } = await tenant.post(`/v2/deployments/${deployment_id}/revisions`)
    return { deployment_id, revision_id: body.id }
  },
  AWAITING_BUILD: tenant => createRevision(tenant),
  BUILDING: tenant => createReported(tenant, 'BUILDING'),
  AWAITING_DEPLOY: tenant => createReported(tenant, 'AWAITING_DEPLOY'),
  DEPLOYING: tenant => createReported(tenant, 'DEPLOYING'),
  DEPLOYED: tenant => createReported(tenant, 'DEPLOYED'),
  CREATE_FAILED: async tenant => {
    const ids = await createRevision(tenant, minimalBody)
    await withClockAhead(DEADLINES.CREATING!.after + 1000, () => sweepRevisions(getApp()))
    return ids
  },
  BUILD_FAILED: tenant => createReported(tenant, 'BUILD_FAILED'),
  DEPLOY_FAILED: async tenant => {
    const ids = await createReported(tenant, 'AWAITING_DEPLOY')
    await advanceRevisionTo(tenant, ids.deployment_id, ids.revision_id, 'DEPLOY_FAILED')
    return ids
  },
  SKIPPED: async tenant => {
    const ids = await createRevision(tenant, minimalBody)
    await tenant.post(`/v2/deployments/${ids.deployment_id}/revisions`)
    return ids
  },
  INTERRUPTED: async tenant => {
    const ids = await createRevision(tenant)
    await tenant.post(`/v2/deployments/${ids.deployment_id}/revisions/${ids.revision_id}/interruption`)
    return ids
  },
  UNKNOWN: async tenant => {
    const ids = await createReported(tenant, 'DEPLOYING')
    await loseListener()
    return ids
  },
}
async function createRevision(tenant: Tenant, over = {}): Promise<RevisionIds> {
  const { id, latest_revision_id } = await newDeployment(tenant, over)
  return { deployment_id: id, revision_id: latest_revision_id }
}
async function createReported(tenant: Tenant, status: Parameters<typeof advanceRevisionTo>[3]) {
  const ids = await createRevision(tenant)
  await advanceRevisionTo(tenant, ids.deployment_id, ids.revision_id, status)
  return ids
}
/** The listener is silent until the deadline of the deploy has passed. */
const loseListener = () => withClockAhead(DEADLINES.DEPLOYING!.after + 1000, () => sweepRevisions(getApp()))
const statusOf = async (tenant: Tenant, ids: RevisionIds) =>
  (await tenant.get(`/v2/deployments/${ids.deployment_id}/revisions/${ids.revision_id}`)).body.status

describe.each(revisionStatuses)('a revision that is %s', from => {
  it('moves by the report of a state only if its lifecycle allows that', async () => {
    const tenant = await newTenant()
    /** A revision that a report has not moved is reported again. */
    let unmoved: RevisionIds | undefined
    for (const state of movingStates) {
      const ids = unmoved ?? (await REACH_STATUS[from](tenant))
      expect(await statusOf(tenant, ids), `before ${state}`).toBe(from)
      const path = await findReportPath(from, state)
      const refusal = ['CREATING', 'QUEUED'].includes(from)
        ? ['refused', 'revision_unknown']
        : ['stale', 'revision_ended']
      const { outcome, code } = await reportRevision(ids, state)
      expect([outcome, code], state).toEqual(path ? ['accepted', null] : refusal)
      expect(await statusOf(tenant, ids), `after ${state}`).toBe(path?.at(-1) ?? from)
      await expectCompleteJournal(tenant, ids.deployment_id)
      unmoved = path ? undefined : ids
    }
  })

  it('can be interrupted only if its lifecycle allows that', async () => {
    const tenant = await newTenant()
    const ids = await REACH_STATUS[from](tenant)
    const path = `/v2/deployments/${ids.deployment_id}/revisions/${ids.revision_id}`
    const reply = await tenant.post(`${path}/interruption`)
    const isAllowed = canFollow('githost', from, 'INTERRUPTED')
    expect([reply.status, reply.body?.code]).toEqual(isAllowed ? [204, undefined] : [409, 'revision_not_interruptible'])
    expect(await statusOf(tenant, ids)).toBe(isAllowed ? 'INTERRUPTED' : from)
    await expectCompleteJournal(tenant, ids.deployment_id)
  })
})

describe('the queue of revisions', () => {
  it.each(['DEPLOYED', 'BUILD_FAILED', 'DEPLOY_FAILED', 'INTERRUPTED', 'UNKNOWN'] as const)(
    'starts the waiting revision when the one in flight becomes %s',
    async end => {
      const tenant = await newTenant()
      const ids = await createRevision(tenant)
      const { id } = (await tenant.post(`/v2/deployments/${ids.deployment_id}/revisions`)).body
      const path = `/v2/deployments/${ids.deployment_id}/revisions/${ids.revision_id}`
      const advanceTo = (status: Parameters<typeof advanceRevisionTo>[3]) =>
        advanceRevisionTo(tenant, ids.deployment_id, ids.revision_id, status)
      if (end === 'DEPLOY_FAILED') await advanceTo('AWAITING_DEPLOY')
      if (end === 'INTERRUPTED') await tenant.post(`${path}/interruption`)
      else if (end === 'UNKNOWN') await advanceTo('DEPLOYING').then(loseListener)
      else await advanceTo(end)
      const [second, first] = await listRevisions(tenant, ids.deployment_id)
      expect([first!.status, second!.status]).toEqual([end, 'AWAITING_BUILD'])
      if (end !== 'DEPLOYED') expect(first!.status_message).toMatch(/\S/)
      expect(await readRevisionQueue(ids.deployment_id)).toEqual({
        inFlight: 'AWAITING_BUILD',
        waiting: null,
        flying: 1,
        queued: 0,
      })
      const { active_revision_id } = (await tenant.get(`/v2/deployments/${ids.deployment_id}`)).body
      expect(active_revision_id).toBe(end === 'DEPLOYED' ? ids.revision_id : null)
      await advanceRevisionTo(tenant, ids.deployment_id, id)
      expect(await readRevisionQueue(ids.deployment_id)).toEqual({
        inFlight: null,
        waiting: null,
        flying: 0,
        queued: 0,
      })
    },
  )

  it('is empty after the interruption of the waiting revision, and the one in flight continues', async () => {
    const tenant = await newTenant()
    const ids = await createRevision(tenant)
    const { id } = (await tenant.post(`/v2/deployments/${ids.deployment_id}/revisions`)).body
    await tenant.post(`/v2/deployments/${ids.deployment_id}/revisions/${id}/interruption`)
    expect(await readRevisionQueue(ids.deployment_id)).toEqual({
      inFlight: 'AWAITING_BUILD',
      waiting: null,
      flying: 1,
      queued: 0,
    })
  })

  it('keeps the serving revision when a newer one fails or an older one is reported late', async () => {
    const tenant = await newTenant()
    const ids = await createRevision(tenant)
    const path = `/v2/deployments/${ids.deployment_id}`
    const readServingId = async () => (await tenant.get(path)).body.active_revision_id
    await advanceRevisionTo(tenant, ids.deployment_id, ids.revision_id, 'DEPLOYING')
    await loseListener()
    const { id } = (await tenant.post(`${path}/revisions`)).body
    await advanceRevisionTo(tenant, ids.deployment_id, id)
    await advanceRevisionTo(tenant, ids.deployment_id, ids.revision_id)
    expect(await readServingId()).toBe(id)
    const third = (await tenant.post(`${path}/revisions`)).body.id
    await advanceRevisionTo(tenant, ids.deployment_id, third, 'BUILD_FAILED')
    expect(await readServingId()).toBe(id)
  })

  it('changes the ETag of the deployment when another revision serves', async () => {
    const tenant = await newTenant()
    const ids = await createRevision(tenant)
    const readEtag = async () => (await tenant.get(`/v2/deployments/${ids.deployment_id}`)).headers.get('ETag')
    const before = await readEtag()
    await advanceRevisionTo(tenant, ids.deployment_id, ids.revision_id, 'DEPLOYING')
    expect(await readEtag()).toBe(before)
    await advanceRevisionTo(tenant, ids.deployment_id, ids.revision_id)
    expect(await readEtag()).not.toBe(before)
  })

  it('has no revision of another deployment or another workspace', async () => {
    const [tenant, other] = await Promise.all([newTenant(), newTenant()])
    const [ids, second, foreign] = [
      await createRevision(tenant),
      await createRevision(tenant),
      await createRevision(other),
    ]
    const mixed = { deployment_id: second.deployment_id, revision_id: ids.revision_id }
    for (const { deployment_id, revision_id } of [mixed, foreign, { ...ids, revision_id: unusedId() }]) {
      const reply = await tenant.post(`/v2/deployments/${deployment_id}/revisions/${revision_id}/interruption`)
      expect([reply.status, reply.body.code]).toEqual([404, 'revision_not_found'])
    }
    expect(await reportRevision(mixed, 'building')).toMatchObject({ outcome: 'refused', code: 'revision_unknown' })
    expect(await statusOf(other, foreign)).toBe('AWAITING_BUILD')
  })

  it('journals each start, skip, interruption and activation in the write that causes it', async () => {
    const tenant = await newTenant()
    const { deployment_id, revision_id } = await createRevision(tenant)
    const path = `/v2/deployments/${deployment_id}`
    const readReplyEvents = async ({ headers }: { headers: Headers }) =>
      (await readEvents(headers.get('X-Request-Id')!)).map(({ type, subject_id }) => [type, subject_id])
    const second = await tenant.post(`${path}/revisions`)
    expect(await readReplyEvents(second)).toEqual([['revision.created', second.body.id]])
    const third = await tenant.patch(path, { source_revision_config: { repo_ref: 'next' } })
    expect(await readReplyEvents(third)).toEqual([
      ['deployment.patched', deployment_id],
      ['revision.created', third.body.latest_revision_id],
      ['revision.skipped', second.body.id],
    ])
    const [, , skipped] = await readEvents(third.headers.get('X-Request-Id')!)
    expect(JSON.parse(skipped!.changes as string)).toEqual([{ path: 'status', before: 'QUEUED', after: 'SKIPPED' }])
    const fourth = await tenant.post(`${path}/rollback`, { revision_id })
    expect((await readReplyEvents(fourth)).map(([type]) => type)).toEqual([
      'deployment.rolled_back',
      'revision.created',
      'revision.skipped',
    ])
    const interrupted = await tenant.post(`${path}/revisions/${revision_id}/interruption`)
    const newest = fourth.body.latest_revision_id
    expect(await readReplyEvents(interrupted)).toEqual([
      ['revision.interrupted', revision_id],
      ['revision.awaiting_build', newest],
    ])
    expect(await readRevisionHistory(newest)).toEqual(['QUEUED', 'AWAITING_BUILD'])
    await advanceRevisionTo(tenant, deployment_id, newest)
    const activated = sql`
      select data ->> 'revision_id'
      from events
      where subject_id = ${deployment_id}::uuid and type = 'deployment.activated'`
    expect(await runAsSystem(getApp().database, activated)).toEqual([[[newest]]])
  })

  it('journals an interruption as an event of the revision', async () => {
    const tenant = await newTenant()
    const ids = await createRevision(tenant)
    const { headers } = await tenant.post(
      `/v2/deployments/${ids.deployment_id}/revisions/${ids.revision_id}/interruption`,
    )
    expect(await readEvents(headers.get('X-Request-Id')!)).toMatchObject([
      { type: 'revision.interrupted', subject_id: ids.revision_id },
    ])
  })

  it('has at most one revision in flight and no gaps in numbers under eight concurrent writers', async () => {
    const tenant = await newTenant()
    const { deployment_id, revision_id } = await createRevision(tenant)
    const path = `/v2/deployments/${deployment_id}`
    let createdCount = 1
    const countCreated = ({ status }: { status: number }) => {
      expect([200, 201]).toContain(status)
      createdCount++
    }
    const interrupt = async () => {
      const { status } = await tenant.post(`${path}/revisions/${(await readNewest()).id}/interruption`)
      expect([204, 409]).toContain(status)
    }
    const readNewest = async () => (await tenant.get(`${path}/revisions?limit=1`)).body.resources[0]
    const reportInFlight = async () => {
      const statuses = 'AWAITING_BUILD,BUILDING,AWAITING_DEPLOY,DEPLOYING'
      const { resources } = (await tenant.get(`${path}/revisions?status=${statuses}`)).body
      expect(resources.length).toBeLessThan(2)
      if (!resources[0]) return
      const { id, status } = resources[0]
      const { outcome } = await reportRevision(
        { deployment_id, revision_id: id },
        status === 'AWAITING_BUILD' ? 'building' : 'failed',
      )
      expect(['accepted', 'stale']).toContain(outcome)
    }
    const actions = [
      async (i: number) => countCreated(await tenant.patch(path, { source_revision_config: { repo_ref: `b-${i}` } })),
      async () => countCreated(await tenant.post(`${path}/revisions/${revision_id}/redeploy`)),
      async () => countCreated(await tenant.post(`${path}/revisions`)),
      interrupt,
      reportInFlight,
      async () => countCreated(await tenant.post(`${path}/rollback`, { revision_id })),
    ]
    const actRepeatedly = async (n: number) => {
      for (let i = 0; i < 12; i++) await actions[(n + i) % actions.length]!(n * 100 + i)
    }
    await Promise.all(Array.from({ length: 8 }, (_, n) => actRepeatedly(n)))
    const all = await listRevisions(tenant, deployment_id)
    expect(all.map(one => one.number).sort((a, b) => a - b)).toEqual(
      Array.from({ length: createdCount }, (_, i) => i + 1),
    )
    const queue = await readRevisionQueue(deployment_id)
    expect(queue.flying).toBe(queue.inFlight === null ? 0 : 1)
    expect(queue.queued).toBe(queue.waiting === null ? 0 : 1)
    expect(queue.flying).toBeGreaterThanOrEqual(queue.queued)
    expect(
      (await listStatuses(tenant, deployment_id)).filter(([, status]) => status === 'SKIPPED').length,
    ).toBeGreaterThan(0)
    await expectCompleteJournal(tenant, deployment_id)
  })
})
