// `slipway previews delete`: ends a preview and deletes its deployment.
import type { Declaration } from '../declaration.ts'
import { CommandFailure, EXIT } from '../failure.ts'
import { confirm, findDeployment, type Session } from '../session.ts'
import { type Preview, readPreviews } from './previews-list.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <preview>',
  summary: 'delete one, by its branch or the number of its pull request',
}

export async function run(session: Session, _: object, [name, wanted]: [string | undefined, string]): Promise<void> {
  const { client, out, signal } = session
  const deployment = await findDeployment(session, name)
  const isWanted = ({ number, branch, state }: Preview) =>
    state !== 'ended' && (number === null ? branch === wanted : String(number) === wanted)
  let found: Preview | undefined
  for await (const preview of readPreviews(session, deployment)) if (isWanted(preview)) found = preview
  if (!found) {
    const message = `${deployment.name} has no preview ${wanted}.`
    throw new CommandFailure(EXIT.failed, 'preview_not_found', message, `slipway previews list ${deployment.name}`)
  }
  const next = `slipway previews delete ${deployment.name} ${wanted} --yes`
  await confirm(session, `Delete the preview ${wanted} of ${deployment.name}?`, next)
  const params = { deployment_id: deployment.id, number: found.id }
  await client.call('DELETE /v2/deployments/{deployment_id}/previews/{number}', { params, signal })
  out.emit({ type: 'preview', id: found.id, deleted: true }, () => 'The preview is deleted.')
}
