// A real authorization server on this machine: discovered, registered at, a person's way walked by a client without a screen,
// refreshed by a server that rotates, revoked.
import * as fs from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Provider } from 'oidc-provider'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bootstrap } from '../../src/access/bootstrap.ts'
import { migrate } from '../../src/host/migrate.ts'
import { hosted } from '../../src/host/node.ts'
import { type Postgres, startPostgres } from '../../src/host/postgres.ts'

const PUBLIC_URL = 'https://slipway.example.com'
const root = fs.mkdtempSync(join(tmpdir(), 'slipway-oauth-'))
const servers: Server[] = []
const clock = { ahead: 0 }
const lines: unknown[] = []
let postgres: Postgres
let slipway: ReturnType<typeof hosted>
let key: string
let provider: Provider
let mcp: string
/** What the token endpoint was asked. */
const asked: string[] = []

async function listen(handler: (origin: string) => RequestListener): Promise<string> {
  let answer: RequestListener = () => {}
  const server = createServer((request, response) => answer(request, response))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  servers.push(server)
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  answer = handler(origin)
  return origin
}

beforeAll(async () => {
  postgres = await startPostgres({ dataDir: join(root, 'postgres'), durable: false })
  await migrate(postgres.url, { log: () => {} })
  const settings = {
    ...{ DATABASE_URL: postgres.url, SEALING_KEYS: `first:${Buffer.alloc(32, 7).toString('base64url')}` },
    ...{ PUBLIC_URL, ALLOW_LOOPBACK: 'true', UPLOADS_DIR: root, RATE_LIMIT_PER_MINUTE: '0' },
  }
  slipway = hosted(settings, { clockOffset: () => clock.ahead, log: line => void lines.push(line) })
  key = (await bootstrap(slipway.app.database, { organization: 'Acme', emails: ['a@example.com'] })).api_key
  mcp = await listen(origin => (request, response) => {
    const metadata = { resource: `${origin}/mcp`, authorization_servers: [issuer], scopes_supported: ['read'] }
    if (request.url?.includes('/.well-known/oauth-protected-resource')) return response.end(JSON.stringify(metadata))
    response.writeHead(401, { 'WWW-Authenticate': 'Bearer' }).end()
  })
  const issuer = await listen(origin => {
    provider = authorizationServer(origin)
    const serve = provider.callback()
    return (request, response) => {
      if (request.url === '/token') {
        request.on('data', chunk => asked.push(String(new URLSearchParams(String(chunk)).get('grant_type'))))
      }
      return serve(request, response)
    }
  })
})
afterAll(async () => {
  for (const server of servers) {
    server.close()
    server.closeAllConnections()
  }
  await slipway.close()
  await postgres.stop()
  fs.rmSync(root, { recursive: true })
})

const authorizationServer = (issuer: string) =>
  new Provider(issuer, {
    scopes: ['openid', 'offline_access', 'read'],
    rotateRefreshToken: true,
    cookies: { keys: ['a key'] },
    features: {
      registration: { enabled: true },
      registrationManagement: { enabled: true, rotateRegistrationAccessToken: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({ scope: 'read', accessTokenFormat: 'opaque' }),
        useGrantedResource: () => true,
      },
    },
  })

async function api(method: string, path: string, body?: unknown) {
  const init = { method, headers: { 'X-Api-Key': key, 'Content-Type': 'application/json' } }
  const request = new Request(
    `${PUBLIC_URL}${path}`,
    body === undefined ? init : { ...init, body: JSON.stringify(body) },
  )
  const response = await slipway.app.fetch(request)
  const text = await response.text()
  return { status: response.status, text, body: text.startsWith('<') || !text ? undefined : JSON.parse(text) }
}

/** Follows every redirect and fills in every form, until the way leads back to us. */
async function walk(address: string): Promise<string> {
  const jar = new Map<string, string>()
  let next: { url: string; form?: URLSearchParams } = { url: address }
  for (let steps = 0; steps < 20; steps++) {
    if (next.url.startsWith(PUBLIC_URL)) return next.url
    const response = await fetch(next.url, {
      redirect: 'manual',
      headers: { Cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') },
      ...(next.form && { method: 'POST', body: next.form }),
    })
    for (const cookie of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie)!
      jar.set(name!, value!)
    }
    const location = response.headers.get('Location')
    const text = await response.text()
    if (location) next = { url: new URL(location, next.url).href }
    else {
      const action = /action="([^"]+)"/.exec(text)?.[1]
      const prompt = /name="prompt" value="([^"]+)"/.exec(text)?.[1]
      if (!action || !prompt) throw new Error(`no way on from ${next.url}: ${response.status} ${text.slice(0, 2000)}`)
      next = { url: new URL(action, next.url).href, form: new URLSearchParams({ prompt, login: 'ada', password: 'x' }) }
    }
  }
  throw new Error('it goes round in circles')
}

test('a person is connected to a discovered server, and disconnected', async () => {
  const made = await api('POST', '/v2/auth/providers/mcp-discover', {
    provider_id: 'real',
    name: 'Real',
    mcp_server_url: `${mcp}/mcp`,
  })
  expect(made.status, made.text).toBe(200)
  expect(made.body).toMatchObject({ is_dynamic_client: true, uses_pkce: true })
  expect(await provider.Client.find(made.body.client_id)).toBeTruthy()

  const begun = await api('POST', '/v2/auth/authenticate', { provider: 'real', user_id: 'ada' })
  expect(begun.body.status, begun.text).toBe('pending')
  expect(new URL(begun.body.url).searchParams.get('resource')).toBe(`${mcp}/mcp`)
  const back = new URL(await walk(begun.body.url))
  expect(back.searchParams.get('iss')).toBe(new URL(made.body.auth_url).origin)
  const page = await api('GET', back.pathname + back.search)
  expect(page.status, page.text).toBe(200)
  const waited = await api('GET', `/v2/auth/wait/${begun.body.auth_id}`)
  expect(waited.body.status).toBe('completed')
  expect(await provider.AccessToken.find(waited.body.token)).toMatchObject({ aud: `${mcp}/mcp` })

  // Whoever sends a refresh token twice loses everything: of twenty at once one asks.
  for (const hours of [1, 2]) {
    clock.ahead = hours * 3_600_000
    asked.length = 0
    const ask = () => api('POST', '/v2/auth/authenticate', { provider: 'real', user_id: 'ada' })
    const all = await Promise.all(Array.from({ length: 20 }, ask))
    expect(new Set(all.map(({ body }) => body.token)).size).toBe(1)
    expect(all[0]!.body.status, all[0]!.text).toBe('completed')
    expect(asked).toEqual(['refresh_token'])
    expect(await provider.AccessToken.find(all[0]!.body.token)).toBeTruthy()
  }

  const { token } = (await api('POST', '/v2/auth/authenticate', { provider: 'real', user_id: 'ada' })).body
  const ended = await api('DELETE', '/v2/auth/tokens?provider=real&user_id=ada')
  expect(ended.body.revocation).toBe('revoked')
  expect(await provider.AccessToken.find(token)).toBeUndefined()
  expect(JSON.stringify(lines)).not.toContain(token)
})

test('what a person refuses is told to whoever waits', async () => {
  const begun = await api('POST', '/v2/auth/authenticate', { provider: 'real', user_id: 'bob' })
  const { searchParams } = new URL(begun.body.url)
  const issuer = new URL(begun.body.url).origin
  const refused = new URLSearchParams({ error: 'access_denied', iss: issuer, state: searchParams.get('state')! })
  expect((await api('GET', `/v2/auth/callback/real?${refused}`)).status).toBe(400)
  expect((await api('GET', `/v2/auth/wait/${begun.body.auth_id}`)).body.error).toBe('authorization_denied')
})

test('what is deleted here ends at the server: the tokens, and the client', async () => {
  const begun = await api('POST', '/v2/auth/authenticate', { provider: 'real', user_id: 'eve' })
  const back = new URL(await walk(begun.body.url))
  await api('GET', back.pathname + back.search)
  const { token } = (await api('GET', `/v2/auth/wait/${begun.body.auth_id}`)).body
  const client = new URL(begun.body.url).searchParams.get('client_id')!
  expect(await provider.AccessToken.find(token)).toBeTruthy()
  expect((await api('DELETE', '/v2/auth/providers/real')).status).toBe(204)
  expect(await provider.AccessToken.find(token)).toBeUndefined()
  expect(await provider.Client.find(client)).toBeUndefined()
})
