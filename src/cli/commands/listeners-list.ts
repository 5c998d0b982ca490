// `slipway listeners list`: the registered data planes, and when their agents polled last.
import type { Declaration } from '../declaration.ts'
import { type Listener, readListeners } from '../listeners.ts'
import { age } from '../output.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = { summary: 'list them' }

export async function run(session: Session): Promise<void> {
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
