// Error codes of terminals and forwarded ports.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const relayCodes = {
  tunnel_unsupported: {
    status: 409,
    title: 'Not offered by the agent',
    problem: 'The agent of this deployment does not offer this.',
    remedy: 'Update the agent, or use a listener whose engine has it. docs/deploy/shell.md has a table of engines.',
  },
  agent_absent: {
    status: 409,
    title: 'No agent',
    problem: 'The listener of this deployment has no agent at the moment.',
    remedy: 'Start its agent, then retry.',
  },
  nothing_serves: {
    status: 409,
    title: 'No revision serves',
    problem: 'No revision of this deployment serves, so there is no copy to connect to.',
    remedy: 'Wait until a revision is deployed. Its logs say why it is not.',
  },
  tunnels_full: {
    status: 409,
    title: 'Too many terminals',
    problem: 'The workspace or its listener has too many open terminals and forwarded ports.',
    remedy: 'Close some of them.',
  },
  ticket_invalid: {
    status: 401,
    title: 'Invalid ticket',
    problem: 'This is not the ticket of this terminal or forwarded port.',
    remedy: 'Use the whole `url` of the answer that named it.',
  },
  ticket_expired: {
    status: 401,
    title: 'Ticket expired',
    problem: 'A ticket is valid for 60 seconds, once.',
    remedy: 'Ask for another terminal or port.',
  },
  tunnel_not_found: {
    status: 404,
    title: 'Terminal not found',
    problem: 'There is no such terminal or forwarded port, or it has ended.',
    remedy: 'Ask for another one.',
  },
  upgrade_required: {
    status: 426,
    title: 'WebSocket required',
    problem: 'This path takes WebSocket connections only.',
    remedy: 'Connect with a WebSocket client.',
  },
  relay_unreachable: {
    status: 409,
    title: 'Instance without an address',
    problem: 'Another instance of the control plane holds the other end, and has no address for this one.',
    remedy: 'Set RELAY_URL of each instance to its own address, or run one instance.',
  },
} as const satisfies ErrorCodes
