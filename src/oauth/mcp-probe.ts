// What an MCP server says when it is asked without a token: its status, and every challenge.
import { customFetch, protectedResourceRequest, WWWAuthenticateChallengeError } from 'oauth4webapi'
import type { GuardedClient } from '../kernel/guarded-fetch.ts'
import { STAGES } from './stage-failure.ts'

export type Probe = {
  status: number
  /** Where the challenges say that the resource's metadata stands, as they wrote it. */
  resource_metadata: string[]
  /** The scopes of the first challenge that names some. */
  scopes: string[]
  /** There was a challenge, and it could not be made sense of. */
  unreadable: boolean
}

const INITIALIZE_REQUEST = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'slipway', version: '1.0.0' } },
}

/** By POST, as a client begins; by GET where that leads nowhere. The bodies are left unread: they may be streams without end. */
export async function probeServer(outside: GuardedClient, server: URL): Promise<Probe> {
  outside.stage(STAGES.probe)
  const Accept = 'application/json, text/event-stream'
  const headers = { Accept, 'Content-Type': 'application/json' }
  let answer = await outside.fetch(server, { method: 'POST', headers, body: JSON.stringify(INITIALIZE_REQUEST) })
  await answer.body?.cancel()
  const { status } = answer
  // A POST is not sent on to another address; a GET is, within the origin.
  if (status === 404 || status === 405 || (status >= 300 && status < 400)) {
    answer = await outside.fetch(server, { headers: { Accept } })
    await answer.body?.cancel()
  }
  const header = answer.headers.get('WWW-Authenticate')
  const challenges = header === null ? [] : await parseChallenges(header)
  const named = (name: 'resource_metadata' | 'scope') => challenges.flatMap(({ parameters }) => parameters[name] || [])
  return {
    status: answer.status,
    resource_metadata: named('resource_metadata'),
    scopes: named('scope')[0]?.split(' ').filter(Boolean) ?? [],
    unreadable: header !== null && challenges.length === 0,
  }
}

/** The library parses challenges only where it meets them, so it is made to meet these. */
async function parseChallenges(header: string): Promise<WWWAuthenticateChallengeError['cause']> {
  const answer = async () => new Response(null, { status: 401, headers: { 'WWW-Authenticate': header } })
  try {
    await protectedResourceRequest('none', 'GET', new URL('https://resource.invalid'), undefined, null, {
      [customFetch]: answer,
    })
    return []
  } catch (error) {
    if (error instanceof WWWAuthenticateChallengeError) return error.cause
    throw error
  }
}
