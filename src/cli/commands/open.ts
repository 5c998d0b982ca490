// `slipway open`: the URL of a deployment.
import { openInBrowser } from '../browser.ts'
import type { Declaration } from '../declaration.ts'
import { CommandFailure, EXIT } from '../failure.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'print the URL, and open it in a browser',
}

export async function run(session: Session, _: object, [name]: [string?]): Promise<void> {
  const { out } = session
  const { name: found, url } = await findDeployment(session, name)
  if (!url) {
    const message = `${found} has no URL yet.`
    throw new CommandFailure(EXIT.failed, 'no_url', message, `slipway explain ${found}`)
  }
  out.emit({ name: found, url }, () => url)
  if (out.isInteractive) openInBrowser(url)
}
