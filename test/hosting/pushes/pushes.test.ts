import { sql } from 'drizzle-orm'
import { beforeEach, describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { sendCommitStatuses } from '../../../src/hosting/pushes/commit-statuses.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { getApp, getServices, newTenant } from '../../support/app.ts'
import { advanceRevisionTo, expectCompleteJournal, listRevisions } from '../../support/deployments.ts'
import { makeRepositoryBody } from '../../support/integrations.ts'
import {
  deliver,
  deliverAndSettle,
  newRepository,
  newRepositoryDeployment,
  newSha,
  serveRepositories,
  sweepDeliveriesAfter,
} from '../../support/pushes.ts'

beforeEach(() => serveRepositories())

describe('a push', () => {
  it('creates one revision of the head of its ref, with author, message and the name of the pusher', async () => {
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

  it('creates no second revision of the same commit', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    const push = repository.push()
    for (let i = 0; i < 2; i++) await deliverAndSettle(repository.integrations[0]!, push)
    await deliverAndSettle(repository.integrations[0]!, { ...push, id: crypto.randomUUID() })
    expect(await listRevisions(tenant, id)).toHaveLength(2)
  })

  it('among several leaves one revision in flight and only the newest one waiting', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id, latest_revision_id } = await newRepositoryDeployment(tenant, repository)
    await advanceRevisionTo(tenant, id, latest_revision_id)
    for (let i = 0; i < 3; i++) await deliverAndSettle(repository.integrations[0]!, repository.push())
    const revisions = await listRevisions(tenant, id)
    expect(revisions.map(revision => revision.status)).toEqual(['QUEUED', 'SKIPPED', 'AWAITING_BUILD', 'DEPLOYED'])
    await expectCompleteJournal(tenant, id)
  })

  it('deploys the newest commit, even if deliveries arrive out of order', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    const pushes = [repository.push(), repository.push(), repository.push()]
    const newest = repository.refs.get('refs/heads/main')
    for (const push of pushes.reverse()) await deliverAndSettle(repository.integrations[0]!, push)
    const revisions = await listRevisions(tenant, id)
    expect(revisions.map(revision => revision.commit?.sha)).toEqual([newest, undefined])
  })

  it('is not reverted by an older response of the host that arrives late', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    const integration = repository.integrations[0]!
    let respond = (_: Response) => {}
    repository.overrides.answer = () => new Promise<Response>(resolve => (respond = resolve))
    const first = repository.push()
    const old = repository.refs.get('refs/heads/main')!
    await deliver(integration, first)
    await expect.poll(() => repository.requests.length).toBe(1)
    repository.overrides.answer = null
    await deliver(integration, repository.push())
    const newest = repository.refs.get('refs/heads/main')!
    const listShas = async () => (await listRevisions(tenant, id)).map(revision => revision.commit?.sha)
    await expect.poll(listShas).toEqual([newest, undefined])
    respond(Response.json([{ sha: old, commit: { message: 'Old' } }]))
    await finishPendingWork()
    expect(await listShas()).toEqual([newest, undefined])
    await sweepDeliveriesAfter(600_000)
    expect(await listShas()).toEqual([newest, undefined])
  })

  it('creates a revision too if it creates the branch or is forced', async () => {
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
    ['a tag with the name of the branch', {}, 'refs/tags/main'],
    ['a deployment with build_on_push off', { source_config: { build_on_push: false } }, 'refs/heads/main'],
    [
      'a moved tag, even if the deployment was created from it',
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
  ])('finds the repository even if the deployment has its URL %s', async (_, respell) => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository, 0, {
      source_config: { repo_url: respell(repository.url) },
    })
    await deliverAndSettle(repository.integrations[0]!, repository.push())
    expect(await listRevisions(tenant, id)).toHaveLength(2)
  })

  it('is retried while the API of the host still returns the commit before', async () => {
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

  it('reaches only the workspace of the integration that it is delivered to', async () => {
    const [first, second] = [await newTenant(), await newTenant()]
    const repository = await newRepository(first, second)
    const deployments = [
      await newRepositoryDeployment(first, repository, 0),
      await newRepositoryDeployment(second, repository, 1),
    ]
    const push = repository.push()
    await deliverAndSettle(repository.integrations[0]!, push)
    expect(await listRevisions(first, deployments[0].id)).toHaveLength(2)
    expect(await listRevisions(second, deployments[1].id)).toHaveLength(1)
    await deliverAndSettle(repository.integrations[1]!, push)
    expect(await listRevisions(second, deployments[1].id)).toHaveLength(2)
    expect((await first.get(`/v2/deployments/${deployments[1].id}`)).status).toBe(404)
  })
})

describe('a deleted branch', () => {
  it('creates no revision, and explain reports it until the branch is pushed again', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    await deliverAndSettle(repository.integrations[0]!, repository.push())
    await deliverAndSettle(repository.integrations[0]!, repository.push('refs/heads/main', null))
    expect(await listRevisions(tenant, id)).toHaveLength(2)
    const readCodes = async () =>
      (await tenant.get(`/v2/deployments/${id}/explain`)).body.resources.map((entry: { code: string }) => entry.code)
    expect(await readCodes()).toContain('ref_gone')
    await deliverAndSettle(repository.integrations[0]!, repository.push())
    expect(await readCodes()).not.toContain('ref_gone')
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
  /** Deploys two pushes and rolls the second one back. */
  async function rollBackSecondPush(release_on_newer_commit: boolean) {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id, latest_revision_id } = await newRepositoryDeployment(tenant, repository)
    await advanceRevisionTo(tenant, id, latest_revision_id)
    for (const _ of 'ab') {
      await deliverAndSettle(repository.integrations[0]!, repository.push())
      await advanceRevisionTo(tenant, id, (await listRevisions(tenant, id))[0]!.id)
    }
    const [bad, good] = await listRevisions(tenant, id)
    const rollback = { revision_id: good!.id, release_on_newer_commit }
    expect((await tenant.post(`/v2/deployments/${id}/rollback`, rollback)).status).toBe(200)
    const push = (sha?: string) =>
      deliverAndSettle(repository.integrations[0]!, repository.push('refs/heads/main', sha ?? newSha()))
    const readNewest = async () => (await listRevisions(tenant, id))[0]!
    const readHold = async () => (await tenant.get(`/v2/deployments/${id}`)).body.hold
    return { tenant, id, bad: bad!.commit!.sha, good: good!.commit!.sha, push, readNewest, readHold }
  }

  it('a push creates one skipped revision, and the deployment stays unchanged', async () => {
    const { tenant, id, push, readNewest, readHold } = await rollBackSecondPush(false)
    const before = (await tenant.get(`/v2/deployments/${id}`)).body
    const sha = newSha()
    await push(sha)
    await push(sha)
    const revision = await readNewest()
    expect(revision).toMatchObject({ number: 5, status: 'SKIPPED', commit: { sha }, reasons: ['pushed', 'held'] })
    expect(revision.status_message).toContain('rollback')
    expect((await tenant.get(`/v2/deployments/${id}`)).body).toEqual(before)
    expect(await readHold()).not.toBeNull()
    await expectCompleteJournal(tenant, id)
    // After the release the next push is deployed, and its revision has the next number.
    await tenant.delete(`/v2/deployments/${id}/hold`)
    await push()
    expect(await readNewest()).toMatchObject({ number: 6, status: 'QUEUED' })
  })

  it('with release_on_newer_commit, a newer commit ends the hold', async () => {
    const { push, readNewest, readHold } = await rollBackSecondPush(true)
    await push()
    expect(await readNewest()).toMatchObject({ number: 5, status: 'QUEUED' })
    expect(await readHold()).toBeNull()
  })

  it('the commit that was rolled back is not deployed by a push, even after the hold', async () => {
    const { tenant, id, bad, push, readNewest, readHold } = await rollBackSecondPush(true)
    await push(bad)
    expect(await readNewest()).toMatchObject({ number: 5, status: 'SKIPPED', commit: { sha: bad } })
    expect(await readHold()).not.toBeNull()
    await push()
    await push(bad)
    expect(await readNewest()).toMatchObject({ number: 7, status: 'SKIPPED', commit: { sha: bad } })
    await expectCompleteJournal(tenant, id)
  })

  it('a push of the commit that the rollback restored creates no revision', async () => {
    const { good, push, readNewest } = await rollBackSecondPush(true)
    await push(good)
    expect(await readNewest()).toMatchObject({ number: 4, reasons: ['rolled_back'] })
  })
})

it('a push is journaled with the person, the ref, and the commits before and after', async () => {
  const tenant = await newTenant()
  const repository = await newRepository(tenant)
  const { id } = await newRepositoryDeployment(tenant, repository)
  await deliverAndSettle(repository.integrations[0]!, repository.push())
  const query = sql`
    select data, changes, actor_kind, actor_id, actor_name, request ->> 'operation'
    from events
    where subject_id = ${id}::uuid and type = 'deployment.pushed'`
  const [rows] = await runAsSystem(getApp().database, query)
  const commit = repository.refs.get('refs/heads/main')
  const [data, changes, ...cause] = rows![0] as [string, string, ...unknown[]]
  expect(JSON.parse(data)).toEqual({ commit, ref: 'refs/heads/main', before: null, after: commit, forced: false })
  expect(JSON.parse(changes)).toEqual([{ path: 'source_revision_config.repo_commit_sha', before: null, after: commit }])
  expect(cause).toEqual(['push', null, 'ada', 'receiveIntegrationDelivery'])
})

it('gives the pushed commit a status at the host, which ends with its revision or a newer commit', async () => {
  const tenant = await newTenant()
  const repository = await newRepository(tenant)
  const { id, latest_revision_id } = await newRepositoryDeployment(tenant, repository)
  await advanceRevisionTo(tenant, id, latest_revision_id)
  const pushed = [newSha(), newSha(), newSha()]
  for (const sha of pushed) await deliverAndSettle(repository.integrations[0]!, repository.push('refs/heads/main', sha))
  const [newest, , first] = await listRevisions(tenant, id)
  await advanceRevisionTo(tenant, id, first!.id)
  await finishPendingWork()
  await advanceRevisionTo(tenant, id, newest!.id, 'BUILD_FAILED')
  await finishPendingWork()
  await sendCommitStatuses(getServices(), { within: [id] })
  const statesOf = (sha: string) =>
    repository.requests
      .filter(({ path }) => path.endsWith(`/statuses/${sha}`))
      .map(({ body }) => (body as { state: string }).state)
  for (const sha of pushed) expect(statesOf(sha)[0]).toBe('pending')
  expect(pushed.map(sha => statesOf(sha).at(-1))).toEqual(['success', 'success', 'failure'])
})

it('a deployment is refused for a repository of another host, and for one that the host does not have', async () => {
  const tenant = await newTenant()
  const repository = await newRepository(tenant)
  const create = async (repo_url: string, query = '') => {
    const body = await makeRepositoryBody(tenant)
    const source_config = { ...body.source_config, integration_id: repository.integrations[0], repo_url }
    const reply = await tenant.post(`/v2/deployments${query}`, { ...body, source_config })
    return [reply.status, reply.body.errors?.[0].loc.join('.')]
  }
  const refused = [422, 'body.source_config.repo_url']
  for (const query of ['', '?dry_run=true']) {
    expect(await create('https://github.com/acme/app', query)).toEqual(refused)
    expect(await create(`${repository.url}-missing`, query)).toEqual(refused)
  }
  repository.overrides.answer = () => new Response('{}', { status: 503 })
  expect(await create(repository.url)).toEqual([201, undefined])
})

it('a push of the commit that a new deployment builds creates no revision', async () => {
  const tenant = await newTenant()
  const repository = await newRepository(tenant)
  const sha = newSha()
  repository.refs.set('main', sha)
  const { id } = await newRepositoryDeployment(tenant, repository)
  await deliverAndSettle(repository.integrations[0]!, repository.push('refs/heads/main', sha))
  expect(await listRevisions(tenant, id)).toHaveLength(1)
  await deliverAndSettle(repository.integrations[0]!, repository.push())
  expect(await listRevisions(tenant, id)).toHaveLength(2)
})
