// The judgement of canaries over many random rollouts: false alarms, requests until a bad one is seen, hostile counts.
import { expect, it } from 'vitest'
import { ROLLOUT_BOUNDS_MS } from '../../src/protocol/latency-histogram.ts'
import { judgeErrors, judgeLatency, judgeScores, type Scores, type Tally } from '../../src/protocol/rollout-gates.ts'
import { makeRandom } from '../proof/support/random.ts'

const normalFrom = (random: () => number) => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())

type Split = { share: number; rate: number; seconds: number }
/** Looks each second at two revisions that requests are drawn for. The number of its requests when it failed. */
function untilFailed(random: () => number, split: Split, draw: (isCanary: boolean) => void, isFailed: () => boolean) {
  let requests = 0
  for (let second = 0; second < split.seconds; second++) {
    for (let i = 0; i < split.rate; i++) {
      const isCanary = random() < split.share
      if (isCanary) requests++
      draw(isCanary)
    }
    if (isFailed()) return requests
  }
  return null
}

const ERRORS = { margin: 0.01, alpha: 0.001, least: 100 }
function untilErrorsSeen(
  random: () => number,
  split: Split,
  rates: { serving: number; canary: number },
  alpha = 0.001,
) {
  const canary: Tally = { count: 0, bad: 0 }
  const serving: Tally = { count: 0, bad: 0 }
  const draw = (isCanary: boolean) => {
    const of = isCanary ? canary : serving
    of.count++
    if (random() < (isCanary ? rates.canary : rates.serving)) of.bad++
  }
  return untilFailed(random, split, draw, () => judgeErrors(canary, serving, { ...ERRORS, alpha }).verdict === 'failed')
}

const LATENCY = { margin: 0.02, alpha: 0.001, least: 100, bounds: ROLLOUT_BOUNDS_MS }
const emptyHistogram = () => Array<number>(ROLLOUT_BOUNDS_MS.length + 1).fill(0)
function countTime(histogram: number[], ms: number): void {
  const bucket = ROLLOUT_BOUNDS_MS.findIndex(bound => ms <= bound)
  histogram[bucket < 0 ? ROLLOUT_BOUNDS_MS.length : bucket]!++
}
function untilSlownessSeen(random: () => number, split: Split, ms: { median: number; noise: number; factor: number }) {
  const [canary, serving] = [emptyHistogram(), emptyHistogram()]
  const draw = (isCanary: boolean) => {
    const time = ms.median * Math.exp(ms.noise * normalFrom(random))
    countTime(isCanary ? canary : serving, isCanary ? time * ms.factor : time)
  }
  return untilFailed(random, split, draw, () => judgeLatency(canary, serving, LATENCY).verdict === 'failed')
}

const median = (numbers: number[]) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)]!
const repeat = <T>(times: number, run: (seed: number) => T): T[] => Array.from({ length: times }, (_, i) => run(i + 1))

it('good revisions are failed more rarely than stated, also with the largest difference that does not matter', () => {
  const alarms = repeat(150, seed => {
    const random = makeRandom(seed)
    const serving = [0, 0.001, 0.02, 0.3][seed % 4]!
    const split = { share: [0.01, 0.1, 0.5][seed % 3]!, rate: 1 + Math.floor(random() * 50), seconds: 100 }
    return untilErrorsSeen(random, split, { serving, canary: serving + ERRORS.margin }, 0.1)
  })
  expect(alarms.filter(requests => requests !== null).length).toBeLessThanOrEqual(15)
})

it('a revision with 5 % errors hurts some hundred requests, and one where all fail at most ten', () => {
  for (const share of [0.01, 0.1]) {
    const split = { share, rate: 50, seconds: 3_000 }
    const some = repeat(8, seed => untilErrorsSeen(makeRandom(seed), split, { serving: 0.001, canary: 0.05 }))
    expect(some).not.toContain(null)
    expect(median(some.map(Number))).toBeLessThan(400)
    const all = repeat(8, seed =>
      untilErrorsSeen(makeRandom(seed), { ...split, rate: 5 }, { serving: 0.001, canary: 1 }),
    )
    expect(Math.max(...all.map(Number))).toBeLessThanOrEqual(10)
  }
})

it('a revision that takes half as long again is seen under noise, and none is that takes as long', () => {
  const split = { share: 0.2, rate: 50, seconds: 300 }
  for (const median of [15, 100, 180, 2_000]) {
    for (const seed of [1, 2, 3]) {
      expect(untilSlownessSeen(makeRandom(seed), split, { median, noise: 0.5, factor: 1.5 })).toBeLessThan(2_000)
      expect(untilSlownessSeen(makeRandom(seed), split, { median, noise: 0.5, factor: 1 })).toBeNull()
      expect(untilSlownessSeen(makeRandom(seed), split, { median, noise: 0.05, factor: 1.5 })).toBeLessThan(300)
    }
  }
})

it('milliseconds that a fast revision takes longer, and a slow part smaller than the margin, do not matter', () => {
  const split = { share: 0.1, rate: 50, seconds: 100 }
  expect(untilSlownessSeen(makeRandom(1), split, { median: 1.5, noise: 0.3, factor: 2 })).toBeNull()
  const [canary, serving] = [emptyHistogram(), emptyHistogram()]
  for (let i = 0; i < 10_000; i++) countTime(canary, i % 100 === 0 ? 900 : 20)
  for (let i = 0; i < 100_000; i++) countTime(serving, 20)
  expect(judgeLatency(canary, serving, LATENCY).verdict).toBe('passed')
  for (let i = 0; i < 500; i++) countTime(canary, 900)
  expect(judgeLatency(canary, serving, LATENCY)).toMatchObject({ verdict: 'failed', serving: { value: 0 } })
})

it('the first answers of copies that have just started may be slow', () => {
  const [canary, serving] = [emptyHistogram(), emptyHistogram()]
  for (let i = 0; i < 1_000; i++) countTime(serving, 20)
  for (let i = 0; i < 20; i++) countTime(canary, 2_000)
  expect(judgeLatency(canary, serving, LATENCY)).toMatchObject({ verdict: 'undecided', canary: { value: 1 } })
  for (let i = 0; i < 80; i++) countTime(canary, 20)
  expect(judgeLatency(canary, serving, LATENCY).verdict).toBe('passed')
  for (let i = 0; i < 20; i++) countTime(canary, 2_000)
  expect(judgeLatency(canary, serving, LATENCY).verdict).toBe('failed')
})

it('a revision passes with enough requests and no difference above the margin, and stays undecided in between', () => {
  const serving = { count: 10_000, bad: 100 }
  expect(judgeErrors({ count: 99, bad: 0 }, serving, ERRORS).verdict).toBe('undecided')
  expect(judgeErrors({ count: 100, bad: 0 }, serving, ERRORS).verdict).toBe('passed')
  expect(judgeErrors({ count: 100, bad: 3 }, serving, ERRORS).verdict).toBe('undecided')
  expect(judgeErrors({ count: 1_000, bad: 19 }, serving, ERRORS)).toMatchObject({
    verdict: 'passed',
    canary: { count: 1_000, value: 0.019 },
    serving: { count: 10_000, value: 0.01 },
  })
  const [nothing, some] = [emptyHistogram(), emptyHistogram()]
  some[20] = 500
  expect(judgeLatency(nothing, some, LATENCY)).toMatchObject({ verdict: 'undecided', canary: { value: null } })
  expect(judgeLatency(some, some, LATENCY).verdict).toBe('passed')
})

it('counts of any size have a probability, which falls with each bad answer more', () => {
  const random = makeRandom(5)
  const sizes = [0, 1, 7, 1e3, 1e6, 1e9]
  for (const count of sizes)
    for (const beside of sizes)
      for (const part of [0, 1e-4, 0.5, 1]) {
        const serving = { count: beside, bad: Math.round(beside * part) }
        const judged = [0, 0.001, 0.1, random(), 1]
          .toSorted()
          .map(bad => judgeErrors({ count, bad: Math.round(count * bad) }, serving, ERRORS).p)
        for (const [i, p] of judged.entries()) {
          expect(p).toBeGreaterThanOrEqual(0)
          expect(p).toBeLessThanOrEqual((judged[i - 1] ?? 1) + 1e-9)
        }
        const [canary, other] = [emptyHistogram(), emptyHistogram()]
        canary[Math.floor(random() * 51)] = count
        other[Math.floor(random() * 51)] = beside
        expect(judgeLatency(canary, other, LATENCY).p).toBeLessThanOrEqual(1)
      }
  expect(judgeErrors({ count: 500, bad: 500 }, { count: 0, bad: 0 }, ERRORS).verdict).toBe('undecided')
})

const SCORES = { margin: 0.05, alpha: 0.001, least: 20 }
const scoresOf = (values: number[]): Scores => {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  return {
    count: values.length,
    mean,
    variance: values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length,
  }
}

it('worse scores are seen within some dozens, of any scale, and equal ones are not failed', () => {
  const grade = (random: () => number, mean: number) => Math.min(1, Math.max(0, mean + 0.2 * normalFrom(random)))
  const isRight = (random: () => number, mean: number) => (random() < mean ? 1 : 0)
  let alarms = 0
  for (const draw of [grade, isRight])
    for (const seed of repeat(12, seed => seed)) {
      const random = makeRandom(seed)
      const serving = Array.from({ length: 500 }, () => draw(random, 0.9))
      const good: number[] = []
      const bad: number[] = []
      for (let looks = 0; looks < 100; looks++) {
        good.push(draw(random, 0.9))
        bad.push(draw(random, 0.4))
        if (judgeScores(scoresOf(good), scoresOf(serving), SCORES).verdict === 'failed') alarms++
        const scaled = (values: number[]) => scoresOf(values.map(value => value * 100 - 1_000))
        const { verdict } = judgeScores(scaled(bad), scaled(serving), { ...SCORES, margin: 5 })
        if (bad.length >= 60) expect(verdict).toBe('failed')
        if (bad.length < 20) expect(verdict).toBe('undecided')
        if (bad.length > 60) bad.pop()
      }
    }
  expect(alarms).toBe(0)
})

it('scores that are all equal, or few, are no reason to fail without a difference', () => {
  const equal = (count: number, mean: number): Scores => ({ count, mean, variance: 0 })
  expect(judgeScores(equal(30, 1), equal(900, 1), SCORES).verdict).toBe('passed')
  expect(judgeScores(equal(30, 1), equal(19, 1), SCORES).verdict).toBe('undecided')
  expect(judgeScores(equal(30, 0.5), equal(900, 1), SCORES)).toMatchObject({
    verdict: 'failed',
    canary: { value: 0.5 },
  })
  expect(judgeScores(equal(0, 0), equal(0, 0), SCORES)).toMatchObject({ verdict: 'undecided', canary: { value: null } })
})
