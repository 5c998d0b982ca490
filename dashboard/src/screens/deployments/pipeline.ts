// The stages of a revision with their durations, beside the median of the deployment's earlier ones (pure).
import type { Revision } from '../../format/state.ts'
import { medianOf } from '../../format/time.ts'

export type StageName = 'Waiting' | 'Building' | 'Deploying'
export type Stage = {
  name: StageName
  state: 'done' | 'running' | 'failed' | 'ahead'
  /** Of the whole parts. While it runs, `since` is the start of the last one. */
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
const STAGES: StageName[] = ['Waiting', 'Building', 'Deploying']

/** With fewer, there is no usual duration to compare with. */
const LEAST_KNOWN = 3

type Timed = Pick<Revision, 'status' | 'states'>

const secondsIn = ({ states }: Timed, stage: StageName): number =>
  states.reduce((sum, { status, seconds }) => sum + (STAGE_OF[status] === stage ? (seconds ?? 0) : 0), 0)
const hasStage = ({ states }: Timed, stage: StageName) => states.some(({ status }) => STAGE_OF[status] === stage)

export function listStages(revision: Timed, earlier: Timed[]): Stage[] {
  const deployed = earlier.filter(({ status, states }) => status === 'DEPLOYED' && states.length > 1)
  const last = revision.states.at(-1)
  const failedStage = revision.status.endsWith('_FAILED')
    ? revision.states.map(({ status }) => STAGE_OF[status]).findLast(stage => stage !== undefined)
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
