// `slipway unlink`: removes the link of this folder to a deployment.
import type { Declaration } from '../declaration.ts'
import type { Session } from '../session.ts'
import { readLink, removeLink } from '../settings.ts'

export const declaration: Declaration = { summary: 'unlink this folder' }

export function run({ out }: Session): void {
  const link = readLink(process.cwd())
  removeLink(process.cwd())
  out.emit({ type: 'result', outcome: 'unlinked', name: link?.name }, () =>
    link ? `This folder is no longer linked to ${link.name}.` : 'This folder was not linked.',
  )
}
