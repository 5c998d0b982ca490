// How a client comes to be at an authorization server: given, described by a document of ours, or registered there. And how it ends.
import type { Outside } from '../kernel/guarded-fetch.ts'
import type { Registration } from '../tables.ts'
import type { Discovered } from './discovery.ts'

export type AuthMethod = 'client_secret_post' | 'client_secret_basic' | 'none'

export type Wish = {
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

/** What obtainClient would do; refuses where that would. */
export function methodFor(_discovered: Discovered, _wish: Wish): Registration {
  throw new Error('on its way')
}

export async function obtainClient(_outside: Outside, _discovered: Discovered, _wish: Wish): Promise<Client> {
  throw new Error('on its way')
}

/** A registered client whose secret runs out gets a new one, and often a new access token for its registration: keep what comes back whole. */
export async function renew(_outside: Outside, _discovered: Discovered, _client: Client, _wish: Wish): Promise<Client> {
  throw new Error('on its way')
}

/** RFC 7592, as well as it goes: a server that will not forget a client is no reason to fail. */
export async function unregister(
  _outside: Outside,
  _client: Pick<Client, 'registration_client_uri' | 'registration_access_token'>,
): Promise<void> {}
