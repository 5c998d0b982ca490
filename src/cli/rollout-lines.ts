// Describes a rollout for people: its policy, its step with the gates, and why it failed.
import { age } from './output.ts'
import type { Deployment, Revision } from './session.ts'

type Policy = NonNullable<Deployment['rollout']>
type Progress = NonNullable<Deployment['rollout_progress']>
type Gate = Progress['gates'][number]
type Failure = NonNullable<NonNullable<Revision['rollout']>['failure']>

const points = (share: number) => `${Number((share * 100).toPrecision(3))} %`
const minutesOf = (minutes: number) =>
  minutes >= 60 && minutes % 60 === 0 ? `${minutes / 60} h` : minutes < 1 ? `${minutes * 60} s` : `${minutes} min`

export function describePolicy({ steps, gates }: Policy): string[] {
  const { errors, latency, restarts, webhook, scores } = gates
  const parts = steps.map(
    ({ share, minutes, requests }) =>
      `${share} % for ${minutesOf(minutes)}${requests > 0 ? ` and ${requests} requests` : ''}`,
  )
  const asked = [
    ...(errors ? [`${points(errors.margin)} more errors`] : []),
    ...(latency ? [`${points(latency.margin)} more slow requests`] : []),
    ...(restarts ? [`more than ${restarts.most} restarts`] : []),
    ...scores.map(({ key, margin }) => `${key} lower by ${margin}`),
    ...(webhook ? [`no from ${webhook.url}`] : []),
  ]
  return [
    `Steps     ${parts.join(', ')}, then all`,
    `Goes back ${asked.length > 0 ? `at ${asked.join(', ')}` : 'never'}`,
  ]
}

export const describeStep = ({ step, steps, share, paused, is_passed }: Progress): string =>
  step >= steps.length
    ? 'promoted: it gets all requests'
    : `step ${step + 1} of ${steps.length}, ${share} %${paused ? ', paused' : is_passed ? ', passed' : ''}`

const isFailed = ({ verdict }: Gate): boolean => verdict === 'failed'

const describeGates = (gates: Gate[]): string[] =>
  gates.map(({ gate, key, verdict, message }) => `  ${verdict.padEnd(9)} ${key ?? gate}: ${message}`)

export const describeProgress = (progress: Progress, number: number): string[] => [
  `Revision  ${number}: ${describeStep(progress)}, since ${age(progress.since).replace(' ago', '')}` +
    `${progress.requests === null ? '' : `, ${progress.requests} requests`}`,
  ...describeGates(progress.gates),
]

export const describeFailure = ({ share, at, message, gates, failing_requests }: Failure, number: number): string[] => [
  // The message has the numbers of the failed gates, too.
  `Revision  ${number} was sent back from ${share} % ${age(at)}${gates.some(isFailed) ? '' : `: ${message}`}`,
  ...describeGates(gates),
  ...failing_requests.map(
    ({ at, method, path, status, ms, trace_id }) =>
      `  ${at}  ${status} ${method} ${path}  ${ms < 1 ? '<1' : Math.round(ms)} ms` +
      `${trace_id ? `  trace ${trace_id}` : ''}`,
  ),
]
