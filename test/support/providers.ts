// OAuth providers as the database has them.
import { sql } from 'drizzle-orm'
import { sealer } from '../../src/kernel/crypto.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
import { opened } from '../../src/oauth/rows.ts'
import { type Tenant, theApp } from './app.ts'

/** The row with its secrets, as whoever speaks to its server has it. */
export async function rowOf({ organization_id }: Tenant, provider_id: string) {
  const query = sql`select provider_id, client_secret, registration_access_token from oauth_providers
    where organization_id = ${organization_id}::uuid and provider_id = ${provider_id}`
  const [[row]] = (await runAsSystem(theApp().database, query)) as [[(string | null)[]]]
  const [, client_secret, registration_access_token] = row as [string, string | null, string | null]
  return opened(sealer(theApp().config.sealingKeys), { provider_id, client_secret, registration_access_token })
}
