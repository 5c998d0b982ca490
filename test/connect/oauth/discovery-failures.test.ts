import { afterEach, describe, expect, it } from 'vitest'
import { foreignServers, logLines, newTenant, readEvents } from '../../support/app.ts'
import { makeFakeFetch } from '../../support/fake-fetch.ts'
import {
  AUTH_ORIGIN,
  MCP_ORIGIN,
  makeResourceMetadata,
  makeSitesWithMetadata,
  makeValidSites,
  RESOURCE_METADATA_PATH,
  respondWithChallenges,
  respondWithJson,
  respondWithStatus,
  type Sites,
} from '../../support/mcp-sites.ts'
import { DISCOVER_PATH, makeDiscoverBody, PROVIDERS_PATH } from '../../support/providers.ts'

afterEach(() => {
  foreignServers.fetch = makeFakeFetch({})
})

const SECRET_TEXT = 'hush-5512'
const makeSitesWithRegistration = (answer: unknown): Sites => makeValidSites({}, { 'POST /register': answer })
const hostileProbe = { 'POST /mcp': respondWithChallenges(`Bearer realm="${SECRET_TEXT}"`) }

const cases: [code: string, status: number, about: string, Sites, more?: Record<string, unknown>][] = [
  ['blocked_url', 422, 'MCP server: 10.0.0.1: ', {}, { mcp_server_url: 'https://10.0.0.1/mcp' }],
  ['oauth_not_required', 422, 'MCP server: mcp.example.com: ', { [MCP_ORIGIN]: { 'POST /mcp': 200 } }],
  [
    'resource_mismatch',
    422,
    'protected resource metadata: mcp.example.com: ',
    makeValidSites({
      ...hostileProbe,
      [`${RESOURCE_METADATA_PATH}/mcp`]: makeResourceMetadata('https://mcp.example.net/mcp', AUTH_ORIGIN),
    }),
  ],
  [
    'issuer_mismatch',
    422,
    'authorization server metadata: auth.example.com: ',
    makeSitesWithMetadata({ issuer: `https://a:${SECRET_TEXT}@auth.example.net/?${SECRET_TEXT}` }),
  ],
  [
    'pkce_unsupported',
    422,
    'authorization server metadata: auth.example.com: ',
    makeSitesWithMetadata({ code_challenge_methods_supported: undefined }),
  ],
  [
    'metadata_invalid',
    422,
    'authorization server metadata: auth.example.com: ',
    makeSitesWithMetadata({ token_endpoint: null }),
  ],
  [
    'unsafe_endpoint',
    422,
    'authorization server metadata: auth.example.com: ',
    makeSitesWithMetadata({ token_endpoint: `http://auth.example.com/t?${SECRET_TEXT}` }),
  ],
  [
    'grant_unsupported',
    422,
    'authorization server metadata: auth.example.com: ',
    makeSitesWithMetadata({ response_types_supported: [] }),
  ],
  [
    'registration_unsupported',
    422,
    'registration: auth.example.com: ',
    makeSitesWithMetadata({ registration_endpoint: null }),
  ],
  [
    'registration_rejected',
    422,
    'registration: auth.example.com: ',
    makeSitesWithRegistration(respondWithJson(400, { error: 'invalid_redirect_uri' })),
  ],
  [
    'registration_invalid_response',
    422,
    'registration: auth.example.com: ',
    makeSitesWithRegistration(respondWithJson(201, { client_id: '', client_secret: SECRET_TEXT })),
  ],
  ['upstream_error', 502, 'MCP server: mcp.example.com: ', {}],
  [
    'upstream_error',
    502,
    'registration: auth.example.com: ',
    makeSitesWithRegistration(respondWithStatus(500, SECRET_TEXT)),
  ],
]

describe('a failed discovery', () => {
  it.each(cases)(
    'with %s has status %i and names its stage and host: %s',
    async (code, expected, about, sites, more) => {
      foreignServers.fetch = makeFakeFetch(sites)
      const tenant = await newTenant()
      const { status, body, text, headers } = await tenant.post(DISCOVER_PATH, makeDiscoverBody(more))
      expect([status, body.code]).toEqual([expected, code])
      expect(body.detail).toContain(about)
      // A failure before any request has no trace.
      if (more) expect(body.trace).toBeUndefined()
      else expect(body.trace.length).toBeGreaterThan(0)
      const [stage, host] = about.split(': ')
      const hops = body.trace?.map((hop: { stage: string; url: string }) => [hop.stage, new URL(hop.url).host])
      if (hops && code !== 'registration_unsupported') expect(hops).toContainEqual([stage, host])
      const events = await readEvents(headers.get('X-Request-Id')!)
      expect(events).toEqual([])
      expect(text + JSON.stringify(logLines)).not.toContain(SECRET_TEXT)
      expect((await tenant.get(PROVIDERS_PATH)).body).toEqual([])
      const dryRun = await tenant.post(`${DISCOVER_PATH}?dry_run=true`, makeDiscoverBody(more))
      if (about.startsWith('registration: ') && code !== 'registration_unsupported') expect(dryRun.status).toBe(200)
      else expect([dryRun.body.code, dryRun.body.trace?.length]).toEqual([code, body.trace?.length])
    },
  )

  it('with upstream_timeout has status 504 and a trace that ends with the timeout', async () => {
    foreignServers.fetch = makeFakeFetch({ ...makeValidSites({}, { 'POST /register': () => new Promise(() => {}) }) })
    const { status, body } = await (await newTenant()).post(DISCOVER_PATH, makeDiscoverBody())
    expect([status, body.code]).toEqual([504, 'upstream_timeout'])
    expect(body.detail).toContain('registration: auth.example.com: ')
    expect(body.trace.at(-1)).toMatchObject({ stage: 'registration', outcome: 'upstream_timeout', status: null })
  })

  it('with an invalid URL has no trace', async () => {
    const { status, body } = await (await newTenant()).post(
      DISCOVER_PATH,
      makeDiscoverBody({ mcp_server_url: 'not-a-url' }),
    )
    expect([status, body.code, body.trace]).toEqual([422, 'invalid_mcp_server_url', undefined])
  })
})
