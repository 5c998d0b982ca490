// An MCP server and its authorization server as foreign sites, sound until a test says otherwise.
import { outside } from '../../src/kernel/guarded-fetch.ts'
import { obtainClient, type Wish } from '../../src/oauth/clients.ts'
import { discover, type Options, serverUrl } from '../../src/oauth/discovery.ts'
import { foreign, type Site } from './foreign.ts'

export const MCP = 'https://mcp.example.com'
export const AUTH = 'https://auth.example.com'
export const HOME = 'https://slipway.example.com'
export const REDIRECT = `${HOME}/v2/auth/callback/p`
export const RESOURCE = '/.well-known/oauth-protected-resource'
export const SERVER = '/.well-known/oauth-authorization-server'
export const OIDC = '/.well-known/openid-configuration'

type Members = Record<string, unknown>
export type Sites = Record<string, Site>

export const status =
  (code: number, body: string | null = null, headers: Record<string, string> | [string, string][] = {}) =>
  () =>
    new Response(body, { status: code, headers })
/** 401 with these challenges, each a header of its own. */
export const challenged = (...challenges: string[]) =>
  status(
    401,
    null,
    challenges.map((one): [string, string] => ['WWW-Authenticate', one]),
  )
export const html = (length = 100) =>
  status(200, `<!doctype html>${'x'.repeat(length)}`, { 'Content-Type': 'text/html' })
export const json = (code: number, body: unknown) => () => Response.json(body, { status: code })

export const ofResource = (resource: string, server: string, more: Members = {}) => ({
  ...{ resource, authorization_servers: [server] },
  ...more,
})
export const ofServer = (issuer: string, more: Members = {}) => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  registration_endpoint: `${issuer}/register`,
  response_types_supported: ['code'],
  code_challenge_methods_supported: ['S256'],
  token_endpoint_auth_methods_supported: ['none', 'client_secret_basic', 'client_secret_post'],
  ...more,
})

/** Registers whoever comes, as they wish. */
export const registering =
  (more: Members = {}, code = 201) =>
  async (request: Request) => {
    const asked = (await request.json()) as Members
    return Response.json({ ...asked, client_id: 'made', client_secret: 'hush', ...more }, { status: code })
  }

/** Both servers, with members replaced. */
export const sound = (mcp: Members = {}, auth: Members = {}): Sites => ({
  [MCP]: { 'POST /mcp': challenged('Bearer'), [`${RESOURCE}/mcp`]: ofResource(`${MCP}/mcp`, AUTH), ...mcp },
  [AUTH]: { [SERVER]: ofServer(AUTH), 'POST /register': registering(), ...auth },
})
/** The authorization server's metadata with members replaced. */
export const speaking = (more: Members, mcp: Members = {}): Sites => sound(mcp, { [SERVER]: ofServer(AUTH, more) })

export type Way = { server?: string; options?: Partial<Options>; wish?: Partial<Wish>; allowLoopback?: boolean }

/** Discovers and obtains a client, as the verbs do; what was asked of whom is told however it ends. */
export function walk(sites: Sites, { server = `${MCP}/mcp`, options, wish, allowLoopback = false }: Way = {}) {
  const world = foreign(sites)
  const way = outside({ outside: world, publicUrl: HOME, allowLoopback }, HOME)
  const found = (async () => {
    const chosen = { assumeS256: () => false, defaultEndpoints: false, ...options }
    const { warnings, ...discovered } = await discover(way, serverUrl(way, server), chosen)
    const wanted: Wish = { registration: 'auto', name: 'Ours', redirect_uri: REDIRECT, document_url: null, ...wish }
    const client = await obtainClient(way, { ...discovered, warnings }, wanted)
    return { ...discovered, ...client, warnings: warnings.map(({ code }) => code) }
  })()
  const asked = () => world.requests.map(({ method, url }) => `${method} ${url}`)
  return { found, asked, world, way }
}
