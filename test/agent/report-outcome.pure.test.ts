// The events that an operator reads about accepted reports.
import { expect, test } from 'vitest'
import { describeOutcome } from '../../src/agent/reconcile/report.ts'
import type { Report } from '../../src/protocol/report.schema.ts'
import type { Work } from '../../src/protocol/work.schema.ts'

const work = { serving: { id: 'old', number: 1 }, revision: { id: 'new', number: 2 } } as Work
const message = 'It ended.'

test.each<[string, Partial<Report>, object | null]>([
  [
    'a revision that serves is logged with its address',
    { state: 'deployed', revision_id: 'new', url: 'http://a.localhost' },
    { event: 'revision serving', fields: { revision: 2, url: 'http://a.localhost' } },
  ],
  [
    'a revision that failed is logged with its reason',
    { state: 'failed', revision_id: 'new', message },
    { event: 'revision failed', fields: { revision: 2, reason: message } },
  ],
  [
    'a serving revision that became unhealthy is logged with its reason',
    { state: 'serving', revision_id: 'old', healthy: false, message },
    { event: 'revision unhealthy', fields: { revision: 1, reason: message } },
  ],
  [
    'an unhealthy revision without a route is logged too',
    { state: 'serving', healthy: false, message },
    { event: 'revision unhealthy', fields: { revision: 1, reason: message } },
  ],
  [
    'a serving revision that stays healthy is not logged',
    { state: 'serving', revision_id: 'old', healthy: true },
    null,
  ],
  ['an intermediate step is not logged', { state: 'building', revision_id: 'new' }, null],
])('%s', (_, report, event) => {
  expect(describeOutcome(work, report as Report)).toEqual(event)
})

test('a revision that recovered is logged with its address', () => {
  const report = { state: 'serving', revision_id: 'old', healthy: true, url: 'http://a.localhost' } as Report
  expect(describeOutcome(work, report, { wasUnhealthy: true })).toEqual({
    event: 'revision serving',
    fields: { revision: 1, url: 'http://a.localhost' },
  })
})
