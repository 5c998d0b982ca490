// Any client can forge a Host header, so no URL in a response is built from it.
import { beforeAll, describe, expect, it } from 'vitest'
import { newTenant, startApp, type Tenant } from '../support/app.ts'
import { newPathParameters } from '../support/path-parameters.ts'

const FOREIGN = 'http://evil.example'
const OURS = 'https://slipway.example.com'
const app = startApp({ settings: { PUBLIC_URL: OURS } })
const development = startApp({ settings: { PUBLIC_URL: undefined, ALLOW_LOOPBACK: 'true' } })

let tenant: Tenant
let pathParameters: Record<string, string>
let deploymentId: string
beforeAll(async () => {
  tenant = await newTenant()
  pathParameters = await newPathParameters(tenant)
  const deployment = {
    name: 'from-archive',
    source: 'internal_source',
    source_config: {},
    source_revision_config: {},
    secrets: [],
  }
  deploymentId = (await tenant.post('/v2/deployments', deployment)).body.id
  for (const key of ['one', 'two']) await tenant.post('/v2/tag-keys', { key })
})

const sendTo = async (instance: typeof app, origin: string, method: string, path: string, body?: object) => {
  const init: RequestInit = { method, headers: { 'X-Api-Key': tenant.key, 'Content-Type': 'application/json' } }
  if (body) init.body = JSON.stringify(body)
  const response = await instance.fetch(new Request(`${origin}${path}`, init))
  return { status: response.status, text: `${JSON.stringify([...response.headers])} ${await response.text()}` }
}

/** Responses that contain a URL or could repeat the host. */
const urlRoutes: [name: string, method: string, path: () => string, body?: () => object][] = [
  ['an upload link', 'POST', () => `/v2/deployments/${deploymentId}/upload-url`],
  [
    'a redirect URI',
    'POST',
    () => '/v2/auth/authenticate',
    () => ({ provider: pathParameters.provider_id, user_id: 'u' }),
  ],
  ['a new provider', 'POST', () => '/v2/auth/providers', () => makeProvider()],
  ['a webhook address', 'GET', () => `/v1/integrations/forge/githost/${pathParameters.integration_id}`],
  ['a problem document', 'GET', () => '/nowhere'],
  ['the refusal of a body', 'POST', () => '/v2/deployments', () => ({})],
  ['the OAuth client metadata', 'GET', () => '/.well-known/oauth-client.json'],
  ['the OpenAPI document', 'GET', () => '/openapi.json'],
  ['the API pages', 'GET', () => '/docs'],
  ['the link to the next page of a list', 'GET', () => '/v2/tag-keys?limit=1'],
  ['the page of an OAuth callback', 'GET', () => '/v2/auth/callback/none?state=x&code=y'],
]
const makeProvider = () => ({
  provider_id: `p-${crypto.randomUUID()}`,
  name: 'P',
  client_id: 'c',
  client_secret: 's',
  auth_url: 'https://auth.example.com/a',
  token_url: 'https://auth.example.com/t',
  uses_pkce: true,
})

describe('a foreign Host header', () => {
  it.each(urlRoutes)('does not appear in %s', async (_, method, path, body) => {
    const { status, text } = await sendTo(app, FOREIGN, method, path(), body?.())
    expect(text).not.toContain('evil.example')
    expect(status).toBeLessThan(500)
  })

  it('does not change upload links and redirect URIs', async () => {
    const replies = await Promise.all(
      urlRoutes.slice(0, 2).map(([, method, path, body]) => sendTo(app, FOREIGN, method, path(), body?.())),
    )
    expect(replies[0]!.text).toContain(`${OURS}/v2/uploads/`)
    expect(decodeURIComponent(replies[1]!.text)).toMatch(/redirect_uri=http/)
  })

  it.each(urlRoutes)('without PUBLIC_URL is refused, by the route of %s', async (_, method, path, body) => {
    const { status, text } = await sendTo(development, FOREIGN, method, path(), body?.())
    expect([status, text.includes('"host_unknown"'), text.includes('evil.example')]).toEqual([400, true, false])
  })

  it.each(['http://localhost:8787', 'http://127.0.0.1:8787', 'http://[::1]:8787'])(
    'without PUBLIC_URL is accepted if it is the loopback origin %s',
    async origin => {
      const { text } = await sendTo(development, origin, 'POST', `/v2/deployments/${deploymentId}/upload-url`)
      expect(text).toContain(`${origin}/v2/uploads/`)
    },
  )
})
