// OAuth providers to test with: an MCP server with its authorization server, and rows of the database.
import { sql } from 'drizzle-orm'
import { openProviderSecrets } from '../../src/connect/oauth/rows.ts'
import { createSealer } from '../../src/kernel/crypto/crypto.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { getApp, type Tenant } from './app.ts'
import { makeFakeFetch } from './fake-fetch.ts'

export const PROVIDERS_PATH = '/v2/auth/providers'
export const DISCOVER_PATH = `${PROVIDERS_PATH}/mcp-discover`
export const getProviderPath = (provider_id: string) => `${PROVIDERS_PATH}/${provider_id}`

/** Secrets of a registered client, which must never be sent to another server. */
export const CLIENT_SECRETS = {
  client_secret: 'upstream-secret-8841',
  registration_access_token: 'registration-token-3307',
}
export const MCP_ORIGIN = 'https://mcp.example.com'
export const AUTH_ORIGIN = 'https://auth.example.com'

/**
 * An MCP server whose authorization server registers and manages clients. `responses` overrides what it answers, and is
 * read for every request.
 */
export function makeMcpServer(
  responses: { resource?: object; server?: object; client?: object; status?: number } = {},
  sites: Parameters<typeof makeFakeFetch>[0] = {},
) {
  const clients = new Map<string, object>()
  const challenge = `Bearer resource_metadata="${MCP_ORIGIN}/.well-known/oauth-protected-resource/mcp"`
  const makeManagement = (client_id: string) => ({
    ...CLIENT_SECRETS,
    registration_client_uri: `${AUTH_ORIGIN}/register/${client_id}`,
  })
  const registerClient = async (request: Request, client_id: string, status: number) => {
    const metadata = (await request.json()) as object
    clients.set(client_id, metadata)
    const answer = {
      ...metadata,
      client_id,
      client_secret_expires_at: 0,
      ...makeManagement(client_id),
      ...responses.client,
    }
    return Response.json(answer, { status })
  }
  const respondAsServer = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url)
    const [, , client_id = ''] = pathname.split('/')
    const isAuthorized = request.headers.get('Authorization') === `Bearer ${CLIENT_SECRETS.registration_access_token}`
    const operation = `${request.method} /${pathname.split('/')[1]}${client_id && '/one'}`
    if (operation === 'POST /register') return registerClient(request, `client-${crypto.randomUUID()}`, 201)
    if (operation === 'PUT /register/one' && isAuthorized && clients.has(client_id))
      return registerClient(request, client_id, 200)
    if (operation === 'DELETE /register/one' && isAuthorized && clients.delete(client_id))
      return new Response(null, { status: 204 })
    if (operation.endsWith('/register/one')) return new Response(null, { status: 401 })
    if (pathname !== '/.well-known/oauth-authorization-server') return new Response(null, { status: 404 })
    if (responses.status) return new Response(null, { status: responses.status })
    return Response.json({
      issuer: AUTH_ORIGIN,
      authorization_endpoint: `${AUTH_ORIGIN}/authorize`,
      token_endpoint: `${AUTH_ORIGIN}/token`,
      registration_endpoint: `${AUTH_ORIGIN}/register`,
      revocation_endpoint: `${AUTH_ORIGIN}/revoke`,
      response_types_supported: ['code'],
      code_challenge_methods_supported: ['S256'],
      token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
      ...responses.server,
    })
  }
  const resource = () =>
    Response.json({
      resource: `${MCP_ORIGIN}/mcp`,
      authorization_servers: [AUTH_ORIGIN],
      scopes_supported: ['issues:read'],
      ...responses.resource,
    })
  const fakeFetch = makeFakeFetch({
    [MCP_ORIGIN]: {
      'POST /mcp': () => new Response(null, { status: 401, headers: { 'WWW-Authenticate': challenge } }),
      '/.well-known/oauth-protected-resource/mcp': resource,
    },
    [AUTH_ORIGIN]: respondAsServer,
    ...sites,
  })
  return Object.assign(fakeFetch, { clients, responses: responses })
}

export const makeDiscoverBody = (over: Record<string, unknown> = {}) => ({
  provider_id: 'found',
  name: 'Found',
  mcp_server_url: `${MCP_ORIGIN}/mcp`,
  ...over,
})

/** Opens its secrets. */
export async function readProvider({ organization_id }: Tenant, provider_id: string) {
  const query = sql`select provider_id, client_secret, registration_access_token from oauth_providers
    where organization_id = ${organization_id}::uuid and provider_id = ${provider_id}`
  const [[row]] = (await runAsSystem(getApp().database, query)) as [[(string | null)[]]]
  const [, client_secret, registration_access_token] = row as [string, string | null, string | null]
  return openProviderSecrets(createSealer(getApp().config.sealingKeys), {
    provider_id,
    client_secret,
    registration_access_token,
  })
}

export async function countReservations({ organization_id }: Tenant): Promise<number> {
  const query = sql`select from oauth_reservations where organization_id = ${organization_id}::uuid`
  const [rows] = await runAsSystem(getApp().database, query)
  return rows!.length
}

/** Another workspace of the same organization, with a key that has this role. */
export async function newSiblingWorkspace(tenant: Tenant, role_id: string): Promise<Tenant> {
  const workspace = await tenant.owner.post('/workspaces', { display_name: `beside-${crypto.randomUUID()}` })
  const headers = { 'X-Tenant-Id': workspace.body.id }
  const newKey = { description: 'beside', role_id }
  const { key } = (await tenant.owner.post('/workspaces/current/api-keys', newKey, headers)).body
  return { ...tenant, ...tenant.as(key), tenant_id: workspace.body.id }
}
