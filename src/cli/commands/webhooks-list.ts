// `slipway webhooks list`: the webhooks of the workspace, and their health.
import type { Declaration } from '../declaration.ts'
import type { Session } from '../session.ts'
import { readWebhooks, type Webhook } from '../webhooks.ts'

export const declaration: Declaration = { summary: 'list them' }

export async function run(session: Session): Promise<void> {
  const webhooks: Webhook[] = []
  for await (const webhook of readWebhooks(session)) webhooks.push(webhook)
  const columns = {
    url: (one: Webhook) => one.url,
    events: (one: Webhook) => one.event_types.join(', '),
    health: ({ enabled, health }: Webhook) => (enabled || health.status === 'disabled' ? health.status : 'paused'),
    description: (one: Webhook) => one.description || undefined,
    id: (one: Webhook) => one.id,
  }
  session.out.table(webhooks, columns, 'No webhooks. Create one with: slipway webhooks create URL')
}
