// `slipway alerts set`: turns a rule on or off, or all built-in ones.
import { findAlertRule } from '../alerts.ts'
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '<rule> <state>',
  summary: 'turn one on or off, or all built-in ones: built-in off',
}

const BUILT_IN = 'built-in'

export async function run(session: Session, _: object, [wanted, state]: [string, string]): Promise<void> {
  const { client, out, signal } = session
  if (state !== 'on' && state !== 'off') throw usageError(`${state} is neither on nor off.`)
  const enabled = state === 'on'
  if (wanted === BUILT_IN) {
    const settings = await client.call('PATCH /v2/alert-settings', { body: { defaults_enabled: enabled }, signal })
    out.emit({ ...settings }, () => `The built-in rules are ${state}.`)
    return
  }
  const { id } = await findAlertRule(session, wanted)
  const params = { alert_rule_id: id }
  const changed = await client.call('PATCH /v2/alert-rules/{alert_rule_id}', { params, body: { enabled }, signal })
  out.emit({ ...changed }, () => `The alert rule ${changed.name} is ${state}.`)
}
