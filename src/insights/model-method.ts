// The method that calls models: summaries of runs, then clusters and their names, then the report.
import type { Ctx } from '../kernel/context.ts'
import { fail } from '../kernel/errors.ts'
import type { ClaimedJob, StepOutcome } from './claimed-job.ts'

/** Each answer is stored before the next call. */
export async function takeModelStep(_ctx: Ctx, _job: ClaimedJob): Promise<StepOutcome> {
  throw fail('not_configured')
}
