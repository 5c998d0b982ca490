// Actions on a deployment, each as one request.
import { type Action, request } from '../../api/actions.ts'
import { explainMissingHere } from '../../api/permissions.ts'
import type { Deployment, Revision } from '../../format/state.ts'
import { deployAsItIs, hasCommits } from './change-requests.ts'
import { openedPlan } from './opened-plan.tsx'

const refOf = ({ id }: Pick<Deployment, 'id'>) => ({ deployment_id: id })

export const deployAgain = (deployment: Deployment): Action => ({
  label: 'Deploy again',
  unavailable: explainMissingHere('deployments:update'),
  request: request('POST /v2/deployments/{deployment_id}/revisions', { params: refOf(deployment) }),
  plan: () => {
    openedPlan.value = { deployment, change: deployAsItIs(deployment) }
  },
  done: `${deployment.name}: a new revision of the current configuration is queued.`,
})

/** Only a folder or an archive can be deployed from a folder again. */
export const deployCommandOf = ({ source, name }: Deployment): string | undefined =>
  source === 'internal_source' ? `slipway deploy --name ${name}` : undefined

export const interrupt = (deployment: Deployment, { id, number }: Pick<Revision, 'id' | 'number'>): Action => ({
  label: `Interrupt r${number}`,
  unavailable: explainMissingHere('deployments:update'),
  request: request('POST /v2/deployments/{deployment_id}/revisions/{revision_id}/interruption', {
    params: { ...refOf(deployment), revision_id: id },
  }),
  command: `slipway interrupt ${deployment.name} ${number}`,
  confirm: {
    title: `Interrupt r${number} of ${deployment.name}?`,
    body: [
      'The revision stops at its current step.',
      deployment.active_revision_id === null ? 'No revision serves yet.' : 'The serving revision keeps serving.',
      ...(deployment.latest_revision_id === id ? [] : ['The next queued revision starts.']),
    ].join(' '),
  },
  done: `${deployment.name}: r${number} is interrupted.`,
})

export const releaseHold = (deployment: Deployment): Action => ({
  label: 'Release the hold',
  unavailable: explainMissingHere('deployments:update'),
  request: request('DELETE /v2/deployments/{deployment_id}/hold', { params: refOf(deployment) }),
  command: `slipway release ${deployment.name}`,
  confirm: {
    title: `Release the hold of ${deployment.name}?`,
    body: hasCommits(deployment)
      ? 'The next push deploys again. The serving revision keeps serving until then.'
      : 'The serving revision keeps serving until you deploy again.',
  },
  done: hasCommits(deployment)
    ? `${deployment.name}: pushes deploy again.`
    : `${deployment.name}: the hold is released.`,
})

export const deleteDeployment = (deployment: Deployment): Action => ({
  label: 'Delete deployment',
  unavailable: explainMissingHere('deployments:delete'),
  request: request('DELETE /v2/deployments/{deployment_id}', { params: refOf(deployment) }),
  confirm: {
    title: `Delete ${deployment.name}?`,
    body:
      'The deployment stops serving immediately. Its revisions, logs and secrets are deleted and cannot be restored. ' +
      'The tracing project and the entries in the audit log stay.',
    isDestructive: true,
    ...(deployment.active_revision_id !== null && { typed: deployment.name }),
  },
  done: `${deployment.name} is being deleted.`,
})
