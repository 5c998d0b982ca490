// `slipway listeners create`: registers a data plane, and shows the key of its agent.
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { collect } from '../flags.ts'
import { createKey, expiryOf, type KeyFlags, withKeyOptions } from '../listeners.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '<name>',
  summary: 'register one, and show the key of its agent',
  options: command =>
    withKeyOptions(
      command
        .option('--type <type>', 'local or k8s', 'local')
        .option('--namespace <name>', 'a namespace that deployments can use. Can be repeated', collect),
    ),
}

type Flags = KeyFlags & { type: string; namespace?: string[] }

const TYPES = ['local', 'k8s'] as const

export async function run(session: Session, options: Flags, [compute_id]: [string]): Promise<void> {
  const { client, out, signal } = session
  const compute_type = TYPES.find(type => type === options.type)
  if (!compute_type) throw usageError(`--type ${options.type} is not one of ${TYPES.join(', ')}.`)
  // Fails before the listener is registered.
  const expiresAt = expiryOf(options)
  const compute_config = { k8s_namespaces: options.namespace ?? [] }
  const body = { compute_type, compute_id, compute_config }
  const listener = await client.call('POST /v2/listeners', { body, signal })
  out.note(`Registered the listener ${compute_id}.`)
  await createKey(session, listener, options, expiresAt)
}
