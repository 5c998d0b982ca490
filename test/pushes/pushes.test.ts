import { sql } from 'drizzle-orm'
import { beforeEach, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../src/kernel/db.ts'
import { finishPendingWork } from '../../src/kernel/wait-until.ts'
import { getApp, newTenant } from '../support/app.ts'
import { advanceRevisionTo, expectCompleteJournal, listRevisions } from '../support/deployments.ts'
import {
  deliver,
  deliverAndSettle,
  newRepository,
  newRepositoryDeployment,
  newSha,
  serveRepositories,
  sweepDeliveriesAfter,
} from '../support/pushes.ts'

beforeEach(() => serveRepositories())

describe('a push', () => {
  it('creates one revision of the ref’s head, with author, message and the name of the person who pushed', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    const push = repository.push()
    const reply = await deliverAndSettle(repository.integrations[0]!, push)
    expect(reply.status).toBe(202)
    const sha = repository.refs.get('refs/heads/main')!
    const [newest, first] = await listRevisions(tenant, id)
    expect(newest).toMatchObject({
      number: 2,
      status: 'QUEUED',
      reasons: ['pushed'],
      actor: { kind: 'push', id: null, name: 'ada' },
      commit: { sha, author: 'Ada Lovelace', message: `Message of ${sha}` },
      source_revision_config: { repo_ref: 'main', repo_commit_sha: sha },
    })
    expect(first!.number).toBe(1)
    const { body } = await tenant.get(`/v2/deployments/${id}`)
    expect(body).toMatchObject({ latest_revision_id: newest!.id, source_revision_config: { repo_commit_sha: sha } })
    await expectCompleteJournal(tenant, id)
  })

  it('creates no revision of a commit that is already wanted', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    const push = repository.push()
    for (let i = 0; i < 2; i++) await deliverAndSettle(repository.integrations[0]!, push)
    await deliverAndSettle(repository.integrations[0]!, { ...push, id: crypto.randomUUID() })
    expect(await listRevisions(tenant, id)).toHaveLength(2)
  })

  it('in a burst leaves one revision in flight and only the newest one waiting', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id, latest_revision_id } = await newRepositoryDeployment(tenant, repository)
    await advanceRevisionTo(tenant, id, latest_revision_id)
    for (let i = 0; i < 3; i++) await deliverAndSettle(repository.integrations[0]!, repository.push())
    const revisions = await listRevisions(tenant, id)
    expect(revisions.map(revision => revision.status)).toEqual(['QUEUED', 'SKIPPED', 'AWAITING_BUILD', 'DEPLOYED'])
    await expectCompleteJournal(tenant, id)
  })

  it('deploys the newest commit, in any order of deliveries', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    const pushes = [repository.push(), repository.push(), repository.push()]
    const newest = repository.refs.get('refs/heads/main')
    for (const push of pushes.reverse()) await deliverAndSettle(repository.integrations[0]!, push)
    const revisions = await listRevisions(tenant, id)
    expect(revisions.map(revision => revision.commit?.sha)).toEqual([newest, undefined])
  })

  it('is not reverted by an older answer of the host that arrives late', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    const integration = repository.integrations[0]!
    let answer = (_: Response) => {}
    repository.overrides.answer = () => new Promise<Response>(resolve => (answer = resolve))
    const first = repository.push()
    const old = repository.refs.get('refs/heads/main')!
    await deliver(integration, first)
    await expect.poll(() => repository.requests.length).toBe(1)
    repository.overrides.answer = null
    await deliver(integration, repository.push())
    const newest = repository.refs.get('refs/heads/main')!
    const shas = async () => (await listRevisions(tenant, id)).map(revision => revision.commit?.sha)
    await expect.poll(shas).toEqual([newest, undefined])
    answer(Response.json([{ sha: old, commit: { message: 'Old' } }]))
    await finishPendingWork()
    expect(await shas()).toEqual([newest, undefined])
    await sweepDeliveriesAfter(600_000)
    expect(await shas()).toEqual([newest, undefined])
  })

  it('creates a revision too if it is forced or creates the branch', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    await deliverAndSettle(repository.integrations[0]!, repository.push())
    const forced = repository.push()
    await deliverAndSettle(repository.integrations[0]!, { ...forced, payload: { ...forced.payload, forced: true } })
    expect(await listRevisions(tenant, id)).toHaveLength(3)
  })

  it.each([
    ['another branch', {}, 'refs/heads/other'],
    ['a tag of the branch’s name', {}, 'refs/tags/main'],
    ['a deployment that does not build on push', { source_config: { build_on_push: false } }, 'refs/heads/main'],
    [
      'a moved tag that a deployment was created from',
      { source_config: { build_on_push: false }, source_revision_config: { repo_ref: 'refs/tags/v1' } },
      'refs/tags/v1',
    ],
  ])('creates no revision for %s', async (_, over, ref) => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository, 0, over)
    await deliverAndSettle(repository.integrations[0]!, repository.push(ref))
    expect(await listRevisions(tenant, id)).toHaveLength(1)
  })

  it.each([
    ['in capitals', (url: string) => url.replace('git.', 'GIT.').replace('acme/app', 'Acme/APP')],
    ['with .git and a slash', (url: string) => `${url}.git/`],
  ])('finds the repository by any spelling of its URL: %s', async (_, spelt) => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository, 0, {
      source_config: { repo_url: spelt(repository.url) },
    })
    await deliverAndSettle(repository.integrations[0]!, repository.push())
    expect(await listRevisions(tenant, id)).toHaveLength(2)
  })

  it('is retried while the API of the host lags behind', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    await deliverAndSettle(repository.integrations[0]!, repository.push())
    const before = repository.refs.get('refs/heads/main')!
    const push = repository.push()
    const after = repository.refs.get('refs/heads/main')!
    repository.refs.set('refs/heads/main', before)
    await deliverAndSettle(repository.integrations[0]!, push)
    expect(await listRevisions(tenant, id)).toHaveLength(2)
    repository.refs.set('refs/heads/main', after)
    await sweepDeliveriesAfter(60_000)
    expect((await listRevisions(tenant, id))[0]!.commit?.sha).toBe(after)
  })

  it('reaches every workspace that uses the repository, each through its own integration', async () => {
    const [one, other] = [await newTenant(), await newTenant()]
    const repository = await newRepository(one, other)
    const deployments = [
      await newRepositoryDeployment(one, repository, 0),
      await newRepositoryDeployment(other, repository, 1),
    ]
    const push = repository.push()
    await deliverAndSettle(repository.integrations[0]!, push)
    expect(await listRevisions(one, deployments[0].id)).toHaveLength(2)
    expect(await listRevisions(other, deployments[1].id)).toHaveLength(1)
    await deliverAndSettle(repository.integrations[1]!, push)
    expect(await listRevisions(other, deployments[1].id)).toHaveLength(2)
    expect((await one.get(`/v2/deployments/${deployments[1].id}`)).status).toBe(404)
  })
})

describe('a deleted branch', () => {
  it('creates no revision, and explain reports it until the branch is back', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    await deliverAndSettle(repository.integrations[0]!, repository.push())
    await deliverAndSettle(repository.integrations[0]!, repository.push('refs/heads/main', null))
    expect(await listRevisions(tenant, id)).toHaveLength(2)
    const codes = async () =>
      (await tenant.get(`/v2/deployments/${id}/explain`)).body.resources.map((entry: { code: string }) => entry.code)
    expect(await codes()).toContain('ref_gone')
    await deliverAndSettle(repository.integrations[0]!, repository.push())
    expect(await codes()).not.toContain('ref_gone')
    expect(await listRevisions(tenant, id)).toHaveLength(3)
  })

  it('is not reported for a deployment that has switched to another branch', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    await deliverAndSettle(repository.integrations[0]!, repository.push())
    await deliverAndSettle(repository.integrations[0]!, repository.push('refs/heads/main', null))
    await tenant.patch(`/v2/deployments/${id}`, { source_revision_config: { repo_ref: 'other' } })
    const { body } = await tenant.get(`/v2/deployments/${id}/explain`)
    expect(body.resources.map((entry: { code: string }) => entry.code)).not.toContain('ref_gone')
  })
})

describe('while a rollback holds deploys', () => {
  /** Two pushes are deployed, then the second one is rolled back. */
  async function rolledBack(release_on_newer_commit: boolean) {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id, latest_revision_id } = await newRepositoryDeployment(tenant, repository)
    await advanceRevisionTo(tenant, id, latest_revision_id)
    for (const _ of 'ab') {
      await deliverAndSettle(repository.integrations[0]!, repository.push())
      await advanceRevisionTo(tenant, id, (await listRevisions(tenant, id))[0]!.id)
    }
    const [bad, good] = await listRevisions(tenant, id)
    const back = { revision_id: good!.id, release_on_newer_commit }
    expect((await tenant.post(`/v2/deployments/${id}/rollback`, back)).status).toBe(200)
    const push = (sha?: string) =>
      deliverAndSettle(repository.integrations[0]!, repository.push('refs/heads/main', sha ?? newSha()))
    const newest = async () => (await listRevisions(tenant, id))[0]!
    const hold = async () => (await tenant.get(`/v2/deployments/${id}`)).body.hold
    return { tenant, id, bad: bad!.commit!.sha, good: good!.commit!.sha, push, newest, hold }
  }

  it('a push is recorded as skipped once, and the deployment stays unchanged', async () => {
    const { tenant, id, push, newest, hold } = await rolledBack(false)
    const before = (await tenant.get(`/v2/deployments/${id}`)).body
    const sha = newSha()
    await push(sha)
    await push(sha)
    const revision = await newest()
    expect(revision).toMatchObject({ number: 5, status: 'SKIPPED', commit: { sha }, reasons: ['pushed', 'held'] })
    expect(revision.status_message).toContain('rollback')
    expect((await tenant.get(`/v2/deployments/${id}`)).body).toEqual(before)
    expect(await hold()).not.toBeNull()
    await expectCompleteJournal(tenant, id)
    // After the release the next push deploys, and its number follows.
    await tenant.delete(`/v2/deployments/${id}/hold`)
    await push()
    expect(await newest()).toMatchObject({ number: 6, status: 'QUEUED' })
  })

  it('a newer commit releases a hold with release_on_newer_commit', async () => {
    const { push, newest, hold } = await rolledBack(true)
    await push()
    expect(await newest()).toMatchObject({ number: 5, status: 'QUEUED' })
    expect(await hold()).toBeNull()
  })

  it('the commit that was rolled back is never deployed automatically, even after the hold', async () => {
    const { tenant, id, bad, push, newest, hold } = await rolledBack(true)
    await push(bad)
    expect(await newest()).toMatchObject({ number: 5, status: 'SKIPPED', commit: { sha: bad } })
    expect(await hold()).not.toBeNull()
    await push()
    await push(bad)
    expect(await newest()).toMatchObject({ number: 7, status: 'SKIPPED', commit: { sha: bad } })
    await expectCompleteJournal(tenant, id)
  })

  it('a push of the commit that was rolled back to changes nothing', async () => {
    const { good, push, newest } = await rolledBack(true)
    await push(good)
    expect(await newest()).toMatchObject({ number: 4, reasons: ['rolled_back'] })
  })
})

it('a push is recorded as an event with the person, the ref, and the commits before and after', async () => {
  const tenant = await newTenant()
  const repository = await newRepository(tenant)
  const { id } = await newRepositoryDeployment(tenant, repository)
  await deliverAndSettle(repository.integrations[0]!, repository.push())
  const query = sql`
    select data, actor_kind, actor_id, actor_name
    from events
    where subject_id = ${id}::uuid and type = 'deployment.pushed'`
  const [rows] = await runAsSystem(getApp().database, query)
  const commit = repository.refs.get('refs/heads/main')
  const [data, ...actor] = rows![0] as [string, ...unknown[]]
  expect(JSON.parse(data)).toEqual({ commit, ref: 'refs/heads/main', before: null, after: commit, forced: false })
  expect(actor).toEqual(['push', null, 'ada'])
})
