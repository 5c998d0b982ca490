// OAuth providers to test with: an MCP server with its authorization server, and rows as the database has them.
import { sql } from 'drizzle-orm'
import { sealer } from '../../src/kernel/crypto.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
import { opened } from '../../src/oauth/rows.ts'
import { type Tenant, theApp } from './app.ts'
import { type Foreign, foreign } from './foreign.ts'

export const PROVIDERS = '/v2/auth/providers'
export const DISCOVER = `${PROVIDERS}/mcp-discover`
export const pathOf = (provider_id: string) => `${PROVIDERS}/${provider_id}`

/** What a registered client must not be told to anyone for. */
export const SECRETS = { client_secret: 'upstream-secret-8841', registration_access_token: 'registration-token-3307' }
export const MCP = 'https://mcp.example.com'
export const AUTH = 'https://auth.example.com'

type Documents = { resource?: object; server?: object }

/** An MCP server whose authorization server registers clients and manages them. `clients` are those that it knows. */
export function mcpServer({ resource = {}, server = {} }: Documents = {}, sites: Parameters<typeof foreign>[0] = {}) {
  const clients = new Map<string, object>()
  const challenge = `Bearer resource_metadata="${MCP}/.well-known/oauth-protected-resource/mcp"`
  const registered = async (request: Request) => {
    const asked = (await request.json()) as object
    const client_id = `client-${crypto.randomUUID()}`
    clients.set(client_id, asked)
    const managed = { ...SECRETS, registration_client_uri: `${AUTH}/register/${client_id}` }
    return Response.json({ ...asked, client_id, client_secret_expires_at: 0, ...managed }, { status: 201 })
  }
  const atServer = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url)
    if (pathname === '/.well-known/oauth-authorization-server') {
      return Response.json({
        issuer: AUTH,
        authorization_endpoint: `${AUTH}/authorize`,
        token_endpoint: `${AUTH}/token`,
        registration_endpoint: `${AUTH}/register`,
        revocation_endpoint: `${AUTH}/revoke`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'none'],
        ...server,
      })
    }
    if (request.method === 'POST' && pathname === '/register') return registered(request)
    if (request.method === 'DELETE' && pathname.startsWith('/register/')) {
      const known = request.headers.get('Authorization') === `Bearer ${SECRETS.registration_access_token}`
      return new Response(null, { status: known && clients.delete(pathname.split('/')[2]!) ? 204 : 401 })
    }
    return new Response(null, { status: 404 })
  }
  const world = foreign({
    [MCP]: {
      'POST /mcp': () => new Response(null, { status: 401, headers: { 'WWW-Authenticate': challenge } }),
      '/.well-known/oauth-protected-resource/mcp': {
        resource: `${MCP}/mcp`,
        authorization_servers: [AUTH],
        scopes_supported: ['issues:read'],
        ...resource,
      },
    },
    [AUTH]: atServer,
    ...sites,
  })
  return Object.assign(world as Foreign, { clients })
}

export const discovery = (over: Record<string, unknown> = {}) => ({
  provider_id: 'found',
  name: 'Found',
  mcp_server_url: `${MCP}/mcp`,
  ...over,
})

/** The row with its secrets, as whoever speaks to its server has it. */
export async function rowOf({ organization_id }: Tenant, provider_id: string) {
  const query = sql`select provider_id, client_secret, registration_access_token from oauth_providers
    where organization_id = ${organization_id}::uuid and provider_id = ${provider_id}`
  const [[row]] = (await runAsSystem(theApp().database, query)) as [[(string | null)[]]]
  const [, client_secret, registration_access_token] = row as [string, string | null, string | null]
  return opened(sealer(theApp().config.sealingKeys), { provider_id, client_secret, registration_access_token })
}

export async function reservationsOf({ organization_id }: Tenant): Promise<number> {
  const query = sql`select from oauth_reservations where organization_id = ${organization_id}::uuid`
  const [rows] = await runAsSystem(theApp().database, query)
  return rows!.length
}
