import { sql } from 'drizzle-orm'
import { beforeEach, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { getApp, logLines, newTenant, send, type Tenant, withClockAhead } from '../../support/app.ts'
import { advanceRevisionTo, expectCompleteJournal, listRevisions } from '../../support/deployments.ts'
import { newRepository, newRepositoryDeployment, serveRepositories } from '../../support/pushes.ts'

beforeEach(() => serveRepositories())

async function setUp(refs: string[] = [], over = {}) {
  const tenant = await newTenant()
  const repository = await newRepository(tenant)
  const { id, latest_revision_id } = await newRepositoryDeployment(tenant, repository, 0, over)
  const made = await tenant.post(`/v2/deployments/${id}/deploy-hooks`, { name: 'content', refs })
  expect(made.status, made.text).toBe(201)
  const path = new URL(made.body.url).pathname
  const use = (query = '', headers = {}) => send('POST', path + query, { headers })
  return { tenant, id, latest_revision_id, hook: made.body, path, use }
}
const statusAndCode = ({ status, body }: { status: number; body: { code?: string } }) => [status, body?.code]
const hooksOf = async (tenant: Tenant, id: string) => (await tenant.get(`/v2/deployments/${id}/deploy-hooks`)).body

describe('a deploy hook', () => {
  it('deploys without a key, is shown without its URL, and ends when it is deleted', async () => {
    const { tenant, id, hook, path, use } = await setUp()
    logLines.length = 0
    const reply = await use()
    expect([reply.status, reply.body]).toMatchObject([202, { deployment_id: id, number: 2 }])
    const [newest] = await listRevisions(tenant, id)
    expect(newest).toMatchObject({
      id: reply.body.revision_id,
      reasons: ['requested'],
      actor: { kind: 'push', name: 'deploy hook content' },
    })
    const { url, ...shown } = hook
    const listed = await hooksOf(tenant, id)
    expect(listed.resources).toEqual([{ ...shown, last_used_at: expect.any(String) }])
    await expectCompleteJournal(tenant, id)
    const token = path.split('/').at(-1)!
    const rows = await runAsSystem(
      getApp().database,
      sql`select string_agg(to_json(h)::text, '') from deploy_hooks h where h.deployment_id = ${id}::uuid`,
    )
    expect(JSON.stringify([rows, logLines])).not.toContain(token)
    expect((await tenant.delete(`/v2/deployments/${id}/deploy-hooks/${hook.id}`)).status).toBe(204)
    expect(statusAndCode(await use())).toEqual([404, 'deploy_hook_not_found'])
    expect(statusAndCode(await tenant.delete(`/v2/deployments/${id}/deploy-hooks/${hook.id}`))).toEqual([
      404,
      'deploy_hook_not_found',
    ])
  })

  it('deploys another ref only where its globs allow it', async () => {
    const { tenant, id, use } = await setUp(['release/*', 'refs/tags/**'])
    expect(statusAndCode(await use('?ref=other'))).toEqual([422, 'deploy_hook_ref'])
    expect(await listRevisions(tenant, id)).toHaveLength(1)
    expect((await use('?ref=main')).status).toBe(202)
    expect((await use('?ref=release/2')).status).toBe(202)
    const { body } = await tenant.get(`/v2/deployments/${id}`)
    expect(body.source_revision_config.repo_ref).toBe('release/2')
    // A push does not move a tag.
    expect(statusAndCode(await use('?ref=refs/tags/v1'))).toEqual([400, 'source_rule'])
    expect((await tenant.get(`/v2/deployments/${id}`)).body.source_revision_config.repo_ref).toBe('release/2')
  })

  it('takes no ref that git would not take, whatever its globs allow', async () => {
    const { tenant, id, use } = await setUp(['**'])
    for (const ref of ['--upload-pack=touch', 'a..b', 'a b', 'a\u0007'])
      expect(statusAndCode(await use(`?ref=${encodeURIComponent(ref)}`))).toEqual([422, 'invalid_request'])
    expect(await listRevisions(tenant, id)).toHaveLength(1)
  })

  it('makes one revision for a repeated request, and takes ten requests a minute', async () => {
    const { tenant, id, use } = await setUp()
    const first = await use('', { 'Idempotency-Key': 'article-1' })
    expect((await use('', { 'Idempotency-Key': 'article-1' })).body.revision_id).toBe(first.body.revision_id)
    for (let i = 0; i < 9; i++) expect((await use()).status).toBe(202)
    const busy = await use()
    expect([...statusAndCode(busy), busy.headers.get('Retry-After')]).toEqual([429, 'deploy_hook_busy', '60'])
    expect(await listRevisions(tenant, id)).toHaveLength(11)
    await withClockAhead(61_000, async () => expect((await use()).status).toBe(202))
  })

  it('deploys nothing while a rollback holds automatic deploys', async () => {
    const { tenant, id, latest_revision_id, use } = await setUp()
    await advanceRevisionTo(tenant, id, latest_revision_id)
    await advanceRevisionTo(tenant, id, (await use()).body.revision_id)
    const rollback = await tenant.post(`/v2/deployments/${id}/rollback`, { revision_id: latest_revision_id })
    expect(rollback.status, rollback.text).toBeLessThan(300)
    expect(statusAndCode(await use())).toEqual([409, 'deploy_hook_held'])
  })

  it('is refused for other sources, a name that is taken, and more than twenty', async () => {
    const { tenant, id } = await setUp()
    const path = `/v2/deployments/${id}/deploy-hooks`
    expect(statusAndCode(await tenant.post(path, { name: 'content' }))).toEqual([409, 'deploy_hook_name_taken'])
    for (let i = 1; i < 20; i++) expect((await tenant.post(path, { name: `hook ${i}` })).status).toBe(201)
    expect(statusAndCode(await tenant.post(path, { name: 'one more' }))).toEqual([409, 'deploy_hooks_full'])
    const container = await tenant.post('/v2/deployments', {
      name: 'container',
      source: 'internal_container',
      source_config: {},
      source_revision_config: {},
      secrets: [],
    })
    const reply = await tenant.post(`/v2/deployments/${container.body.id}/deploy-hooks`, { name: 'x' })
    expect(statusAndCode(reply)).toEqual([400, 'source_rule'])
    expect((await hooksOf(tenant, id)).resources).toHaveLength(20)
  })
})
