// An alert rule as its form has it, in units that people write, and as the API does (pure).
import { EMPTY_SCOPE, explainScope, fromScope, type Scope, toScope } from '../scope.ts'
import type { NewRuleBody } from './actions.ts'
import type { AlertRule, Condition } from './alert-state.ts'
import {
  METRICS,
  type Metric,
  TRACE_METRICS,
  toMinutes,
  toNumber,
  toOptional,
  toSeconds,
  toWritten,
} from './metrics.ts'

export type Kind = Condition['kind']
export type Draft = {
  kind: Kind
  name: string
  severity: AlertRule['severity']
  scope: Scope
  hasDefaultChannels: boolean
  channels: string[]
  forMinutes: string
  resolveMinutes: string
  /** Conditions on metrics and traces have these. */
  metric: string
  operator: 'above' | 'below'
  threshold: string
  clear: string
  least: string
  minutes: string
  contains: string
  level: string
  process: string
  count: string
  project: string
  feedbackKey: string
  filter: string
  types: string
  ends: string
}
export const EMPTY_DRAFT: Draft = {
  kind: 'metric',
  name: '',
  severity: 'error',
  scope: EMPTY_SCOPE,
  hasDefaultChannels: true,
  channels: [],
  forMinutes: '0',
  resolveMinutes: '',
  metric: 'error_rate',
  operator: 'above',
  threshold: '5',
  clear: '',
  least: '0',
  minutes: '5',
  contains: '',
  level: '',
  process: '',
  count: '1',
  project: '',
  feedbackKey: '',
  filter: '',
  types: '',
  ends: '',
}

export const metricOf = ({ kind, metric }: Pick<Draft, 'kind' | 'metric'>): Metric =>
  (kind === 'trace' ? TRACE_METRICS : METRICS)[metric]!

export const toDraft = (rule: AlertRule): Draft => ({
  ...EMPTY_DRAFT,
  ...conditionToDraft(rule.condition),
  name: rule.name,
  severity: rule.severity,
  scope: toScope(rule),
  hasDefaultChannels: rule.channel_ids.length === 0,
  channels: rule.channel_ids,
  forMinutes: toMinutes(rule.for_seconds),
  resolveMinutes: toMinutes(rule.resolve_after_seconds),
})

function conditionToDraft(condition: Condition): Partial<Draft> {
  if (condition.kind === 'event')
    return { kind: 'event', types: condition.types.join('\n'), ends: condition.ends.join('\n') }
  const minutes = toMinutes(condition.window_seconds)
  if (condition.kind === 'log') {
    const { contains, level, process, count } = condition
    return { kind: 'log', minutes, contains, level: level ?? '', process: process ?? '', count: String(count) }
  }
  const { kind, metric, operator, threshold, clear_threshold } = condition
  const { scale } = metricOf({ kind, metric })
  return {
    kind,
    metric,
    operator,
    minutes,
    threshold: toWritten(threshold, scale),
    clear: toWritten(clear_threshold, scale),
    least: String(condition.kind === 'metric' ? condition.min_requests : condition.min_traces),
    ...(condition.kind === 'trace' && {
      project: condition.project_id,
      feedbackKey: condition.feedback_key ?? '',
      filter: condition.filter ?? '',
    }),
  }
}

const splitTypes = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean)

function toCondition(draft: Draft): NewRuleBody['condition'] {
  if (draft.kind === 'event') return { kind: 'event', types: splitTypes(draft.types), ends: splitTypes(draft.ends) }
  const window_seconds = toSeconds(draft.minutes)
  if (draft.kind === 'log')
    return {
      kind: 'log',
      contains: draft.contains,
      level: (draft.level || null) as 'ERROR' | null,
      process: draft.process.trim() || null,
      count: toNumber(draft.count),
      window_seconds,
    }
  const { scale } = metricOf(draft)
  const compared = {
    operator: draft.operator,
    threshold: toNumber(draft.threshold, scale),
    clear_threshold: toOptional(draft.clear, scale),
    window_seconds,
  }
  const least = toNumber(draft.least)
  if (draft.kind === 'metric')
    return { kind: 'metric', metric: draft.metric as 'error_rate', ...compared, min_requests: least }
  return {
    kind: 'trace',
    project_id: draft.project,
    metric: draft.metric as 'error_rate',
    feedback_key: draft.metric === 'feedback' ? draft.feedbackKey.trim() : null,
    filter: draft.filter.trim() || null,
    ...compared,
    min_traces: least,
  }
}

export const toBody = (draft: Draft): NewRuleBody => ({
  name: draft.name.trim(),
  severity: draft.severity,
  condition: toCondition(draft),
  ...fromScope(draft.kind === 'trace' ? EMPTY_SCOPE : draft.scope),
  for_seconds: toSeconds(draft.forMinutes),
  resolve_after_seconds: draft.resolveMinutes.trim() === '' ? null : toSeconds(draft.resolveMinutes),
  channel_ids: draft.hasDefaultChannels ? [] : draft.channels,
})

export function explainDraft(draft: Draft): string | undefined {
  if (draft.kind === 'trace') {
    if (!draft.project) return 'Choose a project first.'
  } else if (explainScope(draft.scope)) return explainScope(draft.scope)
  return draft.hasDefaultChannels || draft.channels.length > 0 ? undefined : 'Select a channel first.'
}
