// `slipway share revoke`: ends a share link or a bypass token.
import { awaitAgent } from '../bypasses.ts'
import type { Declaration } from '../declaration.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '<id> [deployment]',
  summary: 'revoke one, also for those who have used it',
}

export async function run(session: Session, _: object, [bypass_id, name]: [string, string?]): Promise<void> {
  const { client, out, signal } = session
  const deployment = await findDeployment(session, name)
  const params = { deployment_id: deployment.id, bypass_id }
  await client.call('DELETE /v2/deployments/{deployment_id}/bypasses/{bypass_id}', { params, signal })
  await awaitAgent(session, deployment.id)
  out.emit({ type: 'bypass', id: bypass_id, revoked: true }, () => 'It is revoked.')
}
