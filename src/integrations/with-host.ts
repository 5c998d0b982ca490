// An integration's host asked by whoever has its row and acts for nobody: a token that was got on the way is kept.
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../kernel/db.ts'
import type { Services } from '../kernel/routes.ts'
import { setTokenColumns } from './credentials.ts'
import type { Githost, Integration } from './githost.ts'
import { createGithost } from './githost-factory.ts'

type HostCaller = { services: Services; origin: string }

export async function withHost<T>(
  { services, origin }: HostCaller,
  row: Integration,
  ask: (host: Githost) => Promise<T>,
) {
  const host = createGithost(services, origin, row)
  try {
    return await ask(host)
  } finally {
    const minted = host.mintedToken()
    if (minted) {
      const set = await setTokenColumns(services.sealer, row, minted)
      await runAsSystem(services.database, sql`update integrations i set ${set} where i.id = ${row.id}::uuid`)
    }
  }
}
