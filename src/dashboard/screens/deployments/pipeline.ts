// The stages of a revision with their durations, beside the median of the deployment's earlier ones (pure).
import { medianOf } from '../../format/amount.ts'
import type { Revision } from '../../format/state.ts'

type StageName = 'Waiting' | 'Building' | 'Deploying'
export type Stage = {
  name: StageName
  state: 'done' | 'running' | 'failed' | 'ahead'
  /** The sum of the finished parts. While it runs, `since` is the start of the last one. */
  seconds: number
  since: string | undefined
  median: number | undefined
}

const STAGE_OF: Partial<Record<Revision['status'], StageName>> = {
  CREATING: 'Waiting',
  QUEUED: 'Waiting',
  AWAITING_BUILD: 'Waiting',
  BUILDING: 'Building',
  AWAITING_DEPLOY: 'Waiting',
  DEPLOYING: 'Deploying',
}
const FAILED_IN: Partial<Record<Revision['status'], StageName>> = {
  BUILD_FAILED: 'Building',
  DEPLOY_FAILED: 'Deploying',
}
const STAGES: StageName[] = ['Waiting', 'Building', 'Deploying']

/** With fewer, there is no usual duration to compare with. */
const LEAST_KNOWN = 3

type Timed = Pick<Revision, 'status' | 'states'>

/** An agent reports only the failure of a revision that failed at once: it failed in the stage that it waited for. */
function partsOf({ status, states }: Timed): { stage: StageName | undefined; seconds: number }[] {
  const parts = states.map(({ status, seconds }) => ({ stage: STAGE_OF[status], seconds: seconds ?? 0 }))
  const failedIn = FAILED_IN[status]
  const last = parts.findLast(({ stage }) => stage !== undefined)
  if (failedIn && last && last.stage === 'Waiting') last.stage = failedIn
  return parts
}

const secondsIn = (revision: Timed, name: StageName): number =>
  partsOf(revision).reduce((sum, { stage, seconds }) => sum + (stage === name ? seconds : 0), 0)
const hasStage = (revision: Timed, name: StageName) => partsOf(revision).some(({ stage }) => stage === name)

export function listStages(revision: Timed, earlier: Timed[]): Stage[] {
  const deployed = earlier.filter(({ status, states }) => status === 'DEPLOYED' && states.length > 1)
  const last = revision.states.at(-1)
  const failedStage = revision.status.endsWith('_FAILED')
    ? partsOf(revision).findLast(({ stage }) => stage !== undefined)?.stage
    : undefined
  return STAGES.flatMap((name): Stage[] => {
    const known = deployed.filter(one => hasStage(one, name))
    const median = known.length < LEAST_KNOWN ? undefined : medianOf(known.map(one => secondsIn(one, name)))
    const isRunning = STAGE_OF[revision.status] === name
    if (!hasStage(revision, name)) {
      const isAhead = STAGE_OF[revision.status] !== undefined && known.length > 0
      return isAhead ? [{ name, state: 'ahead', seconds: 0, since: undefined, median }] : []
    }
    const state = isRunning ? 'running' : failedStage === name ? 'failed' : 'done'
    return [{ name, state, seconds: secondsIn(revision, name), since: isRunning ? last?.since : undefined, median }]
  })
}

/** Noticeably slower than usual: a second and a quarter more. */
export const isSlow = (seconds: number, median: number | undefined): boolean =>
  median !== undefined && seconds > median * 1.25 && seconds - median > 1
