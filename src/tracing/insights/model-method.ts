// The method that calls models: summaries of runs, then clusters and their names, then the report. Answers are in
// `insight_steps`, and `planJob()` derives the next questions from them.

import { derivedUuid } from '../../kernel/crypto/digest.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { Failure } from '../../kernel/http/errors.ts'
import { type Answered, callModel } from './call-model.ts'
import { type ClaimedJob, MODEL_CALL_MS, type StepOutcome } from './claimed-job.ts'
import type { RunFacts } from './cluster-stats.ts'
import { type PlannedJob, type Progress, planJob } from './model-plan.ts'
import type { PlannedCall, Step, Steps } from './model-script.ts'
import { readModelState, storeResult, storeStep } from './model-state.ts'
import type { Question } from './question.ts'
import { type RunValues, readRunValues } from './run-values.ts'
import { askForSummary, promptOf, type SummaryRequest } from './summary-question.ts'

export const MAX_CONCURRENT = 8
/** The limit of a plan, so that a model without sense is found out soon. */
const MAX_CALLS = 100
/** Runs that are read at once, so that long payloads do not add up. */
const PAGE = 20

/** Asks until the deadline. Each answer is stored before its caller asks for another one. */
export async function takeModelStep(ctx: Ctx, job: ClaimedJob, deadline: number): Promise<StepOutcome> {
  const { runs, steps } = await readModelState(ctx, job)
  do {
    const plan = planJob(job as PlannedJob, runs, steps)
    if ('result' in plan) {
      await storeResult(ctx, job, plan.result)
      return 'done'
    }
    await makeCalls(new JobCalls(ctx, job, steps, plan.calls.slice(0, MAX_CALLS), plan.progress), deadline)
  } while (Date.now() < deadline)
  return 'more'
}

/** No call begins after a failure, but those under way end, and their answers are stored. */
async function makeCalls(calls: JobCalls, deadline: number): Promise<void> {
  const failures: unknown[] = []
  const work = async (): Promise<void> => {
    while (failures.length === 0 && Date.now() < deadline && (await calls.makeNext()));
  }
  const stop = (error: unknown) => void failures.push(error)
  await Promise.all(Array.from({ length: MAX_CONCURRENT }, () => work().catch(stop)))
  if (failures.length > 0) throw failures[0]
}

class JobCalls {
  readonly #ctx: Ctx
  readonly #job: ClaimedJob
  readonly #steps: Steps
  readonly #open: PlannedCall[]
  readonly #progress: Progress
  readonly #pages = new Map<string, Promise<Map<string, RunValues>>>()
  readonly #gone = new AbortController()
  #stored: Promise<void> = Promise.resolve()

  constructor(ctx: Ctx, job: ClaimedJob, steps: Steps, calls: PlannedCall[], progress: Progress) {
    this.#ctx = ctx
    this.#job = job
    this.#steps = steps
    this.#open = [...calls]
    this.#progress = progress
  }

  /** False once no call is open. */
  async makeNext(): Promise<boolean> {
    const call = this.#open.shift()
    if (!call) return false
    if (call.run === undefined) await this.#ask(call, call.question, this.#job.cluster_configuration_id!)
    else await this.#askAboutRun(call, call.run)
    return true
  }

  async #askAboutRun(call: PlannedCall, id: string): Promise<void> {
    const found = (await this.#readRun(id)).get(id)
    if (!found) return this.#store(call, { state: 'answered', answer: { is_gone: true } }, null)
    const question = askForSummary(this.#job.request as SummaryRequest, found.values, call.boundary)
    await this.#ask(call, question, this.#job.summary_configuration_id!, found.facts)
  }

  /** The run and those that come next are read together. */
  #readRun(id: string): Promise<Map<string, RunValues>> {
    if (!this.#pages.has(id)) {
      const next = this.#open.slice(0, PAGE - 1).flatMap(({ run }) => run ?? [])
      const ids = [id, ...next]
      const page = readRunValues(this.#ctx, this.#job, ids, promptOf(this.#job.request))
      for (const one of ids) this.#pages.set(one, page)
    }
    const page = this.#pages.get(id)!
    this.#pages.delete(id)
    return page
  }

  async #ask(
    call: PlannedCall,
    question: Question<unknown>,
    configuration_id: string,
    facts?: RunFacts,
  ): Promise<void> {
    const { id, lease, session_id } = this.#job
    const asked = callModel(this.#ctx, {
      configuration_id,
      actor: id,
      about: session_id,
      question,
      repairs: call.repairs,
      idempotency_key: derivedUuid(`insights ${id} ${call.key}`),
      // Another worker's call is a run of its own: one may have failed, and the next one not.
      run_id: derivedUuid(`insights ${id} ${call.key} ${lease}`),
      metadata: { insight_job: id, insight_step: call.key, session_id },
      signal: AbortSignal.any([this.#gone.signal, AbortSignal.timeout(MODEL_CALL_MS)]),
    })
    const answered = await asked.catch((error: unknown) => this.#readRefusal(call, error))
    await this.#store(call, toStep(answered, facts), answered.completion)
  }

  /** A model refuses some traces for their contents. If it has answered nothing yet, it refuses the job. */
  #readRefusal(call: PlannedCall, error: unknown): Answered {
    const isRefusal = error instanceof Failure && error.code === 'model_call_failed'
    const hasAnswered = [...this.#steps.values()].some(({ state }) => state === 'answered')
    if (call.run === undefined || !isRefusal || !hasAnswered) throw error
    return { completion: null, answer: '', fault: `${error.extra.about}.` }
  }

  /** One after the other, so that the progress that is stored last is the latest. */
  async #store({ key }: PlannedCall, step: Step, completion: Answered['completion'] | null): Promise<void> {
    const stored = this.#stored.then(() => {
      this.#progress.done++
      return storeStep(this.#ctx, this.#job, { key, step, completion, progress: this.#progress })
    })
    this.#stored = stored.catch(() => this.#gone.abort())
    await stored
    this.#steps.set(key, step)
  }
}

const toStep = (answered: Answered, facts: RunFacts | undefined): Step =>
  'fault' in answered
    ? { state: 'failed', answer: answered.answer, fault: answered.fault }
    : { state: 'answered', answer: facts ? { ...(answered.value as object), facts } : answered.value }
