// `slipway webhooks ping`: sends a test event to a webhook.
import type { Declaration } from '../declaration.ts'
import { CommandFailure, EXIT } from '../failure.ts'
import type { Session } from '../session.ts'
import { findWebhook } from '../webhooks.ts'

export const declaration: Declaration = { arguments: '<webhook>', summary: 'send it a test event' }

export async function run(session: Session, _: object, [wanted]: [string]): Promise<void> {
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
