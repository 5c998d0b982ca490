// Links that sign a member in once, and the page that uses them.
import { beforeAll, describe, expect, it } from 'vitest'
import { newLinkToken } from '../../../src/kernel/crypto/crypto.ts'
import { ORGANIZATION_ADMIN } from '../../../src/people/access/built-in-roles.ts'
import { createOperatorLink } from '../../../src/people/sign-in/links.ts'
import {
  getApp,
  newTenant,
  readEvents,
  send,
  startApp,
  type Tenant,
  unusedId,
  withClockAhead,
} from '../../support/app.ts'
import { asSession, newSession, tokenOf } from '../../support/sessions.ts'

const MINUTE_MS = 60_000
let tenant: Tenant
beforeAll(async () => {
  tenant = await newTenant()
})

const addMember = async (body: object = {}) =>
  (await tenant.owner.post('/orgs/current/members', { email: `${unusedId()}@example.com`, ...body })).body
const createLink = (member_id: string, headers = {}) =>
  tenant.owner.post(`/orgs/current/members/${member_id}/sign-in-links`, undefined, headers)
const linkTokenOf = (url: string) => url.split('#')[1]!
const useLink = (token: string, headers: Record<string, string> = {}) =>
  send('POST', '/sign-in/link', { body: { token }, headers: { 'User-Agent': 'Browser', ...headers } })

const startLimitedApp = (settings: Record<string, string> = {}) =>
  startApp({
    settings: { UNKNOWN_KEYS_PER_MINUTE: '2', ...settings },
    overrides: { clientAddress: () => '192.0.2.1' },
  })

describe('a sign-in link', () => {
  it('has its token in the fragment, and signs the member in once', async () => {
    const member = await addMember({ full_name: 'Ada Lovelace' })
    const { status, body, headers } = await createLink(member.id)
    expect([status, new URL(body.url).pathname]).toEqual([201, '/sign-in'])
    expect((await readEvents(headers.get('X-Request-Id')!))[0]).toMatchObject({ type: 'sign_in_link.created' })
    const opened = await useLink(linkTokenOf(body.url))
    expect(opened.status).toBe(201)
    expect(opened.body).toMatchObject({ method: 'link', user_agent: 'Browser', is_current: true })
    const me = (await asSession(tokenOf(opened)!).get('/v2/me')).body
    expect(me).toMatchObject({ member: { id: member.id, full_name: 'Ada Lovelace' }, session: { id: opened.body.id } })
    const [event] = await readEvents(opened.headers.get('X-Request-Id')!)
    expect(event).toMatchObject({ type: 'session.opened', actor_kind: 'session', actor_id: member.id })

    const again = await useLink(linkTokenOf(body.url))
    expect([again.status, again.body.code]).toEqual([401, 'sign_in_link_invalid'])
    expect(again.headers.get('Set-Cookie')).toBeNull()
    const [refusal] = await readEvents(again.headers.get('X-Request-Id')!)
    expect(refusal).toMatchObject({
      type: 'session.refused',
      subject_id: member.id,
      actor_kind: 'visitor',
      actor_id: null,
      data: expect.stringContaining('"used"'),
      request: expect.stringContaining('"user_agent":"Browser"'),
    })
  })

  it('adds at most 60 refusals an hour to the journal of an organization', async () => {
    const { owner } = await newTenant()
    const useAgain = async () => {
      const refused = await useLink(token)
      return readEvents(refused.headers.get('X-Request-Id')!)
    }
    const { body: member } = await owner.post('/orgs/current/members', { email: 'ada@example.com' })
    const { body: link } = await owner.post(`/orgs/current/members/${member.id}/sign-in-links`)
    const token = linkTokenOf(link.url)
    await useLink(token)
    expect((await Promise.all(Array.from({ length: 65 }, useAgain))).flat()).toHaveLength(60)
    expect(await withClockAhead(61 * MINUTE_MS, useAgain)).toHaveLength(1)
  })

  it('signs in one of two requests at the same time', async () => {
    const token = linkTokenOf((await createLink((await addMember()).id)).body.url)
    const statuses = (await Promise.all([useLink(token), useLink(token)])).map(({ status }) => status)
    expect(statuses.sort()).toEqual([201, 401])
  })

  it('works for 15 minutes', async () => {
    const { url } = (await createLink((await addMember()).id)).body
    await withClockAhead(15.1 * MINUTE_MS, async () => expect((await useLink(linkTokenOf(url))).status).toBe(401))
    await withClockAhead(14.9 * MINUTE_MS, async () => expect((await useLink(linkTokenOf(url))).status).toBe(201))
  })

  it('is the same when its creation is repeated under an idempotency key', async () => {
    const member = await addMember()
    const headers = { 'Idempotency-Key': unusedId() }
    expect((await createLink(member.id, headers)).body).toEqual((await createLink(member.id, headers)).body)
  })

  it('is refused for a member with permissions that the caller lacks', async () => {
    const permissions = ['organization:read', 'organization:manage-members']
    const role = { scope: 'organization', display_name: unusedId(), permissions }
    const organizationRole = (await tenant.owner.post('/orgs/current/roles', role)).body.id
    const manager = await newSession(tenant, { organizationRole })
    const admin = await addMember({ role_id: ORGANIZATION_ADMIN })
    const path = (id: string) => `/orgs/current/members/${id}/sign-in-links`
    expect((await manager.post(path(admin.id))).body.code).toBe('role_exceeds_actor')
    expect((await manager.post(path((await addMember()).id))).status).toBe(201)
  })

  it('ends with its member', async () => {
    const member = await addMember()
    const { url } = (await createLink(member.id)).body
    await tenant.owner.delete(`/orgs/current/members/${member.id}`)
    expect((await useLink(linkTokenOf(url))).status).toBe(401)
  })

  it.each(['cross-site', 'same-site'])('is refused to a page whose request is %s', async site => {
    const { url } = (await createLink((await addMember()).id)).body
    const reply = await useLink(linkTokenOf(url), { 'Sec-Fetch-Site': site })
    expect([reply.status, reply.body.code]).toEqual([403, 'cross_site_request'])
    expect((await useLink(linkTokenOf(url), { 'Sec-Fetch-Site': 'same-origin' })).status).toBe(201)
  })

  it('is refused in a form', async () => {
    const { url } = (await createLink((await addMember()).id)).body
    const raw = new TextEncoder().encode(JSON.stringify({ token: linkTokenOf(url) }))
    for (const type of ['text/plain', 'application/x-www-form-urlencoded']) {
      const reply = await send('POST', '/sign-in/link', { raw, headers: { 'Content-Type': type } })
      expect([reply.status, reply.body.code]).toEqual([415, 'not_json'])
    }
  })

  it.each([
    ['guessed', 'sign_in_link_invalid', () => newLinkToken()],
    ['sent malformed', 'invalid_request', () => 1],
  ])('cannot be %s without limit', async (_, code, newToken) => {
    const app = startLimitedApp()
    const codes = []
    for (let i = 0; i < 3; i++) {
      const reply = await send('POST', '/sign-in/link', { body: { token: newToken() }, app })
      codes.push(reply.body.code)
    }
    expect(codes).toEqual([code, code, 'address_rate_limited'])
  })

  it('can be created by the operator, for members only', async () => {
    const { email, id } = await addMember()
    const { organization_id } = tenant
    const token = await createOperatorLink(getApp().database, { organization_id, email })
    expect((await asSession(tokenOf(await useLink(token!))!).get('/v2/me')).body.member.id).toBe(id)
    const stranger = { organization_id, email: 'stranger@example.com' }
    expect(await createOperatorLink(getApp().database, stranger)).toBeNull()
  })
})

it('one address cannot have the identity provider asked without limit', async () => {
  const app = startLimitedApp({
    OIDC_ISSUER: 'https://idp.example.com',
    OIDC_CLIENT_ID: 'slipway',
    OIDC_CLIENT_SECRET: 'hush-oidc-secret',
  })
  const statuses = []
  for (let i = 0; i < 3; i++) statuses.push((await send('GET', '/sign-in/oidc', { app })).status)
  expect(statuses).toEqual([502, 502, 429])
})

it.each(['/sign-in', '/device'])('the page %s runs no script but its own', async path => {
  const page = await send('GET', path)
  expect(page.headers.get('Content-Security-Policy')).toMatch(/^default-src 'none'; script-src 'self'; /)
  expect(page.text).toContain(`<script type="module" src="${path}/page.js"></script>`)
  const script = await send('GET', `${path}/page.js`)
  expect(script.headers.get('Content-Type')).toBe('text/javascript; charset=utf-8')
})
