// The table of SECURITY.md that says what can be made from each credential, and what ends it. Each row is walked: what
// the table does not list is refused, and what it lists ends with its credential, however that ends.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as oauth from 'oauth4webapi'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createPinnedFetch } from '../../../src/host/pinned-fetch.ts'
import { ADMIN, EDITOR, ORGANIZATION_ADMIN } from '../../../src/people/access/built-in-roles.ts'
import { TOKEN_EXCHANGE_GRANT } from '../../../src/people/authorization-server/token-exchange.ts'
import { GRANT_TYPE } from '../../../src/people/sign-in/device.ts'
import { type App, clock, newTenant, type Reply, send, startApp, type Tenant, unusedId } from '../../support/app.ts'
import { makeArchive } from '../../support/archives.ts'
import { openStream, startStreamingApp } from '../../support/live-streams.ts'
import { asSession, newSession, tokenOf } from '../../support/sessions.ts'
import { makeSigningRegistry } from '../../support/signing-registry.ts'
import { startTokenIssuer, type TokenIssuer } from '../../support/token-issuer.ts'
import { makeSourceBody } from '../../support/uploads-suite.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const CALLBACK = 'http://127.0.0.1/callback'
const VERIFIER = 'v'.repeat(43)

let app: App
let tenant: Tenant
let issuer: TokenIssuer
let registry: Awaited<ReturnType<typeof makeSigningRegistry>>
let source: string
let image: string
let headers: Record<string, string>
let challenge: string
let client_id: string
beforeAll(async () => {
  ;[registry, issuer] = await Promise.all([makeSigningRegistry(), startTokenIssuer()])
  const foreignFetch = createPinnedFetch({ allowLoopback: true })
  app = startApp({ settings: registry.settings, overrides: { allowLoopback: true, foreignFetch } })
  tenant = await newTenant({ app })
  headers = { 'X-Tenant-Id': tenant.tenant_id }
  source = (await tenant.post('/v2/deployments', makeSourceBody())).body.id
  image = (await tenant.post('/v2/deployments', makeSourceBody({ source: 'internal_container' }))).body.id
  challenge = await oauth.calculatePKCECodeChallenge(VERIFIER)
  client_id = (await send('POST', '/oauth/register', { app, body: { redirect_uris: [CALLBACK] } })).body.client_id
})
afterEach(() => {
  clock.ahead = 0
})
afterAll(() => issuer.close())

/** Does not use `send()`: a refresh writes no event. */
async function sendForm(path: string, fields: Record<string, string>) {
  const request = new Request(`http://slipway.test${path}`, { method: 'POST', body: new URLSearchParams(fields) })
  const response = await app.fetch(request)
  const text = await response.text()
  return { status: response.status, body: text ? JSON.parse(text) : undefined }
}
/** Everything else than a success is a refusal of the caller. */
function isMade({ status, body }: { status: number; body: { code?: string } }): boolean {
  if (status >= 400) expect([401, 403], body.code).toContain(status)
  return status < 400
}

type Caller = Pick<Tenant, 'get' | 'post' | 'delete'>
type Person = Caller & { member_id: string; token: string }
type IsAlive = () => Promise<boolean>

const isOpen = async ({ get }: Pick<Caller, 'get'>) => (await get('/v2/me')).status === 200
const isLiving =
  (caller: Pick<Caller, 'get'>): IsAlive =>
  () =>
    isOpen(caller)
const newPerson = async (organizationRole = ORGANIZATION_ADMIN): Promise<Person> => {
  const { member_id, token } = await newSession(tenant, { organizationRole, workspaceRole: ADMIN })
  return { member_id, ...asSession(token, app) }
}
const endMember = async (member_id: string) => {
  expect((await tenant.owner.delete(`/orgs/current/members/${member_id}`)).status).toBe(204)
}

// ---- credentials that can be made

async function useLink({ body }: Reply): Promise<string | undefined> {
  const token = body.url.split('#')[1]
  return tokenOf(await send('POST', '/sign-in/link', { app, body: { token } }))
}
async function connectDevice(person: Caller) {
  const { body } = await sendForm('/device/code', { client_id: 'slipway-cli' })
  const { device_code, user_code } = body
  const approval = { workspace_id: tenant.tenant_id, access: 'all' }
  if (!isMade(await person.post(`/v2/me/device-requests/${user_code}/approval`, approval))) return undefined
  return (await sendForm('/device/token', { grant_type: GRANT_TYPE, client_id: 'slipway-cli', device_code })).body
}
async function connectClient(person: Caller) {
  const query = { response_type: 'code', client_id, redirect_uri: CALLBACK, code_challenge: challenge }
  const asked = new URLSearchParams({ ...query, code_challenge_method: 'S256' })
  const shown = await person.get(`/v2/me/authorization-request?${asked}`)
  if (!isMade(shown)) return undefined
  const approval = { request: shown.body.request, workspace_id: tenant.tenant_id, access: 'all' }
  const approved = await person.post('/v2/me/authorizations', approval)
  const code = new URL(approved.body.redirect_url).searchParams.get('code')!
  const form = { client_id, redirect_uri: CALLBACK, code, code_verifier: VERIFIER }
  return (await sendForm('/oauth/token', { grant_type: 'authorization_code', ...form })).body
}
const trust = (by: Caller) => {
  const trusted = { name: unusedId(), issuer: issuer.origin, audience: 'https://slipway.example.com' }
  return by.post('/v2/trusted-issuers', { ...trusted, subject: unusedId(), role_id: EDITOR }, headers)
}
async function exchange({ audience: aud, subject: sub }: { audience: string; subject: string }) {
  const subject_token = await issuer.sign({ sub, aud }, { now: Date.now() + clock.ahead })
  const type = 'urn:ietf:params:oauth:token-type:jwt'
  const form = { grant_type: TOKEN_EXCHANGE_GRANT, subject_token, subject_token_type: type }
  return sendForm('/oauth/token', { ...form, audience: tenant.tenant_id })
}

/** Each makes one thing, and returns how to see whether it still lets anyone in. Undefined where it is refused. */
const MADE: Record<string, (by: Caller, of?: { member_id: string }) => Promise<IsAlive | undefined>> = {
  async key(by) {
    const reply = await by.post('/workspaces/current/api-keys', { description: 'made' }, headers)
    return isMade(reply) ? isLiving(tenant.as(reply.body.key)) : undefined
  },
  async session(by) {
    const reply = await by.post('/v2/me/sessions')
    return isMade(reply) ? isLiving(asSession(tokenOf(reply)!, app)) : undefined
  },
  /** One link that was used, and one that was not. */
  async 'sign-in link'(by, of) {
    const { member_id } = of ?? (await newPerson())
    const path = `/orgs/current/members/${member_id}/sign-in-links`
    const [used, unused] = [await by.post(path), await by.post(path)]
    if (!isMade(used)) return undefined
    const session = asSession((await useLink(used))!, app)
    return async () => {
      const alive = [await isOpen(session), (await useLink(unused)) !== undefined]
      expect(new Set(alive).size).toBe(1)
      return alive[0]!
    }
  },
  async 'trusted issuer'(by) {
    const reply = await trust(by)
    return isMade(reply) ? async () => (await exchange(reply.body)).status === 200 : undefined
  },
  async device(by) {
    const made = await connectDevice(by)
    return made && isLiving(tenant.as(made.access_token))
  },
  async 'connected program'(by) {
    const made = await connectClient(by)
    const form = { grant_type: 'refresh_token', client_id, refresh_token: made?.refresh_token }
    return made && (async () => (await sendForm('/oauth/token', form)).status === 200)
  },
  async 'upload link'(by) {
    const reply = await by.post(`/v2/deployments/${source}/upload-url`, undefined, headers)
    if (!isMade(reply)) return undefined
    const { pathname, search } = new URL(reply.body.upload_url)
    return async () => (await send('PUT', pathname + search, { app, raw: await makeArchive() })).status === 200
  },
  async 'push token'(by) {
    const reply = await by.post(`/v2/deployments/${image}/push-token`, undefined, headers)
    return isMade(reply) ? async () => (await registry.ask(app, reply.body.token, [])).status === 200 : undefined
  },
}

// ---- the credentials, and what ends them

type Credential = {
  by: Caller
  of?: { member_id: string }
  ends: Record<string, () => Promise<unknown>>
}
const passTime = (ms: number) => async () => {
  clock.ahead = ms
}
const KEYS = '/orgs/current/api-keys'
const newKey = async (by: Caller = tenant.owner, body: object = {}) =>
  (await by.post(KEYS, { description: 'maker', ...body })).body as { id: string; key: string }
const revokeKey = async ({ id }: { id: string }) => {
  expect((await tenant.owner.delete(`${KEYS}/${id}`)).status).toBe(204)
}
/** This is earlier than the expiry of the things that it makes. */
const soon = () => new Date(Date.now() + 5 * MINUTE_MS).toISOString()
const personOf = (token: string, member_id: string): Person => ({ member_id, ...asSession(token, app) })

const CREDENTIALS: Record<string, () => Promise<Credential>> = {
  async key() {
    const maker = await newKey()
    const key = await newKey(tenant.as(maker.key), { expires_at: soon() })
    return {
      by: tenant.as(key.key),
      ends: { revocation: () => revokeKey(key), expiry: passTime(6 * MINUTE_MS), 'its maker': () => revokeKey(maker) },
    }
  },
  async 'session of a key'() {
    const key = await newKey(tenant.owner, { expires_at: soon() })
    const token = tokenOf(await tenant.as(key.key).post('/v2/me/sessions'))!
    return { by: asSession(token, app), ends: { 'its key': () => revokeKey(key) } }
  },
  async 'key of a device'() {
    const person = await newPerson()
    const { access_token } = (await connectDevice(person))!
    const by = tenant.as(access_token)
    return {
      by,
      ends: {
        revocation: () => by.delete('/v2/me/api-key'),
        expiry: passTime(91 * DAY_MS),
        'its member': () => endMember(person.member_id),
      },
    }
  },
  async 'access token of a connected program'() {
    const person = await newPerson()
    const { access_token, refresh_token } = (await connectClient(person))!
    const form = { grant_type: 'refresh_token', client_id, refresh_token }
    return {
      by: tenant.as(access_token),
      ends: {
        refresh: async () => expect((await sendForm('/oauth/token', form)).status).toBe(200),
        expiry: passTime(HOUR_MS + 1000),
        disconnection: () => sendForm('/oauth/revoke', { token: refresh_token, client_id }),
        'its member': () => endMember(person.member_id),
      },
    }
  },
  async 'key of a job'() {
    const granting = (await tenant.post('/workspaces/current/api-keys', { description: 'grants', role_id: ADMIN })).body
    const subject = unusedId()
    const trusted = (
      await tenant.as(granting.key).post('/v2/trusted-issuers', {
        name: subject,
        issuer: issuer.origin,
        audience: 'https://slipway.example.com',
        subject,
        role_id: ADMIN,
      })
    ).body
    const { access_token } = (await exchange(trusted)).body
    return {
      by: tenant.as(access_token),
      ends: {
        expiry: passTime(15 * MINUTE_MS + 1000),
        'its trusted issuer': () => tenant.delete(`/v2/trusted-issuers/${trusted.id}`),
        'the key that trusted it': () => tenant.delete(`/workspaces/current/api-keys/${granting.id}`),
      },
    }
  },
  async 'session of a member'() {
    const person = await newPerson()
    return {
      by: person,
      of: person,
      ends: {
        'sign-out': () => person.delete('/v2/me/sessions/current'),
        'seven idle days': passTime(7 * DAY_MS + MINUTE_MS),
        'its member': () => endMember(person.member_id),
      },
    }
  },
  async 'session by a link of a key'() {
    const key = await newKey(tenant.owner, { expires_at: soon() })
    const { member_id } = await newPerson()
    const link = await tenant.as(key.key).post(`/orgs/current/members/${member_id}/sign-in-links`)
    const by = personOf((await useLink(link))!, member_id)
    return { by, ends: { 'its key': () => revokeKey(key), expiry: passTime(6 * MINUTE_MS) } }
  },
}

// ---- the table

const security = readFileSync(join(import.meta.dirname, '../../../SECURITY.md'), 'utf8')
const [, section = ''] = /## What is made from a credential\n(.*?)\n## /s.exec(security) ?? []
const listOf = (cell: string) => (cell === '–' ? [] : cell.split(', '))
const rows = [...section.matchAll(/^\| \*\*(.+?)\*\* \| (.+?) \| (.+?) \| (.+?) \|$/gm)].map(([, name, ...cells]) => {
  const [endsWithIt, stays, ends] = cells.map(listOf)
  return { name: name!, endsWithIt: endsWithIt!, stays: stays!, ends: ends! }
})

it('the table has every credential that makes others', () => {
  expect(rows.map(({ name }) => name).sort()).toEqual(Object.keys(CREDENTIALS).sort())
})

describe.each(rows)('$name', ({ name, endsWithIt, stays, ends }) => {
  const start = () => CREDENTIALS[name]!()

  it('makes the credentials that the table lists, and no others', async () => {
    const { by, of } = await start()
    const made: string[] = []
    for (const [thing, make] of Object.entries(MADE)) {
      const isAlive = await make(by, of)
      if (!isAlive) continue
      made.push(thing)
      expect(await isAlive(), thing).toBe(true)
    }
    expect(made.sort()).toEqual([...endsWithIt, ...stays].sort())
  })

  it('has the ends of the table, and its credentials end with each', async () => {
    expect(Object.keys((await start()).ends).sort()).toEqual([...ends].sort())
    for (const end of ends) {
      const { by, of, ends } = await start()
      const things = await Promise.all(endsWithIt.map(async thing => [thing, await MADE[thing]!(by, of)] as const))
      const remaining = await Promise.all(
        (end === 'its member' ? [] : stays).map(async thing => [thing, await MADE[thing]!(by, of)] as const),
      )
      await ends[end]!()
      expect(await isOpen(by), end).toBe(false)
      for (const [thing, isAlive] of things) expect([end, thing, await isAlive!()]).toEqual([end, thing, false])
      // Things that stay may still expire by themselves as time passes.
      if (clock.ahead === 0)
        for (const [thing, isAlive] of remaining) expect([end, thing, await isAlive!()]).toEqual([end, thing, true])
      clock.ahead = 0
    }
  })
})

// ---- cases outside of the table

describe('a refresh of an access token', () => {
  const connect = async () => (await connectClient(await newPerson()))!
  const refresh = async (refresh_token: string) =>
    (await sendForm('/oauth/token', { grant_type: 'refresh_token', client_id, refresh_token })).body

  it('ends the answers that the old one would get again, and acts on none of them twice', async () => {
    const { access_token, refresh_token } = await connect()
    const key = { 'Idempotency-Key': unusedId() }
    const body = { key: unusedId() }
    const create = (token: string) => tenant.as(token).post('/v2/tag-keys', body, key)
    expect((await create(access_token)).status).toBe(201)
    expect((await create(access_token)).headers.get('Idempotency-Replayed')).toBe('true')
    const next = await refresh(refresh_token)
    const again = await create(next.access_token)
    expect([again.status, again.body.code]).toEqual([422, 'idempotency_key_reused'])
  })

  it('ends the keys of keys, also where a request with the old one makes a key at that moment', async () => {
    const { access_token, refresh_token } = await connect()
    const create = (token: string) => tenant.as(token).post('/workspaces/current/api-keys', { description: 'made' })
    const child = (await create(access_token)).body.key
    const grandchild = (await create(child)).body.key
    const [racing] = await Promise.all([create(access_token), refresh(refresh_token)])
    for (const key of [child, grandchild, racing.body.key].filter(Boolean))
      expect(await isOpen(tenant.as(key)), key).toBe(false)
  })

  it('ends streams', async () => {
    const { access_token, refresh_token } = await connect()
    const streaming = startStreamingApp()
    const stream = await openStream(streaming, { key: access_token }, '/v2/events/stream')
    await refresh(refresh_token)
    for (let item = await stream.next(); item !== undefined; item = await stream.next());
    expect(await isOpen(tenant.as(access_token))).toBe(false)
  })
})

it('a key that was made with a temporary one opens no session and trusts no issuer', async () => {
  const { access_token } = (await connectClient(await newPerson()))!
  const made = await tenant.as(access_token).post('/workspaces/current/api-keys', { description: 'made' })
  const child = tenant.as(made.body.key)
  for (const { status, body } of [await child.post('/v2/me/sessions'), await trust(child)])
    expect([status, body.code]).toEqual([403, 'temporary_key'])
})
