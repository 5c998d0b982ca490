// `slipway release`: ends the hold of a rollback.
import { finish } from '../change.ts'
import type { Declaration } from '../declaration.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = { arguments: '[deployment]', summary: 'release the hold of a rollback' }

export async function run(session: Session, _: object, [name]: [string?]): Promise<void> {
  const deployment = await findDeployment(session, name)
  const params = { deployment_id: deployment.id }
  await session.client.call('DELETE /v2/deployments/{deployment_id}/hold', { params, signal: session.signal })
  finish(session, deployment, 'released')
}
