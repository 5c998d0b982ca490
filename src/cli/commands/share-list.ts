// `slipway share list`: the share links and bypass tokens of a deployment.
import type { Bypass } from '../bypasses.ts'
import type { Declaration } from '../declaration.ts'
import { age } from '../output.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = { arguments: '[deployment]', summary: 'list links and tokens, newest first' }

export async function run(session: Session, _: object, [name]: [string?]): Promise<void> {
  const { client, out, signal } = session
  const deployment = await findDeployment(session, name)
  const bypasses: Bypass[] = []
  const params = { deployment_id: deployment.id }
  for await (const one of client.list('GET /v2/deployments/{deployment_id}/bypasses', { params, signal }))
    bypasses.push(one)
  const columns = {
    id: (one: Bypass) => one.id,
    kind: (one: Bypass) => one.kind,
    for: (one: Bypass) => one.description,
    made: (one: Bypass) => age(one.created_at),
    ends: (one: Bypass) => one.expires_at ?? 'never',
  }
  out.table(bypasses, columns, `${deployment.name} has no share links and no bypass tokens.`)
}
