// `slipway previews`: those of a deployment, and the approval of a commit of a fork.
import type { Item } from '../../client/client.ts'
import { CommandFailure, EXIT } from '../failure.ts'
import { confirm, type Deployment, findDeployment, type Session } from '../session.ts'

type Preview = Item<'GET /v2/deployments/{deployment_id}/previews'>

export async function listPreviews(session: Session, name: string | undefined): Promise<void> {
  const deployment = await findDeployment(session, name)
  const previews: Preview[] = []
  for await (const preview of readPreviews(session, deployment)) previews.push(preview)
  const columns = {
    pull: (one: Preview) => one.number,
    state: (one: Preview) => one.state,
    commit: (one: Preview) => one.head_sha.slice(0, 8),
  }
  session.out.table(previews, columns, `${deployment.name} has no previews.`)
}

/** Approves the commit that is shown in the question, and fails if the pull request has moved on. */
export async function approvePreview(session: Session, name: string | undefined, number: string): Promise<void> {
  const deployment = await findDeployment(session, name)
  const preview = await findPreview(session, deployment, number)
  const { head_sha } = preview
  const next = `slipway previews approve ${deployment.name} ${number} --yes`
  await confirm(session, `Give the commit ${head_sha} of pull request ${number} the secrets of previews?`, next)
  const params = { deployment_id: deployment.id, number }
  const approved = await session.client.call('POST /v2/deployments/{deployment_id}/previews/{number}/approval', {
    params,
    body: { head_sha },
    signal: session.signal,
  })
  session.out.emit({ type: 'result', outcome: 'approved', ...approved }, () => `Approved ${head_sha}.`)
}

const readPreviews = ({ client, signal }: Session, { id }: Deployment) =>
  client.list('GET /v2/deployments/{deployment_id}/previews', { params: { deployment_id: id }, signal })

async function findPreview(session: Session, deployment: Deployment, number: string): Promise<Preview> {
  for await (const preview of readPreviews(session, deployment)) if (`${preview.number}` === number) return preview
  const message = `${deployment.name} has no preview of pull request ${number}.`
  throw new CommandFailure(EXIT.failed, 'preview_not_found', message, `slipway previews list ${deployment.name}`)
}
