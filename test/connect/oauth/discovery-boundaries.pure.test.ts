// Discovery at its boundaries: which statuses count as what, how long values may be, what is sent and assumed.
import { describe, expect, it } from 'vitest'
import { readBeginning } from '../../../src/connect/oauth/metadata-documents.ts'
import { type Failure, fail } from '../../../src/kernel/http/errors.ts'
import {
  AUTH_ORIGIN,
  discoverAndRegister,
  MCP_ORIGIN,
  makeResourceMetadata,
  makeServerMetadata,
  makeSitesWithMetadata,
  makeValidSites,
  OIDC_METADATA_PATH,
  RESOURCE_METADATA_PATH,
  respondWithChallenges,
  respondWithJson,
  respondWithStatus,
  SERVER_METADATA_PATH,
  type Sites,
} from '../../support/mcp-sites.ts'

const discover = (sites: Sites, scenario = {}) => discoverAndRegister(sites, scenario).result
const codeOf = (sites: Sites, scenario = {}) =>
  discover(sites, scenario).then(
    () => 'discovered',
    (error: Failure) => error.code,
  )
const PATH = `${RESOURCE_METADATA_PATH}/mcp`
/** Two bytes of UTF-8 and the start of the text may come in different parts. */
const respondInParts = (text: string) => () => {
  const bytes = new TextEncoder().encode(text)
  const parts = Array.from(bytes, byte => new Uint8Array([byte]))
  const pull = (controller: ReadableStreamDefaultController) =>
    parts.length > 0 ? controller.enqueue(parts.shift()) : controller.close()
  return new Response(new ReadableStream({ pull }))
}

it.each([
  [200, 'discovered'],
  [300, 'upstream_error'],
  [399, 'upstream_error'],
  // The document is at the next URL.
  [400, 'discovered'],
  [428, 'discovered'],
  [429, 'upstream_error'],
  [499, 'discovered'],
  [500, 'upstream_error'],
])('the status %i of a metadata document leads to %s', async (status, outcome) => {
  const document = makeServerMetadata(AUTH_ORIGIN, { code_challenge_methods_supported: ['S256'] })
  const sites = makeValidSites(
    {},
    { [SERVER_METADATA_PATH]: respondWithJson(status, document), [OIDC_METADATA_PATH]: document },
  )
  expect(await codeOf(sites)).toBe(outcome)
})

it('a document of an error is not read', async () => {
  const other = makeServerMetadata(AUTH_ORIGIN, { token_endpoint: `${AUTH_ORIGIN}/wrong` })
  const sites = makeValidSites(
    {},
    { [SERVER_METADATA_PATH]: respondWithJson(404, other), [OIDC_METADATA_PATH]: makeServerMetadata(AUTH_ORIGIN) },
  )
  expect(await discover(sites)).toMatchObject({ token_url: `${AUTH_ORIGIN}/token` })
})

it.each([
  ['that comes byte by byte', (text: string) => text],
  ['after white space', (text: string) => ` \n\t${text}`],
])('a document %s is read whole', async (_, change) => {
  const metadata = makeServerMetadata(AUTH_ORIGIN, { name: 'Käse' })
  const sites = makeValidSites({}, { [SERVER_METADATA_PATH]: respondInParts(change(JSON.stringify(metadata))) })
  expect(await discover(sites)).toMatchObject({ issuer: AUTH_ORIGIN })
})

it.each([
  ['nothing', respondWithStatus(200)],
  ['white space', respondWithStatus(200, '  ')],
  ['half an object', respondWithStatus(200, '{"issuer"')],
  ['a list', respondWithStatus(200, '[{}]')],
])('%s counts as no document', async (_, respond) => {
  const sites = makeValidSites({ [PATH]: respond, [RESOURCE_METADATA_PATH]: respond })
  expect(await codeOf(sites)).toBe('metadata_invalid')
})

describe('a value of the metadata', () => {
  const resourceOf = (length: number) => `${MCP_ORIGIN}/mcp`.padEnd(length, '/')
  const withServers = (count: number) =>
    makeValidSites({
      [PATH]: {
        resource: `${MCP_ORIGIN}/mcp`,
        authorization_servers: [AUTH_ORIGIN, ...Array.from({ length: count - 1 }, () => AUTH_ORIGIN)],
      },
    })
  it.each<[string, Sites, string]>([
    ['of 1000 texts is accepted', withServers(1000), 'discovered'],
    ['of 1001 texts is refused', withServers(1001), 'metadata_invalid'],
    [
      'of no text is refused',
      makeValidSites({ [PATH]: { resource: MCP_ORIGIN, authorization_servers: [] } }),
      'metadata_invalid',
    ],
    [
      'of 2049 characters is refused',
      makeValidSites({ [PATH]: makeResourceMetadata(resourceOf(2049), AUTH_ORIGIN) }),
      'metadata_invalid',
    ],
    [
      'of 2048 characters is read',
      makeValidSites({ [PATH]: makeResourceMetadata(resourceOf(2048), AUTH_ORIGIN) }),
      'resource_mismatch',
    ],
    ['that starts with a space is refused', makeSitesWithMetadata({ issuer: ` ${AUTH_ORIGIN}` }), 'metadata_invalid'],
    ['that ends with a space is refused', makeSitesWithMetadata({ issuer: `${AUTH_ORIGIN} ` }), 'metadata_invalid'],
    [
      'that differs by more than a slash is refused',
      makeSitesWithMetadata({ issuer: `${AUTH_ORIGIN}/a/` }),
      'issuer_mismatch',
    ],
  ])('%s', async (_, sites, outcome) => expect(await codeOf(sites)).toBe(outcome))
})

it('the defaults of RFC 8414 hold for absent members', async () => {
  const defaults = { token_endpoint_auth_methods_supported: null, grant_types_supported: null }
  expect(await discover(makeSitesWithMetadata(defaults))).toMatchObject({
    auth_methods: ['client_secret_basic'],
    supports_refresh: true,
    supports_metadata_document: false,
  })
  const listed = { token_endpoint_auth_methods_supported: ['none'], grant_types_supported: ['authorization_code'] }
  expect(await discover(makeSitesWithMetadata(listed))).toMatchObject({
    auth_methods: ['none'],
    supports_refresh: false,
  })
  const withRefresh = { grant_types_supported: ['authorization_code', 'refresh_token'] }
  expect(await discover(makeSitesWithMetadata(withRefresh))).toMatchObject({ supports_refresh: true })
})

it.each(['authorization_endpoint', 'token_endpoint', 'registration_endpoint', 'revocation_endpoint'])(
  'a failure names the endpoint that is not safe: %s',
  async name => {
    const sites = makeSitesWithMetadata({ [name]: 'http://auth.example.com/x' })
    const failure = await discover(sites).then(
      () => expect.unreachable(),
      (error: Failure) => error,
    )
    expect(failure).toMatchObject({ code: 'unsafe_endpoint', extra: { about: expect.stringContaining(`\`${name}\``) } })
  },
)

it('a failure names each invalid member once', async () => {
  const { extra } = await discover(makeSitesWithMetadata({ issuer: 1, scopes_supported: [1, 2] })).then(
    () => expect.unreachable(),
    (error: Failure) => error,
  )
  expect(extra.about).toMatch(/`issuer`, `scopes_supported`$/)
})

describe('without any metadata', () => {
  const sitesWith = (post: unknown, get: unknown = post): Sites => ({
    [MCP_ORIGIN]: { 'POST /mcp': post, 'GET /mcp': get },
  })
  it.each([
    [200, 'oauth_not_required'],
    [300, 'upstream_error'],
    [399, 'upstream_error'],
    [400, 'oauth_not_required'],
    [401, 'metadata_invalid'],
    [403, 'metadata_invalid'],
    [499, 'oauth_not_required'],
    [500, 'upstream_error'],
  ])('the status %i of the server leads to %s', async (status, code) => {
    expect(await codeOf(sitesWith(status))).toBe(code)
  })

  it('endpoints are assumed only with the option for it', async () => {
    const sites = { ...sitesWith(401) }
    sites[MCP_ORIGIN] = { ...sites[MCP_ORIGIN], 'POST /register': respondWithJson(201, { client_id: 'made' }) }
    expect(await codeOf(sites)).toBe('metadata_invalid')
    const options = { defaultEndpoints: true }
    expect(await discover(sites, { options, wish: { registration: 'manual', client_id: 'mine' } })).toMatchObject({
      issuer: null,
      issuer_in_answers: false,
      resource: null,
      revocation_url: null,
      auth_methods: ['client_secret_post', 'client_secret_basic', 'none'],
      supports_refresh: true,
      supports_metadata_document: false,
      scopes: [],
      warnings: ['default_endpoints'],
    })
  })
})

describe('the first request', () => {
  it.each([
    [300, true],
    [399, true],
    [400, false],
    [404, true],
    [405, true],
    [406, false],
    [500, false],
  ])('that is answered %i is sent again as a GET: %j', async (status, isRepeated) => {
    const sites = makeValidSites({ 'POST /mcp': status, 'GET /mcp': respondWithChallenges('Bearer scope="read"') })
    const { result, listRequests } = discoverAndRegister(sites)
    await result.catch(() => {})
    expect(listRequests().includes(`GET ${MCP_ORIGIN}/mcp`)).toBe(isRepeated)
  })

  it('is the first one of an MCP client, and each request has its Accept header', async () => {
    const { result, fakeFetch } = discoverAndRegister(makeValidSites({ 'POST /mcp': 405, 'GET /mcp': 401 }))
    await result
    const [post, get, document] = fakeFetch.requests as [(typeof fakeFetch.requests)[0], never, never]
    expect(JSON.parse(post.body)).toMatchObject({
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'slipway', version: '1.0.0' } },
    })
    const takes = ({ headers }: typeof post) => headers.get('Accept')
    expect(post.headers.get('Content-Type')).toBe('application/json')
    expect([takes(post), takes(get)]).toEqual(Array(2).fill('application/json, text/event-stream'))
    expect(takes(document)).toBe('application/json')
    expect((document as typeof post).headers.get('MCP-Protocol-Version')).toBe('2025-11-25')
  })
})

describe('the beginning of a response', () => {
  /** Endless, unless it breaks. */
  const responseOf = (part: string, breakAfter = Number.POSITIVE_INFINITY, error: unknown = null) => {
    let sent = 0
    const pull = (controller: ReadableStreamDefaultController) => {
      if (sent++ < breakAfter) controller.enqueue(new TextEncoder().encode(part))
      else if (error) controller.error(error)
      else controller.close()
    }
    return new Response(new ReadableStream({ pull }, { highWaterMark: 0 }))
  }

  it('is read until it has over 2,000 characters', async () => {
    expect(await readBeginning(responseOf('x'.repeat(1000)))).toHaveLength(3000)
    expect(await readBeginning(responseOf('x'.repeat(2001)))).toHaveLength(2001)
  })

  it('may be the whole, or nothing', async () => {
    expect(await readBeginning(responseOf('ab', 2))).toBe('abab')
    expect(await readBeginning(new Response(null))).toBe('')
  })

  it('is the part before a limit ended the response, and other errors are thrown', async () => {
    expect(await readBeginning(responseOf('ab', 2, fail('upstream_timeout')))).toBe('abab')
    await expect(readBeginning(responseOf('ab', 2, new TypeError('broken')))).rejects.toThrow(TypeError)
  })

  it('keeps characters whose bytes come in two parts', async () => {
    expect(await readBeginning(respondInParts('Käse')())).toBe('Käse')
  })
})
