// An authorization server that a test controls, a provider that uses it, and a person who signs in.
import { sql } from 'drizzle-orm'
import { expect } from 'vitest'
import { NewProvider } from '../../src/connect/oauth/schema.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { type App, newTenant, send, startApp, type Tenant, unusedId } from './app.ts'
import { makeFakeFetch } from './fake-fetch.ts'

export const ISSUER = 'https://as.example.com'
export const CLIENT_SECRET = 'the-secret-of-the-client~1'

export type TokenRequest = { form: URLSearchParams; headers: Headers }
type TokenResponder = (request: TokenRequest) => Response | Promise<Response>

export function makeAuthorizationServer(others: Parameters<typeof makeFakeFetch>[0] = {}) {
  const tokenRequests: TokenRequest[] = []
  const server = {
    tokenRequests: tokenRequests,
    revoked: [] as URLSearchParams[],
    token: (() => respondWithTokens()) as TokenResponder,
    revocation: (() => new Response(null)) as TokenResponder,
  }
  const readRequest = async (request: Request): Promise<TokenRequest> => ({
    form: new URLSearchParams(new TextDecoder().decode(await request.arrayBuffer())),
    headers: request.headers,
  })
  const foreignFetch = makeFakeFetch({
    [ISSUER]: {
      'POST /token': async (request: Request) => {
        const one = await readRequest(request)
        tokenRequests.push(one)
        return server.token(one)
      },
      'POST /revoke': async (request: Request) => {
        const one = await readRequest(request)
        server.revoked.push(one.form)
        return server.revocation(one)
      },
    },
    ...others,
  })
  return { ...server, server, foreignFetch: foreignFetch, app: startApp({ overrides: { foreignFetch } }) }
}

let tokenCount = 0
/** Each token is unique, so that a test can search for it. */
export const makeTokens = (over: Record<string, unknown> = {}) => {
  tokenCount++
  return {
    access_token: `access-secret-${tokenCount}`,
    refresh_token: `refresh-secret-${tokenCount}`,
    token_type: 'Bearer',
    expires_in: 3600,
    ...over,
  }
}
export const respondWithTokens = (over: Record<string, unknown> = {}) => Response.json(makeTokens(over))
export const respondWithError = (error: string, status = 400) => Response.json({ error }, { status })

type ProviderColumns = { issuer?: string; issuer_in_answers?: boolean; resource?: string; provider_type?: string }

/** `columns` are those that only discovery sets. */
export async function newProvider(
  tenant: Tenant,
  app: App,
  over: Record<string, unknown> = {},
  columns: ProviderColumns = {},
) {
  const { body } = await tenant.post('/v2/auth/providers', {
    ...NewProvider.meta()!.example!,
    provider_id: 'example',
    name: 'Example',
    client_secret: CLIENT_SECRET,
    auth_url: `${ISSUER}/authorize?kept=yes`,
    token_url: `${ISSUER}/token`,
    revocation_url: `${ISSUER}/revoke`,
    scopes: [],
    ...over,
  })
  for (const [name, value] of Object.entries(columns)) {
    await runAsSystem(
      app.database,
      sql`update oauth_providers set ${sql.raw(name)} = ${value} where id = ${body.id}::uuid`,
    )
  }
  return body
}

export async function setUpProvider(app: App, over: Record<string, unknown> = {}, columns: ProviderColumns = {}) {
  const tenant = await newTenant({ app })
  return { tenant, provider: await newProvider(tenant, app, over, columns) }
}

export const beginAuthentication = async (tenant: Tenant, over: Record<string, unknown> = {}) => {
  const { status, body } = await tenant.post('/v2/auth/authenticate', { provider: 'example', user_id: 'ada', ...over })
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}
export const readState = ({ url }: { url: string }) => new URL(url).searchParams.get('state')!

/** Sends a valid state and code, unless `over` replaces or removes them. */
export const visitCallback = (
  app: App,
  authentication: { url: string },
  over: Record<string, string | undefined> = {},
  { as = 'example', headers = {} }: { as?: string; headers?: Record<string, string> } = {},
) => {
  const all = Object.entries({ state: readState(authentication), code: 'the-code-secret', ...over })
  const query = new URLSearchParams(all.filter((pair): pair is [string, string] => pair[1] !== undefined))
  return send('GET', `/v2/auth/callback/${as}?${query}`, { app, headers })
}

export async function completeAuthentication(
  app: App,
  tenant: Tenant,
  over: Record<string, unknown> = {},
  at: { as?: string } = {},
) {
  const authentication = await beginAuthentication(tenant, over)
  const page = await visitCallback(app, authentication, {}, at)
  expect(page.status, page.text).toBe(200)
  return authentication
}

export const newTripId = () => `trip-${unusedId()}`
