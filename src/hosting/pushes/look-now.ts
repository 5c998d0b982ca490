// Compares repositories at once: after a webhook that says no more than that one has changed, and for a new policy.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { LOOK_SOON } from '../git-hosts/seen-refs.ts'
import { FOLLOWS } from './followed-repositories.ts'
import { sweepRepositories } from './repository-sweep.ts'

/** Many of these cause no more comparisons. The schedule makes up for what this leaves. */
const PAUSE = sql`interval '5 seconds'`
const SOON = sql`least(f.next_compare_at, greatest(clock(), coalesce(f.compared_at + ${PAUSE}, clock())))`

/** Stored before the answer, so that no crash loses it. Returns the comparison. */
export async function lookNow(services: Services, integration_id: string): Promise<() => Promise<void>> {
  const statement = sql`
    update followed_repositories f
    set heard_at = clock(), ${LOOK_SOON}, next_compare_at = ${SOON}
    where integration_id = ${integration_id}::uuid`
  await runAsSystem(services.database, setClock(services.platform), statement)
  return () => sweepRepositories(services, { integration_id })
}

/** The schedule does it, if this process dies. */
export async function compareNow(services: Services, deployment_id: string): Promise<void> {
  const statement = sql<Row>`
    with due as (
      update followed_repositories f
      set ${LOOK_SOON}, next_compare_at = ${SOON}
      from deployments d
      where d.id = ${deployment_id}::uuid and ${FOLLOWS})
    select d.source_config ->> 'integration_id'
    from deployments d
    where d.id = ${deployment_id}::uuid and d.source_config ->> 'integration_id' is not null`
  const [, [row]] = (await runAsSystem(services.database, setClock(services.platform), statement)) as [unknown, Row[]]
  if (row) await sweepRepositories(services, { integration_id: row[0] as string })
}
