// The programs that people connect. None is stored: a client is its metadata document, or it carries its metadata in
// its id, sealed by this installation.
import * as z from 'zod'
import { describeFaults, readJsonObject } from '../../connect/oauth/metadata-documents.ts'
import type { SealingServices } from '../../kernel/http/context.ts'
import { type Failure, fail } from '../../kernel/http/errors.ts'
import { createGuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { arrayOf, boundedText } from '../../protocol/wire.ts'
import type * as schema from './authorization.schema.ts'
import { isAllowedRedirectUri } from './redirect-uris.ts'

export type Client = {
  id: string
  name: string
  /** The host of its metadata document. A client that registered itself has none, so nothing proves its name. */
  host: string | null
  redirect_uris: string[]
}

const FETCH_LIMITS = { fetchMs: 5000, totalMs: 5000, fetches: 1, bytes: 64 * 1024, returnsRedirects: true }
const [OWNER, PLACE] = ['oauth client', 'client_id']
/** An id of this length fits into URLs of any browser and proxy. */
const MAX_SEALED_CHARACTERS = 1400

const ClientDocument = z.object({
  client_id: z.string(),
  client_name: z.string().nullish(),
  redirect_uris: arrayOf(boundedText(2048), 100, 1),
  token_endpoint_auth_method: z.literal('none').nullish(),
})

/** People read the name, so no character of it hides or reorders others, and it has one that is seen. */
function cleanName(text: string): string {
  const name = text
    .replace(/[^\p{L}\p{N}\p{P}\p{S}\p{M} ]|\p{DI}/gu, ' ')
    .replace(/ +/g, ' ')
    .trim()
    .slice(0, 64)
    // Half of a character.
    .replace(/[\ud800-\udbff]$/, '')
    .trim()
  return /[\p{L}\p{N}]/u.test(name) ? name : ''
}

const refuseClient = (detail: string): Failure => fail('invalid_client', { detail })

export async function findClient(services: SealingServices, origin: string, client_id: string): Promise<Client> {
  return /^https?:/.test(client_id) ? fetchClient(services, origin, client_id) : openClient(services, client_id)
}

async function fetchClient(services: SealingServices, origin: string, client_id: string): Promise<Client> {
  const http = createGuardedClient(services, origin, FETCH_LIMITS)
  http.stage('client metadata document')
  const url = http.check(client_id)
  // Another spelling of the same URL would be another client to the reader of the page.
  if (url.href !== client_id || url.pathname === '/') throw refuseClient('`client_id` is not the URL of a document.')
  const response = await http.fetch(url, { headers: { Accept: 'application/json' } })
  if (response.status !== 200) {
    await response.body?.cancel()
    throw refuseClient(`The server of \`client_id\` answered ${response.status} instead of a document.`)
  }
  const { success, data, error } = ClientDocument.safeParse(await readJsonObject(response))
  if (!success) throw refuseClient(`The document at \`client_id\` has members ${describeFaults(error)}.`)
  if (data.client_id !== client_id) throw refuseClient('The document at `client_id` names another client.')
  const name = cleanName(data.client_name ?? '') || url.host
  return { id: client_id, name, host: url.host, redirect_uris: data.redirect_uris }
}

async function openClient({ sealer }: SealingServices, client_id: string): Promise<Client> {
  const text = await sealer.open(client_id, OWNER, PLACE).catch(() => {
    throw fail('invalid_client')
  })
  const { name, redirect_uris } = JSON.parse(text) as Pick<Client, 'name' | 'redirect_uris'>
  return { id: client_id, name, host: null, redirect_uris }
}

export async function registerClient(
  { sealer, platform }: SealingServices,
  { client_name, redirect_uris }: z.output<typeof schema.Registration>,
): Promise<z.output<typeof schema.RegisteredClient>> {
  const refused = redirect_uris.find(uri => !isAllowedRedirectUri(uri))
  if (refused !== undefined) throw fail('invalid_redirect_uri')
  const name = cleanName(client_name ?? '') || 'A program without a name'
  const text = JSON.stringify({ name, redirect_uris })
  if (text.length > MAX_SEALED_CHARACTERS)
    throw fail('invalid_client_metadata', {
      detail: 'The redirect URIs are too long together. Register fewer of them.',
    })
  return {
    client_id: await sealer.seal(text, OWNER, PLACE),
    client_id_issued_at: Math.floor(platform.clock.now() / 1000),
    client_name: name,
    redirect_uris,
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  }
}
