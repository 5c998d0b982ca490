// `slipway previews list`: the previews of a deployment.
import type { Item } from '../../client/client.ts'
import type { Declaration } from '../declaration.ts'
import { type Deployment, findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = { arguments: '[deployment]', summary: 'list them' }

export type Preview = Item<'GET /v2/deployments/{deployment_id}/previews'>

export async function run(session: Session, _: object, [name]: [string?]): Promise<void> {
  const deployment = await findDeployment(session, name)
  const previews: Preview[] = []
  for await (const preview of readPreviews(session, deployment)) previews.push(preview)
  const columns = {
    pull: (one: Preview) => one.number,
    branch: (one: Preview) => one.branch,
    state: (one: Preview) => one.state,
    revision: (one: Preview) => one.revision_status,
    commit: (one: Preview) => one.head_sha?.slice(0, 8),
    url: (one: Preview) => one.url,
  }
  session.out.table(previews, columns, `${deployment.name} has no previews.`)
}

export const readPreviews = ({ client, signal }: Session, { id }: Deployment) =>
  client.list('GET /v2/deployments/{deployment_id}/previews', { params: { deployment_id: id }, signal })
