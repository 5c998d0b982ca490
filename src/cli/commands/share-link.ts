// `slipway share link`: makes a link by which people without an account see a protected deployment.
import { type BypassFlags, createBypass } from '../bypasses.ts'
import type { Declaration } from '../declaration.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'make a link for people without an account',
  options: command =>
    command
      .requiredOption('--for <who>', 'who gets it, so that you know it in the list')
      .option('--expires-in <time>', 'how long it works, such as 12h or 7d', '7d'),
}

export async function run(session: Session, flags: BypassFlags, [name]: [string?]): Promise<void> {
  const { out } = session
  const { secret, url, ...link } = await createBypass(session, 'link', flags, name)
  out.note('This link is shown only now. Everyone who has it sees the deployment.')
  out.emit({ ...link, url, secret }, () => url ?? `${secret} (the deployment serves nothing yet)`)
}
