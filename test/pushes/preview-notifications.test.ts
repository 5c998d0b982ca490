import { sql } from 'drizzle-orm'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../src/kernel/db.ts'
import { signHook, sweepHooks } from '../../src/pushes/preview-hooks.ts'
import { notifyPullRequests } from '../../src/pushes/pull-request-notifications.ts'
import { deleteOrganizations, getApp, getServices, logLines, withClockAhead } from '../support/app.ts'
import { advanceRevisionTo, listRevisions } from '../support/deployments.ts'
import { setUpPreviews } from '../support/previews.ts'
import { serveRepositories } from '../support/pushes.ts'

beforeAll(deleteOrganizations)
beforeEach(() => serveRepositories())

describe('the pull request of a preview', () => {
  const writesTo = (asked: { method: string; path: string; body: unknown }[], what: RegExp) =>
    asked
      .filter(one => one.method !== 'GET' && what.test(one.path))
      .map(one => [one.method, one.body] as [string, Record<string, string>])

  it('gets one comment, edited on each change, and commit statuses', async () => {
    const { tenant, repository, pull, child, sweep } = await setUpPreviews()
    await pull('opened', 1)
    expect(writesTo(repository.requests, /comments/)).toEqual([
      ['POST', { body: expect.stringContaining('being deployed') }],
    ])
    expect(writesTo(repository.requests, /statuses/)[0]![1]).toMatchObject({ state: 'pending' })
    const { id, latest_revision_id } = await child()
    await sweep()
    expect(writesTo(repository.requests, /comments/)).toHaveLength(1)
    await advanceRevisionTo(tenant, id, latest_revision_id)
    await sweep()
    expect(writesTo(repository.requests, /comments/)[1]).toEqual(['PATCH', { body: expect.stringContaining('ready') }])
    expect(writesTo(repository.requests, /statuses/)[1]![1]).toMatchObject({ state: 'success' })
    await pull('synchronize', 1)
    await advanceRevisionTo(tenant, id, (await listRevisions(tenant, id))[0]!.id, 'BUILD_FAILED', { message: 'hush' })
    await sweep()
    expect(writesTo(repository.requests, /statuses/).at(-1)![1]).toMatchObject({ state: 'failure' })
    await pull('closed', 1)
    const comments = writesTo(repository.requests, /comments/)
    expect(comments.filter(([method]) => method === 'POST')).toHaveLength(1)
    expect(comments.at(-1)![1].body).toContain('deleted')
    expect(JSON.stringify(comments)).not.toContain('hush')
  })

  it('gets only one comment even if the answer to its creation was lost', async () => {
    const { repository, pull, sweep } = await setUpPreviews()
    repository.overrides.afterComment = () => Promise.reject(new TypeError('the line is cut'))
    await pull('opened', 1)
    repository.overrides.afterComment = null
    await sweep(600_000)
    expect(writesTo(repository.requests, /comments/).map(([method]) => method)).toEqual(['POST', 'PATCH'])
    expect(writesTo(repository.requests, /statuses/)).toHaveLength(1)
  })

  it('is updated later if the host was unreachable', async () => {
    const { repository, pull, sweep } = await setUpPreviews()
    repository.overrides.answer = request =>
      request.method === 'GET' ? undefined : new Response('{}', { status: 500 })
    await pull('opened', 1)
    repository.overrides.answer = null
    await sweep(600_000)
    expect(writesTo(repository.requests, /statuses/)).toHaveLength(1)
  })

  it('of a fork gets a comment that the preview waits for approval', async () => {
    const { repository, pull } = await setUpPreviews({ forks: 'approve' })
    await pull('opened', 1, { fork: true })
    expect(writesTo(repository.requests, /comments/)[0]![1].body).toContain('approves')
    expect(writesTo(repository.requests, /statuses/)[0]![1]).toMatchObject({ state: 'pending' })
  })
})

describe('the hooks of a preview policy', () => {
  it('are called, signed, when a preview is created or ends, and retried until they succeed', async () => {
    const received: { id: string; body: { type: string; data: Record<string, unknown> } }[] = []
    let isAway = true
    const hook = async (request: Request) => {
      if (isAway) return new Response(null, { status: 503 })
      const [id, timestamp, body] = [
        request.headers.get('webhook-id')!,
        request.headers.get('webhook-timestamp')!,
        await request.text(),
      ]
      expect(request.headers.get('webhook-signature')).toBe(
        await signHook('whsec_c2xpcHdheQ==', id, Number(timestamp), body),
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
    isAway = false
    await sweep(60_000)
    await pull('closed', 1)
    await sweep()
    await sweep(600_000)
    expect(received.map(({ body }) => [body.type, body.data.deployment_id])).toEqual([
      ['preview.created', id],
      ['preview.deleted', id],
    ])
    expect(received[0]!.body.data).toMatchObject({ number: 1, branch: 'feature', parent_deployment_id: parent.id })
    // The secret is stored sealed.
    const [rows] = await runAsSystem(
      getApp().database,
      sql`select hook_secret from preview_policies where id = ${parent.id}::uuid`,
    )
    expect(JSON.stringify(rows)).not.toContain('whsec')
  })
})

describe('attempts are counted before they start', () => {
  /** Runs sweeps whose workers hang, each after the lease of the one before has expired. */
  async function dying(times: number, sweep: () => Promise<void>, asked: () => number) {
    const before = asked()
    const left: Promise<void>[] = []
    for (let i = 1; i <= times; i++) {
      left.push(withClockAhead(3_700_000 + i * 150_000, sweep))
      await expect.poll(asked).toBe(before + i)
    }
    await withClockAhead(3_700_000 + (times + 1) * 150_000, sweep)
    await withClockAhead(3_700_000 + (times + 2) * 150_000, sweep)
    expect(asked()).toBe(before + times)
    return Promise.all(left)
  }

  it('so a hook that kills its workers is called at most ten times', async () => {
    const answers: ((answer: Response) => void)[] = []
    const url = 'https://ci.example.com/branch'
    serveRepositories({ 'https://ci.example.com': () => new Promise<Response>(resolve => answers.push(resolve)) })
    const { pull } = await setUpPreviews({ hooks: { on_create: url, secret: 'whsec_c2xpcHdheQ==' } })
    await pull('opened', 1)
    const died = dying(
      10,
      () => sweepHooks(getServices()),
      () => answers.length,
    )
    await expect.poll(() => logLines.filter(({ error }) => error === 'worker_died')).toHaveLength(1)
    for (const answer of answers) answer(new Response(null, { status: 204 }))
    await died
  })

  it('so a comment that kills its workers is written at most twenty times', async () => {
    const { repository, pull } = await setUpPreviews()
    const answers: ((answer: Response) => void)[] = []
    const refused = () => new Response('{}', { status: 500 })
    repository.overrides.answer = request => (request.method === 'GET' ? undefined : refused())
    await pull('opened', 1)
    repository.overrides.answer = () => new Promise<Response>(resolve => answers.push(resolve))
    const died = dying(
      19,
      () => notifyPullRequests(getServices()),
      () => answers.length,
    )
    await expect.poll(() => logLines.filter(({ error }) => error === 'worker_died')).toHaveLength(1)
    for (const answer of answers) answer(refused())
    await died
  })
})
