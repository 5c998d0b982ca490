// Plans OAuth providers. Their secrets are sent only where one is needed: nothing tells whether a given one is another.

import { type DeclaredDocument, specOf } from './documents.ts'
import {
  addMissingSecret,
  changesOfNew,
  compareMembers,
  findSecret,
  ownerOf,
  type Planned,
  type Planner,
  type SecretChange,
} from './planner.ts'

const SECRET = 'client_secret'
const ENDPOINTS = ['auth_url', 'token_url', 'revocation_url']
const IMMUTABLE = ['provider_type', 'mcp_server_url']
/** These members are used at creation only. */
const OF_CREATION = ['registration', 'provider_id', 'code_challenge_method']

export async function planProvider(planner: Planner, document: DeclaredDocument): Promise<Planned> {
  const { client, signal, state } = planner
  const { name } = document
  const spec = specOf(document)
  const hasSecret = document.secrets?.includes(SECRET) === true
  const needSecret = () => {
    const value = findSecret(planner, document, SECRET)
    if (value === undefined) addMissingSecret(planner, document, ['secrets'], SECRET)
    return value
  }
  const added: SecretChange[] = hasSecret ? [{ name: SECRET, change: 'added' }] : []
  if (!state.providers.has(name)) {
    const owner = ownerOf(planner, document, null)
    const secret = hasSecret ? needSecret() : undefined
    const body = { ...spec, owner, ...(secret !== undefined && { client_secret: secret }) } as never
    const run = async () => {
      if (spec.mcp_server_url === undefined) await client.call('POST /v2/auth/providers', { body })
      else await client.call('POST /v2/auth/providers/mcp-discover', { body })
    }
    return { action: 'create', changes: changesOfNew({ ...spec, owner }), secrets: added, basis: [spec, owner], run }
  }
  const params = { provider_id: name }
  const { reply, etag } = await client.answer('GET /v2/auth/providers/{provider_id}', { params, signal })
  const defaults = spec.mcp_server_url === undefined ? { scopes: [], uses_pkce: true } : {}
  const wanted = Object.entries({ ...defaults, ...spec }).filter(([member]) => !OF_CREATION.includes(member))
  const owner = ownerOf(planner, document, reply.owner)
  const { changes, patch } = compareMembers({ ...Object.fromEntries(wanted), owner }, reply)
  for (const { path } of changes.filter(one => IMMUTABLE.includes(one.path)))
    planner.addFault(document, ['spec', path], 'cannot be changed. Delete the provider first')
  if (changes.length === 0) return {}
  const isNeeded = hasSecret && changes.some(({ path }) => [...ENDPOINTS, 'token_endpoint_auth_method'].includes(path))
  const secret = isNeeded ? needSecret() : undefined
  const body = { ...patch, ...(secret !== undefined && { client_secret: secret }) }
  const headers = { 'If-Match': etag }
  const run = () => client.call('PATCH /v2/auth/providers/{provider_id}', { params, body: body as never, headers })
  return {
    action: 'change',
    changes,
    run,
    basis: [etag, patch, isNeeded],
    secrets: isNeeded ? [{ name: SECRET, change: 'changed' }] : [],
  }
}
