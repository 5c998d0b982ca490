import { describe, expect, it, vi } from 'vitest'
import { metadataUrlsOf } from '../../../src/connect/oauth/authorization-server.ts'
import { Failure } from '../../../src/kernel/http/errors.ts'
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
} from '../../support/mcp-sites.ts'

type ExpectedRefusal = [code: string, stage: string, host: string]
type Case = [
  name: string,
  sites: Sites,
  expected: Record<string, unknown> | ExpectedRefusal,
  scenario?: DiscoveryScenario & { requests?: string[] },
]

const PROBE_STAGE = 'MCP server'
const RESOURCE_STAGE = 'protected resource metadata'
const SERVER_STAGE = 'authorization server metadata'
const [mcp, auth] = ['mcp.example.com', 'auth.example.com']
const withoutPathMetadata = { [`${RESOURCE_METADATA_PATH}/mcp`]: undefined }
const expectWarnings = (...warnings: string[]) => ({ warnings })
const respondWithMetadataUrl = (address: string) => respondWithChallenges(`Bearer resource_metadata="${address}"`)
const withResource = (resource: unknown) =>
  makeValidSites({ [`${RESOURCE_METADATA_PATH}/mcp`]: makeResourceMetadata(resource as string, AUTH_ORIGIN) })
const redirectTo = (location: string) => respondWithStatus(307, null, { Location: location })
const expectedDiscovery = { issuer: AUTH_ORIGIN, resource: `${MCP_ORIGIN}/mcp`, warnings: [] }
const OTHER_ORIGIN = 'https://other.example.net'
const LONG_TEXT = 'x'.repeat(70_000)

const probeCases: Case[] = [
  [
    'discovers a valid server with three requests',
    makeValidSites(),
    {
      issuer: AUTH_ORIGIN,
      issuer_in_answers: false,
      resource: `${MCP_ORIGIN}/mcp`,
      scopes: [],
      warnings: [],
      auth_url: `${AUTH_ORIGIN}/authorize`,
      token_url: `${AUTH_ORIGIN}/token`,
      registration_url: `${AUTH_ORIGIN}/register`,
      revocation_url: null,
      uses_pkce: true,
      code_challenge_method: 'S256',
      registration: 'dynamic',
    },
    {
      requests: [
        `POST ${MCP_ORIGIN}/mcp`,
        `GET ${MCP_ORIGIN}${RESOURCE_METADATA_PATH}/mcp`,
        `GET ${AUTH_ORIGIN}${SERVER_METADATA_PATH}`,
        `POST ${AUTH_ORIGIN}/register`,
      ],
    },
  ],
  ['drops the fragment of the server URL', makeValidSites(), expectedDiscovery, { server: `${MCP_ORIGIN}/mcp#here` }],
  [
    'sends a GET after a 405 to the POST',
    makeValidSites({
      'POST /mcp': 405,
      'GET /mcp': respondWithMetadataUrl(`${MCP_ORIGIN}/meta`),
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
    'follows a redirect of the GET, but none of the POST',
    makeValidSites({
      'POST /mcp': redirectTo('/mcp/'),
      'GET /mcp': redirectTo('/mcp/'),
      'GET /mcp/': respondWithChallenges('Bearer scope="read"'),
    }),
    { scopes: ['read'] },
  ],
  [
    'reads every challenge of a response',
    makeValidSites({
      'POST /mcp': respondWithChallenges(
        'Basic realm="a, b", Digest nonce="x"',
        `Bearer error="e", resource_metadata="${MCP_ORIGIN}/meta"`,
      ),
      '/meta': makeResourceMetadata(`${MCP_ORIGIN}/mcp`, AUTH_ORIGIN),
      ...withoutPathMetadata,
    }),
    expectedDiscovery,
  ],
  [
    'reads a challenge in lower case whose URL is unquoted',
    makeValidSites({
      'POST /mcp': respondWithChallenges(`bearer error=invalid_token, resource_metadata=${MCP_ORIGIN}/meta`),
      '/meta': makeResourceMetadata(`${MCP_ORIGIN}/mcp`, AUTH_ORIGIN),
      ...withoutPathMetadata,
    }),
    expectedDiscovery,
  ],
  [
    'ignores a malformed challenge from the fault on, with a warning',
    makeValidSites({
      'POST /mcp': respondWithChallenges(`Bearer scope=read, a"b, resource_metadata="${OTHER_ORIGIN}"`),
    }),
    { scopes: ['read'], warnings: ['challenge_unreadable'] },
  ],
  ['continues if the server fails with status 500', makeValidSites({ 'POST /mcp': 500 }), expectedDiscovery],
  [
    'refuses a challenge with an invalid metadata URL',
    makeValidSites({ 'POST /mcp': respondWithMetadataUrl('/meta') }),
    ['metadata_invalid', PROBE_STAGE, mcp],
  ],
  ['fails if the host does not exist', {}, ['upstream_error', PROBE_STAGE, mcp]],
  ['refuses a server URL without a scheme', {}, ['invalid_mcp_server_url', '', ''], { server: 'mcp.example.com' }],
  ['refuses an internal address', {}, ['blocked_url', '', '10.0.0.1'], { server: 'https://10.0.0.1/mcp' }],
  [
    'fails if the server has status 503 and no metadata',
    { [MCP_ORIGIN]: { 'POST /mcp': 503 } },
    ['upstream_error', PROBE_STAGE, mcp],
  ],
  [
    'refuses a redirect to another origin',
    { [MCP_ORIGIN]: { 'POST /mcp': redirectTo(AUTH_ORIGIN), 'GET /mcp': redirectTo(AUTH_ORIGIN) } },
    ['blocked_url', PROBE_STAGE, mcp],
  ],
]

const resourceCases: Case[] = [
  [
    'are requested from the URL of the challenge, then below the well-known path, then at its root',
    makeValidSites({
      'POST /mcp': respondWithMetadataUrl(`${MCP_ORIGIN}/meta`),
      ...withoutPathMetadata,
      [RESOURCE_METADATA_PATH]: makeResourceMetadata(MCP_ORIGIN, AUTH_ORIGIN),
    }),
    { ...expectedDiscovery, resource: MCP_ORIGIN },
    {
      requests: [
        `POST ${MCP_ORIGIN}/mcp`,
        `GET ${MCP_ORIGIN}/meta`,
        `GET ${MCP_ORIGIN}${RESOURCE_METADATA_PATH}/mcp`,
        `GET ${MCP_ORIGIN}${RESOURCE_METADATA_PATH}`,
        `GET ${AUTH_ORIGIN}${SERVER_METADATA_PATH}`,
        `POST ${AUTH_ORIGIN}/register`,
      ],
    },
  ],
  [
    'are requested with the query of the server URL',
    makeValidSites(),
    { resource: `${MCP_ORIGIN}/mcp` },
    {
      server: `${MCP_ORIGIN}/mcp?team=1`,
      requests: [
        `POST ${MCP_ORIGIN}/mcp?team=1`,
        `GET ${MCP_ORIGIN}${RESOURCE_METADATA_PATH}/mcp?team=1`,
        `GET ${AUTH_ORIGIN}${SERVER_METADATA_PATH}`,
        `POST ${AUTH_ORIGIN}/register`,
      ],
    },
  ],
  [
    'can name the server URL with a trailing slash',
    withResource(`${MCP_ORIGIN}/mcp/`),
    { resource: `${MCP_ORIGIN}/mcp/` },
  ],
  [
    'can name the server URL without its trailing slash',
    withResource(`${MCP_ORIGIN}/mcp`),
    { resource: `${MCP_ORIGIN}/mcp` },
    { server: `${MCP_ORIGIN}/mcp/` },
  ],
  ['can name the whole origin', withResource(MCP_ORIGIN), { resource: MCP_ORIGIN }],
  [
    'are refused if they name a path prefix that ends within a segment',
    withResource(`${MCP_ORIGIN}/mc`),
    ['resource_mismatch', RESOURCE_STAGE, mcp],
  ],
  [
    'are refused if they name a path below the server URL',
    withResource(`${MCP_ORIGIN}/mcp/more`),
    ['resource_mismatch', RESOURCE_STAGE, mcp],
  ],
  [
    'are refused if they name another origin',
    withResource('https://mcp.example.net/mcp'),
    ['resource_mismatch', RESOURCE_STAGE, mcp],
  ],
  [
    'are refused if they name another query',
    withResource(`${MCP_ORIGIN}/mcp?team=2`),
    ['resource_mismatch', RESOURCE_STAGE, mcp],
    { server: `${MCP_ORIGIN}/mcp?team=1` },
  ],
  [
    'are refused if they name a URL with user info',
    withResource('https://a:b@mcp.example.com/mcp'),
    ['resource_mismatch', RESOURCE_STAGE, mcp],
  ],
  ['are refused if their resource is not a URL', withResource('mcp'), ['resource_mismatch', RESOURCE_STAGE, mcp]],
  ['are refused if their resource is null', withResource(null), ['metadata_invalid', RESOURCE_STAGE, mcp]],
  [
    'are refused if they name no authorization server',
    makeValidSites({ [`${RESOURCE_METADATA_PATH}/mcp`]: { resource: `${MCP_ORIGIN}/mcp` } }),
    ['metadata_invalid', RESOURCE_STAGE, mcp],
  ],
  [
    'are not requested elsewhere after status 500',
    makeValidSites({
      [`${RESOURCE_METADATA_PATH}/mcp`]: 500,
      [RESOURCE_METADATA_PATH]: makeResourceMetadata(MCP_ORIGIN, AUTH_ORIGIN),
    }),
    ['upstream_error', RESOURCE_STAGE, mcp],
    { requests: [`POST ${MCP_ORIGIN}/mcp`, `GET ${MCP_ORIGIN}${RESOURCE_METADATA_PATH}/mcp`] },
  ],
  [
    'are not requested elsewhere after status 429',
    makeValidSites({ [`${RESOURCE_METADATA_PATH}/mcp`]: 429 }),
    ['upstream_error', RESOURCE_STAGE, mcp],
  ],
  [
    'are refused behind a redirect to another origin',
    makeValidSites({ [`${RESOURCE_METADATA_PATH}/mcp`]: redirectTo(AUTH_ORIGIN) }),
    ['blocked_url', RESOURCE_STAGE, mcp],
  ],
  [
    'fail with a redirect status without a location',
    makeValidSites({ [`${RESOURCE_METADATA_PATH}/mcp`]: 304 }),
    ['upstream_error', RESOURCE_STAGE, mcp],
  ],
  [
    'are read behind a redirect within the origin',
    makeValidSites({
      [`${RESOURCE_METADATA_PATH}/mcp`]: redirectTo('/meta'),
      '/meta': makeResourceMetadata(`${MCP_ORIGIN}/mcp`, AUTH_ORIGIN),
    }),
    expectedDiscovery,
  ],
  [
    'are ignored if they are not a JSON object, even as application/json',
    makeValidSites({
      'POST /mcp': respondWithMetadataUrl(`${MCP_ORIGIN}/meta`),
      '/meta': respondWithJson(200, ['no']),
    }),
    expectedDiscovery,
  ],
  [
    'are ignored if they are a page of any length',
    makeValidSites({ 'POST /mcp': respondWithMetadataUrl(`${MCP_ORIGIN}/meta`), '/meta': respondWithHtml(70_000) }),
    expectedDiscovery,
  ],
  [
    'are accepted as a JSON object with the content type text/plain',
    makeValidSites({
      [`${RESOURCE_METADATA_PATH}/mcp`]: respondWithStatus(
        200,
        ` ${JSON.stringify(makeResourceMetadata(`${MCP_ORIGIN}/mcp`, AUTH_ORIGIN))}`,
      ),
    }),
    expectedDiscovery,
  ],
  [
    'fail if they are larger than 64 KiB',
    makeValidSites({ [`${RESOURCE_METADATA_PATH}/mcp`]: { LONG: LONG_TEXT } }),
    ['upstream_error', RESOURCE_STAGE, mcp],
  ],
  [
    'are refused at an http URL',
    makeValidSites({ 'POST /mcp': respondWithMetadataUrl('http://mcp.example.com/m') }),
    ['blocked_url', RESOURCE_STAGE, mcp],
  ],
  [
    'are refused at an internal URL',
    makeValidSites({ 'POST /mcp': respondWithMetadataUrl('https://169.254.169.254/') }),
    ['blocked_url', RESOURCE_STAGE, '169.254.169.254'],
  ],
]

const expectedLegacy = { resource: null, issuer: MCP_ORIGIN, warnings: ['legacy_discovery'] }
const legacyCases: Case[] = [
  [
    'is its own authorization server if it requires authorization',
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
    'is its own authorization server if it publishes OpenID metadata but requires no authorization',
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
    'is refused if it requires authorization and publishes nothing',
    { [MCP_ORIGIN]: { '/mcp': 401 } },
    ['metadata_invalid', SERVER_STAGE, mcp],
  ],
  [
    'has the default endpoints if they are allowed',
    { [MCP_ORIGIN]: { '/mcp': 403, 'POST /register': respondWithJson(201, { client_id: 'made' }) } },
    {
      issuer: null,
      resource: null,
      auth_url: `${MCP_ORIGIN}/authorize`,
      token_url: `${MCP_ORIGIN}/token`,
      uses_pkce: true,
      client_id: 'made',
      token_endpoint_auth_method: 'none',
      warnings: ['default_endpoints'],
    },
    { options: { defaultEndpoints: true } },
  ],
  [
    'fails if its authorization server metadata has status 500',
    { [MCP_ORIGIN]: { '/mcp': 401, [SERVER_METADATA_PATH]: 500 } },
    ['upstream_error', SERVER_STAGE, mcp],
  ],
  [
    'is refused if it requires no authorization',
    { [MCP_ORIGIN]: {} },
    ['oauth_not_required', PROBE_STAGE, mcp],
    { options: { defaultEndpoints: true } },
  ],
]

const makeSitesListing = (...authorization_servers: unknown[]) =>
  makeValidSites({ [`${RESOURCE_METADATA_PATH}/mcp`]: { resource: `${MCP_ORIGIN}/mcp`, authorization_servers } })
const makeSitesWithMetadataAt = (issuer: string, where: string, more = {}): Sites => ({
  ...makeValidSites({ [`${RESOURCE_METADATA_PATH}/mcp`]: makeResourceMetadata(`${MCP_ORIGIN}/mcp`, issuer) }),
  [AUTH_ORIGIN]: {
    [where]: makeServerMetadata(issuer, more),
    'POST /tenant/register': respondWithJson(200, { client_id: 'made' }),
  },
})
const TENANT = `${AUTH_ORIGIN}/tenant`
const WITHOUT_PKCE = { code_challenge_methods_supported: undefined }
/** The RFC 8414 document lists no PKCE methods, and the OpenID document lists S256. */
const withOpenIdDocument = (more: object) =>
  makeSitesWithMetadata(WITHOUT_PKCE, {}, { [OIDC_METADATA_PATH]: makeServerMetadata(AUTH_ORIGIN, { ...more }) })
const serverCases: Case[] = [
  [
    'is the first usable one of the listed servers',
    makeSitesListing(`${AUTH_ORIGIN}/none`, 'http://auth.example.com', AUTH_ORIGIN),
    expectWarnings('server_skipped', 'server_skipped'),
  ],
  [
    'is refused with the failure of the first one if none is usable',
    makeSitesListing('https://10.0.0.1', `${AUTH_ORIGIN}/none`),
    ['blocked_url', SERVER_STAGE, '10.0.0.1'],
  ],
  [
    'is one of the first eight in the list',
    makeSitesListing(...Array.from({ length: 8 }, (_, i) => `https://10.0.0.${i}`), AUTH_ORIGIN),
    ['blocked_url', SERVER_STAGE, '10.0.0.0'],
  ],
  ['is refused if it is listed as a number', makeSitesListing(1), ['metadata_invalid', RESOURCE_STAGE, mcp]],
  ['is refused if it is not listed as a URL', makeSitesListing('auth'), ['blocked_url', SERVER_STAGE, '']],
  [
    'is refused if its URL has a query',
    makeSitesListing(`${AUTH_ORIGIN}?a=b`),
    ['metadata_invalid', SERVER_STAGE, auth],
  ],
  [
    'is refused if it publishes nothing',
    makeSitesListing(`${AUTH_ORIGIN}/none`),
    ['metadata_invalid', SERVER_STAGE, auth],
  ],
  [
    'fails with status 502',
    makeValidSites({}, { [SERVER_METADATA_PATH]: 502 }),
    ['upstream_error', SERVER_STAGE, auth],
  ],
  [
    'fails if its host does not exist',
    makeSitesListing('https://auth.example.net'),
    ['upstream_error', SERVER_STAGE, 'auth.example.net'],
  ],
  [
    'with a path in its issuer is found at the well-known path before that path',
    makeSitesWithMetadataAt(TENANT, `${SERVER_METADATA_PATH}/tenant`),
    { issuer: TENANT },
  ],
  [
    'with a path in its issuer is found at the OpenID path before that path',
    makeSitesWithMetadataAt(TENANT, `${OIDC_METADATA_PATH}/tenant`),
    { issuer: TENANT },
  ],
  [
    'with a path in its issuer is found at the OpenID path after that path',
    makeSitesWithMetadataAt(TENANT, `/tenant${OIDC_METADATA_PATH}`),
    { issuer: TENANT },
  ],
  [
    'is not requested from another host if its path begins with two slashes',
    {
      ...makeSitesListing(`${AUTH_ORIGIN}//evil.example.net`),
      'https://evil.example.net': { [OIDC_METADATA_PATH]: makeServerMetadata(`${AUTH_ORIGIN}//evil.example.net`) },
    },
    ['metadata_invalid', SERVER_STAGE, auth],
  ],
  [
    'is found at the OpenID path',
    makeValidSites({}, { [SERVER_METADATA_PATH]: undefined, [OIDC_METADATA_PATH]: makeServerMetadata(AUTH_ORIGIN) }),
    expectedDiscovery,
  ],
  [
    'is refused if it names another issuer',
    makeSitesWithMetadata({ issuer: 'https://auth.example.net' }),
    ['issuer_mismatch', SERVER_STAGE, auth],
  ],
  [
    'is refused if it names its issuer in upper case',
    makeSitesWithMetadata({ issuer: 'https://AUTH.example.com' }),
    ['issuer_mismatch', SERVER_STAGE, auth],
  ],
  [
    'is refused if it names no issuer',
    makeSitesWithMetadata({ issuer: null }),
    ['metadata_invalid', SERVER_STAGE, auth],
  ],
  [
    'can name its issuer with an additional slash after the host',
    makeSitesWithMetadata({ issuer: `${AUTH_ORIGIN}/` }),
    { issuer: `${AUTH_ORIGIN}/`, warnings: ['issuer_slash'] },
  ],
  [
    'can name its issuer without the slash after the host',
    { ...makeSitesListing(`${AUTH_ORIGIN}/`) },
    { issuer: AUTH_ORIGIN, warnings: ['issuer_slash'] },
  ],
  [
    'is refused if it names its issuer with an additional slash after a path',
    makeSitesWithMetadataAt(TENANT, `${SERVER_METADATA_PATH}/tenant`, { issuer: `${TENANT}/` }),
    ['issuer_mismatch', SERVER_STAGE, auth],
  ],
  [
    'is refused if it lists no PKCE methods',
    makeSitesWithMetadata({ code_challenge_methods_supported: null }),
    ['pkce_unsupported', SERVER_STAGE, auth],
  ],
  [
    'without PKCE methods is accepted if the organization assumes S256',
    makeSitesWithMetadata({ code_challenge_methods_supported: undefined }),
    { uses_pkce: true, code_challenge_method: 'S256', warnings: ['pkce_assumed'] },
    { options: { assumeS256: host => host === auth } },
  ],
  [
    'may list its PKCE methods in the OpenID document only, from which nothing else is taken',
    withOpenIdDocument({ registration_endpoint: `${AUTH_ORIGIN}/elsewhere`, scopes_supported: ['offline_access'] }),
    { ...expectedDiscovery, scopes: [], registration_url: `${AUTH_ORIGIN}/register` },
    {
      requests: [
        `POST ${MCP_ORIGIN}/mcp`,
        `GET ${MCP_ORIGIN}${RESOURCE_METADATA_PATH}/mcp`,
        `GET ${AUTH_ORIGIN}${SERVER_METADATA_PATH}`,
        `GET ${AUTH_ORIGIN}${OIDC_METADATA_PATH}`,
        `POST ${AUTH_ORIGIN}/register`,
      ],
    },
  ],
  [
    'may list its PKCE methods in the appended OpenID document only',
    {
      ...makeSitesWithMetadataAt(TENANT, `${SERVER_METADATA_PATH}/tenant`),
      [AUTH_ORIGIN]: {
        [`${SERVER_METADATA_PATH}/tenant`]: makeServerMetadata(TENANT, WITHOUT_PKCE),
        [`${OIDC_METADATA_PATH}/tenant`]: makeServerMetadata(TENANT, WITHOUT_PKCE),
        [`/tenant${OIDC_METADATA_PATH}`]: makeServerMetadata(TENANT),
        'POST /tenant/register': respondWithJson(200, { client_id: 'made' }),
      },
    },
    { issuer: TENANT, code_challenge_method: 'S256', warnings: [] },
  ],
  ...[
    ['of another issuer', { issuer: `${AUTH_ORIGIN}/` }],
    ['with another authorization endpoint', { authorization_endpoint: `${AUTH_ORIGIN}/oidc/authorize` }],
    ['with another token endpoint', { token_endpoint: `${AUTH_ORIGIN}/oidc/token` }],
    ['without S256', { code_challenge_methods_supported: ['plain'] }],
    ['whose methods are no list', { code_challenge_methods_supported: 'S256' }],
  ].map(
    ([what, more]): Case => [
      `is refused if its PKCE methods are only in an OpenID document ${what}`,
      withOpenIdDocument(more as object),
      ['pkce_unsupported', SERVER_STAGE, auth],
    ],
  ),
  ...[500, redirectTo(MCP_ORIGIN), respondWithHtml()].map(
    (answer, i): Case => [
      `needs neither PKCE methods nor an OpenID document (${i}) if the organization assumes S256`,
      makeSitesWithMetadata(WITHOUT_PKCE, {}, { [OIDC_METADATA_PATH]: answer }),
      expectWarnings('pkce_assumed'),
      { options: { assumeS256: () => true } },
    ],
  ),
  [
    'with an OpenID document without S256 is refused even if S256 is assumed',
    withOpenIdDocument({ code_challenge_methods_supported: ['plain'] }),
    ['pkce_unsupported', SERVER_STAGE, auth],
    { options: { assumeS256: () => true } },
  ],
  [
    'with other PKCE methods is refused, even if the OpenID document lists S256',
    makeSitesWithMetadata(
      { code_challenge_methods_supported: ['plain'] },
      {},
      { [OIDC_METADATA_PATH]: makeServerMetadata(AUTH_ORIGIN) },
    ),
    ['pkce_unsupported', SERVER_STAGE, auth],
  ],
  [
    'with other PKCE methods is refused even if S256 is assumed',
    makeSitesWithMetadata({ code_challenge_methods_supported: ['plain', 's256'] }),
    ['pkce_unsupported', SERVER_STAGE, auth],
    { options: { assumeS256: () => true } },
  ],
  [
    'with an empty list of PKCE methods is refused even if S256 is assumed',
    makeSitesWithMetadata({ code_challenge_methods_supported: [] }),
    ['pkce_unsupported', SERVER_STAGE, auth],
    { options: { assumeS256: () => true } },
  ],
  [
    'is refused if its PKCE methods are not a list',
    makeSitesWithMetadata({ code_challenge_methods_supported: 'S256' }),
    ['metadata_invalid', SERVER_STAGE, auth],
  ],
  [
    'can have endpoints at another origin',
    makeSitesWithMetadata({ token_endpoint: 'https://token.example.net/t' }),
    { token_url: 'https://token.example.net/t' },
  ],
  ...[
    'http://auth.example.com/t',
    'javascript:alert(1)',
    'file:///etc/passwd',
    'https://127.0.0.1/t',
    'https://a:b@auth.example.com/t',
    'https://localhost/t',
    '/token',
    `${AUTH_ORIGIN}/to\0ken`,
  ].flatMap(address =>
    ['authorization_endpoint', 'token_endpoint', 'registration_endpoint', 'revocation_endpoint'].map(
      (name): Case => [
        `is refused with the ${name} ${JSON.stringify(address)}`,
        makeSitesWithMetadata({ [name]: address }),
        ['unsafe_endpoint', SERVER_STAGE, auth],
      ],
    ),
  ),
  [
    'can have an http endpoint on this machine if loopback is allowed',
    makeSitesWithMetadata({ token_endpoint: 'http://localhost:9000/t' }),
    { token_url: 'http://localhost:9000/t' },
    { allowLoopback: true },
  ],
  [
    'is refused without an authorization endpoint',
    makeSitesWithMetadata({ authorization_endpoint: undefined }),
    ['metadata_invalid', SERVER_STAGE, auth],
  ],
  [
    'is refused without the response type code',
    makeSitesWithMetadata({ response_types_supported: ['code id_token'] }),
    ['grant_unsupported', SERVER_STAGE, auth],
  ],
  ...[undefined, null].map(
    (missing): Case => [
      `may list no response types (${missing})`,
      makeSitesWithMetadata({ response_types_supported: missing }),
      expectedDiscovery,
    ],
  ),
  [
    'is refused if its response types are no list',
    makeSitesWithMetadata({ response_types_supported: 'code' }),
    ['metadata_invalid', SERVER_STAGE, auth],
  ],
  [
    'is refused without the grant authorization_code',
    makeSitesWithMetadata({ grant_types_supported: ['client_credentials'] }),
    ['grant_unsupported', SERVER_STAGE, auth],
  ],
  [
    'can lack the grant refresh_token',
    makeSitesWithMetadata({ grant_types_supported: ['authorization_code'] }),
    { supports_refresh: false },
  ],
  [
    'can set optional members to null',
    makeSitesWithMetadata({
      revocation_endpoint: null,
      grant_types_supported: null,
      scopes_supported: null,
      authorization_response_iss_parameter_supported: null,
      client_id_metadata_document_supported: null,
    }),
    { ...expectedDiscovery, revocation_url: null, issuer_in_answers: false, supports_metadata_document: false },
  ],
  [
    'can announce the issuer in its authorization responses',
    makeSitesWithMetadata({ authorization_response_iss_parameter_supported: true }),
    { issuer_in_answers: true },
  ],
  [
    'is refused with a text for a boolean',
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
  ['are those of the challenge', withScopes('Bearer scope="read  write read"', ['all']), { scopes: ['read', 'write'] }],
  [
    'are those of the resource if the challenge has none',
    withScopes('Bearer scope=""', ['read']),
    { scopes: ['read'] },
  ],
  [
    'are never all that the authorization server supports',
    withScopes('Bearer', [], { scopes_supported: ['admin'] }),
    { scopes: [] },
  ],
  [
    'include offline_access if the authorization server supports it',
    withScopes('Bearer', ['read'], { scopes_supported: ['offline_access'] }),
    { scopes: ['read', 'offline_access'] },
  ],
  [
    'include offline_access only once',
    withScopes('Bearer', ['offline_access'], { scopes_supported: ['offline_access'] }),
    { scopes: ['offline_access'] },
  ],
  [
    'omit malformed ones with a warning',
    withScopes('Bearer', ['a b', 'ö', '', 'read']),
    { scopes: ['read'], warnings: ['scope_dropped'] },
  ],
  ['are refused if they are not a list', withScopes('Bearer', 'read'), ['metadata_invalid', RESOURCE_STAGE, mcp]],
]

describe.each([
  ['discovery', probeCases],
  ['the metadata of the protected resource', resourceCases],
  ['a server without metadata of its resource', legacyCases],
  ['the authorization server', serverCases],
  ['the requested scopes', scopeCases],
])('%s', (_, cases) => {
  it.each(cases)('%s', async (_, sites, expected, { requests, ...scenario } = {}) => {
    const { result: found, listRequests: asked, fakeFetch: world } = discoverAndRegister(sites, scenario)
    if (Array.isArray(expected)) {
      const failure = await found.then(
        () => expect.unreachable(),
        error => error,
      )
      expect(failure).toBeInstanceOf(Failure)
      const [code, stage, host] = expected as ExpectedRefusal
      expect(failure.code).toBe(code)
      if (stage) expect(failure.extra.about.split(': ').slice(0, host ? 2 : 1)).toEqual(host ? [stage, host] : [stage])
      expect(asked().filter(one => /register/.test(one))).toEqual([])
    } else {
      expect(await found).toMatchObject(expected)
      expect(world.requests.filter(({ refused }) => refused)).toEqual([])
    }
    if (requests) expect(asked()).toEqual(requests)
  })
})

it('discovery cancels an endless response to its first request', async () => {
  let isCancelled = false
  const endless = () =>
    new Response(
      new ReadableStream({
        pull: controller => controller.enqueue(new Uint8Array(1)),
        cancel: () => {
          isCancelled = true
        },
      }),
      { headers: { 'Content-Type': 'text/event-stream' } },
    )
  await expect(discoverAndRegister({ [MCP_ORIGIN]: { '/mcp': endless } }).result).rejects.toMatchObject({
    code: 'oauth_not_required',
  })
  expect(isCancelled).toBe(true)
})

it('discovery fails with upstream_timeout if the server does not respond', async () => {
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

it('a failure quotes the text of a server escaped and in one line', async () => {
  const issuer = `https://evil.example.com/<script>'${'x'.repeat(300)}`
  const { result: found } = discoverAndRegister(makeSitesWithMetadata({ issuer }))
  const { extra } = await found.then(
    () => expect.unreachable(),
    error => error,
  )
  expect(extra.about).toContain('“https://evil.example.com/\\u{3c}script\\u{3e}\\u{27}x')
  expect(extra.about.length).toBeLessThan(400)
})

it('a failure names no user info and no query of a URL', async () => {
  const { result: found } = discoverAndRegister(
    makeSitesWithMetadata({ issuer: 'https://user:hush@auth.example.com/?token=hush' }),
  )
  const { extra } = await found.then(
    () => expect.unreachable(),
    error => error,
  )
  expect(JSON.stringify(extra)).not.toContain('hush')
})

it('the metadata URLs of an issuer are the same as in the MCP SDK', async () => {
  const { buildDiscoveryUrls } = await import('@modelcontextprotocol/client')
  for (const issuer of [AUTH_ORIGIN, `${AUTH_ORIGIN}/`, TENANT, `${TENANT}/`, `${TENANT}/v2.0`]) {
    const urlsOfSdk = buildDiscoveryUrls(issuer).map(({ url }) => url.href)
    expect(metadataUrlsOf(new URL(issuer))).toEqual(urlsOfSdk)
  }
})
