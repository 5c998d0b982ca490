// A copy that fails in a row is left out for a while, as long as at least half of the copies are left.
import { expect, test } from 'vitest'
import { Outliers } from '../../src/agent/engines/local/outliers.ts'

function watch() {
  let now = 0
  const outliers = new Outliers(() => now)
  const fail = (copy: string, times: number) => {
    for (let i = 0; i < times; i++) outliers.record(copy, true)
  }
  const admit = (...copies: string[]) => outliers.admit(copies, copy => copy).join('')
  return { outliers, fail, admit, pass: (ms: number) => (now += ms) }
}

test('it takes several failures in a row', () => {
  const { outliers, fail, admit } = watch()
  fail('a', 4)
  outliers.record('a', false)
  fail('a', 4)
  expect(admit('a', 'b')).toBe('ab')
  fail('a', 1)
  expect(admit('a', 'b')).toBe('b')
})

test('once it is back its first failure decides, and it is left out for longer', () => {
  const { outliers, fail, admit, pass } = watch()
  fail('a', 5)
  pass(10_000)
  expect(admit('a', 'b')).toBe('ab')
  fail('a', 1)
  pass(10_000)
  expect(admit('a', 'b')).toBe('b')
  pass(10_000)
  outliers.record('a', false)
  fail('a', 4)
  expect(admit('a', 'b')).toBe('ab')
})

test('never more than half of them, nor the only one', () => {
  const { fail, admit } = watch()
  fail('a', 5)
  fail('b', 5)
  expect(admit('a', 'b', 'c', 'd')).toBe('cd')
  expect(admit('a', 'b', 'c')).toBe('abc')
  expect(admit('a')).toBe('a')
})

test('a copy without a route is forgotten', () => {
  const { outliers, fail, admit } = watch()
  fail('a', 5)
  outliers.keepOnly(new Set(['b']))
  expect(admit('a', 'b')).toBe('ab')
})
