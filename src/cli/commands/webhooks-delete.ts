// `slipway webhooks delete`: deletes a webhook with the record of its deliveries.
import type { Declaration } from '../declaration.ts'
import { confirm, type Session } from '../session.ts'
import { findWebhook } from '../webhooks.ts'

export const declaration: Declaration = { arguments: '<webhook>', summary: 'delete one, by id or URL' }

export async function run(session: Session, _: object, [wanted]: [string]): Promise<void> {
  const { client, out, signal } = session
  const { id, url } = await findWebhook(session, wanted)
  const next = `slipway webhooks delete ${id} --yes`
  await confirm(session, `Delete the webhook to ${url} and the record of its deliveries?`, next)
  await client.call('DELETE /v2/webhooks/{webhook_id}', { params: { webhook_id: id }, signal })
  out.emit({ type: 'result', outcome: 'deleted', id, url }, () => `Deleted the webhook to ${url}.`)
}
