import { describe, expect, it } from 'vitest'
import { isSampled } from '../../../src/tracing/rules/sampling.ts'

const traces = Array.from({ length: 5000 }, (_, i) => `00000000-0000-4000-8000-${String(i).padStart(12, '0')}`)
const taken = (rule: string, rate: number) => traces.filter(trace => isSampled(rule, trace, rate))

describe('a sample of traces', () => {
  it.each([0.01, 0.25, 0.5, 0.99])('has about the part %f of them', rate => {
    expect(Math.abs(taken('rule', rate).length / traces.length - rate)).toBeLessThan(0.02)
  })

  it('is none at 0, and all at 1', () => {
    expect([taken('rule', 0).length, taken('rule', 1).length]).toEqual([0, traces.length])
  })

  it('is the same each time, another one for another rule, and grows with the rate', () => {
    expect(taken('rule', 0.5)).toEqual(taken('rule', 0.5))
    expect(taken('rule', 0.5)).not.toEqual(taken('other', 0.5))
    const larger = new Set(taken('rule', 0.6))
    expect(taken('rule', 0.5).every(trace => larger.has(trace))).toBe(true)
  })
})
