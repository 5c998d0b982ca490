// Deletes attachments from the object store once no example has them.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem, uuidArray } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { LEASE } from '../../kernel/db/outbox.ts'
import type { DatabaseServices } from '../../kernel/http/context.ts'
import { pathOfObject } from './attachment-links.ts'

const MAX_REMOVALS = 100

/** Looks at each object a day after it was put, and an hour after an example that had it was deleted. */
export async function sweepAttachments({ platform, database }: DatabaseServices): Promise<void> {
  const { storage } = platform
  if (!storage) return
  const due = sql`
      select id
      from example_objects
      where check_at < clock()
      order by check_at
      limit ${MAX_REMOVALS}
      for update skip locked`
  const isUsed = sql`exists (
      select from examples e
      where e.tenant_id = o.tenant_id and e.object_ids @> array[o.id]
    )`
  // Unused objects are due again after the lease, unless they are removed from the store by then.
  const check = sql<Row>`
    with due as (${due})
    update example_objects o
    set check_at = case when ${isUsed} then null else clock() + ${LEASE} end
    from due
    where o.id = due.id
    returning o.id, o.tenant_id, o.check_at is null`
  const [, checked] = (await runAsSystem(database, setClock(platform), check)) as [unknown, [string, string, boolean][]]
  const unused = checked.filter(([, , used]) => !used)
  if (unused.length === 0) return
  await storage.remove(unused.map(([id, tenant]) => pathOfObject(tenant, id)))
  const ids = uuidArray(unused.map(([id]) => id))
  await runAsSystem(database, sql`delete from example_objects where id = any(${ids})`)
}
