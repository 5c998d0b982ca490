// The steps of a first deployment, those ahead included (pure).
import type { Deployment, Revision } from '../../format/state.ts'
import { listStages } from '../deployments/pipeline.ts'

export type Step = {
  name: 'Upload' | 'Waiting' | 'Building' | 'Deploying' | 'Answering'
  state: 'done' | 'running' | 'failed' | 'ahead'
  seconds: number
  since: string | undefined
}

const BUILT: Deployment['source'][] = ['githost', 'internal_source']
const ENDED: Revision['status'][] = ['SKIPPED', 'INTERRUPTED']

export const awaitsFiles = (deployment: Pick<Deployment, 'source'>, revision: Pick<Revision, 'status'>): boolean =>
  deployment.source === 'internal_source' && revision.status === 'CREATING'

export const hasFailed = ({ status }: Pick<Revision, 'status'>): boolean =>
  status.endsWith('_FAILED') || ENDED.includes(status)

export function listSteps(
  deployment: Pick<Deployment, 'source' | 'active_revision_id' | 'url'>,
  revision: Pick<Revision, 'id' | 'status' | 'states'>,
): Step[] {
  const ahead = (name: Step['name']): Step => ({ name, state: 'ahead', seconds: 0, since: undefined })
  const isWaitingForFiles = awaitsFiles(deployment, revision)
  const stages = isWaitingForFiles ? [] : listStages(revision, [])
  const names: Step['name'][] = [
    'Waiting',
    ...(BUILT.includes(deployment.source) ? ['Building' as const] : []),
    'Deploying',
  ]
  const isServing = deployment.active_revision_id === revision.id && deployment.url !== null
  return [
    ...(deployment.source === 'internal_source'
      ? [{ ...ahead('Upload'), state: isWaitingForFiles ? ('running' as const) : ('done' as const) }]
      : []),
    ...names.map((name): Step => {
      const stage = stages.find(one => one.name === name)
      return stage ? { name, state: stage.state, seconds: stage.seconds, since: stage.since } : ahead(name)
    }),
    { ...ahead('Answering'), state: isServing ? 'done' : 'ahead' },
  ]
}
