// Decides from the counts since a step began whether a revision goes on to the next one, stays or fails. Pure.
import { ROLLOUT_BOUNDS_MS } from './latency-histogram.ts'
import type { GateJudgement, ReportedRollout, WorkRollout } from './rollout.schema.ts'
import { type Judged, judgeErrors, judgeLatency } from './rollout-gates.ts'

/** The latencies by `ROLLOUT_BOUNDS_MS`, and one more above the last. */
export type SideCounts = { requests: number; failed: number; latencies: number[] }
export type StepCounts = { canary: SideCounts; serving: SideCounts; restarts: number; seconds: number }

export const NO_ANSWERS: SideCounts = {
  requests: 0,
  failed: 0,
  latencies: Array(ROLLOUT_BOUNDS_MS.length + 1).fill(0),
}

export function judgeStep(
  { minutes, requests: least, errors, latency, restarts }: WorkRollout,
  counts: StepCounts,
): Pick<ReportedRollout, 'outcome' | 'requests' | 'gates'> {
  const { canary, serving } = counts
  const gates: GateJudgement[] = []
  if (errors) {
    const tallies = [canary, serving].map(({ requests, failed }) => ({ count: requests, bad: failed }))
    const judged = judgeErrors(tallies[0]!, tallies[1]!, { ...errors, least })
    gates.push({ gate: 'errors', ...judged, message: compare(judged, 'failed') })
  }
  if (latency) {
    const rule = { ...latency, least, bounds: ROLLOUT_BOUNDS_MS }
    const judged = judgeLatency(canary.latencies, serving.latencies, rule)
    const slow = judged.slower_than_ms === null ? 'slow' : `slower than ${round(judged.slower_than_ms)} ms`
    gates.push({ gate: 'latency', ...judged, message: compare(judged, slow) })
  }
  if (restarts) {
    const verdict = counts.restarts > restarts.most ? 'failed' : 'passed'
    const message = `Its copies restarted ${counts.restarts} times. Allowed: ${restarts.most}.`
    gates.push({ gate: 'restarts', verdict, canary: { count: canary.requests, value: counts.restarts }, message })
  }
  const isPassed = gates.every(({ verdict }) => verdict === 'passed')
  const isLongEnough = counts.seconds >= minutes * 60 && canary.requests >= least
  const isFailed = gates.some(({ verdict }) => verdict === 'failed')
  return {
    outcome: isFailed ? 'failed' : isPassed && isLongEnough ? 'passed' : 'holds',
    requests: canary.requests,
    gates,
  }
}

/** The status message of the revision, from its failed gates. */
export const describeFailure = (gates: GateJudgement[], share: number): string =>
  `Sent back at ${share} % of the requests. ${gates
    .filter(({ verdict }) => verdict === 'failed')
    .map(({ message }) => message)
    .join(' ')}`

function compare({ canary, serving }: Judged, word: string): string {
  const of = ({ count, value }: Judged['canary'], word: string) =>
    value === null ? 'none yet' : `${round(value * 100)} % of ${count}${word}`
  return `Its requests: ${of(canary, ` ${word}`)}. Those of the serving revision meanwhile: ${of(serving, '')}.`
}
const round = (value: number): number => Math.round(value * 100) / 100
