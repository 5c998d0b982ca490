// Previews in words (pure).
import type { Item, Reply } from '../../../client/client.ts'
import { type State, stateOfRevision } from '../../format/state.ts'
import { formatAge, formatSeconds } from '../../format/time.ts'

export type Preview = Item<'GET /v2/previews'>

const STATES: Record<Preview['state'], State> = {
  pending: { word: 'Creating', tone: 'busy', shape: 'queued' },
  awaiting_approval: { word: 'Waiting for approval', tone: 'warn', shape: 'held' },
  denied: { word: 'Forks are denied', tone: 'idle', shape: 'struck' },
  full: { word: 'Queued: limit reached', tone: 'warn', shape: 'queued' },
  failed: { word: 'Failed', tone: 'bad', shape: 'octagon' },
  live: { word: 'Serving', tone: 'ok', shape: 'check' },
  ended: { word: 'Ended', tone: 'idle', shape: 'minus' },
}

/** A commit that was just approved is created a moment later. */
export function stateOfPreview({ state, revision_status, approved_sha, head_sha }: Preview): State {
  if (state === 'awaiting_approval' && approved_sha === head_sha) return STATES.pending
  if (state !== 'live' || revision_status === null || revision_status === 'DEPLOYED') return STATES[state]
  return stateOfRevision({ status: revision_status })
}

export const needsApproval = ({ state, fork, approved_sha, head_sha }: Preview): boolean =>
  fork && approved_sha !== head_sha && ['awaiting_approval', 'full', 'live'].includes(state)

export const nameOf = ({ parent_name, number, branch }: Preview): string =>
  number === null ? `${parent_name} ${branch}` : `${parent_name} #${number}`

export const describeExpiry = ({ state, expires_at }: Preview, now: number): string => {
  if (state === 'ended') return '–'
  const seconds = (Date.parse(expires_at) - now) / 1000
  return seconds <= 0 ? 'now' : `in ${formatAge(Math.max(seconds, 60))}`
}

type Database = NonNullable<Reply<'GET /v2/deployments/{deployment_id}/preview-policy'>['database']>
export const describeDatabase = (database: Database): string => {
  if (database.mode !== 'copy') return database.mode
  return database.from_deployment_id
    ? `copy of that of ${database.from_deployment_id}`
    : 'copy of that of this deployment'
}

/** Days, hours or minutes of a policy. */
export function describeTtl(seconds: number): string {
  const days = seconds / 86_400
  return Number.isInteger(days) ? `${days} ${days === 1 ? 'day' : 'days'}` : formatSeconds(seconds)
}

export type Matrix = { branches: string[]; parents: { id: string; name: string }[]; at: Map<string, Preview> }
export const cellOf = (branch: string, parent: string): string => `${parent} ${branch}`

/** Branches by deployments. Of several pull requests of a branch, the newest that has not ended. */
export function toMatrix(previews: Preview[]): Matrix {
  const at = new Map<string, Preview>()
  const parents = new Map<string, string>()
  for (const preview of previews) {
    const { branch, parent_deployment_id, parent_name } = preview
    const cell = cellOf(branch, parent_deployment_id)
    const shown = at.get(cell)
    if (!shown || (shown.state === 'ended' && preview.state !== 'ended')) at.set(cell, preview)
    parents.set(parent_deployment_id, parent_name)
  }
  return {
    branches: [...new Set(previews.map(({ branch }) => branch))],
    parents: [...parents].map(([id, name]) => ({ id, name })).sort((a, b) => a.name.localeCompare(b.name)),
    at,
  }
}

const KINDS = { pull_requests: 'pull requests', branches: 'branches' } as const
export const describeKinds = (kinds: (keyof typeof KINDS)[]): string =>
  kinds.map(kind => KINDS[kind]).join(' and ') || 'only on request'

/** Secrets of the deployment. */
export const describeInherited = (kinds: (keyof typeof KINDS)[], names: string[]): string =>
  [
    ...(kinds.includes('pull_requests') ? ['all by pull requests of the repository'] : []),
    `${names.join(', ') || 'none'} by branches and requests`,
  ].join('; ')

type Existing = { compared_at: string | null; previews: number; left: number }
/** The previews of branches that existed when the policy was set. */
export const describeExisting = ({ compared_at, previews, left }: Existing): string => {
  if (compared_at === null) return 'not compared yet'
  const made = `${previews} got a preview`
  return left > 0 ? `${made}; ${left} get one with their next push: there was no room` : made
}

/** The simplest policy. */
export const policyCommand = (deployment: string): string =>
  `echo '{"branches": ["**"]}' | slipway api PUT /v2/deployments/${deployment}/preview-policy --input -`
