// `slipway schedules add`: runs a command at the times of a cron expression.
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { toCommand } from '../jobs.ts'
import { addScheduleOptions, readScheduleFlags, type ScheduleFlags } from '../schedule-flags.ts'
import { formatRun } from '../schedules.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <name> <cron> [command...]',
  summary: 'run a command, or take a snapshot, at the times of a cron expression',
  description:
    'Runs a command at the times of a cron expression, such as ' +
    "`slipway schedules add shop nightly '30 3 * * *' -- npm run report`. With --snapshot instead of a command, " +
    'it takes a snapshot.',
  options: command => addScheduleOptions(command).option('--snapshot <store>', 'take one of database or disk:NAME'),
}

type Arguments = [deployment: string | undefined, name: string, cron: string, ...words: string[]]
type Flags = ScheduleFlags & { snapshot?: string }

export async function run(session: Session, { snapshot, ...flags }: Flags, args: Arguments): Promise<void> {
  const { client, out, signal } = session
  const [wanted, name, cron, ...words] = hasDeployment(args) ? args : ([undefined, ...args] as Arguments)
  if ((snapshot === undefined) === (words.length === 0))
    throw usageError('Give a command after --, or a store with --snapshot.', 'slipway schedules add --help')
  const what = snapshot === undefined ? { command: toCommand(words) } : { action: snapshotOf(snapshot) }
  const members = readScheduleFlags(flags)
  const deployment = await findDeployment(session, wanted)
  const created = await client.call('POST /v2/deployments/{deployment_id}/schedules', {
    params: { deployment_id: deployment.id },
    body: { name, cron, ...what, ...members },
    signal,
  })
  out.emit({ ...created }, () => `${name} runs next at ${formatRun(created.next_runs[0], created)}.`)
}

const snapshotOf = (store: string) => ({ type: 'snapshot' as const, store })

/** Only the expression has spaces: a linked folder has the deployment, and the command any number of words. */
const hasDeployment = ([deployment, name]: Arguments): boolean => deployment === undefined || !/\s/.test(name)
