import { expect, it } from 'vitest'
import { completeMembers, toIsoTime } from '../../src/kernel/db/rows.ts'

it.each([
  ['2025-01-18 08:40:00+00', '2025-01-18T08:40:00.000Z'],
  ['2025-01-18 08:40:00.1+00', '2025-01-18T08:40:00.100Z'],
  ['2025-01-18 08:40:00.123456+00', '2025-01-18T08:40:00.123Z'],
  ['2025-01-18 08:40:00.5+02', '2025-01-18T06:40:00.500Z'],
  ['2025-01-18 08:40:00-05:30', '2025-01-18T14:10:00.000Z'],
  ['2025-01-18T08:40:00.123456+00:00', '2025-01-18T08:40:00.123Z'],
  ['2025-01-18T08:40:00Z', '2025-01-18T08:40:00.000Z'],
])('the stored time %s is returned as %s', (stored, returned) => {
  expect(toIsoTime(stored)).toBe(returned)
})

it('a missing time is returned as null', () => {
  expect(toIsoTime(null)).toBe(null)
})

it('a response has exactly the members of its schema, in the order of the schema', () => {
  const complete = completeMembers(['a', 'b', 'c'], { c: false, b: undefined, secret: 1 })
  expect(Object.entries(complete)).toEqual([
    ['a', null],
    ['b', null],
    ['c', false],
  ])
})
