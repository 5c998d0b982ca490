// Runs work that yields between its slices to its end.
import type { SlicedWork } from '../../src/kernel/limits/background-cpu.ts'

/** `onStep` gets the operations of each step. */
export function runAtOnce<Result>(work: SlicedWork<Result>, onStep = (_operations: number) => {}): Result {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
    onStep(step.value)
  }
}
