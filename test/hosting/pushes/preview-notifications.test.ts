import { sql } from 'drizzle-orm'
import { beforeEach, describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { sweepHooks } from '../../../src/hosting/previews/preview-hooks.ts'
import { notifyPullRequests } from '../../../src/hosting/previews/pull-request-notifications.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { signBySecret } from '../../../src/protocol/webhook-signing.ts'
import { getApp, getServices, logLines, withClockAhead } from '../../support/app.ts'
import { advanceRevisionTo, listRevisions } from '../../support/deployments.ts'
import { setUpPreviews } from '../../support/previews.ts'
import { serveRepositories } from '../../support/pushes.ts'

beforeEach(() => serveRepositories())

describe('the pull request of a preview', () => {
  const filterWrites = (requests: { method: string; path: string; body: unknown }[], path: RegExp) =>
    requests
      .filter(one => one.method !== 'GET' && path.test(one.path))
      .map(one => [one.method, one.body] as [string, Record<string, string>])

  const lastOf = (requests: Parameters<typeof filterWrites>[0], path: RegExp) => filterWrites(requests, path).at(-1)!

  it('gets commit statuses and one comment, which is edited when the revision ends', async () => {
    const { tenant, repository, pull, child, preview, sweep } = await setUpPreviews()
    await pull('opened', 1)
    expect(filterWrites(repository.requests, /comments/)).toEqual([
      ['POST', { body: expect.stringContaining('being deployed') }],
    ])
    expect(filterWrites(repository.requests, /statuses/)[0]![1]).toMatchObject({ state: 'pending' })
    const { id, latest_revision_id } = await child()
    await sweep()
    expect(filterWrites(repository.requests, /comments/)).toHaveLength(1)
    await advanceRevisionTo(tenant, id, latest_revision_id)
    await finishPendingWork()
    expect(lastOf(repository.requests, /comments/)).toEqual(['PATCH', { body: expect.stringContaining('ready') }])
    expect(lastOf(repository.requests, /statuses/)[1]).toMatchObject({ state: 'success' })
    await pull('synchronize', 1)
    const overtaken = (await preview()).head_sha
    await pull('synchronize', 1)
    const states = repository.requests.filter(({ path }) => path.endsWith(`/statuses/${overtaken}`))
    expect(states.map(({ body }) => (body as { state: string }).state)).toEqual(['pending', 'success'])
    const [newest, inFlight] = await listRevisions(tenant, id)
    await advanceRevisionTo(tenant, id, inFlight!.id)
    await advanceRevisionTo(tenant, id, newest!.id, 'BUILD_FAILED', { message: 'hush' })
    await finishPendingWork()
    expect(lastOf(repository.requests, /statuses/)[1]).toMatchObject({ state: 'failure' })
    await pull('closed', 1)
    const comments = filterWrites(repository.requests, /comments/)
    expect(comments.filter(([method]) => method === 'POST')).toHaveLength(1)
    expect(comments.at(-1)![1].body).toContain('deleted')
    expect(lastOf(repository.requests, /statuses/)[1]).toMatchObject({ state: 'success' })
    expect(JSON.stringify(comments)).not.toContain('hush')
  })

  it('gets only one comment even if the response to its creation was lost', async () => {
    const { repository, pull, sweep } = await setUpPreviews()
    repository.overrides.afterComment = () => Promise.reject(new TypeError('connection reset'))
    await pull('opened', 1)
    repository.overrides.afterComment = null
    await sweep(600_000)
    expect(filterWrites(repository.requests, /comments/).map(([method]) => method)).toEqual(['POST', 'PATCH'])
    expect(filterWrites(repository.requests, /statuses/)).toHaveLength(1)
  })

  it('is updated later if the host was unreachable', async () => {
    const { repository, pull, sweep } = await setUpPreviews()
    repository.overrides.answer = request =>
      request.method === 'GET' ? undefined : new Response('{}', { status: 500 })
    await pull('opened', 1)
    repository.overrides.answer = null
    await sweep(600_000)
    expect(filterWrites(repository.requests, /statuses/)).toHaveLength(1)
  })

  it('from a fork gets a comment that the preview waits for approval', async () => {
    const { repository, pull } = await setUpPreviews({ forks: 'approve' })
    await pull('opened', 1, { fork: true })
    expect(filterWrites(repository.requests, /comments/)[0]![1].body).toContain('approves')
    expect(filterWrites(repository.requests, /statuses/)[0]![1]).toMatchObject({ state: 'success' })
  })
})

describe('the hooks of a preview policy', () => {
  it('are called with a signature when a preview is created or deleted, and retried until they succeed', async () => {
    const received: { id: string; body: { type: string; data: Record<string, unknown> } }[] = []
    let isDown = true
    const hook = async (request: Request) => {
      if (isDown) return new Response(null, { status: 503 })
      const [id, timestamp, body] = [
        request.headers.get('webhook-id')!,
        request.headers.get('webhook-timestamp')!,
        await request.text(),
      ]
      expect(request.headers.get('webhook-signature')).toBe(
        await signBySecret('whsec_c2xpcHdheQ==', { id, timestamp: Number(timestamp), body }),
      )
      received.push({ id, body: JSON.parse(body) })
      return new Response(null, { status: 204 })
    }
    serveRepositories({ 'https://ci.example.com': hook })
    const url = 'https://ci.example.com/branch'
    const { parent, pull, child, sweep } = await setUpPreviews({
      hooks: { on_create: url, on_delete: url, secret: 'whsec_c2xpcHdheQ==' },
    })
    await pull('opened', 1)
    const { id } = await child()
    await sweep()
    expect(received).toEqual([])
    isDown = false
    await sweep(60_000)
    await pull('closed', 1)
    await sweep()
    await sweep(600_000)
    expect(received.map(({ body }) => [body.type, body.data.deployment_id])).toEqual([
      ['preview.created', id],
      ['preview.deleted', id],
    ])
    expect(received[0]!.body.data).toMatchObject({ number: 1, branch: 'feature', parent_deployment_id: parent.id })
    const [rows] = await runAsSystem(
      getApp().database,
      sql`select hook_secret from preview_policies where id = ${parent.id}::uuid`,
    )
    expect(JSON.stringify(rows)).not.toContain('whsec')
  })
})

describe('the attempts of a notification are counted before they start', () => {
  /** Runs sweeps whose workers hang, each after the lease of the previous one has expired. */
  async function runHangingSweeps(times: number, sweep: () => Promise<void>, countRequests: () => number) {
    const before = countRequests()
    const sweeps: Promise<void>[] = []
    for (let i = 1; i <= times; i++) {
      sweeps.push(withClockAhead(3_700_000 + i * 150_000, sweep))
      await expect.poll(countRequests).toBe(before + i)
    }
    await withClockAhead(3_700_000 + (times + 1) * 150_000, sweep)
    await withClockAhead(3_700_000 + (times + 2) * 150_000, sweep)
    expect(countRequests()).toBe(before + times)
    return Promise.all(sweeps)
  }

  it('so a hook whose workers die is called at most ten times', async () => {
    const resolvers: ((response: Response) => void)[] = []
    const url = 'https://ci.example.com/branch'
    serveRepositories({ 'https://ci.example.com': () => new Promise<Response>(resolve => resolvers.push(resolve)) })
    const { pull } = await setUpPreviews({ hooks: { on_create: url, secret: 'whsec_c2xpcHdheQ==' } })
    await pull('opened', 1)
    const hanging = runHangingSweeps(
      10,
      () => sweepHooks(getServices()),
      () => resolvers.length,
    )
    await expect.poll(() => logLines.filter(({ error }) => error === 'worker_died')).toHaveLength(1)
    for (const resolve of resolvers) resolve(new Response(null, { status: 204 }))
    await hanging
  })

  it('so a comment whose workers die is attempted at most twenty times', async () => {
    const { repository, pull } = await setUpPreviews()
    const resolvers: ((response: Response) => void)[] = []
    const fail = () => new Response('{}', { status: 500 })
    repository.overrides.answer = request => (request.method === 'GET' ? undefined : fail())
    await pull('opened', 1)
    repository.overrides.answer = () => new Promise<Response>(resolve => resolvers.push(resolve))
    const hanging = runHangingSweeps(
      19,
      () => notifyPullRequests(getServices()),
      () => resolvers.length,
    )
    await expect.poll(() => logLines.filter(({ error }) => error === 'worker_died')).toHaveLength(1)
    for (const resolve of resolvers) resolve(fail())
    await hanging
  })
})
