// The pure rules of the screens of alerts and drains: units, conditions that survive their form, times of mutes.
import { expect, it } from 'vitest'
import { type AlertRule, type Mute, phaseOf } from '../../src/dashboard/screens/alerts/alert-state.ts'
import { METRICS, TRACE_METRICS, toNumber, toOptional, toSeconds } from '../../src/dashboard/screens/alerts/metrics.ts'
import { toBody, toDraft } from '../../src/dashboard/screens/alerts/rule-draft.ts'
import { SIGNALS_OF } from '../../src/dashboard/screens/drains/drain-state.ts'
import { AlertCondition } from '../../src/protocol/alerts.schema.ts'
import { SIGNALS_OF as ALLOWED, drainKinds } from '../../src/protocol/drains.schema.ts'

const base = { operator: 'above', threshold: 1, window_seconds: 600 }
const isMetric = (kind: string, metric: string) =>
  AlertCondition.safeParse({
    ...base,
    kind,
    metric,
    ...(kind === 'trace' && { project_id: crypto.randomUUID() }),
    ...(metric === 'feedback' && { feedback_key: 'score' }),
  }).success

it('metrics of both kinds and signals of drains are those of the API', () => {
  for (const metric of Object.keys(METRICS)) expect(isMetric('metric', metric), metric).toBe(true)
  for (const metric of Object.keys(TRACE_METRICS)) expect(isMetric('trace', metric), metric).toBe(true)
  for (const kind of drainKinds) expect(SIGNALS_OF[kind].toSorted()).toEqual([...ALLOWED[kind]].sort())
})

it('numbers are read in the units that people write, and what is none is left for the API to refuse', () => {
  expect([toNumber('7', 0.01), toNumber(' 7,5 ', 0.01), toNumber('-3')]).toEqual([0.07, 0.075, -3])
  expect([toNumber('a lot'), toNumber(''), toOptional(' ')]).toEqual(['a lot', '', null])
  expect([toSeconds('0.1667'), toSeconds('1,5'), toSeconds('soon')]).toEqual([10, 90, 'soon'])
})

it.each<Record<string, unknown>>([
  { kind: 'metric', metric: 'disk', ...base, threshold: 0.93, clear_threshold: 0.07, min_requests: 3 },
  { kind: 'metric', metric: 'latency_p95', ...base, window_seconds: 61, clear_threshold: null, min_requests: 0 },
  { kind: 'log', contains: ' a  b', level: 'ERROR', process: 'web', count: 7, window_seconds: 10 },
  { kind: 'event', types: ['revision.*_failed', 'drain.deleted'], ends: ['revision.deployed'] },
  {
    ...{ kind: 'trace', metric: 'feedback', ...base, threshold: 0.5, clear_threshold: 0.4, min_traces: 9 },
    ...{ project_id: crypto.randomUUID(), feedback_key: 'score', filter: 'eq(name, "x")' },
  },
])('a form that is opened and saved keeps a condition: $kind $metric', condition => {
  const ids = condition.kind === 'trace' ? [] : [crypto.randomUUID()]
  const rule = {
    ...{ name: 'Rule', severity: 'warning', for_seconds: 61, resolve_after_seconds: 0 },
    ...{ condition, deployment_ids: ids, tag_value_ids: [], channel_ids: ids },
  }
  expect(toBody(toDraft(rule as unknown as AlertRule))).toEqual(rule)
})

it('a mute is running, coming or ended', () => {
  const at = Date.parse('2027-01-01T12:00:00Z')
  const phase = (over: Partial<Mute>) => phaseOf({ is_active: false, ends_at: null, ...over }, at)
  expect(phase({ is_active: true })).toBe('running')
  expect(phase({})).toBe('coming')
  expect(phase({ is_active: true, ends_at: '2027-01-01T12:00:00Z' })).toBe('ended')
})
