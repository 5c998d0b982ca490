// Reads the metadata of an authorization server (RFC 8414, OpenID Connect Discovery) and decides if it is usable.
import { Failure } from '../../kernel/http/errors.ts'
import type { GuardedClient } from '../../kernel/http/guarded-fetch.ts'
import type { Warn } from './discovery-warning.ts'
import { fetchFirstDocument, parseMetadata, ServerMetadata, TextList } from './metadata-documents.ts'
import { failAtStage, quoteText, quoteUrl, STAGES } from './stage-failure.ts'

export type AuthorizationServer = {
  /** Verbatim, because the `iss` of a response is compared with it. */
  issuer: string | null
  issuer_in_answers: boolean
  auth_url: string
  token_url: string
  registration_url: string | null
  revocation_url: string | null
  auth_methods: string[]
  supports_refresh: boolean
  supports_metadata_document: boolean
  supports_offline_access: boolean
}

export type PkcePolicy = {
  /** True to assume S256 at this host, which includes a port, if the server does not list its PKCE methods. */
  assumeS256: (host: string) => boolean
}

/** Null if the server publishes no metadata. */
export async function fetchServer(
  http: GuardedClient,
  issuerUrl: string,
  options: PkcePolicy,
  warn: Warn,
): Promise<AuthorizationServer | null> {
  http.stage(STAGES.server)
  const urls = metadataUrlsOf(checkIssuerUrl(http, issuerUrl))
  const fetched = await fetchFirstDocument(http, STAGES.server, urls)
  if (!fetched) return null
  const metadata = parseMetadata(ServerMetadata, fetched, STAGES.server)
  const comparison = compareIssuers(metadata.issuer, issuerUrl)
  if (comparison === 'different')
    throw failAtStage(
      'issuer_mismatch',
      STAGES.server,
      fetched.address,
      `the metadata of ${quoteUrl(issuerUrl)} names the issuer ${quoteUrl(metadata.issuer)}`,
    )
  const server = requireUsableServer(http, metadata, fetched.address)
  if (comparison === 'slash')
    warn('issuer_slash', `The issuer ${quoteUrl(metadata.issuer)} and its listed URL differ in the trailing slash.`)
  const methods =
    metadata.code_challenge_methods_supported ??
    (await findPkceMethods(http, metadata, urls.slice(urls.indexOf(fetched.address) + 1)))
  requirePkce(metadata, methods, fetched.address, options, warn)
  return server
}

function checkIssuerUrl(http: GuardedClient, issuerUrl: string): URL {
  const url = http.check(issuerUrl)
  if (!/[?#]/.test(issuerUrl)) return url
  throw failAtStage('metadata_invalid', STAGES.server, url, 'the issuer has a query or a fragment')
}

/** The URLs where metadata may be, in the order of the requests. */
export function metadataUrlsOf(issuer: URL): string[] {
  const path = issuer.pathname.replace(/\/$/, '')
  const inserted = [`/.well-known/oauth-authorization-server${path}`, `/.well-known/openid-configuration${path}`]
  const appended = path === '' ? [] : [`${path}/.well-known/openid-configuration`]
  // Assigned to pathname, because new URL() would resolve a path with two leading slashes to another host.
  return [...inserted, ...appended].map(path => Object.assign(new URL(issuer.origin), { pathname: path }).href)
}

/** `slash`: the same but for the slash of an empty path. */
function compareIssuers(issuer: string, issuerUrl: string): 'same' | 'slash' | 'different' {
  if (issuer === issuerUrl) return 'same'
  const withoutSlash = (text: string) => (/^[^:]+:\/\/[^/]+\/$/.test(text) ? text.slice(0, -1) : text)
  return withoutSlash(issuer) === withoutSlash(issuerUrl) ? 'slash' : 'different'
}

function requireUsableServer(http: GuardedClient, metadata: ServerMetadata, address: string): AuthorizationServer {
  const endpoint = (name: string, url: string): string => {
    try {
      return http.check(url).href
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      throw failAtStage('unsafe_endpoint', STAGES.server, address, `\`${name}\` is ${quoteUrl(url)}`)
    }
  }
  const optional = (name: string, url: string | null | undefined) => (url ? endpoint(name, url) : null)
  const unsupported = (reason: string) => failAtStage('grant_unsupported', STAGES.server, address, reason)
  const server = {
    issuer: metadata.issuer,
    issuer_in_answers: metadata.authorization_response_iss_parameter_supported ?? false,
    auth_url: endpoint('authorization_endpoint', metadata.authorization_endpoint),
    token_url: endpoint('token_endpoint', metadata.token_endpoint),
    registration_url: optional('registration_endpoint', metadata.registration_endpoint),
    revocation_url: optional('revocation_endpoint', metadata.revocation_endpoint),
    // The defaults of RFC 8414.
    auth_methods: metadata.token_endpoint_auth_methods_supported ?? ['client_secret_basic'],
    supports_refresh: metadata.grant_types_supported?.includes('refresh_token') ?? true,
    supports_metadata_document: metadata.client_id_metadata_document_supported ?? false,
    supports_offline_access: metadata.scopes_supported?.includes('offline_access') ?? false,
  }
  // RFC 8414 requires the member, but servers that offer the code flow alone leave it out.
  if (metadata.response_types_supported && !metadata.response_types_supported.includes('code'))
    throw unsupported('`response_types_supported` lacks `code`')
  if (metadata.grant_types_supported && !metadata.grant_types_supported.includes('authorization_code'))
    throw unsupported('`grant_types_supported` lacks `authorization_code`')
  return server
}

/**
 * Some servers list their PKCE methods only in their OpenID document, which follows the RFC 8414 one. It counts if it
 * has the same issuer and endpoints. Nothing else is read from it. A document that fails counts as missing.
 */
async function findPkceMethods(http: GuardedClient, metadata: ServerMetadata, urls: string[]) {
  const sameMembers = ['issuer', 'authorization_endpoint', 'token_endpoint'] as const
  for (const url of urls) {
    const fetched = await fetchFirstDocument(http, STAGES.server, [url]).catch((error: unknown) => {
      if (error instanceof Failure) return null
      throw error
    })
    const document = fetched?.document ?? {}
    const { data } = TextList.safeParse(document.code_challenge_methods_supported)
    if (data && sameMembers.every(member => document[member] === metadata[member])) return data
  }
  return null
}

/** The server lists S256, or the organization assumes it for this host. */
function requirePkce(
  metadata: ServerMetadata,
  methods: string[] | null,
  address: string,
  { assumeS256 }: PkcePolicy,
  warn: Warn,
): void {
  if (methods?.includes('S256')) return
  if (methods)
    throw failAtStage(
      'pkce_unsupported',
      STAGES.server,
      address,
      `its methods are ${quoteText(methods.join(', ') || 'none')}`,
    )
  const { host } = new URL(metadata.issuer)
  if (!assumeS256(host))
    throw failAtStage('pkce_unsupported', STAGES.server, address, `${host} does not list its methods`)
  warn('pkce_assumed', `${host} does not list S256. The organization assumes that it is supported.`)
}
