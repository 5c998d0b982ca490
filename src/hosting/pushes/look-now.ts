// A webhook that says no more than that a repository has changed: its repositories are compared at once.
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { sweepRepositories } from './repository-sweep.ts'

/** Many of these cause no more comparisons. The schedule makes up for what this leaves. */
const PAUSE = sql`interval '5 seconds'`

/** Stored before the answer, so that no crash loses it. Returns the comparison. */
export async function lookNow(services: Services, integration_id: string): Promise<() => Promise<void>> {
  const statement = sql`
    update followed_repositories
    set
      heard_at = clock(),
      next_compare_at = least(next_compare_at, greatest(clock(), coalesce(compared_at + ${PAUSE}, clock())))
    where integration_id = ${integration_id}::uuid`
  await runAsSystem(services.database, setClock(services.platform), statement)
  return () => sweepRepositories(services, { integration_id })
}
