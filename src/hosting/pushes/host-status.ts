// The words and links with which a git host shows a revision (pure).
import type { Config } from '../../env.ts'
import type { RevisionPhase, StatusState } from '../git-hosts/githost.ts'

const PHASES: Record<string, RevisionPhase> = {
  CREATING: 'queued',
  QUEUED: 'queued',
  AWAITING_BUILD: 'queued',
  DEPLOYED: 'success',
  SKIPPED: 'skipped',
  CREATE_FAILED: 'failure',
  BUILD_FAILED: 'failure',
  DEPLOY_FAILED: 'failure',
  INTERRUPTED: 'error',
  UNKNOWN: 'error',
}
export const phaseOf = (status: string): RevisionPhase => PHASES[status] ?? 'in_progress'

/** A commit that is not deployed any more must not stay pending: a required check would block it. */
const COMMIT_STATES: Record<RevisionPhase, StatusState> = {
  queued: 'pending',
  in_progress: 'pending',
  success: 'success',
  skipped: 'success',
  failure: 'failure',
  error: 'error',
}
export const commitStateOf = (status: string): StatusState => COMMIT_STATES[phaseOf(status)]

/** The name of the commit status. Previews have the name alone, on the same commit. */
export const statusContext = (deployment_name: string): string => `slipway/${deployment_name}/deploy`

const SHORT_SHA_LENGTH = 7
export const shortSha = (sha: string): string => sha.slice(0, SHORT_SHA_LENGTH)

/** A page of the dashboard. Null where the installation does not know its own address. */
export const dashboardUrl = ({ publicUrl }: Pick<Config, 'publicUrl'>, tenant_id: string, path: string) =>
  publicUrl === undefined ? null : `${publicUrl}/ui/${tenant_id}${path}`

export const logPath = (deployment_id: string, revision_id: string): string =>
  `/deployments/${deployment_id}/logs?revision=${revision_id}`
