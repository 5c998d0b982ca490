// `slipway alerts mute`: records incidents for a time, without telling anybody.
import { findAlertRule } from '../alerts.ts'
import type { Declaration } from '../declaration.ts'
import { findDeployment, type Session } from '../session.ts'
import { parseDuration } from '../times.ts'

export const declaration: Declaration = {
  arguments: '<reason>',
  summary: 'tell nobody for a time',
  options: command =>
    command
      .option('--for <duration>', 'how long, by default 1h')
      .option('--rule <rule>', 'only this rule')
      .option('--app <deployment>', 'only this deployment'),
}

type Flags = { for?: string; rule?: string; app?: string }

export async function run(session: Session, flags: Flags, [reason]: [string]): Promise<void> {
  const { client, out, signal } = session
  const rule = flags.rule === undefined ? undefined : await findAlertRule(session, flags.rule)
  const deployment = flags.app === undefined ? undefined : await findDeployment(session, flags.app)
  const ends_at = new Date(Date.now() + parseDuration(flags.for ?? '1h', '--for')).toISOString()
  const body = {
    reason,
    ends_at,
    ...(rule && { rule_ids: [rule.id] }),
    ...(deployment && { deployment_ids: [deployment.id] }),
  }
  const mute = await client.call('POST /v2/alert-mutes', { body, signal })
  out.emit({ ...mute }, () => `Muted until ${ends_at}. End it with: slipway alerts unmute ${mute.id}`)
}
