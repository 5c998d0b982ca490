// The webhooks of the workspace, and one of them by its id or URL.
import type { Item } from '../client/client.ts'
import { findOne } from './find.ts'
import type { Session } from './session.ts'

export type Webhook = Item<'GET /v2/webhooks'>

export const readWebhooks = ({ client, signal }: Session) =>
  client.list('GET /v2/webhooks', { query: { limit: 100 }, signal })

export const findWebhook = (session: Session, wanted: string): Promise<Webhook> => {
  const names = (one: Webhook) => [one.url]
  const about = { kind: 'webhook', code: 'webhook_not_found', names, list: 'slipway webhooks list' }
  return findOne(readWebhooks(session), wanted, about)
}
