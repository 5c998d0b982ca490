// OAuth with real servers on this machine: discovery, registration, a person's consent, refresh and revocation.
import * as fs from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Provider } from 'oidc-provider'
import type pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { createHost } from '../../src/host/host.ts'
import { bootstrap } from '../../src/people/access/bootstrap.ts'
import { EDITOR } from '../../src/people/access/built-in-roles.ts'
import { createClock } from '../../src/platform.ts'
import { startDemoServer, startPublicMcpServer, stopCommands } from '../support/commands.ts'
import { completeSignIn } from '../support/headless-user.ts'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'
import { connect } from '../support/postgres.ts'

const PUBLIC_URL = 'https://slipway.example.com'
const root = fs.mkdtempSync(join(tmpdir(), 'slipway-oauth-'))
const servers: Server[] = []
const clock = { aheadMs: 0 }
const lines: unknown[] = []
let databaseUrl: string
let watch: pg.Client
let slipway: ReturnType<typeof createHost>
let key: string
let provider: Provider
let mcp: string
/** The grant types that the token endpoint received. */
const grantTypes: string[] = []

/** The number of transactions that wait for the app at each request to a foreign server. Others are about to end. */
const transactionCounts: number[] = []
async function countTransactions(): Promise<void> {
  const { rows } = await watch.query(`select from pg_stat_activity
    where datname = current_database() and state like 'idle in transaction%'`)
  transactionCounts.push(rows.length)
}

async function listen(handler: (origin: string) => RequestListener): Promise<string> {
  let answer: RequestListener = () => {}
  const server = createServer((request, response) => {
    countTransactions().then(
      () => answer(request, response),
      () => response.destroy(),
    )
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  servers.push(server)
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  answer = handler(origin)
  return origin
}

beforeAll(async () => {
  databaseUrl = await createMigratedDatabase()
  watch = await connect(databaseUrl)
  const settings = {
    DATABASE_URL: databaseUrl,
    SEALING_KEYS: `first:${Buffer.alloc(32, 7).toString('base64url')}`,
    PUBLIC_URL,
    ALLOW_LOOPBACK: 'true',
    UPLOADS_DIR: root,
    RATE_LIMIT_PER_MINUTE: '0',
  }
  slipway = createHost(settings, { clock: createClock(() => clock.aheadMs), log: line => void lines.push(line) })
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
        request.on('data', chunk => grantTypes.push(String(new URLSearchParams(String(chunk)).get('grant_type'))))
      }
      return serve(request, response)
    }
  })
})
beforeEach(() => {
  clock.aheadMs = 0
})
afterEach(stopCommands)
afterAll(async () => {
  for (const server of servers) {
    server.close()
    server.closeAllConnections()
  }
  await slipway.close()
  await watch.end()
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 9 })
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

async function api(method: string, path: string, body?: unknown, moreHeaders: Record<string, string> = {}) {
  const init = { method, headers: { 'X-Api-Key': key, 'Content-Type': 'application/json', ...moreHeaders } }
  const request = new Request(
    `${PUBLIC_URL}${path}`,
    body === undefined ? init : { ...init, body: JSON.stringify(body) },
  )
  const response = await slipway.app.fetch(request)
  const text = await response.text()
  return { status: response.status, text, body: text.startsWith('<') || !text ? undefined : JSON.parse(text) }
}

async function discoverProvider(provider_id: string) {
  const request = { provider_id, name: 'Real', mcp_server_url: `${mcp}/mcp` }
  const discovery = await api('POST', '/v2/auth/providers/mcp-discover', request)
  expect(discovery.status, discovery.text).toBe(200)
  return discovery
}

test('a person connects to a discovered server, gets refreshed tokens, and disconnects', async () => {
  const discovery = await discoverProvider('ours')
  expect(discovery.body).toMatchObject({ is_dynamic_client: true, uses_pkce: true })
  expect(await provider.Client.find(discovery.body.client_id)).toBeTruthy()

  const begun = await api('POST', '/v2/auth/authenticate', { provider: 'ours', user_id: 'ada' })
  expect(begun.body.status, begun.text).toBe('pending')
  expect(new URL(begun.body.url).searchParams.get('resource')).toBe(`${mcp}/mcp`)
  const back = new URL(await completeSignIn(begun.body.url, PUBLIC_URL))
  expect(back.searchParams.get('iss')).toBe(new URL(discovery.body.auth_url).origin)
  const page = await api('GET', back.pathname + back.search)
  expect(page.status, page.text).toBe(200)
  const connection = await api('GET', `/v2/auth/wait/${begun.body.auth_id}`)
  expect(connection.body.status).toBe('completed')
  expect(await provider.AccessToken.find(connection.body.token)).toMatchObject({ aud: `${mcp}/mcp` })

  // The server revokes all tokens if a refresh token is used twice. So of 20 concurrent requests only one refreshes.
  for (const hours of [1, 2]) {
    clock.aheadMs = hours * 3_600_000
    grantTypes.length = 0
    const authenticate = () => api('POST', '/v2/auth/authenticate', { provider: 'ours', user_id: 'ada' })
    const answers = await Promise.all(Array.from({ length: 20 }, authenticate))
    expect(new Set(answers.map(({ body }) => body.token)).size).toBe(1)
    expect(answers[0]!.body.status, answers[0]!.text).toBe('completed')
    expect(grantTypes).toEqual(['refresh_token'])
    expect(await provider.AccessToken.find(answers[0]!.body.token)).toBeTruthy()
  }

  const { token } = (await api('POST', '/v2/auth/authenticate', { provider: 'ours', user_id: 'ada' })).body
  const disconnection = await api('DELETE', '/v2/auth/tokens?provider=ours&user_id=ada')
  expect(disconnection.body.revocation).toBe('revoked')
  expect(await provider.AccessToken.find(token)).toBeUndefined()
  expect(JSON.stringify(lines)).not.toContain(token)
})

test('no transaction is open while a foreign server is called', async () => {
  transactionCounts.length = 0
  await discoverProvider('watched')
  expect((await api('POST', '/v2/auth/providers/watched/recheck')).body.health).toBe('healthy')
  const begun = await api('POST', '/v2/auth/authenticate', { provider: 'watched', user_id: 'cyd' })
  const back = new URL(await completeSignIn(begun.body.url, PUBLIC_URL))
  await api('GET', back.pathname + back.search)
  clock.aheadMs = 3_600_000
  expect((await api('POST', '/v2/auth/authenticate', { provider: 'watched', user_id: 'cyd' })).body.status).toBe(
    'completed',
  )
  await api('DELETE', '/v2/auth/tokens?provider=watched&user_id=cyd')
  expect(transactionCounts.length).toBeGreaterThan(8)
  expect(transactionCounts.filter(Boolean)).toEqual([])
})

test('a provider that is changed to another server sends it no secrets or tokens of the first', async () => {
  const received: string[] = []
  const attacker = await listen(origin => {
    const serve = authorizationServer(origin).callback()
    return (request, response) => {
      received.push(`${request.url} ${request.headers.authorization}`)
      request.on('data', chunk => received.push(decodeURIComponent(String(chunk))))
      return serve(request, response)
    }
  })
  const { api_key } = await bootstrap(slipway.app.database, { organization: 'Acme', scope: 'organization' })
  const owner = { 'X-Api-Key': api_key }
  const { id: workspace } = (await api('POST', '/workspaces', { display_name: 'Evil' }, owner)).body
  const workspaceOwner = { ...owner, 'X-Tenant-Id': workspace }
  const role = { description: 'evil', role_id: EDITOR }
  const editor = { 'X-Api-Key': (await api('POST', '/workspaces/current/api-keys', role, workspaceOwner)).body.key }

  const issuer = new URL((await discoverProvider('beside')).body.auth_url).origin
  const clientMetadata = {
    redirect_uris: [`${PUBLIC_URL}/v2/auth/callback/hand`],
    grant_types: ['authorization_code', 'refresh_token'],
  }
  const registration = {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(clientMetadata),
  }
  const client = (await (await fetch(`${issuer}/reg`, registration)).json()) as Record<string, string>
  const addressesAt = (origin: string, client_secret: string) => ({
    auth_url: `${origin}/auth`,
    token_url: `${origin}/token`,
    revocation_url: `${origin}/token/revocation`,
    client_secret,
  })
  const created = {
    provider_id: 'hand',
    name: 'Hand',
    client_id: client.client_id,
    scopes: ['openid', 'offline_access'],
    token_endpoint_auth_method: 'client_secret_basic',
    ...addressesAt(issuer, client.client_secret!),
  }
  expect((await api('POST', '/v2/auth/providers', created, editor)).status).toBe(200)
  const authenticate = () => api('POST', '/v2/auth/authenticate', { provider: 'hand', user_id: 'ada' })
  const back = new URL(await completeSignIn((await authenticate()).body.url, PUBLIC_URL))
  const page = await api('GET', back.pathname + back.search)
  expect(page.status, page.text).toBe(200)
  const { token } = (await authenticate()).body
  expect(await provider.AccessToken.find(token)).toBeTruthy()

  const refusal = await api('PATCH', '/v2/auth/providers/hand', addressesAt(attacker, 'mine'), editor)
  expect([refusal.status, refusal.body.code]).toEqual([403, 'provider_not_yours'])
  expect((await api('PATCH', '/v2/auth/providers/hand', addressesAt(attacker, 'mine'), workspaceOwner)).status).toBe(
    200,
  )
  clock.aheadMs = 3_600_000
  expect((await authenticate()).body.status).toBe('connection_required')
  await api('POST', '/v2/auth/providers/hand/recheck')
  expect((await api('DELETE', '/v2/auth/tokens?provider=hand&user_id=ada')).body.revocation).toBe('unsupported')
  expect((await api('DELETE', '/v2/auth/providers/hand', undefined, workspaceOwner)).status).toBe(204)
  for (const secret of [client.client_secret!, btoa(`${client.client_id}:${client.client_secret}`), token])
    expect(received.join('\n')).not.toContain(secret)
  expect(received.filter(line => /refresh_token|Basic|client_secret/.test(line))).toEqual([])
})

test('a caller that waits for a connection gets an error when the person denies it', async () => {
  await discoverProvider('refused')
  const begun = await api('POST', '/v2/auth/authenticate', { provider: 'refused', user_id: 'bob' })
  const { searchParams } = new URL(begun.body.url)
  const issuer = new URL(begun.body.url).origin
  const refused = new URLSearchParams({ error: 'access_denied', iss: issuer, state: searchParams.get('state')! })
  expect((await api('GET', `/v2/auth/callback/refused?${refused}`)).status).toBe(400)
  expect((await api('GET', `/v2/auth/wait/${begun.body.auth_id}`)).body.error).toBe('authorization_denied')
})

test('deleting a provider revokes its tokens and deletes its client at the server', async () => {
  await discoverProvider('ended')
  const begun = await api('POST', '/v2/auth/authenticate', { provider: 'ended', user_id: 'eve' })
  const back = new URL(await completeSignIn(begun.body.url, PUBLIC_URL))
  await api('GET', back.pathname + back.search)
  const { token } = (await api('GET', `/v2/auth/wait/${begun.body.auth_id}`)).body
  const client = new URL(begun.body.url).searchParams.get('client_id')!
  expect(await provider.AccessToken.find(token)).toBeTruthy()
  expect((await api('DELETE', '/v2/auth/providers/ended')).status).toBe(204)
  expect(await provider.AccessToken.find(token)).toBeUndefined()
  expect(await provider.Client.find(client)).toBeUndefined()
})

// This server has no client management, refresh tokens or revocation, and its tokens expire after an hour.
test('the demo server of the MCP SDK accepts the token that it issued', async () => {
  const server = `${(await startDemoServer()).mcp}/mcp`
  const discovery = await api('POST', '/v2/auth/providers/mcp-discover', {
    provider_id: 'demo',
    name: 'Demo',
    mcp_server_url: server,
  })
  expect(discovery.status, discovery.text).toBe(200)
  expect(discovery.body).toMatchObject({ is_dynamic_client: true, token_endpoint_auth_method: 'client_secret_post' })
  const details = (await api('GET', '/v2/auth/providers/demo')).body
  expect(details).toMatchObject({ scopes: ['mcp:tools'], revocation_url: null, warnings: [] })

  const authenticate = () => api('POST', '/v2/auth/authenticate', { provider: 'demo', user_id: 'ada' })
  const begun = await authenticate()
  const back = new URL(await completeSignIn(begun.body.url, PUBLIC_URL))
  expect((await api('GET', back.pathname + back.search)).status).toBe(200)
  const { token } = (await api('GET', `/v2/auth/wait/${begun.body.auth_id}`)).body
  const initialize = { method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {} } }
  const clientInfo = { name: 'ada', version: '1' }
  const initializeStatus = async (headers: Record<string, string>) => {
    const answer = await fetch(server, {
      method: 'POST',
      headers: { Accept: 'application/json, text/event-stream', 'Content-Type': 'application/json', ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...initialize, params: { ...initialize.params, clientInfo } }),
    })
    await answer.body?.cancel()
    return answer.status
  }
  expect(await initializeStatus({})).toBe(401)
  expect(await initializeStatus({ Authorization: `Bearer ${token}` })).toBe(200)

  clock.aheadMs = 3_600_000
  expect((await authenticate()).body.status).toBe('token_expired')
  expect((await api('POST', '/v2/auth/providers/demo/recheck')).body.health).toBe('healthy')
  const disconnection = await api('DELETE', '/v2/auth/tokens?provider=demo&user_id=ada')
  expect(disconnection.body.revocation).toBe('unsupported')
  expect((await api('DELETE', '/v2/auth/providers/demo')).status).toBe(204)
  expect(JSON.stringify(lines)).not.toContain(token)
})

test('discovery refuses an MCP server that needs no authorization, and creates no provider', async () => {
  const mcp_server_url = await startPublicMcpServer()
  const request = { provider_id: 'open', name: 'Open', mcp_server_url }
  for (const path of ['/v2/auth/providers/mcp-discover?dry_run=true', '/v2/auth/providers/mcp-discover']) {
    const { status, body } = await api('POST', path, request)
    expect([status, body.code]).toEqual([422, 'oauth_not_required'])
    expect(body.detail).toContain(`MCP server: ${new URL(mcp_server_url).host}`)
  }
  expect((await api('GET', '/v2/auth/providers/open')).status).toBe(404)
})
