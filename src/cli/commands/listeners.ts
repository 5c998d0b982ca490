// `slipway listeners`: registered data planes, and the keys of their agents.
import type { Item } from '../../client/client.ts'
import { usageError } from '../failure.ts'
import { findOne } from '../find.ts'
import { age } from '../output.ts'
import { confirm, type Session } from '../session.ts'
import { parseDuration } from '../times.ts'

export type KeyOptions = { description?: string; expiresIn?: string }
export type CreateOptions = KeyOptions & { type: string; namespace?: string[] }
export type Listener = Item<'GET /v2/listeners'>

const TYPES = ['local', 'k8s'] as const

export const readListeners = ({ client, signal }: Session) =>
  client.list('GET /v2/listeners', { query: { limit: 100 }, signal })

export async function listListeners(session: Session): Promise<void> {
  const listeners: Listener[] = []
  for await (const listener of readListeners(session)) listeners.push(listener)
  const columns = {
    name: (one: Listener) => one.compute_id,
    type: (one: Listener) => one.compute_type,
    version: (one: Listener) => one.version,
    heard: (one: Listener) => (one.last_seen_at ? age(one.last_seen_at) : 'never'),
    serves: (one: Listener) =>
      one.compute_type === 'k8s' ? one.compute_config.k8s_namespaces.join(', ') || 'all namespaces' : 'this machine',
    id: (one: Listener) => one.id,
  }
  const empty = 'No listeners. Deployments run on those of the platform. Register one: slipway listeners create NAME'
  session.out.table(listeners, columns, empty)
}

export async function createListener(session: Session, compute_id: string, options: CreateOptions): Promise<void> {
  const { client, out, signal } = session
  const compute_type = TYPES.find(type => type === options.type)
  if (!compute_type) throw usageError(`--type ${options.type} is not one of ${TYPES.join(', ')}.`)
  // Before the listener is registered.
  const expiresAt = expiryOf(options)
  const compute_config = { k8s_namespaces: options.namespace ?? [] }
  const body = { compute_type, compute_id, compute_config }
  const listener = await client.call('POST /v2/listeners', { body, signal })
  out.note(`Registered the listener ${compute_id}.`)
  await createKey(session, listener, options, expiresAt)
}

export async function createListenerKey(session: Session, wanted: string, options: KeyOptions): Promise<void> {
  const expiresAt = expiryOf(options)
  await createKey(session, await findListener(session, wanted), options, expiresAt)
}

const expiryOf = ({ expiresIn }: KeyOptions): string | undefined =>
  expiresIn && new Date(Date.now() + parseDuration(expiresIn, '--expires-in')).toISOString()

/** Shows the key once, and how to start the agent that uses it. */
async function createKey(
  session: Session,
  listener: Listener,
  { description }: KeyOptions,
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

export async function deleteListener(session: Session, wanted: string): Promise<void> {
  const { client, out, signal } = session
  const { id, compute_id } = await findListener(session, wanted)
  const next = `slipway listeners delete ${compute_id} --yes`
  await confirm(session, `Delete the listener ${compute_id} and the keys of its agents?`, next)
  await client.call('DELETE /v2/listeners/{listener_id}', { params: { listener_id: id }, signal })
  out.emit({ type: 'result', outcome: 'deleted', id, name: compute_id }, () => `Deleted the listener ${compute_id}.`)
}

const findListener = (session: Session, wanted: string): Promise<Listener> => {
  const names = (one: Listener) => [one.compute_id]
  const about = { kind: 'listener', code: 'listener_not_found', names, list: 'slipway listeners list' }
  return findOne(readListeners(session), wanted, about)
}
