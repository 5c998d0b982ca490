// `slipway webhooks create`: creates a webhook, and shows its secret once.
import type { Declaration } from '../declaration.ts'
import type { Session } from '../session.ts'
import { parseCount } from '../times.ts'

export const declaration: Declaration = {
  arguments: '<url>',
  summary: 'create one, and show its secret',
  options: command =>
    command
      .option('--type <types>', 'only these types, such as deployment.*, separated by commas')
      .option('--description <text>', 'what it is for')
      .option('--after <number>', 'begin after the event with this number'),
}

type Flags = { type?: string; description?: string; after?: string }

export async function run(session: Session, options: Flags, [url]: [string]): Promise<void> {
  const { client, out, signal } = session
  const { type, description, after } = options
  const body = {
    url,
    ...(type && { event_types: type.split(',') }),
    ...(description && { description }),
    ...(after && { after: parseCount(after, '--after', Number.MAX_SAFE_INTEGER, 0) }),
  }
  const created = await client.call('POST /v2/webhooks', { body, signal })
  out.note(`Created the webhook ${created.id}. Its secret is shown only now:`)
  out.emit({ ...created }, () => created.secret)
}
