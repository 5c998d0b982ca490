// The protection of a deployment is set, told to its agent, and refused where no router of ours stands in front.
import { sql } from 'drizzle-orm'
import * as jose from 'jose'
import { beforeEach, describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { publicJwks, verifyJwt } from '../../../src/kernel/crypto/signing-keys.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { VIEWER } from '../../../src/people/access/built-in-roles.ts'
import { GRANT_TYPE } from '../../../src/protocol/access-rules.ts'
import type { FeatureName } from '../../../src/protocol/engine-features.ts'
import { CLOSED_POLICY, type ListenerPolicy } from '../../../src/protocol/listener-policy.ts'
import type { Work } from '../../../src/protocol/work.schema.ts'
import { getApp, newTenant, type Tenant, unusedId, withClockAhead } from '../../support/app.ts'
import { getPolicyPath, setUpPreviews } from '../../support/previews.ts'
import { newRepositoryDeployment, serveRepositories } from '../../support/pushes.ts'
import { newSession } from '../../support/sessions.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const OPEN = { mode: 'none', open_paths: [] }
const MEMBERS = { mode: 'members', open_paths: ['/hooks/*', '/oauth/callback'] }
const DAY_MS = 86_400_000
const inDays = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString()

async function newServed(
  policy: ListenerPolicy | undefined = { ...CLOSED_POLICY, features: ['images', 'protection'] },
) {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  await agent.poll({ policy })
  const create = (over: object = {}) =>
    tenant.post('/v2/deployments', makeListenerDeployment(listener, { name: `d-${unusedId().slice(0, 8)}`, ...over }))
  return { tenant, agent, listener, create }
}
const protectionOf = (work: Work[], id: string) => work.find(one => one.deployment_id === id)!.protection

describe('the protection of a deployment', () => {
  it('is none by default, is set at its creation or later, and reaches its agent', async () => {
    const { tenant, agent, create } = await newServed()
    const [open, closed] = [(await create()).body, (await create({ protection: MEMBERS })).body]
    expect([open.protection, closed.protection]).toEqual([OPEN, MEMBERS])
    const work = await agent.pollAll()
    expect(protectionOf(work, open.id)).toBeNull()
    expect(protectionOf(work, closed.id)).toEqual({ open_paths: MEMBERS.open_paths, bypasses: [] })
    const set = await tenant.put(`/v2/deployments/${open.id}/protection`, { mode: 'members' })
    expect([set.status, set.body.protection]).toEqual([200, { mode: 'members', open_paths: [] }])
    expect((await tenant.get(`/v2/deployments/${open.id}`)).body).toEqual(set.body)
    expect(protectionOf(await agent.pollAll(), open.id)).toEqual({ open_paths: [], bypasses: [] })
    expect((await tenant.put(`/v2/deployments/${open.id}/protection`, OPEN)).body.protection).toEqual(OPEN)
    expect(protectionOf(await agent.pollAll(), open.id)).toBeNull()
    const { body: events } = await tenant.get('/v2/events?type=deployment.protection_changed')
    expect(events.resources).toHaveLength(2)
  })

  it.each([
    ['an agent of another engine', { ...CLOSED_POLICY, engine: 'kubernetes', features: ['images'] }],
    ['an agent that tells no features', CLOSED_POLICY],
  ] as [string, ListenerPolicy][])('is refused by name for %s, at once and when it is planned', async (_, policy) => {
    const { tenant, create } = await newServed(policy)
    const created = await create()
    const path = `/v2/deployments/${created.body.id}/protection`
    const answers = [await tenant.put(path, MEMBERS), await create({ protection: MEMBERS })]
    for (const { status, body } of answers) {
      expect([status, body.code]).toEqual([400, 'not_allowed_by_listener'])
      expect(body.detail).toContain('protection.mode')
    }
    expect((await tenant.get(`/v2/deployments/${created.body.id}`)).body.protection).toEqual(OPEN)
    expect((await tenant.put(path, OPEN)).status).toBe(200)
  })

  it('ends what an agent would serve that was replaced by one which protects none', async () => {
    const { agent, create } = await newServed()
    const [open, closed] = [(await create()).body, (await create({ protection: MEMBERS })).body]
    const runs = async (features: FeatureName[]) => {
      const { changes } = await agent.poll({ fence: null, cursor: null, policy: { ...CLOSED_POLICY, features } })
      return [open, closed].map(({ id }) => {
        const { wanted, revision } = changes.find(one => one.deployment_id === id)!
        return [wanted, revision !== null]
      })
    }
    expect(await runs(['images'])).toEqual([
      ['present', true],
      ['present', false],
    ])
    expect(await runs(['images', 'protection'])).toEqual([
      ['present', true],
      ['present', true],
    ])
  })

  it('takes only paths in plain spelling, and names every other one', async () => {
    const { tenant, create } = await newServed()
    const { body } = await create()
    const bad = ['hooks', '/a/../b', '/a//b', '/a%2fb', '/*', '/a*', '/a*/b', '/a?b', '/ä', '', '/./a']
    const { status, body: refused } = await tenant.put(`/v2/deployments/${body.id}/protection`, {
      mode: 'members',
      open_paths: [...bad, '/', '/.well-known/x', '/a/b/', '/a/*'],
    })
    expect(status).toBe(422)
    expect(refused.errors.map((one: { loc: unknown[] }) => one.loc[2])).toEqual(bad.map((_, i) => i))
  })
})

describe('share links and bypass tokens', () => {
  it('are shown once, reach the agent by their hash, and leave it when they are revoked', async () => {
    const { tenant, agent, create } = await newServed()
    const { id } = (await create({ protection: MEMBERS })).body
    const path = `/v2/deployments/${id}/bypasses`
    await agent.pollAll()
    const token = (await tenant.post(path, { kind: 'token', description: 'CI' })).body
    const link = (await tenant.post(path, { kind: 'link', description: 'Design', expires_at: inDays(7) })).body
    expect([token.secret, link.secret]).toEqual([expect.stringMatching(/^slb_/), expect.stringMatching(/^slb_/)])
    expect(token.url).toBeNull()
    const told = protectionOf(await agent.pollAll(), id)!.bypasses
    expect(told.map(({ kind, expires_at }) => [kind, expires_at !== null]).toSorted()).toEqual([
      ['link', true],
      ['token', false],
    ])
    expect(JSON.stringify(told)).not.toContain('slb_')
    const { body: listed } = await tenant.get(path)
    expect(listed.resources.map((one: { description: string }) => one.description)).toEqual(['Design', 'CI'])
    expect(JSON.stringify(listed)).not.toContain(told[0]!.hash)
    expect((await tenant.delete(`${path}/${token.id}`)).status).toBe(204)
    expect((await tenant.delete(`${path}/${token.id}`)).body.code).toBe('bypass_not_found')
    expect(protectionOf(await agent.pollAll(), id)!.bypasses.map(({ kind }) => kind)).toEqual(['link'])
    // Its agent refuses it by itself, and with the next work it is not told any more.
    await withClockAhead(8 * DAY_MS, async () => {
      await tenant.put(`/v2/deployments/${id}/protection`, MEMBERS)
      expect(protectionOf((await agent.poll({ fence: null, cursor: null })).changes, id)!.bypasses).toEqual([])
    })
  })

  it('have bounded ends and a bounded number, and repeat their secret under an idempotency key', async () => {
    const { tenant, create } = await newServed()
    const { id } = (await create()).body
    const path = `/v2/deployments/${id}/bypasses`
    for (const over of [{}, { expires_at: inDays(-1) }, { expires_at: inDays(400) }, { expires_at: 'soon' }])
      expect((await tenant.post(path, { kind: 'link', description: 'x', ...over })).status).toBe(422)
    const headers = { 'Idempotency-Key': unusedId() }
    const body = { kind: 'token', description: 'CI' }
    const [first, again] = [await tenant.post(path, body, headers), await tenant.post(path, body, headers)]
    expect(again.body).toEqual(first.body)
    for (let i = 1; i < 50; i++) expect((await tenant.post(path, body)).status).toBe(201)
    expect((await tenant.post(path, body)).body.code).toBe('bypasses_full')
  })
})

describe('a grant', () => {
  const state = 'u8f4VZ0Tn0ZcHFbSxhK1rY9o3k5mGq2WbXcJtLpQeDs'

  it('is for a host of the deployment, and leads nowhere else', async () => {
    const { tenant, agent, create } = await newServed()
    const host = `${unusedId()}.example.com`
    const { id } = (await create({ source_config: { custom_url: `https://${host}/shop` } })).body
    const ask = (wanted: string, as: Pick<Tenant, 'post'> = tenant) =>
      as.post(`/v2/deployments/${id}/access-grants`, { host: wanted, state })
    const { status, body } = await ask(host.toUpperCase())
    expect([status, body.url]).toEqual([200, `https://${host}/shop/.well-known/slipway/access`])
    const { grants } = await agent.poll()
    expect(grants!.keys.map(({ x }) => x)).toEqual((await publicJwks(getApp().config)).keys.map(({ x }) => x))
    const expected = { typ: GRANT_TYPE, issuer: grants!.issuer, audience: host, at: Date.now() }
    expect(await verifyJwt(getApp().config, body.grant, expected)).toMatchObject({
      claims: { deployment_id: id, state, session_seconds: 1800 },
    })
    for (const other of ['evil.example.com', `${host}:8443`, `${host}@evil.example.com`, `x.${host}`, ''])
      expect((await ask(other)).body.code).toBe('host_not_served')
    expect((await ask(host, await newTenant())).body.code).toBe('deployment_not_found')
    const { body: events } = await tenant.get('/v2/events?type=deployment.access_granted')
    expect(events.resources).toHaveLength(1)
  })

  it('is for the host of each label of the deployment on its listener, and of no other', async () => {
    const { tenant, agent, listener, create } = await newServed()
    const [{ id }, other] = [(await create()).body, (await create()).body]
    const [work] = (await agent.pollAll()).filter(({ deployment_id }) => deployment_id === id)
    const domain = `${unusedId()}.example.com`
    const serve = (url: string) => agent.report(work!, { state: 'serving', url })
    const label = `abc1234--${unusedId().slice(0, 8)}`
    await runAsSystem(
      getApp().database,
      sql`
        insert into host_labels (listener_id, label, organization_id, tenant_id, deployment_id, kind)
        select listener_id, ${label}, organization_id, tenant_id, id, 'branch'
        from deployments where id = ${id}::uuid and listener_id = ${listener.id}::uuid`,
    )
    const ask = async (host: string) => {
      const { status, body } = await tenant.post(`/v2/deployments/${id}/access-grants`, { host, state })
      return status === 200 ? body.url : body.code
    }
    await serve(`https://shop.${domain}`)
    expect(await ask(`${label}.${domain}`)).toBe(`https://${label}.${domain}/.well-known/slipway/access`)
    for (const host of [`${other.name}.${domain}`, `x.${label}.${domain}`, label, `${label}.example.com`])
      expect(await ask(host)).toBe('host_not_served')
    // At an address without labels there are none.
    await serve('http://127.0.0.1:8080')
    expect(await ask('127.0.0.1:8080')).toBe('http://127.0.0.1:8080/.well-known/slipway/access')
    expect(await ask(`${label}.0.0.1:8080`)).toBe('host_not_served')
  })
})

describe('the grant of a page that stays open', () => {
  it('is renewed while the session, the role and the host hold, and by nothing else', async () => {
    const { tenant, agent, create } = await newServed()
    const host = `${unusedId()}.example.com`
    const deployment = async () =>
      (await create({ source_config: { custom_url: `https://${unusedId()}.com` } })).body.id
    const { id } = (await create({ source_config: { custom_url: `https://${host}` } })).body
    const other = await deployment()
    const person = await newSession(tenant, { workspaceRole: VIEWER })
    const state = 'u8f4VZ0Tn0ZcHFbSxhK1rY9o3k5mGq2WbXcJtLpQeDs'
    const grantTo = async (as: Pick<Tenant, 'post'>) => {
      const path = `/v2/deployments/${id}/access-grants`
      const { body } = await as.post(path, { host, state }, { 'X-Tenant-Id': tenant.tenant_id })
      return jose.decodeJwt(body.grant).renewal as string | undefined
    }
    const renewal = (await grantTo(person))!
    expect(renewal).toMatch(/^[\w.-]{1,1000}$/)
    expect(await grantTo(tenant)).toBeUndefined()
    await agent.pollAll()
    const askAs = async ({ agent_id, fence, post }: typeof agent, over: object[]) => {
      const renewals = over.map(one => ({ deployment_id: id, host, renewal, ...one }))
      const { status, body } = await post('/v1/sync/access-renewals', { agent_id, fence, renewals })
      expect(status, JSON.stringify(body)).toBe(200)
      return body.renewed
    }
    const ask = (...over: object[]) => askAs(agent, over)
    const wrong = [{ host: 'x.example.com' }, { deployment_id: other }, { renewal: 'a.b.c' }]
    expect(await ask({}, ...wrong)).toEqual([true, false, false, false])
    const stranger = makeSyncAgent(tenant, (await newListener(tenant)).key)
    await stranger.poll()
    // It served the deployment once, or has read a cookie.
    expect(await askAs(stranger, [{}])).toEqual([false])
    expect(await withClockAhead(13 * 3_600_000, () => ask({}))).toEqual([false])
    await runAsSystem(getApp().database, sql`delete from workspace_members where member_id = ${person.member_id}::uuid`)
    expect(await ask({})).toEqual([false])
    const next = await newSession(tenant, { workspaceRole: VIEWER })
    const second = { renewal: await grantTo(next) }
    expect(await ask(second)).toEqual([true])
    await runAsSystem(
      getApp().database,
      sql`update sessions set revoked_at = now() where member_id = ${next.member_id}::uuid`,
    )
    expect(await ask(second)).toEqual([false])
  })
})

describe('the protection of previews', () => {
  beforeEach(() => serveRepositories())

  it('is that of the policy for new previews, and of an older policy what it was', async () => {
    const { tenant, parent, pull, child } = await setUpPreviews({ branches: ['**'] })
    const path = getPolicyPath(parent.id)
    expect((await tenant.get(path)).body.protection).toEqual(OPEN)
    await pull('opened', 1)
    expect((await child()).protection).toEqual(OPEN)
    const set = await tenant.put(path, { branches: ['**'], protection: MEMBERS })
    expect([set.status, set.body.protection]).toEqual([200, MEMBERS])
    // Left out, it stays.
    expect((await tenant.put(path, { branches: ['**'], ttl: 3600 })).body.protection).toEqual(MEMBERS)
    const planned = await tenant.put(`${path}?dry_run=true`, { branches: ['**'], ttl: 3600 })
    expect(planned.body.changes).toEqual([])
    await pull('opened', 2)
    expect([(await child(1)).protection, (await child(2)).protection]).toEqual([OPEN, MEMBERS])
  })

  it('is on by default where the installation is public and the agent can', async () => {
    const { tenant, repository } = await setUpPreviews()
    const policyOf = async (features: FeatureName[]) => {
      const { listener, key } = await newListener(tenant)
      await makeSyncAgent(tenant, key).poll({ policy: { ...CLOSED_POLICY, features } })
      const { id } = await newRepositoryDeployment(tenant, repository)
      // An agent of the platform takes it over.
      await runAsSystem(
        getApp().database,
        sql`update deployments set listener_id = ${listener.id}::uuid where id = ${id}::uuid`,
      )
      return (await tenant.put(getPolicyPath(id), { branches: ['**'] })).body.protection
    }
    expect(await policyOf(['protection'])).toEqual({ mode: 'members', open_paths: [] })
    expect(await policyOf(['images'])).toEqual(OPEN)
  })

  it('is that of the parent for a preview by request, without a policy', async () => {
    const { tenant, create } = await newServed()
    const { id } = (await create({ protection: MEMBERS })).body
    const requested = await tenant.post(`/v2/deployments/${id}/previews`, {
      branch: 'try',
      image_uri: 'registry.example.com/shop:1',
    })
    await finishPendingWork()
    const { body } = await tenant.get(`/v2/deployments/${id}/previews/${requested.body.id}`)
    expect((await tenant.get(`/v2/deployments/${body.deployment_id}`)).body.protection).toEqual(MEMBERS)
  })
})
