// `slipway hooks list`: the deploy hooks of a deployment.

import type { Declaration } from '../declaration.ts'
import { type DeployHook, readDeployHooks } from '../deploy-hooks.ts'
import { age } from '../output.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = { arguments: '[deployment]', summary: 'list them, without their URLs' }

export async function run(session: Session, _: object, [name]: [string?]): Promise<void> {
  const deployment = await findDeployment(session, name)
  const hooks: DeployHook[] = []
  for await (const hook of readDeployHooks(session, deployment)) hooks.push(hook)
  const columns = {
    name: (one: DeployHook) => one.name,
    refs: (one: DeployHook) => one.refs.join(', ') || null,
    used: (one: DeployHook) => (one.last_used_at === null ? 'never' : age(one.last_used_at)),
    made: (one: DeployHook) => age(one.created_at),
    id: (one: DeployHook) => one.id,
  }
  session.out.table(hooks, columns, `${deployment.name} has no deploy hooks.`)
}
