// Requests and responses of dynamic client registration and management (RFC 7591, RFC 7592).
import * as z from 'zod'
import type { GuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { arrayOf, boundedText } from '../../protocol/wire.ts'
import type { DiscoveredServer } from './mcp-discovery.ts'
import { describeFaults, readBeginning, readJsonObject } from './metadata-documents.ts'
import { AUTH_METHODS, type Client, type ClientRequest } from './oauth-client.ts'
import { failAtStage, quoteText, type Stage } from './stage-failure.ts'

const Printable = boundedText(4096).regex(/^[\x20-\x7e]+$/)

/** Some servers write null or an empty string for an absent member. */
const RegistrationResponse = z.object({
  client_id: Printable,
  client_secret: z.union([Printable, z.literal('')]).nullish(),
  client_secret_expires_at: z.number().min(0).nullish(),
  token_endpoint_auth_method: z.enum(AUTH_METHODS).nullish(),
  redirect_uris: arrayOf(z.string(), 1000).nullish(),
})
const ManagementResponse = z.object({
  registration_client_uri: Printable.nullish().catch(null),
  registration_access_token: boundedText(4096)
    .regex(/^[\x21-\x7e]+$/)
    .nullish()
    .catch(null),
})

export type ClientManagement = Pick<Client, 'registration_client_uri' | 'registration_access_token'>

export function clientMetadataOf(
  { auth_methods, supports_refresh, scopes }: DiscoveredServer,
  { name, redirect_uri }: ClientRequest,
) {
  return {
    client_name: name,
    redirect_uris: [redirect_uri],
    grant_types: ['authorization_code', ...(supports_refresh ? ['refresh_token'] : [])],
    response_types: ['code'],
    token_endpoint_auth_method: AUTH_METHODS.find(method => auth_methods.includes(method))!,
    application_type: 'web',
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
  }
}

export async function sendRegistration(
  http: GuardedClient,
  stage: Stage,
  url: string,
  method: 'POST' | 'PUT',
  body: object,
  token?: string,
): Promise<Record<string, unknown>> {
  const headers = {
    Accept: 'application/json',
    'Content-Type': 'application/json',
    ...(token && { Authorization: `Bearer ${token}` }),
  }
  http.stage(stage)
  const response = await http.fetch(url, { method, headers, body: JSON.stringify(body) })
  const { status } = response
  // Figma answers 200 instead of 201.
  if (response.ok) {
    const document = await readJsonObject(response)
    if (document) return document
    throw failAtStage('registration_invalid_response', stage, url, `it answered ${status} without a JSON object`)
  }
  const text = await readBeginning(response)
  if (status >= 400 && status < 500)
    throw failAtStage('registration_rejected', stage, url, `${status} ${quoteText(readErrorMessage(text))}`)
  throw failAtStage('upstream_error', stage, url, `it answered ${status}`)
}

const ErrorBody = z.object({
  error: z.string().nullish().catch(null),
  error_description: z.string().nullish().catch(null),
  message: z.string().nullish().catch(null),
})

/** Takes only the error members of JSON, because a server may echo the client with its secret. */
function readErrorMessage(text: string): string {
  if (!/^\s*[{["]/.test(text)) return text
  try {
    const { error, error_description, message } = ErrorBody.parse(JSON.parse(text))
    return [error, error_description ?? message].filter(Boolean).join(': ')
  } catch {
    return ''
  }
}

export const secretMembersOf = ({ client_secret, client_secret_expires_at: expiresAt }: Client) =>
  client_secret && { client_secret, client_secret_expires_at: expiresAt === null ? 0 : Date.parse(expiresAt) / 1000 }

/** The client of a response, or a description of its fault. A response without a method accepts the requested one. */
export function parseClient(
  http: GuardedClient,
  response: object,
  requested: ReturnType<typeof clientMetadataOf>,
): Client | string {
  const parsed = RegistrationResponse.safeParse(response)
  if (!parsed.success) return describeFaults(parsed.error)
  const { data } = parsed
  const secret = data.client_secret || null
  const method = data.token_endpoint_auth_method ?? (secret ? requested.token_endpoint_auth_method : 'none')
  if (method !== 'none' && !secret) return `\`${method}\` without a \`client_secret\``
  if (data.redirect_uris && !data.redirect_uris.includes(requested.redirect_uris[0]!))
    return '`redirect_uris` lacks the requested URI'
  const client_secret = method === 'none' ? null : secret
  return {
    registration: 'dynamic',
    client_id: data.client_id,
    client_secret,
    client_secret_expires_at: client_secret && expiryFromSeconds(data.client_secret_expires_at),
    token_endpoint_auth_method: method,
    ...readManagement(http, response),
  }
}

/** 0, null and a date beyond the year 9999 mean that the secret does not expire. */
function expiryFromSeconds(seconds: number | null | undefined): string | null {
  return seconds && seconds * 1000 < Date.UTC(10_000) ? new Date(seconds * 1000).toISOString() : null
}

/** Returns both members or none, and only a URL that the guarded client allows. */
export function readManagement(http: GuardedClient, response: object): ClientManagement {
  const { registration_client_uri: url, registration_access_token: token } = ManagementResponse.parse(response)
  const none = { registration_client_uri: null, registration_access_token: null }
  if (!url || !token) return none
  try {
    return { registration_client_uri: http.check(url).href, registration_access_token: token }
  } catch {
    return none
  }
}
