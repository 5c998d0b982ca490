// The questions of a job and the answers so far (pure). A question without an answer becomes a call.

import type { Context } from './cluster-questions.ts'
import type { RunFacts } from './cluster-stats.ts'
import { JobFault } from './job-fault.ts'
import { boundaryOf, type Question } from './question.ts'
import type { Summary } from './summary-question.ts'

/** One call. An answer has been read and cleaned before it was stored; one that did not fit has failed. */
export type Step = { state: 'answered'; answer: unknown } | { state: 'failed'; answer: string; fault: string }
export type Steps = Map<string, Step>

export type RunSummary = Summary & { facts: RunFacts }
/** A run that was deleted has no summary. */
export type SummaryAnswer = RunSummary | { is_gone: true }

export type PlannedCall = {
  key: string
  boundary: string
  /** The answer to the same question that did not fit, and why. */
  repairs?: { answer: string; fault: string }
} & ({ run: string; question?: undefined } | { run?: undefined; question: Question<unknown> })

export class Script {
  readonly calls: PlannedCall[] = []
  readonly #job: { id: string; user_context?: Context['user_context'] }
  readonly #steps: Steps

  constructor(job: { id: string; user_context?: Context['user_context'] }, steps: Steps) {
    this.#job = job
    this.#steps = steps
  }

  /** Undefined until there is an answer. */
  ask<Value>(key: string, toQuestion: (context: Context) => Question<Value>): Value | undefined {
    const found = this.#find(key)
    if (found.state === 'answered') return found.answer as Value
    if (found.state === 'failed')
      throw new JobFault(
        `The model gave no usable answer to \`${key.split('/')[0]}\`, also when asked again: ` +
          `${found.fault.replace(/\.$/, '')}. Use another model.`,
      )
    const { boundary } = found.call
    const question = toQuestion({ boundary, user_context: this.#job.user_context })
    this.calls.push({ ...found.call, question })
  }

  /** The text explains why both answers were unusable. */
  askAboutRun(run: string): SummaryAnswer | string | undefined {
    const found = this.#find(`summary/${run}`)
    if (found.state === 'answered') return found.answer as SummaryAnswer
    if (found.state === 'failed') return found.fault
    this.calls.push({ ...found.call, run })
  }

  /** A question is asked a second time if the first answer does not fit. */
  #find(key: string) {
    const boundary = boundaryOf(this.#job.id, key)
    const first = this.#steps.get(key)
    if (!first) return { state: 'open' as const, call: { key, boundary } }
    if (first.state === 'answered') return first
    const second = this.#steps.get(`${key}/repair`)
    return second ?? { state: 'open' as const, call: { key: `${key}/repair`, boundary, repairs: first } }
  }
}
