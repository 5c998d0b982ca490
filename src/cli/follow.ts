// Follows a revision until it serves or has ended. Its state decides the result; its log lines are an extra.
import { pause } from '../client/retry.ts'
import { CommandFailure, EXIT } from './failure.ts'
import { formatLogMessage } from './log-lines.ts'
import type { Deployment, Revision, Session } from './session.ts'

type FollowOptions = { timeoutMs: number }

const FAILED = ['CREATE_FAILED', 'BUILD_FAILED', 'DEPLOY_FAILED', 'SKIPPED', 'INTERRUPTED', 'UNKNOWN']
const LOOK_SECONDS = 2
/** Longer than a cut stream takes to come back. */
const LAST_LINES_MS = 5000

export const parseTimeout = (seconds: string): number => {
  if (/^[1-9]\d{0,5}$/.test(seconds)) return Number(seconds) * 1000
  throw new CommandFailure(EXIT.usage, 'usage', `--timeout ${seconds} is not a number of seconds.`)
}

export async function followRevision(
  session: Session,
  deployment: Deployment,
  revision_id: string,
  { timeoutMs }: FollowOptions,
): Promise<Deployment> {
  const { client, out, signal } = session
  const params = { deployment_id: deployment.id, revision_id }
  const deadline = Date.now() + timeoutMs
  const stopLogs = new AbortController()
  const logs = followLogs(session, params, AbortSignal.any([signal, stopLogs.signal]))
  let shown = ''
  try {
    for (;;) {
      const timeout = Math.max(0, Math.min(LOOK_SECONDS, Math.ceil((deadline - Date.now()) / 1000)))
      const revision = await client.call('GET /v2/deployments/{deployment_id}/revisions/{revision_id}/wait', {
        params,
        query: { until: 'active', timeout },
        signal,
      })
      const { number, status, status_message } = revision
      if (status !== shown) {
        out.emit({ type: 'revision', number, revision_id, status, status_message }, () => describe(session, revision))
        shown = status
      }
      if (status === 'DEPLOYED') return await readDeployment(session, deployment.id)
      if (FAILED.includes(status)) throw ended(deployment, revision)
      if (Date.now() >= deadline) throw timedOut(deployment, revision, timeoutMs)
    }
  } finally {
    // The last lines of a build may arrive with the report that ends it.
    await Promise.race([logs.caughtUp(), pause(LAST_LINES_MS, stopLogs.signal)]).catch(() => {})
    stopLogs.abort()
    await logs.ended
  }
}

const describe = ({ out }: Session, { number, status }: Revision) =>
  `${out.paint('dim', `revision ${number}`)} ${out.paint(FAILED.includes(status) ? 'red' : 'cyan', status)}`

const readDeployment = ({ client, signal }: Session, deployment_id: string) =>
  client.call('GET /v2/deployments/{deployment_id}', { params: { deployment_id }, signal })

function ended({ name }: Deployment, { number, status, status_message }: Revision): CommandFailure {
  const why = status_message ? ` ${status_message}` : ''
  const message = `Revision ${number} of ${name} ended as ${status}.${why}`
  return new CommandFailure(EXIT.failed, status.toLowerCase(), message, `slipway explain ${name}`)
}

const timedOut = ({ name }: Deployment, { number, status }: Revision, timeoutMs: number) =>
  new CommandFailure(
    EXIT.timedOut,
    'timed_out',
    `Revision ${number} of ${name} is still ${status} after ${timeoutMs / 1000} s. It goes on.`,
    `slipway status ${name}`,
  )

function followLogs(
  { client, out }: Session,
  { deployment_id, revision_id }: { deployment_id: string; revision_id: string },
  signal: AbortSignal,
) {
  const params = { deployment_id }
  let arrival = 0
  async function follow(): Promise<void> {
    const query = { revision_id, after: 0 }
    for await (const { event, data } of client.stream('GET /v2/deployments/{deployment_id}/logs/stream', {
      params,
      query,
      signal,
    })) {
      if (event !== 'message') continue
      arrival = data.arrival
      const { timestamp, level, message, kind } = data
      out.emit({ type: 'log', timestamp, level, kind, message }, () => `  ${formatLogMessage(out, data)}`)
    }
  }
  const ended = follow().catch(error => {
    if (!signal.aborted) out.note(`The log cannot be followed: ${(error as Error).message} The deployment goes on.`)
  })
  return {
    ended,
    async caughtUp(): Promise<void> {
      const last = await client.call('GET /v2/deployments/{deployment_id}/logs', {
        params,
        query: { revision_id, tail: 1 },
        signal,
      })
      const newest = last.logs.at(-1)?.arrival ?? 0
      while (arrival < newest) await pause(20, signal)
    },
  }
}
