// States in words, with the shape and tone that go with them (pure).
import type { Reply } from '../../client/client.ts'

export type Deployment = Reply<'GET /v2/deployments/{deployment_id}'>
export type Revision = Reply<'GET /v2/deployments/{deployment_id}/revisions/{revision_id}'>
export type Summary = NonNullable<Deployment['summary']>
export type Explanation = Reply<'GET /v2/deployments/{deployment_id}/explain'>

export type Tone = 'ok' | 'busy' | 'warn' | 'bad' | 'idle'
/** The outline of the glyph. Shapes stay apart without color. */
export type Shape =
  | 'check'
  | 'arc'
  | 'queued'
  | 'octagon'
  | 'triangle'
  | 'held'
  | 'diamond'
  | 'minus'
  | 'struck'
  | 'ring'
export type State = { word: string; tone: Tone; shape: Shape }

const REVISION_STATES: Record<Revision['status'], State> = {
  CREATING: { word: 'Waiting for a source', tone: 'busy', shape: 'queued' },
  QUEUED: { word: 'Queued', tone: 'busy', shape: 'queued' },
  AWAITING_BUILD: { word: 'Waiting to build', tone: 'busy', shape: 'queued' },
  BUILDING: { word: 'Building', tone: 'busy', shape: 'arc' },
  AWAITING_DEPLOY: { word: 'Waiting to deploy', tone: 'busy', shape: 'queued' },
  DEPLOYING: { word: 'Deploying', tone: 'busy', shape: 'arc' },
  DEPLOYED: { word: 'Deployed', tone: 'ok', shape: 'check' },
  CREATE_FAILED: { word: 'Source failed', tone: 'bad', shape: 'octagon' },
  BUILD_FAILED: { word: 'Build failed', tone: 'bad', shape: 'octagon' },
  DEPLOY_FAILED: { word: 'Deploy failed', tone: 'bad', shape: 'octagon' },
  SKIPPED: { word: 'Skipped', tone: 'idle', shape: 'struck' },
  INTERRUPTED: { word: 'Interrupted', tone: 'idle', shape: 'minus' },
  UNKNOWN: { word: 'State unknown', tone: 'warn', shape: 'diamond' },
}

export const stateOfRevision = ({ status }: Pick<Revision, 'status'>): State => REVISION_STATES[status]

export const isInFlight = ({ status }: Pick<Revision, 'status'>): boolean => REVISION_STATES[status].tone === 'busy'

const PROBLEMS: Record<string, string> = { crash_looping: 'Crash loop', unhealthy: 'Unhealthy' }

/** `latest` is needed only where the latest revision does not serve. */
export function stateOfDeployment(
  {
    status,
    serving,
    health,
    hold,
  }: Pick<Deployment, 'status' | 'serving' | 'hold'> & Partial<Pick<Deployment, 'health'>>,
  latest?: Pick<Revision, 'status'>,
): State {
  if (status === 'AWAITING_DELETE') return { word: 'Deleting', tone: 'idle', shape: 'minus' }
  if (status === 'UNKNOWN') return { word: 'State unknown', tone: 'warn', shape: 'diamond' }
  if (status === 'AWAITING_DATABASE') return { word: 'Creating the database', tone: 'busy', shape: 'queued' }
  const problem = health && PROBLEMS[health.state]
  if (problem) return { word: problem, tone: 'bad', shape: 'triangle' }
  if (latest && latest.status !== 'DEPLOYED') return stateOfRevision(latest)
  if (serving === 'none') return { word: 'Not serving', tone: 'idle', shape: 'minus' }
  if (health?.state === 'degraded') return { word: 'Degraded', tone: 'warn', shape: 'triangle' }
  if (hold) return { word: 'Serving, rolled back', tone: 'warn', shape: 'held' }
  if (health?.state === 'sleeping') return { word: 'Sleeping', tone: 'idle', shape: 'ring' }
  if (status === 'UNUSED') return { word: 'Serving, unused', tone: 'idle', shape: 'ring' }
  return { word: 'Serving', tone: 'ok', shape: 'check' }
}
