// Calls an MCP server without a token, and reads the status and the challenges of its response.
import { customFetch, protectedResourceRequest, WWWAuthenticateChallengeError } from 'oauth4webapi'
import type { GuardedClient } from '../kernel/guarded-fetch.ts'
import { STAGES } from './stage-failure.ts'

export type Probe = {
  status: number
  /** The metadata URLs of the challenges, not validated. */
  resource_metadata: string[]
  /** Of the first challenge with scopes. */
  scopes: string[]
  /** There is a challenge, but the parser rejects it. */
  isUnreadable: boolean
}

const INITIALIZE_REQUEST = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'slipway', version: '1.0.0' } },
}

/** POST, as an MCP client does; then GET, for servers that refuse it. Bodies may be endless streams: not read. */
export async function probeServer(http: GuardedClient, server: URL): Promise<Probe> {
  http.stage(STAGES.probe)
  const Accept = 'application/json, text/event-stream'
  const headers = { Accept, 'Content-Type': 'application/json' }
  let response = await http.fetch(server, { method: 'POST', headers, body: JSON.stringify(INITIALIZE_REQUEST) })
  await response.body?.cancel()
  const { status } = response
  // The guarded client follows redirects of a GET only, and only within the origin.
  if (status === 404 || status === 405 || (status >= 300 && status < 400)) {
    response = await http.fetch(server, { headers: { Accept } })
    await response.body?.cancel()
  }
  const header = response.headers.get('WWW-Authenticate')
  const challenges = header === null ? [] : await parseChallenges(header)
  const valuesOf = (name: 'resource_metadata' | 'scope') =>
    challenges.flatMap(({ parameters }) => parameters[name] || [])
  return {
    status: response.status,
    resource_metadata: valuesOf('resource_metadata'),
    scopes: valuesOf('scope')[0]?.split(' ').filter(Boolean) ?? [],
    isUnreadable: header !== null && challenges.length === 0,
  }
}

/** The library exports no parser of challenges, so this makes it handle a response that carries them. */
async function parseChallenges(header: string): Promise<WWWAuthenticateChallengeError['cause']> {
  const respond = async () => new Response(null, { status: 401, headers: { 'WWW-Authenticate': header } })
  try {
    await protectedResourceRequest('none', 'GET', new URL('https://resource.invalid'), undefined, null, {
      [customFetch]: respond,
    })
    return []
  } catch (error) {
    if (error instanceof WWWAuthenticateChallengeError) return error.cause
    throw error
  }
}
