// The state of a git host integration in words, with what to do about it (pure).
import type { Reply } from '../../../client/client.ts'
import type { State } from '../../format/state.ts'

export type Integration = Reply<'GET /v1/integrations/forge/githost/{integration_id}'>

const STATES: Record<Integration['state'], State> = {
  active: { word: 'Connected', tone: 'ok', shape: 'check' },
  suspended: { word: 'Suspended', tone: 'warn', shape: 'held' },
  revoked: { word: 'Revoked', tone: 'bad', shape: 'octagon' },
}
const LIMITED: State = { word: 'Limited', tone: 'warn', shape: 'triangle' }
const UNVERIFIED: State = { word: 'Unverified', tone: 'warn', shape: 'held' }
export function stateOfIntegration({ state, problem, ssh }: Pick<Integration, 'state' | 'problem' | 'ssh'>): State {
  if (state === 'active' && problem) return LIMITED
  return state === 'active' && ssh?.state === 'unverified' ? UNVERIFIED : STATES[state]
}

export const HOST_NAMES: Record<Integration['host'], string> = {
  github: 'GitHub',
  gitlab: 'GitLab',
  gitea: 'Gitea',
  forgejo: 'Forgejo',
  git: 'Git server',
}

const FORGE_SCOPES = 'the scopes read:user, write:repository and write:issue'
export const TOKEN_NEEDS: Record<Exclude<Integration['host'], 'github'>, string> = {
  gitlab: 'the scope api',
  gitea: FORGE_SCOPES,
  forgejo: FORGE_SCOPES,
  git: 'the right to read the repository',
}

const REFUSED_WORK = {
  repository: 'to read a repository',
  webhook: 'to make a webhook',
  notification: 'to write comments and commit statuses',
  deployment: 'to write checks and Deployments',
} as const

/** Explains the effect of a state on deployments, and the remedy at the host. */
export function explainState({
  state,
  host,
  problem,
  ssh,
}: Pick<Integration, 'state' | 'host' | 'problem' | 'ssh'>): string | undefined {
  if (state === 'active' && problem && ssh) return problem.message
  if (state === 'active' && problem) {
    const grants =
      host === 'github'
        ? 'Grant the App this permission at GitHub, and accept it there for the account.'
        : `The token needs ${TOKEN_NEEDS[host]}. Replace it.`
    return `The host refuses ${REFUSED_WORK[problem.work]}: ${problem.message}. ${grants}`
  }
  if (state === 'active') return undefined
  if (state === 'suspended')
    return (
      'An administrator of the account suspended the app at the host. Serving revisions keep serving, but ' +
      'pushes do not deploy. Resume the app in the account settings at the host, then check again.'
    )
  const effect = 'Serving revisions keep serving, but pushes do not deploy.'
  return host === 'github'
    ? `The app was uninstalled at the host. ${effect} Connect the same account again to continue with the deployments.`
    : `The host refuses the access token. ${effect} Replace the token to continue with the existing deployments.`
}

/** The webhook of the operator's App has no id. */
export const hasOwnCredentials = ({ id, webhook_url }: Pick<Integration, 'id' | 'webhook_url'>): boolean =>
  webhook_url.includes(id)

/** No key helps an App that was uninstalled or suspended. */
export const isReplaceable = (integration: Integration): boolean =>
  hasOwnCredentials(integration) &&
  integration.ssh === null &&
  (integration.host !== 'github' || integration.state === 'active')

export const accountUrl = ({ host, base_url, name }: Pick<Integration, 'host' | 'base_url' | 'name'>): string =>
  host === 'git' ? base_url : `${base_url}/${encodeURIComponent(name)}`

export const describeDeliveries = ({ host }: Pick<Integration, 'host'>): string =>
  host === 'github'
    ? 'To see and redeliver webhook deliveries, open the settings of the app at GitHub, under Advanced.'
    : 'To see and redeliver webhook deliveries, open the webhook in the repository or account at the host.'
