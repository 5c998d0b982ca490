// How rows become the wire: times in the one form, members that a schema names.
import { expect, it } from 'vitest'
import { completeMembers, toIsoTime } from '../../src/kernel/rows.ts'

it.each([
  ['2025-01-18 08:40:00+00', '2025-01-18T08:40:00.000Z'],
  ['2025-01-18 08:40:00.1+00', '2025-01-18T08:40:00.100Z'],
  ['2025-01-18 08:40:00.123456+00', '2025-01-18T08:40:00.123Z'],
  ['2025-01-18 08:40:00.5+02', '2025-01-18T06:40:00.500Z'],
  ['2025-01-18 08:40:00-05:30', '2025-01-18T14:10:00.000Z'],
  ['2025-01-18T08:40:00.123456+00:00', '2025-01-18T08:40:00.123Z'],
  ['2025-01-18T08:40:00Z', '2025-01-18T08:40:00.000Z'],
])('%s is %s', (stored, told) => {
  expect(toIsoTime(stored)).toBe(told)
})

it('tells an absent time as null', () => {
  expect(toIsoTime(null)).toBe(null)
})

it('tells the members that a schema names, in its order, and no others', () => {
  const told = completeMembers(['a', 'b', 'c'], { c: false, b: undefined, secret: 1 })
  expect(Object.entries(told)).toEqual([
    ['a', null],
    ['b', null],
    ['c', false],
  ])
})
