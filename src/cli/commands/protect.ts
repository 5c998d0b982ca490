// `slipway protect`: says who may see what a deployment serves.
import { awaitAgent } from '../bypasses.ts'
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { collect } from '../flags.ts'
import type { Session } from '../session.ts'
import { readDeployment } from '../variables.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'let only members of the workspace see it',
  options: command =>
    command
      .option('--off', 'let everyone see it')
      .option('--open <path>', 'leave this path open, or with /* all below it. Can be repeated', collect)
      .option('--close <path>', 'no longer leave it open. Can be repeated', collect),
}

type Flags = { off?: boolean; open?: string[]; close?: string[] }

export async function run(session: Session, { off, open = [], close = [] }: Flags, [name]: [string?]): Promise<void> {
  const { client, out, signal } = session
  if (off && open.length > 0) throw usageError('--off and --open exclude each other.', 'slipway protect shop --off')
  const { deployment, etag } = await readDeployment(session, name)
  const kept = deployment.protection.open_paths.filter(path => !close.includes(path))
  const body = {
    mode: off ? ('none' as const) : ('members' as const),
    open_paths: off ? [] : [...new Set([...kept, ...open])],
  }
  const params = { deployment_id: deployment.id }
  const headers = { 'If-Match': etag }
  const changed = await client.call('PUT /v2/deployments/{deployment_id}/protection', { params, body, headers, signal })
  await awaitAgent(session, changed.id)
  const paths =
    changed.protection.open_paths.length > 0 ? ` Open to all: ${changed.protection.open_paths.join(', ')}.` : ''
  out.emit({ name: changed.name, protection: changed.protection }, () =>
    off ? `Everyone may see ${changed.name}.` : `Only members of the workspace may see ${changed.name}.${paths}`,
  )
}
