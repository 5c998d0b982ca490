// What is said to a server that registers clients by itself, and what it answers (RFC 7591, RFC 7592).
import * as z from 'zod'
import type { Outside } from '../kernel/guarded-fetch.ts'
import { arrayOf, text } from '../kernel/wire.ts'
import type { Client, Wish } from './clients.ts'
import type { Discovered } from './discovery.ts'
import { beginningOf, faultsOf, objectOf } from './documents.ts'
import { quoted, refuse, type Stage } from './refusal.ts'

/** In the order in which they are preferred. */
export const METHODS = ['client_secret_post', 'client_secret_basic', 'none'] as const
export type AuthMethod = (typeof METHODS)[number]

const Printable = text(4096).regex(/^[\x20-\x7e]+$/)

/** Some write null, or nothing between quotes, for what there is not. */
const Answer = z.object({
  client_id: Printable,
  client_secret: z.union([Printable, z.literal('')]).nullish(),
  client_secret_expires_at: z.number().min(0).nullish(),
  token_endpoint_auth_method: z.enum(METHODS).nullish(),
  redirect_uris: arrayOf(z.string(), 1000).nullish(),
})
const Management = z.object({
  registration_client_uri: Printable.nullish().catch(null),
  registration_access_token: text(4096)
    .regex(/^[\x21-\x7e]+$/)
    .nullish()
    .catch(null),
})

export type Managed = Pick<Client, 'registration_client_uri' | 'registration_access_token'>

/** What a client of ours says of itself. */
export function metadataOf({ auth_methods, refreshes, scopes }: Discovered, { name, redirect_uri }: Wish) {
  return {
    client_name: name,
    redirect_uris: [redirect_uri],
    grant_types: ['authorization_code', ...(refreshes ? ['refresh_token'] : [])],
    response_types: ['code'],
    token_endpoint_auth_method: METHODS.find(method => auth_methods.includes(method))!,
    application_type: 'web',
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
  }
}

export async function send(
  outside: Outside,
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
    const answer = await objectOf(response)
    if (answer) return answer
    throw refuse('registration_invalid_response', stage, url, `it answered ${status} without a JSON object`)
  }
  const words = await beginningOf(response)
  if (status >= 400 && status < 500)
    throw refuse('registration_rejected', stage, url, `${status} ${quoted(told(words))}`)
  throw refuse('upstream_error', stage, url, `it answered ${status}`)
}

const Told = z.object({
  error: z.string().nullish().catch(null),
  error_description: z.string().nullish().catch(null),
  message: z.string().nullish().catch(null),
})

/** The server's own words for its refusal. Of JSON only what is meant for people: the rest may be the client, with its secret. */
function told(words: string): string {
  if (!/^\s*[{["]/.test(words)) return words
  try {
    const { error, error_description, message } = Told.parse(JSON.parse(words))
    return [error, error_description ?? message].filter(Boolean).join(': ')
  } catch {
    return ''
  }
}

export const secretOf = ({ client_secret, client_secret_expires_at: until }: Client) =>
  client_secret && { client_secret, client_secret_expires_at: until === null ? 0 : Date.parse(until) / 1000 }

/** The client of an answer, or what is wrong with it. The method that is answered counts; where none is, it is the one that was asked for. */
export function clientOf(outside: Outside, answer: object, asked: ReturnType<typeof metadataOf>): Client | string {
  const parsed = Answer.safeParse(answer)
  if (!parsed.success) return faultsOf(parsed.error)
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
    client_secret_expires_at: client_secret && instantOf(data.client_secret_expires_at),
    token_endpoint_auth_method: method,
    ...managed(outside, answer),
  }
}

/** 0, null and what no calendar of ours reaches are never. */
function instantOf(seconds: number | null | undefined): string | null {
  return seconds && seconds * 1000 < Date.UTC(10_000) ? new Date(seconds * 1000).toISOString() : null
}

/** Both or nothing, and only an address that we would go to. */
export function managed(outside: Outside, answer: object): Managed {
  const { registration_client_uri: url, registration_access_token: token } = Management.parse(answer)
  const nothing = { registration_client_uri: null, registration_access_token: null }
  if (!url || !token) return nothing
  try {
    return { registration_client_uri: outside.check(url).href, registration_access_token: token }
  } catch {
    return nothing
  }
}
