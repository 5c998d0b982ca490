// Decides the number of copies from a window of samples: fast up, slow down, and no flapping. Pure. Engines apply it.

export const scaleMetrics = ['fixed', 'concurrency', 'requests', 'cpu', 'memory', 'queue'] as const
/** The metrics of a process that gets no requests. */
export const processMetrics = ['queue', 'cpu', 'memory'] as const
type ScaleMetric = (typeof scaleMetrics)[number]
type Measured = Exclude<ScaleMetric, 'fixed'>

/** The load that one copy should carry: requests in flight or a second, percent of `cpu` or `memory_mb`, or tasks. */
export const SCALE_TARGETS: Record<Measured, number> = {
  concurrency: 10,
  requests: 100,
  cpu: 75,
  memory: 80,
  queue: 10,
}
/** The path at which `web` tells the number of tasks that wait. */
export const QUEUE_PATH = '/queue'
/** The most that `scale_target` may be. A percentage above 100 is never reached by memory. */
export const MAX_SCALE_TARGET = 100_000

export type ScaleRule = { metric: Measured; target: number; least: number; most: number }
/** The load of all copies together at a moment, in the unit of the target. */
export type Sample = { at: number; load: number }
type ScaleTimes = typeof SCALE_TIMES
export const SCALE_TIMES = {
  /** More copies start by the mean of so long. */
  up_ms: 3_000,
  /** Copies end only by the highest load of so long, and not sooner after the last change. */
  down_ms: 60_000,
  /** Between two steps down. */
  step_ms: 10_000,
}
/** Within this part of the target nothing changes, so that noise does not start and end copies. */
const TOLERANCE = 0.1

type Decision = { copies: number; reason: string | null }
type Present = {
  copies: number
  /** When the number last changed. */
  changedAt: number
  /** The oldest first. */
  samples: readonly Sample[]
  now: number
}

/** Without a reason, the number stays. */
export function decideCopies(rule: ScaleRule, present: Present, times: ScaleTimes = SCALE_TIMES): Decision {
  const { least, most } = rule
  const { copies, changedAt, samples, now } = present
  const bounded = Math.min(most, Math.max(least, copies))
  if (bounded !== copies)
    return { copies: bounded, reason: copies < least ? `at least ${least} are wanted` : `at most ${most} are allowed` }
  const recent = samples.filter(({ at }) => at > now - times.up_ms)
  if (recent.length > 0) {
    const load = recent.reduce((sum, sample) => sum + sample.load, 0) / recent.length
    const wanted = Math.min(most, Math.ceil(load / rule.target), Math.max(2 * copies, copies + 4))
    if (wanted > copies && load > copies * rule.target * (1 + TOLERANCE))
      return { copies: wanted, reason: describeLoad(rule, load, copies) }
  }
  const window = samples.filter(({ at }) => at > now - times.down_ms)
  const isKnown = window.length > 0 && samples[0]!.at <= now - times.down_ms
  if (!isKnown || now - changedAt < times.step_ms || copies === least) return { copies, reason: null }
  const highest = Math.max(...window.map(({ load }) => load))
  const needed = Math.max(least, Math.ceil(highest / (rule.target * (1 - TOLERANCE))))
  if (needed >= copies) return { copies, reason: null }
  const reason = `${describeLoad(rule, highest, copies)} at most in the last ${Math.round(times.down_ms / 1000)} s`
  return { copies: Math.max(needed, copies > 1 ? Math.ceil(copies / 2) : 0), reason }
}

const UNITS: Record<Measured, string> = {
  concurrency: 'requests in flight',
  requests: 'requests a second',
  cpu: 'percent of its CPU',
  memory: 'percent of its memory',
  queue: 'waiting tasks',
}
const describeLoad = ({ metric, target }: ScaleRule, load: number, copies: number): string =>
  `${Math.round((10 * load) / Math.max(1, copies)) / 10} ${UNITS[metric]}${copies > 0 ? ' per copy' : ''}, ` +
  `with a target of ${target}`

/** The samples that a later decision needs, with one that is older than all of them. */
export function keepSamples(samples: Sample[], now: number, times: ScaleTimes = SCALE_TIMES): Sample[] {
  const first = samples.findLastIndex(({ at }) => at <= now - times.down_ms)
  return first > 0 ? samples.slice(first) : samples
}
