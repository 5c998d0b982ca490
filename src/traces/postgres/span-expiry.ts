// Deletes the places of spans after a day. A span that comes later finds its parent no more, and hangs under the root.
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../../kernel/db.ts'
import { setClock } from '../../kernel/journal.ts'
import type { Services } from '../../kernel/routes.ts'

const MAX_DELETED = 50_000

export async function expireSpans({ config, database }: Services): Promise<void> {
  await runAsSystem(
    database,
    setClock(config),
    sql`
      delete from otlp_spans
      where ctid = any(array(
        select ctid
        from otlp_spans
        where created_at < clock() - interval '1 day'
        order by created_at
        limit ${MAX_DELETED}
        for update skip locked))`,
  )
}
