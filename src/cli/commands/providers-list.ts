// `slipway providers list`: the OAuth providers of the organization.
import type { Reply } from '../../client/client.ts'
import type { Declaration } from '../declaration.ts'
import { age } from '../output.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = { summary: 'list them' }

type Provider = Reply<'GET /v2/auth/providers'>[number]

export async function run({ client, out, signal }: Session): Promise<void> {
  const providers = await client.call('GET /v2/auth/providers', { signal })
  const columns = {
    id: (one: Provider) => one.provider_id,
    name: (one: Provider) => one.name,
    'mcp server': (one: Provider) => one.mcp_server_url,
    client: (one: Provider) => (one.is_dynamic_client ? 'dynamic' : one.client_id),
    created: (one: Provider) => age(one.created_at),
  }
  out.table(providers, columns, 'No OAuth providers. Create one with: slipway providers discover URL')
}
