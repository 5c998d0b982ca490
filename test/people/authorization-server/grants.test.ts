// Programs that people connect by OAuth: how published clients do it, what their tokens may do, and how they end.
import * as modern from '@modelcontextprotocol/client'
import * as earlier from '@modelcontextprotocol/sdk/client/auth.js'
import { sql } from 'drizzle-orm'
import * as oauth from 'oauth4webapi'
import { beforeAll, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { newRefreshToken, tokenFamilyOf } from '../../../src/kernel/crypto/crypto.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { EDITOR, VIEWER } from '../../../src/people/access/built-in-roles.ts'
import {
  type App,
  foreignServers,
  newTenant,
  readEvents,
  send,
  startApp,
  type Tenant,
  unusedId,
  withClockAhead,
} from '../../support/app.ts'
import { makeFakeFetch } from '../../support/fake-fetch.ts'
import { asSession, newSession } from '../../support/sessions.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
/** Published clients send tokens only to https, or to this machine. */
const ORIGIN = 'http://localhost'
const CALLBACK = 'http://127.0.0.1:3334/callback'
const CLIENT_ID = 'https://assistant.example.com/client.json'
const DOCUMENT = {
  client_id: CLIENT_ID,
  client_name: 'Example assistant',
  redirect_uris: ['http://127.0.0.1/callback'],
}

let tenant: Tenant
let app: App
let session: Awaited<ReturnType<typeof newSession>>
beforeAll(async () => {
  tenant = await newTenant()
  app = startApp({ settings: { PUBLIC_URL: ORIGIN } })
  session = await newPerson()
})

async function newPerson(workspaceRole = EDITOR) {
  const made = await newSession(tenant, { workspaceRole })
  return { ...made, ...asSession(made.token, app) }
}
const fetchApp = (input: string | URL | Request, init?: RequestInit): Promise<Response> =>
  Promise.resolve(app.fetch(new Request(input, init)))
const serveDocument = (document: object) => {
  foreignServers.fetch = makeFakeFetch({ 'https://assistant.example.com': { '/client.json': document } })
}
/** Does not use `send()`: a refresh writes no event. */
async function sendForm(path: string, form: Record<string, string>, headers: Record<string, string> = {}) {
  const response = await fetchApp(ORIGIN + path, { method: 'POST', body: new URLSearchParams(form), headers })
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: text ? JSON.parse(text) : undefined }
}

/** The page does this with its query. */
const look = (query: URLSearchParams, person = session) => person.get(`/v2/me/authorization-request?${query}`)
async function approve(query: URLSearchParams, person = session, access = 'all') {
  const { status, body } = await look(query, person)
  expect([status, body.code]).toEqual([200, undefined])
  const approval = { request: body.request, workspace_id: tenant.tenant_id, access }
  const reply = await person.post('/v2/me/authorizations', approval)
  expect([reply.status, reply.body.code]).toEqual([201, undefined])
  return { answer: new URL(reply.body.redirect_url), reply, shown: body }
}

const verifier = 'v'.repeat(43)
const query = async (more: Record<string, string> = {}) =>
  new URLSearchParams({
    response_type: 'code',
    client_id: CLIENT_ID,
    redirect_uri: CALLBACK,
    code_challenge_method: 'S256',
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    ...more,
  })
const codeForm = (code: string) => ({
  grant_type: 'authorization_code',
  client_id: CLIENT_ID,
  redirect_uri: CALLBACK,
  code,
  code_verifier: verifier,
})
const newCode = async (person = session, access = 'all') => {
  serveDocument(DOCUMENT)
  return (await approve(await query(), person, access)).answer.searchParams.get('code')!
}
type Tokens = { access_token: string; refresh_token: string; api_key_id: string; scope: string; expires_in: number }
const connect = async (person = session, access = 'all'): Promise<Tokens> =>
  (await sendForm('/oauth/token', codeForm(await newCode(person, access)))).body
const refreshForm = (refresh_token: string) => ({ grant_type: 'refresh_token', client_id: CLIENT_ID, refresh_token })
const refresh = (refresh_token: string, headers = {}) => sendForm('/oauth/token', refreshForm(refresh_token), headers)
const readMe = (key: string) => send('GET', '/v2/me', { headers: { Authorization: `Bearer ${key}` }, app })
const outcomeOf = ({ status, body }: { status: number; body: { error?: string; code?: string } }) => [
  status,
  body?.error ?? body?.code,
]

describe('a published client connects, refreshes and disconnects', () => {
  /** An MCP client keeps this state. */
  function newProvider(more: object = {}) {
    const kept: Record<string, unknown> = {}
    const keep = (name: string) => (value: unknown) => {
      kept[name] = value
    }
    const provider = {
      redirectUrl: CALLBACK,
      clientMetadata: { client_name: 'Example assistant', redirect_uris: [CALLBACK] },
      state: () => 'state-1',
      clientInformation: () => kept.client,
      saveClientInformation: keep('client'),
      tokens: () => kept.tokens,
      saveTokens: keep('tokens'),
      redirectToAuthorization: keep('url'),
      saveCodeVerifier: keep('verifier'),
      codeVerifier: () => kept.verifier as string,
      saveDiscoveryState: keep('discovery'),
      discoveryState: () => kept.discovery,
      ...more,
    }
    return { kept, provider: provider as never }
  }
  const auths = { '@modelcontextprotocol/client': modern.auth, '@modelcontextprotocol/sdk': earlier.auth }

  it.each(
    Object.entries(auths).flatMap(([name, auth]) => [
      [name, 'registers itself', auth, {}] as const,
      [name, 'has a metadata document', auth, { clientMetadataUrl: CLIENT_ID }] as const,
    ]),
  )('%s, which %s', async (_, how, auth, more) => {
    serveDocument(DOCUMENT)
    const { kept, provider } = newProvider(more)
    const options = { serverUrl: `${ORIGIN}/mcp`, fetchFn: fetchApp as typeof fetch }
    expect(await auth(provider, options)).toBe('REDIRECT')
    const asked = kept.url as URL
    expect(asked.origin + asked.pathname).toBe(`${ORIGIN}/oauth/authorize`)
    expect(asked.searchParams.get('resource')).toBe(`${ORIGIN}/mcp`)
    const { answer, shown } = await approve(asked.searchParams)
    expect(shown.client).toMatchObject({
      name: 'Example assistant',
      host: how === 'registers itself' ? null : 'assistant.example.com',
    })
    expect(Object.fromEntries(answer.searchParams)).toMatchObject({ state: 'state-1', iss: ORIGIN })
    const authorizationCode = answer.searchParams.get('code')!
    expect(await auth(provider, { ...options, authorizationCode, iss: ORIGIN } as never)).toBe('AUTHORIZED')
    const first = kept.tokens as Tokens
    expect((await readMe(first.access_token)).body.api_key.member.id).toBe(session.member_id)
    expect(await auth(provider, options)).toBe('AUTHORIZED')
    const second = kept.tokens as Tokens
    expect(second.access_token).not.toBe(first.access_token)
    expect((await readMe(second.access_token)).status).toBe(200)
    expect(outcomeOf(await readMe(first.access_token))).toEqual([401, 'key_unknown'])
  })

  it('oauth4webapi', async () => {
    serveDocument(DOCUMENT)
    const options = { [oauth.customFetch]: fetchApp, [oauth.allowInsecureRequests]: true } as const
    const metadata = (await (await fetchApp(`${ORIGIN}/.well-known/oauth-authorization-server`)).json()) as never
    const client = { client_id: CLIENT_ID }
    const { answer } = await approve(await query({ state: 's', scope: 'deployments:read offline_access' }))
    const parameters = oauth.validateAuthResponse(metadata, client, answer, 's')
    const response = await oauth.authorizationCodeGrantRequest(
      ...([metadata, client, oauth.None(), parameters, CALLBACK, verifier, options] as const),
    )
    const tokens = await oauth.processAuthorizationCodeResponse(metadata, client, response)
    expect(tokens).toMatchObject({ scope: 'deployments:read', expires_in: 3600, token_type: 'bearer' })
    const refreshing = oauth.refreshTokenGrantRequest(metadata, client, oauth.None(), tokens.refresh_token!, options)
    const refreshed = await oauth.processRefreshTokenResponse(metadata, client, await refreshing)
    expect((await readMe(refreshed.access_token)).body.permissions).toEqual(['deployments:read'])
    const revocation = oauth.revocationRequest(metadata, client, oauth.None(), refreshed.refresh_token!, options)
    await oauth.processRevocationResponse(await revocation)
    expect(outcomeOf(await readMe(refreshed.access_token))).toEqual([401, 'key_revoked'])
    expect(outcomeOf(await refresh(refreshed.refresh_token!))).toEqual([400, 'invalid_grant'])
  })
})

describe('a connected client', () => {
  it('is one key of its member for as long as it is connected, and is disconnected with it', async () => {
    const requestId = `trip-code-${unusedId()}`
    const reply = await sendForm('/oauth/token', codeForm(await newCode()), { 'X-Request-Id': requestId })
    const first: Tokens = reply.body
    expect(await countTrips(requestId)).toBe(1)
    const [created] = await readEvents(requestId)
    expect(created).toMatchObject({
      type: 'api_key.created',
      subject_id: first.api_key_id,
      tenant_id: tenant.tenant_id,
    })
    expect(JSON.parse(created!.data as string)).toEqual({
      client_id: CLIENT_ID,
      client_name: 'Example assistant',
      member_id: session.member_id,
    })
    await withClockAhead(89 * DAY_MS, async () => {
      expect(outcomeOf(await readMe(first.access_token))).toEqual([401, 'key_expired'])
      const { body: second } = await refresh(first.refresh_token)
      expect(second).toMatchObject({ api_key_id: first.api_key_id, scope: first.scope, expires_in: 3600 })
      const { body: key } = await tenant.get(`/workspaces/current/api-keys/${first.api_key_id}`)
      expect(key).toMatchObject({
        description: 'Example assistant',
        member: { id: session.member_id },
        client: { id: CLIENT_ID, name: 'Example assistant' },
      })
      expect(Date.parse(key.client.expires_at) - Date.parse(key.expires_at)).toBe(90 * DAY_MS - HOUR_MS)
      const { resources } = (await tenant.get('/workspaces/current/api-keys?limit=100')).body
      expect(resources.filter(({ id }: { id: string }) => id === first.api_key_id)).toHaveLength(1)
      expect((await tenant.delete(`/workspaces/current/api-keys/${first.api_key_id}`)).status).toBe(204)
      expect(outcomeOf(await refresh(second.refresh_token))).toEqual([400, 'invalid_grant'])
    })
  })

  it('ends when it does not come back for 90 days', async () => {
    const { refresh_token, api_key_id } = await connect()
    await withClockAhead(91 * DAY_MS, async () => {
      expect(outcomeOf(await refresh(refresh_token))).toEqual([400, 'invalid_grant'])
    })
    const ofKey = sql`key_id = ${api_key_id}::uuid`
    const end = sql`update oauth_grants set expires_at = clock() - interval '11 minutes' where ${ofKey} returning id`
    expect((await runAsSystem(app.database, end))[0]).toHaveLength(1)
    await app.sweeps.sessions()
    expect((await runAsSystem(app.database, sql`select id from oauth_grants where ${ofKey}`))[0]).toEqual([])
  })

  it('can come back after 45 days where keys that ended are kept for 30', async () => {
    const { refresh_token, api_key_id } = await connect()
    const end = sql`
      update api_keys set expires_at = clock() - interval '45 days' where id = ${api_key_id}::uuid returning id`
    expect((await runAsSystem(app.database, end))[0]).toHaveLength(1)
    await startApp({ settings: { AUDIT_RETENTION_DAYS: '30' } }).sweeps.api_keys()
    expect((await refresh(refresh_token)).status).toBe(200)
  })

  it('gets the same tokens again for a minute, and is disconnected by an older token', async () => {
    const first = await connect()
    const replies = await Promise.all(Array.from({ length: 5 }, () => refresh(first.refresh_token)))
    const [second] = replies.map(({ body }) => body as Tokens)
    for (const { body } of replies)
      expect([body.access_token, body.refresh_token]).toEqual([second!.access_token, second!.refresh_token])
    expect((await readMe(second!.access_token)).status).toBe(200)
    await withClockAhead(1.1 * MINUTE_MS, async () => {
      const reply = await refresh(first.refresh_token)
      expect(outcomeOf(reply)).toEqual([400, 'invalid_grant'])
      const events = await readEvents(reply.headers.get('X-Request-Id')!)
      expect(events.map(({ type, actor_id }) => [type, actor_id])).toEqual([
        ['client.token_reused', first.api_key_id],
        ['api_key.revoked', first.api_key_id],
      ])
      expect(outcomeOf(await readMe(second!.access_token))).toEqual([401, 'key_revoked'])
      expect(outcomeOf(await refresh(second!.refresh_token))).toEqual([400, 'invalid_grant'])
    })
  })

  it('is disconnected by the oldest of its tokens, and not by one that was never issued', async () => {
    const first = await connect()
    const { body: second } = await refresh(first.refresh_token)
    const { body: third } = await refresh(second.refresh_token)
    expect(outcomeOf(await refresh(newRefreshToken()))).toEqual([400, 'invalid_grant'])
    const ofOther = { ...refreshForm(third.refresh_token), client_id: 'https://other.example.com/client.json' }
    expect(outcomeOf(await sendForm('/oauth/token', ofOther))).toEqual([400, 'invalid_grant'])
    expect((await readMe(third.access_token)).status).toBe(200)
    expect(tokenFamilyOf(first.refresh_token)).toBe(tokenFamilyOf(third.refresh_token))
    expect(outcomeOf(await refresh(first.refresh_token))).toEqual([400, 'invalid_grant'])
    expect(outcomeOf(await readMe(third.access_token))).toEqual([401, 'key_revoked'])
  })

  it('never has more permissions than its member has now, and none once the member has left', async () => {
    const person = await newPerson()
    const [all, read] = [await connect(person), await connect(person, 'read')]
    expect(all.scope.split(' ')).toContain('deployments:create')
    expect(read.scope.split(' ')).not.toContain('deployments:create')
    const { resources } = (await tenant.get('/workspaces/current/members?limit=100')).body
    const membership = resources.find(({ member_id }: { member_id: string }) => member_id === person.member_id)
    await tenant.patch(`/workspaces/current/members/${membership.id}`, { role_id: VIEWER })
    expect((await readMe(all.access_token)).body.permissions).not.toContain('deployments:create')
    const { body: next } = await refresh(all.refresh_token)
    expect(next.scope.split(' ').sort()).toEqual((await readMe(next.access_token)).body.permissions.toSorted())
    await tenant.delete(`/workspaces/current/members/${membership.id}`)
    expect(outcomeOf(await readMe(next.access_token))).toEqual([401, 'key_revoked'])
    expect(outcomeOf(await refresh(next.refresh_token))).toEqual([400, 'invalid_grant'])
  })

  it('that is the 51st of a member ends the one that was used least recently', async () => {
    const person = await newPerson()
    const first = await connect(person)
    await runAsSystem(
      app.database,
      sql`
        with keys as (
          insert into api_keys (organization_id, tenant_id, member_id, description, hint, key_hash, role_id, created_at)
          select organization_id, tenant_id, member_id, 'other', '', ${first.api_key_id} || n, role_id,
            created_at + interval '1 second'
          from api_keys
          cross join generate_series(1, 49) n
          where id = ${first.api_key_id}::uuid
          returning id, key_hash
        )
        insert into oauth_grants (
          organization_id, tenant_id, member_id, role_id, permissions, client_id, client_name, redirect_uri, resource,
          code_hash, code_challenge, key_id, expires_at
        )
        select
          organization_id, tenant_id, member_id, role_id, permissions, client_id, client_name, redirect_uri, resource,
          key_hash, code_challenge, keys.id, expires_at
        from oauth_grants g
        cross join keys
        where g.key_id = ${first.api_key_id}::uuid`,
    )
    const last = await connect(person)
    expect((await readMe(last.access_token)).status).toBe(200)
    expect(outcomeOf(await readMe(first.access_token))).toEqual([401, 'key_revoked'])
  })

  it('opens no session', async () => {
    const { access_token } = await connect(await newPerson())
    const opened = await send('POST', '/v2/me/sessions', { headers: { 'X-Api-Key': access_token }, app })
    expect(outcomeOf(opened)).toEqual([403, 'temporary_key'])
  })
})

describe('a code', () => {
  it('works once, for its client, its redirect URI and the holder of the verifier', async () => {
    const code = await newCode()
    const form = codeForm(code)
    const wrong: [Record<string, string>, string][] = [
      [{ code_verifier: 'w'.repeat(43) }, 'invalid_grant'],
      [{ client_id: 'https://other.example.com/client.json' }, 'invalid_grant'],
      [{ redirect_uri: 'http://127.0.0.1:3335/callback' }, 'invalid_grant'],
      [{ resource: 'https://other.example.com/mcp' }, 'invalid_target'],
      [{ resource: ORIGIN }, 'invalid_target'],
      [{ code_verifier: 'short' }, 'invalid_request'],
      [{ code: 'sla_x' }, 'invalid_grant'],
    ]
    for (const [more, error] of wrong)
      expect([more, ...outcomeOf(await sendForm('/oauth/token', { ...form, ...more }))]).toEqual([more, 400, error])
    const { body: tokens } = await sendForm('/oauth/token', form)
    expect((await readMe(tokens.access_token)).status).toBe(200)
    const again = await sendForm('/oauth/token', form)
    expect(outcomeOf(again)).toEqual([400, 'invalid_grant'])
    const events = await readEvents(again.headers.get('X-Request-Id')!)
    expect(events.map(({ type }) => type)).toEqual(['client.code_reused', 'api_key.revoked'])
    expect(outcomeOf(await readMe(tokens.access_token))).toEqual([401, 'key_revoked'])
  })

  it('is good for one client of 10 that redeem it at once, and for none after five minutes', async () => {
    const [code, late] = [await newCode(), await newCode()]
    const replies = await Promise.all(Array.from({ length: 10 }, () => sendForm('/oauth/token', codeForm(code))))
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(1)
    await withClockAhead(5.1 * MINUTE_MS, async () => {
      expect(outcomeOf(await sendForm('/oauth/token', codeForm(late)))).toEqual([400, 'invalid_grant'])
    })
  })
})

describe('a request for authorization', () => {
  it.each<[string, Record<string, string>, string]>([
    ['another redirect URI', { redirect_uri: 'https://evil.example.com/callback' }, 'invalid_redirect_uri'],
    ['another path on this machine', { redirect_uri: 'http://127.0.0.1:3334/other' }, 'invalid_redirect_uri'],
    ['a client id of another spelling', { client_id: 'https://ASSISTANT.example.com/client.json' }, 'invalid_client'],
    ['a client without a document', { client_id: 'https://assistant.example.com/none.json' }, 'invalid_client'],
    ['a client id that was never issued', { client_id: 'first.AAAA.AAAA' }, 'invalid_client'],
    ['a private address as client', { client_id: 'https://10.0.0.1/client.json' }, 'blocked_url'],
    ['an unknown scope', { scope: 'everything' }, 'invalid_scope'],
    ['a foreign resource', { resource: 'https://other.example.com/mcp' }, 'invalid_target'],
    ['the plain method of PKCE', { code_challenge_method: 'plain' }, 'invalid_request'],
    ['an implicit grant', { response_type: 'token' }, 'invalid_request'],
  ])('with %s is refused, and leads nowhere', async (_, more, code) => {
    serveDocument(DOCUMENT)
    const { status, body } = await look(await query(more))
    expect([status < 500, body.code]).toEqual([true, code])
    expect(body).not.toHaveProperty('denial_url')
  })

  it.each<[string, object]>([
    ['names another client', { client_id: 'https://assistant.example.com/other.json' }],
    ['has no redirect URI', { redirect_uris: [] }],
    ['wants a secret', { token_endpoint_auth_method: 'client_secret_basic' }],
  ])('by a client whose document %s is refused', async (_, more) => {
    serveDocument({ ...DOCUMENT, ...more })
    expect((await look(await query())).body.code).toBe('invalid_client')
  })

  it('can be decided by a member alone, in the session that has seen it, within ten minutes', async () => {
    serveDocument(DOCUMENT)
    const path = `/v2/me/authorization-request?${await query()}`
    expect(outcomeOf(await tenant.get(path))).toEqual([403, 'member_required'])
    const { body } = await look(await query())
    const approval = { request: body.request, workspace_id: tenant.tenant_id, access: 'all' }
    const other = await newPerson()
    expect((await other.post('/v2/me/authorizations', approval)).body.code).toBe('authorization_request_not_found')
    const foreign = await newTenant()
    const elsewhere = { ...approval, workspace_id: foreign.tenant_id }
    expect((await session.post('/v2/me/authorizations', elsewhere)).body.code).toBe('workspace_forbidden')
    for (const site of ['cross-site', 'same-site', 'none']) {
      const headers = { 'Sec-Fetch-Site': site }
      expect((await session.post('/v2/me/authorizations', approval, headers)).body.code).toBe('key_missing')
    }
    await withClockAhead(10.1 * MINUTE_MS, async () => {
      expect((await session.post('/v2/me/authorizations', approval)).body.code).toBe('authorization_request_not_found')
    })
  })

  it('has 20 codes at most that wait for their client', async () => {
    const person = await newPerson()
    const oldest = await newCode(person)
    const { body } = await look(await query(), person)
    const approval = { request: body.request, workspace_id: tenant.tenant_id, access: 'read' }
    for (let i = 0; i < 20; i++) expect((await person.post('/v2/me/authorizations', approval)).status).toBe(201)
    expect(outcomeOf(await sendForm('/oauth/token', codeForm(oldest)))).toEqual([400, 'invalid_grant'])
  })
})

it.each<[string, unknown, string]>([
  ['a script', { redirect_uris: ['javascript:alert(1)'] }, 'invalid_redirect_uri'],
  ['a scheme without a dot', { redirect_uris: ['search-ms:query=a'] }, 'invalid_redirect_uri'],
  ['a script in another spelling', { redirect_uris: ['JaVaScRiPt:alert(1)//a.b'] }, 'invalid_redirect_uri'],
  ['plain http elsewhere', { redirect_uris: ['http://example.com/'] }, 'invalid_redirect_uri'],
  ['a fragment', { redirect_uris: ['https://example.com/#a'] }, 'invalid_redirect_uri'],
  ['no redirect URI', { client_name: 'x' }, 'invalid_client_metadata'],
  [
    'too much',
    { redirect_uris: Array.from({ length: 10 }, () => `https://example.com/${'a'.repeat(200)}`) },
    'invalid_client_metadata',
  ],
])('no client is registered with %s', async (_, body, error) => {
  expect(outcomeOf(await send('POST', '/oauth/register', { body, app }))).toEqual([400, error])
})

it.each([
  ['https://example.com/callback', true],
  [CALLBACK, true],
  ['com.example.app:/callback', false],
  ['cursor://example/callback', false],
])('after a denial the page leads to %s: %s', async (redirect_uri, leads) => {
  const client = { redirect_uris: [redirect_uri] }
  const { client_id } = (await send('POST', '/oauth/register', { body: client, app })).body
  const { status, body } = await look(await query({ client_id, redirect_uri }))
  expect([status, typeof body.denial_url]).toEqual([200, leads ? 'string' : 'object'])
})

it('no name of a client hides or reorders characters, or ends in half of one', async () => {
  const names = {
    'Slip\u200bway\u202e': 'Slip way',
    [`${'a'.repeat(63)}\u{1f600}`]: 'a'.repeat(63),
    '\u2800 \u3164': 'A program without a name',
  }
  const redirect_uris = [CALLBACK]
  for (const [client_name, shown] of Object.entries(names)) {
    const { body } = await send('POST', '/oauth/register', { body: { client_name, redirect_uris }, app })
    expect(body.client_name).toBe(shown)
  }
})
