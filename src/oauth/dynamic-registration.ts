// What is said to a server that registers clients by itself, and what it answers (RFC 7591, RFC 7592).
import * as z from 'zod'
import type { GuardedClient } from '../kernel/guarded-fetch.ts'
import { arrayOf, boundedText } from '../protocol/wire.ts'
import type { Client, ClientRequest } from './client-registration.ts'
import type { DiscoveredServer } from './mcp-discovery.ts'
import { describeFaults, readBeginning, readJsonObject } from './metadata-documents.ts'
import { failAtStage, quoteText, type Stage } from './stage-failure.ts'

/** In the order in which they are preferred. */
export const AUTH_METHODS = ['client_secret_post', 'client_secret_basic', 'none'] as const
export type AuthMethod = (typeof AUTH_METHODS)[number]

const Printable = boundedText(4096).regex(/^[\x20-\x7e]+$/)

/** Some write null, or nothing between quotes, for what there is not. */
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

/** What a client of ours says of itself. */
export function clientMetadataOf(
  { auth_methods, refreshes, scopes }: DiscoveredServer,
  { name, redirect_uri }: ClientRequest,
) {
  return {
    client_name: name,
    redirect_uris: [redirect_uri],
    grant_types: ['authorization_code', ...(refreshes ? ['refresh_token'] : [])],
    response_types: ['code'],
    token_endpoint_auth_method: AUTH_METHODS.find(method => auth_methods.includes(method))!,
    application_type: 'web',
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
  }
}

export async function sendRegistration(
  outside: GuardedClient,
  stage: Stage,
  url: string,
  method: 'POST' | 'PUT',
  body: object,
  token?: string,
): Promise<Record<string, unknown>> {
  const headers = {
    ...{ Accept: 'application/json', 'Content-Type': 'application/json' },
    ...(token && { Authorization: `Bearer ${token}` }),
  }
  outside.stage(stage)
  const response = await outside.fetch(url, { method, headers, body: JSON.stringify(body) })
  const { status } = response
  // Figma says 200 where others say 201.
  if (response.ok) {
    const answer = await readJsonObject(response)
    if (answer) return answer
    throw failAtStage('registration_invalid_response', stage, url, `it answered ${status} without a JSON object`)
  }
  const words = await readBeginning(response)
  if (status >= 400 && status < 500)
    throw failAtStage('registration_rejected', stage, url, `${status} ${quoteText(readErrorMessage(words))}`)
  throw failAtStage('upstream_error', stage, url, `it answered ${status}`)
}

const ErrorBody = z.object({
  error: z.string().nullish().catch(null),
  error_description: z.string().nullish().catch(null),
  message: z.string().nullish().catch(null),
})

/** The server's own words for its refusal. Of JSON only what is meant for people: the rest may be the client, with its secret. */
function readErrorMessage(words: string): string {
  if (!/^\s*[{["]/.test(words)) return words
  try {
    const { error, error_description, message } = ErrorBody.parse(JSON.parse(words))
    return [error, error_description ?? message].filter(Boolean).join(': ')
  } catch {
    return ''
  }
}

export const secretMembersOf = ({ client_secret, client_secret_expires_at: until }: Client) =>
  client_secret && { client_secret, client_secret_expires_at: until === null ? 0 : Date.parse(until) / 1000 }

/** The client of an answer, or what is wrong with it. The method that is answered counts; where none is, it is the one that was asked for. */
export function parseClient(
  outside: GuardedClient,
  answer: object,
  asked: ReturnType<typeof clientMetadataOf>,
): Client | string {
  const parsed = RegistrationResponse.safeParse(answer)
  if (!parsed.success) return describeFaults(parsed.error)
  const { data } = parsed
  const secret = data.client_secret || null
  const method = data.token_endpoint_auth_method ?? (secret ? asked.token_endpoint_auth_method : 'none')
  if (method !== 'none' && !secret) return `\`${method}\` without a \`client_secret\``
  if (data.redirect_uris && !data.redirect_uris.includes(asked.redirect_uris[0]!))
    return 'another `redirect_uris` than ours'
  const client_secret = method === 'none' ? null : secret
  return {
    registration: 'dynamic',
    client_id: data.client_id,
    client_secret,
    client_secret_expires_at: client_secret && expiryFromSeconds(data.client_secret_expires_at),
    token_endpoint_auth_method: method,
    ...readManagement(outside, answer),
  }
}

/** 0, null and what no calendar of ours reaches are never. */
function expiryFromSeconds(seconds: number | null | undefined): string | null {
  return seconds && seconds * 1000 < Date.UTC(10_000) ? new Date(seconds * 1000).toISOString() : null
}

/** Both or nothing, and only an address that we would go to. */
export function readManagement(outside: GuardedClient, answer: object): ClientManagement {
  const { registration_client_uri: url, registration_access_token: token } = ManagementResponse.parse(answer)
  const nothing = { registration_client_uri: null, registration_access_token: null }
  if (!url || !token) return nothing
  try {
    return { registration_client_uri: outside.check(url).href, registration_access_token: token }
  } catch {
    return nothing
  }
}
