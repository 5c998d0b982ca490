// The scheduled work of feedback: it attaches runs that were written concurrently, extends the retention of their
// traces, and deletes old feedback.
import { type SQL, sql } from 'drizzle-orm'
import { runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { deleteExpired } from '../../kernel/db/sweep.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { upgradeWaitingTraces } from '../retention/waiting-upgrades.ts'

const MAX_ROWS = 25_000

export async function sweepFeedback(services: Services): Promise<void> {
  const { platform, database, traces } = services
  await traces.attachFeedback(services)
  await upgradeWaitingTraces(services, WAITING)
  await runAsSystem(database, setClock(platform), ...[EXPIRED, ORPHANED, OF_DELETED_PROJECTS].map(deleteRows))
  await deleteExpired(services, 'feedback links', [{ table: 'feedback_tokens', where: sql`expires_at < clock()` }])
}

const WAITING = {
  table: sql`feedbacks`,
  isWaiting: sql`extends_retention and is_attached and not is_upgraded`,
  oldestFirst: sql`received_at`,
  permission: 'feedback:create' as const,
}

const deleteRows = (rows: SQL): SQL => sql`
  delete from feedbacks
  where ctid = any(array(
    select f.ctid
    from feedbacks f
    ${rows}
    limit ${MAX_ROWS}
    for update of f skip locked
  ))`

/** Runs cannot become older. Feedback about a project as a whole stays as long as the project. */
const EXPIRED = sql`
    where f.received_at < clock() - kept_for('longlived')
      and f.run_id is not null
      and coalesce(f.start_time, f.received_at) < clock() - kept_for('longlived')`
/** Feedback whose run never came, or whose workspace is gone. */
const ORPHANED = sql`
    where not f.is_attached and f.received_at < clock() - kept_for('shortlived')`
const OF_DELETED_PROJECTS = sql`
    join deleted_projects p on p.tenant_id = f.tenant_id and p.id = f.session_id
    where not p.is_swept`
