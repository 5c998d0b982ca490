// An MCP server and its authorization server as foreign sites, valid unless a test replaces parts.

import { obtainClient } from '../../src/connect/oauth/client-registration.ts'
import { checkServerUrl, type DiscoveryOptions, discoverServer } from '../../src/connect/oauth/mcp-discovery.ts'
import type { ClientRequest } from '../../src/connect/oauth/oauth-client.ts'
import { createGuardedClient } from '../../src/kernel/http/guarded-fetch.ts'
import { makeFakeFetch, type Site } from './fake-fetch.ts'

export const MCP_ORIGIN = 'https://mcp.example.com'
export const AUTH_ORIGIN = 'https://auth.example.com'
const SLIPWAY_ORIGIN = 'https://slipway.example.com'
export const REDIRECT_URI = `${SLIPWAY_ORIGIN}/v2/auth/callback/p`
export const RESOURCE_METADATA_PATH = '/.well-known/oauth-protected-resource'
export const SERVER_METADATA_PATH = '/.well-known/oauth-authorization-server'
export const OIDC_METADATA_PATH = '/.well-known/openid-configuration'

type Members = Record<string, unknown>
export type Sites = Record<string, Site>

export const respondWithStatus =
  (code: number, body: string | null = null, headers: Record<string, string> | [string, string][] = {}) =>
  () =>
    new Response(body, { status: code, headers })
/** 401 with one WWW-Authenticate header per challenge. */
export const respondWithChallenges = (...challenges: string[]) =>
  respondWithStatus(
    401,
    null,
    challenges.map((one): [string, string] => ['WWW-Authenticate', one]),
  )
export const respondWithHtml = (length = 100) =>
  respondWithStatus(200, `<!doctype html>${'x'.repeat(length)}`, { 'Content-Type': 'text/html' })
export const respondWithJson = (code: number, body: unknown) => () => Response.json(body, { status: code })

export const makeResourceMetadata = (resource: string, server: string, more: Members = {}) => ({
  resource,
  authorization_servers: [server],
  ...more,
})
export const makeServerMetadata = (issuer: string, more: Members = {}) => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  registration_endpoint: `${issuer}/register`,
  response_types_supported: ['code'],
  code_challenge_methods_supported: ['S256'],
  token_endpoint_auth_methods_supported: ['none', 'client_secret_basic', 'client_secret_post'],
  ...more,
})

/** Registers every client as it asks. */
export const makeRegistrationHandler =
  (more: Members = {}, code = 201) =>
  async (request: Request) => {
    const registration = (await request.json()) as Members
    return Response.json({ ...registration, client_id: 'made', client_secret: 'hush', ...more }, { status: code })
  }

/** Both servers; `mcp` and `auth` replace their paths. */
export const makeValidSites = (mcp: Members = {}, auth: Members = {}): Sites => ({
  [MCP_ORIGIN]: {
    'POST /mcp': respondWithChallenges('Bearer'),
    [`${RESOURCE_METADATA_PATH}/mcp`]: makeResourceMetadata(`${MCP_ORIGIN}/mcp`, AUTH_ORIGIN),
    ...mcp,
  },
  [AUTH_ORIGIN]: {
    [SERVER_METADATA_PATH]: makeServerMetadata(AUTH_ORIGIN),
    'POST /register': makeRegistrationHandler(),
    ...auth,
  },
})
export const makeSitesWithMetadata = (more: Members, mcp: Members = {}, auth: Members = {}): Sites =>
  makeValidSites(mcp, { [SERVER_METADATA_PATH]: makeServerMetadata(AUTH_ORIGIN, more), ...auth })

export type DiscoveryScenario = {
  server?: string
  options?: Partial<DiscoveryOptions>
  wish?: Partial<ClientRequest>
  allowLoopback?: boolean
}

/** Discovers the server and obtains a client. `listRequests` works also after a failure. */
export function discoverAndRegister(
  sites: Sites,
  { server = `${MCP_ORIGIN}/mcp`, options, wish, allowLoopback = false }: DiscoveryScenario = {},
) {
  const fakeFetch = makeFakeFetch(sites)
  const client = createGuardedClient(
    { config: { publicUrl: SLIPWAY_ORIGIN, allowLoopback }, platform: { foreignFetch: fakeFetch } },
    SLIPWAY_ORIGIN,
  )
  const result = (async () => {
    const discoveryOptions = { assumeS256: () => false, defaultEndpoints: false, ...options }
    const { warnings, ...discovered } = await discoverServer(client, checkServerUrl(client, server), discoveryOptions)
    const clientRequest: ClientRequest = {
      registration: 'auto',
      name: 'Ours',
      redirect_uri: REDIRECT_URI,
      document_url: null,
      ...wish,
    }
    const registered = await obtainClient(client, { ...discovered, warnings }, clientRequest)
    return { ...discovered, ...registered, warnings: warnings.map(({ code }) => code) }
  })()
  const listRequests = () => fakeFetch.requests.map(({ method, url }) => `${method} ${url}`)
  return { result: result, listRequests: listRequests, fakeFetch: fakeFetch, client: client }
}
