// Any client can forge a Host header, so no URL in a response is built from it.
import { beforeAll, describe, expect, it } from 'vitest'
import { newTenant, startApp, type Tenant } from '../support/app.ts'
import { newPathParameters } from '../support/path-parameters.ts'

const FOREIGN = 'http://evil.example'
const OURS = 'https://slipway.example.com'
const app = startApp({ settings: { PUBLIC_URL: OURS } })
const development = startApp({ settings: { PUBLIC_URL: undefined, ALLOW_LOOPBACK: 'true' } })

let tenant: Tenant
let things: Record<string, string>
let archived: string
beforeAll(async () => {
  tenant = await newTenant()
  things = await newPathParameters(tenant)
  const sourced = {
    name: 'sourced',
    source: 'internal_source',
    source_config: {},
    source_revision_config: {},
    secrets: [],
  }
  archived = (await tenant.post('/v2/deployments', sourced)).body.id
  for (const key of ['one', 'two']) await tenant.post('/v2/tag-keys', { key })
})

const ask = async (through: typeof app, origin: string, method: string, path: string, body?: object) => {
  const init: RequestInit = { method, headers: { 'X-Api-Key': tenant.key, 'Content-Type': 'application/json' } }
  if (body) init.body = JSON.stringify(body)
  const response = await through.fetch(new Request(`${origin}${path}`, init))
  return { status: response.status, text: `${JSON.stringify([...response.headers])} ${await response.text()}` }
}

/** Responses that contain a URL, or might repeat the host. */
const urlRoutes: [what: string, method: string, path: () => string, body?: () => object][] = [
  ['an upload link', 'POST', () => `/v2/deployments/${archived}/upload-url`],
  ['a redirect URI', 'POST', () => '/v2/auth/authenticate', () => ({ provider: things.provider_id, user_id: 'u' })],
  ['a new provider', 'POST', () => '/v2/auth/providers', () => provider()],
  ['a webhook address', 'GET', () => `/v1/integrations/forge/githost/${things.integration_id}`],
  ['a problem', 'GET', () => '/nowhere'],
  ['a refused body', 'POST', () => '/v2/deployments', () => ({})],
  ['the identity document', 'GET', () => '/.well-known/oauth-client.json'],
  ['the document', 'GET', () => '/openapi.json'],
  ['the API pages', 'GET', () => '/docs'],
  ['the next page', 'GET', () => '/v2/tag-keys?limit=1'],
  ['a page for people', 'GET', () => '/v2/auth/callback/none?state=x&code=y'],
]
const provider = () => ({
  ...{ provider_id: `p-${crypto.randomUUID()}`, name: 'P', client_id: 'c', client_secret: 's' },
  ...{ auth_url: 'https://auth.example.com/a', token_url: 'https://auth.example.com/t', uses_pkce: true },
})

describe('a foreign Host header', () => {
  it.each(urlRoutes)('does not appear in %s', async (_, method, path, body) => {
    const { status, text } = await ask(app, FOREIGN, method, path(), body?.())
    expect(text).not.toContain('evil.example')
    expect(status).toBeLessThan(500)
  })

  it('does not change the URLs in responses', async () => {
    const replies = await Promise.all(
      urlRoutes.slice(0, 2).map(([, method, path, body]) => ask(app, FOREIGN, method, path(), body?.())),
    )
    expect(replies[0]!.text).toContain(`${OURS}/v2/uploads/`)
    expect(decodeURIComponent(replies[1]!.text)).toMatch(/redirect_uri=http/)
  })

  it.each(urlRoutes)('is refused on a development machine: %s', async (_, method, path, body) => {
    const { status, text } = await ask(development, FOREIGN, method, path(), body?.())
    expect([status, text.includes('"host_unknown"'), text.includes('evil.example')]).toEqual([400, true, false])
  })

  it.each(['http://localhost:8787', 'http://127.0.0.1:8787', 'http://[::1]:8787'])(
    'of this machine is accepted there: %s',
    async origin => {
      const { text } = await ask(development, origin, 'POST', `/v2/deployments/${archived}/upload-url`)
      expect(text).toContain(`${origin}/v2/uploads/`)
    },
  )
})
