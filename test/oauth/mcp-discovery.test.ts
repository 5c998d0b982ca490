// Discovery step by step: what the servers send, and the expected result or failure with code, stage and host.
import { describe, expect, it, vi } from 'vitest'
import { Failure } from '../../src/kernel/errors.ts'
import { metadataUrlsOf } from '../../src/oauth/authorization-server.ts'
import {
  AUTH_ORIGIN,
  type DiscoveryScenario,
  discoverAndRegister,
  MCP_ORIGIN,
  makeResourceMetadata,
  makeServerMetadata,
  makeSitesWithMetadata,
  makeValidSites,
  OIDC_METADATA_PATH,
  RESOURCE_METADATA_PATH,
  respondWithChallenges,
  respondWithHtml,
  respondWithJson,
  respondWithStatus,
  SERVER_METADATA_PATH,
  type Sites,
} from '../support/mcp-sites.ts'

type ExpectedRefusal = [code: string, stage: string, host: string]
type Case = [
  name: string,
  sites: Sites,
  out: Record<string, unknown> | ExpectedRefusal,
  way?: DiscoveryScenario & { asks?: string[] },
]

const PROBE_STAGE = 'MCP server'
const RESOURCE_STAGE = 'protected resource metadata'
const SERVER_STAGE = 'authorization server metadata'
const [mcp, auth] = ['mcp.example.com', 'auth.example.com']
const withoutPathMetadata = { [`${RESOURCE_METADATA_PATH}/mcp`]: undefined }
const expectWarnings = (...warnings: string[]) => ({ warnings })
const challengeNaming = (address: string) => respondWithChallenges(`Bearer resource_metadata="${address}"`)
const withResource = (written: unknown) =>
  makeValidSites({ [`${RESOURCE_METADATA_PATH}/mcp`]: makeResourceMetadata(written as string, AUTH_ORIGIN) })
const redirectTo = (location: string) => respondWithStatus(307, null, { Location: location })
const expectedDiscovery = { issuer: AUTH_ORIGIN, resource: `${MCP_ORIGIN}/mcp`, warnings: [] }
const LONG_TEXT = 'x'.repeat(70_000)

const probeCases: Case[] = [
  [
    'a valid server, with three requests',
    makeValidSites(),
    {
      ...{ issuer: AUTH_ORIGIN, issuer_in_answers: false, resource: `${MCP_ORIGIN}/mcp`, scopes: [], warnings: [] },
      ...{
        auth_url: `${AUTH_ORIGIN}/authorize`,
        token_url: `${AUTH_ORIGIN}/token`,
        registration_url: `${AUTH_ORIGIN}/register`,
      },
      ...{ revocation_url: null, uses_pkce: true, code_challenge_method: 'S256', registration: 'dynamic' },
    },
    {
      asks: [
        ...[`POST ${MCP_ORIGIN}/mcp`, `GET ${MCP_ORIGIN}${RESOURCE_METADATA_PATH}/mcp`],
        ...[`GET ${AUTH_ORIGIN}${SERVER_METADATA_PATH}`, `POST ${AUTH_ORIGIN}/register`],
      ],
    },
  ],
  ['the fragment of the address is dropped', makeValidSites(), expectedDiscovery, { server: `${MCP_ORIGIN}/mcp#here` }],
  [
    'sends a GET after a 405 to the POST',
    makeValidSites({
      'POST /mcp': 405,
      'GET /mcp': challengeNaming(`${MCP_ORIGIN}/meta`),
      '/meta': makeResourceMetadata(`${MCP_ORIGIN}/mcp`, AUTH_ORIGIN),
      ...withoutPathMetadata,
    }),
    expectedDiscovery,
  ],
  [
    'sends a GET after a 404 to the POST',
    makeValidSites({ 'POST /mcp': 404, 'GET /mcp': respondWithChallenges('Bearer scope="read"') }),
    { scopes: ['read'] },
  ],
  [
    'a redirect of a POST is not followed, one of a GET is',
    makeValidSites({
      'POST /mcp': redirectTo('/mcp/'),
      'GET /mcp': redirectTo('/mcp/'),
      'GET /mcp/': respondWithChallenges('Bearer scope="read"'),
    }),
    { scopes: ['read'] },
  ],
  [
    'every challenge of a response is read',
    makeValidSites({
      'POST /mcp': respondWithChallenges(
        'Basic realm="a, b", Digest nonce="x"',
        `Bearer error="e", resource_metadata="${MCP_ORIGIN}/meta"`,
      ),
      ...{ '/meta': makeResourceMetadata(`${MCP_ORIGIN}/mcp`, AUTH_ORIGIN), ...withoutPathMetadata },
    }),
    expectedDiscovery,
  ],
  [
    'a malformed challenge is ignored',
    makeValidSites({ 'POST /mcp': respondWithChallenges('Bearer ="') }),
    expectWarnings('challenge_unreadable'),
  ],
  ['a server that fails the probe can still be discovered', makeValidSites({ 'POST /mcp': 500 }), expectedDiscovery],
  [
    'a challenge without a valid URL',
    makeValidSites({ 'POST /mcp': challengeNaming('/meta') }),
    ['metadata_invalid', PROBE_STAGE, mcp],
  ],
  ['a host that does not exist', {}, ['upstream_error', PROBE_STAGE, mcp]],
  ['an invalid URL', {}, ['invalid_mcp_server_url', '', ''], { server: 'mcp.example.com' }],
  ['an internal address', {}, ['blocked_url', '', '10.0.0.1'], { server: 'https://10.0.0.1/mcp' }],
  ['nothing but failures', { [MCP_ORIGIN]: { 'POST /mcp': 503 } }, ['upstream_error', PROBE_STAGE, mcp]],
  [
    'a redirect to another origin',
    { [MCP_ORIGIN]: { 'POST /mcp': redirectTo(AUTH_ORIGIN), 'GET /mcp': redirectTo(AUTH_ORIGIN) } },
    ['blocked_url', PROBE_STAGE, mcp],
  ],
]

const resourceCases: Case[] = [
  [
    'the URL of a challenge, then the well-known path, then its root',
    makeValidSites({
      'POST /mcp': challengeNaming(`${MCP_ORIGIN}/meta`),
      ...withoutPathMetadata,
      [RESOURCE_METADATA_PATH]: makeResourceMetadata(MCP_ORIGIN, AUTH_ORIGIN),
    }),
    { ...expectedDiscovery, resource: MCP_ORIGIN },
    {
      asks: [
        ...[
          `POST ${MCP_ORIGIN}/mcp`,
          `GET ${MCP_ORIGIN}/meta`,
          `GET ${MCP_ORIGIN}${RESOURCE_METADATA_PATH}/mcp`,
          `GET ${MCP_ORIGIN}${RESOURCE_METADATA_PATH}`,
        ],
        ...[`GET ${AUTH_ORIGIN}${SERVER_METADATA_PATH}`, `POST ${AUTH_ORIGIN}/register`],
      ],
    },
  ],
  [
    'the query is part of the well-known URL',
    makeValidSites(),
    { resource: `${MCP_ORIGIN}/mcp` },
    {
      server: `${MCP_ORIGIN}/mcp?team=1`,
      asks: [
        ...[`POST ${MCP_ORIGIN}/mcp?team=1`, `GET ${MCP_ORIGIN}${RESOURCE_METADATA_PATH}/mcp?team=1`],
        ...[`GET ${AUTH_ORIGIN}${SERVER_METADATA_PATH}`, `POST ${AUTH_ORIGIN}/register`],
      ],
    },
  ],
  ['the same URL with a trailing slash', withResource(`${MCP_ORIGIN}/mcp/`), { resource: `${MCP_ORIGIN}/mcp/` }],
  [
    'the server URL has the trailing slash',
    withResource(`${MCP_ORIGIN}/mcp`),
    { resource: `${MCP_ORIGIN}/mcp` },
    { server: `${MCP_ORIGIN}/mcp/` },
  ],
  ['the whole origin', withResource(MCP_ORIGIN), { resource: MCP_ORIGIN }],
  [
    'a path prefix that ends within a segment',
    withResource(`${MCP_ORIGIN}/mc`),
    ['resource_mismatch', RESOURCE_STAGE, mcp],
  ],
  ['a path below the server', withResource(`${MCP_ORIGIN}/mcp/more`), ['resource_mismatch', RESOURCE_STAGE, mcp]],
  ['another origin', withResource('https://mcp.example.net/mcp'), ['resource_mismatch', RESOURCE_STAGE, mcp]],
  [
    'another query',
    withResource(`${MCP_ORIGIN}/mcp?team=2`),
    ['resource_mismatch', RESOURCE_STAGE, mcp],
    { server: `${MCP_ORIGIN}/mcp?team=1` },
  ],
  [
    'a resource with user info',
    withResource('https://a:b@mcp.example.com/mcp'),
    ['resource_mismatch', RESOURCE_STAGE, mcp],
  ],
  ['a resource that is not a URL', withResource('mcp'), ['resource_mismatch', RESOURCE_STAGE, mcp]],
  ['null', withResource(null), ['metadata_invalid', RESOURCE_STAGE, mcp]],
  [
    'no authorization server',
    makeValidSites({ [`${RESOURCE_METADATA_PATH}/mcp`]: { resource: `${MCP_ORIGIN}/mcp` } }),
    ['metadata_invalid', RESOURCE_STAGE, mcp],
  ],
  [
    'a failure ends the search',
    makeValidSites({
      [`${RESOURCE_METADATA_PATH}/mcp`]: 500,
      [RESOURCE_METADATA_PATH]: makeResourceMetadata(MCP_ORIGIN, AUTH_ORIGIN),
    }),
    ['upstream_error', RESOURCE_STAGE, mcp],
    { asks: [`POST ${MCP_ORIGIN}/mcp`, `GET ${MCP_ORIGIN}${RESOURCE_METADATA_PATH}/mcp`] },
  ],
  [
    'a rate limit ends the search',
    makeValidSites({ [`${RESOURCE_METADATA_PATH}/mcp`]: 429 }),
    ['upstream_error', RESOURCE_STAGE, mcp],
  ],
  [
    'a redirect to elsewhere',
    makeValidSites({ [`${RESOURCE_METADATA_PATH}/mcp`]: redirectTo(AUTH_ORIGIN) }),
    ['blocked_url', RESOURCE_STAGE, mcp],
  ],
  [
    'a redirect to nowhere',
    makeValidSites({ [`${RESOURCE_METADATA_PATH}/mcp`]: 304 }),
    ['upstream_error', RESOURCE_STAGE, mcp],
  ],
  [
    'a redirect within the origin',
    makeValidSites({
      [`${RESOURCE_METADATA_PATH}/mcp`]: redirectTo('/meta'),
      '/meta': makeResourceMetadata(`${MCP_ORIGIN}/mcp`, AUTH_ORIGIN),
    }),
    expectedDiscovery,
  ],
  [
    'a body that is not a JSON object is ignored, whatever its content type',
    makeValidSites({ 'POST /mcp': challengeNaming(`${MCP_ORIGIN}/meta`), '/meta': respondWithJson(200, ['no']) }),
    expectedDiscovery,
  ],
  [
    'a page of any length is ignored',
    makeValidSites({ 'POST /mcp': challengeNaming(`${MCP_ORIGIN}/meta`), '/meta': respondWithHtml(70_000) }),
    expectedDiscovery,
  ],
  [
    'a JSON object is accepted, whatever its content type',
    makeValidSites({
      [`${RESOURCE_METADATA_PATH}/mcp`]: respondWithStatus(
        200,
        ` ${JSON.stringify(makeResourceMetadata(`${MCP_ORIGIN}/mcp`, AUTH_ORIGIN))}`,
      ),
    }),
    expectedDiscovery,
  ],
  [
    'an endless document',
    makeValidSites({ [`${RESOURCE_METADATA_PATH}/mcp`]: { LONG: LONG_TEXT } }),
    ['upstream_error', RESOURCE_STAGE, mcp],
  ],
  [
    'a URL on http',
    makeValidSites({ 'POST /mcp': challengeNaming('http://mcp.example.com/m') }),
    ['blocked_url', RESOURCE_STAGE, mcp],
  ],
  [
    'an internal URL',
    makeValidSites({ 'POST /mcp': challengeNaming('https://169.254.169.254/') }),
    ['blocked_url', RESOURCE_STAGE, '169.254.169.254'],
  ],
]

const expectedLegacy = { resource: null, issuer: MCP_ORIGIN, warnings: ['legacy_discovery'] }
const legacyCases: Case[] = [
  [
    'requires authorization, and is its own authorization server',
    {
      [MCP_ORIGIN]: {
        '/mcp': respondWithChallenges('Bearer'),
        [SERVER_METADATA_PATH]: makeServerMetadata(MCP_ORIGIN),
        'POST /register': respondWithJson(200, { client_id: 'made' }),
      },
    },
    expectedLegacy,
  ],
  [
    'requires none, but its origin is an authorization server',
    {
      [MCP_ORIGIN]: {
        '/mcp': 200,
        [OIDC_METADATA_PATH]: makeServerMetadata(MCP_ORIGIN),
        'POST /register': respondWithJson(200, { client_id: 'made' }),
      },
    },
    expectedLegacy,
  ],
  [
    'requires authorization and publishes nothing',
    { [MCP_ORIGIN]: { '/mcp': 401 } },
    ['metadata_invalid', SERVER_STAGE, mcp],
  ],
  [
    'the default endpoints, if they are allowed',
    { [MCP_ORIGIN]: { '/mcp': 403, 'POST /register': respondWithJson(201, { client_id: 'made' }) } },
    {
      ...{
        issuer: null,
        resource: null,
        auth_url: `${MCP_ORIGIN}/authorize`,
        token_url: `${MCP_ORIGIN}/token`,
        uses_pkce: true,
      },
      ...{ client_id: 'made', token_endpoint_auth_method: 'none', warnings: ['default_endpoints'] },
    },
    { options: { defaultEndpoints: true } },
  ],
  [
    'its authorization server fails',
    { [MCP_ORIGIN]: { '/mcp': 401, [SERVER_METADATA_PATH]: 500 } },
    ['upstream_error', SERVER_STAGE, mcp],
  ],
  [
    'a server without authorization',
    { [MCP_ORIGIN]: {} },
    ['oauth_not_required', PROBE_STAGE, mcp],
    { options: { defaultEndpoints: true } },
  ],
]

const listingServers = (...authorization_servers: unknown[]) =>
  makeValidSites({ [`${RESOURCE_METADATA_PATH}/mcp`]: { resource: `${MCP_ORIGIN}/mcp`, authorization_servers } })
const metadataAt = (issuer: string, where: string, more = {}): Sites => ({
  ...makeValidSites({ [`${RESOURCE_METADATA_PATH}/mcp`]: makeResourceMetadata(`${MCP_ORIGIN}/mcp`, issuer) }),
  [AUTH_ORIGIN]: {
    [where]: makeServerMetadata(issuer, more),
    'POST /tenant/register': respondWithJson(200, { client_id: 'made' }),
  },
})
const TENANT = `${AUTH_ORIGIN}/tenant`
const serverCases: Case[] = [
  [
    'the first usable server',
    listingServers(`${AUTH_ORIGIN}/none`, 'http://auth.example.com', AUTH_ORIGIN),
    expectWarnings('server_skipped', 'server_skipped'),
  ],
  [
    'the failure of the first if none is usable',
    listingServers('https://10.0.0.1', `${AUTH_ORIGIN}/none`),
    ['blocked_url', SERVER_STAGE, '10.0.0.1'],
  ],
  [
    'at most eight are tried',
    listingServers(...Array.from({ length: 8 }, (_, i) => `https://10.0.0.${i}`), AUTH_ORIGIN),
    ['blocked_url', SERVER_STAGE, '10.0.0.0'],
  ],
  ['one that is a number', listingServers(1), ['metadata_invalid', RESOURCE_STAGE, mcp]],
  ['one that is not a URL', listingServers('auth'), ['blocked_url', SERVER_STAGE, '']],
  ['one with a query', listingServers(`${AUTH_ORIGIN}?a=b`), ['metadata_invalid', SERVER_STAGE, auth]],
  ['one that publishes nothing', listingServers(`${AUTH_ORIGIN}/none`), ['metadata_invalid', SERVER_STAGE, auth]],
  ['one that fails', makeValidSites({}, { [SERVER_METADATA_PATH]: 502 }), ['upstream_error', SERVER_STAGE, auth]],
  [
    'one that does not exist',
    listingServers('https://auth.example.net'),
    ['upstream_error', SERVER_STAGE, 'auth.example.net'],
  ],
  ['an issuer with a path: inserted', metadataAt(TENANT, `${SERVER_METADATA_PATH}/tenant`), { issuer: TENANT }],
  ['an issuer with a path: OpenID inserted', metadataAt(TENANT, `${OIDC_METADATA_PATH}/tenant`), { issuer: TENANT }],
  ['an issuer with a path: OpenID appended', metadataAt(TENANT, `/tenant${OIDC_METADATA_PATH}`), { issuer: TENANT }],
  [
    'a path that looks like another host',
    {
      ...listingServers(`${AUTH_ORIGIN}//evil.example.net`),
      'https://evil.example.net': { [OIDC_METADATA_PATH]: makeServerMetadata(`${AUTH_ORIGIN}//evil.example.net`) },
    },
    ['metadata_invalid', SERVER_STAGE, auth],
  ],
  [
    'an issuer without a path: OpenID',
    makeValidSites({}, { [SERVER_METADATA_PATH]: undefined, [OIDC_METADATA_PATH]: makeServerMetadata(AUTH_ORIGIN) }),
    expectedDiscovery,
  ],
  [
    'another issuer',
    makeSitesWithMetadata({ issuer: 'https://auth.example.net' }),
    ['issuer_mismatch', SERVER_STAGE, auth],
  ],
  [
    'an issuer in another spelling',
    makeSitesWithMetadata({ issuer: 'https://AUTH.example.com' }),
    ['issuer_mismatch', SERVER_STAGE, auth],
  ],
  ['no issuer', makeSitesWithMetadata({ issuer: null }), ['metadata_invalid', SERVER_STAGE, auth]],
  [
    'an additional slash on an empty path',
    makeSitesWithMetadata({ issuer: `${AUTH_ORIGIN}/` }),
    { issuer: `${AUTH_ORIGIN}/`, warnings: ['issuer_slash'] },
  ],
  [
    'a missing slash on an empty path',
    { ...listingServers(`${AUTH_ORIGIN}/`) },
    { issuer: AUTH_ORIGIN, warnings: ['issuer_slash'] },
  ],
  [
    'an additional slash on a path',
    metadataAt(TENANT, `${SERVER_METADATA_PATH}/tenant`, { issuer: `${TENANT}/` }),
    ['issuer_mismatch', SERVER_STAGE, auth],
  ],
  [
    'no PKCE methods',
    makeSitesWithMetadata({ code_challenge_methods_supported: null }),
    ['pkce_unsupported', SERVER_STAGE, auth],
  ],
  [
    'no PKCE methods, and the organization assumes S256',
    makeSitesWithMetadata({ code_challenge_methods_supported: undefined }),
    { uses_pkce: true, code_challenge_method: 'S256', warnings: ['pkce_assumed'] },
    { options: { assumeS256: host => host === auth } },
  ],
  [
    'other PKCE methods, even if S256 is assumed',
    makeSitesWithMetadata({ code_challenge_methods_supported: ['plain', 's256'] }),
    ['pkce_unsupported', SERVER_STAGE, auth],
    { options: { assumeS256: () => true } },
  ],
  [
    'an empty list of methods',
    makeSitesWithMetadata({ code_challenge_methods_supported: [] }),
    ['pkce_unsupported', SERVER_STAGE, auth],
    { options: { assumeS256: () => true } },
  ],
  [
    'methods that are no list',
    makeSitesWithMetadata({ code_challenge_methods_supported: 'S256' }),
    ['metadata_invalid', SERVER_STAGE, auth],
  ],
  [
    'endpoints elsewhere',
    makeSitesWithMetadata({ token_endpoint: 'https://token.example.net/t' }),
    { token_url: 'https://token.example.net/t' },
  ],
  ...[
    ...['http://auth.example.com/t', 'javascript:alert(1)', 'file:///etc/passwd', 'https://127.0.0.1/t'],
    ...['https://a:b@auth.example.com/t', 'https://localhost/t', '/token', `${AUTH_ORIGIN}/to\0ken`],
  ].flatMap(address =>
    ['authorization_endpoint', 'token_endpoint', 'registration_endpoint', 'revocation_endpoint'].map(
      (name): Case => [
        `${name} ${JSON.stringify(address)}`,
        makeSitesWithMetadata({ [name]: address }),
        ['unsafe_endpoint', SERVER_STAGE, auth],
      ],
    ),
  ),
  [
    'plain http on this machine',
    makeSitesWithMetadata({ token_endpoint: 'http://localhost:9000/t' }),
    { token_url: 'http://localhost:9000/t' },
    { allowLoopback: true },
  ],
  [
    'no authorization endpoint',
    makeSitesWithMetadata({ authorization_endpoint: undefined }),
    ['metadata_invalid', SERVER_STAGE, auth],
  ],
  [
    'no code',
    makeSitesWithMetadata({ response_types_supported: ['code id_token'] }),
    ['grant_unsupported', SERVER_STAGE, auth],
  ],
  [
    'no response types',
    makeSitesWithMetadata({ response_types_supported: null }),
    ['metadata_invalid', SERVER_STAGE, auth],
  ],
  [
    'no authorization code',
    makeSitesWithMetadata({ grant_types_supported: ['client_credentials'] }),
    ['grant_unsupported', SERVER_STAGE, auth],
  ],
  [
    'a grant without refreshing',
    makeSitesWithMetadata({ grant_types_supported: ['authorization_code'] }),
    { supports_refresh: false },
  ],
  [
    'all members are there, and those without a meaning are null',
    makeSitesWithMetadata({
      ...{ revocation_endpoint: null, grant_types_supported: null, scopes_supported: null },
      ...{ authorization_response_iss_parameter_supported: null, client_id_metadata_document_supported: null },
    }),
    { ...expectedDiscovery, revocation_url: null, issuer_in_answers: false, supports_metadata_document: false },
  ],
  [
    'its answers carry the issuer',
    makeSitesWithMetadata({ authorization_response_iss_parameter_supported: true }),
    { issuer_in_answers: true },
  ],
  [
    'neither yes nor no',
    makeSitesWithMetadata({ authorization_response_iss_parameter_supported: 'yes' }),
    ['metadata_invalid', SERVER_STAGE, auth],
  ],
]

const withScopes = (challenge: string, listed: unknown, more = {}) =>
  makeSitesWithMetadata(more, {
    'POST /mcp': respondWithChallenges(challenge),
    [`${RESOURCE_METADATA_PATH}/mcp`]: makeResourceMetadata(`${MCP_ORIGIN}/mcp`, AUTH_ORIGIN, {
      scopes_supported: listed,
    }),
  })
const scopeCases: Case[] = [
  ['those of the challenge', withScopes('Bearer scope="read  write read"', ['all']), { scopes: ['read', 'write'] }],
  ['else those of the resource', withScopes('Bearer scope=""', ['read']), { scopes: ['read'] }],
  [
    'else none, never all that the server has',
    withScopes('Bearer', [], { scopes_supported: ['admin'] }),
    { scopes: [] },
  ],
  [
    'and to come back offline, where the server knows that',
    withScopes('Bearer', ['read'], { scopes_supported: ['offline_access'] }),
    { scopes: ['read', 'offline_access'] },
  ],
  [
    'but once',
    withScopes('Bearer', ['offline_access'], { scopes_supported: ['offline_access'] }),
    { scopes: ['offline_access'] },
  ],
  [
    'what cannot be asked for is left out',
    withScopes('Bearer', ['a b', 'ö', '', 'read']),
    { scopes: ['read'], warnings: ['scope_dropped'] },
  ],
  ['scopes that are no list', withScopes('Bearer', 'read'), ['metadata_invalid', RESOURCE_STAGE, mcp]],
]

describe.each([
  ['the probe', probeCases],
  ['the metadata of the resource', resourceCases],
  ['no metadata of the resource', legacyCases],
  ['the authorization server', serverCases],
  ['the scopes', scopeCases],
])('%s', (_, cases) => {
  it.each(cases)('%s', async (_, sites, out, { asks, ...way } = {}) => {
    const { result: found, listRequests: asked, fakeFetch: world } = discoverAndRegister(sites, way)
    if (Array.isArray(out)) {
      const failure = await found.then(
        () => expect.unreachable(),
        error => error,
      )
      expect(failure).toBeInstanceOf(Failure)
      const [code, stage, host] = out as ExpectedRefusal
      expect(failure.code).toBe(code)
      if (stage) expect(failure.extra.about.split(': ').slice(0, host ? 2 : 1)).toEqual(host ? [stage, host] : [stage])
      // No client is registered at a refused server.
      expect(asked().filter(one => /register/.test(one))).toEqual([])
    } else {
      expect(await found).toMatchObject(out)
      expect(world.requests.filter(({ refused }) => refused)).toEqual([])
    }
    if (asks) expect(asked()).toEqual(asks)
  })
})

it('does not read an endless response', async () => {
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
  await expect(discoverAndRegister({ [MCP_ORIGIN]: { '/mcp': endless } }).result).rejects.toMatchObject({
    code: 'oauth_not_required',
  })
  expect(left).toBe(true)
})

it('respects the time limit', async () => {
  vi.useFakeTimers()
  try {
    const { result: found } = discoverAndRegister({ [MCP_ORIGIN]: () => new Promise(() => {}) })
    const refused = expect(found).rejects.toMatchObject({ code: 'upstream_timeout' })
    await vi.advanceTimersByTimeAsync(5_000)
    await refused
  } finally {
    vi.useRealTimers()
  }
})

it('quotes the text of a server in one escaped line', async () => {
  const issuer = `https://evil.example.com/<script>'${'x'.repeat(300)}`
  const { result: found } = discoverAndRegister(makeSitesWithMetadata({ issuer }))
  const { extra } = await found.then(
    () => expect.unreachable(),
    error => error,
  )
  expect(extra.about).toContain('“https://evil.example.com/\\u{3c}script\\u{3e}\\u{27}x')
  expect(extra.about.length).toBeLessThan(400)
})

it('leaves user info and queries of URLs out of its messages', async () => {
  const { result: found } = discoverAndRegister(
    makeSitesWithMetadata({ issuer: 'https://user:hush@auth.example.com/?token=hush' }),
  )
  const { extra } = await found.then(
    () => expect.unreachable(),
    error => error,
  )
  expect(JSON.stringify(extra)).not.toContain('hush')
})

it('requests the same metadata URLs as the MCP SDK', async () => {
  const { buildDiscoveryUrls } = await import('@modelcontextprotocol/client')
  for (const issuer of [AUTH_ORIGIN, `${AUTH_ORIGIN}/`, TENANT, `${TENANT}/`, `${TENANT}/v2.0`]) {
    const theirs = buildDiscoveryUrls(issuer).map(({ url }) => url.href)
    expect(metadataUrlsOf(new URL(issuer))).toEqual(theirs)
  }
})
