// `slipway alerts delete`: deletes a rule, and resolves its incidents.
import { findAlertRule } from '../alerts.ts'
import type { Declaration } from '../declaration.ts'
import { confirm, type Session } from '../session.ts'

export const declaration: Declaration = { arguments: '<rule>', summary: 'delete one, by id or name' }

export async function run(session: Session, _: object, [wanted]: [string]): Promise<void> {
  const { client, out, signal } = session
  const { id, name } = await findAlertRule(session, wanted)
  await confirm(session, `Delete the alert rule ${name}?`, `slipway alerts delete ${id} --yes`)
  await client.call('DELETE /v2/alert-rules/{alert_rule_id}', { params: { alert_rule_id: id }, signal })
  out.emit({ type: 'result', outcome: 'deleted', id, name }, () => `Deleted the alert rule ${name}.`)
}
