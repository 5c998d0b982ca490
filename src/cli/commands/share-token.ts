// `slipway share token`: makes a token by which a machine passes the protection of a deployment.
import { type BypassFlags, createBypass } from '../bypasses.ts'
import type { Declaration } from '../declaration.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'make a token for machines, for the header X-Slipway-Bypass',
  options: command =>
    command
      .requiredOption('--for <what>', 'which machine gets it, so that you know it in the list')
      .option('--expires-in <time>', 'how long it works, such as 30d. Default: until it is revoked'),
}

export async function run(session: Session, flags: BypassFlags, [name]: [string?]): Promise<void> {
  const { out } = session
  const { url: _, secret, ...token } = await createBypass(session, 'token', flags, name)
  out.note('This token is shown only now. Keep it secret.')
  out.emit({ ...token, secret }, () => secret)
}
