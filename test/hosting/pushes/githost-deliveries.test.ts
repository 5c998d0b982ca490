import { sql } from 'drizzle-orm'
import { beforeEach, describe, expect, inject, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { getApp, logLines, newTenant, send, unusedId } from '../../support/app.ts'
import { expectCompleteJournal, listRevisions } from '../../support/deployments.ts'
import { newIntegration } from '../../support/integrations.ts'
import {
  type Delivery,
  deliver,
  deliverAndSettle,
  newRepository,
  newRepositoryDeployment,
  type Repository,
  serveRepositories,
  signBody,
  sweepDeliveriesAfter,
} from '../../support/pushes.ts'

beforeEach(() => serveRepositories())

const readDeliveries = async (id: string) => {
  const query = sql`select state, attempts, error from githost_deliveries where delivery_id = ${id}`
  const [rows] = (await runAsSystem(getApp().database, query)) as [unknown[][]]
  return rows.map(([state, attempts, error]) => [state, Number(attempts), error])
}

/** Requests to this host hang until `end`, so their workers appear to have died. */
function hangRequests(repository: Repository) {
  const resolvers: ((response: Response | undefined) => void)[] = []
  const sweeps: Promise<unknown>[] = []
  repository.overrides.answer = () => new Promise<Response | undefined>(resolve => resolvers.push(resolve))
  return {
    async waitForWorker(number: number, sweep: Promise<unknown> = Promise.resolve()) {
      sweeps.push(sweep)
      await expect.poll(() => resolvers.length).toBe(number)
    },
    async end(response?: Response) {
      repository.overrides.answer = null
      for (const resolve of resolvers) resolve(response?.clone())
      await Promise.all(sweeps)
      await finishPendingWork()
    },
  }
}

const SIGNED_WITH_OTHER_SECRET = await signBody('{}', 'other')
const SIGNATURE_OF_OTHER_BODY = await signBody('{ }')

describe('a webhook delivery', () => {
  it.each([
    ['no signature', {}],
    ['a malformed signature', { 'X-Hub-Signature-256': 'sha256=zz' }],
    ['a signature with another secret', { 'X-Hub-Signature-256': `sha256=${SIGNED_WITH_OTHER_SECRET}` }],
    ['a signature of another body', { 'X-Gitea-Signature': SIGNATURE_OF_OTHER_BODY }],
    ['only a SHA-1 signature', { 'X-Hub-Signature': 'sha1=5d61605c3feea9799210ddcb71307d4ba264225f' }],
  ])('with %s is rejected', async (_, headers) => {
    const integration = await newIntegration(await newTenant())
    for (const path of [`/${integration}`, '', `/${unusedId()}`, '/nonsense']) {
      const reply = await send('POST', `/v1/integrations/forge/githost${path}/webhook`, {
        raw: '{}',
        headers: {
          'Content-Type': 'application/json',
          'X-GitHub-Event': 'push',
          'X-GitHub-Delivery': unusedId(),
          ...headers,
        },
      })
      expect([reply.status, reply.body.code], path).toEqual([401, 'delivery_unsigned'])
    }
  })

  it('signed with the secret of one integration is rejected for another', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()]
    const otherIntegration = await newIntegration(other, {}, { token: 't', webhook_secret: 'other-secret' })
    await newIntegration(tenant)
    expect((await deliver(otherIntegration, { event: 'ping', payload: {} })).status).toBe(401)
  })

  it('is accepted with the signature header of GitHub or of Gitea', async () => {
    const integration = await newIntegration(await newTenant())
    for (const [name, value] of [
      ['X-Hub-Signature-256', `sha256=${await signBody('{}')}`],
      ['X-Gitea-Signature', await signBody('{}')],
    ] as const) {
      const headers = {
        'Content-Type': 'application/json',
        'X-GitHub-Event': 'ping',
        'X-GitHub-Delivery': unusedId(),
        [name]: value,
      }
      const reply = await send('POST', `/v1/integrations/forge/githost/${integration}/webhook`, { raw: '{}', headers })
      expect(reply.status).toBe(202)
    }
  })

  it('that is signed but malformed is rejected with the reason', async () => {
    const integration = await newIntegration(await newTenant())
    const reply = await deliver(integration, { event: 'push', payload: { ref: 7 } })
    expect([reply.status, reply.body.code]).toEqual([422, 'invalid_request'])
    expect((await deliver(integration, { event: 'push', payload: {}, id: '' })).status).toBe(422)
    const raw = 'payload=%7B%7D'
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded', 'X-Gitea-Signature': await signBody('{}') }
    const form = await send('POST', `/v1/integrations/forge/githost/${integration}/webhook`, { raw, headers })
    expect(form.status).toBe(415)
  })

  it('to a revoked integration is told so, if its signature is valid', async () => {
    const integration = await newIntegration(await newTenant(), { state: 'revoked' })
    expect((await deliver(integration, { event: 'push', payload: {}, secret: 'other' })).body.code).toBe(
      'delivery_unsigned',
    )
    expect((await deliver(integration, { event: 'push', payload: {} })).body.code).toBe('integration_revoked')
  })

  it('that declares more than the maximum size is rejected before it is read', async () => {
    const integration = await newIntegration(await newTenant())
    const headers = {
      'Content-Type': 'application/json',
      'Content-Length': String(26 * 1024 * 1024),
      'X-Gitea-Signature': await signBody('{}'),
    }
    const reply = await send('POST', `/v1/integrations/forge/githost/${integration}/webhook`, { raw: '{}', headers })
    expect(reply.status).toBe(413)
  })

  it('is answered before it is processed', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    let respond = (_: undefined) => {}
    repository.overrides.answer = () => new Promise<undefined>(resolve => (respond = resolve))
    const push = repository.push()
    expect((await deliver(repository.integrations[0]!, push)).status).toBe(202)
    expect(await readDeliveries(push.id!)).toEqual([['waiting', 1, null]])
    expect(await listRevisions(tenant, id)).toHaveLength(1)
    await expect.poll(() => repository.requests.length).toBe(1)
    respond(undefined)
    await finishPendingWork()
    expect(await readDeliveries(push.id!)).toEqual([['done', 1, null]])
    expect(await listRevisions(tenant, id)).toHaveLength(2)
  })

  it('that fails is retried with backoff until it succeeds', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    repository.overrides.answer = () => new Response('{}', { status: 500 })
    const push = repository.push()
    await deliverAndSettle(repository.integrations[0]!, push)
    expect(await readDeliveries(push.id!)).toEqual([['waiting', 1, 'upstream_error']])
    await sweepDeliveriesAfter(3_600_000)
    expect(await readDeliveries(push.id!)).toEqual([['waiting', 2, 'upstream_error']])
    repository.overrides.answer = null
    await sweepDeliveriesAfter(3 * 3_600_000)
    expect(await readDeliveries(push.id!)).toEqual([['done', 3, null]])
    expect(await listRevisions(tenant, id)).toHaveLength(2)
  })

  it('fails after ten attempts, and is accepted again when the host redelivers it', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    repository.overrides.answer = () => new Response('{}', { status: 500 })
    const push = repository.push()
    await deliverAndSettle(repository.integrations[0]!, push)
    for (let i = 2; i <= 12; i++) await sweepDeliveriesAfter(i * 3_700_000)
    expect(await readDeliveries(push.id!)).toEqual([['failed', 10, 'upstream_error']])
    repository.overrides.answer = null
    await deliverAndSettle(repository.integrations[0]!, push)
    expect(await readDeliveries(push.id!)).toEqual([['done', 1, null]])
    expect(await listRevisions(tenant, id)).toHaveLength(2)
  })

  it('whose worker died is claimed again after the lease has expired', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    const push = repository.push()
    const hung = { ...push, id: crypto.randomUUID() }
    repository.overrides.answer = () => new Promise<undefined>(() => {})
    await deliver(repository.integrations[0]!, hung)
    await expect.poll(() => repository.requests.length).toBe(1)
    repository.overrides.answer = null
    // The lease has not expired yet.
    await sweepDeliveriesAfter(60_000)
    expect(await listRevisions(tenant, id)).toHaveLength(1)
    await sweepDeliveriesAfter(150_000)
    expect(await listRevisions(tenant, id)).toHaveLength(2)
  })

  it('that kills three workers fails, because attempts are counted before they start', async () => {
    const tenant = await newTenant()
    const repository = await newRepository(tenant)
    const { id } = await newRepositoryDeployment(tenant, repository)
    const push = repository.push()
    const hanging = hangRequests(repository)
    await deliver(repository.integrations[0]!, push)
    await hanging.waitForWorker(1)
    for (const minutes of [3, 6]) await hanging.waitForWorker(minutes / 3 + 1, sweepDeliveriesAfter(minutes * 60_000))
    expect(await readDeliveries(push.id!)).toEqual([['waiting', 3, null]])
    await sweepDeliveriesAfter(9 * 60_000)
    expect(await readDeliveries(push.id!)).toEqual([['failed', 3, 'worker_died']])
    expect(logLines).toContainEqual(expect.objectContaining({ level: 'error', error: 'worker_died', attempts: 3 }))
    // Late failures of the workers do not change the state.
    await hanging.end(new Response('{}', { status: 500 }))
    expect(await readDeliveries(push.id!)).toEqual([['failed', 3, 'worker_died']])
    await deliverAndSettle(repository.integrations[0]!, push)
    expect(await readDeliveries(push.id!)).toEqual([['done', 1, null]])
    expect((await listRevisions(tenant, id)).length).toBeGreaterThan(1)
  })

  it('that stalls its worker does not delay the other deliveries of the sweep', async () => {
    const tenant = await newTenant()
    const [stalling, other] = [await newRepository(tenant), await newRepository(tenant)]
    await Promise.all([newRepositoryDeployment(tenant, stalling), newRepositoryDeployment(tenant, other)])
    const pushes = [stalling.push(), ...Array.from({ length: 20 }, () => other.push())]
    const fail = () => new Response('{}', { status: 500 })
    stalling.overrides.answer = fail
    other.overrides.answer = fail
    await deliverAndSettle(stalling.integrations[0]!, pushes[0]!)
    for (const push of pushes.slice(1)) await deliverAndSettle(other.integrations[0]!, push)
    other.overrides.answer = null
    const hanging = hangRequests(stalling)
    await hanging.waitForWorker(1, sweepDeliveriesAfter(3_600_000))
    const readStates = async () =>
      (await Promise.all(pushes.map(push => readDeliveries(push.id!)))).flat().map(([state]) => state)
    await expect.poll(readStates).toEqual(['waiting', ...Array(20).fill('done')])
    await hanging.end()
  })

  it('whose last worker died is processed alone, after all others', async () => {
    const tenant = await newTenant()
    const [firstDying, secondDying, healthy] = [
      await newRepository(tenant),
      await newRepository(tenant),
      await newRepository(tenant),
    ]
    await Promise.all([firstDying, secondDying, healthy].map(repository => newRepositoryDeployment(tenant, repository)))
    healthy.overrides.answer = () => new Response('{}', { status: 500 })
    const push = healthy.push()
    await deliverAndSettle(healthy.integrations[0]!, push)
    healthy.overrides.answer = null
    const hanging = [hangRequests(firstDying), hangRequests(secondDying)]
    await deliver(firstDying.integrations[0]!, firstDying.push())
    await deliver(secondDying.integrations[0]!, secondDying.push())
    for (const host of hanging) await host.waitForWorker(1)
    const sweep = sweepDeliveriesAfter(3_600_000)
    await hanging[0]!.waitForWorker(2, sweep)
    expect(await readDeliveries(push.id!)).toEqual([['done', 2, null]])
    // If both had been claimed at once, the second would have called its host before this delivery is done.
    const later = healthy.push()
    await deliver(healthy.integrations[0]!, later)
    await expect.poll(() => readDeliveries(later.id!)).toEqual([['done', 1, null]])
    expect(secondDying.requests).toHaveLength(1)
    await Promise.all(hanging.map(host => host.end()))
  })

  it('is deleted after a week', async () => {
    const repository = await newRepository(await newTenant())
    const push = repository.push()
    await deliverAndSettle(repository.integrations[0]!, push)
    expect(await readDeliveries(push.id!)).toHaveLength(1)
    await sweepDeliveriesAfter(8 * 86_400_000)
    expect(await readDeliveries(push.id!)).toHaveLength(0)
  })
})

it('deliveries in random order, some repeated or forged, create one revision per branch', async () => {
  const { seed, requests } = inject('fuzz')
  const DELIVERIES = requests >= 10_000 ? 1_000 : 250
  let state = seed
  const random = (below: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return Math.floor((state / 0x80000000) * below)
  }
  const tenant = await newTenant()
  const repository = await newRepository(tenant)
  const integration = repository.integrations[0]!
  const BRANCHES = 20
  const deployments = await Promise.all(
    Array.from({ length: BRANCHES }, (_, i) =>
      newRepositoryDeployment(tenant, repository, 0, { source_revision_config: { repo_ref: `branch-${i}` } }),
    ),
  )
  const repeated = Math.floor(DELIVERIES / 3)
  // All pushes of the last branch are forged.
  const pushes = Array.from({ length: DELIVERIES - repeated }, (_, i) => {
    const branch = random(BRANCHES)
    const isForged = branch === BRANCHES - 1 || i % 10 === 9
    const push = repository.push(`refs/heads/branch-${branch}`)
    return { push: isForged ? { ...push, secret: 'guessed' } : push, branch, isForged }
  })
  const repeats = Array.from({ length: repeated }, () => pushes[random(pushes.length)]!)
  const all = [...pushes, ...repeats]
  for (let i = all.length - 1; i > 0; i--) {
    const j = random(i + 1)
    ;[all[i], all[j]] = [all[j]!, all[i]!]
  }
  const statuses = new Map<string, number>()
  const deliverAll = async () => {
    for (let next = all.pop(); next; next = all.pop()) {
      const { status } = await deliver(integration, next.push as Delivery)
      const key = `${next.isForged ? 'forged' : 'genuine'} ${status}`
      statuses.set(key, (statuses.get(key) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: 8 }, deliverAll))
  await finishPendingWork()
  for (let hours = 1; hours <= 3; hours++) await sweepDeliveriesAfter(hours * 3_600_000)
  expect([...statuses.keys()].sort()).toEqual(['forged 401', 'genuine 202'])

  for (const [i, { id }] of deployments.entries()) {
    const shas = (await listRevisions(tenant, id)).map(revision => revision.commit?.sha)
    const isPushed = pushes.some(({ branch, isForged }) => branch === i && !isForged)
    // All pushes happened before the first delivery, so only the head of each branch is deployed.
    expect(shas, `branch ${i}`).toEqual(
      isPushed ? [repository.refs.get(`refs/heads/branch-${i}`), undefined] : [undefined],
    )
    await expectCompleteJournal(tenant, id)
  }
  const unsettled = sql`select count(*) from githost_deliveries where receiver = ${integration} and state <> 'done'`
  const [[[unsettledCount]]] = (await runAsSystem(getApp().database, unsettled)) as [[[string]]]
  expect(Number(unsettledCount)).toBe(0)
}, 180_000)
