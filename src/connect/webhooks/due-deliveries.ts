// Moves the position of a webhook over the journal and stores the deliveries of the events that it wants, in one
// statement. No event is missed, whenever a worker dies.
import { type SQL, sql } from 'drizzle-orm'

const BATCH = 2000
/** Deliveries that wait. While there are as many, the position of the webhook stays. */
const MAX_WAITING = 1000

/** A relation without rows if the deployment no longer exists. Events of a write name their deployment in `data`. */
const DEPLOYMENT_ID = sql`case
      when e.type like 'deployment.%' or e.type like 'preview\\_policy.%' then e.subject_id
      when e.data ->> 'deployment_id' ~ '^[0-9a-f-]{36}$' then (e.data ->> 'deployment_id')::uuid
      when e.type like 'revision.%' then (select r.deployment_id from revisions r where r.id = e.subject_id)
      when e.type like 'preview.%' then (select v.parent_id from previews v where v.id = e.subject_id)
    end`

/** The globs of a webhook as patterns of SQL. */
const TYPE_PATTERNS = sql`array(
    select replace(replace(glob, '_', '\\_'), '*', '%')
    from unnest(w.event_types) glob)`

const IS_WANTED = sql`b.type like any(w.patterns)
  and (
    (w.deployment_ids = '{}' and w.tag_value_ids = '{}')
    or b.deployment_id = any(w.deployment_ids)
    or d.tag_value_ids && w.tag_value_ids)`

/**
 * It waits for another worker at the same webhook, instead of skipping: otherwise an event written meanwhile could be
 * left to the schedule. The number of the journal and its events become visible together, so a batch that is not full
 * ends at that number. This statement never moves the position back, for it may have begun before another one that
 * moved it. A request may move it back: then deliveries that are over begin again.
 */
export const storeDueDeliveries = (webhook: SQL): SQL => sql`
  with w as (
    select w.id, w.organization_id, w.tenant_id, w.position, ${TYPE_PATTERNS} as patterns, w.deployment_ids,
      w.tag_value_ids, j.seq
    from webhooks w
    join journals j on j.scope_id = w.tenant_id and j.seq > w.position
    where w.id = ${webhook}
      and w.enabled
      and (
        select count(*)
        from (
          select from webhook_deliveries d
          where d.webhook_id = w.id and d.state = 'waiting'
          limit ${MAX_WAITING}
        ) waiting
      ) < ${MAX_WAITING}
    for update of w
  ),
  batch as (
    select e.seq, e.type, ${DEPLOYMENT_ID} as deployment_id
    from w
    cross join lateral (
      select *
      from events e
      where e.scope_id = w.tenant_id and e.seq > w.position
      order by e.seq
      limit ${BATCH}
    ) e
  ),
  moved as (
    update webhooks v
    set position = greatest(v.position, case when (select count(*) from batch) < ${BATCH}
      then w.seq
      else (select max(seq) from batch)
    end)
    from w
    where v.id = w.id
  )
  insert into webhook_deliveries (organization_id, tenant_id, webhook_id, seq, type, deployment, next_attempt_at)
  select w.organization_id, w.tenant_id, w.id, b.seq, b.type,
    case
      when d.id is not null then json_build_object('id', d.id, 'name', d.name, 'status', d.status, 'url', d.url)
    end,
    clock()
  from batch b
  cross join w
  left join deployments d on d.id = b.deployment_id and d.tenant_id = w.tenant_id
  where ${IS_WANTED}
  on conflict on constraint webhook_deliveries_one do update set
    state = 'waiting', attempts = 0, next_attempt_at = excluded.next_attempt_at
  where webhook_deliveries.state <> 'waiting'`
