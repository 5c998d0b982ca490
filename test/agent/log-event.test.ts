// The format of the agent's own log.
import { expect, test } from 'vitest'
import { formatEvent, formatEventAsJson } from '../../src/agent/system/log-event.ts'

test('an event is one line with its fields, and leaves out fields without a value', () => {
  expect(formatEvent('lease acquired', { listener: 'l1', lease: 3, url: null })).toBe(
    'lease acquired listener=l1 lease=3',
  )
})

test('an event as JSON has the same fields', () => {
  expect(JSON.parse(formatEventAsJson('lease acquired', { listener: 'l 1', lease: 3 }))).toEqual({
    event: 'lease acquired',
    listener: 'l 1',
    lease: 3,
  })
})

test('the output of an application cannot imitate another event', () => {
  expect(formatEvent('revision failed', { reason: 'It ended.\nlease acquired lease=4' })).toBe(
    'revision failed reason="It ended.\n  lease acquired lease=4"',
  )
})
