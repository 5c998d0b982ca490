// A thousand hostile servers, ten thousand in `npm run fuzz`: each gives a safe provider or a known error code, and no
// forbidden request is sent.
import { afterAll, afterEach, beforeEach, expect, it, vi } from 'vitest'
import { Failure } from '../../src/kernel/errors.ts'
import { type HostileServer, hostileServer, toResponse } from '../support/hostile-servers.ts'
import { AUTH_ORIGIN, discoverAndRegister, MCP_ORIGIN, RESOURCE_METADATA_PATH } from '../support/mcp-sites.ts'
import * as fc from '../support/seeded-fast-check.ts'

const { requests } = fc
console.log(`FUZZ_SEED=${fc.seed}: ${requests} hostile servers`)

const REFUSALS = [
  ...[
    'blocked_url',
    'oauth_not_required',
    'resource_mismatch',
    'issuer_mismatch',
    'pkce_unsupported',
    'metadata_invalid',
  ],
  ...['unsafe_endpoint', 'grant_unsupported', 'registration_unsupported', 'registration_rejected'],
  ...['registration_invalid_response', 'upstream_error', 'upstream_timeout'],
]
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
  const inside = /(^|\.)(localhost|local|internal|onion)$|^slipway\.example\.com$|\.$/
  return (
    protocol === 'https:' &&
    /[^.]\.[a-z][a-z0-9-]*$/.test(hostname) &&
    !inside.test(hostname) &&
    username + password === ''
  )
}

/** A stalled response ends only by the time limit. */
async function runUntilOver<T>(work: Promise<T>, stalls: boolean): Promise<T> {
  let done = false
  const settled = work.finally(() => {
    done = true
  })
  settled.catch(() => {})
  while (stalls && !done) await vi.advanceTimersByTimeAsync(1000)
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
  const answers = [probe, resource, server, registration]
  const site = (origin: string) => (request: Request) => {
    const { pathname } = new URL(request.url)
    const probed = origin === MCP_ORIGIN && pathname === '/mcp'
    if (probed)
      return toResponse(
        probe,
        challenges.map((one): [string, string] => ['WWW-Authenticate', one]),
      )
    if (request.method !== 'GET') return toResponse(registration)
    const ofResource = pathname.startsWith(RESOURCE_METADATA_PATH) || pathname === '/meta'
    const [sent, at] = ofResource ? [resource, resourceAt] : [server, serverAt]
    if (!pathname.startsWith(at)) return new Response(null, { status: 404 })
    try {
      served.push(JSON.parse(sent.text.replace(/^\ufeff/, '')))
    } catch {
      // Not a document.
    }
    return toResponse(sent)
  }
  const {
    result: found,
    fakeFetch: world,
    client: way,
  } = discoverAndRegister({
    [MCP_ORIGIN]: site(MCP_ORIGIN),
    [AUTH_ORIGIN]: site(AUTH_ORIGIN),
  })
  const outcome = await runUntilOver(
    found,
    answers.some(({ manner }) => manner === 'stalled'),
  ).catch(error => error)

  const asked = world.requests
  expect(asked.filter(({ url, headers }) => !isPublic(url) || headers.has('Cookie')).map(({ url }) => url)).toEqual([])
  const posts = asked.filter(({ method }) => method === 'POST')
  expect([asked.length <= 16, posts.length <= 2]).toEqual([true, true])
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

/** The result is no weaker than the published metadata, and all of it can be stored and sent. */
function expectSafe(found: DiscoveredClient, served: Record<string, unknown>[]) {
  expect(found).toMatchObject({ uses_pkce: true, code_challenge_method: 'S256', registration: 'dynamic' })
  const { auth_url, token_url, registration_url, revocation_url, registration_client_uri } = found
  const addresses = [auth_url, token_url, registration_url, revocation_url, registration_client_uri]
  expect(addresses.filter(url => url !== null && !isPublic(url))).toEqual([])
  const published = served.find(one => one.issuer === found.issuer && one.token_endpoint !== undefined)!
  expect(published.code_challenge_methods_supported).toContain('S256')
  expect(published.response_types_supported).toContain('code')
  // A fragment is never sent, so it is not stored either.
  expect(new URL((published.token_endpoint as string).split('#')[0]!).href).toBe(token_url)
  expect(found.issuer_in_answers).toBe(published.authorization_response_iss_parameter_supported === true)
  const named = served.flatMap(one => (one.authorization_servers as string[] | undefined) ?? [])
  expect([...named, MCP_ORIGIN].map(one => one.replace(/\/$/, ''))).toContain(found.issuer!.replace(/\/$/, ''))
  if (found.resource === null) expect(found.warnings).toContain('legacy_discovery')
  else expect(`${MCP_ORIGIN}/mcp/`.startsWith(found.resource.replace(/\/?$/, '/'))).toBe(true)
  const { client_id, client_secret, client_secret_expires_at, token_endpoint_auth_method } = found
  expect(['client_secret_post', 'client_secret_basic', 'none']).toContain(token_endpoint_auth_method)
  expect(client_secret === null).toBe(token_endpoint_auth_method === 'none')
  const kept = [client_id, client_secret ?? 'none', found.issuer!, found.resource ?? 'none', ...found.scopes]
  expect(kept.filter(text => !/^[\x20-\x7e]+$/.test(text))).toEqual([])
  if (client_secret_expires_at) expect(client_secret_expires_at).toMatch(/^\d{4}-\d\d-\d\dT/)
}

it('a generated server gives a safe provider or a known error', async () => {
  const property = fc.asyncProperty(hostileServer, async servers => {
    const outcome = await attemptDiscovery(servers)
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
  })
  await fc.assert(property, { numRuns: requests })
  if (requests >= 10_000) expect([...REFUSALS, 'provider'].filter(one => !outcomes.has(one))).toEqual([])
}, 600_000)
