// `slipway delete`: deletes a deployment.
import { finish } from '../change.ts'
import type { Declaration } from '../declaration.ts'
import { confirm, findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = { arguments: '<deployment>', summary: 'delete a deployment' }

export async function run(session: Session, _: object, [name]: [string]): Promise<void> {
  const { client, signal } = session
  const deployment = await findDeployment(session, name)
  const question = `Delete ${deployment.name}, its revisions, variables and logs? This cannot be undone.`
  await confirm(session, question, `slipway delete ${deployment.name} --yes`)
  await client.call('DELETE /v2/deployments/{deployment_id}', { params: { deployment_id: deployment.id }, signal })
  finish(session, deployment, 'deleted')
}
