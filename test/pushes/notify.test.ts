import { sql } from 'drizzle-orm'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../src/kernel/db.ts'
import { notifyPullRequests } from '../../src/pushes/notify.ts'
import { signHook, sweepHooks } from '../../src/pushes/preview-hooks.ts'
import { deleteOrganizations, getApp, getServices, logLines, withClockAhead } from '../support/app.ts'
import { advanceRevisionTo, listRevisions } from '../support/deployments.ts'
import { setUpPreviews } from '../support/previews.ts'
import { serveRepositories } from '../support/pushes.ts'

beforeAll(deleteOrganizations)
beforeEach(() => serveRepositories())

describe('the host is told', () => {
  const wrote = (asked: { method: string; path: string; body: unknown }[], what: RegExp) =>
    asked
      .filter(one => one.method !== 'GET' && what.test(one.path))
      .map(one => [one.method, one.body] as [string, Record<string, string>])

  it('by one comment, edited, and a status of the commit, as things move', async () => {
    const { tenant, repository, pull, child, sweep } = await setUpPreviews()
    await pull('opened', 1)
    expect(wrote(repository.asked, /comments/)).toEqual([['POST', { body: expect.stringContaining('on its way') }]])
    expect(wrote(repository.asked, /statuses/)[0]![1]).toMatchObject({ state: 'pending' })
    const { id, latest_revision_id } = await child()
    await sweep()
    expect(wrote(repository.asked, /comments/)).toHaveLength(1)
    await advanceRevisionTo(tenant, id, latest_revision_id)
    await sweep()
    expect(wrote(repository.asked, /comments/)[1]).toEqual(['PATCH', { body: expect.stringContaining('ready') }])
    expect(wrote(repository.asked, /statuses/)[1]![1]).toMatchObject({ state: 'success' })
    await pull('synchronize', 1)
    await advanceRevisionTo(tenant, id, (await listRevisions(tenant, id))[0]!.id, 'BUILD_FAILED', { message: 'hush' })
    await sweep()
    expect(wrote(repository.asked, /statuses/).at(-1)![1]).toMatchObject({ state: 'failure' })
    await pull('closed', 1)
    const comments = wrote(repository.asked, /comments/)
    expect(comments.filter(([method]) => method === 'POST')).toHaveLength(1)
    expect(comments.at(-1)![1].body).toContain('gone')
    expect(JSON.stringify(comments)).not.toContain('hush')
  })

  it('by one comment even where the answer to it was lost', async () => {
    const { repository, pull, sweep } = await setUpPreviews()
    repository.mood.lose = () => Promise.reject(new TypeError('the line is cut'))
    await pull('opened', 1)
    repository.mood.lose = null
    await sweep(600_000)
    expect(wrote(repository.asked, /comments/).map(([method]) => method)).toEqual(['POST', 'PATCH'])
    expect(wrote(repository.asked, /statuses/)).toHaveLength(1)
  })

  it('again, when it was away', async () => {
    const { repository, pull, sweep } = await setUpPreviews()
    repository.mood.answer = request => (request.method === 'GET' ? undefined : new Response('{}', { status: 500 }))
    await pull('opened', 1)
    repository.mood.answer = null
    await sweep(600_000)
    expect(wrote(repository.asked, /statuses/)).toHaveLength(1)
  })

  it('that a fork waits, without being shown anything', async () => {
    const { repository, pull } = await setUpPreviews({ forks: 'approve' })
    await pull('opened', 1, { fork: true })
    expect(wrote(repository.asked, /comments/)[0]![1].body).toContain('approves')
    expect(wrote(repository.asked, /statuses/)[0]![1]).toMatchObject({ state: 'pending' })
  })
})

describe('hooks', () => {
  it('are told of each preview’s coming and going, signed, until they have heard it', async () => {
    const heard: { id: string; body: { type: string; data: Record<string, unknown> } }[] = []
    let away = true
    const hook = async (request: Request) => {
      if (away) return new Response(null, { status: 503 })
      const [id, timestamp, body] = [
        request.headers.get('webhook-id')!,
        request.headers.get('webhook-timestamp')!,
        await request.text(),
      ]
      expect(request.headers.get('webhook-signature')).toBe(
        await signHook('whsec_c2xpcHdheQ==', id, Number(timestamp), body),
      )
      heard.push({ id, body: JSON.parse(body) })
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
    expect(heard).toEqual([])
    away = false
    await sweep(60_000)
    await pull('closed', 1)
    await sweep()
    await sweep(600_000)
    expect(heard.map(({ body }) => [body.type, body.data.deployment_id])).toEqual([
      ['preview.created', id],
      ['preview.deleted', id],
    ])
    expect(heard[0]!.body.data).toMatchObject({ number: 1, branch: 'feature', parent_deployment_id: parent.id })
    // The database keeps none of what they are signed with in the clear.
    const [rows] = await runAsSystem(
      getApp().database,
      sql`select hook_secret from preview_policies where id = ${parent.id}::uuid`,
    )
    expect(JSON.stringify(rows)).not.toContain('whsec')
  })
})

describe('an attempt is counted before it is made', () => {
  /** Sweeps whose workers die, one after the other, each when the lease of the one before is over. */
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

  it('so a hook whose workers die is told ten times at most', async () => {
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

  it('so a comment whose workers die is written twenty times at most', async () => {
    const { repository, pull } = await setUpPreviews()
    const answers: ((answer: Response) => void)[] = []
    const refused = () => new Response('{}', { status: 500 })
    repository.mood.answer = request => (request.method === 'GET' ? undefined : refused())
    await pull('opened', 1)
    repository.mood.answer = () => new Promise<Response>(resolve => answers.push(resolve))
    const died = dying(
      19,
      () => notifyPullRequests(getServices()),
      () => answers.length,
    )
    await expect.poll(() => logLines.filter(({ error }) => error === 'Error: worker_died')).toHaveLength(1)
    for (const answer of answers) answer(refused())
    await died
  })
})
