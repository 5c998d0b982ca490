// Registered data planes, and the keys of their agents.
import type { Command } from 'commander'
import type { Item } from '../client/client.ts'
import { findOne } from './find.ts'
import type { Session } from './session.ts'
import { parseDuration } from './times.ts'

export type Listener = Item<'GET /v2/listeners'>
export type KeyFlags = { description?: string; expiresIn?: string }

export const withKeyOptions = (command: Command): Command =>
  command
    .option('--description <text>', 'what the key is for')
    .option('--expires-in <time>', 'how long the key is valid, such as 30d. Default: forever')

export const readListeners = ({ client, signal }: Session) =>
  client.list('GET /v2/listeners', { query: { limit: 100 }, signal })

export const findListener = (session: Session, wanted: string): Promise<Listener> => {
  const names = (one: Listener) => [one.compute_id]
  const about = { kind: 'listener', code: 'listener_not_found', names, list: 'slipway listeners list' }
  return findOne(readListeners(session), wanted, about)
}

export const expiryOf = ({ expiresIn }: KeyFlags): string | undefined =>
  expiresIn && new Date(Date.now() + parseDuration(expiresIn, '--expires-in')).toISOString()

/** Shows the key once, and how to start the agent that uses it. */
export async function createKey(
  session: Session,
  listener: Listener,
  { description }: KeyFlags,
  expires_at: string | undefined,
): Promise<void> {
  const { client, out, signal } = session
  const body = { ...(description && { description }), ...(expires_at && { expires_at }) }
  const params = { listener_id: listener.id }
  const { id, key, hint } = await client.call('POST /v2/listeners/{listener_id}/keys', { params, body, signal })
  const command = agentCommand(client.url, listener)
  const result = { type: 'result', outcome: 'created', listener, key_id: id, hint, expires_at, key, command }
  out.emit(result, () =>
    [
      `The key of its agent is shown only now. Set it on the machine of the agent:`,
      '',
      `  export SLIPWAY_LISTENER_KEY=${key}`,
      '',
      'Then start the agent there, in a checkout of Slipway:',
      '',
      `  ${command}`,
    ].join('\n'),
  )
}

function agentCommand(url: string, { compute_type, compute_config }: Listener): string {
  if (compute_type === 'local') return `SLIPWAY_URL=${url} npm run agent`
  const namespaces = compute_config.k8s_namespaces.join(',') || 'NAMESPACE'
  return `SLIPWAY_URL=${url} K8S_NAMESPACES=${namespaces} npm run agent -- --engine kubernetes`
}
