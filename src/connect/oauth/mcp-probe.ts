// Calls an MCP server without a token, and reads the status and the challenges of its response.
import type { GuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { STAGES } from './stage-failure.ts'

export type Probe = {
  status: number
  /** The metadata URLs of the challenges, not validated. */
  resource_metadata: string[]
  /** The scopes of the first challenge that has any. */
  scopes: string[]
  isMalformed: boolean
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
  const { parameters, isMalformed } = parseChallenges(response.headers.get('WWW-Authenticate') ?? '')
  const valuesOf = (wanted: string) => parameters.flatMap(([name, value]) => (name === wanted ? value : []))
  return {
    status: response.status,
    resource_metadata: valuesOf('resource_metadata'),
    scopes: valuesOf('scope')[0]?.split(' ').filter(Boolean) ?? [],
    isMalformed,
  }
}

/** A parameter, or else a scheme or a token68. Each match begins where the last one ended. */
const CHALLENGE_PART = /[\s,]*(?:([^\s,="]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"(?=[\s,]|$)|([^\s,="][^\s,"]*))|[^\s,"]+)/gy

/**
 * Reads the parameters of all challenges of any scheme (RFC 9728 allows `resource_metadata` with any). Many servers do
 * not quote URLs. A stray quote ends the parsing: after it, the text of a quoted value could pass for a parameter.
 */
export function parseChallenges(header: string) {
  const parameters: [name: string, value: string][] = []
  let end = 0
  for (const [part, name, quoted, unquoted] of header.matchAll(CHALLENGE_PART)) {
    end += part.length
    const value = quoted?.replace(/\\(.)/g, '$1') ?? unquoted
    if (name && value) parameters.push([name.toLowerCase(), value])
  }
  return { parameters, isMalformed: header.includes('"', end) }
}
