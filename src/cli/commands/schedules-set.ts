// `slipway schedules set`: changes, disables or enables a schedule.
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { addScheduleOptions, readScheduleFlags, type ScheduleFlags } from '../schedule-flags.ts'
import { findSchedule, formatRun } from '../schedules.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <name>',
  summary: 'change, disable or enable one',
  options: command =>
    addScheduleOptions(command)
      .option('--cron <expression>', 'when it runs')
      .option('--command <text>', 'what it runs, by the shell')
      .option('--disable', 'run it no more')
      .option('--enable', 'run it again'),
}

type Flags = ScheduleFlags & { cron?: string; command?: string; disable?: boolean; enable?: boolean }

export async function run(session: Session, flags: Flags, [wanted, name]: [string | undefined, string]): Promise<void> {
  const { client, out, signal } = session
  const { cron, command, disable, enable } = flags
  if (disable && enable) throw usageError('--disable and --enable exclude each other.')
  const body = {
    ...readScheduleFlags(flags),
    ...(cron !== undefined && { cron }),
    ...(command !== undefined && { command }),
    ...((disable || enable) && { enabled: enable === true }),
  }
  if (Object.keys(body).length === 0) throw usageError('There is nothing to change.', 'slipway schedules set --help')
  const deployment = await findDeployment(session, wanted)
  const { id } = await findSchedule(session, deployment, name)
  const changed = await client.call('PATCH /v2/deployments/{deployment_id}/schedules/{schedule_id}', {
    params: { deployment_id: deployment.id, schedule_id: id },
    body,
    signal,
  })
  const next = formatRun(changed.next_runs[0], changed)
  out.emit({ ...changed }, () => (next ? `${name} runs next at ${next}.` : `${name} is disabled.`))
}
