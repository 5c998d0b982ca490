// Incidents, alert rules and mutes in words (pure).
import type { Item, Reply } from '../../../client/client.ts'
import type { State, Tone } from '../../format/state.ts'
import { formatExact, formatSeconds, formatShort } from '../../format/time.ts'
import { METRICS, TRACE_METRICS, toWritten } from './metrics.ts'

export type Incident = Item<'GET /v2/incidents'>
export type IncidentDetails = Reply<'GET /v2/incidents/{incident_id}'>
export type AlertRule = Item<'GET /v2/alert-rules'>
export type Condition = AlertRule['condition']
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

export function describeCondition({ condition }: Pick<AlertRule, 'condition'>): string {
  switch (condition.kind) {
    case 'metric':
    case 'trace': {
      const { label, unit, scale } = (condition.kind === 'metric' ? METRICS : TRACE_METRICS)[condition.metric]!
      const value = `${toWritten(condition.threshold, scale)} ${unit}`.trim()
      return `${label} ${condition.operator} ${value} within ${formatSeconds(condition.window_seconds)}`
    }
    case 'log': {
      const lines = condition.count === 1 ? 'A line' : `${condition.count} lines`
      const within = condition.count === 1 ? '' : ` within ${formatSeconds(condition.window_seconds)}`
      return `${lines} with “${condition.contains}”${within}`
    }
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

export const WEEKDAYS = { mon: 'Mon', tue: 'Tue', wed: 'Wed', thu: 'Thu', fri: 'Fri', sat: 'Sat', sun: 'Sun' } as const
type Weekday = keyof typeof WEEKDAYS

export type MutePhase = 'running' | 'coming' | 'ended'
export function phaseOf({ is_active, ends_at }: Pick<Mute, 'is_active' | 'ends_at'>, now: number): MutePhase {
  if (ends_at !== null && Date.parse(ends_at) <= now) return 'ended'
  return is_active ? 'running' : 'coming'
}

const HALF_YEAR_MS = 182 * 86_400_000
export function describeTimes({ starts_at, ends_at, weekly }: Mute, now: number): string {
  /** A short one has no year. */
  const format = (time: string) =>
    Math.abs(Date.parse(time) - now) > HALF_YEAR_MS ? formatExact(time) : formatShort(time)
  const hours =
    weekly &&
    `${weekly.days.map(day => WEEKDAYS[day as Weekday]).join(', ')}, ${weekly.from} to ${weekly.until} ` +
      `(${weekly.time_zone})`
  const begins = starts_at !== null && Date.parse(starts_at) > now && `from ${format(starts_at)}`
  const ends = ends_at === null ? !weekly && 'until it is ended' : `until ${format(ends_at)}`
  const text = [hours, [begins, ends].filter(Boolean).join(' ')].filter(Boolean).join(', ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}
export const exactTimes = ({ starts_at, ends_at }: Mute): string =>
  [starts_at && `From ${formatExact(starts_at)}`, ends_at && `Until ${formatExact(ends_at)}`].filter(Boolean).join('. ')
