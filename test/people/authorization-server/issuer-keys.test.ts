// The keys of an issuer: read once and kept, read again when they are new, and never waited for without an end.
import { afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { createPinnedFetch } from '../../../src/host/pinned-fetch.ts'
import { EDITOR } from '../../../src/people/access/built-in-roles.ts'
import { TOKEN_EXCHANGE_GRANT } from '../../../src/people/authorization-server/token-exchange.ts'
import {
  type App,
  clock,
  newTenant,
  readEvents,
  send,
  startApp,
  type Tenant,
  unusedId,
  withClockAhead,
} from '../../support/app.ts'
import {
  type Handler,
  newSigningKey,
  sendJson,
  startTokenIssuer,
  type TokenIssuer,
} from '../../support/token-issuer.ts'

const SECOND_MS = 1000
let app: App
let tenant: Tenant
let issuer: TokenIssuer
beforeAll(async () => {
  app = startApp({ overrides: { allowLoopback: true, foreignFetch: createPinnedFetch({ allowLoopback: true }) } })
  tenant = await newTenant({ app })
})
beforeEach(async () => {
  issuer = await startTokenIssuer()
  const subject = 'system:serviceaccount:ci:deployer'
  const trusted = { name: unusedId(), issuer: issuer.origin, audience: 'slipway', subject, role_id: EDITOR }
  expect((await tenant.post('/v2/trusted-issuers', trusted)).status).toBe(201)
})
afterEach(() => issuer.close())

async function exchange(by?: Awaited<ReturnType<typeof newSigningKey>>) {
  const claims = { sub: 'system:serviceaccount:ci:deployer', aud: 'slipway' }
  const subject_token = await issuer.sign(claims, { ...(by && { by }), now: Date.now() + clock.ahead })
  const form = {
    grant_type: TOKEN_EXCHANGE_GRANT,
    subject_token,
    audience: tenant.tenant_id,
    subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
  }
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded' }
  const reply = await send('POST', '/oauth/token', { app, raw: String(new URLSearchParams(form)), headers })
  if (reply.status === 200) return { status: 200 }
  const [event] = await readEvents(reply.headers.get('X-Request-Id')!, app)
  const { reason, code } = JSON.parse(event!.data as string)
  return { status: reply.status, error: reply.body.error, reason, ...(code && { code }) }
}
const UNKNOWN = { status: 400, error: 'invalid_request', reason: 'key_unknown' }
const unavailable = (code: string) => ({
  status: 503,
  error: 'temporarily_unavailable',
  reason: 'issuer_unavailable',
  code,
})

it('are read once for many tokens', async () => {
  for (let i = 0; i < 3; i++) expect(await exchange()).toEqual({ status: 200 })
  expect(issuer.requests).toEqual([issuer.discovery, '/keys'])
})

it('are read again for an unknown key, at most every ten seconds, and the old ones end', async () => {
  const [first, second] = [issuer.key(), await newSigningKey()]
  expect(await exchange()).toEqual({ status: 200 })
  issuer.publish([second])
  for (let i = 0; i < 3; i++) expect(await exchange(second)).toEqual(UNKNOWN)
  expect(issuer.requests).toHaveLength(2)
  await withClockAhead(11 * SECOND_MS, async () => {
    expect(await exchange(second)).toEqual({ status: 200 })
    expect(issuer.requests).toHaveLength(4)
    expect(await exchange(first)).toEqual(UNKNOWN)
  })
  expect(issuer.requests).toHaveLength(4)
})

it('stay as they are when a token with an unknown key makes the issuer asked in vain', async () => {
  expect(await exchange()).toEqual({ status: 200 })
  issuer.instead['/keys'] = (_, response) => void response.writeHead(500).end()
  await withClockAhead(11 * SECOND_MS, async () => {
    for (let i = 0; i < 2; i++) expect(await exchange(await newSigningKey())).toEqual(unavailable('upstream_error'))
    expect(issuer.requests).toHaveLength(4)
    expect(await exchange()).toEqual({ status: 200 })
  })
  await withClockAhead(601 * SECOND_MS, async () => expect(await exchange()).toEqual(unavailable('upstream_error')))
})

it('are those that verify signatures, also if keys of other kinds are beside them', async () => {
  const { jwk } = issuer.key()
  const others = [null, 'x', { kty: 'EC', kid: 7 }, { kty: 'RSA', n: 'x'.repeat(5000) }]
  issuer.instead['/keys'] = (_, response) =>
    sendJson(response, { keys: [...others, { ...jwk, x5c: [[[]]], other: 1 }] })
  expect(await exchange()).toEqual({ status: 200 })
})

it('are read again after ten minutes, so that a withdrawn key ends', async () => {
  const withdrawn = issuer.key()
  expect(await exchange()).toEqual({ status: 200 })
  issuer.publish([await newSigningKey()])
  await withClockAhead(601 * SECOND_MS, async () => expect(await exchange(withdrawn)).toEqual(UNKNOWN))
})

const huge: Handler = (_, response) => {
  response.setHeader('Content-Type', 'application/json').write('{"keys":[')
  const more = () => response.write('"'.padEnd(65_536, 'x')) || response.once('drain', more)
  for (let i = 0; i < 8; i++) more()
}
const to =
  (location: () => string): Handler =>
  (_, response) =>
    void response.writeHead(302, { Location: location() }).end()
const hostile: [name: string, path: 'discovery' | 'keys', code: string, Handler][] = [
  ['never answers', 'discovery', 'upstream_timeout', () => {}],
  ['sends keys without an end', 'keys', 'upstream_error', huge],
  ['redirects to itself', 'discovery', 'upstream_error', to(() => `${issuer.origin}/elsewhere`)],
  ['redirects to another server', 'keys', 'upstream_error', to(() => 'http://169.254.169.254/latest')],
  ['fails', 'discovery', 'upstream_error', (_, response) => void response.writeHead(500).end('hush-body')],
  ['sends no JSON', 'keys', 'metadata_invalid', (_, response) => void response.end('<html>hush-body')],
  ['has no keys', 'keys', 'metadata_invalid', (_, response) => sendJson(response, { keys: 'none' })],
  [
    'cuts its answer',
    'keys',
    'upstream_error',
    (_, response) => void response.writeHead(200, { 'Content-Length': 99 }).write('{', () => response.destroy()),
  ],
  [
    'has the document of another one',
    'discovery',
    'metadata_invalid',
    (_, response) => sendJson(response, { issuer: 'https://ci.example.com', jwks_uri: `${issuer.origin}/keys` }),
  ],
  [
    'has its keys in a private network',
    'discovery',
    'blocked_url',
    (_, response) => sendJson(response, { issuer: issuer.origin, jwks_uri: 'https://10.0.0.7/keys' }),
  ],
]
it.each(hostile)(
  'from an issuer that %s give no key, and it is not asked again at once',
  async (_, path, code, handler) => {
    issuer.instead[path === 'keys' ? '/keys' : issuer.discovery] = handler
    expect(await exchange()).toEqual(unavailable(code))
    const asked = issuer.requests.length
    expect(await exchange()).toEqual(unavailable(code))
    expect(issuer.requests).toHaveLength(asked)
    for (const path of Object.keys(issuer.instead)) delete issuer.instead[path]
    await withClockAhead(11 * SECOND_MS, async () => expect(await exchange()).toEqual({ status: 200 }))
  },
)

it('with a secret among them never verify a token with that secret', async () => {
  const secret = { kty: 'oct', k: Buffer.from('hush').toString('base64url'), kid: issuer.key().kid, alg: 'HS256' }
  issuer.instead['/keys'] = (_, response) => sendJson(response, { keys: [secret] })
  expect(await exchange()).toEqual(UNKNOWN)
})
