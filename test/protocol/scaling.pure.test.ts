// The number of copies by the load: bounds, speed up and down, and no flapping, over many random loads.
import { expect, it } from 'vitest'
import { decideCopies, keepSamples, type Sample, SCALE_TIMES, type ScaleRule } from '../../src/protocol/scaling.ts'

const RULE: ScaleRule = { metric: 'concurrency', target: 10, least: 1, most: 8 }
const SECOND = 1_000

/** The copies of each second under a load. */
function follow(loads: number[], rule = RULE, from = rule.least): number[] {
  let [copies, changedAt, samples] = [from, 0, [] as Sample[]]
  return loads.map((load, i) => {
    const now = (i + 1) * SECOND
    samples = keepSamples([...samples, { at: now, load }], now)
    const decided = decideCopies(rule, { copies, changedAt, samples, now })
    expect(decided.reason === null).toBe(decided.copies === copies)
    if (decided.copies !== copies) changedAt = now
    copies = decided.copies
    return copies
  })
}
const changesOf = (all: number[], first: number) =>
  [first, ...all].filter((copies, i, list) => i && copies !== list[i - 1])
const repeat = (seconds: number, load: (i: number) => number) => Array.from({ length: seconds }, (_, i) => load(i))

/** A generator of its own, so that a failure can be repeated. */
function* randoms(seed: number): Generator<number, never> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    yield state / 2 ** 32
  }
}

it('a load that rises is met within seconds, and the copies end step by step once it is gone for a minute', () => {
  const rise = follow([...repeat(5, () => 1), ...repeat(10, () => 75), ...repeat(200, () => 0)])
  expect(rise.slice(0, 5)).toEqual([1, 1, 1, 1, 1])
  expect(rise.slice(5, 15).at(-1)).toBe(8)
  expect(rise.indexOf(8)).toBeLessThanOrEqual(9)
  expect(rise.slice(15, 15 + 59)).toEqual(Array(59).fill(8))
  expect(changesOf(rise.slice(15), 8)).toEqual([4, 2, 1])
})

it('the number stays within the bounds, at once, also where no load is known', () => {
  const noSamples = { changedAt: 0, samples: [], now: 9 * SECOND }
  expect(decideCopies(RULE, { copies: 9, ...noSamples })).toMatchObject({ copies: 8, reason: expect.any(String) })
  expect(decideCopies({ ...RULE, least: 3 }, { copies: 1, ...noSamples })).toMatchObject({ copies: 3 })
  expect(decideCopies(RULE, { copies: 4, ...noSamples })).toEqual({ copies: 4, reason: null })
  for (let seed = 1; seed <= 200; seed++) {
    const random = randoms(seed)
    const next = () => random.next().value
    const least = 1 + Math.floor(next() * 4)
    const rule = { ...RULE, least, most: least + Math.floor(next() * 8), target: 1 + Math.floor(next() * 50) }
    const copies = follow(
      repeat(300, () => next() ** 4 * 2_000),
      rule,
    )
    expect(copies.every(number => number >= rule.least && number <= rule.most)).toBe(true)
  }
})

it('under a steady load with noise of a twentieth the number changes once at most after it has settled', () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = randoms(seed)
    const mean = random.next().value * 90
    const copies = follow(repeat(600, () => mean * (0.95 + random.next().value / 10)))
    expect(changesOf(copies.slice(150), copies[149]!).length, `seed ${seed}`).toBeLessThanOrEqual(1)
    // The copies can carry it, within the tolerance.
    const carried = Math.min(RULE.most, Math.ceil(mean / (RULE.target * 1.16)))
    expect(copies.at(-1)!, `seed ${seed}`).toBeGreaterThanOrEqual(carried)
    expect(copies.at(-1)!, `seed ${seed}`).toBeLessThanOrEqual(
      Math.max(1, Math.ceil((mean * 1.05) / (RULE.target * 0.9))),
    )
  }
})

it('copies of a queue begin and end with its tasks, where the least is none', () => {
  const queue: ScaleRule = { metric: 'queue', target: 10, least: 0, most: 8 }
  const copies = follow([...repeat(5, () => 0), ...repeat(20, () => 35), ...repeat(120, () => 0)], queue)
  expect(copies.slice(0, 5)).toEqual(Array(5).fill(0))
  expect(copies[24]).toBe(4)
  expect(changesOf(copies.slice(25), 4)).toEqual([2, 1, 0])
  expect(follow([...repeat(5, () => 0), 1], queue).at(-1)).toBe(1)
})

it('a load that comes and goes each half minute keeps its copies', () => {
  const copies = follow(repeat(900, i => (Math.floor(i / 30) % 2 ? 70 : 0)))
  expect(changesOf(copies.slice(60), copies[59]!)).toEqual([])
})

it('more load never means fewer copies', () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = randoms(seed)
    const samples = repeat(90, i => i).map(i => ({ at: (i + 1) * SECOND, load: random.next().value * 100 }))
    const present = { copies: 1 + Math.floor(random.next().value * 8), changedAt: 0, now: 90 * SECOND }
    const more = samples.map(({ at, load }) => ({ at, load: load * (1 + random.next().value) }))
    const [less, much] = [samples, more].map(list => decideCopies(RULE, { ...present, samples: list }).copies)
    expect(much!, `seed ${seed}`).toBeGreaterThanOrEqual(less!)
  }
})

it('no more samples are kept than decisions need', () => {
  let samples: Sample[] = []
  for (let now = 0; now < 600 * SECOND; now += SECOND) samples = keepSamples([...samples, { at: now, load: 1 }], now)
  expect(samples.length).toBeLessThanOrEqual(SCALE_TIMES.down_ms / SECOND + 2)
})
