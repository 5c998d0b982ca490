// `slipway run`: runs a command once in the environment of a deployment, shows its lines, and ends with its exit code.
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { splitProgram } from '../flags.ts'
import { followJob, toCommand } from '../jobs.ts'
import { findDeployment, type Session } from '../session.ts'
import { parseCount } from '../times.ts'

export const declaration: Declaration = {
  arguments: '[deployment] [command...]',
  summary: 'run a command once in the environment of a deployment',
  description:
    'Runs a command once in the environment of what serves, such as `slipway run shop -- npm run migrate`. One word ' +
    'is run by the shell, several are a program and its arguments. Ends with its exit code. Ctrl-C cancels it.',
  options: command =>
    command
      .option('--timeout <seconds>', 'after which it is ended. Default: 3600')
      .option('--process <name>', 'with the environment and resources of this process, such as worker')
      .option('--dry-run', 'show what would run, and run nothing')
      .option('--detach', 'do not wait for its end'),
}

type Flags = { timeout?: string; process?: string; dryRun?: boolean; detach?: boolean }
const MAX_TIMEOUT_SECONDS = 7 * 86_400

export async function run(session: Session, flags: Flags, args: (string | undefined)[]): Promise<void> {
  const { client, out, signal } = session
  // After -- all words are the command, and a linked folder has the name.
  const [[name, ...own], program] = splitProgram(args)
  const words = [...own, ...program].filter(word => word !== undefined)
  if (words.length === 0) throw usageError('Name a command.', 'slipway run --help')
  const timeout = flags.timeout && parseCount(flags.timeout, '--timeout', MAX_TIMEOUT_SECONDS)
  const deployment = await findDeployment(session, name)
  const request = {
    params: { deployment_id: deployment.id },
    body: {
      command: toCommand(words),
      ...(timeout && { timeout_seconds: timeout }),
      ...(flags.process !== undefined && { process: flags.process }),
    },
    signal,
  }
  if (flags.dryRun) {
    const plan = await client.plan('POST /v2/deployments/{deployment_id}/jobs', request)
    const where = plan.process === null ? '' : `, as ${plan.process}`
    const when = plan.waits ? ' It would wait for other jobs.' : ''
    return out.emit({ type: 'plan', ...plan }, () => `It would run in revision ${plan.revision_number}${where}.${when}`)
  }
  const job = await client.call('POST /v2/deployments/{deployment_id}/jobs', request)
  if (flags.detach) {
    out.emit({ ...job }, () => job.id)
    out.note(`Next: slipway jobs ${deployment.name} ${job.id}`)
    return
  }
  await followJob(session, job)
}
