// What of a report whoever looks on is told: how a revision ends, and when one that serves is not well any more.
import { expect, test } from 'vitest'
import { describeOutcome } from '../../src/agent/reconcile/work.ts'
import type { Report } from '../../src/protocol/report.schema.ts'
import type { Work } from '../../src/protocol/work.schema.ts'

const work = { serving: { id: 'old', number: 1 }, revision: { id: 'new', number: 2 } } as Work
const said = (report: Partial<Report>) => describeOutcome(work, report as Report)

test.each<[string, Partial<Report>, string | null]>([
  ['what came up', { state: 'deployed', revision_id: 'new', url: 'http://a.localhost' }, 'revision 2'],
  ['what did not', { state: 'failed', revision_id: 'new', message: 'It ended.' }, 'revision 2 failed: It ended.'],
  ['what is not well', { state: 'serving', revision_id: 'old', healthy: false, message: 'It ended.' }, 'revision 1: '],
  ['that, routed nowhere', { state: 'serving', healthy: false, message: 'It ended.' }, 'revision 1: It ended.'],
  ['what serves on', { state: 'serving', revision_id: 'old', healthy: true }, null],
  ['a step on the way', { state: 'building', revision_id: 'new' }, null],
])('%s', (_, report, told) => {
  expect(said(report)).toEqual(told === null ? null : expect.stringContaining(told))
})

test('what is well again', () => {
  const report = { state: 'serving', revision_id: 'old', healthy: true, url: 'http://a.localhost' } as Report
  expect(describeOutcome(work, report, { wasUnhealthy: true })).toBe('revision 1 serves at http://a.localhost')
})
