// Makes notices of the events of revisions, for channels that tell of deployments.
import { type SQL, sql } from 'drizzle-orm'

const BATCH = 2000
const MAX_LINES = 15

const FAILED = sql`'{revision.create_failed, revision.build_failed, revision.deploy_failed}'::text[]`

const HEADLINE = sql`case b.type
      when 'revision.deployed' then 'is deployed'
      when 'revision.build_failed' then 'failed to build'
      else 'failed to deploy'
    end`

/** The last lines of the build or the deployment that failed. */
const LAST_LINES = sql`(
    select coalesce(jsonb_agg(left(l.message, 1000) order by l.number), '[]')
    from (
      select l.message, l.number
      from log_lines l
      where l.revision_id = r.id and l.number > 0
        and l.kind = case when b.type = 'revision.build_failed' then 'build' else 'deploy' end
      order by l.number desc
      limit ${MAX_LINES}
    ) l
    where b.type <> 'revision.deployed')`

const FACTS = sql`jsonb_build_array(
      jsonb_build_object('name', 'Deployment', 'value', left(d.name, 500)),
      jsonb_build_object('name', 'Revision', 'value', r.number::text)
    ) || case
      when r.commit ->> 'sha' is not null then jsonb_build_array(
        jsonb_build_object('name', 'Commit', 'value', left(concat_ws(' ', left(r.commit ->> 'sha', 7), split_part(
          r.commit ->> 'message', E'\n', 1)), 500))
      )
      else '[]'
    end || case
      when r.actor_name is not null then jsonb_build_array(
        jsonb_build_object('name', 'By', 'value', left(r.actor_name, 500))
      )
      else '[]'
    end`

/** `NoticeContent`. */
const CONTENT = sql`jsonb_build_object(
      'title', left(d.name || ': revision ' || r.number || ' ' || ${HEADLINE}, 300),
      'summary', left(coalesce(nullif(r.status_message, ''), ''), 4000),
      'severity', case when b.type = 'revision.deployed' then 'info' else 'error' end,
      'url', case
        when b.type = 'revision.deployed' then format('/ui/%s/deployments/%s', d.tenant_id, d.id)
        else format('/ui/%s/deployments/%s/logs?revision=%s', d.tenant_id, d.id, r.id)
      end,
      'facts', ${FACTS},
      'lines', ${LAST_LINES},
      'started_at', b.created_at
    )`

/**
 * Moves the position of a channel over the journal and stores its notices in one statement, as `storeDueDeliveries()`
 * does for a webhook: no event is missed, whenever a worker dies.
 */
export const storeDeployNotices = (channel: SQL): SQL => sql`
  with c as (
    select c.id, c.organization_id, c.tenant_id, c.position, c.deploys, j.seq
    from channels c
    join journals j on j.scope_id = c.tenant_id and j.seq > c.position
    where c.id = ${channel} and c.enabled and c.confirmed_at is not null and c.deploys <> 'none'
    for update of c
  ),
  batch as (
    select e.seq, e.type, e.subject_id, e.created_at
    from c
    cross join lateral (
      select *
      from events e
      where e.scope_id = c.tenant_id and e.seq > c.position
      order by e.seq
      limit ${BATCH}
    ) e
  ),
  moved as (
    update channels v
    set position = greatest(v.position, case when (select count(*) from batch) < ${BATCH}
      then c.seq
      else (select max(seq) from batch)
    end)
    from c
    where v.id = c.id
  )
  insert into notices (organization_id, tenant_id, channel_id, thread, sequence, phase, content)
  select c.organization_id, c.tenant_id, c.id, 'revision ' || r.id, b.seq, 'single', ${CONTENT}
  from batch b
  cross join c
  join revisions r on r.id = b.subject_id and r.tenant_id = c.tenant_id
  join deployments d on d.id = r.deployment_id
  where b.type = any(${FAILED}) or (b.type = 'revision.deployed' and c.deploys = 'all')
  on conflict on constraint notices_once do nothing`
