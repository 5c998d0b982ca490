// Finds the runs of feedback that was written at the same time.
import { sql } from 'drizzle-orm'
import { runAsSystem } from '../../../kernel/db/db.ts'
import { setClock } from '../../../kernel/db/journal.ts'
import type { Services } from '../../../kernel/http/routes.ts'

const ATTACH_MISSED = sql`
  update feedbacks f
  set trace_id = r.trace_id, session_id = r.session_id, start_time = r.start_time, is_attached = true
  from feedbacks w
  cross join lateral (
    select *
    from runs s
    where s.tenant_id = w.tenant_id and s.id = w.run_id
    limit 1
  ) r
  where not w.is_attached
    and w.received_at between clock() - interval '1 hour' and clock()
    and f.tenant_id = w.tenant_id
    and f.id = w.id`

export async function attachMissedFeedback({ platform, database }: Services): Promise<void> {
  await runAsSystem(database, setClock(platform), ATTACH_MISSED)
}
