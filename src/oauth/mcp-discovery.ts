// From the address of an MCP server to what its OAuth provider is: policy alone, no database. The guard is the only way out.
import { Failure, fail } from '../kernel/errors.ts'
import type { GuardedClient } from '../kernel/guarded-fetch.ts'
import { type AuthorizationServer, fetchServer } from './authorization-server.ts'
import { type Probe, probeServer } from './mcp-probe.ts'
import { fetchFirstDocument, parseMetadata, ResourceMetadata } from './metadata-documents.ts'
import { failAtStage, quoteUrl, STAGES } from './stage-failure.ts'

/** Something that works, but that an administrator should know. */
export type Warning = { code: WarningCode; detail: string }
type WarningCode =
  | 'challenge_unreadable'
  | 'scope_dropped'
  | 'legacy_discovery'
  | 'default_endpoints'
  | 'server_skipped'
  | 'issuer_slash'
  | 'pkce_assumed'
export type Warn = (code: WarningCode, detail: string) => void

export type DiscoveredServer = Omit<AuthorizationServer, 'offline'> & {
  /** Exactly as the metadata has it; null where the server publishes none, and then none is sent. */
  resource: string | null
  scopes: string[]
  uses_pkce: boolean
  code_challenge_method: 'S256' | null
  warnings: Warning[]
}

export type DiscoveryOptions = {
  /** Whether an authorization server at that host (with its port, if it has one) is taken to support S256 though it lists no methods. */
  assumeS256: (host: string) => boolean
  /** Where there is no metadata at all: the endpoints that the first version of the specification gave by default. */
  defaultEndpoints: boolean
}

/** More are not tried: a list without end is nobody's. */
const MAX_SERVERS = 8
const SCOPE_PATTERN = /^[\x21\x23-\x5b\x5d-\x7e]+$/

/** The address of an MCP server, guarded and without its fragment. */
export function checkServerUrl(outside: GuardedClient, text: string): URL {
  outside.stage(STAGES.probe)
  if (!URL.canParse(text)) throw fail('invalid_mcp_server_url')
  return outside.check(text)
}

export async function discoverServer(
  outside: GuardedClient,
  server: URL,
  options: DiscoveryOptions,
): Promise<DiscoveredServer> {
  const warnings: Warning[] = []
  const warn: Warn = (code, detail) => void warnings.push({ code, detail })
  const probed = await probeServer(outside, server)
  if (probed.unreadable)
    warn('challenge_unreadable', `The challenge of ${server.host} is malformed and was passed over.`)
  const metadata = await fetchResourceMetadata(outside, server, probed)
  const found = metadata
    ? await findUsableServer(outside, metadata.authorization_servers, options, warn)
    : await discoverWithoutResource(outside, server, probed, options, warn)
  const { offline, ...discovered } = found
  const asked = probed.scopes.length > 0 ? probed.scopes : (metadata?.scopes_supported ?? [])
  const scopes = asked.filter(scope => SCOPE_PATTERN.test(scope))
  if (scopes.length < asked.length) warn('scope_dropped', `${server.host} names scopes that cannot be asked for.`)
  return {
    ...discovered,
    resource: metadata?.resource ?? null,
    scopes: [...new Set(offline ? [...scopes, 'offline_access'] : scopes)],
    ...{ uses_pkce: true, code_challenge_method: 'S256' },
    warnings,
  }
}

/** The metadata of the resource itself (RFC 9728): where a challenge says, below the well-known path, at its root. */
async function fetchResourceMetadata(outside: GuardedClient, server: URL, probed: Probe) {
  const wellKnown = (path: string) => new URL(`/.well-known/oauth-protected-resource${path}`, server).href
  for (const named of probed.resource_metadata)
    if (!URL.canParse(named))
      throw failAtStage(
        'metadata_invalid',
        STAGES.probe,
        server,
        `its challenge names ${quoteUrl(named)}, which is no address`,
      )
  const found = await fetchFirstDocument(outside, STAGES.resource, [
    ...probed.resource_metadata,
    wellKnown(server.pathname.replace(/\/$/, '') + server.search),
    wellKnown(''),
  ])
  if (!found) return null
  const metadata = parseMetadata(ResourceMetadata, found, STAGES.resource)
  if (coversServer(metadata.resource, server)) return metadata
  throw failAtStage('resource_mismatch', STAGES.resource, found.address, `it is of ${quoteUrl(metadata.resource)}`)
}

/** The resource is the server, give or take a trailing slash, or stands above it on the same origin. */
function coversServer(resource: string, server: URL): boolean {
  if (!URL.canParse(resource)) return false
  const { origin, pathname, search, hash, username, password } = new URL(resource)
  if (origin !== server.origin || hash || username || password) return false
  const [above, path] = [pathname, server.pathname].map(one => one.replace(/\/$/, '')) as [string, string]
  return above === path ? search === '' || search === server.search : search === '' && path.startsWith(`${above}/`)
}

/** The first of the listed authorization servers that can be used; if none can, the fault of the first. */
async function findUsableServer(outside: GuardedClient, listed: string[], options: DiscoveryOptions, warn: Warn) {
  const faults: Failure[] = []
  for (const issuer of [...new Set(listed)].slice(0, MAX_SERVERS)) {
    try {
      const server = await fetchServer(outside, issuer, options, warn)
      if (server) return server
      throw failAtStage(
        'metadata_invalid',
        STAGES.server,
        issuer,
        'it publishes no metadata at any of its well-known places',
      )
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      faults.push(error)
      warn('server_skipped', `The listed authorization server ${quoteUrl(issuer)} cannot be used: ${error.code}.`)
    }
  }
  throw faults[0]
}

/** No metadata of the resource, as in the specification of 2025-03-26: the server's origin may be its own authorization server. */
async function discoverWithoutResource(
  outside: GuardedClient,
  server: URL,
  { status }: Probe,
  options: DiscoveryOptions,
  warn: Warn,
) {
  const { origin } = server
  const found = await fetchServer(outside, origin, options, warn)
  if (found) {
    warn(
      'legacy_discovery',
      `${server.host} publishes no metadata of the resource; its own authorization server is used.`,
    )
    return found
  }
  if (status !== 401 && status !== 403) {
    const upstream = status >= 300 && (status < 400 || status >= 500)
    throw failAtStage(upstream ? 'upstream_error' : 'oauth_not_required', STAGES.probe, server, `it answered ${status}`)
  }
  if (!options.defaultEndpoints)
    throw failAtStage(
      'metadata_invalid',
      STAGES.server,
      server,
      'it wants authorization and publishes no OAuth metadata',
    )
  warn('default_endpoints', `${server.host} publishes no OAuth metadata; /authorize, /token and /register are assumed.`)
  return defaultServer(origin)
}

const defaultServer = (origin: string): AuthorizationServer => ({
  ...{ issuer: null, issuer_in_answers: false },
  ...{ auth_url: `${origin}/authorize`, token_url: `${origin}/token`, registration_url: `${origin}/register` },
  ...{ revocation_url: null, auth_methods: ['client_secret_post', 'client_secret_basic', 'none'] },
  ...{ refreshes: true, supports_metadata_document: false, offline: false },
})
