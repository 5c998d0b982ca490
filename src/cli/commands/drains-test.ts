// `slipway drains test`: sends a test line to the receiver of a drain.
import type { Declaration } from '../declaration.ts'
import { findDrain } from '../drains.ts'
import { CommandFailure, EXIT } from '../failure.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = { arguments: '<drain>', summary: 'send it a test line' }

export async function run(session: Session, _: object, [wanted]: [string]): Promise<void> {
  const { client, out, signal } = session
  const { id, name } = await findDrain(session, wanted)
  const params = { drain_id: id }
  const {
    delivered,
    error,
    answer_status: status,
    duration_ms,
  } = await client.call('POST /v2/drains/{drain_id}/test', {
    params,
    signal,
  })
  const said = status === null ? `gave no answer (${error})` : `answered ${status}`
  out.emit({ type: 'result', outcome: delivered ? 'delivered' : 'refused', id, name, error, status, duration_ms }, () =>
    out.paint(delivered ? 'green' : 'red', `${delivered ? '✓' : '✗'} ${name} ${said} after ${duration_ms} ms`),
  )
  if (delivered) return
  const message = `The test line was not accepted: the receiver of ${name} ${said}.`
  throw new CommandFailure(EXIT.failed, error ?? 'refused', message, `slipway drains test ${id}`)
}
