// Decides what a sample of a rule about one subject comes to (pure). Times are milliseconds since 1970.
import type { phases } from '../../protocol/alerts.schema.ts'

type Phase = (typeof phases)[number]

export type AlertState = {
  phase: Phase
  /** When the condition began to hold (`pending`), or to be over (`clearing`). */
  since: number | null
  /** The number of times that the condition came back while it was being cleared. */
  relapses: number
  /** The last sample that had a value. */
  sampledAt: number | null
}

export type Sample = {
  at: number
  /** Null: nothing is known. That is not zero. */
  value: number | null
  /** False where the value says too little to open an incident, such as a rate of three requests. */
  isEnough?: boolean
}

export type Condition = {
  operator: 'above' | 'below'
  threshold: number
  /** The condition is over on the other side of it. Between the two, nothing changes. */
  clearThreshold: number
  forMs: number
  resolveAfterMs: number
}

export type Decision = {
  state: AlertState
  action: 'open' | 'resolve' | null
  /** When the rule has to be looked at again, without a new sample. */
  dueAt: number | null
}

export const OK: AlertState = { phase: 'ok', since: null, relapses: 0, sampledAt: null }

/** A condition that flaps has to be over for longer each time, up to this. */
const MAX_CALM_MS = 3600_000
/** A pending condition that was not measured for so long begins anew. */
const MAX_GAP_MS = 300_000
/** A look without a sample is repeated after this time. */
const RETRY_MS = 60_000

export const holds = ({ operator, threshold }: Condition, value: number): boolean =>
  operator === 'above' ? value > threshold : value < threshold
export const isOver = ({ operator, clearThreshold }: Condition, value: number): boolean =>
  operator === 'above' ? value <= clearThreshold : value >= clearThreshold

/** The time for which the condition must be over. It doubles with each relapse. */
export const calmMs = ({ resolveAfterMs }: Condition, { relapses }: AlertState): number =>
  Math.max(resolveAfterMs, Math.min(MAX_CALM_MS, resolveAfterMs * 2 ** Math.min(relapses, 12)))

export function decide(condition: Condition, state: AlertState, { at, value, isEnough = true }: Sample): Decision {
  if (value === null) return withoutValue(state, at)
  const isHolding = holds(condition, value)
  const next = { ...state, sampledAt: at }
  switch (state.phase) {
    case 'ok':
    case 'pending': {
      if (!isHolding || !isEnough) return { state: { ...OK, sampledAt: at }, action: null, dueAt: null }
      const since = state.phase === 'pending' && !isStale(state, at) ? state.since! : at
      if (at - since >= condition.forMs)
        return { state: { ...next, phase: 'firing', since: null, relapses: 0 }, action: 'open', dueAt: null }
      return { state: { ...next, phase: 'pending', since }, action: null, dueAt: since + condition.forMs }
    }
    case 'firing':
    case 'clearing': {
      if (!isOver(condition, value)) {
        const relapses = state.relapses + (state.phase === 'clearing' && isHolding ? 1 : 0)
        return { state: { ...next, phase: 'firing', since: null, relapses }, action: null, dueAt: null }
      }
      const since = state.phase === 'clearing' ? state.since! : at
      const calm = calmMs(condition, state)
      if (at - since >= calm) return { state: { ...OK, sampledAt: at }, action: 'resolve', dueAt: null }
      return { state: { ...next, phase: 'clearing', since }, action: null, dueAt: since + calm }
    }
    case 'dismissed':
      return isOver(condition, value)
        ? { state: { ...OK, sampledAt: at }, action: null, dueAt: null }
        : { state: next, action: null, dueAt: null }
  }
}

const isStale = ({ sampledAt }: AlertState, at: number): boolean => sampledAt !== null && at - sampledAt > MAX_GAP_MS

/** Nothing is known: an incident stays open, and a condition that only began to hold is forgotten in time. */
function withoutValue(state: AlertState, at: number): Decision {
  if (state.phase === 'pending' && isStale(state, at)) return { state: OK, action: null, dueAt: null }
  const isTimed = state.phase === 'pending' || state.phase === 'clearing'
  return { state, action: null, dueAt: isTimed ? at + RETRY_MS : null }
}
