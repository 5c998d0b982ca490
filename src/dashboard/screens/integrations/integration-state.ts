// The state of a git host integration in words, with what to do about it (pure).
import type { Reply } from '../../../client/client.ts'
import type { State } from '../../format/state.ts'

export type Integration = Reply<'GET /v1/integrations/forge/githost/{integration_id}'>

const STATES: Record<Integration['state'], State> = {
  active: { word: 'Connected', tone: 'ok', shape: 'check' },
  suspended: { word: 'Suspended', tone: 'warn', shape: 'held' },
  revoked: { word: 'Revoked', tone: 'bad', shape: 'octagon' },
}
export const stateOfIntegration = ({ state }: Pick<Integration, 'state'>): State => STATES[state]

export const HOST_NAMES: Record<Integration['host'], string> = { github: 'GitHub', gitea: 'Gitea or Forgejo' }

/** What it means for deployments, and what a person does at the host. */
export function explainState({ state, host }: Pick<Integration, 'state' | 'host'>): string | undefined {
  if (state === 'active') return undefined
  if (state === 'suspended')
    return (
      'An administrator of the account has suspended it at the host. What serves keeps serving, but pushes deploy ' +
      'nothing. Resume it in the settings of the account at the host, then check again.'
    )
  const connectAgain = 'Connect the same account again: it keeps its id, so its deployments go on.'
  return host === 'github'
    ? `The App was uninstalled at the host. What serves keeps serving, but pushes deploy nothing. ${connectAgain}`
    : `The host refuses its token. What serves keeps serving, but pushes deploy nothing. ${connectAgain}`
}

/** Where the account at the host is shown. */
export const accountUrl = ({ base_url, name }: Pick<Integration, 'base_url' | 'name'>): string =>
  `${base_url}/${encodeURIComponent(name)}`

/** Where the host lists its deliveries, and sends one again. */
export const describeDeliveries = ({ host }: Pick<Integration, 'host'>): string =>
  host === 'github'
    ? 'GitHub lists its deliveries, and sends one again, in the settings of the App, under Advanced.'
    : 'The host lists its deliveries, and sends one again, on the page of the webhook in the repository or account.'
