// `slipway schedules add`: runs a command at the times of a cron expression.
import type { Declaration } from '../declaration.ts'
import { toCommand } from '../jobs.ts'
import { addScheduleOptions, readScheduleFlags, type ScheduleFlags } from '../schedule-flags.ts'
import { formatRun } from '../schedules.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <name> <cron> <command...>',
  summary: 'run a command at the times of a cron expression',
  description:
    'Runs a command at the times of a cron expression, such as ' +
    "`slipway schedules add shop nightly '30 3 * * *' -- npm run report`.",
  options: addScheduleOptions,
}

type Arguments = [deployment: string | undefined, name: string, cron: string, ...words: string[]]

export async function run(session: Session, flags: ScheduleFlags, args: Arguments): Promise<void> {
  const { client, out, signal } = session
  const [wanted, name, cron, ...words] = hasDeployment(args) ? args : ([undefined, ...args] as Arguments)
  const members = readScheduleFlags(flags)
  const deployment = await findDeployment(session, wanted)
  const created = await client.call('POST /v2/deployments/{deployment_id}/schedules', {
    params: { deployment_id: deployment.id },
    body: { name, cron, command: toCommand(words), ...members },
    signal,
  })
  out.emit({ ...created }, () => `${name} runs next at ${formatRun(created.next_runs[0], created)}.`)
}

/** Only the expression has spaces: a linked folder has the deployment, and the command any number of words. */
const hasDeployment = ([deployment, name]: Arguments): boolean => deployment === undefined || !/\s/.test(name)
