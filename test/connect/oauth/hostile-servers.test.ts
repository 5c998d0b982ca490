// Generated MCP servers and authorization servers. `npm run fuzz` generates ten times as many.
import { afterAll, afterEach, beforeEach, expect, it, vi } from 'vitest'
import { Failure } from '../../../src/kernel/http/errors.ts'
import {
  type HostileServer,
  hostileServer,
  toResponse,
  validServer,
  withMembers,
} from '../../support/hostile-servers.ts'
import { AUTH_ORIGIN, discoverAndRegister, MCP_ORIGIN, RESOURCE_METADATA_PATH } from '../../support/mcp-sites.ts'
import * as fc from '../../support/seeded-fast-check.ts'

console.log(`FUZZ_SEED=${fc.seed}: ${fc.requests} hostile servers`)

const { probe, resource, server, registration } = validServer
const NOT_FOUND = { ...resource, status: 404 }
/** One fault for each code that discovery can fail with. */
const FAULTS: Record<string, Partial<HostileServer>> = {
  oauth_not_required: { probe: { ...probe, status: 200 }, resource: NOT_FOUND, server: NOT_FOUND },
  blocked_url: { resource: withMembers(resource, { authorization_servers: ['https://127.0.0.1'] }) },
  resource_mismatch: { resource: withMembers(resource, { resource: 'https://other.example.net/mcp' }) },
  issuer_mismatch: { server: withMembers(server, { issuer: 'https://other.example.net' }) },
  metadata_invalid: { server: { ...server, text: '[]' } },
  pkce_unsupported: { server: withMembers(server, { code_challenge_methods_supported: ['plain'] }) },
  grant_unsupported: { server: withMembers(server, { grant_types_supported: ['password'] }) },
  unsafe_endpoint: { server: withMembers(server, { token_endpoint: 'http://auth.example.com/token' }) },
  registration_unsupported: { server: withMembers(server, { registration_endpoint: undefined }) },
  registration_rejected: { registration: { ...registration, status: 400 } },
  registration_invalid_response: { registration: { ...registration, text: '{}' } },
  upstream_error: { server: { ...server, status: 500 } },
  upstream_timeout: { server: { ...server, transfer: 'stalled' } },
}
const REFUSALS = Object.keys(FAULTS)
const outcomes = new Map<string, number>()
afterAll(() =>
  console.log(
    [...outcomes]
      .sort(([, a], [, b]) => b - a)
      .map(([code, count]) => `${count} × ${code}`)
      .join(', '),
  ),
)

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A second implementation of the URL rules: https, a public name, no user info, not this installation. */
function isPublic(written: string): boolean {
  const { protocol, hostname, username, password } = new URL(written)
  const internal = /(^|\.)(localhost|local|internal|onion)$|^slipway\.example\.com$|\.$/
  return (
    protocol === 'https:' &&
    /[^.]\.[a-z][a-z0-9-]*$/.test(hostname) &&
    !internal.test(hostname) &&
    username + password === ''
  )
}

/** A stalled response ends only at the time limit. */
async function runToEnd<T>(work: Promise<T>, isStalled: boolean): Promise<T> {
  let hasSettled = false
  const settled = work.finally(() => {
    hasSettled = true
  })
  settled.catch(() => {})
  while (isStalled && !hasSettled) await vi.advanceTimersByTimeAsync(1000)
  return settled
}

async function attemptDiscovery({
  challenges,
  probe,
  resource,
  server,
  registration,
  resourceAt,
  serverAt,
}: HostileServer) {
  const served: Record<string, unknown>[] = []
  const responses = [probe, resource, server, registration]
  const site = (origin: string) => (request: Request) => {
    const { pathname } = new URL(request.url)
    const isProbe = origin === MCP_ORIGIN && pathname === '/mcp'
    if (isProbe)
      return toResponse(
        probe,
        challenges.map((one): [string, string] => ['WWW-Authenticate', one]),
      )
    if (request.method !== 'GET') return toResponse(registration)
    const isResourceMetadata = pathname.startsWith(RESOURCE_METADATA_PATH) || pathname === '/meta'
    const [response, path] = isResourceMetadata ? [resource, resourceAt] : [server, serverAt]
    if (!pathname.startsWith(path)) return new Response(null, { status: 404 })
    try {
      served.push(JSON.parse(response.text.replace(/^\ufeff/, '')))
    } catch {
      // Not a JSON document.
    }
    return toResponse(response)
  }
  const {
    result: found,
    fakeFetch: world,
    client: way,
  } = discoverAndRegister({
    [MCP_ORIGIN]: site(MCP_ORIGIN),
    [AUTH_ORIGIN]: site(AUTH_ORIGIN),
  })
  const outcome = await runToEnd(
    found,
    responses.some(({ transfer }) => transfer === 'stalled'),
  ).catch(error => error)

  const { requests } = world
  expect(requests.filter(({ url, headers }) => !isPublic(url) || headers.has('Cookie')).map(({ url }) => url)).toEqual(
    [],
  )
  const posts = requests.filter(({ method }) => method === 'POST')
  expect([requests.length <= 16, posts.length <= 2]).toEqual([true, true])
  expect(JSON.stringify(way.trace)).not.toMatch(/hush|manage"/)

  if (outcome instanceof Error) {
    expect(outcome, String(outcome.stack)).toBeInstanceOf(Failure)
    const { code, extra } = outcome as Failure
    expect(REFUSALS).toContain(code)
    expect(extra.about).toMatch(/^[^\p{C}<>]{1,2000}$/u)
    expect(extra.about).not.toContain('hush')
    return code
  }
  expectSafe(outcome, served)
  return 'provider'
}

type DiscoveredClient = Awaited<ReturnType<typeof discoverAndRegister>['result']>

/** The result is no weaker than the published metadata, and has no text that cannot be stored or sent. */
function expectSafe(client: DiscoveredClient, served: Record<string, unknown>[]) {
  expect(client).toMatchObject({ uses_pkce: true, code_challenge_method: 'S256', registration: 'dynamic' })
  const { auth_url, token_url, registration_url, revocation_url, registration_client_uri } = client
  const addresses = [auth_url, token_url, registration_url, revocation_url, registration_client_uri]
  expect(addresses.filter(url => url !== null && !isPublic(url))).toEqual([])
  const published = served.find(one => one.issuer === client.issuer && one.token_endpoint !== undefined)!
  expect(published.code_challenge_methods_supported).toContain('S256')
  expect(published.response_types_supported ?? ['code']).toContain('code')
  // The stored URL has no fragment.
  expect(new URL((published.token_endpoint as string).split('#')[0]!).href).toBe(token_url)
  expect(client.issuer_in_answers).toBe(published.authorization_response_iss_parameter_supported === true)
  const namedServers = served.flatMap(one => (one.authorization_servers as string[] | undefined) ?? [])
  expect([...namedServers, MCP_ORIGIN].map(one => one.replace(/\/$/, ''))).toContain(client.issuer!.replace(/\/$/, ''))
  if (client.resource === null) expect(client.warnings).toContain('legacy_discovery')
  else expect(`${MCP_ORIGIN}/mcp/`.startsWith(client.resource.replace(/\/?$/, '/'))).toBe(true)
  const { client_id, client_secret, client_secret_expires_at, token_endpoint_auth_method } = client
  expect(['client_secret_post', 'client_secret_basic', 'none']).toContain(token_endpoint_auth_method)
  expect(client_secret === null).toBe(token_endpoint_auth_method === 'none')
  const texts = [client_id, client_secret ?? 'none', client.issuer!, client.resource ?? 'none', ...client.scopes]
  expect(texts.filter(text => !/^[\x20-\x7e]+$/.test(text))).toEqual([])
  if (client_secret_expires_at) expect(client_secret_expires_at).toMatch(/^\d{4}-\d\d-\d\dT/)
}

it('discovery at a valid server gives a provider', async () =>
  expect(await attemptDiscovery(validServer)).toBe('provider'))

it.each(Object.entries(FAULTS))('a server with one fault is refused: %s', async (code, fault) =>
  expect(await attemptDiscovery({ ...validServer, ...fault })).toBe(code),
)

it('a generated server ends with a safe provider or a known error code', async () => {
  const property = fc.asyncProperty(hostileServer, async servers => {
    const outcome = await attemptDiscovery(servers)
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
  })
  await fc.assert(property, { numRuns: fc.requests })
  if (fc.requests >= 10_000) expect([...REFUSALS, 'provider'].filter(one => !outcomes.has(one))).toEqual([])
}, 600_000)
