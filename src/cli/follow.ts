// Follows a revision until it serves or has ended. Its state decides the result; its log lines are an extra.
import { pause } from '../client/retry.ts'
import { CommandFailure, EXIT, usageError } from './failure.ts'
import { formatLogMessage, formatProcess } from './log-lines.ts'
import type { Deployment, Revision, Session } from './session.ts'

type FollowOptions = { timeoutMs: number }
type RevisionParams = { deployment_id: string; revision_id: string }
type LogFollower = ReturnType<typeof followLogs>

const FAILED = ['CREATE_FAILED', 'BUILD_FAILED', 'DEPLOY_FAILED', 'SKIPPED', 'INTERRUPTED', 'UNKNOWN']
const LOOK_SECONDS = 2
/** Longer than the reconnection of a stream. */
const LAST_LINES_MS = 5000
const MAX_LAST_LINES = 12
const SHORTEST_STAGE_S = 0.1
/** Stored lines have ␛ for the control character. */
const STORED_COLOR = /␛\[[\d;]{0,20}m/g

export const parseTimeout = (seconds: string): number => {
  if (/^[1-9]\d{0,5}$/.test(seconds)) return Number(seconds) * 1000
  throw usageError(`--timeout ${seconds} is not a number of seconds.`)
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
  const catchUp = () => Promise.race([logs.caughtUp(), pause(LAST_LINES_MS, stopLogs.signal)]).catch(() => {})
  const waiting = showWaiting(session)
  let shown = ''
  try {
    for (;;) {
      const secondsLeft = Math.max(0, Math.ceil((deadline - Date.now()) / 1000))
      // The first request returns the state at once.
      const timeout = shown === '' ? 0 : Math.min(LOOK_SECONDS, secondsLeft)
      const revision = await client.call('GET /v2/deployments/{deployment_id}/revisions/{revision_id}/wait', {
        params,
        query: { until: 'active', timeout },
        signal,
      })
      const { number, status, status_message } = revision
      const hasEnded = status === 'DEPLOYED' || FAILED.includes(status)
      // The last lines of a build may arrive with the report that ends it.
      if (hasEnded) await catchUp()
      if (status !== shown) {
        const line = { type: 'revision', deployment_id: deployment.id, number, revision_id, status, status_message }
        out.emit(line, () => describe(session, revision))
        shown = status
        waiting.status = status
      }
      if (status === 'DEPLOYED') return await readDeployment(session, deployment.id)
      if (status === 'DEPLOYING' && mayGetShare(deployment)) {
        const now = await readDeployment(session, deployment.id)
        const part = now.traffic.find(one => one.revision_id === revision_id)
        if (part?.applied && part.share < 100) {
          const command = now.rollout_progress ? 'rollout' : 'traffic'
          out.note(`Revision ${number} gets ${part.share} % of the requests. More: slipway ${command} ${now.name}`)
          return now
        }
      }
      if (hasEnded) throw await ended(session, deployment, revision, logs)
      if (Date.now() >= deadline) throw timedOut(deployment, revision, timeoutMs)
    }
  } finally {
    waiting.stop()
    stopLogs.abort()
    await logs.ended
  }
}

/** It does not end by itself then. */
const mayGetShare = ({ traffic, traffic_settings, rollout }: Deployment) =>
  rollout !== null || traffic_settings.starts_at < 100 || traffic.length > 1

const FRAMES = '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏'
const FRAME_MS = 200
function showWaiting({ out }: Session) {
  const began = Date.now()
  const waiting = { status: '', stop }
  let frame = 0
  const timer = setInterval(() => {
    const seconds = Math.floor((Date.now() - began) / 1000)
    const sign = FRAMES[frame++ % FRAMES.length]!
    out.progress(`${out.paint('cyan', sign)} ${out.paint('dim', `${waiting.status || 'WAITING'} ${seconds} s`)}`)
  }, FRAME_MS)
  function stop() {
    clearInterval(timer)
    out.progress('')
  }
  return waiting
}

function describe({ out }: Session, { number, status, states }: Revision): string {
  const stages = states.filter(({ seconds }) => (seconds ?? 0) >= SHORTEST_STAGE_S)
  const times = stages.map(
    ({ status, seconds }) => `${status.toLowerCase().replace('_', ' ')} ${seconds!.toFixed(1)} s`,
  )
  const summary = status === 'DEPLOYED' && times.length > 0 ? out.paint('dim', `  ${times.join(', ')}`) : ''
  const state = out.paint(FAILED.includes(status) ? 'red' : 'cyan', status)
  return `${out.paint('dim', `revision ${number}`)} ${state}${summary}`
}

const readDeployment = ({ client, signal }: Session, deployment_id: string) =>
  client.call('GET /v2/deployments/{deployment_id}', { params: { deployment_id }, signal })

/** Prefers the last lines of the log to those in the reason, which are older. A terminal may show them already. */
async function ended(
  { client, out, signal }: Session,
  { name }: Deployment,
  { id: revision_id, deployment_id, number, status, status_message }: Revision,
  logs: LogFollower,
): Promise<CommandFailure> {
  const [reason = '', reported] = status_message?.split(' Its last lines:\n') ?? []
  const params = { deployment_id }
  const query = { revision_id, tail: MAX_LAST_LINES }
  const read = client.call('GET /v2/deployments/{deployment_id}/logs', { params, query, signal })
  const stored = await read
    .then(({ logs }) => logs.map(({ message }) => message.replace(STORED_COLOR, '')))
    .catch(() => [])
  // The agent logs the reason, too, with the last lines again.
  const logged = stored.filter(line => !reason || !line.startsWith(reason))
  const lines = logged.length > 0 ? logged : (reported?.split('\n') ?? [])
  const lastLines = out.isMachine || !logs.isComplete() ? lines : []
  const message = `Revision ${number} of ${name} ended as ${status}.${reason && ` ${reason}`}`
  return new CommandFailure(EXIT.failed, status.toLowerCase(), message, `slipway explain ${name}`, lastLines)
}

const timedOut = ({ name }: Deployment, { number, status }: Revision, timeoutMs: number) =>
  new CommandFailure(
    EXIT.timedOut,
    'timed_out',
    `Revision ${number} of ${name} is still ${status} after ${timeoutMs / 1000} s. It goes on.`,
    `slipway status ${name}`,
  )

/** Reports a failure of the log, and does not fail. */
function followLogs({ client, out }: Session, { deployment_id, revision_id }: RevisionParams, signal: AbortSignal) {
  const params = { deployment_id }
  let arrival = 0
  let isComplete = false
  async function follow(): Promise<void> {
    const query = { revision_id, after: 0 }
    for await (const { event, data } of client.stream('GET /v2/deployments/{deployment_id}/logs/stream', {
      params,
      query,
      signal,
    })) {
      if (event !== 'message') continue
      arrival = data.arrival
      const { timestamp, level, message, kind, process } = data
      const text = () => `  ${formatProcess(out, data)}${formatLogMessage(out, data)}`
      out.emit({ type: 'log', timestamp, level, kind, process, message }, text)
    }
  }
  const ended = follow().catch(error => {
    if (!signal.aborted) out.note(`The log cannot be followed: ${(error as Error).message} The deployment goes on.`)
  })
  return {
    ended,
    isComplete: () => isComplete,
    async caughtUp(): Promise<void> {
      const query = { revision_id, tail: 1 }
      const last = await client.call('GET /v2/deployments/{deployment_id}/logs', { params, query, signal })
      const newest = last.logs.at(-1)?.arrival
      while (arrival < (newest ?? 0)) await pause(20, signal)
      isComplete = newest !== undefined
    },
  }
}
