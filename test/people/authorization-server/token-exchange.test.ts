// Keys for the tokens of a CI: which tokens are exchanged, which are refused, and what the workspace learns of both.
import { createHmac, createPrivateKey, sign as signBytes } from 'node:crypto'
import { exportSPKI, importJWK } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { createPinnedFetch } from '../../../src/host/pinned-fetch.ts'
import { EDITOR, VIEWER } from '../../../src/people/access/built-in-roles.ts'
import { TOKEN_EXCHANGE_GRANT } from '../../../src/people/authorization-server/token-exchange.ts'
import {
  type App,
  newTenant,
  type Reply,
  readEvents,
  send,
  startApp,
  type Tenant,
  unusedId,
  withClockAhead,
} from '../../support/app.ts'
import { newSigningKey, startTokenIssuer, type TokenIssuer } from '../../support/token-issuer.ts'

const MINUTE_MS = 60_000
const SUBJECT = 'repo:acme/shop:ref:refs/heads/main'
const AUDIENCE = 'https://slipway.example.com'

let app: App
let tenant: Tenant
let issuer: TokenIssuer
beforeAll(async () => {
  app = startApp({ overrides: { allowLoopback: true, foreignFetch: createPinnedFetch({ allowLoopback: true }) } })
  tenant = await newTenant({ app })
  issuer = await startTokenIssuer()
  await trust(tenant)
})
afterAll(() => issuer.close())

async function trust(by: Pick<Tenant, 'post'>, members: Record<string, unknown> = {}) {
  const { status, body } = await by.post('/v2/trusted-issuers', {
    name: unusedId(),
    issuer: issuer.origin,
    audience: AUDIENCE,
    subject: 'repo:acme/shop:*',
    role_id: EDITOR,
    ...members,
  })
  expect(status).toBe(201)
  return body
}

const sign: TokenIssuer['sign'] = (claims, options) => issuer.sign({ sub: SUBJECT, aud: AUDIENCE, ...claims }, options)

const exchange = (subject_token: string, fields: Record<string, string> = {}, headers: Record<string, string> = {}) =>
  send('POST', '/oauth/token', {
    app,
    raw: new TextEncoder().encode(
      String(
        new URLSearchParams({
          grant_type: TOKEN_EXCHANGE_GRANT,
          subject_token,
          audience: tenant.tenant_id,
          subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
          ...fields,
        }),
      ),
    ),
    headers: { 'Content-Type': 'application/x-www-form-urlencoded', ...headers },
  })
const refusalOf = async ({ headers }: Reply) => {
  const [event] = await readEvents(headers.get('X-Request-Id')!, app)
  return event && { ...event, data: JSON.parse(event.data as string) }
}
const reasonOf = async (reply: Reply) => (await refusalOf(reply))?.data.reason
const REFUSED = [400, 'invalid_request']
const errorOf = ({ status, body }: Reply) => [status, body.error]

describe('a token of a trusted issuer', () => {
  it('is exchanged for a key of 15 minutes with the role, which the journal records', async () => {
    const trusted = await trust(tenant, { subject: SUBJECT, claims: { event_name: 'pu*' }, role_id: VIEWER })
    const requestId = `trip-exchange-${unusedId()}`
    const reply = await exchange(
      await sign({ event_name: 'push', jti: 'job-7', other: 'hidden' }),
      {},
      { 'X-Request-Id': requestId },
    )
    expect(reply).toMatchObject({ status: 200 })
    expect(reply.headers.get('Cache-Control')).toBe('no-store')
    const { access_token, scope, api_key_id, ...rest } = reply.body
    expect(rest).toEqual({
      issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      token_type: 'Bearer',
      expires_in: 900,
      workspace_id: tenant.tenant_id,
      organization_id: tenant.organization_id,
    })
    expect(await countTrips(requestId)).toBe(2)
    const job = tenant.as(access_token)
    const { body: me } = await job.get('/v2/me')
    expect(me.api_key).toMatchObject({ id: api_key_id, description: `${SUBJECT} (${issuer.origin})` })
    expect(scope.split(' ').sort()).toEqual([...me.permissions].sort())
    expect((await job.get('/v2/deployments')).status).toBe(200)
    expect((await job.post('/v2/tag-keys', { key: 'team' })).status).toBe(403)

    const [event] = await readEvents(requestId, app)
    expect(event).toMatchObject({
      type: 'api_key.created',
      subject_id: api_key_id,
      tenant_id: tenant.tenant_id,
      actor_kind: 'key',
      actor_id: api_key_id,
      actor_name: SUBJECT,
    })
    expect(JSON.parse(event!.data as string)).toEqual({
      trusted_issuer_id: trusted.id,
      issuer: issuer.origin,
      subject: SUBJECT,
      audience: AUDIENCE,
      claims: { event_name: 'push' },
      token_id: 'job-7',
    })
    const { body: read } = await tenant.get(`/v2/trusted-issuers/${trusted.id}`)
    expect(read).toMatchObject({ state: 'active', last_used_at: expect.any(String) })
    expect((await tenant.get(`/workspaces/current/api-keys/${api_key_id}`)).body.trusted_issuer_id).toBe(trusted.id)

    await withClockAhead(15.1 * MINUTE_MS, async () => {
      expect((await job.get('/v2/me')).body.code).toBe('key_expired')
      const { body: keys } = await tenant.get('/workspaces/current/api-keys?limit=100')
      expect(keys.resources.map(({ id }: { id: string }) => id)).not.toContain(api_key_id)
      await tenant.delete(`/v2/trusted-issuers/${trusted.id}`)
      const { body: left } = await tenant.get('/workspaces/current/api-keys?limit=100')
      expect(left.resources.map(({ id }: { id: string }) => id)).not.toContain(api_key_id)
    })
  })

  it('is exchanged with each algorithm of public keys', async () => {
    const keys = await Promise.all(['RS256', 'PS384', 'ES384', 'EdDSA'].map(newSigningKey))
    const other = await startTokenIssuer()
    try {
      other.publish(keys)
      await trust(tenant, { issuer: other.origin })
      for (const by of keys) {
        const token = await other.sign({ sub: SUBJECT, aud: [AUDIENCE, 'https://other.example.com'] }, { by })
        expect([by.alg, (await exchange(token)).status]).toEqual([by.alg, 200])
      }
    } finally {
      other.close()
    }
  })

  it('is exchanged for the permissions that the scope names, within the role', async () => {
    const narrow = await exchange(await sign(), { scope: 'deployments:read' })
    expect(narrow.body.scope).toBe('deployments:read')
    expect((await tenant.as(narrow.body.access_token).post('/v2/tag-keys', { key: 'x' })).status).toBe(403)
    for (const scope of ['deployments:read nonsense', 'api-keys:create'])
      expect(errorOf(await exchange(await sign(), { scope }))).toEqual([400, 'invalid_scope'])
  })

  it('is exchanged with an id that is no text, and the journal shows its claims', async () => {
    const subject = 'repo:acme/shop:ref:refs/heads/\u202ex\u{e0041}\u200b'
    const { status, body, headers } = await exchange(await sign({ jti: { toString: null } as never, sub: subject }))
    expect(status).toBe(200)
    const [event] = await readEvents(headers.get('X-Request-Id')!, app)
    expect(event!.actor_id).toBe(body.api_key_id)
    const seen = 'repo:acme/shop:ref:refs/heads/ x  '
    expect(JSON.parse(event!.data as string)).toMatchObject({ token_id: null, subject: seen })
  })

  it('gets the role of the trusted issuer that fixes the most of it', async () => {
    const exact = await trust(tenant, { subject: SUBJECT, role_id: VIEWER })
    const { body } = await exchange(await sign())
    const { body: key } = await tenant.get(`/workspaces/current/api-keys/${body.api_key_id}`)
    expect(key.trusted_issuer_id).toBe(exact.id)
    await tenant.delete(`/v2/trusted-issuers/${exact.id}`)
  })
})

describe('a token that is refused', () => {
  const now = () => Math.floor(Date.now() / 1000)
  const withSignatureOf = (header: object, payload: object, signer: (signed: string) => string) => {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const signed = `${part(header)}.${part(payload)}`
    return `${signed}.${signer(signed)}`
  }
  const claims = () => ({ iss: issuer.origin, sub: SUBJECT, aud: AUDIENCE, iat: now(), exp: now() + 300 })

  const cases: Record<string, [reason: string, make: () => Promise<string> | string]> = {
    'is signed by another key under the id of the right one': [
      'signature_invalid',
      async () => sign({}, { by: { ...(await newSigningKey()), kid: issuer.key().kid } }),
    ],
    'is signed by an unknown key': ['key_unknown', async () => sign({}, { by: await newSigningKey() })],
    'brings its own key': [
      'key_unknown',
      async () => {
        const by = await newSigningKey()
        return sign({}, { by, header: { jwk: by.jwk, jku: 'https://evil.example.com/keys' } })
      },
    ],
    'was changed after it was signed': [
      'signature_invalid',
      async () => {
        const [header, , signature] = (await sign()).split('.')
        const payload = Buffer.from(JSON.stringify({ ...claims(), sub: `${SUBJECT}-evil` })).toString('base64url')
        return `${header}.${payload}.${signature}`
      },
    ],
    'has no signature': [
      'algorithm_refused',
      () => withSignatureOf({ alg: 'none', kid: issuer.key().kid }, claims(), () => ''),
    ],
    'has no signature, in other letters': [
      'algorithm_refused',
      () => withSignatureOf({ alg: 'nOnE', kid: issuer.key().kid }, claims(), () => ''),
    ],
    'is signed with the public key as a secret': [
      'algorithm_refused',
      async () => {
        const secret = await exportSPKI(
          (await importJWK(issuer.key().jwk, 'ES256', { extractable: true })) as CryptoKey,
        )
        return withSignatureOf({ alg: 'HS256', kid: issuer.key().kid }, claims(), signed =>
          createHmac('sha256', secret).update(signed).digest('base64url'),
        )
      },
    ],
    'has a header that it calls critical': [
      'token_malformed',
      () => withSignatureOf({ alg: 'ES256', kid: issuer.key().kid, crit: ['x'], x: 1 }, claims(), () => 'AA'),
    ],
    'has expired': ['token_expired', () => sign({ exp: now() - 60 })],
    'is not valid yet': ['token_not_valid_yet', () => sign({ nbf: now() + 120 })],
    'was issued in the future': ['token_not_valid_yet', () => sign({ iat: now() + 120 })],
    'was issued long ago': ['token_expired', () => sign({ iat: now() - 25 * 3600 })],
    'lives too long': ['lifetime_too_long', () => sign({ exp: now() + 25 * 3600 })],
    'has no end': ['token_malformed', () => sign({ exp: null })],
    'has no time of issue': ['token_malformed', () => sign({ iat: null })],
    'has an end that is no number': ['token_malformed', () => sign({ exp: '2999-01-01' })],
    'is for someone else': ['audience_differs', () => sign({ aud: 'https://other.example.com' })],
    'is for no one': ['audience_differs', () => sign({ aud: null })],
    'is of another repository': ['subject_differs', () => sign({ sub: 'repo:acme/other:ref:refs/heads/main' })],
    'is of a repository with a longer name': ['subject_differs', () => sign({ sub: 'repo:acme/shop-evil:x' })],
    'has a null character in its issuer': [
      'token_malformed',
      () =>
        withSignatureOf(
          { alg: 'ES256', kid: issuer.key().kid },
          { ...claims(), iss: `${issuer.origin}\0` },
          () => 'AA',
        ),
    ],
    'has the subject in other letters': ['subject_differs', () => sign({ sub: SUBJECT.toUpperCase() })],
    'has no subject': ['token_malformed', () => sign({ sub: null })],
    'has a list as subject': ['token_malformed', () => sign({ sub: [SUBJECT] })],
    'is of another issuer': ['issuer_not_trusted', () => sign({ iss: 'https://evil.example.com' })],
    'has the issuer with a slash': ['issuer_not_trusted', () => sign({ iss: `${issuer.origin}/` })],
    'is no token': ['token_malformed', () => 'no.token.atall'],
    'has parts that are no JSON': ['token_malformed', () => 'e30.bm90anNvbg.e30'],
    'is an object in base64': ['token_malformed', () => Buffer.from('{}').toString('base64url')],
    'has null characters': ['subject_differs', () => sign({ sub: 'repo:acme/\u0000:x', jti: '\u0000' })],
  }
  it('has the same answer for every fault, and the journal says which one it was', async () => {
    const texts = new Set<string>()
    const found: Record<string, unknown> = {}
    const wanted: Record<string, unknown> = {}
    for (const [name, [reason, make]] of Object.entries(cases)) {
      const reply = await exchange(await make())
      found[name] = [...errorOf(reply), await reasonOf(reply)]
      wanted[name] = [...REFUSED, reason]
      texts.add(reply.body.error_description)
    }
    expect(found).toEqual(wanted)
    expect(texts.size).toBe(1)
  })

  it('has a claim that does not fit, or none', async () => {
    const own = await newTenant({ app })
    await trust(own, { claims: { environment: 'production', run: '1*' } })
    const audience = own.tenant_id
    for (const wrong of [{}, { environment: 'prod' }, { environment: ['production'] }, { environment: null }]) {
      const reply = await exchange(await sign({ run: 12, ...wrong }), { audience })
      expect(errorOf(reply)).toEqual(REFUSED)
      expect((await refusalOf(reply))!.data).toMatchObject({ reason: 'claim_differs', claim: 'environment' })
    }
    expect((await exchange(await sign({ run: 12, environment: 'production' }), { audience })).status).toBe(200)
  })

  it('was exchanged before, also with another signature, and of 20 at once one is exchanged', async () => {
    const token = await sign()
    const replies = await Promise.all(Array.from({ length: 20 }, () => exchange(token)))
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(1)
    const refused = replies.filter(({ status }) => status !== 200)
    expect(new Set(refused.map(reply => String(errorOf(reply))))).toEqual(new Set([String(REFUSED)]))
    expect(await reasonOf(refused[0]!)).toBe('token_replayed')

    // An ECDSA key signs the same content with another result, and a signature can be written differently.
    const signed = token.slice(0, token.lastIndexOf('.'))
    const jwk = await crypto.subtle.exportKey('jwk', issuer.key().key)
    const key = createPrivateKey({ key: jwk as never, format: 'jwk' })
    const again = signBytes('sha256', Buffer.from(signed), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')
    const second = await exchange(`${signed}.${again}`)
    expect([...errorOf(second), await reasonOf(second)]).toEqual([...REFUSED, 'token_replayed'])
  })

  it('is for another workspace, or for none', async () => {
    const other = await newTenant({ app })
    const elsewhere = await exchange(await sign(), { audience: other.tenant_id })
    expect(errorOf(elsewhere)).toEqual(REFUSED)
    expect(await refusalOf(elsewhere)).toMatchObject({
      type: 'token_exchange.refused',
      tenant_id: other.tenant_id,
      subject_id: other.tenant_id,
      actor_kind: 'visitor',
      data: { reason: 'issuer_not_trusted', subject: SUBJECT, issuer: issuer.origin },
    })
    const nowhere = await exchange(await sign(), { audience: unusedId() })
    expect(errorOf(nowhere)).toEqual(REFUSED)
    expect(await refusalOf(nowhere)).toBeUndefined()
    expect(nowhere.body.error_description).toBe(elsewhere.body.error_description)

    // Trusted there, it is exchanged there, and then not here.
    await trust(other)
    const token = await sign()
    expect((await exchange(token, { audience: other.tenant_id })).body.workspace_id).toBe(other.tenant_id)
    expect(errorOf(await exchange(token))).toEqual(REFUSED)
  })

  it('asks nothing of an issuer that the workspace does not trust', async () => {
    const stranger = await startTokenIssuer()
    try {
      const reply = await exchange(await stranger.sign({ sub: SUBJECT, aud: AUDIENCE }))
      expect(await reasonOf(reply)).toBe('issuer_not_trusted')
      expect(stranger.requests).toEqual([])
    } finally {
      stranger.close()
    }
  })

  it('fills no journal: after 60 refusals in an hour, further ones are not recorded', async () => {
    const own = await newTenant({ app })
    await trust(own)
    const replies: Reply[] = []
    for (let i = 0; i < 62; i++) replies.push(await exchange('no.token.atall', { audience: own.tenant_id }))
    expect(await reasonOf(replies[59]!)).toBe('token_malformed')
    expect(await refusalOf(replies[60]!)).toBeUndefined()
    expect((await exchange(await sign(), { audience: own.tenant_id })).status).toBe(200)
  })

  it('counts against its address, as other failed proofs do', async () => {
    const limited = startApp({
      settings: { UNKNOWN_KEYS_PER_MINUTE: '3' },
      overrides: { clientAddress: () => '192.0.2.77' },
    })
    const attempt = () =>
      send('POST', '/oauth/token', {
        app: limited,
        raw: String(
          new URLSearchParams({
            grant_type: TOKEN_EXCHANGE_GRANT,
            subject_token: 'x.y.z',
            audience: tenant.tenant_id,
            subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
          }),
        ),
        headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
      })
    const statuses: number[] = []
    for (let i = 0; i < 4; i++) statuses.push((await attempt()).status)
    expect(statuses).toEqual([400, 400, 400, 429])
  })
})
