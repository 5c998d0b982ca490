// `slipway webhooks`: the URLs that events of the workspace are sent to.
import type { Item } from '../../client/client.ts'
import { CommandFailure, EXIT } from '../failure.ts'
import { findOne } from '../find.ts'
import { confirm, type Session } from '../session.ts'
import { parseCount } from '../times.ts'

export type CreateOptions = { type?: string; description?: string; after?: string }
type Webhook = Item<'GET /v2/webhooks'>

const readWebhooks = ({ client, signal }: Session) => client.list('GET /v2/webhooks', { query: { limit: 100 }, signal })

export async function listWebhooks(session: Session): Promise<void> {
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

export async function createWebhook(session: Session, url: string, options: CreateOptions): Promise<void> {
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

export async function deleteWebhook(session: Session, wanted: string): Promise<void> {
  const { client, out, signal } = session
  const { id, url } = await findWebhook(session, wanted)
  const next = `slipway webhooks delete ${id} --yes`
  await confirm(session, `Delete the webhook to ${url} and the record of its deliveries?`, next)
  await client.call('DELETE /v2/webhooks/{webhook_id}', { params: { webhook_id: id }, signal })
  out.emit({ type: 'result', outcome: 'deleted', id, url }, () => `Deleted the webhook to ${url}.`)
}

export async function pingWebhook(session: Session, wanted: string): Promise<void> {
  const { client, out, signal } = session
  const { id, url } = await findWebhook(session, wanted)
  const params = { webhook_id: id }
  const { delivered, error, answer, duration_ms } = await client.call('POST /v2/webhooks/{webhook_id}/ping', {
    params,
    signal,
  })
  const status = answer?.status
  const said = status === undefined ? `gave no answer (${error})` : `answered ${status}`
  out.emit({ type: 'result', outcome: delivered ? 'delivered' : 'refused', id, url, error, status, duration_ms }, () =>
    out.paint(delivered ? 'green' : 'red', `${delivered ? '✓' : '✗'} ${url} ${said} after ${duration_ms} ms`),
  )
  if (delivered) return
  const message = `The test event was not accepted: ${url} ${said}.`
  throw new CommandFailure(EXIT.failed, error ?? 'refused', message, `slipway webhooks ping ${id}`)
}

const findWebhook = (session: Session, wanted: string): Promise<Webhook> => {
  const names = (one: Webhook) => [one.url]
  const about = { kind: 'webhook', code: 'webhook_not_found', names, list: 'slipway webhooks list' }
  return findOne(readWebhooks(session), wanted, about)
}
