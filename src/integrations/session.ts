// An integration's host asked by whoever has its row and acts for nobody: a token that was got on the way is kept.
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../kernel/db.ts'
import type { Services } from '../kernel/routes.ts'
import { tokenColumns } from './credentials.ts'
import { type Githost, githostOf, type Integration } from './githost.ts'

type Asker = { services: Services; origin: string }

export async function asking<T>({ services, origin }: Asker, row: Integration, ask: (host: Githost) => Promise<T>) {
  const host = githostOf(services, origin, row)
  try {
    return await ask(host)
  } finally {
    const minted = host.minted()
    if (minted) {
      const set = await tokenColumns(services.sealer, row, minted)
      await runAsSystem(services.database, sql`update integrations i set ${set} where i.id = ${row.id}::uuid`)
    }
  }
}
