// Cron expressions: when they fire, also where clocks change, and which are refused.
import { describe, expect, it } from 'vitest'
import { isTimeZone, nextFiring, parseCron, smallestGapSeconds } from '../../src/protocol/cron.ts'

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
  // A date on a day of the week can be 12 years away, or 40: the sweep must never find none.
  ['0 0 */31 3 0', ['2037-03-01T00:00', '2043-03-01T00:00']],
  ['0 0 29 2 */7', ['2032-02-29T00:00', '2060-02-29T00:00', '2088-02-29T00:00', '2128-02-29T00:00']],
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

// Clocks go forward in Berlin at 01:00 UTC on 2027-03-28, and back at 01:00 UTC on 2027-10-31.
it.each([
  ['0 8 * * *', 'Europe/Berlin', '2027-03-27T12:00', ['2027-03-28T06:00', '2027-03-29T06:00']],
  // A time that does not exist: at the end of the gap.
  ['30 2 * * *', 'Europe/Berlin', '2027-03-27T12:00', ['2027-03-28T01:00', '2027-03-29T00:30']],
  // A time that comes twice: the first time.
  ['30 2 * * *', 'Europe/Berlin', '2027-10-30T12:00', ['2027-10-31T00:30', '2027-11-01T01:30']],
  // Every hour goes on by real time.
  ['30 * * * *', 'Europe/Berlin', '2027-03-28T00:00', ['2027-03-28T00:30', '2027-03-28T01:30']],
  ['30 * * * *', 'Europe/Berlin', '2027-10-31T00:00', ['2027-10-31T00:30', '2027-10-31T01:30', '2027-10-31T02:30']],
  // Clocks that change at midnight, by half an hour, and zones far from UTC.
  ['0 0 * * *', 'America/Santiago', '2026-09-05T12:00', ['2026-09-06T04:00', '2026-09-07T03:00']],
  ['0 2 * * *', 'Australia/Lord_Howe', '2026-10-02T16:00', ['2026-10-03T15:30', '2026-10-04T15:00']],
  ['0 0 1 1 *', 'Pacific/Kiritimati', '2026-06-01T00:00', ['2026-12-31T10:00']],
  ['45 23 * * *', 'America/New_York', '2026-11-24T12:00', ['2026-11-25T04:45']],
])('%s in %s fires after %s at %j', (text, zone, after, times) => {
  let from = at(after)
  for (const time of times) {
    const next = nextFiring(parseCron(text), from, zone)!
    expect(new Date(next).toISOString()).toBe(`${time}:00.000Z`)
    from = next + 1
  }
})

it.each(['Europe/Berlin', 'America/Santiago', 'Australia/Lord_Howe'])('%s: no hour is lost or doubled', zone => {
  const start = at('2027-01-01T00:00')
  let last = nextFiring(parseCron('0,30 * * * *'), start, zone)!
  for (let i = 1; i < 2 * 24 * 365; i++) {
    const next = nextFiring(parseCron('0,30 * * * *'), last + 1, zone)!
    expect(next - last).toBe(30 * 60_000)
    last = next
  }
})

it.each([
  ['Europe/Berlin', true],
  ['UTC', true],
  ['Mars/Olympus', false],
  ['+02:00', false],
  ['', false],
])('%j is a time zone: %j', (name, isOne) => {
  expect(isTimeZone(name)).toBe(isOne)
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
