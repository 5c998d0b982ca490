// The reasons a deployment does not serve its latest revision, each with what a person can do (pure).
import type { Action } from '../../api/actions.ts'
import type { Deployment, Explanation, Revision, Tone } from '../../format/state.ts'
import { deployAgain, interrupt, releaseHold } from './actions.ts'
import { hasCommits } from './change-requests.ts'

type Obstacle = Explanation['resources'][number]
/** Done at once, or in another screen. */
export type Remedy = { action: Action } | { label: string; to: string }
export type Reason = {
  code: Obstacle['code']
  /** The kind of its subject, such as `Listener`. */
  about: string
  title: string
  detail: string
  tone: Tone
  remedies: Remedy[]
}

const TITLES: Record<Obstacle['code'], [title: string, tone: Tone]> = {
  deleting: ['The deployment is being deleted', 'idle'],
  awaiting_database: ['The database is not ready', 'busy'],
  listener_silent: ['The listener is silent', 'warn'],
  awaiting_artifact: ['The latest revision has no source yet', 'busy'],
  waiting_behind: ['The latest revision is queued behind another', 'busy'],
  in_progress: ['The latest revision is in progress', 'busy'],
  revision_failed: ['The latest revision failed', 'bad'],
  revision_skipped: ['The latest revision was skipped', 'idle'],
  revision_interrupted: ['The latest revision was interrupted', 'idle'],
  revision_unknown: ['The state of the latest revision is unknown', 'warn'],
  crash_looping: ['The serving revision is in a crash loop', 'bad'],
  degraded: ['Fewer copies are healthy than wanted', 'warn'],
  unhealthy: ['The serving revision is unhealthy', 'bad'],
  sleeping: ['The deployment sleeps', 'idle'],
  unused: ['The deployment is unused', 'idle'],
  held_by_rollback: ['A rollback holds automatic deploys', 'warn'],
  held_by_rollout: ['A failed rollout holds automatic deploys', 'warn'],
  ref_gone: ['The branch was deleted', 'warn'],
  integration_gone: ['The git host was disconnected', 'warn'],
  integration_suspended: ['The git host connection is suspended', 'warn'],
  integration_revoked: ['The git host connection was revoked', 'warn'],
  integration_limited: ['The git host refuses a part of the work', 'warn'],
  repository_unreadable: ['The repository cannot be read', 'warn'],
  webhook_missing: ['The repository has no webhook', 'warn'],
  custom_url_unverified: ['The custom domain is not verified', 'warn'],
  custom_url_lost: ['The custom domain belongs to another workspace', 'warn'],
}

function aboutOf({ code, revision_id, listener_id, integration_id }: Obstacle, revisions: NumberedRevision[]): string {
  const number = revisions.find(({ id }) => id === revision_id)?.number
  if (number !== undefined) return `Revision r${number}`
  if (listener_id) return 'Listener'
  if (integration_id || code === 'ref_gone') return 'Git host'
  if (code.startsWith('custom_url')) return 'Host'
  return 'Deployment'
}

type NumberedRevision = Pick<Revision, 'id' | 'number' | 'status'>

function toRemedies(obstacle: Obstacle, deployment: Deployment, revisions: NumberedRevision[]): Remedy[] {
  const page = `/deployments/${deployment.id}`
  const { listener_id, integration_id } = obstacle
  return obstacle.remedies.flatMap(({ action, revision_id }): Remedy[] => {
    const revision = revisions.find(({ id }) => id === revision_id)
    if (action === 'redeploy') return [{ action: deployAgain(deployment) }]
    if (action === 'release_hold') return [{ action: releaseHold(deployment) }]
    if (action === 'interrupt') return revision ? [{ action: interrupt(deployment, revision) }] : []
    if (action === 'view_logs') return [{ label: 'Read the log', to: `${page}/logs?revision=${revision_id}` }]
    if (action === 'compare') {
      const to = `${page}/compare?from=${deployment.active_revision_id}&to=${revision_id}`
      return [{ label: 'Compare with the serving revision', to }]
    }
    if (action === 'edit_environment') return [{ label: 'Edit the environment', to: `${page}/environment` }]
    if (action === 'upload_source')
      return [
        {
          label: deployment.source === 'internal_source' ? 'Upload a folder' : 'Open the settings',
          to: `${page}/settings`,
        },
      ]
    if (action === 'set_ref' || action === 'verify_host')
      return [{ label: 'Open the settings', to: `${page}/settings` }]
    if (action === 'open_listener' && listener_id)
      return [{ label: 'Open the listener', to: `/listeners/${listener_id}` }]
    if (action === 'open_integration' && integration_id)
      return [{ label: 'Open the git host', to: `/integrations/${integration_id}` }]
    return []
  })
}

export function listReasons(
  { resources }: Explanation,
  deployment: Deployment,
  revisions: NumberedRevision[],
): Reason[] {
  // The stages show a revision in progress.
  const shown = resources.filter(({ code }) => code !== 'in_progress')
  return shown.map(obstacle => {
    const { code } = obstacle
    const detail = describe(obstacle, deployment)
    const [title, tone] = TITLES[code]
    const remedies = toRemedies(obstacle, deployment, revisions)
    return { code, about: aboutOf(obstacle, revisions), title, detail, tone, remedies }
  })
}

/** The details of some obstacles name a request. A person does it on this page. */
function describe({ code, detail }: Obstacle, deployment: Deployment): string {
  if (code === 'held_by_rollback') return describeHold(deployment)
  if (code === 'awaiting_artifact' && deployment.source === 'internal_source')
    return `Upload its folder, or run \`slipway deploy --name ${deployment.name}\` in it.`
  return detail
}

function describeHold(deployment: Deployment): string {
  if (!hasCommits(deployment)) return 'The hold lasts until you release it. You can still deploy manually.'
  return deployment.hold?.until === 'newer_commit'
    ? 'Pushes deploy again when a newer commit arrives, or when you release the hold.'
    : 'Pushes deploy again when you release the hold.'
}

/** The worst of the reasons decides how the panel looks. */
export const toneOf = (reasons: Reason[]): 'bad' | 'warn' | undefined =>
  (['bad', 'warn'] as const).find(tone => reasons.some(reason => reason.tone === tone))
