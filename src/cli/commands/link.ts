// `slipway link`: which deployment this folder belongs to.
import type { Declaration } from '../declaration.ts'
import { findDeployment, type Session } from '../session.ts'
import { writeLink } from '../settings.ts'

export const declaration: Declaration = { arguments: '<deployment>', summary: 'link this folder to a deployment' }

export async function run(session: Session, _: object, [name]: [string]): Promise<void> {
  const deployment = await findDeployment(session, name)
  writeLink(process.cwd(), { url: session.client.url, deployment_id: deployment.id, name: deployment.name })
  session.out.emit({ type: 'result', outcome: 'linked', name }, () => `This folder is linked to ${deployment.name}.`)
}
