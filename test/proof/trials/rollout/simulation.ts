// Simulates thousands of rollouts, each looked at every second: false alarms of good ones, requests that bad ones
// hurt.
import { LATENCY_BOUNDS_MS, ROLLOUT_BOUNDS_MS } from '../../../../src/protocol/latency-histogram.ts'
import { judgeErrors, judgeLatency, judgeScores, type Tally } from '../../../../src/protocol/rollout-gates.ts'
import { makeRandom } from '../../support/random.ts'
import { check, note } from '../../support/trial.ts'

const ALPHA = 0.001
const ERRORS = { margin: 0.01, alpha: ALPHA }
const LATENCY = { margin: 0.02, alpha: ALPHA }
const SCORES = { margin: 0.05, alpha: ALPHA, least: 20 }
const SHARES = [0.01, 0.1, 0.5]

const random = makeRandom(42)
const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
const between = (low: number, high: number) => low * (high / low) ** random()
const at = (numbers: number[], share: number) =>
  numbers.toSorted((a, b) => a - b)[Math.min(numbers.length - 1, Math.floor(numbers.length * share))]
const describe = (numbers: number[]) => `p50 ${at(numbers, 0.5)}, p95 ${at(numbers, 0.95)}`

type Run = { share: number; rate: number; seconds: number }
type Ended = { verdict: 'undecided' | 'passed' | 'failed'; requests: number; bad: number }
/** Draws the requests of each second and looks. Ends when it has failed, or with `isPassing` when it has passed. */
function roll(run: Run, draw: (isCanary: boolean) => boolean, look: () => Ended['verdict'], isPassing = false): Ended {
  let [requests, bad, verdict] = [0, 0, 'undecided' as Ended['verdict']]
  for (let second = 0; second < run.seconds && verdict !== 'failed'; second++) {
    for (let i = 0; i < run.rate; i++) {
      const isCanary = random() < run.share
      const isBad = draw(isCanary)
      if (isCanary) requests++
      if (isCanary && isBad) bad++
    }
    verdict = look()
    if (isPassing && verdict === 'passed') break
  }
  return { verdict, requests, bad }
}

function rollErrors(run: Run, rates: { serving: number; canary: number }, least = 100, isPassing = false): Ended {
  const canary: Tally = { count: 0, bad: 0 }
  const serving: Tally = { count: 0, bad: 0 }
  const draw = (isCanary: boolean) => {
    const isBad = random() < (isCanary ? rates.canary : rates.serving)
    const tally = isCanary ? canary : serving
    tally.count++
    if (isBad) tally.bad++
    return isBad
  }
  return roll(run, draw, () => judgeErrors(canary, serving, { ...ERRORS, least }).verdict, isPassing)
}

type Times = { median: number; noise: number; factor: number }
function rollLatency(run: Run, { median, noise, factor }: Times, bounds: readonly number[] = ROLLOUT_BOUNDS_MS): Ended {
  const canary = Array<number>(bounds.length + 1).fill(0)
  const serving = Array<number>(bounds.length + 1).fill(0)
  const draw = (isCanary: boolean) => {
    const ms = median * Math.exp(noise * normal()) * (isCanary ? factor : 1)
    let bucket = 0
    while (bucket < bounds.length && ms > bounds[bucket]!) bucket++
    const histogram = isCanary ? canary : serving
    histogram[bucket]!++
    return true
  }
  return roll(run, draw, () => judgeLatency(canary, serving, { ...LATENCY, least: 100, bounds }).verdict)
}

/** A score for each canary request, and ten times as many of the serving one. */
function rollScores(draw: (mean: number) => number, means: { serving: number; canary: number }, most: number): Ended {
  const sums = [0, 0].map(() => ({ count: 0, sum: 0, squares: 0 }))
  const add = (of: (typeof sums)[number], score: number) => {
    of.count++
    of.sum += score
    of.squares += score * score
  }
  const read = ({ count, sum, squares }: (typeof sums)[number]) => ({
    count,
    mean: count > 0 ? sum / count : 0,
    variance: count > 0 ? Math.max(0, squares / count - (sum / count) ** 2) : 0,
  })
  let verdict: Ended['verdict'] = 'undecided'
  let requests = 0
  for (; requests < most && verdict !== 'failed'; requests++) {
    add(sums[0]!, draw(means.canary))
    for (let i = 0; i < 10; i++) add(sums[1]!, draw(means.serving))
    verdict = judgeScores(read(sums[0]!), read(sums[1]!), SCORES).verdict
  }
  return { verdict, requests, bad: 0 }
}

/** `count`: how many good rollouts of each kind. */
function rollGood(name: string, count: number, run: (split: Run, i: number) => Ended): void {
  const ended = Array.from({ length: count }, (_, i) =>
    run({ share: SHARES[i % 3]!, rate: Math.round(between(1, 100)), seconds: 300 }, i),
  )
  const of = (verdict: Ended['verdict']) => ended.filter(one => one.verdict === verdict).length
  note(`${name}: ${of('failed')} false alarms of ${count}, ${of('passed')} passed, ${of('undecided')} undecided`)
  check(`${name}: fewer false alarms than stated`, of('failed') <= Math.max(1, 2 * ALPHA * count))
}

function rollBad(name: string, count: number, run: () => Ended): void {
  const ended = Array.from({ length: count }, run)
  const missed = ended.filter(({ verdict }) => verdict !== 'failed').length
  note(`${name}: requests ${describe(ended.map(one => one.requests))}, bad ${describe(ended.map(one => one.bad))}`)
  check(`${name}: each is seen`, missed === 0, `${missed} missed`)
}

export function simulateErrors(count: number): void {
  const rates = [0, 0.001, 0.01, 0.05]
  rollGood('equal errors', count, (run, i) => rollErrors(run, { serving: rates[i % 4]!, canary: rates[i % 4]! }))
  rollGood('errors 1 point more, the margin', count, (run, i) =>
    rollErrors(run, { serving: rates[i % 4]!, canary: rates[i % 4]! + ERRORS.margin }),
  )
  for (const share of [0.01, 0.1])
    for (const serving of [0, 0.001, 0.01])
      rollBad(`5 % errors, serving ${serving * 100} %, share ${share * 100} %`, 300, () =>
        rollErrors({ share, rate: 50, seconds: 12_000 }, { serving, canary: 0.05 }),
      )
  for (const least of [50, 100, 300, 1_000]) {
    const ended = Array.from({ length: 1_000 }, () =>
      rollErrors({ share: 0.1, rate: 20, seconds: 6_000 }, { serving: 0.001, canary: 0.05 }, least, true),
    )
    const through = ended.filter(({ verdict }) => verdict === 'passed').length
    note(`5 % errors pass a step of at least ${least} requests and no time: ${through} of 1000`)
  }
}

export function simulateLatency(count: number): void {
  const noises = [0.3, 0.5, 1]
  const times = (i: number, factor: number) => ({ median: between(5, 2_000), noise: noises[i % 3]!, factor })
  rollGood('equal latency', count, (run, i) => rollLatency(run, times(i, 1)))
  rollGood('latency 20 % longer', count, (run, i) => rollLatency(run, times(i, 1.2)))
  for (const share of [0.01, 0.1])
    for (const noise of [0.1, 0.3, 0.5, 1])
      rollBad(`+50 % latency, noise ${noise}, share ${share * 100} %`, Math.min(60, Math.ceil(count / 20)), () =>
        rollLatency({ share, rate: 100, seconds: 12_000 }, { median: between(20, 2_000), noise, factor: 1.5 }),
      )
  const run = { share: 0.1, rate: 100, seconds: 600 }
  const { verdict, requests } = rollLatency(run, { median: 120, noise: 0.02, factor: 1.5 }, LATENCY_BOUNDS_MS)
  note(`+50 % from 120 ms without noise, by the buckets of metrics: ${verdict} after ${requests} requests`)
}

export function simulateScores(count: number): void {
  const grade = (mean: number) => Math.min(1, Math.max(0, mean + 0.2 * normal()))
  const isRight = (mean: number) => (random() < mean ? 1 : 0)
  for (const [name, draw] of [
    ['graded scores', grade],
    ['scores 0 or 1', isRight],
  ] as const) {
    for (const mean of [0.5, 0.9, 0.98]) {
      const ended = Array.from({ length: count }, () => rollScores(draw, { serving: mean, canary: mean }, 300))
      const alarms = ended.filter(({ verdict }) => verdict === 'failed').length
      note(`${name}, equal means of ${mean}: ${alarms} false alarms of ${count}`)
      check(`${name}, equal means of ${mean}: fewer false alarms than stated`, alarms <= Math.max(1, 2 * ALPHA * count))
    }
    for (const canary of [0.8, 0.7, 0.4])
      rollBad(`${name}, 0.9 to ${canary}`, 200, () => rollScores(draw, { serving: 0.9, canary }, 5_000))
  }
}
