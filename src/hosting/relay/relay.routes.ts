// Routes of terminals and forwarded ports.
import { readOpenRequest } from '../../kernel/http/caller.ts'
import { validateInput } from '../../kernel/http/input.ts'
import { slice } from '../../kernel/http/routes.ts'
import { NewForward, NewTerminal, Tunnel, TunnelLease, TunnelRef, TunnelTicket } from '../../protocol/tunnels.schema.ts'
import { DeploymentRef } from '../deployments/schema.ts'
import { joinAsAgent, joinAsClient, openForward, openTerminal } from './tunnels.ts'

const socketInput = { params: TunnelRef, query: TunnelTicket }
const REFUSALS = [
  'deployment_not_found',
  'deployment_deleting',
  'nothing_serves',
  'agent_absent',
  'tunnel_unsupported',
  'tunnels_full',
  'not_configured',
] as const

export const relayRoutes = slice('Terminals', 'Terminals of deployments, and connections to their ports and stores.')
  .post('/v2/deployments/{deployment_id}/terminals', {
    id: 'createTerminal',
    summary: 'Run a command beside a copy of the deployment, in a terminal or with pipes',
    description: [
      'The command runs in the environment of the serving revision. Open a WebSocket to the `url` within 60 seconds:',
      'PROTOCOL.md describes its frames. It ends with the command, and with the key or session that asked for it.',
    ].join(' '),
    params: DeploymentRef,
    body: NewTerminal,
    status: 201,
    reply: Tunnel,
    errors: [...REFUSALS],
    verb: openTerminal,
  })
  .post('/v2/deployments/{deployment_id}/forwards', {
    id: 'createForward',
    summary: 'Connect to a port of a copy, to the database or cache, or download a snapshot',
    description: [
      'Open a WebSocket to the `url` within 60 seconds. It takes up to 32 connections at a time: PROTOCOL.md describes',
      'its frames.',
    ].join(' '),
    params: DeploymentRef,
    body: NewForward,
    status: 201,
    reply: Tunnel,
    errors: [...REFUSALS, 'snapshot_not_found'],
    verb: openForward,
  })
  .get('/v2/tunnels/{tunnel_id}', {
    id: 'joinTunnel',
    summary: 'Open the WebSocket of a terminal or a forwarded port',
    description: 'The URL is a `url` of an answer. Its ticket replaces a key and works once.',
    ...socketInput,
    isSocket: true,
    errors: [
      ...(['upgrade_required', 'ticket_invalid', 'ticket_expired', 'tunnel_not_found', 'not_configured'] as const),
      ...(['key_revoked', 'key_expired', 'permission_missing', 'denied_by_policy', 'database_unavailable'] as const),
    ],
    open: async (c, services, operation) => {
      const input = validateInput(c.req, socketInput, '', []) as Parameters<typeof joinAsClient>[2]
      await joinAsClient(services, c.req.raw, input, readOpenRequest(c, operation, services))
      return c.body(null, 204)
    },
  })
  .get('/v1/sync/tunnels/{tunnel_id}', {
    id: 'joinTunnelAsAgent',
    summary: 'Open the WebSocket of a terminal or a forwarded port that a poll named',
    description: 'PROTOCOL.md describes its frames. Requires the lease of the listener.',
    params: TunnelRef,
    query: TunnelLease,
    isSocket: true,
    errors: ['listener_not_found', 'fence_stale', 'tunnel_not_found', 'upgrade_required', 'relay_unreachable'],
    verb: joinAsAgent,
  })
