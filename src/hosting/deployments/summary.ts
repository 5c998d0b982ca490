// The summary of a deployment: its state, and the revisions that lists and pages show beside it.
import { and, type SQL, sql } from 'drizzle-orm'
import { inTenant } from '../../kernel/db/db.ts'
import { toIsoTime } from '../../kernel/db/rows.ts'
import type { DeploymentSummary } from './summary.schema.ts'
import { deployments, revisions } from './tables.ts'

const MAX_RECENT = 8
const MAX_TEXT = 300

const t = deployments
const isRevision = (id: SQL): SQL => and(sql`${revisions.id} = ${id}`, inTenant(revisions))!

/** Reads the latest revision by its key, so a filter by it reads each deployment that it passes. */
export const DEPLOYMENT_STATE: SQL<DeploymentSummary['state']> = sql`case
  when ${t.status} = 'AWAITING_DELETE' then 'idle'
  when ${t.status} = 'UNKNOWN' then 'attention'
  when ${t.health} in ('unhealthy', 'crash_looping', 'degraded') then 'attention'
  when ${t.status} = 'AWAITING_DATABASE' then 'in_flight'
  else coalesce((
    select case
      when is_in_queue(${revisions.status}) then 'in_flight'
      when ${revisions.status} in ('CREATE_FAILED', 'BUILD_FAILED', 'DEPLOY_FAILED', 'UNKNOWN') then 'attention'
      when ${t.active_revision_id} is null then 'idle'
      else 'serving'
    end
    from ${revisions}
    where ${isRevision(sql`${t.latest_revision_id}`)}), 'idle')
end`

const revisionJson = (id: SQL): SQL => sql`(
  select json_build_object(
    'id', ${revisions.id},
    'number', ${revisions.number},
    'status', ${revisions.status},
    'status_message', left(${revisions.status_message}, ${sql.raw(String(MAX_TEXT))}),
    'commit', case when ${revisions.commit} is not null then json_build_object(
      'sha', ${revisions.commit} ->> 'sha',
      'title', left(split_part(${revisions.commit} ->> 'message', chr(10), 1), ${sql.raw(String(MAX_TEXT))})) end,
    'actor', json_build_object(
      'kind', ${revisions.actor_kind},
      'id', ${revisions.actor_id},
      'name', ${revisions.actor_name}),
    'since', ${revisions.status_since},
    'created_at', ${revisions.created_at})
  from ${revisions}
  where ${isRevision(id)})`

const RECENT = sql`(
  select coalesce(json_agg(recent), '[]')
  from (
    select ${revisions.number},
      ${revisions.status},
      case when not is_in_queue(${revisions.status})
        then extract(epoch from ${revisions.status_since} - ${revisions.created_at})::float end as seconds
    from ${revisions}
    where ${and(sql`${revisions.deployment_id} = ${t.id}`, inTenant(revisions))}
    order by ${revisions.created_at} desc, ${revisions.id} desc
    limit ${sql.raw(String(MAX_RECENT))}) recent)`

/** Reads at most four revisions by their keys, and the newest of an index. */
export const SUMMARY_COLUMN = sql<DeploymentSummary>`json_build_object(
  'state', ${DEPLOYMENT_STATE},
  'healthy', ${t.healthy},
  'remote_reconciled', ${t.remote_reconciled},
  'listener_id', ${t.listener_id},
  'latest_revision', ${revisionJson(sql`${t.latest_revision_id}`)},
  'in_flight_revision', ${revisionJson(sql`${t.in_flight_revision_id}`)},
  'serving_revision', ${revisionJson(sql`${t.active_revision_id}`)},
  'recent_revisions', ${RECENT})`.mapWith((text: string) => JSON.parse(text) as DeploymentSummary)

type StoredRevision = DeploymentSummary['latest_revision']
const revisionToWire = (stored: StoredRevision): StoredRevision =>
  stored && { ...stored, since: toIsoTime(stored.since), created_at: toIsoTime(stored.created_at) }

export const summaryToWire = (stored: DeploymentSummary): DeploymentSummary => ({
  ...stored,
  latest_revision: revisionToWire(stored.latest_revision),
  in_flight_revision: revisionToWire(stored.in_flight_revision),
  serving_revision: revisionToWire(stored.serving_revision),
})
