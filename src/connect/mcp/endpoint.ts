// Serves POST /mcp: who calls, the message, the protocol, and a refused key as the status of the whole answer.
import {
  createMcpHandler,
  isLegacyRequest,
  type Server,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import { readCredential, withStop } from '../../kernel/http/caller.ts'
import { type Failure, fail, toFailure } from '../../kernel/http/errors.ts'
import { jsonResponse } from '../../kernel/http/json-response.ts'
import { logFailureCause } from '../../kernel/http/middleware.ts'
import { readOpenBody } from '../../kernel/http/open-body.ts'
import { requestOrigin } from '../../kernel/http/origin.ts'
import type { Operation, ReplyingOperation, Services } from '../../kernel/http/routes.ts'
import { findJsonFault } from '../../kernel/json/json-check.ts'
import { ApiFailure, createApiCalls, type Visitor } from './api-calls.ts'
import { maskCredentials } from './masked-credentials.ts'
import { createServer, type Session } from './server.ts'
import type { Operations } from './tool.ts'

type Message = { method?: unknown; id?: unknown }

/** Their handlers ask the API, which knows the key. For every other request `GET /v2/me` does. */
const CHECKED_BY_THEIR_HANDLER = ['tools/call', 'resources/read', 'completion/complete']
/** The limit of the protocol of 2025-03-26. */
const MAX_BATCH = 20
/** Bodies of the API nest less, and are an argument here. The schemas of the SDK recurse. */
const MAX_DEPTH = 80

export function createEndpoint(operations: Operations) {
  return async (c: Visitor, services: Services): Promise<Response> => {
    const { config, platform } = services
    const origin = requestOrigin(config, c.req.url)
    requireOwnOrigin(c, services, origin)
    const send = createApiCalls(c, services)
    let refusal: ApiFailure | undefined
    let hash: string
    try {
      hash = (await readCredential(c, services, KEY_ONLY)).hash
    } catch (error) {
      c.get('limits').failedWithoutKey(c)
      throw challenge(error, origin)
    }
    const api: Session['api'] = async (route, request) => {
      try {
        const body = await send(route, request)
        const operation = await operations.load(route)
        const { reply }: Partial<ReplyingOperation> = operation ?? {}
        const variant = operation?.kind === 'json' ? operation.variant : undefined
        return [reply, variant?.reply].reduce(
          (shown, schema) => (schema ? maskCredentials(schema, shown) : shown),
          body,
        )
      } catch (error) {
        if (error instanceof ApiFailure && error.problem.status === 401) refusal = error
        throw error
      }
    }
    const logFailure = (error: unknown) => logFailureCause(toFailure(error), c.get('requestId'), platform)
    const workspace = c.req.header('X-Tenant-Id')
    const session: Session = { api, operations, origin, workspace, me: undefined, logFailure }
    const readCaller = async () => {
      session.me ??= await api('GET /v2/me')
    }

    let message: unknown
    try {
      const text = await readOpenBody(c, services, { hash, beforeLarge: readCaller })
      const fault = findJsonFault(text, MAX_DEPTH)
      if (fault) return protocolError(fault.type === 'too_deep' ? -32600 : -32700, `The body ${fault.msg}`)
      message = JSON.parse(text)
      const messages = [message].flat() as (Message | null)[]
      if (messages.length > MAX_BATCH) return protocolError(-32600, `A batch can have at most ${MAX_BATCH} messages`)
      if (messages.some(needsCaller)) await readCaller()
    } catch (error) {
      if (error instanceof ApiFailure) return relay(c, error, origin)
      throw error
    }
    const { method, headers, signal } = c.req.raw
    const request = new Request(c.req.url, { method, headers, signal: withStop(platform, signal) })
    const response = await serveMessage(request, message, session)
    return refusal ? relay(c, refusal, origin) : response
  }
}

/** A session counts as no credential, as for routes that pass requests on. */
const KEY_ONLY = { kind: 'passThrough' } as Operation

/**
 * Browsers send it. The protocol demands that a foreign one is refused. One that is the host of the request, and not
 * our address, is the page of a name that was made to lead to this machine (DNS rebinding): no setting allows that.
 */
function requireOwnOrigin(c: Visitor, { config: { corsOrigins } }: Services, own: string): void {
  const origin = c.req.header('Origin')
  if (origin === undefined || origin === own) return
  const isRebound = URL.canParse(origin) && new URL(origin).host === new URL(c.req.url).host
  if (!isRebound && (corsOrigins.includes('*') || corsOrigins.includes(origin))) return
  throw fail('cross_site_request', {
    detail: 'This origin may not call `/mcp`. The operator allows it in CORS_ORIGINS.',
  })
}

const metadataUrl = (origin: string) => `${origin}/.well-known/oauth-protected-resource/mcp`

/** Tells clients where people sign in (RFC 9728). A token that was sent is named invalid (RFC 6750). */
function challenge(error: unknown, origin: string): unknown {
  const { code, extra } = error as Failure
  if (code !== 'key_missing' && code !== 'key_malformed' && code !== 'key_unknown') return error
  return fail(code, { ...extra, headers: { ...extra.headers, 'WWW-Authenticate': formatChallenge(code, origin) } })
}

const formatChallenge = (code: string, origin: string): string =>
  `Bearer ${code === 'key_missing' ? '' : 'error="invalid_token", '}resource_metadata="${metadataUrl(origin)}"`

/** The answer of the API is that of the whole request. */
function relay(c: Visitor, { problem, response }: ApiFailure, origin: string): Response {
  c.get('requestInfo').code = problem.code as never
  const relayed = new Response(response.body, response)
  if (problem.status === 401) relayed.headers.set('WWW-Authenticate', formatChallenge(problem.code, origin))
  return relayed
}

const protocolError = (code: number, message: string): Response =>
  jsonResponse(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code, message } }), 400)

/** Notifications and answers change nothing and get no answer, so they need no trip. */
const needsCaller = (message: Message | null): boolean =>
  typeof message?.method === 'string' && message.id !== undefined && !CHECKED_BY_THEIR_HANDLER.includes(message.method)

/** Answers with JSON in both eras: a tool takes seconds at most, and a refused key has to decide the status. */
async function serveMessage(request: Request, parsedBody: unknown, session: Session): Promise<Response> {
  const onerror = () => {}
  if (!(await isLegacyRequest(request, parsedBody))) {
    // No capability has anything to subscribe to, so a subscription is acknowledged and ends at once.
    const options = { legacy: 'reject', keepAliveMs: 0, onerror } as const
    return createMcpHandler(() => createServer(session), options).fetch(request, { parsedBody })
  }
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true, keepAliveMs: 0 })
  const server: Server = createServer(session)
  await server.connect(transport)
  try {
    return await transport.handleRequest(request, { parsedBody })
  } finally {
    await server.close()
  }
}
