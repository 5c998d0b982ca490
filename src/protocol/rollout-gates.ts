// Judges a canary by its counts and those of the revision that serves beside it, at any number of looks. Pure.
// docs/design/rollout.md has the tests, their error probabilities and figures.

type Rule = {
  /** The smallest difference that matters. */
  margin: number
  /** The probability that a canary which is no worse fails, at any number of looks. */
  alpha: number
  /** With fewer the canary does not pass. */
  least: number
}
type Side = { count: number; value: number | null }
export type Judged = {
  verdict: 'undecided' | 'passed' | 'failed'
  canary: Side
  serving: Side
  /** The probability at most of such counts, at any time, if the canary is no worse. */
  p: number
}

// ---- errors

/** The number of requests, and of the bad ones among them. */
export type Tally = { count: number; bad: number }

/** Bad are answers of 500 and above, and requests that no copy accepted. The values are their shares. */
export function judgeErrors(canary: Tally, serving: Tally, rule: Rule): Judged {
  const isGood = excessOf(canary, serving) <= rule.margin
  return {
    ...verdictOf(logEvidence(canary, serving, rule.margin), isGood && canary.count >= rule.least, rule),
    canary: { count: canary.count, value: shareOf(canary) },
    serving: { count: serving.count, value: shareOf(serving) },
  }
}

// ---- latency

/** A longer time matters from this factor on, and from so many milliseconds. */
const SLOWER = { factor: 1.25, ms: 5 }
/** So many answers of the canary do not count, its slowest: its copies have just started, with cold caches. */
const COLD_ANSWERS = 20

/** Counts of answers by time: for each bound those up to it, and then those above the last. */
type Histogram = readonly number[]
type JudgedLatency = Judged & {
  /** The value of the canary is the share of its answers above this, and of `serving` the share above this / 1.25. */
  slower_than_ms: number | null
}

/** Compares both at each bound. The evidence is the mean over the bounds, so no bound has to be chosen. */
export function judgeLatency(
  canary: Histogram,
  serving: Histogram,
  { bounds, ...rule }: Rule & { bounds: readonly number[] },
): JudgedLatency {
  const own = countsAbove(canary)
  const other = countsAbove(serving)
  const warm = (count: number) => Math.max(0, count - COLD_ANSWERS)
  const compared = bounds.flatMap((bound, i) => {
    const still = Math.min(bound / SLOWER.factor, bound - SLOWER.ms)
    if (still < bounds[0]!) return []
    const slow = { count: warm(own[0]!), bad: warm(own[i + 1]!) }
    const beside = { count: other[0]!, bad: Math.min(other[0]!, countAbove(still, serving, other, bounds)) }
    const evidence = logEvidence(slow, beside, rule.margin)
    return [{ bound, slowAll: own[i + 1]!, beside, excess: excessOf(slow, beside), evidence }]
  })
  const worst = compared.reduce((most, each) => (each.evidence > most.evidence ? each : most))
  // Without evidence people see about the slowest twentieth.
  const slowest = compared.find(({ beside }) => (shareOf(beside) ?? 0) <= 0.05) ?? compared.at(-1)!
  const shown = worst.evidence > -Infinity ? worst : slowest
  const isGood = compared.every(({ excess }) => excess <= rule.margin)
  return {
    ...verdictOf(logMean(compared.map(({ evidence }) => evidence)), isGood && own[0]! >= rule.least, rule),
    canary: { count: own[0]!, value: shareOf({ count: own[0]!, bad: shown.slowAll }) },
    serving: { count: other[0]!, value: shareOf(shown.beside) },
    slower_than_ms: shown.bound,
  }
}

/** At `i` those above the bound before it: all of them at 0. */
function countsAbove(histogram: Histogram): number[] {
  const sums = [...histogram]
  for (let i = sums.length - 2; i >= 0; i--) sums[i]! += sums[i + 1]!
  return sums
}

/** Answers above a time between two bounds, as if the logarithms of their times were spread evenly there. */
function countAbove(ms: number, histogram: Histogram, above: number[], bounds: readonly number[]): number {
  const next = bounds.findIndex(bound => bound >= ms)
  const [low, high] = [bounds[next - 1] ?? 0, bounds[next]!]
  const part = ms === high || low === 0 ? 0 : Math.log(high / ms) / Math.log(high / low)
  return above[next + 1]! + part * histogram[next]!
}

// ---- scores

/** Scores have any scale, and larger ones are better. */
export type Scores = { count: number; mean: number; variance: number }

/** `least` is asked of both. The values are the means. */
export function judgeScores(canary: Scores, serving: Scores, rule: Rule): Judged {
  const isEnough = Math.min(canary.count, serving.count) >= Math.max(rule.least, 2)
  const worse = serving.mean - canary.mean - rule.margin
  return {
    ...verdictOf(isEnough ? logEvidenceOfMeans(canary, serving, worse) : -Infinity, isEnough && worse <= 0, rule),
    canary: { count: canary.count, value: canary.count > 0 ? canary.mean : null },
    serving: { count: serving.count, value: serving.count > 0 ? serving.mean : null },
  }
}

/** A mixture of likelihood ratios of normal means, over differences of about half a standard deviation. */
function logEvidenceOfMeans(canary: Scores, serving: Scores, worse: number): number {
  // Few scores of the canary may all be equal, so it is taken to vary at least as much as the other.
  const spread = Math.max(canary.variance, serving.variance)
  if (spread === 0) return worse > 0 ? Infinity : -Infinity
  const error = spread / canary.count + serving.variance / serving.count
  const prior = spread / 4
  const z = worse * Math.sqrt(prior / (error * (error + prior)))
  return Math.log(2 * Math.sqrt(error / (error + prior))) + (z * z) / 2 + logNormalCdf(z)
}

/** By the bounds of Mills' ratio below -5, and else by the error function of Abramowitz and Stegun, 7.1.26. */
function logNormalCdf(z: number): number {
  if (z < -5) return -(z * z) / 2 - Math.log(-z * Math.sqrt(2 * Math.PI))
  const t = 1 / (1 + (0.3275911 * Math.abs(z)) / Math.SQRT2)
  const terms = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592]
  const tail = (terms.reduce((sum, term) => (sum + term) * t, 0) * Math.exp((-z * z) / 2)) / 2
  return Math.log(z < 0 ? tail : 1 - tail)
}

// ---- the sequential test of two shares

/** The alternatives, as parts of the way from the null hypothesis to 1. */
const ALTERNATIVES = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64]

/**
 * Evidence that the share of the canary is larger than the other by more than the margin: the logarithm of a number
 * that stays below 1 / alpha for ever with a probability of 1 - alpha, whatever two shares without such a difference
 * are true. So it is the least over the share of the other: half of it is evidence against the canary's share being
 * no larger than that and the margin, and half the same times evidence against the other's being so large.
 */
function logEvidence(canary: Tally, serving: Tally, margin: number): number {
  // There is none, and a good canary costs no time.
  if (excessOf(canary, serving) <= margin) return -Infinity
  const servingGood = { count: serving.count, bad: serving.count - serving.bad }
  const evidence = (share: number) =>
    logBet(canary, share + margin) + log1pExp(logBet(servingGood, 1 - share)) - Math.LN2
  return leastOfConvex(evidence, 0, 1 - margin)
}

/** Evidence for a larger share: the mean of ratios of likelihoods. Each falls with the share, convexly. */
function logBet({ count, bad }: Tally, share: number): number {
  const bets = ALTERNATIVES.map(
    part => bad * Math.log1p((part * (1 - share)) / share) + (count - bad) * Math.log1p(-part),
  )
  return logMean(bets)
}

// ---- numbers

const shareOf = ({ count, bad }: Tally): number | null => (count > 0 ? bad / count : null)
const excessOf = (canary: Tally, serving: Tally): number => (shareOf(canary) ?? 0) - (shareOf(serving) ?? 0)

function verdictOf(evidence: number, isGood: boolean, { alpha }: Rule): Pick<Judged, 'verdict' | 'p'> {
  const p = Math.min(1, Math.exp(-evidence))
  return { verdict: p <= alpha ? 'failed' : isGood ? 'passed' : 'undecided', p }
}

function logMean(logs: number[]): number {
  const most = Math.max(...logs)
  if (!Number.isFinite(most)) return most
  return most + Math.log(logs.reduce((sum, log) => sum + Math.exp(log - most), 0) / logs.length)
}

const log1pExp = (x: number): number => (x > 0 ? x + Math.log1p(Math.exp(-x)) : Math.log1p(Math.exp(x)))

/** The least value of a convex function, by golden sections. */
function leastOfConvex(f: (x: number) => number, from: number, to: number): number {
  const ratio = (Math.sqrt(5) - 1) / 2
  let [low, high] = [from, to]
  let [left, right] = [high - ratio * (high - low), low + ratio * (high - low)]
  let [atLeft, atRight] = [f(left), f(right)]
  for (let i = 0; i < 50; i++) {
    if (atLeft <= atRight) {
      ;[high, right, atRight] = [right, left, atLeft]
      left = high - ratio * (high - low)
      atLeft = f(left)
    } else {
      ;[low, left, atLeft] = [left, right, atRight]
      right = low + ratio * (high - low)
      atRight = f(right)
    }
  }
  return Math.min(atLeft, atRight)
}
