// The MCP client that the suite starts for each scenario. It has no OAuth of its own: every token comes from Slipway.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'

const server = process.argv[2]!
const { SLIPWAY_URL, SLIPWAY_KEY, MCP_CONFORMANCE_SCENARIO, MCP_CONFORMANCE_PROTOCOL_VERSION: revision } = process.env
const suiteContext = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}')
const MAX_GRANTS = 3

type AuthStatus = { status: string; url?: string | null; auth_id?: string | null; token?: string | null }

async function callSlipway<T>(method: string, path: string, body?: object): Promise<T> {
  const response = await fetch(`${SLIPWAY_URL}${path}`, {
    method,
    headers: { 'X-Api-Key': SLIPWAY_KEY!, ...(body && { 'Content-Type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
  return JSON.parse(text || 'null')
}

let registrationCount = 0
async function registerProvider(): Promise<string> {
  const scenario = MCP_CONFORMANCE_SCENARIO!.replace(/[^a-z0-9]+/g, '-').slice(-40)
  const provider_id = `${scenario}-${process.pid}-${registrationCount++}`
  const { client_id, client_secret } = suiteContext
  const client = client_id && { registration: 'given', client_id, client_secret }
  await callSlipway('POST', '/v2/auth/providers/mcp-discover', {
    provider_id,
    name: 'Conformance',
    mcp_server_url: server,
    ...client,
  })
  return provider_id
}

/** Like the browser of a user who agrees to everything. */
async function followRedirects(url: string): Promise<void> {
  for (let next: string | null = url, hops = 0; next && hops < 10; hops++) {
    const current: string = next
    const response: Response = await fetch(current, { redirect: 'manual' })
    const location = response.headers.get('Location')
    next = location && new URL(location, current).href.replace(/^https:\/\/slipway\.example\.com/, SLIPWAY_URL!)
  }
}

async function obtainToken(provider: string, scopes: string[]): Promise<string> {
  let answer = await callSlipway<AuthStatus>('POST', '/v2/auth/authenticate', { provider, scopes, user_id: 'ada' })
  if (answer.url) {
    await followRedirects(answer.url)
    answer = await callSlipway<AuthStatus>('GET', `/v2/auth/wait/${answer.auth_id}?timeout=5`)
  }
  if (answer.status !== 'completed' || !answer.token) throw new Error(`No token: ${JSON.stringify(answer)}`)
  return answer.token
}

const parseScopes = (challenge: string | null): string[] =>
  /scope="([^"]*)"/.exec(challenge ?? '')?.[1]?.split(' ') ?? []

/** Sends with a token, and asks Slipway for a better one when the server refuses it, up to MAX_GRANTS times. */
function makeAuthorizedFetch(): typeof fetch {
  let provider: string | undefined
  let token: string | undefined
  let scopes: string[] = []
  let grants = 0
  return async (url, init) => {
    for (;;) {
      const headers = new Headers(init?.headers)
      if (token) headers.set('Authorization', `Bearer ${token}`)
      const response = await fetch(url, { ...init, headers })
      const { status } = response
      const insufficient = status === 403 && /insufficient_scope/.test(response.headers.get('WWW-Authenticate') ?? '')
      if ((status !== 401 && !insufficient) || ++grants > MAX_GRANTS) return response
      const refusedProvider = provider
      provider ??= await registerProvider()
      // Discovery reads the challenge to `initialize` itself. It does not see challenges to later requests.
      const isUnknownToDiscovery = insufficient || !String(init?.body).includes('"initialize"')
      if (isUnknownToDiscovery)
        scopes = [...new Set([...scopes, ...parseScopes(response.headers.get('WWW-Authenticate'))])]
      if (!insufficient && refusedProvider) provider = await recoverProvider(refusedProvider)
      token = await obtainToken(provider, scopes)
    }
  }
}

/** A new token was refused: the resource may have moved to another authorization server. */
async function recoverProvider(provider: string): Promise<string> {
  const { health } = await callSlipway<{ health: string }>('POST', `/v2/auth/providers/${provider}/recheck`)
  if (health !== 'as_changed') return provider
  await callSlipway('DELETE', `/v2/auth/providers/${provider}`)
  return registerProvider()
}

const client = new Client(
  { name: 'slipway-conformance', version: '1.0.0' },
  revision === '2026-07-28' ? { versionNegotiation: { mode: { pin: revision } } } : {},
)
await client.connect(new StreamableHTTPClientTransport(new URL(server), { fetch: makeAuthorizedFetch() }))
const { tools } = await client.listTools()
for (const { name } of tools) await client.callTool({ name, arguments: {} })
await client.close()
