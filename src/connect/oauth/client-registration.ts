// Obtains a client at an authorization server (given, metadata document or dynamic), renews it and unregisters it.
import { Failure } from '../../kernel/http/errors.ts'
import type { GuardedClient } from '../../kernel/http/guarded-fetch.ts'
import {
  type ClientManagement,
  clientMetadataOf,
  parseClient,
  readManagement,
  secretMembersOf,
  sendRegistration,
} from './dynamic-registration.ts'
import type { DiscoveredServer } from './mcp-discovery.ts'
import { AUTH_METHODS, type AuthMethod, type Client, type ClientRequest } from './oauth-client.ts'
import { failAtStage, quoteText, quoteUrl, STAGES } from './stage-failure.ts'
import type { Registration } from './tables.ts'

/** In order of preference. */
const REGISTRATION_ORDER = ['given', 'metadata_document', 'dynamic'] as const

/** The registration that obtainClient() uses. Fails if none is possible. */
export function chooseRegistration(discovered: DiscoveredServer, request: ClientRequest): Registration {
  const candidates = request.registration === 'auto' ? REGISTRATION_ORDER : [request.registration]
  const obstacles = candidates.map(registration => findObstacle(registration, discovered, request))
  const registration = candidates[obstacles.indexOf(null)]
  if (registration) return registration
  const { issuer, auth_url, token_url } = discovered
  const endpoints = `its endpoints are ${quoteUrl(auth_url)} and ${quoteUrl(token_url)}`
  const reason = `${obstacles.join(', ')}; ${endpoints}`
  throw failAtStage('registration_unsupported', STAGES.registration, issuer ?? auth_url, reason)
}

function findObstacle(registration: Registration, discovered: DiscoveredServer, request: ClientRequest): string | null {
  const { supports_metadata_document, registration_url, auth_methods } = discovered
  if (registration === 'given') return request.client_id ? null : 'the request has no `client_id`'
  if (registration === 'metadata_document') {
    if (!supports_metadata_document) return 'the server does not support client metadata documents'
    return request.document_url ? null : 'this installation has no https URL for its client metadata document'
  }
  if (!registration_url) return 'the server has no registration endpoint'
  const isUsable = AUTH_METHODS.some(method => auth_methods.includes(method))
  return isUsable ? null : `the server only supports the methods ${quoteText(auth_methods.join(', ') || 'none')}`
}

export async function obtainClient(
  http: GuardedClient,
  discovered: DiscoveredServer,
  request: ClientRequest,
): Promise<Client> {
  const registration = chooseRegistration(discovered, request)
  if (registration === 'dynamic') return registerClient(http, discovered, request)
  const isGiven = registration === 'given'
  const client_secret = (isGiven && request.client_secret) || null
  return {
    registration,
    client_id: isGiven ? request.client_id! : request.document_url!,
    client_secret,
    token_endpoint_auth_method: client_secret ? chooseSecretMethod(discovered) : 'none',
    client_secret_expires_at: null,
    registration_client_uri: null,
    registration_access_token: null,
  }
}

/** Falls back to the method that most servers support, if the server lists none with a secret. */
const chooseSecretMethod = ({ auth_methods }: DiscoveredServer): AuthMethod =>
  AUTH_METHODS.find(method => method !== 'none' && auth_methods.includes(method)) ?? AUTH_METHODS[0]

async function registerClient(
  http: GuardedClient,
  discovered: DiscoveredServer,
  request: ClientRequest,
): Promise<Client> {
  const [stage, url] = [STAGES.registration, discovered.registration_url!]
  const metadata = clientMetadataOf(discovered, request)
  const response = await sendRegistration(http, stage, url, 'POST', metadata)
  const client = parseClient(http, response, metadata)
  if (typeof client !== 'string') return client
  // The server registered the client although its response is unusable.
  await unregisterClient(http, readManagement(http, response))
  throw failAtStage('registration_invalid_response', stage, url, client)
}

/** Store the whole result: the server may replace the secret, the management token and the management URL. */
export async function renewClient(
  http: GuardedClient,
  discovered: DiscoveredServer,
  client: Client,
  request: ClientRequest,
): Promise<Client> {
  const { client_id, registration_client_uri: url, registration_access_token: token } = client
  const stage = STAGES.management
  if (!url || !token)
    throw failAtStage(
      'registration_unsupported',
      stage,
      discovered.token_url,
      'the server registers clients, but does not update them',
    )
  const metadata = {
    ...clientMetadataOf(discovered, request),
    token_endpoint_auth_method: client.token_endpoint_auth_method,
  }
  const response = await sendRegistration(http, stage, url, 'PUT', { client_id, ...metadata }, token)
  const secret = response.client_secret ? {} : secretMembersOf(client)
  const renewed = parseClient(http, { ...response, ...secret }, metadata)
  if (typeof renewed === 'string') throw failAtStage('registration_invalid_response', stage, url, renewed)
  if (renewed.client_id !== client_id)
    throw failAtStage('registration_invalid_response', stage, url, 'the response is of another client')
  return {
    ...renewed,
    registration_client_uri: renewed.registration_client_uri ?? url,
    registration_access_token: renewed.registration_access_token ?? token,
  }
}

/** Best effort: ignores a refusal of the server. */
export async function unregisterClient(http: GuardedClient, client: ClientManagement): Promise<void> {
  const { registration_client_uri: url, registration_access_token: token } = client
  if (!url || !token) return
  http.stage(STAGES.management)
  try {
    const response = await http.fetch(url, { method: 'DELETE', headers: { Authorization: `Bearer ${token}` } })
    await response.body?.cancel()
  } catch (error) {
    if (!(error instanceof Failure)) throw error
  }
}
