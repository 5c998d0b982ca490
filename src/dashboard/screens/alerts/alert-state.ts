// Incidents and alert rules in words (pure).
import type { Item, Reply } from '../../../client/client.ts'
import type { State, Tone } from '../../format/state.ts'

export type Incident = Item<'GET /v2/incidents'>
export type IncidentDetails = Reply<'GET /v2/incidents/{incident_id}'>
export type AlertRule = Item<'GET /v2/alert-rules'>
export type Mute = Item<'GET /v2/alert-mutes'>

const TONES: Record<Incident['severity'], Tone> = { critical: 'bad', error: 'bad', warning: 'warn', info: 'idle' }

export function stateOfIncident({ state, severity }: Pick<Incident, 'state' | 'severity'>): State {
  if (state === 'resolved') return { word: 'Resolved', tone: 'ok', shape: 'check' }
  if (state === 'acknowledged') return { word: 'Acknowledged', tone: 'busy', shape: 'held' }
  return { word: 'Open', tone: TONES[severity], shape: TONES[severity] === 'bad' ? 'octagon' : 'triangle' }
}

export const stateOfRule = ({ is_active }: Pick<AlertRule, 'is_active'>): State =>
  is_active ? { word: 'On', tone: 'ok', shape: 'check' } : { word: 'Off', tone: 'idle', shape: 'held' }

export const SEVERITIES: Record<AlertRule['severity'], string> = {
  critical: 'Critical',
  error: 'Error',
  warning: 'Warning',
  info: 'Information',
}

export const METRICS: Record<string, string> = {
  error_rate: 'Error rate (0 to 1)',
  requests: 'Requests a minute',
  latency_p50: 'Median latency (ms)',
  latency_p95: 'Latency, 95th percentile (ms)',
  latency_p99: 'Latency, 99th percentile (ms)',
  cpu: 'CPU (cores)',
  memory: 'Memory of a copy (share of its limit)',
  disk: 'Fullest disk (share of its size)',
  restarts: 'Restarts',
  copies: 'Copies',
}

export function describeCondition({ condition }: Pick<AlertRule, 'condition'>): string {
  switch (condition.kind) {
    case 'metric':
      return `${METRICS[condition.metric]} ${condition.operator} ${condition.threshold}`
    case 'trace':
      return `${condition.metric} of traces ${condition.operator} ${condition.threshold}`
    case 'log':
      return `${condition.count} or more lines with “${condition.contains}”`
    case 'event':
      return condition.types.join(', ')
  }
}

/** The reason why the channels do not know of an incident. */
export function explainUntold({ is_told, muted_until, state, reopened }: Incident): string | undefined {
  if (is_told || state === 'resolved') return undefined
  if (muted_until !== null) return 'A mute covers it. The channels are told at the end of the mute if it still is open.'
  if (reopened > 0) return 'It has come back within an hour. The channels are told if it lasts.'
  return 'Nobody is told: its rule names no channel, and the workspace has no default channel.'
}
