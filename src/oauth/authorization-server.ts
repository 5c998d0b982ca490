// An authorization server by its metadata (RFC 8414, OpenID Connect Discovery): whether it can be used, and at which endpoints.
import { Failure } from '../kernel/errors.ts'
import type { GuardedClient } from '../kernel/guarded-fetch.ts'
import type { DiscoveryOptions, Warn } from './mcp-discovery.ts'
import { fetchFirstDocument, parseMetadata, ServerMetadata } from './metadata-documents.ts'
import { failAtStage, quoteText, quoteUrl, STAGES } from './stage-failure.ts'

export type AuthorizationServer = {
  /** Exactly as the metadata has it: what an answer's `iss` is compared to. */
  issuer: string | null
  issuer_in_answers: boolean
  auth_url: string
  token_url: string
  registration_url: string | null
  revocation_url: string | null
  auth_methods: string[]
  /** Refresh tokens may be had, as far as the server says. */
  refreshes: boolean
  supports_metadata_document: boolean
  /** It knows the scope `offline_access`. */
  offline: boolean
}

/** The authorization server that was named so; null where it publishes nothing. */
export async function fetchServer(
  outside: GuardedClient,
  named: string,
  options: Pick<DiscoveryOptions, 'assumeS256'>,
  warn: Warn,
): Promise<AuthorizationServer | null> {
  outside.stage(STAGES.server)
  const found = await fetchFirstDocument(outside, STAGES.server, metadataUrlsOf(checkIssuerUrl(outside, named)))
  if (!found) return null
  const metadata = parseMetadata(ServerMetadata, found, STAGES.server)
  const slash = compareIssuers(metadata.issuer, named)
  if (slash === null)
    throw failAtStage(
      'issuer_mismatch',
      STAGES.server,
      found.address,
      `${quoteUrl(named)} was listed, it names ${quoteUrl(metadata.issuer)}`,
    )
  const server = requireUsableServer(outside, metadata, found.address)
  if (slash) warn('issuer_slash', `${quoteUrl(metadata.issuer)} was listed with a slash more or less.`)
  requirePkce(metadata, found.address, options, warn)
  return server
}

function checkIssuerUrl(outside: GuardedClient, named: string): URL {
  const url = outside.check(named)
  if (!/[?#]/.test(named)) return url
  throw failAtStage('metadata_invalid', STAGES.server, url, 'an issuer has no query and no fragment')
}

/** Where an issuer's metadata may stand, in the order in which it is looked for. */
export function metadataUrlsOf(issuer: URL): string[] {
  const path = issuer.pathname.replace(/\/$/, '')
  const inserted = [`/.well-known/oauth-authorization-server${path}`, `/.well-known/openid-configuration${path}`]
  const appended = path === '' ? [] : [`${path}/.well-known/openid-configuration`]
  // Set as a path, since one that begins with two slashes would be resolved to another host.
  return [...inserted, ...appended].map(path => Object.assign(new URL(issuer.origin), { pathname: path }).href)
}

/** Identical, or but for the slash of an empty path; null where it is another. */
function compareIssuers(issuer: string, named: string): 'slash' | false | null {
  if (issuer === named) return false
  const bare = (text: string) => (/^[^:]+:\/\/[^/]+\/$/.test(text) ? text.slice(0, -1) : text)
  return bare(issuer) === bare(named) ? 'slash' : null
}

function requireUsableServer(outside: GuardedClient, metadata: ServerMetadata, address: string): AuthorizationServer {
  const endpoint = (name: string, written: string): string => {
    try {
      return outside.check(written).href
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      throw failAtStage('unsafe_endpoint', STAGES.server, address, `\`${name}\` is ${quoteUrl(written)}`)
    }
  }
  const optional = (name: string, written: string | null | undefined) => (written ? endpoint(name, written) : null)
  const without = (what: string) => failAtStage('grant_unsupported', STAGES.server, address, what)
  const server = {
    issuer: metadata.issuer,
    issuer_in_answers: metadata.authorization_response_iss_parameter_supported ?? false,
    auth_url: endpoint('authorization_endpoint', metadata.authorization_endpoint),
    token_url: endpoint('token_endpoint', metadata.token_endpoint),
    registration_url: optional('registration_endpoint', metadata.registration_endpoint),
    revocation_url: optional('revocation_endpoint', metadata.revocation_endpoint),
    // What holds where nothing is said (RFC 8414).
    auth_methods: metadata.token_endpoint_auth_methods_supported ?? ['client_secret_basic'],
    refreshes: metadata.grant_types_supported?.includes('refresh_token') ?? true,
    supports_metadata_document: metadata.client_id_metadata_document_supported ?? false,
    offline: metadata.scopes_supported?.includes('offline_access') ?? false,
  }
  if (!metadata.response_types_supported.includes('code')) throw without('`response_types_supported` lacks `code`')
  if (metadata.grant_types_supported && !metadata.grant_types_supported.includes('authorization_code'))
    throw without('`grant_types_supported` lacks `authorization_code`')
  return server
}

/** Never without PKCE: its support is said, or the organisation has said so. */
function requirePkce(
  metadata: ServerMetadata,
  address: string,
  { assumeS256 }: Pick<DiscoveryOptions, 'assumeS256'>,
  warn: Warn,
): void {
  const methods = metadata.code_challenge_methods_supported
  if (methods?.includes('S256')) return
  if (methods)
    throw failAtStage('pkce_unsupported', STAGES.server, address, `it lists ${quoteText(methods.join(', ') || 'none')}`)
  const { host } = new URL(metadata.issuer)
  if (!assumeS256(host)) throw failAtStage('pkce_unsupported', STAGES.server, address, `${host} lists no methods`)
  warn('pkce_assumed', `${host} does not say that it supports S256; the organisation assumes it.`)
}
