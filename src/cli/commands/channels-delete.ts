// `slipway channels delete`: deletes a channel with the record of its notices.
import { findChannel } from '../channels.ts'
import type { Declaration } from '../declaration.ts'
import { confirm, type Session } from '../session.ts'

export const declaration: Declaration = { arguments: '<channel>', summary: 'delete one, by id or name' }

export async function run(session: Session, _: object, [wanted]: [string]): Promise<void> {
  const { client, out, signal } = session
  const { id, name } = await findChannel(session, wanted)
  await confirm(
    session,
    `Delete the channel ${name} and the record of its notices?`,
    `slipway channels delete ${id} --yes`,
  )
  await client.call('DELETE /v2/channels/{channel_id}', { params: { channel_id: id }, signal })
  out.emit({ type: 'result', outcome: 'deleted', id, name }, () => `Deleted the channel ${name}.`)
}
