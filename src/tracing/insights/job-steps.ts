// Runs the jobs, step by step: a worker claims a job, takes steps until its share of the time ends, and leaves the rest
// to the next one. Each result of a step is stored once.
import { type SQL, sql } from 'drizzle-orm'
import { backoffSeconds } from '../../kernel/db/outbox.ts'
import { runWorkerPool } from '../../kernel/db/worker-pool.ts'
import { detailOf } from '../../kernel/http/codes.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { Failure, fail } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import {
  actAsJob,
  type ClaimedJob,
  claimJob,
  LeaseLostError,
  MAX_JOB_MINUTES,
  releaseJob,
  type StepOutcome,
} from './claimed-job.ts'
import { JobFault } from './job-fault.ts'
import { selectRuns } from './select-runs.ts'

const MAX_CONCURRENT = 4
const SHARE_MS = 25_000
/** Claims in a row that stored nothing. */
const MAX_ATTEMPTS = 5
/** A repeat would fail in the same way. */
const FINAL_CODES = [
  'model_required',
  'model_not_found',
  'model_proxy_off',
  'model_url_not_allowed',
  'model_budget_spent',
  'model_call_failed',
  'upstream_redirected',
  'blocked_url',
  'filter_invalid',
  'project_not_found',
]

/** The condition is on jobs `j`. */
export async function workOnJobs(services: Services, condition: SQL = sql`true`): Promise<void> {
  await runWorkerPool({
    maxConcurrent: MAX_CONCURRENT,
    stopping: services.platform.stopping,
    claim: () => claimJob(services, condition),
    work: job => workOnJob(services, job, Date.now() + SHARE_MS),
  })
}

async function workOnJob(services: Services, job: ClaimedJob, deadline: number): Promise<void> {
  const ctx = actAsJob(services, job)
  try {
    // The worker of the last attempt died, or the job waited too long.
    if (job.attempts > MAX_ATTEMPTS) return await endJob(ctx, job, 'Its workers stopped without a result.')
    if (job.is_late) return await endJob(ctx, job, `It took longer than ${MAX_JOB_MINUTES} minutes.`)
    let outcome: StepOutcome = 'more'
    const { stopping } = services.platform
    while (outcome === 'more' && Date.now() < deadline && !stopping?.aborted)
      outcome = await takeStep(ctx, job, deadline)
    if (outcome === 'done') return await endJob(ctx, job, null)
    await releaseJob(ctx, job, [sql`leased_until = clock()`, sql`attempts = 0`])
  } catch (error) {
    if (error instanceof LeaseLostError) return
    await storeFailure(ctx, job, error).catch(cause => logFailure(ctx, job, cause))
  }
}

async function takeStep(ctx: Ctx, job: ClaimedJob, deadline: number): Promise<StepOutcome> {
  if (job.method === 'model' && !(job.summary_configuration_id && job.cluster_configuration_id)) {
    throw fail('model_required', { about: job.request.model })
  }
  if (job.num_runs === null) return selectRuns(ctx, job)
  if (job.num_runs === 0) return 'done'
  if (job.method === 'lexical') return (await import('./lexical-method.ts')).takeLexicalStep(ctx, job)
  return (await import('./model-method.ts')).takeModelStep(ctx, job, deadline)
}

/** Answers of models have gone into the result. */
const DELETE_STEPS = sql`deleted as (
      delete from insight_steps s
      using job j
      where s.job_id = j.id and s.tenant_id = j.tenant_id
    )`

const endJob = (ctx: Ctx, job: ClaimedJob, error: string | null): Promise<void> =>
  releaseJob(
    ctx,
    job,
    [
      sql`status = ${error === null ? 'success' : 'error'}`,
      sql`error = ${error}`,
      sql`finished_at = clock()`,
      sql`attempts = 0`,
    ],
    [DELETE_STEPS],
  )

/** If this fails, the lease ends and the job is claimed again. */
async function storeFailure(ctx: Ctx, job: ClaimedJob, error: unknown): Promise<void> {
  if (error instanceof JobFault) return endJob(ctx, job, error.message)
  logFailure(ctx, job, error)
  const isFinal = error instanceof Failure && FINAL_CODES.includes(error.code)
  if (isFinal || job.attempts >= MAX_ATTEMPTS) return endJob(ctx, job, describe(error))
  const wait = sql`leased_until = clock() + ${backoffSeconds(job.attempts, error)} * interval '1 second'`
  await releaseJob(ctx, job, [wait])
}

const logFailure = ({ platform }: Ctx, { id }: ClaimedJob, error: unknown): void =>
  platform.log({ level: 'warn', insight_job: id, error: 'step failed', message: String(error) })

/** Words for people. Other errors say too much. */
const describe = (error: unknown): string =>
  error instanceof Failure
    ? (error.extra.detail ?? detailOf(error.code, error.extra.about || undefined))
    : 'An internal error. The log of the server says more.'
