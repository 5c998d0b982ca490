// The rollout of a deployment: its policy, the step in flight with its gates, and why a revision was sent back.
import { type Action, request } from '../../api/actions.ts'
import { explainMissingHere } from '../../api/permissions.ts'
import { formatLatency, formatShare, plural } from '../../format/amount.ts'
import type { Deployment, Revision } from '../../format/state.ts'
import { formatExact, formatSeconds, formatShort } from '../../format/time.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Card } from '../../parts/card.tsx'
import { Glyph } from '../../parts/icon.tsx'
import { CommandLine } from '../../parts/panel.tsx'
import { Prose } from '../../parts/prose.tsx'
import { Badge } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import styles from './rollout.module.css'

type Policy = NonNullable<Deployment['rollout']>
type Progress = NonNullable<Deployment['rollout_progress']>
type Gate = Progress['gates'][number]
type Record = NonNullable<Revision['rollout']>
type MoveName = 'pause' | 'resume' | 'promote' | 'abort'

const MOVES: { [M in MoveName]: Pick<Action, 'label' | 'done' | 'confirm'> } = {
  pause: { label: 'Pause', done: 'it stays at its step.' },
  resume: { label: 'Resume', done: 'it goes on.' },
  promote: {
    label: 'Promote',
    done: 'it gets all requests.',
    confirm: { title: 'Promote now?', body: 'The revision gets all requests, without its other steps and gates.' },
  },
  abort: {
    label: 'Abort',
    done: 'all requests go back.',
    confirm: { title: 'Abort the rollout?', body: 'All requests go back, and the revision ends as interrupted.' },
  },
}

const move = ({ id, name }: Deployment, action: MoveName): Action => ({
  ...MOVES[action],
  unavailable: explainMissingHere('deployments:update'),
  request: request('POST /v2/deployments/{deployment_id}/rollout/{action}', { params: { deployment_id: id, action } }),
  command: `slipway rollout ${name} --${action}`,
  done: `${name}: ${MOVES[action].done}`,
})

const remove = ({ id, name }: Deployment): Action => ({
  label: 'Remove the steps',
  unavailable: explainMissingHere('deployments:update'),
  request: request('DELETE /v2/deployments/{deployment_id}/rollout', { params: { deployment_id: id } }),
  command: `slipway rollout ${name} --off`,
  confirm: {
    title: `Remove the steps of ${name}?`,
    body: 'Later revisions take all requests once they are healthy. One in flight goes on by its steps.',
  },
  done: `${name}: later revisions take all requests at once.`,
})

/** The revision in flight. */
export function RolloutProgress({ deployment, progress }: { deployment: Deployment; progress: Progress }) {
  const { step, steps, share, since, paused, is_passed, gates, requests } = progress
  const isPromoted = step >= steps.length
  return (
    <>
      <ol class={styles.steps} aria-label="Steps">
        {[...steps.map(one => one.share), 100].map((one, i) => (
          <li key={one} class={i === step ? styles.current : undefined} aria-current={i === step ? 'step' : undefined}>
            <Glyph
              shape={i < step ? 'check' : i === step ? 'arc' : 'ring'}
              tone={i < step ? 'ok' : i === step ? 'busy' : 'idle'}
            />
            {one} %
          </li>
        ))}
      </ol>
      <p class={styles.about}>
        {isPromoted ? 'It gets all requests,' : `Step ${step + 1} of ${steps.length}, ${share} %,`} since{' '}
        <time dateTime={since} title={formatExact(since)}>
          {formatShort(since)}
        </time>{' '}
        (<Ago time={since} suffix=" ago" />){requests !== null && `, ${plural(requests, 'request')}`}.{' '}
        {paused ? <Badge tone="warn">Paused</Badge> : is_passed && <Badge tone="ok">Gates of the agent passed</Badge>}
      </p>
      <Gates gates={gates} />
      <p class={styles.actions}>
        {!isPromoted && <ActionButton small action={move(deployment, paused ? 'resume' : 'pause')} />}
        {!isPromoted && <ActionButton small action={move(deployment, 'promote')} />}
        <ActionButton small action={move(deployment, 'abort')} />
      </p>
    </>
  )
}

const VERDICTS = {
  passed: { shape: 'check', tone: 'ok' },
  failed: { shape: 'octagon', tone: 'bad' },
  undecided: { shape: 'ring', tone: 'idle' },
} as const

const NAMES: { [G in Gate['gate']]: string } = {
  errors: 'Errors',
  latency: 'Slow requests',
  restarts: 'Restarts',
  health: 'Health',
  webhook: 'Webhook',
  scores: 'Score',
}

const SHARES = ['errors', 'latency']
function formatSide(gate: Gate['gate'], side: Gate['canary']): string {
  if (side?.value == null) return '–'
  return SHARES.includes(gate) ? formatShare(side.value) : String(Number(side.value.toPrecision(3)))
}

function Gates({ gates }: { gates: Gate[] }) {
  if (gates.length === 0) return null
  return (
    <div class={styles.scroll}>
      <table class={styles.gates}>
        <thead>
          <tr>
            <th scope="col">Gate</th>
            <th scope="col">New</th>
            <th scope="col">Serving</th>
            <th scope="col">Judged</th>
          </tr>
        </thead>
        <tbody>
          {gates.map(({ gate, key, verdict, canary, serving, slower_than_ms, message }) => (
            <tr key={`${gate} ${key}`}>
              <th scope="row">
                <Glyph {...VERDICTS[verdict]} />
                {NAMES[gate]}
                {key && <code>{key}</code>}
                {slower_than_ms != null && <span class={styles.unit}>over {formatLatency(slower_than_ms / 1000)}</span>}
              </th>
              <td data-side="New">{formatSide(gate, canary)}</td>
              <td data-side="Serving">{formatSide(gate, serving)}</td>
              <td>
                <b>{verdict[0]!.toUpperCase() + verdict.slice(1)}.</b> <Prose text={message} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

const minutes = (count: number) => formatSeconds(count * 60)
const points = (share: number) => `${Number((share * 100).toPrecision(3))} %`

/** The steps of later revisions. */
export function RolloutPolicy({ deployment }: { deployment: Deployment }) {
  const { rollout, name } = deployment
  return (
    <>
      <h3 class={styles.heading}>Steps of later revisions</h3>
      {rollout ? (
        <ul class={styles.policy}>
          {rollout.steps.map(({ share, minutes: least, requests }) => (
            <li key={share}>
              <b>{share} %</b> for {minutes(least)}
              {requests > 0 && ` and ${plural(requests, 'request')}`}
            </li>
          ))}
          {describeGates(rollout.gates).map(text => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      ) : (
        <p class={styles.about}>None: a new revision gets its share as above. Set steps and gates by</p>
      )}
      {!rollout && <CommandLine command={`slipway rollout ${name} 1=10m 10=10m 50=10m`} />}
      {rollout && (
        <p class={styles.actions}>
          <ActionButton small action={remove(deployment)} />
        </p>
      )}
    </>
  )
}

const describeGates = ({ errors, latency, restarts, scores, webhook }: Policy['gates']): string[] => [
  ...(errors ? [`Back at ${points(errors.margin)} more errors`] : []),
  ...(latency ? [`Back at ${points(latency.margin)} more slow requests`] : []),
  ...(restarts ? [`Back at more than ${plural(restarts.most, 'restart')}`] : []),
  ...scores.map(({ key, margin }) => `Back if ${key} is ${margin} lower`),
  ...(webhook ? [`Asks ${webhook.url}`] : []),
]

/** The steps that a revision has passed, and the evidence if it was sent back. */
export default function RolloutRecord({ rollout }: { rollout: Record }) {
  const { steps, failure } = rollout
  return (
    <Card title="Rollout" tone={failure ? 'bad' : undefined}>
      {steps.length > 0 && (
        <ol class={styles.passed}>
          {steps.map(({ step, share, since, until, requests }) => (
            <li key={step}>
              <Glyph {...VERDICTS.passed} /> <b>{share} %</b>{' '}
              {formatSeconds((Date.parse(until) - Date.parse(since)) / 1000)}
              {requests !== null && `, ${plural(requests, 'request')}`}
            </li>
          ))}
        </ol>
      )}
      {failure && (
        <>
          <p class={styles.about}>
            Sent back from {failure.share} % at{' '}
            <time dateTime={failure.at} title={formatExact(failure.at)}>
              {formatShort(failure.at)}
            </time>
            {failure.requests !== null && `, after ${plural(failure.requests, 'request')}`}.
          </p>
          <Gates gates={failure.gates} />
          <FailingRequests requests={failure.failing_requests} />
        </>
      )}
    </Card>
  )
}

function FailingRequests({ requests }: { requests: NonNullable<Record['failure']>['failing_requests'] }) {
  if (requests.length === 0) return null
  return (
    <>
      <h3 class={styles.heading}>Its last bad requests</h3>
      <ol class={styles.requests}>
        {requests.map(({ at, method, path, status, ms, trace_id }) => (
          <li key={`${at} ${path} ${ms}`}>
            <time dateTime={at}>{formatExact(at)}</time> <b>{status}</b>{' '}
            <code>
              {method} {path}
            </code>{' '}
            {ms < 1 ? '<1 ms' : formatLatency(ms / 1000)} {trace_id && <code>{trace_id}</code>}
          </li>
        ))}
      </ol>
    </>
  )
}
