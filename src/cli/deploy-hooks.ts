// The deploy hooks of a deployment, and one of them by its name or id.
import type { Item } from '../client/client.ts'
import { findOne } from './find.ts'
import type { Deployment, Session } from './session.ts'

export type DeployHook = Item<'GET /v2/deployments/{deployment_id}/deploy-hooks'>

export const readDeployHooks = ({ client, signal }: Session, { id }: Deployment) =>
  client.list('GET /v2/deployments/{deployment_id}/deploy-hooks', { params: { deployment_id: id }, signal })

export const findDeployHook = (session: Session, deployment: Deployment, wanted: string): Promise<DeployHook> =>
  findOne(readDeployHooks(session, deployment), wanted, {
    kind: 'deploy hook',
    code: 'deploy_hook_not_found',
    names: one => [one.name],
    list: `slipway hooks list ${deployment.name}`,
  })
