// The route of MCP clients. Its first request imports the server.
import * as z from 'zod'
import { loadOnce } from '../../kernel/http/load-once.ts'
import { slice } from '../../kernel/http/routes.ts'
import type { Operations } from './tool.ts'

const Message = z
  .looseObject({ jsonrpc: z.literal('2.0') })
  .meta({ id: 'JsonRpcMessage', example: { jsonrpc: '2.0', id: 1, method: 'tools/list' } })

export function mcpRoutes(operations: Operations) {
  const loadEndpoint = loadOnce(async () => (await import('./endpoint.ts')).createEndpoint(operations))
  return slice('MCP', 'Tools for assistants, by the Model Context Protocol.').post('/mcp', {
    id: 'callMcp',
    summary: 'Send a message of the Model Context Protocol',
    description: [
      'Streamable HTTP without sessions, for the protocol of 2026-07-28 and those of 2025.',
      'Each tool is one or several operations of this API, with the permissions of the key.',
    ].join(' '),
    body: Message,
    reply: Message,
    protocolStatuses: {
      202: 'A notification, which has no answer.',
      400: 'The message is not one of the protocol, or the credential is malformed.',
      406: '`Accept` must name `application/json` and `text/event-stream`.',
    },
    keyOnly: true,
    isReadOnly: true,
    errors: [
      'key_missing',
      'key_malformed',
      'key_unknown',
      'key_expired',
      'key_revoked',
      'cross_site_request',
      'not_json',
      'body_too_large',
      'body_cut',
      'body_too_slow',
      'bodies_busy',
      'invalid_request',
      'rate_limited',
      'address_rate_limited',
      'database_unavailable',
    ],
    open: async (c, services) => (await loadEndpoint())(c, services),
  })
}
