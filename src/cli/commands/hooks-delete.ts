// `slipway hooks delete`: ends the URL of a deploy hook.

import type { Declaration } from '../declaration.ts'
import { findDeployHook } from '../deploy-hooks.ts'
import { confirm, findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <hook>',
  summary: 'delete one, by name or id: its URL ends',
}

export async function run(session: Session, _: object, [name, wanted]: [string | undefined, string]): Promise<void> {
  const { client, out, signal } = session
  const deployment = await findDeployment(session, name)
  const hook = await findDeployHook(session, deployment, wanted)
  const question = `Delete the deploy hook ${hook.name} of ${deployment.name}? Its URL ends.`
  await confirm(session, question, `slipway hooks delete ${deployment.name} ${hook.name} --yes`)
  const params = { deployment_id: deployment.id, hook_id: hook.id }
  await client.call('DELETE /v2/deployments/{deployment_id}/deploy-hooks/{hook_id}', { params, signal })
  out.emit({ type: 'deploy_hook', id: hook.id, name: hook.name, deleted: true }, () => `${hook.name} is deleted.`)
}
