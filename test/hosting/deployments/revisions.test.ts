import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { waitForRevision } from '../../../src/hosting/deployments/revision-wait.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { createKeylessCaller } from '../../../src/kernel/http/context.ts'
import { fail } from '../../../src/kernel/http/errors.ts'
import {
  getApp,
  getServices,
  newTenant,
  startApp,
  type Tenant,
  unusedId,
  withClockAhead,
  wrapTrips,
} from '../../support/app.ts'
import {
  advanceRevisionTo,
  imageConfig,
  listRevisions,
  listStatuses,
  minimalBody,
  newDeployment,
} from '../../support/deployments.ts'
import { makeRepositoryConfig } from '../../support/integrations.ts'

const commit = { sha: 'a'.repeat(40), message: 'First', author: 'Ada' }

/** Creates revision 1, which serves a commit, and revision 2, which differs in every restorable part. */
async function createTwoRevisions(tenant: Tenant) {
  const { id, latest_revision_id: first } = await newDeployment(tenant)
  const path = `/v2/deployments/${id}`
  await advanceRevisionTo(tenant, id, first, 'DEPLOYED', { commit })
  const before = (await tenant.get(path)).body
  const changed = await tenant.patch(path, {
    source_config: { resource_spec: { cpu: 2 }, install_command: 'npm ci', build_on_push: false },
    source_revision_config: { repo_ref: 'next' },
    secrets: [{ name: 'OTHER', value: 'new' }],
  })
  const second = changed.body.latest_revision_id
  return { id, path, first, second, before }
}

describe('a revision', () => {
  it('has the whole configuration of its time, and the versions of its secrets but not their values', async () => {
    const tenant = await newTenant()
    const { path, id, first, second, before } = await createTwoRevisions(tenant)
    const after = (await tenant.get(path)).body
    const { body } = await tenant.get(`${path}/revisions/${first}`)
    expect(body).toMatchObject({
      source_config: before.source_config,
      source_revision_config: { repo_ref: 'main' },
      secrets: [{ name: 'TOKEN', version: 1 }],
      secret_references: null,
    })
    expect((await tenant.get(`${path}/revisions/${second}`)).body).toMatchObject({
      source_config: after.source_config,
      source_revision_config: after.source_revision_config,
      secrets: [{ name: 'OTHER', version: 2 }],
    })
    expect((await listRevisions(tenant, id))[1]).toEqual(body)
  })

  it('lists each state that it was in and for how long, whichever caller moved it', async () => {
    const tenant = await newTenant()
    const { id, latest_revision_id } = await newDeployment(tenant)
    const path = `/v2/deployments/${id}`
    const move = (ahead: number, status: 'BUILDING' | 'AWAITING_DEPLOY' | 'DEPLOYING') =>
      withClockAhead(ahead, () => advanceRevisionTo(tenant, id, latest_revision_id, status))
    await move(600_000, 'BUILDING')
    await move(900_000, 'AWAITING_DEPLOY')
    await move(1_000_000, 'DEPLOYING')
    const { id: waiting } = (await tenant.post(`${path}/revisions`)).body
    const { id: last } = (await withClockAhead(1_200_000, () => tenant.post(`${path}/revisions`))).body
    await withClockAhead(1_300_000, () => tenant.post(`${path}/revisions/${latest_revision_id}/interruption`))
    const statesOf = async (revision: string) => {
      const { body } = await tenant.get(`${path}/revisions/${revision}`)
      const states = body.states as { status: string; since: string; seconds: number | null }[]
      expect(states[0]!.since).toBe(body.created_at)
      for (const [i, { since, seconds }] of states.entries())
        if (seconds !== null)
          expect(Date.parse(states[i + 1]!.since) - Date.parse(since)).toBeCloseTo(seconds * 1000, 3)
      // The test itself takes a few seconds.
      return states.map(({ status, seconds }) => [status, seconds === null ? null : 100 * Math.floor(seconds / 100)])
    }
    expect(await statesOf(latest_revision_id)).toEqual([
      ['AWAITING_BUILD', 600],
      ['BUILDING', 300],
      ['AWAITING_DEPLOY', 100],
      ['DEPLOYING', 300],
      ['INTERRUPTED', null],
    ])
    expect(await statesOf(waiting)).toEqual([
      ['QUEUED', 1200],
      ['SKIPPED', null],
    ])
    expect(await statesOf(last)).toEqual([
      ['QUEUED', 100],
      ['AWAITING_BUILD', null],
    ])
  })

  it('whose states were not recorded yet tells the current one, and from then on each next one', async () => {
    const tenant = await newTenant()
    const { id, latest_revision_id } = await newDeployment(tenant)
    await runAsSystem(getApp().database, sql`update revisions set states = null where id = ${latest_revision_id}::uuid`)
    const readStates = async () =>
      (await tenant.get(`/v2/deployments/${id}/revisions/${latest_revision_id}`)).body.states.map(
        (state: { status: string; seconds: number | null }) => [state.status, state.seconds !== null],
      )
    expect(await readStates()).toEqual([['AWAITING_BUILD', false]])
    await advanceRevisionTo(tenant, id, latest_revision_id, 'BUILDING')
    expect(await readStates()).toEqual([
      ['AWAITING_BUILD', true],
      ['BUILDING', false],
    ])
  })
})

describe('a requested revision', () => {
  it('is created from the current configuration', async () => {
    const tenant = await newTenant()
    const { id, source_revision_config } = await newDeployment(tenant)
    const reply = await tenant.post(`/v2/deployments/${id}/revisions`)
    expect(reply.status).toBe(201)
    expect(reply.headers.get('Location')).toBe(`/v2/deployments/${id}/revisions/${reply.body.id}`)
    expect(reply.body).toMatchObject({ number: 2, status: 'QUEUED', reasons: ['requested'], source_revision_config })
    expect((await tenant.get(`/v2/deployments/${id}`)).body.latest_revision_id).toBe(reply.body.id)
    await tenant.post(`/v2/deployments/${id}/revisions`)
    expect(await listStatuses(tenant, id)).toEqual([
      [3, 'QUEUED'],
      [2, 'SKIPPED'],
      [1, 'AWAITING_BUILD'],
    ])
  })

  it('is created once under an idempotency key', async () => {
    const tenant = await newTenant()
    const { id } = await newDeployment(tenant)
    const requestRevision = () =>
      tenant.post(`/v2/deployments/${id}/revisions`, undefined, { 'Idempotency-Key': 'once' })
    expect((await requestRevision()).body).toEqual((await requestRevision()).body)
    expect(await listRevisions(tenant, id)).toHaveLength(2)
  })

  it('waits for its artifact if that is missing', async () => {
    const tenant = await newTenant()
    const { id } = await newDeployment(tenant, minimalBody)
    expect((await tenant.post(`/v2/deployments/${id}/revisions`)).body.status).toBe('CREATING')
    expect(await listStatuses(tenant, id)).toEqual([
      [2, 'CREATING'],
      [1, 'SKIPPED'],
    ])
    await tenant.patch(`/v2/deployments/${id}`, { source_revision_config: imageConfig })
    expect((await listRevisions(tenant, id))[0]!.status).toBe('AWAITING_DEPLOY')
  })

  it('with the current configuration has a plan, which is refused when the deployment has changed since', async () => {
    const tenant = await newTenant()
    const { id } = await newDeployment(tenant)
    const path = `/v2/deployments/${id}`
    const { body: plan } = await tenant.post(`${path}/revisions?dry_run=true`)
    expect(plan).toMatchObject({ creates_revision: true, reasons: ['requested'], changes: [], secrets: [] })
    expect(await listRevisions(tenant, id)).toHaveLength(1)
    const apply = () => tenant.post(`${path}/revisions`, undefined, { 'Plan-Digest': plan.plan_digest })
    expect((await apply()).status).toBe(201)
    expect((await apply()).body.code).toBe('plan_stale')
  })

  it('is refused for a deployment that is being deleted or does not exist', async () => {
    const tenant = await newTenant()
    const { id, latest_revision_id } = await newDeployment(tenant)
    await tenant.delete(`/v2/deployments/${id}`)
    const path = `/v2/deployments/${id}`
    for (const request of [
      tenant.post(`${path}/revisions`),
      tenant.post(`${path}/revisions/${latest_revision_id}/redeploy`),
      tenant.post(`${path}/rollback`, { revision_id: latest_revision_id }),
    ])
      expect((await request).body.code).toBe('deployment_deleting')
    expect((await tenant.post(`/v2/deployments/${unusedId()}/revisions`)).body.code).toBe('deployment_not_found')
  })
})

describe.each(['redeploy', 'rollback'] as const)('a %s', kind => {
  const restore = (tenant: Tenant, path: string, revision_id: string, query = '', headers = {}) =>
    kind === 'redeploy'
      ? tenant.post(`${path}/revisions/${revision_id}/redeploy${query}`, undefined, headers)
      : tenant.post(`${path}/rollback${query}`, { revision_id }, headers)

  it('creates a revision with the commit, configuration and secrets of the old one, as its plan shows', async () => {
    const tenant = await newTenant()
    const { path, id, first, before } = await createTwoRevisions(tenant)
    const plan = (await restore(tenant, path, first, '?dry_run=true')).body
    const changes = plan.changes as { path: string }[]
    expect(changes.map(one => one.path).sort()).toEqual([
      'secrets',
      'source_config.install_command',
      'source_config.resource_spec.cpu',
      'source_revision_config.repo_commit_sha',
      'source_revision_config.repo_ref',
    ])
    expect(await listRevisions(tenant, id)).toHaveLength(2)
    const reply = await restore(tenant, path, first, '', { 'Plan-Digest': plan.plan_digest })
    expect(reply.status).toBe(200)
    // `build_on_push` belongs to the deployment, not to a revision.
    expect(reply.body.source_config).toEqual({ ...before.source_config, build_on_push: false })
    expect(reply.body.source_revision_config).toEqual({ ...before.source_revision_config, repo_commit_sha: commit.sha })
    expect(reply.body.secrets).toEqual(before.secrets)
    const [restored] = await listRevisions(tenant, id)
    expect(restored).toMatchObject({
      number: 3,
      status: 'QUEUED',
      from_revision_id: first,
      commit,
      reasons: plan.reasons,
    })
    expect(reply.body.hold === null).toBe(kind === 'redeploy')
    const nextPlan = (await restore(tenant, path, first, '?dry_run=true')).body
    expect(nextPlan.changes).toEqual([])
  })

  it('is refused if Plan-Digest or If-Match is outdated', async () => {
    const tenant = await newTenant()
    const { path, first, second } = await createTwoRevisions(tenant)
    const { plan_digest } = (await restore(tenant, path, first, '?dry_run=true')).body
    expect((await restore(tenant, path, second, '', { 'Plan-Digest': plan_digest })).body.code).toBe('plan_stale')
    await tenant.patch(path, { source_config: { build_on_push: true } })
    expect((await restore(tenant, path, first, '', { 'Plan-Digest': plan_digest })).body.code).toBe('plan_stale')
    expect((await restore(tenant, path, first, '', { 'If-Match': '"1"' })).status).toBe(412)
  })

  it('to a revision of another deployment is refused', async () => {
    const tenant = await newTenant()
    const { path } = await createTwoRevisions(tenant)
    const { latest_revision_id } = await newDeployment(tenant)
    for (const query of ['', '?dry_run=true'])
      expect((await restore(tenant, path, latest_revision_id, query)).body.code).toBe('revision_not_found')
  })

  it('to a tag is refused while build_on_push is on', async () => {
    const tenant = await newTenant()
    const { id, latest_revision_id } = await newDeployment(tenant, {
      source_config: await makeRepositoryConfig(tenant),
      source_revision_config: { repo_ref: 'refs/tags/v1', platform_config_path: 'p.json' },
    })
    const path = `/v2/deployments/${id}`
    await tenant.patch(path, { source_config: { build_on_push: true }, source_revision_config: { repo_ref: 'main' } })
    expect((await restore(tenant, path, latest_revision_id)).body.code).toBe('source_rule')
  })
})

it('a redeploy does not restore a custom URL that was cleared since', async () => {
  const tenant = await newTenant({ app: startApp({ settings: { SLIPWAY_MODE: 'self_hosted' } }) })
  const { id, latest_revision_id } = await newDeployment(tenant, {
    source: 'external_container',
    source_config: { resource_spec: {}, custom_url: 'https://app.example.com' },
    source_revision_config: imageConfig,
    secrets: [],
  })
  const path = `/v2/deployments/${id}`
  expect((await tenant.patch(`${path}?clear=custom_url`, {})).body.source_config.custom_url).toBeNull()
  const { body } = await tenant.post(`${path}/revisions/${latest_revision_id}/redeploy`)
  expect(body.source_config.custom_url).toBeNull()
})

describe('the hold of a rollback', () => {
  it.each([
    [undefined, 'released'],
    [null, 'released'],
    [false, 'released'],
    [true, 'newer_commit'],
  ])('with release_on_newer_commit %s lasts until %s, and names the commit before', async (flag, until) => {
    const tenant = await newTenant()
    const { path, id, first, second } = await createTwoRevisions(tenant)
    const rolledBack = { sha: 'b'.repeat(40), message: null, author: null }
    await advanceRevisionTo(tenant, id, second, 'BUILDING', { commit: rolledBack })
    const { body } = await tenant.post(`${path}/rollback`, { revision_id: first, release_on_newer_commit: flag })
    expect(body.hold).toEqual({
      since: expect.any(String),
      revision_id: body.latest_revision_id,
      from_commit: rolledBack.sha,
      until,
      reason: 'rolled_back',
    })
  })

  it('lasts through patches and redeploys until it is released', async () => {
    const tenant = await newTenant()
    const { path, first } = await createTwoRevisions(tenant)
    const { hold } = (await tenant.post(`${path}/rollback`, { revision_id: first })).body
    await tenant.patch(path, { source_revision_config: { repo_ref: 'x' } })
    expect((await tenant.post(`${path}/revisions/${first}/redeploy`)).body.hold).toEqual(hold)
    expect((await tenant.delete(`${path}/hold`)).status).toBe(204)
    expect((await tenant.get(path)).body.hold).toBeNull()
    const repeated = await tenant.delete(`${path}/hold`)
    expect([repeated.status, repeated.body.code]).toEqual([404, 'hold_not_found'])
  })
})

it('a ref that is sent after a redeploy is resolved again', async () => {
  const tenant = await newTenant()
  const { path, first } = await createTwoRevisions(tenant)
  await tenant.post(`${path}/revisions/${first}/redeploy`)
  const { body } = await tenant.patch(path, { source_revision_config: { repo_ref: 'main' } })
  expect(body.source_revision_config).toMatchObject({ repo_ref: 'main', repo_commit_sha: null })
})

it('revisions can be filtered by remote_reconciled, which means that they have ended', async () => {
  const tenant = await newTenant()
  const { id, path } = await createTwoRevisions(tenant)
  await tenant.post(`${path}/revisions`)
  const listNumbers = async (query: string) =>
    (await tenant.get(`/v2/deployments/${id}/revisions?${query}`)).body.resources.map(
      (one: { number: number }) => one.number,
    )
  expect(await listNumbers('remote_reconciled=true')).toEqual([1])
  expect(await listNumbers('remote_reconciled=False')).toEqual([3, 2])
  expect(await listNumbers('remote_reconciled=')).toEqual([3, 2, 1])
})

describe('waiting for a revision', () => {
  it('returns the current status at the timeout, or earlier when the revision ends', async () => {
    const tenant = await newTenant()
    const { id, latest_revision_id } = await newDeployment(tenant)
    const path = `/v2/deployments/${id}/revisions/${latest_revision_id}`
    for (const until of ['terminal', 'active'])
      expect((await tenant.get(`${path}/wait?until=${until}&timeout=0`)).body.status).toBe('AWAITING_BUILD')
    const waiting = tenant.get(`${path}/wait?timeout=20`)
    await tenant.post(`${path}/interruption`)
    expect((await waiting).body.status).toBe('INTERRUPTED')
    expect((await tenant.get(`${path}/wait?until=active`)).body.status).toBe('INTERRUPTED')
  })

  it('with until=active ends when the revision serves', async () => {
    const tenant = await newTenant()
    const { id, latest_revision_id } = await newDeployment(tenant)
    const waiting = tenant.get(`/v2/deployments/${id}/revisions/${latest_revision_id}/wait?until=active&timeout=20`)
    await advanceRevisionTo(tenant, id, latest_revision_id)
    expect((await waiting).body.status).toBe('DEPLOYED')
  })

  it('repeats a look that the database does not answer, until the timeout', async () => {
    const tenant = await newTenant()
    const { id: deployment_id, latest_revision_id: revision_id } = await newDeployment(tenant)
    const waitWith = (failingTrips: number[], timeout: number) => {
      let trip = 0
      const database = wrapTrips(
        getServices().database,
        act => statements =>
          failingTrips.includes(++trip) ? Promise.reject(fail('database_unavailable')) : act(statements),
      )
      const { organization_id: organization, tenant_id } = tenant
      const actor = { kind: 'cron' as const, id: null, organization, tenant: tenant_id }
      const caller = createKeylessCaller({ ...getServices(), database }, actor, 'wait', 'http://slipway.test')
      return waitForRevision(caller, { deployment_id, revision_id, until: 'terminal', timeout })
    }
    expect(await waitWith([1, 2], 1)).toMatchObject({ status: 'AWAITING_BUILD' })
    await expect(waitWith([1], 0)).rejects.toMatchObject({ code: 'database_unavailable' })
  })

  it.each(['timeout=61', 'timeout=-1', 'timeout=x', 'until=never'])('refuses %s', async query => {
    const tenant = await newTenant()
    const { id, latest_revision_id } = await newDeployment(tenant)
    expect((await tenant.get(`/v2/deployments/${id}/revisions/${latest_revision_id}/wait?${query}`)).status).toBe(422)
  })
})
