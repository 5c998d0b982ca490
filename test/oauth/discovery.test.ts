// Discovery, step by step: what the servers do, and what must come out. A refusal says its code, stage and host.
import { describe, expect, it, vi } from 'vitest'
import { Failure } from '../../src/kernel/errors.ts'
import { documentsOf } from '../../src/oauth/server.ts'
import {
  AUTH,
  challenged,
  html,
  json,
  MCP,
  OIDC,
  ofResource,
  ofServer,
  RESOURCE,
  SERVER,
  type Sites,
  sound,
  speaking,
  status,
  type Way,
  walk,
} from '../support/mcp.ts'

type Refused = [code: string, stage: string, host: string]
type Case = [name: string, sites: Sites, out: Record<string, unknown> | Refused, way?: Way & { asks?: string[] }]

const PROBE = 'MCP server'
const RESOURCES = 'protected resource metadata'
const SERVERS = 'authorization server metadata'
const [mcp, auth] = ['mcp.example.com', 'auth.example.com']
const other = { [`${RESOURCE}/mcp`]: undefined }
const warned = (...warnings: string[]) => ({ warnings })
const named = (address: string) => challenged(`Bearer resource_metadata="${address}"`)
const resource = (written: unknown) => sound({ [`${RESOURCE}/mcp`]: ofResource(written as string, AUTH) })
const moved = (location: string) => status(307, null, { Location: location })
const found = { issuer: AUTH, resource: `${MCP}/mcp`, warnings: [] }
const LONG = 'x'.repeat(70_000)

const probing: Case[] = [
  [
    'a sound server, in three questions',
    sound(),
    {
      ...{ issuer: AUTH, issuer_in_answers: false, resource: `${MCP}/mcp`, scopes: [], warnings: [] },
      ...{ auth_url: `${AUTH}/authorize`, token_url: `${AUTH}/token`, registration_url: `${AUTH}/register` },
      ...{ revocation_url: null, uses_pkce: true, code_challenge_method: 'S256', registration: 'dynamic' },
    },
    {
      asks: [...[`POST ${MCP}/mcp`, `GET ${MCP}${RESOURCE}/mcp`], ...[`GET ${AUTH}${SERVER}`, `POST ${AUTH}/register`]],
    },
  ],
  ['the fragment of the address is dropped', sound(), found, { server: `${MCP}/mcp#here` }],
  [
    'asks by GET where POST is 405',
    sound({ 'POST /mcp': 405, 'GET /mcp': named(`${MCP}/meta`), '/meta': ofResource(`${MCP}/mcp`, AUTH), ...other }),
    found,
  ],
  [
    'asks by GET where POST is 404',
    sound({ 'POST /mcp': 404, 'GET /mcp': challenged('Bearer scope="read"') }),
    { scopes: ['read'] },
  ],
  [
    'a POST is not sent on, a GET is',
    sound({ 'POST /mcp': moved('/mcp/'), 'GET /mcp': moved('/mcp/'), 'GET /mcp/': challenged('Bearer scope="read"') }),
    { scopes: ['read'] },
  ],
  [
    'every challenge of an answer is read',
    sound({
      'POST /mcp': challenged(
        'Basic realm="a, b", Digest nonce="x"',
        `Bearer error="e", resource_metadata="${MCP}/meta"`,
      ),
      ...{ '/meta': ofResource(`${MCP}/mcp`, AUTH), ...other },
    }),
    found,
  ],
  [
    'a malformed challenge is passed over',
    sound({ 'POST /mcp': challenged('Bearer ="') }),
    warned('challenge_unreadable'),
  ],
  ['a server that fails when probed may still be found', sound({ 'POST /mcp': 500 }), found],
  ['a challenge that names no address', sound({ 'POST /mcp': named('/meta') }), ['metadata_invalid', PROBE, mcp]],
  ['a host that is not there', {}, ['upstream_error', PROBE, mcp]],
  ['an address that is none', {}, ['invalid_mcp_server_url', '', ''], { server: 'mcp.example.com' }],
  ['an address on the inside', {}, ['blocked_url', '', '10.0.0.1'], { server: 'https://10.0.0.1/mcp' }],
  ['nothing but failures', { [MCP]: { 'POST /mcp': 503 } }, ['upstream_error', PROBE, mcp]],
  [
    'an address that leads elsewhere',
    { [MCP]: { 'POST /mcp': moved(AUTH), 'GET /mcp': moved(AUTH) } },
    ['blocked_url', PROBE, mcp],
  ],
]

const ofResources: Case[] = [
  [
    'where a challenge says, then below the well-known path, then at its root',
    sound({ 'POST /mcp': named(`${MCP}/meta`), ...other, [RESOURCE]: ofResource(MCP, AUTH) }),
    { ...found, resource: MCP },
    {
      asks: [
        ...[`POST ${MCP}/mcp`, `GET ${MCP}/meta`, `GET ${MCP}${RESOURCE}/mcp`, `GET ${MCP}${RESOURCE}`],
        ...[`GET ${AUTH}${SERVER}`, `POST ${AUTH}/register`],
      ],
    },
  ],
  [
    'the query of the address belongs to the path',
    sound(),
    { resource: `${MCP}/mcp` },
    {
      server: `${MCP}/mcp?team=1`,
      asks: [
        ...[`POST ${MCP}/mcp?team=1`, `GET ${MCP}${RESOURCE}/mcp?team=1`],
        ...[`GET ${AUTH}${SERVER}`, `POST ${AUTH}/register`],
      ],
    },
  ],
  ['the same with a slash at the end', resource(`${MCP}/mcp/`), { resource: `${MCP}/mcp/` }],
  ['the address has the slash', resource(`${MCP}/mcp`), { resource: `${MCP}/mcp` }, { server: `${MCP}/mcp/` }],
  ['the whole origin', resource(MCP), { resource: MCP }],
  ['a part of the path that ends within a segment', resource(`${MCP}/mc`), ['resource_mismatch', RESOURCES, mcp]],
  ['what lies below the address', resource(`${MCP}/mcp/more`), ['resource_mismatch', RESOURCES, mcp]],
  ['another origin', resource('https://mcp.example.net/mcp'), ['resource_mismatch', RESOURCES, mcp]],
  [
    'another query',
    resource(`${MCP}/mcp?team=2`),
    ['resource_mismatch', RESOURCES, mcp],
    { server: `${MCP}/mcp?team=1` },
  ],
  ['user info in it', resource('https://a:b@mcp.example.com/mcp'), ['resource_mismatch', RESOURCES, mcp]],
  ['no address at all', resource('mcp'), ['resource_mismatch', RESOURCES, mcp]],
  ['null', resource(null), ['metadata_invalid', RESOURCES, mcp]],
  [
    'no authorization server',
    sound({ [`${RESOURCE}/mcp`]: { resource: `${MCP}/mcp` } }),
    ['metadata_invalid', RESOURCES, mcp],
  ],
  [
    'a failure is no reason to look on',
    sound({ [`${RESOURCE}/mcp`]: 500, [RESOURCE]: ofResource(MCP, AUTH) }),
    ['upstream_error', RESOURCES, mcp],
    { asks: [`POST ${MCP}/mcp`, `GET ${MCP}${RESOURCE}/mcp`] },
  ],
  ['neither is being over a rate', sound({ [`${RESOURCE}/mcp`]: 429 }), ['upstream_error', RESOURCES, mcp]],
  ['a redirect to elsewhere', sound({ [`${RESOURCE}/mcp`]: moved(AUTH) }), ['blocked_url', RESOURCES, mcp]],
  ['a redirect to nowhere', sound({ [`${RESOURCE}/mcp`]: 304 }), ['upstream_error', RESOURCES, mcp]],
  [
    'a redirect within the origin',
    sound({ [`${RESOURCE}/mcp`]: moved('/meta'), '/meta': ofResource(`${MCP}/mcp`, AUTH) }),
    found,
  ],
  [
    'what is no JSON object is passed over, whatever it says it is',
    sound({ 'POST /mcp': named(`${MCP}/meta`), '/meta': json(200, ['no']) }),
    found,
  ],
  ['a page of any length is passed over', sound({ 'POST /mcp': named(`${MCP}/meta`), '/meta': html(70_000) }), found],
  [
    'what is a JSON object is taken, whatever it says it is',
    sound({ [`${RESOURCE}/mcp`]: status(200, ` ${JSON.stringify(ofResource(`${MCP}/mcp`, AUTH))}`) }),
    found,
  ],
  ['a document without end', sound({ [`${RESOURCE}/mcp`]: { LONG } }), ['upstream_error', RESOURCES, mcp]],
  ['one on http', sound({ 'POST /mcp': named('http://mcp.example.com/m') }), ['blocked_url', RESOURCES, mcp]],
  [
    'one on the inside',
    sound({ 'POST /mcp': named('https://169.254.169.254/') }),
    ['blocked_url', RESOURCES, '169.254.169.254'],
  ],
]

const legacy = { resource: null, issuer: MCP, warnings: ['legacy_discovery'] }
const withoutResource: Case[] = [
  [
    'wants authorization, and is its own authorization server',
    {
      [MCP]: {
        '/mcp': challenged('Bearer'),
        [SERVER]: ofServer(MCP),
        'POST /register': json(200, { client_id: 'made' }),
      },
    },
    legacy,
  ],
  [
    'asks for none, but its origin is an authorization server',
    { [MCP]: { '/mcp': 200, [OIDC]: ofServer(MCP), 'POST /register': json(200, { client_id: 'made' }) } },
    legacy,
  ],
  ['wants authorization and publishes nothing', { [MCP]: { '/mcp': 401 } }, ['metadata_invalid', SERVERS, mcp]],
  [
    'the default endpoints, where they are allowed',
    { [MCP]: { '/mcp': 403, 'POST /register': json(201, { client_id: 'made' }) } },
    {
      ...{ issuer: null, resource: null, auth_url: `${MCP}/authorize`, token_url: `${MCP}/token`, uses_pkce: true },
      ...{ client_id: 'made', token_endpoint_auth_method: 'none', warnings: ['default_endpoints'] },
    },
    { options: { defaultEndpoints: true } },
  ],
  ['its authorization server fails', { [MCP]: { '/mcp': 401, [SERVER]: 500 } }, ['upstream_error', SERVERS, mcp]],
  ['nothing there at all', { [MCP]: {} }, ['oauth_not_required', PROBE, mcp], { options: { defaultEndpoints: true } }],
]

const listed = (...authorization_servers: unknown[]) =>
  sound({ [`${RESOURCE}/mcp`]: { resource: `${MCP}/mcp`, authorization_servers } })
const at = (issuer: string, where: string, more = {}): Sites => ({
  ...sound({ [`${RESOURCE}/mcp`]: ofResource(`${MCP}/mcp`, issuer) }),
  [AUTH]: { [where]: ofServer(issuer, more), 'POST /tenant/register': json(200, { client_id: 'made' }) },
})
const TENANT = `${AUTH}/tenant`
const servers: Case[] = [
  [
    'the first that can be used',
    listed(`${AUTH}/none`, 'http://auth.example.com', AUTH),
    warned('server_skipped', 'server_skipped'),
  ],
  [
    'if none can, the fault of the first',
    listed('https://10.0.0.1', `${AUTH}/none`),
    ['blocked_url', SERVERS, '10.0.0.1'],
  ],
  [
    'not more than eight are tried',
    listed(...Array.from({ length: 8 }, (_, i) => `https://10.0.0.${i}`), AUTH),
    ['blocked_url', SERVERS, '10.0.0.0'],
  ],
  ['one that is a number', listed(1), ['metadata_invalid', RESOURCES, mcp]],
  ['one that is no address', listed('auth'), ['blocked_url', SERVERS, '']],
  ['one with a query', listed(`${AUTH}?a=b`), ['metadata_invalid', SERVERS, auth]],
  ['one that publishes nothing', listed(`${AUTH}/none`), ['metadata_invalid', SERVERS, auth]],
  ['one that fails', sound({}, { [SERVER]: 502 }), ['upstream_error', SERVERS, auth]],
  ['one that is not there', listed('https://auth.example.net'), ['upstream_error', SERVERS, 'auth.example.net']],
  ['an issuer with a path: inserted', at(TENANT, `${SERVER}/tenant`), { issuer: TENANT }],
  ['an issuer with a path: OpenID inserted', at(TENANT, `${OIDC}/tenant`), { issuer: TENANT }],
  ['an issuer with a path: OpenID appended', at(TENANT, `/tenant${OIDC}`), { issuer: TENANT }],
  [
    'a path that looks like another host',
    {
      ...listed(`${AUTH}//evil.example.net`),
      'https://evil.example.net': { [OIDC]: ofServer(`${AUTH}//evil.example.net`) },
    },
    ['metadata_invalid', SERVERS, auth],
  ],
  ['an issuer without: OpenID', sound({}, { [SERVER]: undefined, [OIDC]: ofServer(AUTH) }), found],
  ['another issuer', speaking({ issuer: 'https://auth.example.net' }), ['issuer_mismatch', SERVERS, auth]],
  [
    'an issuer in another spelling',
    speaking({ issuer: 'https://AUTH.example.com' }),
    ['issuer_mismatch', SERVERS, auth],
  ],
  ['no issuer', speaking({ issuer: null }), ['metadata_invalid', SERVERS, auth]],
  [
    'a slash more on an empty path',
    speaking({ issuer: `${AUTH}/` }),
    { issuer: `${AUTH}/`, warnings: ['issuer_slash'] },
  ],
  ['a slash less on an empty path', { ...listed(`${AUTH}/`) }, { issuer: AUTH, warnings: ['issuer_slash'] }],
  [
    'a slash more on a path',
    at(TENANT, `${SERVER}/tenant`, { issuer: `${TENANT}/` }),
    ['issuer_mismatch', SERVERS, auth],
  ],
  ['no methods of PKCE', speaking({ code_challenge_methods_supported: null }), ['pkce_unsupported', SERVERS, auth]],
  [
    'no methods of PKCE, where the organisation assumes S256 of that host',
    speaking({ code_challenge_methods_supported: undefined }),
    { uses_pkce: true, code_challenge_method: 'S256', warnings: ['pkce_assumed'] },
    { options: { assumeS256: host => host === auth } },
  ],
  [
    'other methods of PKCE, whatever is assumed',
    speaking({ code_challenge_methods_supported: ['plain', 's256'] }),
    ['pkce_unsupported', SERVERS, auth],
    { options: { assumeS256: () => true } },
  ],
  [
    'an empty list of methods',
    speaking({ code_challenge_methods_supported: [] }),
    ['pkce_unsupported', SERVERS, auth],
    { options: { assumeS256: () => true } },
  ],
  [
    'methods that are no list',
    speaking({ code_challenge_methods_supported: 'S256' }),
    ['metadata_invalid', SERVERS, auth],
  ],
  [
    'endpoints elsewhere',
    speaking({ token_endpoint: 'https://token.example.net/t' }),
    { token_url: 'https://token.example.net/t' },
  ],
  ...[
    ...['http://auth.example.com/t', 'javascript:alert(1)', 'file:///etc/passwd', 'https://127.0.0.1/t'],
    ...['https://a:b@auth.example.com/t', 'https://localhost/t', '/token', `${AUTH}/to\0ken`],
  ].flatMap(address =>
    ['authorization_endpoint', 'token_endpoint', 'registration_endpoint', 'revocation_endpoint'].map(
      (name): Case => [
        `${name} ${JSON.stringify(address)}`,
        speaking({ [name]: address }),
        ['unsafe_endpoint', SERVERS, auth],
      ],
    ),
  ),
  [
    'plain http on this machine',
    speaking({ token_endpoint: 'http://localhost:9000/t' }),
    { token_url: 'http://localhost:9000/t' },
    { allowLoopback: true },
  ],
  ['no authorization endpoint', speaking({ authorization_endpoint: undefined }), ['metadata_invalid', SERVERS, auth]],
  ['no code', speaking({ response_types_supported: ['code id_token'] }), ['grant_unsupported', SERVERS, auth]],
  ['no response types', speaking({ response_types_supported: null }), ['metadata_invalid', SERVERS, auth]],
  [
    'no authorization code',
    speaking({ grant_types_supported: ['client_credentials'] }),
    ['grant_unsupported', SERVERS, auth],
  ],
  ['a grant without refreshing', speaking({ grant_types_supported: ['authorization_code'] }), { refreshes: false }],
  [
    'all members are there, and those without a meaning are null',
    speaking({
      ...{ revocation_endpoint: null, grant_types_supported: null, scopes_supported: null },
      ...{ authorization_response_iss_parameter_supported: null, client_id_metadata_document_supported: null },
    }),
    { ...found, revocation_url: null, issuer_in_answers: false, supports_metadata_document: false },
  ],
  [
    'its answers carry the issuer',
    speaking({ authorization_response_iss_parameter_supported: true }),
    { issuer_in_answers: true },
  ],
  [
    'neither yes nor no',
    speaking({ authorization_response_iss_parameter_supported: 'yes' }),
    ['metadata_invalid', SERVERS, auth],
  ],
]

const scoped = (challenge: string, listed: unknown, more = {}) =>
  speaking(more, {
    'POST /mcp': challenged(challenge),
    [`${RESOURCE}/mcp`]: ofResource(`${MCP}/mcp`, AUTH, { scopes_supported: listed }),
  })
const scopes: Case[] = [
  ['those of the challenge', scoped('Bearer scope="read  write read"', ['all']), { scopes: ['read', 'write'] }],
  ['else those of the resource', scoped('Bearer scope=""', ['read']), { scopes: ['read'] }],
  ['else none, never all that the server has', scoped('Bearer', [], { scopes_supported: ['admin'] }), { scopes: [] }],
  [
    'and to come back offline, where the server knows that',
    scoped('Bearer', ['read'], { scopes_supported: ['offline_access'] }),
    { scopes: ['read', 'offline_access'] },
  ],
  [
    'but once',
    scoped('Bearer', ['offline_access'], { scopes_supported: ['offline_access'] }),
    { scopes: ['offline_access'] },
  ],
  [
    'what cannot be asked for is left out',
    scoped('Bearer', ['a b', 'ö', '', 'read']),
    { scopes: ['read'], warnings: ['scope_dropped'] },
  ],
  ['scopes that are no list', scoped('Bearer', 'read'), ['metadata_invalid', RESOURCES, mcp]],
]

describe.each([
  ['the probe', probing],
  ['the metadata of the resource', ofResources],
  ['no metadata of the resource', withoutResource],
  ['the authorization server', servers],
  ['the scopes', scopes],
])('%s', (_, cases) => {
  it.each(cases)('%s', async (_, sites, out, { asks, ...way } = {}) => {
    const { found, asked, world } = walk(sites, way)
    if (Array.isArray(out)) {
      const failure = await found.then(
        () => expect.unreachable(),
        error => error,
      )
      expect(failure).toBeInstanceOf(Failure)
      const [code, stage, host] = out as Refused
      expect(failure.code).toBe(code)
      if (stage) expect(failure.extra.about.split(': ').slice(0, host ? 2 : 1)).toEqual(host ? [stage, host] : [stage])
      // Nothing is registered at a server that is refused.
      expect(asked().filter(one => /register/.test(one))).toEqual([])
    } else {
      expect(await found).toMatchObject(out)
      expect(world.requests.filter(({ refused }) => refused)).toEqual([])
    }
    if (asks) expect(asked()).toEqual(asks)
  })
})

it('leaves an answer without end unread', async () => {
  let left = false
  const endless = () =>
    new Response(
      new ReadableStream({
        pull: controller => controller.enqueue(new Uint8Array(1)),
        cancel: () => {
          left = true
        },
      }),
      { headers: { 'Content-Type': 'text/event-stream' } },
    )
  await expect(walk({ [MCP]: { '/mcp': endless } }).found).rejects.toMatchObject({ code: 'oauth_not_required' })
  expect(left).toBe(true)
})

it('waits for nobody longer than it may', async () => {
  vi.useFakeTimers()
  try {
    const { found } = walk({ [MCP]: () => new Promise(() => {}) })
    const refused = expect(found).rejects.toMatchObject({ code: 'upstream_timeout' })
    await vi.advanceTimersByTimeAsync(5_000)
    await refused
  } finally {
    vi.useRealTimers()
  }
})

it('tells a foreign server’s words in one harmless line', async () => {
  const issuer = `https://evil.example.com/<script>'${'x'.repeat(300)}`
  const { found } = walk(speaking({ issuer }))
  const { extra } = await found.then(
    () => expect.unreachable(),
    error => error,
  )
  expect(extra.about).toContain('“https://evil.example.com/\\u{3c}script\\u{3e}\\u{27}x')
  expect(extra.about.length).toBeLessThan(400)
})

it('keeps user info and queries of foreign addresses out of what it says', async () => {
  const { found } = walk(speaking({ issuer: 'https://user:hush@auth.example.com/?token=hush' }))
  const { extra } = await found.then(
    () => expect.unreachable(),
    error => error,
  )
  expect(JSON.stringify(extra)).not.toContain('hush')
})

it('looks for metadata where the MCP SDK does', async () => {
  const { buildDiscoveryUrls } = await import('@modelcontextprotocol/client')
  for (const issuer of [AUTH, `${AUTH}/`, TENANT, `${TENANT}/`, `${TENANT}/v2.0`]) {
    const theirs = buildDiscoveryUrls(issuer).map(({ url }) => url.href)
    expect(documentsOf(new URL(issuer))).toEqual(theirs)
  }
})
