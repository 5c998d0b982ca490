// Alert rules, incidents and mutes of the workspace, and one of them by its id or name.
import type { Item } from '../client/client.ts'
import { findOne } from './find.ts'
import type { Session } from './session.ts'

export type AlertRule = Item<'GET /v2/alert-rules'>
export type Incident = Item<'GET /v2/incidents'>

export const readAlertRules = ({ client, signal }: Session) =>
  client.list('GET /v2/alert-rules', { query: { limit: 100 }, signal })

export const findAlertRule = (session: Session, wanted: string): Promise<AlertRule> => {
  const names = ({ name, built_in }: AlertRule) => [name, built_in]
  const about = { kind: 'alert rule', code: 'alert_rule_not_found', names, list: 'slipway alerts list' }
  return findOne(readAlertRules(session), wanted, about)
}

export const SENT_TO_NOBODY = 'Incidents are sent to nobody: there is no default channel.'
export const CREATE_CHANNEL = 'slipway channels create --own --default'

/** True where incidents reach a person, and where the caller may not know. */
export const isAnybodyTold = ({ client, signal }: Session): Promise<boolean> =>
  client.call('GET /v2/alert-settings', { signal }).then(
    ({ default_channels }) => default_channels > 0,
    () => true,
  )

export async function noteIfNobodyIsTold(session: Session): Promise<void> {
  if (!(await isAnybodyTold(session))) session.out.note(`${SENT_TO_NOBODY} Create one with: ${CREATE_CHANNEL}`)
}

/** The condition in a few words. */
export function describeCondition({ condition }: AlertRule): string {
  switch (condition.kind) {
    case 'metric':
    case 'trace':
      return `${condition.metric} ${condition.operator} ${condition.threshold}`
    case 'log':
      return `${condition.count} lines with ${JSON.stringify(condition.contains)}`
    case 'event':
      return condition.types.join(', ')
  }
}
