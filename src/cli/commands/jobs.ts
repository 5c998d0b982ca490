// `slipway jobs`: the jobs of a deployment, or what one of them writes.
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { describeCommand, followJob, type Job } from '../jobs.ts'
import { age } from '../output.ts'
import { findSchedule } from '../schedules.ts'
import { findDeployment, parseLimit, type Session, takeItems } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment] [job]',
  summary: 'list jobs, or follow one',
  options: command =>
    command
      .option('--status <statuses>', 'only jobs in these statuses, separated by commas')
      .option('--schedule <name>', 'only runs of this schedule')
      .option('--limit <number>', 'how many', '20')
      .option('--cancel', 'cancel the job'),
}

type Flags = { status?: string; schedule?: string; limit: string; cancel?: boolean }

export async function run(session: Session, flags: Flags, [name, wanted]: [string?, string?]): Promise<void> {
  const { client, out, signal } = session
  if (flags.cancel && !wanted) throw usageError('--cancel needs a job.', `slipway jobs ${name ?? 'NAME'} JOB --cancel`)
  const { limit, page } = parseLimit(flags.limit)
  const deployment = await findDeployment(session, name)
  const params = { deployment_id: deployment.id }
  if (wanted) {
    const ref = { params: { ...params, job_id: wanted }, signal }
    if (!flags.cancel)
      return followJob(session, await client.call('GET /v2/deployments/{deployment_id}/jobs/{job_id}', ref))
    const job = await client.call('POST /v2/deployments/{deployment_id}/jobs/{job_id}/cancel', ref)
    return out.emit({ ...job }, () => (job.status === 'CANCELLED' ? 'Cancelled.' : 'Its agent stops it.'))
  }
  const schedule_id = flags.schedule && (await findSchedule(session, deployment, flags.schedule)).id
  const query = {
    limit: page,
    ...(flags.status && { status: parseStatuses(flags.status) }),
    ...(schedule_id && { schedule_id }),
  }
  const list = client.list('GET /v2/deployments/{deployment_id}/jobs', { params, query, signal })
  const [jobs, hasMore] = await takeItems(list, limit)
  const columns = {
    id: (one: Job) => one.id,
    status: (one: Job) => one.status + (one.exit_code ? ` (${one.exit_code})` : ''),
    created: (one: Job) => age(one.created_at),
    took: describeDuration,
    by: (one: Job) => one.actor.name ?? one.actor.kind,
    command: describeCommand,
  }
  out.table(
    jobs,
    columns,
    `${deployment.name} has no such jobs. Run one with slipway run ${deployment.name} -- COMMAND.`,
  )
  if (hasMore) out.note('There are more. Show them with --limit.')
}

const STATUSES = [
  ...(['QUEUED', 'RUNNING', 'SUCCEEDED', 'FAILED', 'TIMED_OUT', 'CANCELLED'] as const),
  ...(['LOST', 'MISSED', 'SKIPPED'] as const),
] satisfies Job['status'][]

function parseStatuses(text: string): Job['status'][] {
  return text.split(',').map(part => {
    const status = STATUSES.find(one => one === part.trim().toUpperCase())
    if (status) return status
    throw usageError(`--status ${part.trim()} is not one of ${STATUSES.join(', ').toLowerCase()}.`)
  })
}

function describeDuration({ started_at, finished_at }: Job): string | null {
  if (!started_at) return null
  const ms = (finished_at ? Date.parse(finished_at) : Date.now()) - Date.parse(started_at)
  return `${(Math.max(0, ms) / 1000).toFixed(1)} s`
}
