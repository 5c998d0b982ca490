// Discovers the authorization server of an MCP server. No database; all requests go through the guarded client.
import { Failure, fail } from '../../kernel/http/errors.ts'
import type { GuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { type AuthorizationServer, fetchServer, type PkcePolicy } from './authorization-server.ts'
import type { Warn, Warning } from './discovery-warning.ts'
import { type Probe, probeServer } from './mcp-probe.ts'
import { fetchFirstDocument, parseMetadata, ResourceMetadata } from './metadata-documents.ts'
import { failAtStage, quoteUrl, STAGES } from './stage-failure.ts'

export type DiscoveredServer = Omit<AuthorizationServer, 'supports_offline_access'> & {
  /** Verbatim from the metadata; null if the server publishes none, and then none is sent. */
  resource: string | null
  scopes: string[]
  uses_pkce: boolean
  code_challenge_method: 'S256' | null
  warnings: Warning[]
}

export type DiscoveryOptions = PkcePolicy & {
  /** True to give a server without any metadata the default endpoints of the MCP specification of 2025-03-26. */
  defaultEndpoints: boolean
}

const MAX_SERVERS = 8
const SCOPE_PATTERN = /^[\x21\x23-\x5b\x5d-\x7e]+$/

export function checkServerUrl(http: GuardedClient, text: string): URL {
  http.stage(STAGES.probe)
  if (!URL.canParse(text)) throw fail('invalid_mcp_server_url')
  return http.check(text)
}

export async function discoverServer(
  http: GuardedClient,
  server: URL,
  options: DiscoveryOptions,
): Promise<DiscoveredServer> {
  const warnings: Warning[] = []
  const warn: Warn = (code, detail) => void warnings.push({ code, detail })
  const probe = await probeServer(http, server)
  if (probe.isMalformed)
    warn('challenge_unreadable', `The challenge of ${server.host} is malformed. What follows the fault was ignored.`)
  const metadata = await fetchResourceMetadata(http, server, probe)
  const authorizationServer = metadata
    ? await findUsableServer(http, metadata.authorization_servers, options, warn)
    : await discoverWithoutResource(http, server, probe, options, warn)
  const { supports_offline_access, ...discovered } = authorizationServer
  const publishedScopes = probe.scopes.length > 0 ? probe.scopes : (metadata?.scopes_supported ?? [])
  const scopes = publishedScopes.filter(scope => SCOPE_PATTERN.test(scope))
  if (scopes.length < publishedScopes.length)
    warn('scope_dropped', `${server.host} lists scopes with characters that are not allowed. They are not requested.`)
  return {
    ...discovered,
    resource: metadata?.resource ?? null,
    scopes: [...new Set(supports_offline_access ? [...scopes, 'offline_access'] : scopes)],
    uses_pkce: true,
    code_challenge_method: 'S256',
    warnings,
  }
}

/** RFC 9728: tries the URLs of the challenges, the well-known path with the path of the server, and its root. */
async function fetchResourceMetadata(http: GuardedClient, server: URL, probe: Probe) {
  const wellKnown = (path: string) => new URL(`/.well-known/oauth-protected-resource${path}`, server).href
  for (const url of probe.resource_metadata)
    if (!URL.canParse(url))
      throw failAtStage(
        'metadata_invalid',
        STAGES.probe,
        server,
        `\`resource_metadata\` of its challenge is ${quoteUrl(url)}, which is not a URL`,
      )
  const fetched = await fetchFirstDocument(http, STAGES.resource, [
    ...probe.resource_metadata,
    wellKnown(server.pathname.replace(/\/$/, '') + server.search),
    wellKnown(''),
  ])
  if (!fetched) return null
  const metadata = parseMetadata(ResourceMetadata, fetched, STAGES.resource)
  if (coversServer(metadata.resource, server)) return metadata
  const reason = `the metadata is for ${quoteUrl(metadata.resource)}`
  throw failAtStage('resource_mismatch', STAGES.resource, fetched.address, reason)
}

/** The resource is the server, apart from a trailing slash, or a parent path on the same origin. */
function coversServer(resource: string, server: URL): boolean {
  if (!URL.canParse(resource)) return false
  const { origin, pathname, search, hash, username, password } = new URL(resource)
  if (origin !== server.origin || hash || username || password) return false
  const [parent, path] = [pathname, server.pathname].map(name => name.replace(/\/$/, '')) as [string, string]
  return parent === path ? search === '' || search === server.search : search === '' && path.startsWith(`${parent}/`)
}

/** The first usable server of the list. If none is, fails with the failure of the first. */
async function findUsableServer(http: GuardedClient, listed: string[], options: DiscoveryOptions, warn: Warn) {
  const failures: Failure[] = []
  for (const issuer of [...new Set(listed)].slice(0, MAX_SERVERS)) {
    try {
      const server = await fetchServer(http, issuer, options, warn)
      if (server) return server
      throw failAtStage('metadata_invalid', STAGES.server, issuer, 'it publishes no metadata at any well-known URL')
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      failures.push(error)
      warn('server_skipped', `The authorization server ${quoteUrl(issuer)} was skipped: ${error.code}.`)
    }
  }
  throw failures[0]
}

/** The MCP specification of 2025-03-26: the origin of the server is its own authorization server. */
async function discoverWithoutResource(
  http: GuardedClient,
  server: URL,
  { status }: Probe,
  options: DiscoveryOptions,
  warn: Warn,
) {
  const { origin } = server
  const authorizationServer = await fetchServer(http, origin, options, warn)
  if (authorizationServer) {
    warn(
      'legacy_discovery',
      `${server.host} publishes no protected resource metadata. Its origin is used as the authorization server.`,
    )
    return authorizationServer
  }
  if (status !== 401 && status !== 403) {
    const isUpstreamError = status >= 300 && (status < 400 || status >= 500)
    throw failAtStage(
      isUpstreamError ? 'upstream_error' : 'oauth_not_required',
      STAGES.probe,
      server,
      `it answered ${status}`,
    )
  }
  if (!options.defaultEndpoints)
    throw failAtStage(
      'metadata_invalid',
      STAGES.server,
      server,
      'it requires authorization, but publishes no OAuth metadata',
    )
  warn('default_endpoints', `${server.host} publishes no OAuth metadata. /authorize, /token and /register are assumed.`)
  return defaultServer(origin)
}

const defaultServer = (origin: string): AuthorizationServer => ({
  issuer: null,
  issuer_in_answers: false,
  auth_url: `${origin}/authorize`,
  token_url: `${origin}/token`,
  registration_url: `${origin}/register`,
  revocation_url: null,
  auth_methods: ['client_secret_post', 'client_secret_basic', 'none'],
  supports_refresh: true,
  supports_metadata_document: false,
  supports_offline_access: false,
})
