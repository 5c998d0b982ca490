// How a client comes to be at an authorization server (given, described by a document of ours, registered there), and how it ends.
import { Failure } from '../kernel/errors.ts'
import type { GuardedClient } from '../kernel/guarded-fetch.ts'
import type { Registration } from '../tables/oauth.ts'
import {
  AUTH_METHODS,
  type AuthMethod,
  type ClientManagement,
  clientMetadataOf,
  parseClient,
  readManagement,
  secretMembersOf,
  sendRegistration,
} from './dynamic-registration.ts'
import type { DiscoveredServer } from './mcp-discovery.ts'
import { failAtStage, quoteText, quoteUrl, STAGES } from './stage-failure.ts'

export type ClientRequest = {
  registration: 'auto' | Registration
  client_id?: string | undefined
  client_secret?: string | undefined
  name: string
  redirect_uri: string
  /** Where our own client metadata document stands, if this installation is reached by https. */
  document_url: string | null
}

export type Client = {
  registration: Registration
  client_id: string
  client_secret: string | null
  client_secret_expires_at: string | null
  token_endpoint_auth_method: AuthMethod
  registration_client_uri: string | null
  registration_access_token: string | null
}

/** In the order in which they are tried. */
const REGISTRATION_ORDER = ['given', 'metadata_document', 'dynamic'] as const

/** What obtainClient would do; refuses where that would. */
export function chooseRegistration(discovered: DiscoveredServer, wish: ClientRequest): Registration {
  const ways = wish.registration === 'auto' ? REGISTRATION_ORDER : [wish.registration]
  const obstacles = ways.map(way => findObstacle(way, discovered, wish))
  const way = ways[obstacles.indexOf(null)]
  if (way) return way
  const { issuer, auth_url, token_url } = discovered
  const found = `its endpoints are ${quoteUrl(auth_url)} and ${quoteUrl(token_url)}`
  const reason = `${obstacles.join(', ')}; ${found}`
  throw failAtStage('registration_unsupported', STAGES.registration, issuer ?? auth_url, reason)
}

function findObstacle(way: Registration, discovered: DiscoveredServer, wish: ClientRequest): string | null {
  const { supports_metadata_document, registration_url, auth_methods } = discovered
  if (way === 'given') return wish.client_id ? null : 'no `client_id` was given'
  if (way === 'metadata_document') {
    if (!supports_metadata_document) return 'it takes no client metadata documents'
    return wish.document_url ? null : 'this installation has no https address where it could fetch our client document'
  }
  if (!registration_url) return 'it has no registration endpoint'
  const usable = AUTH_METHODS.some(method => auth_methods.includes(method))
  return usable ? null : `clients authenticate by ${quoteText(auth_methods.join(', ') || 'nothing')} only`
}

export async function obtainClient(
  outside: GuardedClient,
  discovered: DiscoveredServer,
  wish: ClientRequest,
): Promise<Client> {
  const registration = chooseRegistration(discovered, wish)
  if (registration === 'dynamic') return registerClient(outside, discovered, wish)
  const given = registration === 'given'
  const client_secret = (given && wish.client_secret) || null
  return {
    registration,
    client_id: given ? wish.client_id! : wish.document_url!,
    client_secret,
    token_endpoint_auth_method: client_secret ? chooseSecretMethod(discovered) : 'none',
    ...{ client_secret_expires_at: null, registration_client_uri: null, registration_access_token: null },
  }
}

/** A server that lists neither gets the one that most understand. */
const chooseSecretMethod = ({ auth_methods }: DiscoveredServer): AuthMethod =>
  AUTH_METHODS.find(method => method !== 'none' && auth_methods.includes(method)) ?? AUTH_METHODS[0]

async function registerClient(
  outside: GuardedClient,
  discovered: DiscoveredServer,
  wish: ClientRequest,
): Promise<Client> {
  const [stage, url] = [STAGES.registration, discovered.registration_url!]
  const asked = clientMetadataOf(discovered, wish)
  const answer = await sendRegistration(outside, stage, url, 'POST', asked)
  const client = parseClient(outside, answer, asked)
  if (typeof client !== 'string') return client
  // It was made all the same.
  await unregisterClient(outside, readManagement(outside, answer))
  throw failAtStage('registration_invalid_response', stage, url, client)
}

/** A client whose secret runs out gets another, and often another token for its registration: keep what comes back whole. */
export async function renewClient(
  outside: GuardedClient,
  discovered: DiscoveredServer,
  client: Client,
  wish: ClientRequest,
): Promise<Client> {
  const { client_id, registration_client_uri: url, registration_access_token: token } = client
  const stage = STAGES.management
  if (!url || !token)
    throw failAtStage(
      'registration_unsupported',
      stage,
      discovered.token_url,
      'it lets a client be made, not be renewed',
    )
  const asked = { ...clientMetadataOf(discovered, wish), token_endpoint_auth_method: client.token_endpoint_auth_method }
  const answer = await sendRegistration(outside, stage, url, 'PUT', { client_id, ...asked }, token)
  const renewed = parseClient(outside, answer.client_secret ? answer : { ...answer, ...secretMembersOf(client) }, asked)
  const fault = typeof renewed === 'string' ? renewed : renewed.client_id === client_id ? null : 'it is another client'
  if (fault !== null || typeof renewed === 'string')
    throw failAtStage('registration_invalid_response', stage, url, fault!)
  // The token may be the only thing that changes.
  return {
    ...renewed,
    registration_client_uri: renewed.registration_client_uri ?? url,
    registration_access_token: renewed.registration_access_token ?? token,
  }
}

/** As well as it goes: a server that will not forget a client is no reason to fail. */
export async function unregisterClient(outside: GuardedClient, client: ClientManagement): Promise<void> {
  const { registration_client_uri: url, registration_access_token: token } = client
  if (!url || !token) return
  outside.stage(STAGES.management)
  try {
    const response = await outside.fetch(url, { method: 'DELETE', headers: { Authorization: `Bearer ${token}` } })
    await response.body?.cancel()
  } catch (error) {
    if (!(error instanceof Failure)) throw error
  }
}
