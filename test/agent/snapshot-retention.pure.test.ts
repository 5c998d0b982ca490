// The snapshots that an agent deletes.
import { expect, test } from 'vitest'
import { listExpired } from '../../src/agent/snapshots/retention.ts'
import type { HeldSnapshot } from '../../src/protocol/snapshots.schema.ts'

const NOW = Date.parse('2026-11-30T12:00:00.000Z')
const at = (days: number) => new Date(NOW - days * 86_400_000).toISOString()
const taken = (id: string, days: number, more: Partial<HeldSnapshot> = {}): HeldSnapshot => ({
  id,
  deployment_id: 'a',
  store: 'disk:media',
  size_bytes: 10,
  reason: 'manual',
  taken_at: at(days),
  expires_at: at(days - 30),
  ...more,
})
const expiredOf = (all: HeldSnapshot[], max_bytes = Number.POSITIVE_INFINITY) =>
  listExpired(all, NOW, id => id !== 'gone', max_bytes).map(({ id }) => id)

test('the newest of each store stays while its deployment lives', () => {
  const old = [taken('1', 40), taken('2', 41), taken('3', 50, { store: 'database' })]
  expect(expiredOf([taken('0', 1, { deployment_id: 'b' }), ...old])).toEqual(['2'])
  expect(expiredOf([taken('4', 31, { deployment_id: 'gone' }), taken('5', 29, { deployment_id: 'gone' })])).toEqual([
    '4',
  ])
})

test('the oldest of a deployment make room for its own, but not those of data that are gone, and of no other', () => {
  const all = [
    taken('1', 4),
    taken('2', 3, { reason: 'before_restore' }),
    taken('3', 2),
    taken('4', 1),
    taken('5', 3.5, { store: 'database', size_bytes: 100 }),
    taken('6', 9, { deployment_id: 'b' }),
  ]
  expect(expiredOf(all, 25)).toEqual(['1'])
  expect(expiredOf(all, 15)).toEqual(['3', '1'])
  expect(expiredOf([taken('7', 1, { size_bytes: 100 }), taken('8', 2)], 15)).toEqual(['8'])
})
