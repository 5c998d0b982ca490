// `slipway previews approve`: gives the commit of a fork the secrets of previews.
import type { Declaration } from '../declaration.ts'
import { CommandFailure, EXIT } from '../failure.ts'
import { confirm, type Deployment, findDeployment, type Session } from '../session.ts'
import { type Preview, readPreviews } from './previews-list.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <number>',
  summary: 'approve the commit of a fork',
}

/** Approves the commit that is shown in the question, and fails if the pull request has moved on. */
export async function run(session: Session, _: object, [name, number]: [string | undefined, string]): Promise<void> {
  const deployment = await findDeployment(session, name)
  const preview = await findPreview(session, deployment, number)
  const head_sha = preview.head_sha!
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

async function findPreview(session: Session, deployment: Deployment, number: string): Promise<Preview> {
  for await (const preview of readPreviews(session, deployment)) if (`${preview.number}` === number) return preview
  const message = `${deployment.name} has no preview of pull request ${number}.`
  throw new CommandFailure(EXIT.failed, 'preview_not_found', message, `slipway previews list ${deployment.name}`)
}
