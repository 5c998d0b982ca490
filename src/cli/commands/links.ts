// `link` and `unlink`: which deployment this folder belongs to.
import { createOutput } from '../output.ts'
import { findDeployment, type GlobalOptions, type Session } from '../session.ts'
import { readLink, removeLink, writeLink } from '../settings.ts'

export async function linkFolder(session: Session, name: string): Promise<void> {
  const deployment = await findDeployment(session, name)
  writeLink(process.cwd(), { url: session.client.url, deployment_id: deployment.id, name: deployment.name })
  session.out.emit({ type: 'result', outcome: 'linked', name }, () => `This folder is linked to ${deployment.name}.`)
}

export function unlinkFolder(options: GlobalOptions): void {
  const link = readLink(process.cwd())
  removeLink(process.cwd())
  createOutput({ json: options.json === true }).emit({ type: 'result', outcome: 'unlinked', name: link?.name }, () =>
    link ? `This folder is no longer linked to ${link.name}.` : 'This folder was not linked.',
  )
}
