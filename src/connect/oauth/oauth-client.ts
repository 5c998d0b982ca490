// A client at an authorization server, and the request to obtain one.
import type { Registration } from './tables.ts'

export type ClientRequest = {
  registration: 'auto' | Registration
  client_id?: string | undefined
  client_secret?: string | undefined
  name: string
  redirect_uri: string
  /** The URL of our client metadata document; null without https. */
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

/** In order of preference. */
export const AUTH_METHODS = ['client_secret_post', 'client_secret_basic', 'none'] as const
export type AuthMethod = (typeof AUTH_METHODS)[number]
