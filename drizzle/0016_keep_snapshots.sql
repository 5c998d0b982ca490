CREATE TABLE "snapshots" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"deployment_name" text NOT NULL,
	"listener_id" uuid NOT NULL,
	"store" text NOT NULL,
	"size_bytes" bigint NOT NULL,
	"reason" text NOT NULL,
	"expires_at" timestamp with time zone,
	"deleting_at" timestamp with time zone,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL
);
--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "cleared_stores" text[];--> statement-breakpoint
ALTER TABLE "jobs" ADD COLUMN "action" jsonb;--> statement-breakpoint
ALTER TABLE "schedules" ADD COLUMN "action" jsonb;--> statement-breakpoint
ALTER TABLE "snapshots" ADD CONSTRAINT "snapshots_tenant_id_workspaces_id_fk"
  FOREIGN KEY ("tenant_id") REFERENCES "public"."workspaces"("id") ON DELETE cascade ON UPDATE no action;
--> statement-breakpoint
ALTER TABLE "snapshots" ADD CONSTRAINT "snapshots_listener_id_listeners_id_fk"
  FOREIGN KEY ("listener_id") REFERENCES "public"."listeners"("id") ON DELETE cascade ON UPDATE no action;
--> statement-breakpoint
CREATE INDEX "snapshots_page" ON "snapshots"
  USING btree ("tenant_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);
--> statement-breakpoint
CREATE INDEX "snapshots_of_deployment" ON "snapshots"
  USING btree ("deployment_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);
--> statement-breakpoint
CREATE INDEX "snapshots_held" ON "snapshots" USING btree ("listener_id","id");--> statement-breakpoint
CREATE INDEX "snapshots_expiry" ON "snapshots" USING btree ("expires_at");--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
revoke all on schedules from slipway_app;
create or replace function keep_cleared_stores()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  v_before text[] := stores_of((old.source_config -> 'resource_spec')::jsonb);
  v_after text[] := stores_of((new.source_config -> 'resource_spec')::jsonb);
begin
  new.cleared_stores := array(
    select distinct s
    from unnest(old.cleared_stores || v_before) s
    where s <> all (v_after)
    order by s
  );
  return new;
end $function$;
CREATE TRIGGER keep_cleared_stores BEFORE UPDATE OF source_config ON public.deployments
  FOR EACH ROW WHEN (((old.source_config)::text IS DISTINCT FROM (new.source_config)::text))
  EXECUTE FUNCTION keep_cleared_stores();
grant delete, insert, select, update (name, cron, time_zone, command, timeout_seconds, overlap, jitter_seconds,
  retries, deadline_seconds, enabled, next_due_at, version, updated_at, process, owner,
  action) on schedules to slipway_app;
alter table snapshots enable row level security, force row level security;
create policy admitted on snapshots as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = snapshots.deployment_id)))))
  with check (true);
create policy everything on snapshots to slipway_system
  using (true)
  with check (true);
create policy own on snapshots to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant select, update (deleting_at) on snapshots to slipway_app;
grant delete, insert, select, update on snapshots to slipway_system;
create or replace function create_job(p_deployment uuid, p_new jsonb, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  d deployments;
  s schedules;
  j jobs;
  v_action jsonb := p_new -> 'action';
  v_obstacle text;
  v_events tenant_event[] := '{}';
begin
  select c.* into d from deployments c where c.id = p_deployment and c.tenant_id = current_tenant() for share;
  if not found then return; end if;
  if d.deleting_at is not null then perform refuse('deployment_deleting'); end if;
  if p_new ->> 'schedule_id' is not null then
    select c.*
    into s
    from schedules c
    where c.id = (p_new ->> 'schedule_id')::uuid and c.deployment_id = d.id and c.tenant_id = current_tenant()
    for update;
    if not found then perform refuse('schedule_not_found'); end if;
    v_action := s.action;
    p_new := p_new || jsonb_build_object(
      'action', s.action,
      'command', s.command,
      'timeout_seconds', s.timeout_seconds,
      'deadline_seconds', s.deadline_seconds,
      'process', s.process,
      'retries', s.retries,
      'is_serial', s.overlap <> 'allow'
    );
  end if;
  if v_action is null then
    perform require_command_permission();
  else
    perform require_allowed_action(d, v_action);
  end if;
  v_obstacle := job_obstacle(d, p_new ->> 'process', v_action);
  if v_obstacle is not null then perform refuse(v_obstacle); end if;
  if p_new ->> 'planned_number' is not null and not exists (
    select from revisions r
    where r.id = d.active_revision_id and r.deployment_id = d.id and r.number = (p_new ->> 'planned_number')::integer
  ) then
    perform refuse('plan_stale');
  end if;
  -- Counts under this lock, so that concurrent requests take turns.
  perform from journals c where c.scope_id = d.tenant_id for no key update;
  if number_of_open_jobs(d.tenant_id) >= max_open_jobs() then
    perform refuse('job_queue_full', max_open_jobs() || ' jobs wait or run');
  end if;
  if s.overlap = 'skip' and has_open_job(s) then perform refuse('schedule_running'); end if;
  if s.overlap = 'replace' then v_events := replace_jobs(s); end if;

  j := build_job(d, p_new || jsonb_build_object(
    'actor_kind', setting('actor_kind'),
    'actor_id', current_actor(),
    'actor_name', event_actor_name()
  ));
  insert into jobs values (j.*);
  answer := to_json(j);
  has_webhooks := conclude_write(
    answer, to_new_events(job_event('job.created', null, j) || v_events), p_request
  );
  if s.overlap = 'replace' then perform send_cancellations(array[s.tenant_id], array[s.id]); end if;
  perform dispatch_jobs(array[d.tenant_id]);
  return next;
end $function$;
set local role slipway_system;
create or replace function job_obstacle(d deployments, p_process text, p_action jsonb DEFAULT NULL::jsonb)
 RETURNS text
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_policy json := (select l.policy from listeners l where l.id = d.listener_id);
  v_processes json;
begin
  if p_action is null and d.active_revision_id is null then return 'nothing_serves'; end if;
  if p_action is not null and not coalesce(
    (v_policy -> 'features')::jsonb ? snapshot_feature(p_action ->> 'store'), false
  ) then
    return 'snapshots_not_supported';
  end if;
  if v_policy ->> 'jobs' is distinct from 'true' then return 'jobs_not_supported'; end if;
  if p_process is not null and v_policy ->> 'job_processes' is distinct from 'true' then
    return 'process_not_supported';
  end if;
  if p_process <> 'web' then
    v_processes := (
      select r.build_plan -> 'processes' from revisions r where r.id = d.active_revision_id and r.deployment_id = d.id
    );
    if json_typeof(v_processes) = 'array'
      and p_process not in ('queue', 'orchestrator', 'executor')
      and not exists (select from json_array_elements(v_processes) p where p ->> 'name' = p_process) then
      return 'process_unknown';
    end if;
  end if;
  return null;
end $function$;
reset role;
create or replace function read_changes(p_listener listeners, p_cursor bigint, p_digest text, p_page_size integer,
  p_daily_limit bigint)
 RETURNS TABLE(latest bigint, digest text, resync boolean, more boolean, changes json)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_events tenant_event[];
begin
  select coalesce(max(c.seq), 0), lpad(to_hex(coalesce(max(c.digest), 0)), 16, '0')
  into latest, digest
  from sync_cursors c
  where c.listener_id = p_listener.id;
  resync := p_cursor is null or p_cursor > latest or (p_cursor = latest and coalesce(p_digest <> digest, false));
  more := false;
  changes := '[]';

  if resync or p_cursor < latest then
    with page as (
      select i.deployment_id, i.generation, i.seq
      from sync_items i
      where i.listener_id = p_listener.id
        and i.seq > case when resync then 0 else p_cursor end
        -- Later ones come with the next poll: they were not committed when the digest was read.
        and i.seq <= latest
      order by i.seq
      -- One more than a page, to know whether there is another page.
      limit p_page_size + 1
    ),
    wanted as (
      select
        p.*,
        case when d.id is not null then json_build_object(
          'tenant_id', d.tenant_id,
          'name', d.name,
          'deployment_type', d.deployment_type,
          'source_config', d.source_config,
          'trace_key_version', d.trace_key_version,
          -- Kubernetes ran the parts of a deployment before the other engines did.
          'dormant_parts', case
            when p_listener.policy ->> 'engine' in ('process', 'container') then d.dormant_parts
          end,
          'cleared_stores', coalesce(d.cleared_stores, '{}'),
          -- The workspace owns the host and has proved it. A listener of its own that is not public needs no proof.
          'custom_url', case
            when h.verified_at is not null
              or h.tenant_id = p_listener.tenant_id and not p_listener.verified_hosts_only
              then d.source_config ->> 'custom_url'
          end,
          'absent', d.deleting_at is not null
        ) end as deployment,
        -- The revision in flight; or the latest, if it was lost when its listener fell silent: the agent continues it.
        case when d.deleting_at is null then coalesce(d.in_flight_revision_id, l.id) end as revision_id,
        case when d.deleting_at is null then d.active_revision_id end as serving_id
      from (select * from page order by seq limit p_page_size) p
      left join deployments d on d.id = p.deployment_id and d.listener_id = p_listener.id
      left join custom_hosts h on h.host = d.custom_host and h.tenant_id = d.tenant_id
      left join revisions l on l.id = d.latest_revision_id and l.status = 'UNKNOWN'
    ),
    opened as (
      select
        r.*,
        (
          select json_agg(json_build_object('name', s.name, 'sealed', s.sealed))
          from json_to_recordset(r.secrets) w(name text, version integer)
          join deployment_secrets s
            on s.deployment_id = r.deployment_id and s.name = w.name and s.version = w.version
        ) as sealed,
        (
          select json_build_object('id', u.id, 'size', u.size, 'sha256', u.sha256)
          from uploads u
          where u.object_path = r.source_revision_config ->> 'source_tarball_path'
            and u.tenant_id = r.tenant_id
            and u.state = 'stored'
        ) as archive
      from revisions r
      where r.id in (select w.revision_id from wanted w union select w.serving_id from wanted w)
    ),
    described as (
      select
        o.id,
        json_build_object(
          'id', o.id,
          'number', o.number,
          'status', o.status,
          'status_since', o.status_since,
          'source', o.source,
          'source_config', o.source_config,
          'source_revision_config', o.source_revision_config,
          'secret_references', o.secret_references,
          'sealed', o.sealed,
          'archive', o.archive
        ) as json
      from opened o
    )
    select
      (select count(*) > p_page_size from page),
      coalesce(json_agg(
        json_build_object(
          'deployment_id', w.deployment_id,
          'generation', w.generation,
          'seq', w.seq,
          'deployment', w.deployment,
          'revision', f.json,
          'serving', a.json
        )
        order by w.seq
      ), '[]'),
      array(
        select (
          o.tenant_id,
          o.organization_id,
          'revision.secrets_revealed',
          o.id,
          json_build_object('deployment_id', o.deployment_id, 'fence', p_listener.fence),
          null
        )::tenant_event
        from opened o
        where o.sealed is not null
      )
    into more, changes, v_events
    from wanted w
    left join described f on f.id = w.revision_id
    left join described a on a.id = w.serving_id;
    perform journal_tenant_events(v_events, case when p_listener.tenant_id is not null then p_daily_limit end);
  end if;
  -- This comes last, because it locks cursors. An adopted deployment is a change for the next poll.
  perform adopt_deployments(p_listener);
  return next;
end $function$;
create or replace function read_jobs(p_listener listeners, p_cursor bigint, p_resync boolean, p_latest bigint,
  p_page_size integer)
 RETURNS TABLE(jobs json, reached bigint)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  jobs := '[]';
  reached := p_latest;
  if (p_resync or p_cursor < p_latest) and p_listener.policy ->> 'jobs' = 'true' then
    with page as (
      select j.*
      from jobs j
      where j.listener_id = p_listener.id
        and j.seq > case when p_resync then 0 else p_cursor end
        and j.seq <= p_latest
      order by j.seq
      limit p_page_size
    )
    select
      coalesce(
        json_agg(
          json_strip_nulls(json_build_object(
            'job_id', p.id,
            'deployment_id', p.deployment_id,
            'status', p.status,
            'command', p.command,
            'timeout_seconds', p.timeout_seconds,
            'process', p.process,
            'starts_in_ms', greatest(0, ceil(extract(epoch from p.not_before - clock()) * 1000)),
            'cancel', p.cancel_requested_at is not null,
            'action', p.action,
            'is_scheduled', nullif(p.schedule_id is not null, false)
          ))
          order by p.seq
        ),
        '[]'
      ),
      case when count(*) = p_page_size then max(p.seq) else p_latest end
    into jobs, reached
    from page p;
  end if;
  return next;
end $function$;
set local role slipway_system;
create or replace function receive_snapshots(p_agent text, p_fence bigint, p_held jsonb, p_after uuid,
  p_until uuid, p_limit bigint)
 RETURNS uuid[]
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners := require_lease(p_agent, p_fence);
  v_ids uuid[] := array(select (h ->> 'id')::uuid from jsonb_array_elements(p_held) h);
begin
  delete from snapshots s
  where s.listener_id = v_listener.id
    and (p_after is null or s.id > p_after)
    and (p_until is null or s.id <= p_until)
    and s.id <> all (v_ids);
  insert into snapshots (
    id, organization_id, tenant_id, deployment_id, deployment_name, listener_id, store, size_bytes, reason, expires_at,
    created_at
  )
  select
    h.id, d.organization_id, d.tenant_id, d.id, d.name, v_listener.id, h.store, h.size_bytes, h.reason, h.expires_at,
    h.taken_at
  from jsonb_to_recordset(p_held) as h(
    id uuid, deployment_id uuid, store text, size_bytes bigint, reason text, taken_at timestamptz,
      expires_at timestamptz
  )
  join deployments d on d.id = h.deployment_id and d.listener_id = v_listener.id
  where (select count(*) from snapshots s where s.tenant_id = d.tenant_id) < p_limit
  on conflict (id) do nothing;
  return array(
    select s.id
    from snapshots s
    where s.id = any(v_ids) and s.listener_id = v_listener.id and s.deleting_at is not null
  );
end $function$;
reset role;
create or replace function recorded_job(p_job jobs)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN CASE WHEN ((p_job).id IS NOT NULL) THEN jsonb_build_object('status', (p_job).status, 'command',
  (p_job).command, 'action', (p_job).action, 'timeout_seconds', (p_job).timeout_seconds, 'process',
  (p_job).process, 'revision_id', (p_job).revision_id, 'exit_code', (p_job).exit_code, 'reason', (p_job).reason,
  'cancel_requested_at', (p_job).cancel_requested_at) ELSE NULL::jsonb END;
create or replace function require_allowed_action(d deployments, p_action jsonb)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_store text := p_action ->> 'store';
  v_listener uuid;
  v_kind text;
begin
  if not v_store = any(stores_of((d.source_config -> 'resource_spec')::jsonb)) then
    perform refuse('store_not_found', v_store);
  end if;
  if p_action ->> 'snapshot_id' is not null then
    select s.listener_id, split_part(s.store, ':', 1)
    into v_listener, v_kind
    from snapshots s
    where s.id = (p_action ->> 'snapshot_id')::uuid and s.tenant_id = current_tenant() and s.deleting_at is null;
    if not found then perform refuse('snapshot_not_found'); end if;
    if v_kind <> split_part(v_store, ':', 1) then
      perform refuse('store_not_found', format('a snapshot of a %s cannot become a %s', v_kind, v_store));
    end if;
  elsif p_action ->> 'from_deployment_id' is not null then
    select o.listener_id
    into v_listener
    from deployments o
    where o.id = (p_action ->> 'from_deployment_id')::uuid and o.tenant_id = current_tenant();
    if not found then perform refuse('deployment_not_found'); end if;
  else
    return;
  end if;
  if v_listener is distinct from d.listener_id then perform refuse('snapshot_elsewhere'); end if;
end $function$;
create or replace function snapshot_feature(p_store text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN (split_part(p_store, ':'::text, 1) || '_snapshots'::text);
create or replace function start_due_jobs(p_due jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v record;
  v_due timestamptz;
  d deployments;
  j jobs;
  v_obstacle text;
  v_status text;
  v_replaced uuid[] := '{}';
  v_tenants uuid[] := '{}';
  v_events tenant_event[] := '{}';
begin
  -- Deployments first, as their deletion does.
  perform from deployments c
  where c.id in (
    select s.deployment_id
    from schedules s
    where s.id = any(array(select (g ->> 'id')::uuid from jsonb_array_elements(p_due) g))
  )
  order by c.id
  for key share;

  for v in
    select s as schedule, g.due, g.missed, g.upcoming
    from jsonb_to_recordset(p_due) as g(
      id uuid, seen timestamptz, version integer, due timestamptz[], missed jsonb, upcoming timestamptz
    )
    join schedules s on s.id = g.id and s.next_due_at = g.seen and s.version = g.version
    order by s.id
    for update of s
  loop
    declare
      s schedules := v.schedule;
      v_new jsonb := jsonb_build_object(
        'schedule_id', s.id,
        'action', s.action,
        'command', s.command,
        'timeout_seconds', s.timeout_seconds,
        'deadline_seconds', s.deadline_seconds,
        'process', s.process,
        'retries', s.retries,
        'is_serial', s.overlap <> 'allow',
        'actor_kind', 'cron',
        'actor_name', s.name
      );
    begin
      select c.* into d from deployments c where c.id = s.deployment_id;
      v_tenants := v_tenants || s.tenant_id;
      if v.missed is not null then
        j := end_job(
          build_job(d, v_new || jsonb_build_object('due_at', v.missed -> 'from')),
          'MISSED',
          coalesce(v.missed ->> 'reason', 'The control plane did not run within the deadline.')
        );
        j.missed_until := (v.missed ->> 'until')::timestamptz;
        j.missed_count := (v.missed ->> 'count')::integer;
        insert into jobs values (j.*);
        v_events := v_events || job_event('job.missed', null, j);
      end if;
      foreach v_due in array v.due loop
        j := build_job(d, v_new || jsonb_build_object(
          'due_at', v_due, 'not_before', v_due + random() * s.jitter_seconds * interval '1 second'
        ));
        v_obstacle := case
          when d.deleting_at is not null then 'The deployment is being deleted.'
          when number_of_open_jobs(s.tenant_id) >= max_open_jobs() then 'Too many jobs of the workspace wait or run.'
          else case job_obstacle(d, s.process, s.action)
            when 'snapshots_not_supported' then 'The agent of the deployment takes no snapshots of this store.'
            when 'nothing_serves' then 'No revision of the deployment serves.'
            when 'process_unknown' then 'The revision that serves has no process ' || s.process || '.'
            when 'jobs_not_supported' then 'The agent of the deployment cannot run jobs. Update it.'
            when 'process_not_supported' then 'The agent of the deployment cannot run jobs as a process. Update it.'
          end
        end;
        v_status := case
          when v_obstacle is not null then 'MISSED'
          when s.overlap = 'skip' and has_open_job(s) then 'SKIPPED'
        end;
        if v_status is not null then
          -- Repeats are counted in the first one: a schedule of each minute must not fill the journal.
          update jobs p
          set missed_until = v_due, missed_count = coalesce(p.missed_count, 1) + 1
          where p.status = v_status
            and p.id = (
              select l.id
              from jobs l
              where l.schedule_id = s.id
              order by l.due_at desc nulls last, l.attempt desc
              limit 1
            );
          if found then continue; end if;
          j := end_job(j, v_status, coalesce(v_obstacle, 'The run before it had not ended.'));
          v_events := v_events || job_event('job.' || lower(v_status), null, j);
        elsif s.overlap = 'replace' then
          v_events := v_events || replace_jobs(s);
          v_replaced := v_replaced || s.id;
        end if;
        insert into jobs values (j.*);
      end loop;
      update schedules c set next_due_at = v.upcoming where c.id = s.id;
    end;
  end loop;

  perform journal_tenant_events(v_events, null);
  v_tenants := array(select distinct t from unnest(v_tenants) t order by t);
  perform send_cancellations(v_tenants, v_replaced);
  perform dispatch_jobs(v_tenants);
end $function$;
create or replace function stores_of(p_resources jsonb)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
RETURN ARRAY(SELECT ('disk:'::text || (volume.value #>> '{persistentVolumeClaim,claimName}'::text[]))
  FROM jsonb_array_elements(NULLIF((stores_of.p_resources -> 'volumes'::text),
  'null'::jsonb)) volume(value)
  WHERE ((volume.value #>> '{persistentVolumeClaim,claimName}'::text[]) IS NOT NULL)
  UNION SELECT 'database'::text WHERE has_part(stores_of.p_resources,
  'db'::text) UNION SELECT 'redis'::text WHERE has_part(stores_of.p_resources, 'redis'::text));
set local role slipway_system;
revoke execute on function job_obstacle(deployments, text, jsonb) from public;
grant execute on function job_obstacle(deployments, text, jsonb) to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function receive_snapshots(text, bigint, jsonb, uuid, uuid, bigint) from public;
grant execute on function receive_snapshots(text, bigint, jsonb, uuid, uuid, bigint) to slipway_agent;
reset role;
set local role slipway_system;
drop function job_obstacle(deployments, text);
reset role;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
