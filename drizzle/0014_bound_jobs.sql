DROP INDEX "jobs_waiting";--> statement-breakpoint
DROP INDEX "schedules_of_workspace";--> statement-breakpoint
ALTER TABLE "jobs" ADD COLUMN "process" text;--> statement-breakpoint
ALTER TABLE "schedules" ADD COLUMN "process" text;--> statement-breakpoint
ALTER TABLE "schedules" ADD COLUMN "is_declared" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "schedules" ADD COLUMN "owner" text;--> statement-breakpoint
CREATE INDEX "jobs_running" ON "jobs" USING btree ("tenant_id") WHERE status in ('QUEUED',
  'RUNNING') and dispatched_at is not null;
--> statement-breakpoint
CREATE INDEX "jobs_waiting" ON "jobs" USING btree ("tenant_id","not_before")
  WHERE status = 'QUEUED' and dispatched_at is null;
--> statement-breakpoint
CREATE INDEX "schedules_of_workspace" ON "schedules"
  USING btree ("tenant_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);
--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
revoke all on schedules from slipway_app;
grant delete, insert, select, update (name, cron, time_zone, command, timeout_seconds, overlap, jitter_seconds,
  retries, deadline_seconds, enabled, next_due_at, version, updated_at, process, owner) on schedules to slipway_app;
create or replace function apply_reports(p_agent text, p_fence bigint, p_reports jsonb, p_daily_limit bigint,
  p_unused_after interval)
 RETURNS TABLE(deployment_id uuid, revision_id uuid, code text, generation integer, hooked_tenant uuid)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners := require_lease(p_agent, p_fence);
  v record;
  v_before deployments;
  d deployments;
  r revisions;
  v_next revisions;
  v_was_served boolean;
  v_path text[];
  v_reached integer;
  v_event_count integer;
  v_events tenant_event[] := '{}';
  v_revisions revisions[] := '{}';
  v_deployments deployments[] := '{}';
  v_removed uuid[] := '{}';
  v_forgotten uuid[] := '{}';
begin
  perform from deployments c
  where c.id = any(array(select (g ->> 'deployment_id')::uuid from jsonb_array_elements(p_reports) g))
    and c.listener_id = v_listener.id
  order by c.id
  for update;

  for v in
    select g.*, c as deployment, n as revision
    from rows from (
      jsonb_to_recordset(p_reports) as (
        deployment_id uuid, revision_id uuid, generation integer, state text, message text, commit jsonb,
        image_uri text, url text, healthy boolean, last_request_at timestamptz, application_version text,
        build_plan json, health jsonb, incidents jsonb
      )
    ) with ordinality g(
      deployment_id, revision_id, generation, state, message, commit, image_uri, url, healthy, last_request_at,
      application_version, build_plan, health, incidents, place
    )
    left join deployments c on c.id = g.deployment_id and c.listener_id = v_listener.id
    left join revisions n on n.id = g.revision_id and n.deployment_id = c.id
    order by g.place
  loop
    v_before := v.deployment;
    d := v.deployment;
    r := v.revision;
    v_event_count := cardinality(v_events);
    deployment_id := v.deployment_id;
    revision_id := v.revision_id;
    generation := d.generation;
    hooked_tenant := null;
    if d.id is null then
      v_was_served := exists (
        select from sync_items i where i.deployment_id = v.deployment_id and i.listener_id = v_listener.id
      );
    end if;
    code := report_code(v.state, v.generation, v.revision_id, d, r, v_was_served);
    if code is not null then
      return next;
      continue;
    end if;

    if v.state = 'removed' then
      generation := null;
      if d.id is null then
        v_forgotten := v_forgotten || v.deployment_id;
      else
        v_removed := v_removed || d.id;
        v_events := v_events || (
          d.tenant_id,
          d.organization_id,
          'deployment.removed',
          d.id,
          '{}',
          changed_members(jsonb_build_object('status', d.status), null)
        )::tenant_event;
      end if;
    else
      v_path := case
        when v.state in ('building', 'built', 'deploying', 'deployed', 'failed') then report_path(r.status, v.state)
      end;
      if cardinality(v_path) > 0
        or v.state = 'deploying' and r.status = 'DEPLOYING' and v.message is distinct from r.status_message then
        v_next := r;
        v_next.status_message := case when v.state in ('deploying', 'failed') then v.message end;
        v_next.source_revision_config :=
          r.source_revision_config::jsonb || resolved_config(r, v.commit, v.image_uri);
        v_next.commit := coalesce('{"message": null, "author": null}' || v.commit, r.commit::jsonb);
        v_next.build_plan := coalesce(v.build_plan, r.build_plan);
        v_next.status := coalesce(v_path[cardinality(v_path)], r.status);
        v_events := v_events || step_events(
          r, v_next, v_path, case v.state when 'failed' then v.message end, v.commit ->> 'sha'
        );
        v_revisions := v_revisions || v_next;
        d := follow_revision(d, r, v_next);
        if d.active_revision_id = v_next.id and v_before.active_revision_id is distinct from v_next.id then
          v_events := v_events || declare_schedules(d, v_next.build_plan);
        end if;
      end if;

      -- The tag is the version of an image that the user names.
      if r.id = d.latest_revision_id and r.source not in ('internal_container', 'external_container') then
        d.image_version := coalesce(v.application_version, d.image_version);
      end if;
      d.url := coalesce(v.url, d.url);
      d.healthy := coalesce(v.healthy, d.healthy);
      if v.health is not null or v.state in ('serving', 'deployed') then
        d.reported_health := v.health ->> 'state';
        d.health_reason := coalesce(v.health ->> 'reason', case v.state when 'serving' then v.message end);
      end if;
      d := add_incidents(d, v.incidents);
      -- `least` ignores nulls: without a time, it would be now.
      if v.last_request_at is not null then
        d.last_request_at := greatest(d.last_request_at, least(v.last_request_at, clock()));
      end if;
      d.status := case
        when v.state = 'database_ready' and d.status = 'AWAITING_DATABASE' then 'READY'
        when d.status = 'UNUSED' and v.last_request_at > clock() - p_unused_after then 'READY'
        else d.status
      end;
      v_reached := reached_generation(v.state, v.generation, v.revision_id, v_before);
      -- The end of a revision without a successor: the agent has reached the next generation with it.
      if v_reached = v_before.generation
        and nullif(d.in_flight_revision_id, v_before.in_flight_revision_id) is null then
        d.acknowledged := d.generation;
      else
        d.acknowledged := greatest(d.acknowledged, v_reached);
      end if;
      v_deployments := v_deployments || d;
      v_events := v_events || deployment_events(v_before, d);
      generation := d.generation;
    end if;
    if cardinality(v_events) > v_event_count and has_webhooks(d.tenant_id) then hooked_tenant := d.tenant_id; end if;
    return next;
  end loop;

  perform write_moved_revisions(v_revisions);
  perform journal_tenant_events(v_events, case when v_listener.tenant_id is not null then p_daily_limit end);
  perform write_moved_deployments(v_deployments);
  delete from deployments c where c.id = any(v_removed) and c.listener_id = v_listener.id;
  if cardinality(v_forgotten) > 0 then perform delete_sync_items(v_forgotten); end if;
end $function$;
create or replace function create_job(p_deployment uuid, p_new jsonb, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  d deployments;
  s schedules;
  j jobs;
  v_obstacle text;
  v_events tenant_event[] := '{}';
begin
  select c.* into d from deployments c where c.id = p_deployment and c.tenant_id = current_tenant() for share;
  if not found then return; end if;
  if d.deleting_at is not null then perform refuse('deployment_deleting'); end if;
  perform require_command_permission();
  if p_new ->> 'schedule_id' is not null then
    select c.*
    into s
    from schedules c
    where c.id = (p_new ->> 'schedule_id')::uuid and c.deployment_id = d.id and c.tenant_id = current_tenant()
    for update;
    if not found then perform refuse('schedule_not_found'); end if;
    p_new := p_new || jsonb_build_object(
      'command', s.command,
      'timeout_seconds', s.timeout_seconds,
      'deadline_seconds', s.deadline_seconds,
      'process', s.process,
      'retries', s.retries,
      'is_serial', s.overlap <> 'allow'
    );
  end if;
  v_obstacle := job_obstacle(d, p_new ->> 'process');
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
create or replace function declare_schedules(d deployments, p_plan json)
 RETURNS tenant_event[]
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v record;
  v_before schedules;
  s schedules;
  v_events tenant_event[] := '{}';
begin
  if json_typeof(p_plan -> 'schedules') is distinct from 'array' then return '{}'; end if;
  for v_before in
    select c.*
    from schedules c
    where c.deployment_id = d.id
      and c.is_declared
      and not exists (select from json_array_elements(p_plan -> 'schedules') g where g ->> 'name' = c.name)
    order by c.id
    for update
  loop
    delete from schedules c where c.id = v_before.id;
    v_events := v_events || schedule_event('schedule.deleted', d, v_before, null);
  end loop;
  for v in
    select g as declared
    from json_populate_recordset(null::schedules, p_plan -> 'schedules') g
    order by g.name
  loop
    select c.* into v_before from schedules c where c.deployment_id = d.id and c.name = (v.declared).name for update;
    s := v.declared;
    if v_before.id is null then
      -- The limit of requests: enforce_quota() does not count what agents bring.
      if (select count(*) from schedules c where c.tenant_id = d.tenant_id)
        >= coalesce(setting('max_schedules'), '1000')::bigint then
        v_events := v_events || (
          d.tenant_id,
          d.organization_id,
          'schedule.refused',
          d.id,
          json_build_object('deployment_id', d.id, 'name', s.name, 'reason', 'quota_full'),
          null
        )::tenant_event;
        continue;
      end if;
      s.id := gen_random_uuid();
      s.organization_id := d.organization_id;
      s.tenant_id := d.tenant_id;
      s.deployment_id := d.id;
      s.enabled := true;
      s.next_due_at := clock();
      s.version := 1;
      s.created_at := clock();
      s.is_declared := true;
      s.updated_at := s.created_at;
      insert into schedules values (s.*);
      v_events := v_events || schedule_event('schedule.created', d, null, s);
      continue;
    end if;
    s.id := v_before.id;
    s.enabled := v_before.enabled;
    continue when v_before.is_declared and recorded_schedule(s) = recorded_schedule(v_before);
    update schedules c
    set
      cron = s.cron,
      time_zone = s.time_zone,
      command = s.command,
      timeout_seconds = s.timeout_seconds,
      overlap = s.overlap,
      jitter_seconds = s.jitter_seconds,
      retries = s.retries,
      deadline_seconds = s.deadline_seconds,
      process = s.process,
      owner = null,
      is_declared = true,
      -- A due time whose job may exist already is not due again.
      next_due_at = case
        when (c.cron, c.time_zone) = (s.cron, s.time_zone) or c.next_due_at is null then c.next_due_at
        else clock() + interval '1 second'
      end,
      version = c.version + 1,
      updated_at = clock()
    where c.id = s.id;
    v_events := v_events || schedule_event('schedule.updated', d, v_before, s);
  end loop;
  return v_events;
end $function$;
reset role;
set local role slipway_system;
create or replace function dispatch_jobs(p_tenants uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_tenant uuid;
  v_free bigint;
  v_chosen uuid[] := '{}';
begin
  perform from journals j where j.scope_id = any(p_tenants) order by j.scope_id for no key update;
  foreach v_tenant in array p_tenants loop
    v_free := free_job_places(v_tenant);
    continue when v_free <= 0;
    v_chosen := v_chosen || array(
      select j.id
      from jobs j
      join deployments d on d.id = j.deployment_id
      where j.tenant_id = v_tenant
        and j.status = 'QUEUED'
        and j.dispatched_at is null
        and j.not_before <= clock() + interval '1 minute'
        and d.listener_id is not null
        and d.deleting_at is null
        and not (j.is_serial and exists (
          select from jobs o
          where o.tenant_id = v_tenant
            and o.schedule_id = j.schedule_id
            and o.id <> j.id
            and o.status in ('QUEUED', 'RUNNING')
            and (o.dispatched_at is not null or (o.created_at, o.id) < (j.created_at, j.id))
        ))
      order by j.not_before, j.created_at, j.id
      limit v_free
      for update of j skip locked
    );
  end loop;
  if v_chosen = '{}' then return; end if;
  update jobs j
  set dispatched_at = clock(), listener_id = d.listener_id
  from deployments d
  where j.id = any(v_chosen) and d.id = j.deployment_id;
  perform record_sync_jobs(v_chosen);
end $function$;
reset role;
create or replace function dispatch_waiting_jobs(p_after uuid, p_limit integer)
 RETURNS uuid
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_tenant uuid := p_after;
  v_next uuid;
  v_soonest timestamptz;
  v_tenants uuid[] := '{}';
begin
  for i in 1..p_limit loop
    v_next := null;
    select j.tenant_id, j.not_before
    into v_next, v_soonest
    from jobs j
    where j.status = 'QUEUED' and j.dispatched_at is null and j.tenant_id > v_tenant
    order by j.tenant_id, j.not_before
    limit 1;
    exit when v_next is null;
    v_tenant := v_next;
    if v_soonest <= clock() + interval '1 minute' and free_job_places(v_tenant) > 0 then
      v_tenants := v_tenants || v_tenant;
    end if;
  end loop;
  if v_tenants <> '{}' then perform dispatch_jobs(v_tenants); end if;
  return case when v_next is not null then v_tenant end;
end $function$;
set local role slipway_system;
create or replace function free_job_places(p_tenant uuid)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return max_running_jobs() - (
    select count(*)
    from jobs j
    where j.tenant_id = p_tenant and j.status in ('QUEUED', 'RUNNING') and j.dispatched_at is not null
  );
end $function$;
reset role;
set local role slipway_system;
create or replace function job_obstacle(d deployments, p_process text)
 RETURNS text
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_policy json := (select l.policy from listeners l where l.id = d.listener_id);
  v_processes json;
begin
  if d.active_revision_id is null then return 'nothing_serves'; end if;
  if v_policy ->> 'jobs' is distinct from 'true' then return 'jobs_not_supported'; end if;
  if p_process is not null and v_policy ->> 'job_processes' is distinct from 'true' then
    return 'process_not_supported';
  end if;
  if p_process <> 'web' then
    v_processes := (
      select r.build_plan -> 'processes' from revisions r where r.id = d.active_revision_id and r.deployment_id = d.id
    );
    if v_processes is not null
      and p_process not in ('queue', 'orchestrator', 'executor')
      and not exists (select from json_array_elements(v_processes) p where p ->> 'name' = p_process) then
      return 'process_unknown';
    end if;
  end if;
  return null;
end $function$;
reset role;
create or replace function plan_job(p_deployment uuid, p_process text)
 RETURNS TABLE(revision_id uuid, revision_number integer, open_jobs bigint, free_places bigint)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  d deployments;
  v_obstacle text;
begin
  select c.* into d from deployments c where c.id = p_deployment and c.tenant_id = current_tenant();
  if not found then return; end if;
  if d.deleting_at is not null then perform refuse('deployment_deleting'); end if;
  perform require_command_permission();
  v_obstacle := job_obstacle(d, p_process);
  if v_obstacle is not null then perform refuse(v_obstacle); end if;
  open_jobs := number_of_open_jobs(d.tenant_id);
  if open_jobs >= max_open_jobs() then perform refuse('job_queue_full', max_open_jobs() || ' jobs wait or run'); end if;
  revision_id := d.active_revision_id;
  revision_number := (select r.number from revisions r where r.id = d.active_revision_id and r.deployment_id = d.id);
  free_places := greatest(0, free_job_places(d.tenant_id));
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
          json_build_object(
            'job_id', p.id,
            'deployment_id', p.deployment_id,
            'status', p.status,
            'command', p.command,
            'timeout_seconds', p.timeout_seconds,
            'process', p.process,
            'starts_in_ms', greatest(0, ceil(extract(epoch from p.not_before - clock()) * 1000)),
            'cancel', p.cancel_requested_at is not null
          )
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
create or replace function recorded_job(p_job jobs)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN CASE WHEN ((p_job).id IS NOT NULL) THEN jsonb_build_object('status', (p_job).status, 'command',
  (p_job).command, 'timeout_seconds', (p_job).timeout_seconds, 'process', (p_job).process, 'revision_id',
  (p_job).revision_id, 'exit_code', (p_job).exit_code, 'reason', (p_job).reason, 'cancel_requested_at',
  (p_job).cancel_requested_at) ELSE NULL::jsonb END;
create or replace function recorded_schedule(s schedules)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN CASE WHEN ((s).id IS NOT NULL) THEN jsonb_build_object('name', (s).name, 'cron', (s).cron, 'time_zone',
  (s).time_zone, 'command', (s).command, 'timeout_seconds', (s).timeout_seconds, 'overlap', (s).overlap,
  'jitter_seconds', (s).jitter_seconds, 'retries', (s).retries, 'deadline_seconds', (s).deadline_seconds,
  'process', (s).process, 'enabled', (s).enabled, 'owner', (s).owner) ELSE NULL::jsonb END;
set local role slipway_system;
create or replace function require_tunnel_room(p_tenant uuid, p_listener uuid, p_features text[],
  p_tenant_limit integer, p_listener_limit integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER COST 20000
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners;
  v_missing text;
begin
  select l.* into v_listener from listeners l where l.id = p_listener;
  if not found or v_listener.lease_expires_at is null or v_listener.lease_expires_at <= clock() then
    perform refuse('agent_absent');
  end if;
  select f into v_missing
  from unnest(p_features) f
  where f not in (select json_array_elements_text(coalesce(v_listener.policy -> 'tunnels', '[]')));
  if found then perform refuse('tunnel_unsupported', v_missing); end if;
  perform pg_advisory_xact_lock(hashtextextended('tunnels of ' || p_tenant, 0));
  if (select count(*) from tunnels t where t.tenant_id = p_tenant and t.ended_at is null) >= p_tenant_limit
    or (
      select count(*) + count(*) filter (where t.tenant_id = p_tenant)
      from tunnels t
      where t.listener_id = p_listener and t.ended_at is null
    ) >= p_listener_limit
  then
    perform refuse('tunnels_full');
  end if;
  return true;
end $function$;
reset role;
create or replace function schedule_event(p_type text, d deployments, p_before schedules, p_after schedules)
 RETURNS tenant_event
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return (
    d.tenant_id,
    d.organization_id,
    p_type,
    coalesce(p_after.id, p_before.id),
    json_build_object('deployment_id', d.id, 'declared', true),
    changed_members(recorded_schedule(p_before), recorded_schedule(p_after))
  )::tenant_event;
end $function$;
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
          else case job_obstacle(d, s.process)
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
create or replace function sweep_jobs(p_limit integer)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_before jobs;
  j jobs;
  v_jobs jobs[] := '{}';
  v_events tenant_event[] := '{}';
begin
  for v_before in
    select c.*
    from jobs c
    where c.status in ('QUEUED', 'RUNNING') and c.overdue_at <= clock()
    order by c.overdue_at
    limit p_limit
    for update skip locked
  loop
    j := case v_before.status
      when 'QUEUED' then end_job(v_before, 'MISSED', 'It was not started within its deadline.')
      else end_job(v_before, 'LOST', 'Its agent did not report the end in time.')
    end;
    v_jobs := v_jobs || j;
    v_events := v_events || job_event('job.' || lower(j.status), v_before, j);
  end loop;
  perform write_jobs(v_jobs);
  perform journal_tenant_events(v_events, null);
end $function$;
set local role slipway_system;
revoke execute on function declare_schedules(deployments, json) from public;
grant execute on function declare_schedules(deployments, json) to slipway_agent;
reset role;
set local role slipway_system;
revoke execute on function free_job_places(uuid) from public;
grant execute on function free_job_places(uuid) to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function job_obstacle(deployments, text) from public;
grant execute on function job_obstacle(deployments, text) to slipway_app;
reset role;
set local role slipway_system;
-- Unused since 0.1.0.
drop function job_obstacle(deployments);
reset role;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
