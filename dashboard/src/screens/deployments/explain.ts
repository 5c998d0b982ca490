// The reasons a deployment does not serve its latest revision, each with what a person can do (pure).
import type { Action } from '../../api/actions.ts'
import { type Deployment, type Explanation, isInFlight, type Revision, type Tone } from '../../format/state.ts'
import { deployAgain, interrupt, releaseHold } from './actions.ts'

export type Reason = { code: string; title: string; detail: string; tone: Tone; remedies: Action[] }
type Obstacle = Explanation['resources'][number]

const TITLES: Record<Obstacle['code'], [title: string, tone: Tone]> = {
  deleting: ['It is being deleted', 'idle'],
  awaiting_database: ['Its database is not ready', 'busy'],
  listener_silent: ['Its listener is silent', 'warn'],
  awaiting_artifact: ['The latest revision has no source yet', 'busy'],
  waiting_behind: ['The latest revision waits for another', 'busy'],
  in_progress: ['The latest revision is on its way', 'busy'],
  revision_failed: ['The latest revision failed', 'bad'],
  revision_skipped: ['The latest revision was skipped', 'idle'],
  revision_interrupted: ['The latest revision was interrupted', 'idle'],
  revision_unknown: ['The state of the latest revision is unknown', 'warn'],
  unhealthy: ['What serves is unhealthy', 'bad'],
  unused: ['It is unused', 'idle'],
  held_by_rollback: ['A rollback holds automatic deploys', 'warn'],
  ref_gone: ['Its branch is gone', 'warn'],
  integration_gone: ['Its integration was deleted', 'warn'],
  integration_suspended: ['Its integration is suspended', 'warn'],
  integration_revoked: ['Its integration was revoked', 'warn'],
  custom_url_unverified: ['Its own host is not verified', 'warn'],
  custom_url_lost: ['Another workspace owns its host', 'warn'],
}

const REDEPLOYED = ['revision_failed', 'revision_skipped', 'revision_interrupted', 'revision_unknown', 'unused']

export function listReasons(
  { resources }: Explanation,
  deployment: Deployment,
  inFlight: Pick<Revision, 'id' | 'number' | 'status'> | undefined,
): Reason[] {
  // What is on its way is shown with its stages.
  const shown = resources.filter(({ code }) => code !== 'in_progress')
  return shown.map(({ code, detail }) => {
    const [title, tone] = TITLES[code]
    const remedies = [
      ...(REDEPLOYED.includes(code) ? [deployAgain(deployment)] : []),
      ...(code === 'waiting_behind' && inFlight && isInFlight(inFlight) ? [interrupt(deployment, inFlight)] : []),
      ...(code === 'held_by_rollback' ? [releaseHold(deployment)] : []),
    ]
    return { code, title, detail, tone, remedies }
  })
}

/** The worst of the reasons decides how the panel looks. */
export const toneOf = (reasons: Reason[]): 'bad' | 'warn' | undefined =>
  (['bad', 'warn'] as const).find(tone => reasons.some(reason => reason.tone === tone))
