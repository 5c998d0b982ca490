import { expect, it } from 'vitest'
import { ValueBudget } from '../../src/kernel/limits/value-budget.ts'

const listOf = (values: number) => JSON.stringify(Array(values - 1).fill(0))
const typeOf = (fault: { type: string } | null) => fault?.type ?? null

it('is shared by all texts of a request', () => {
  const budget = new ValueBudget(100)
  expect(typeOf(budget.check(listOf(60), 9))).toBeNull()
  expect(typeOf(budget.check(listOf(60), 9))).toBe('too_many_values')
  expect(typeOf(budget.check('0', 9))).toBe('too_many_values')
  expect(budget.take(1)).toBe(false)
})

it('has room for five times as many values that stay texts as for those that are built', () => {
  expect(typeOf(new ValueBudget(100).checkBeforeParse(listOf(20), 9))).toBeNull()
  expect(typeOf(new ValueBudget(100).checkBeforeParse(listOf(21), 9))).toBe('too_many_values')
  expect(typeOf(new ValueBudget(100).check(listOf(100), 9))).toBeNull()
})

it('loses nothing to a text that is not parsed', () => {
  const budget = new ValueBudget(100)
  expect(typeOf(budget.checkBeforeParse(listOf(21), 9))).toBe('too_many_values')
  expect(typeOf(budget.checkBeforeParse('[[0]]', 1))).toBe('too_deep')
  expect(typeOf(budget.checkBeforeParse(listOf(20), 9))).toBeNull()
})
