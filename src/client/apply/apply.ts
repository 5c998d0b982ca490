// Applies a plan step by step, and stops at the first failure.

import { titleOf } from './documents.ts'
import type { Action, ApplyPlan, Done, Step } from './planner.ts'

/** A step failed. Those before it are applied, those after it are not. */
export class ApplyFailure extends Error {
  override readonly name = 'ApplyFailure'
  readonly failed: Action
  readonly applied: Action[]
  readonly left: Action[]
  constructor(cause: unknown, failed: Action, applied: Action[], left: Action[]) {
    super(`${titleOf(failed)}: ${(cause as Error).message}`, { cause })
    this.failed = failed
    this.applied = applied
    this.left = left
  }
}

export const listWrites = ({ steps }: ApplyPlan): Step[] => steps.filter(({ action }) => action !== 'nothing')

export async function* applyPlan(plan: ApplyPlan, signal?: AbortSignal): AsyncGenerator<Action & Done> {
  if (plan.faults.length > 0) throw new Error('A plan with faults cannot be applied.')
  const steps = listWrites(plan)
  for (const [i, step] of steps.entries()) {
    try {
      signal?.throwIfAborted()
      yield { ...step, ...(await step.run()) }
    } catch (cause) {
      throw new ApplyFailure(cause, step, steps.slice(0, i), steps.slice(i + 1))
    }
  }
}
