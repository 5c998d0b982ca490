// `slipway alerts list`: the alert rules of the workspace, and whether anybody is told.
import { type AlertRule, describeCondition, noteIfNobodyIsTold, readAlertRules } from '../alerts.ts'
import type { Declaration } from '../declaration.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = { summary: 'list the rules' }

export async function run(session: Session): Promise<void> {
  const { out } = session
  const rules: AlertRule[] = []
  for await (const rule of readAlertRules(session)) rules.push(rule)
  const columns = {
    name: (one: AlertRule) => one.name,
    state: (one: AlertRule) => (one.is_active ? 'on' : 'off'),
    severity: (one: AlertRule) => one.severity,
    condition: describeCondition,
    built_in: (one: AlertRule) => one.built_in ?? undefined,
    id: (one: AlertRule) => one.id,
  }
  out.table(rules, columns, 'No alert rules.')
  await noteIfNobodyIsTold(session)
}
