// Follows jobs until they end, and shows them.
import type { Reply } from '../client/client.ts'
import { CommandFailure, EXIT } from './failure.ts'
import { formatLogMessage } from './log-lines.ts'
import type { Session } from './session.ts'

export type Job = Reply<'GET /v2/deployments/{deployment_id}/jobs/{job_id}'>

const OPEN = ['QUEUED', 'RUNNING']
const CANCEL_MS = 5000

/** One word is run by the shell, several are a program and its arguments. */
export const toCommand = (words: string[]): string | string[] => (words.length === 1 ? words[0]! : words)

export const describeCommand = ({ command }: Pick<Job, 'command'>): string =>
  typeof command === 'string' ? command : command.join(' ')

/** Shows the lines of a job until its end, which decides the exit code. */
export async function followJob(session: Session, { id, deployment_id }: Job): Promise<void> {
  const { client, out, signal } = session
  const params = { deployment_id, job_id: id }
  try {
    const stream = client.stream('GET /v2/deployments/{deployment_id}/jobs/{job_id}/logs/stream', { params, signal })
    for await (const { event, data } of stream) {
      if (event === 'message') out.emit({ type: 'log', ...data }, () => formatLogMessage(out, data))
      else if (event === 'job') {
        const job = data as Job
        out.progress(job.status === 'QUEUED' ? 'Waiting for its start …' : '')
        if (!OPEN.includes(job.status)) return conclude(session, job)
      } else out.note('Some lines are no longer kept.')
    }
  } catch (error) {
    if (!signal.aborted) throw error
    await cancelJob(session, params)
    throw error
  }
}

/** The person has pressed Ctrl-C, so the signal of the command is aborted. */
async function cancelJob({ client, out }: Session, params: { deployment_id: string; job_id: string }): Promise<void> {
  const path = 'POST /v2/deployments/{deployment_id}/jobs/{job_id}/cancel'
  await client.call(path, { params, signal: AbortSignal.timeout(CANCEL_MS) }).then(
    () => out.note('The job is cancelled.'),
    ({ message }: Error) => out.note(`The job could not be cancelled, and goes on: ${message}`),
  )
}

function conclude({ out }: Session, job: Job): void {
  out.progress('')
  out.emit({ type: 'job', ...job })
  if (job.status === 'SUCCEEDED') return
  // A program that calls this one gets what the command said.
  if (job.exit_code) {
    out.note(job.reason ?? `The command ended with code ${job.exit_code}.`)
    process.exitCode = job.exit_code
    return
  }
  const code = job.status === 'TIMED_OUT' ? EXIT.timedOut : EXIT.failed
  throw new CommandFailure(code, `job_${job.status.toLowerCase()}`, job.reason ?? `The job is ${job.status}.`)
}
