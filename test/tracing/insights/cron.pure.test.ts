// Cron expressions: when they fire, in UTC, and which are refused.
import { describe, expect, it } from 'vitest'
import { nextFiring, parseCron, smallestGapSeconds } from '../../../src/tracing/insights/cron.ts'

const at = (time: string) => Date.parse(`${time}Z`)
const START = at('2026-11-24T12:34:56')

it.each([
  ['0 8 * * *', ['2026-11-25T08:00', '2026-11-26T08:00']],
  ['0 8 * * 1', ['2026-11-30T08:00', '2026-12-07T08:00']],
  ['0 8 * * MON', ['2026-11-30T08:00']],
  ['0 0 * * 7', ['2026-11-29T00:00']],
  ['*/20 * * * *', ['2026-11-24T12:40', '2026-11-24T13:00']],
  ['35 12-14/2 * * *', ['2026-11-24T12:35', '2026-11-24T14:35', '2026-11-25T12:35']],
  ['0 0 1 jan-mar,12 *', ['2026-12-01T00:00', '2027-01-01T00:00', '2027-02-01T00:00', '2027-03-01T00:00']],
  ['0 0 29 2 *', ['2028-02-29T00:00', '2032-02-29T00:00']],
  // One kind of days suffices if both are limited.
  ['0 0 1 * 5', ['2026-11-27T00:00', '2026-12-01T00:00', '2026-12-04T00:00']],
  ['5/20 0 1 1 *', ['2027-01-01T00:05', '2027-01-01T00:25', '2027-01-01T00:45']],
])('%s fires at %j', (text, times) => {
  const cron = parseCron(text)
  let from = START
  for (const time of times) {
    const next = nextFiring(cron, from)!
    expect(new Date(next).toISOString()).toBe(`${time}:00.000Z`)
    from = next + 1
  }
})

it('fires at its time itself', () => {
  expect(nextFiring(parseCron('34 12 * * *'), at('2026-11-24T12:34:00'))).toBe(at('2026-11-24T12:34:00'))
})

describe('the smallest gap', () => {
  it.each([
    ['* * * * *', 60],
    ['0 * * * *', 3600],
    ['0,30 8 * * *', 1800],
    ['59 23 * * 1', 7 * 86_400],
    // Two of a day, and the last of one before the first of the next.
    ['0 0,23 * * *', 3600],
    ['0 0 29 2 *', 4 * 365 * 86_400 + 86_400],
  ])('in %s is %i seconds', (text, seconds) => {
    expect(smallestGapSeconds(parseCron(text), START)).toBe(seconds)
  })
})

it.each([
  '',
  '* * * *',
  '* * * * * *',
  '60 * * * *',
  '* 24 * * *',
  '* * 0 * *',
  '* * * 13 *',
  '* * * * 8',
  '*/0 * * * *',
  '5-1 * * * *',
  'a * * * *',
  '-1 * * * *',
  '1.5 * * * *',
  '0 0 31 2 *',
  '0 0 30 feb *',
  '@daily',
  '0 0 L * *',
])('%j is refused', text => {
  expect(() => parseCron(text)).toThrow()
})
