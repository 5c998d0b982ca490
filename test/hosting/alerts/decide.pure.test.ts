import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type AlertState,
  type Condition,
  calmMs,
  decide,
  holds,
  isOver,
  OK,
  type Sample,
} from '../../../src/hosting/alerts/decide.ts'
import { endOfWindow, mutedUntil } from '../../../src/hosting/alerts/mute-windows.ts'

const condition = (members: Partial<Condition> = {}): Condition => ({
  operator: 'above',
  threshold: 5,
  clearThreshold: 2,
  forMs: 0,
  resolveAfterMs: 300_000,
  ...members,
})

/** Values at intervals of ten seconds. Returns the actions with the number of their sample. */
function play(rule: Condition, values: (number | null)[], stepMs = 10_000) {
  let state: AlertState = OK
  const actions: [index: number, action: 'open' | 'resolve'][] = []
  const states = values.map((value, i) => {
    const decision = decide(rule, state, { at: i * stepMs, value })
    state = decision.state
    if (decision.action) actions.push([i, decision.action])
    return decision
  })
  return { actions, states, state }
}

describe('a condition on samples', () => {
  it('opens at once, or after it has held for a time', () => {
    expect(play(condition(), [1, 9]).actions).toEqual([[1, 'open']])
    expect(play(condition({ forMs: 20_000 }), [9, 9, 9]).actions).toEqual([[2, 'open']])
    expect(play(condition({ forMs: 20_000 }), [9, 1, 9, 9]).actions).toEqual([])
  })

  it('is over only beyond its clear threshold, for long enough', () => {
    const rule = condition({ resolveAfterMs: 20_000 })
    expect(play(rule, [9, 4, 4, 4, 4]).actions).toEqual([[0, 'open']])
    expect(play(rule, [9, 2, 2, 2]).actions).toEqual([
      [0, 'open'],
      [3, 'resolve'],
    ])
    expect(play(rule, [9, 2, 3, 2, 2]).actions).toEqual([[0, 'open']])
  })

  it('has to be over for longer each time that it comes back', () => {
    const rule = condition({ resolveAfterMs: 20_000 })
    const { state } = play(rule, [9, 1, 9, 1, 9])
    expect(state).toMatchObject({ phase: 'firing', relapses: 2 })
    expect(calmMs(rule, state)).toBe(80_000)
    // An hour of flapping every 20 seconds is one incident.
    const values = Array.from({ length: 360 }, (_, i) => (Math.floor(i / 2) % 2 === 0 ? 9 : 0))
    expect(play(rule, values).actions).toEqual([[0, 'open']])
  })

  it('neither opens nor is over while nothing is known', () => {
    expect(play(condition({ operator: 'below' }), [null, null]).actions).toEqual([])
    const rule = condition({ resolveAfterMs: 10_000 })
    expect(play(rule, [9, null, null, null]).actions).toEqual([[0, 'open']])
    expect(play(rule, [9, 1, null, null, 1]).actions.at(-1)).toEqual([4, 'resolve'])
  })

  it('opens only with a value that says enough', () => {
    expect(decide(condition(), OK, { at: 0, value: 9, isEnough: false }).action).toBeNull()
  })

  it('stays dismissed until it is over', () => {
    const dismissed: AlertState = { ...OK, phase: 'dismissed' }
    expect(decide(condition(), dismissed, { at: 0, value: 9 })).toMatchObject({
      action: null,
      state: { phase: 'dismissed' },
    })
    expect(decide(condition(), dismissed, { at: 0, value: 1 }).state.phase).toBe('ok')
  })

  const anyCondition = fc.record({
    operator: fc.constantFrom<Condition['operator'][]>('above', 'below'),
    threshold: fc.integer({ min: 4, max: 6 }),
    clearThreshold: fc.constant(5),
    forMs: fc.constantFrom(0, 15_000, 60_000),
    resolveAfterMs: fc.constantFrom(0, 20_000, 300_000),
  })
  const anyValues = fc.array(fc.option(fc.integer({ min: 0, max: 10 }), { nil: null }), { maxLength: 60 })

  it('opens and resolves in turns, for what holds and is over at that time', () => {
    fc.assert(
      fc.property(anyCondition, anyValues, (given, values) => {
        const least = given.operator === 'above' ? Math.min : Math.max
        const rule = { ...given, clearThreshold: least(given.clearThreshold, given.threshold) }
        const { actions, states } = play(rule, values)
        for (const [turn, [index, action]] of actions.entries()) {
          expect(action).toBe(turn % 2 === 0 ? 'open' : 'resolve')
          const value = values[index]!
          expect(action === 'open' ? holds(rule, value) : isOver(rule, value)).toBe(true)
        }
        for (const [i, { state, dueAt }] of states.entries()) {
          if (state.phase === 'pending' || state.phase === 'clearing') expect(dueAt).toBeGreaterThan(i * 10_000)
          expect(state.since === null).toBe(state.phase !== 'pending' && state.phase !== 'clearing')
        }
      }),
      { numRuns: 300 },
    )
  })

  it('comes to the same, whatever is repeated', () => {
    fc.assert(
      fc.property(anyValues, values => {
        let state: AlertState = OK
        for (const [i, value] of values.entries()) {
          const sample: Sample = { at: i * 10_000, value }
          const first = decide(condition(), state, sample)
          expect(decide(condition(), first.state, sample).action).toBeNull()
          state = first.state
        }
      }),
      { numRuns: 100 },
    )
  })
})

describe('a mute', () => {
  const at = (text: string) => Date.parse(text)
  const weekly = { days: ['fri' as const], from: '22:00', until: '06:00', time_zone: 'Europe/Berlin' }
  const nights = { starts_at: null, ends_at: null, weekly }

  it('covers the hours of its days in its time zone, over midnight', () => {
    // 22:30 of a Friday in Berlin, and 5:59 of the Saturday.
    const end = at('2026-11-28T05:00:00Z')
    expect(endOfWindow(nights, at('2026-11-27T21:30:00Z'))).toBe(end)
    expect(endOfWindow(nights, at('2026-11-28T04:59:00Z'))).toBe(end)
    expect(endOfWindow(nights, end)).toBeNull()
    expect(endOfWindow(nights, at('2026-11-28T21:30:00Z'))).toBeNull()
  })

  it('ends with its time, or never, and is one with those that follow', () => {
    const first = { starts_at: '2026-11-30T10:00:00Z', ends_at: '2026-11-30T11:00:00Z', weekly: null }
    const second = { starts_at: '2026-11-30T11:00:00Z', ends_at: '2026-11-30T12:00:00Z', weekly: null }
    expect(mutedUntil([second, first], at('2026-11-30T10:30:00Z'))).toBe(at('2026-11-30T12:00:00Z'))
    expect(mutedUntil([first], at('2026-11-30T11:00:00Z'))).toBeNull()
    const forever = { starts_at: null, ends_at: null, weekly: null }
    expect(mutedUntil([first, forever], at('2026-11-30T10:30:00Z'))).toBe(Number.POSITIVE_INFINITY)
  })
})
