// `slipway channels test`: sends a test notice to a channel.
import { findChannel } from '../channels.ts'
import type { Declaration } from '../declaration.ts'
import { CommandFailure, EXIT } from '../failure.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = { arguments: '<channel>', summary: 'send it a test notice' }

export async function run(session: Session, _: object, [wanted]: [string]): Promise<void> {
  const { client, out, signal } = session
  const { id, name } = await findChannel(session, wanted)
  const result = await client.call('POST /v2/channels/{channel_id}/test', { params: { channel_id: id }, signal })
  const { delivered, error, answer_status: status, duration_ms } = result
  const said = status === null ? `gave no answer (${error})` : `answered ${status}`
  out.emit({ type: 'result', outcome: delivered ? 'delivered' : 'refused', id, name, error, status, duration_ms }, () =>
    out.paint(delivered ? 'green' : 'red', `${delivered ? '✓' : '✗'} ${name} ${said} after ${duration_ms} ms`),
  )
  if (delivered) return
  const message = `The test notice was not accepted: ${name} ${said}.`
  throw new CommandFailure(EXIT.failed, error ?? 'refused', message, `slipway channels test ${id}`)
}
