// Runs work against an integration's git host outside of a request, and stores a token minted on the way.
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../../kernel/db/db.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { setTokenColumns } from './credentials.ts'
import type { Githost, Integration } from './githost.ts'
import { createGithost } from './githost-factory.ts'

type HostCaller = { services: Services; origin: string }

export async function withHost<T>(
  { services, origin }: HostCaller,
  row: Integration,
  work: (host: Githost) => Promise<T>,
) {
  const host = createGithost(services, origin, row)
  try {
    return await work(host)
  } finally {
    const minted = host.mintedToken()
    if (minted) {
      const assignments = await setTokenColumns(services.sealer, row, minted)
      const statement = sql`update integrations i set ${assignments} where i.id = ${row.id}::uuid`
      await runAsSystem(services.database, statement)
    }
  }
}
