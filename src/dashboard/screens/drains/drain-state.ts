// The state of a drain in words, and what its kinds take (pure).
import type { Item, Reply } from '../../../client/client.ts'
import { plural } from '../../format/amount.ts'
import type { State } from '../../format/state.ts'

export type Drain = Item<'GET /v2/drains'>
export type Sender = Drain['state']['senders'][number]
export type DrainTest = Reply<'POST /v2/drains/{drain_id}/test'>
export type Kind = Drain['kind']
export type Signal = Drain['signals'][number]

export const KINDS: { value: Kind; label: string; detail: string; url: string; hint: string }[] = [
  {
    value: 'otlp',
    label: 'OTLP',
    detail: 'OpenTelemetry by HTTP: a collector, Grafana Cloud, Datadog, Honeycomb and others.',
    url: 'https://otel.example.com:4318',
    hint: 'The base address: `/v1/logs` and the like are added.',
  },
  {
    value: 'ndjson',
    label: 'NDJSON',
    detail: 'A POST with a JSON object in each line: Vector, or a server of yours.',
    url: 'https://vector.example.com:8443',
    hint: 'An https address with a public name. Redirects are not followed.',
  },
  {
    value: 'loki',
    label: 'Loki',
    detail: 'The push API of Grafana Loki.',
    url: 'https://loki.example.com',
    hint: 'The base address, or that of the push API.',
  },
  {
    value: 'syslog',
    label: 'Syslog',
    detail: 'RFC 5424 over TLS.',
    url: 'tls://logs.example.com:6514',
    hint: 'The host and the port, as `tls://host:port`.',
  },
]
export const labelOf = (kind: Kind): string => KINDS.find(({ value }) => value === kind)!.label

export const SIGNALS: Record<Signal, string> = {
  logs: 'Logs',
  requests: 'Requests',
  metrics: 'Metrics',
  traces: 'Traces',
  events: 'Events',
}
export const describeSignals = ({ signals }: Pick<Drain, 'signals'>): string =>
  signals.map(signal => SIGNALS[signal]).join(', ')

/** A kind carries these, and no others. */
export const SIGNALS_OF: Record<Kind, readonly Signal[]> = {
  otlp: ['logs', 'requests', 'metrics', 'traces', 'events'],
  ndjson: ['logs', 'requests', 'metrics', 'traces', 'events'],
  loki: ['logs', 'requests', 'events'],
  syslog: ['logs', 'requests'],
}
/** These are of the whole workspace. */
export const isUnscoped = (signal: Signal): boolean => signal === 'events' || signal === 'traces'
/** These are lines, which a filter selects. */
export const isLines = (signal: Signal): boolean => signal === 'logs' || signal === 'requests'

export function stateOfDrain({ state: { status } }: Pick<Drain, 'state'>): State {
  if (status === 'disabled') return { word: 'Paused', tone: 'idle', shape: 'held' }
  if (status === 'failing') return { word: 'Failing', tone: 'bad', shape: 'octagon' }
  if (status === 'waiting') return { word: 'Nothing sent yet', tone: 'busy', shape: 'queued' }
  return { word: 'Delivering', tone: 'ok', shape: 'check' }
}

export function stateOfSender({ failing_since, last_sent_at }: Sender): State {
  if (failing_since) return { word: 'Failing', tone: 'bad', shape: 'octagon' }
  if (!last_sent_at) return { word: 'Nothing sent yet', tone: 'busy', shape: 'queued' }
  return { word: 'Delivering', tone: 'ok', shape: 'check' }
}

/** Explains a drain that does not deliver. */
export function explainState({ state, signals }: Pick<Drain, 'state' | 'signals'>): string | undefined {
  const { status, error, waiting } = state
  if (status === 'disabled') return 'The drain is paused. What comes meanwhile is not sent later.'
  if (status === 'failing') {
    const kept = waiting > 0 ? `${plural(waiting, 'record waits', 'records wait')} at agents. ` : ''
    return `${error ?? 'The last attempt failed.'} ${kept}It is tried again, at least once a minute.`
  }
  if (status === 'waiting')
    return signals.some(signal => !isUnscoped(signal))
      ? 'Agents learn of a drain within half a minute, and tell of their work every ten seconds.'
      : 'The first record is sent as it comes.'
  return undefined
}

export const describeDropped = ({ dropped }: { dropped: number }): string | undefined =>
  dropped > 0 ? `${plural(dropped, 'record')} dropped` : undefined

const ERRORS: Record<string, string> = {
  upstream_timeout: 'No answer in time',
  upstream_error: 'No connection',
  blocked_url: 'The address is not allowed',
}
export const describeTest = ({ answer_status, error }: DrainTest): string =>
  answer_status === null
    ? `${ERRORS[error ?? ''] ?? error}. Test lines are not repeated.`
    : `The receiver responded with ${answer_status}.`
