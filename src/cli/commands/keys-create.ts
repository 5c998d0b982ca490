// `slipway keys create`: creates an API key, and shows it once.
import type { Declaration } from '../declaration.ts'
import { findOne } from '../find.ts'
import { collect } from '../flags.ts'
import { type KeyScope, pathOf, withScope } from '../keys.ts'
import type { Session } from '../session.ts'
import { parseDuration } from '../times.ts'

export const declaration: Declaration = {
  arguments: '<description>',
  summary: 'create one, and show it',
  options: command =>
    withScope(command)
      .option('--role <role>', 'by name or id. Default: the role of your key')
      .option('--permission <name>', 'limit it to this permission. Can be repeated', collect)
      .option('--expires-in <time>', 'how long it is valid, such as 30d. Default: forever'),
}

type Flags = KeyScope & { role?: string; permission?: string[]; expiresIn?: string }

export async function run(session: Session, options: Flags, [description]: [string]): Promise<void> {
  const { client, out, signal } = session
  const expires_in = options.expiresIn && parseDuration(options.expiresIn, '--expires-in')
  const body = {
    description,
    ...(options.role && { role_id: await findRole(session, options.role) }),
    // The server validates them, and its error lists the permissions.
    ...(options.permission && { permissions: options.permission as 'deployments:read'[] }),
    ...(expires_in && { expires_at: new Date(Date.now() + expires_in).toISOString() }),
  }
  const created = await client.call(`POST ${pathOf(options)}`, { body, signal })
  out.note('This key is shown only now. Keep it secret.')
  out.emit({ ...created }, () => created.key)
}

async function findRole({ client, signal }: Session, wanted: string): Promise<string> {
  const roles = client.list('GET /orgs/current/roles', { query: { limit: 100 }, signal })
  const names = (one: { display_name: string }) => [one.display_name]
  const about = { kind: 'role', code: 'role_not_found', names, list: 'slipway api GET /orgs/current/roles' }
  return (await findOne(roles, wanted, about)).id
}
