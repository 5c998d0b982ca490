// OAuth providers to test with: an MCP server with its authorization server, and rows as the database has them.
import { sql } from 'drizzle-orm'
import { createSealer } from '../../src/kernel/crypto.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
import { openProviderSecrets } from '../../src/oauth/rows.ts'
import { getApp, type Tenant } from './app.ts'
import { makeFakeFetch } from './fake-fetch.ts'

export const PROVIDERS_PATH = '/v2/auth/providers'
export const DISCOVER_PATH = `${PROVIDERS_PATH}/mcp-discover`
export const getProviderPath = (provider_id: string) => `${PROVIDERS_PATH}/${provider_id}`

/** What a registered client must not be told to anyone for. */
export const CLIENT_SECRETS = {
  client_secret: 'upstream-secret-8841',
  registration_access_token: 'registration-token-3307',
}
export const MCP_ORIGIN = 'https://mcp.example.com'
export const AUTH_ORIGIN = 'https://auth.example.com'

/**
 * An MCP server whose authorization server registers clients and manages them. `clients` are those that it knows; what it says is read
 * anew for every request, so that a test may have it change its mind.
 */
export function makeMcpServer(
  responses: { resource?: object; server?: object; client?: object; status?: number } = {},
  sites: Parameters<typeof makeFakeFetch>[0] = {},
) {
  const clients = new Map<string, object>()
  const challenge = `Bearer resource_metadata="${MCP_ORIGIN}/.well-known/oauth-protected-resource/mcp"`
  const managed = (client_id: string) => ({
    ...CLIENT_SECRETS,
    registration_client_uri: `${AUTH_ORIGIN}/register/${client_id}`,
  })
  const written = async (request: Request, client_id: string, status: number) => {
    const asked = (await request.json()) as object
    clients.set(client_id, asked)
    const answer = { ...asked, client_id, client_secret_expires_at: 0, ...managed(client_id), ...responses.client }
    return Response.json(answer, { status })
  }
  const atServer = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url)
    const [, , client_id = ''] = pathname.split('/')
    const known = request.headers.get('Authorization') === `Bearer ${CLIENT_SECRETS.registration_access_token}`
    const asked = `${request.method} /${pathname.split('/')[1]}${client_id && '/one'}`
    if (asked === 'POST /register') return written(request, `client-${crypto.randomUUID()}`, 201)
    if (asked === 'PUT /register/one' && known && clients.has(client_id)) return written(request, client_id, 200)
    if (asked === 'DELETE /register/one' && known && clients.delete(client_id))
      return new Response(null, { status: 204 })
    if (asked.endsWith('/register/one')) return new Response(null, { status: 401 })
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
  const world = makeFakeFetch({
    [MCP_ORIGIN]: {
      'POST /mcp': () => new Response(null, { status: 401, headers: { 'WWW-Authenticate': challenge } }),
      '/.well-known/oauth-protected-resource/mcp': resource,
    },
    [AUTH_ORIGIN]: atServer,
    ...sites,
  })
  return Object.assign(world, { clients, responses: responses })
}

export const makeDiscoverBody = (over: Record<string, unknown> = {}) => ({
  provider_id: 'found',
  name: 'Found',
  mcp_server_url: `${MCP_ORIGIN}/mcp`,
  ...over,
})

/** The row with its secrets, as whoever speaks to its server has it. */
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

/** Another workspace of the same organization, and a key in it that has this role. */
export async function newSiblingWorkspace(tenant: Tenant, role_id: string): Promise<Tenant> {
  const made = await tenant.owner.post('/workspaces', { display_name: `beside-${crypto.randomUUID()}` })
  const inside = { 'X-Tenant-Id': made.body.id }
  const wish = { description: 'beside', role_id }
  const { key } = (await tenant.owner.post('/workspaces/current/api-keys', wish, inside)).body
  return { ...tenant, ...tenant.as(key), tenant_id: made.body.id }
}
