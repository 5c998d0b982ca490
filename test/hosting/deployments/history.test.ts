import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import type { DeploymentMoment, RevisionAtMoment } from '../../../src/hosting/deployments/history.schema.ts'
import type { Deployment, Revision } from '../../../src/hosting/deployments/schema.ts'
import { sweepRevisions } from '../../../src/hosting/deployments/sweep.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { clock, getApp, newTenant, type Tenant, unusedId, withClockAhead } from '../../support/app.ts'
import { getPlatformAgent, listRevisions, newDeployment, reportRevision } from '../../support/deployments.ts'
import * as fc from '../../support/seeded-fast-check.ts'

const MINUTE = 60_000
const now = () => new Date(Date.now() + clock.ahead).toISOString()
const isEnded = ({ status }: Revision) => /_FAILED|DEPLOYED|SKIPPED|INTERRUPTED/.test(status)
const isFlying = ({ status }: Revision) => /BUILD$|BUILDING|AWAITING_DEPLOY|DEPLOYING/.test(status)

const readState = async (tenant: Tenant, id: string, at?: string): Promise<DeploymentMoment> => {
  const { status, body } = await tenant.get(`/v2/deployments/${id}/state${at ? `?at=${at}` : ''}`)
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}
const report = async (tenant: Tenant, id: string, state: 'deployed' | 'failed' | 'building') => {
  const flying = (await listRevisions(tenant, id)).find(isFlying)
  if (flying) await reportRevision({ deployment_id: id, revision_id: flying.id }, state)
}
async function reportHealth(tenant: Tenant, id: string, healthy: boolean): Promise<void> {
  const { active_revision_id } = (await tenant.get(`/v2/deployments/${id}`)).body
  if (!active_revision_id) return
  await reportRevision({ deployment_id: id, revision_id: active_revision_id }, 'serving', { healthy })
  await sweepRevisions(getApp())
}

type Step = (tenant: Tenant, id: string, n: number) => Promise<unknown>
const STEPS: Record<string, Step> = {
  changeInPlace: (tenant, id, n) =>
    tenant.patch(`/v2/deployments/${id}`, { source_config: { build_on_push: n % 2 === 0 } }),
  changeUrl: (tenant, id, n) =>
    tenant.patch(`/v2/deployments/${id}`, { source_config: { custom_url: `https://host-${n}-${id}.example.test` } }),
  changeCommand: (tenant, id, n) =>
    tenant.patch(`/v2/deployments/${id}`, {
      source_config: { install_command: `npm ci ${n % 3}`, build_on_push: n % 3 === 0 },
    }),
  changeSecret: (tenant, id, n) =>
    tenant.patch(`/v2/deployments/${id}`, { secrets: [{ name: `NAME_${n % 2}`, value: `value ${n}` }] }),
  deployAgain: (tenant, id) => tenant.post(`/v2/deployments/${id}/revisions`),
  build: (tenant, id) => report(tenant, id, 'building'),
  deploy: (tenant, id) => report(tenant, id, 'deployed'),
  fail: (tenant, id) => report(tenant, id, 'failed'),
  interrupt: async (tenant, id) => {
    const open = (await listRevisions(tenant, id)).find(one => !isEnded(one))
    if (open) await tenant.post(`/v2/deployments/${id}/revisions/${open.id}/interruption`)
  },
  rollBack: async (tenant, id, n) => {
    const all = await listRevisions(tenant, id)
    await tenant.post(`/v2/deployments/${id}/rollback`, { revision_id: all[n % all.length]!.id })
  },
  release: (tenant, id) => tenant.delete(`/v2/deployments/${id}/hold`),
  becomeUnhealthy: (tenant, id) => reportHealth(tenant, id, false),
  becomeHealthy: (tenant, id) => reportHealth(tenant, id, true),
  loseListener: () => {
    clock.ahead += 6 * MINUTE
    return sweepRevisions(getApp())
  },
  hearListener: async () => {
    await (await getPlatformAgent()).poll()
    await sweepRevisions(getApp())
  },
}

/** The present state, in the form of the state at a moment. */
async function takeSnapshot(tenant: Tenant, id: string) {
  const deployment: Deployment = (await tenant.get(`/v2/deployments/${id}`)).body
  const revisions = await listRevisions(tenant, id)
  const find = (wanted: string | null) => {
    const found = revisions.find(revision => revision.id === wanted)
    return found ? [found.number, found.status] : null
  }
  const statement = sql`
    select in_flight_revision_id, waiting_revision_id, healthy::text
    from deployments
    where id = ${id}::uuid`
  const [[row]] = (await runAsSystem(getApp().database, statement)) as [[[string | null, string | null, string | null]]]
  const [inFlight, waiting, healthy] = row
  const { status, hold, url, source, source_config, secrets } = deployment
  return {
    status,
    hold,
    url,
    healthy: deployment.active_revision_id && healthy ? healthy === 'true' : null,
    latest: find(deployment.latest_revision_id),
    served: find(deployment.active_revision_id),
    in_flight: find(inFlight),
    waiting: find(waiting),
    wanted: { source, source_config, secrets: secrets.map(({ name }) => name) },
  }
}
function toSnapshot({ past }: DeploymentMoment): Awaited<ReturnType<typeof takeSnapshot>> {
  const { status, hold, url, healthy, wanted, unknown, ...revisions } = past!
  expect(unknown).toEqual([])
  const brief = (revision: RevisionAtMoment | null) => revision && [revision.number, revision.status!]
  return {
    status: status!,
    hold,
    url,
    healthy,
    latest: brief(revisions.latest),
    served: brief(revisions.served),
    in_flight: brief(revisions.in_flight),
    waiting: brief(revisions.waiting),
    wanted: {
      source: wanted!.source,
      source_config: wanted!.source_config,
      secrets: wanted!.secrets.map(({ name }) => name),
    },
  }
}

describe('the state of a deployment at a moment', () => {
  it('is what was shown at that moment, after any sequence of changes', async () => {
    const tenant = await newTenant()
    const steps = fc.array(fc.tuple(fc.constantFrom(...Object.keys(STEPS)), fc.nat(99)), {
      minLength: 8,
      maxLength: 14,
    })
    const property = fc.asyncProperty(steps, async sequence => {
      const started = clock.ahead
      try {
        await (await getPlatformAgent()).poll()
        const { id } = await newDeployment(tenant)
        const shown = [{ at: now(), step: 'create', state: await takeSnapshot(tenant, id) }]
        for (const [step, n] of sequence) {
          clock.ahead += MINUTE
          await STEPS[step]!(tenant, id, n)
          shown.push({ at: now(), step, state: await takeSnapshot(tenant, id) })
        }
        for (const { at, step, state } of shown)
          expect(toSnapshot(await readState(tenant, id, at)), `after ${step}`).toEqual(state)
      } finally {
        clock.ahead = started
      }
    })
    await fc.assert(property, { numRuns: 3, endOnFailure: true })
  })

  it('says what differs now, by member and by version of secrets', async () => {
    const tenant = await newTenant()
    const { id } = await newDeployment(tenant)
    const before = now()
    const custom_url = `https://now-${unusedId()}.example.test`
    await withClockAhead(MINUTE, () =>
      tenant.patch(`/v2/deployments/${id}`, { source_config: { custom_url }, secrets: [{ name: 'NEW', value: 'x' }] }),
    )
    const { past, present, changes } = await withClockAhead(2 * MINUTE, () => readState(tenant, id, before))
    expect([past!.latest!.number, present.latest!.number]).toEqual([1, 2])
    expect(changes).toContainEqual({ path: 'source_config.custom_url', before: null, after: custom_url })
    expect(changes).toContainEqual({ path: 'secrets.NEW', before: null, after: 2 })
  })

  it('is absent before the deployment was created, and present where no moment is given', async () => {
    const tenant = await newTenant()
    const { id } = await newDeployment(tenant)
    expect((await readState(tenant, id, '2020-01-01T00:00:00Z')).past).toBeNull()
    const { past, present } = await readState(tenant, id)
    expect(past).toEqual(present)
    const later = await readState(tenant, id, '2999-01-01T00:00:00Z')
    expect(Date.parse(later.at)).toBeLessThan(Date.parse('2999-01-01'))
    expect(later.past).toEqual(present)
  })

  it('names the members that it cannot tell where events are no longer kept', async () => {
    const tenant = await newTenant()
    const { id } = await newDeployment(tenant)
    const before = now()
    await withClockAhead(MINUTE, () =>
      tenant.patch(`/v2/deployments/${id}`, { source_config: { build_on_push: false } }),
    )
    await runAsSystem(
      getApp().database,
      sql`delete from events where scope_id = ${tenant.tenant_id}::uuid and created_at < now() + interval '30 seconds'`,
    )
    const { past, present } = await withClockAhead(2 * MINUTE, () => readState(tenant, id, before))
    expect(past!.unknown).toContain('wanted.source_config.build_on_push')
    expect(past!.wanted!.source_config.build_on_push).toBeNull()
    expect(past!.latest!.number).toBe(1)
    expect(present.unknown).toEqual([])
  })
})

it('deployments of a workspace are listed with their state at a moment and now, page by page', async () => {
  const tenant = await newTenant()
  const first = await newDeployment(tenant)
  await reportRevision({ deployment_id: first.id, revision_id: first.latest_revision_id }, 'deployed')
  const at = now()
  const second = await withClockAhead(MINUTE, async () => {
    await tenant.post(`/v2/deployments/${first.id}/revisions`)
    return newDeployment(tenant)
  })
  const list = async (query: string) => withClockAhead(2 * MINUTE, () => tenant.get(`/v2/deployment-states?${query}`))
  const { body } = await list(`at=${at}`)
  const brief = (one: { past: DeploymentMoment['past']; present: DeploymentMoment['present'] }) => [
    one.past && [one.past.served?.number ?? null, one.past.in_flight?.number ?? null],
    [one.present.served?.number ?? null, one.present.in_flight?.number ?? null],
  ]
  expect(body.resources.map((one: { deployment_id: string }) => one.deployment_id)).toEqual([second.id, first.id])
  expect(body.resources.map(brief)).toEqual([
    [null, [null, 1]],
    [
      [1, null],
      [1, 2],
    ],
  ])
  const page = await list(`at=${at}&limit=1`)
  const next = new URL(/<([^>]+)>/.exec(page.headers.get('Link')!)![1]!, 'https://slipway.test').searchParams
  const { body: rest } = await list(`at=${at}&limit=1&cursor=${next.get('cursor')}`)
  expect(rest.resources[0].deployment_id).toBe(first.id)
})

it('health is journaled once a minute, and only where it changed', async () => {
  const tenant = await newTenant()
  const { id, latest_revision_id } = await newDeployment(tenant)
  await reportRevision({ deployment_id: id, revision_id: latest_revision_id }, 'deployed')
  for (const healthy of [true, false, false, true]) await reportHealth(tenant, id, healthy)
  // It flaps between two looks of the schedule.
  for (const healthy of [false, true])
    await reportRevision({ deployment_id: id, revision_id: latest_revision_id }, 'serving', { healthy })
  await sweepRevisions(getApp())
  const { body } = await tenant.get(`/v2/events?subject_id=${id}&type=deployment.healthy,deployment.unhealthy`)
  const changesOf = (before: string, after: string) => [
    { path: 'health', before, after },
    { path: 'healthy', before: before === 'healthy', after: after === 'healthy' },
  ]
  expect(body.resources.map(({ type, changes }: { type: string; changes: unknown }) => [type, changes])).toEqual([
    ['deployment.unhealthy', changesOf('healthy', 'unhealthy')],
    ['deployment.healthy', changesOf('unhealthy', 'healthy')],
  ])
})
