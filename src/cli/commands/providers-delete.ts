// `slipway providers delete`: deletes an OAuth provider with its connections.
import type { Reply } from '../../client/client.ts'
import type { Declaration } from '../declaration.ts'
import { findOne } from '../find.ts'
import { confirm, type Session } from '../session.ts'

export const declaration: Declaration = { arguments: '<provider>', summary: 'delete one, with its connections' }

type Provider = Reply<'GET /v2/auth/providers'>[number]

export async function run(session: Session, _: object, [wanted]: [string]): Promise<void> {
  const { client, out, signal } = session
  const providers = await client.call('GET /v2/auth/providers', { signal })
  const names = (one: Provider) => [one.provider_id]
  const about = { kind: 'OAuth provider', code: 'provider_not_found', names, list: 'slipway providers list' }
  const { provider_id } = await findOne(providers, wanted, about)
  const next = `slipway providers delete ${provider_id} --yes`
  await confirm(session, `Delete the OAuth provider ${provider_id} and the connections of all its people?`, next)
  await client.call('DELETE /v2/auth/providers/{provider_id}', { params: { provider_id }, signal })
  out.emit({ type: 'result', outcome: 'deleted', provider_id }, () => `Deleted the OAuth provider ${provider_id}.`)
}
