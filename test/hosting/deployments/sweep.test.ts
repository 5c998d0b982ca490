import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { DEADLINES, UNUSED_AFTER } from '../../../src/hosting/deployments/lifecycle.ts'
import { sweepRevisions } from '../../../src/hosting/deployments/sweep.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { getApp, newTenant, type Tenant, withClockAhead } from '../../support/app.ts'
import {
  advanceRevisionTo,
  expectCompleteJournal,
  getPlatformAgent,
  imageConfig,
  listRevisions,
  minimalBody,
  newDeployment,
  readRevisionQueue,
} from '../../support/deployments.ts'

/** Polls first, because the deployments of a silent listener become UNKNOWN. */
const sweep = (ahead: number, times = 1) =>
  withClockAhead(ahead, async () => {
    await (await getPlatformAgent()).poll()
    await Promise.all(Array.from({ length: times }, () => sweepRevisions(getApp())))
  })
/** No agent serves deployments without a listener. */
const sweepWithoutAgent = (ahead: number) => withClockAhead(ahead, () => sweepRevisions(getApp()))
async function readJournal({ tenant_id }: Tenant) {
  const query = sql`
    select seq, type, subject_id, actor_kind
    from events
    where scope_id = ${tenant_id}::uuid
    order by seq`
  const [rows] = await runAsSystem(getApp().database, query)
  return (rows as string[][]).map(([seq, type, subject, actor]) => ({ seq: Number(seq), type, subject, actor }))
}

describe('a revision past its deadline', () => {
  it.each(Object.entries(DEADLINES))(
    'in %s fails with a reason, and the waiting revision starts',
    async (state, deadline) => {
      const tenant = await newTenant()
      const { id, latest_revision_id } = await newDeployment(tenant, state === 'CREATING' ? minimalBody : {})
      if (!['CREATING', 'AWAITING_BUILD'].includes(state))
        await advanceRevisionTo(tenant, id, latest_revision_id, state as 'BUILDING')
      if (state !== 'CREATING') await tenant.post(`/v2/deployments/${id}/revisions`)
      const readStatuses = async () => (await listRevisions(tenant, id)).map(one => [one.status, one.status_message])
      await sweep(deadline.after - 30_000)
      expect((await readStatuses()).at(-1)).toEqual([state, null])
      await sweep(deadline.after + 1000)
      expect((await readStatuses()).at(-1)).toEqual([deadline.becomes, deadline.message])
      const isCreating = state === 'CREATING'
      expect(await readRevisionQueue(id)).toEqual({
        inFlight: isCreating ? null : 'AWAITING_BUILD',
        waiting: null,
        flying: isCreating ? 0 : 1,
        queued: 0,
      })
      const journal = await readJournal(tenant)
      expect(journal.map(one => one.seq)).toEqual(journal.map((_, i) => i + journal[0]!.seq))
      const [failed] = journal.filter(one => one.type === `revision.${deadline.becomes.toLowerCase()}`)
      expect(failed).toMatchObject({ subject: latest_revision_id, actor: 'cron' })
      const startActors = journal.filter(one => one.type === 'revision.awaiting_build').map(one => one.actor)
      expect(startActors).toEqual(isCreating ? [] : ['cron'])
      await expectCompleteJournal(tenant, id)
    },
  )

  it('fails by the deadline of its current status, which begins with that status', async () => {
    const tenant = await newTenant()
    const { id, latest_revision_id } = await newDeployment(tenant)
    await withClockAhead(9 * 60_000, () => advanceRevisionTo(tenant, id, latest_revision_id, 'BUILDING'))
    await sweep(38 * 60_000)
    expect((await listRevisions(tenant, id))[0]!.status).toBe('BUILDING')
    await sweep(40 * 60_000)
    expect((await listRevisions(tenant, id))[0]!.status).toBe('BUILD_FAILED')
  })

  it('starts the waiting revision, whose deadline begins then', async () => {
    const tenant = await newTenant()
    const { id } = await newDeployment(tenant)
    await tenant.post(`/v2/deployments/${id}/revisions`)
    await sweep(11 * 60_000)
    await sweep(12 * 60_000)
    expect((await listRevisions(tenant, id)).map(one => one.status)).toEqual(['AWAITING_BUILD', 'BUILD_FAILED'])
  })

  it('fails in many workspaces at once, each with an event in its own journal', async () => {
    const tenants = await Promise.all([1, 2, 3].map(() => newTenant()))
    const deployments = await Promise.all(
      tenants.flatMap(tenant => [1, 2, 3].map(async () => [tenant, (await newDeployment(tenant)).id] as const)),
    )
    await sweep(11 * 60_000, 2)
    await sweep(11 * 60_000)
    for (const [tenant, id] of deployments) expect((await listRevisions(tenant, id))[0]!.status).toBe('BUILD_FAILED')
    for (const tenant of tenants) {
      const journal = await readJournal(tenant)
      expect(journal.filter(one => one.type === 'revision.build_failed')).toHaveLength(3)
      expect(journal.map(one => one.seq)).toEqual(journal.map((_, i) => i + journal[0]!.seq))
    }
  })
})

describe('an idle deployment', () => {
  const createServing = async (tenant: Tenant) => {
    const { id } = await newDeployment(tenant, { ...minimalBody, source_revision_config: imageConfig })
    const revision_id = (await listRevisions(tenant, id))[0]!.id
    await advanceRevisionTo(tenant, id, revision_id, 'DEPLOYED', { last_request_at: new Date().toISOString() })
    return id
  }
  const statusOf = async (tenant: Tenant, id: string) => (await tenant.get(`/v2/deployments/${id}`)).body.status

  it('becomes UNUSED after 28 days, and READY again when it changes', async () => {
    const tenant = await newTenant()
    const id = await createServing(tenant)
    await sweep(UNUSED_AFTER - 60_000)
    expect(await statusOf(tenant, id)).toBe('READY')
    await sweep(UNUSED_AFTER + 1000)
    expect(await statusOf(tenant, id)).toBe('UNUSED')
    expect((await readJournal(tenant)).filter(one => one.type === 'deployment.unused')).toHaveLength(1)
    await sweep(UNUSED_AFTER + 2000)
    expect((await readJournal(tenant)).filter(one => one.type === 'deployment.unused')).toHaveLength(1)
    await tenant.post(`/v2/deployments/${id}/revisions`)
    expect(await statusOf(tenant, id)).toBe('READY')
    expect((await readJournal(tenant)).map(one => one.type).slice(-3)).toEqual([
      'deployment.unused',
      'revision.created',
      'deployment.ready',
    ])
  })

  it('whose revision fails in a sweep becomes UNUSED in the next sweep', async () => {
    const tenant = await newTenant()
    const { id } = await newDeployment(tenant, minimalBody)
    await sweep(UNUSED_AFTER + 1000)
    expect([(await listRevisions(tenant, id))[0]!.status, await statusOf(tenant, id)]).toEqual([
      'CREATE_FAILED',
      'READY',
    ])
    await sweep(UNUSED_AFTER + 1000)
    expect(await statusOf(tenant, id)).toBe('UNUSED')
    await expectCompleteJournal(tenant, id)
  })

  it('is journaled once and without gaps by concurrent sweeps that also fail revisions', async () => {
    const tenants = await Promise.all([1, 2, 3].map(() => newTenant()))
    const idle = await Promise.all(tenants.map(async tenant => [tenant, await createServing(tenant)] as const))
    const failing = await Promise.all(tenants.map(tenant => newDeployment(tenant)))
    await sweep(UNUSED_AFTER + 1000, 3)
    for (const [i, [tenant, id]] of idle.entries()) {
      expect(await statusOf(tenant, id)).toBe('UNUSED')
      const journal = await readJournal(tenant)
      const subjects = (type: string) => journal.filter(one => one.type === type).map(one => one.subject)
      expect(subjects('deployment.unused').filter(one => one === id)).toEqual([id])
      expect(subjects('revision.build_failed')).toEqual([failing[i]!.latest_revision_id])
      expect(journal.map(one => one.seq)).toEqual(journal.map((_, i) => i + journal[0]!.seq))
    }
  })

  it('that is being deleted is removed after ten minutes if no listener has served it', async () => {
    const tenant = await newTenant()
    const { id } = await newDeployment(tenant, { ...minimalBody, source_revision_config: imageConfig })
    await tenant.delete(`/v2/deployments/${id}`)
    await sweepWithoutAgent(9 * 60_000)
    expect(await statusOf(tenant, id)).toBe('AWAITING_DELETE')
    await sweepWithoutAgent(11 * 60_000)
    expect((await tenant.get(`/v2/deployments/${id}`)).status).toBe(404)
    expect((await readJournal(tenant)).at(-1)).toMatchObject({ type: 'deployment.removed', subject: id, actor: 'cron' })
  })
})

it('the housekeeping does not fail a revision before its deadline', async () => {
  const tenant = await newTenant()
  const { id } = await newDeployment(tenant)
  await getApp().housekeep()
  expect((await listRevisions(tenant, id))[0]!.status).toBe('AWAITING_BUILD')
})
