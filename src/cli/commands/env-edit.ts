// `slipway env edit`: the variables of a deployment in an editor.
import type { Declaration } from '../declaration.ts'
import { editText } from '../editor.ts'
import { readTemplate, writeTemplate } from '../env-template.ts'
import { usageError } from '../failure.ts'
import { type FollowFlags, withFollow } from '../flags.ts'
import type { Session } from '../session.ts'
import { changeVariables, readDeployment } from '../variables.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'edit them in $VISUAL or $EDITOR',
  options: command =>
    withFollow(command).option('--reveal', 'with their values; requires secrets:read, and is journaled'),
}

export async function run(session: Session, flags: FollowFlags & { reveal?: boolean }, [name]: [string?]) {
  const { client, out, options, signal } = session
  if (!out.isInteractive && !options.yes)
    throw usageError('Without a terminal, confirm with --yes.', `slipway env edit ${name ?? ''} --yes`)
  // The ETag belongs to the masked answer, so that is read before the values.
  const read = await readDeployment(session, name)
  const { id, secrets: masked } = read.deployment
  const secrets = flags.reveal
    ? (
        await client.call('GET /v2/deployments/{deployment_id}', {
          params: { deployment_id: id },
          query: { reveal: true },
          signal,
        })
      ).secrets
    : masked.map(({ name }) => ({ name, value: '' }))
  const template = writeTemplate(read.deployment.name, secrets, flags.reveal === true)
  const edited = await editText('variables.env', template, signal)
  const { set, unset, missing } = readTemplate(template, edited)
  for (const variable of missing) out.note(`${variable} has no line, so it stays. To remove it, write -${variable}=`)
  await changeVariables(session, ['edit'], read, set, unset, flags)
}
