// Columns of a run from other tables, for the rows `r` of a page, whose `project` is joined where it is needed.
import { type SQL, sql } from 'drizzle-orm'
import type { DetailColumn } from '../queries.ts'
import { feedbackStats } from './feedback-stats.ts'
import { toIso } from './iso-time.ts'

export const RELATED_COLUMNS = {
  feedback_stats: feedbackStats(sql`f.run_id = r.id`),
  share_token: sql`(
    select s.share_token
    from run_shares s
    where s.tenant_id = current_tenant() and s.run_id = r.id
  )`,
  is_upgraded: sql`exists (
    select from upgraded_traces u
    where u.tenant_id = current_tenant() and u.trace_id = r.trace_id
  )::text`,
  in_dataset: sql`exists (
    select from examples e
    where e.tenant_id = current_tenant() and e.source_run_id = r.id and e.until is null
  )::text`,
  last_queued_at: sql`(
    select ${toIso(sql`max(i.added_at)`)}
    from annotation_queue_items i
    where i.tenant_id = current_tenant() and i.run_id = r.id
  )`,
  longlived_ttl_days: sql`coalesce(
    project.longlived_ttl_days,
    (select t.longlived_ttl_days from ttl_settings t where t.tenant_id = current_tenant())
  )`,
} satisfies { [Name in DetailColumn]?: SQL }
