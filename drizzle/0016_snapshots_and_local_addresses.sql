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
ALTER TABLE "deployments" ADD COLUMN "local_url" text;--> statement-breakpoint
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
revoke all on deployments from slipway_agent;
revoke all on deployments from slipway_app;
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
    limit 200
  );
  return new;
end $function$;
CREATE TRIGGER keep_cleared_stores BEFORE UPDATE OF source_config ON public.deployments
  FOR EACH ROW WHEN (((old.source_config)::text IS DISTINCT FROM (new.source_config)::text))
  EXECUTE FUNCTION keep_cleared_stores();
grant delete, select, update (name, name_fold, source, deployment_type, status, image_version, tag_value_ids,
  source_config, source_revision_config, secrets, secret_references, generation, acknowledged, remote_reconciled,
  revisions, latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id, hold, preview,
  repo_key, deleting_at, listener_id, url, healthy, last_request_at, custom_host, custom_path, version, created_at,
  updated_at, reported_health, health_reason, incidents, incidents_due, dormant_parts, health_processes,
  local_url) on deployments to slipway_agent;
grant delete, insert, select, update (name, name_fold, source, deployment_type, status, image_version,
  tag_value_ids, source_config, source_revision_config, secrets, secret_references, generation, acknowledged,
  remote_reconciled, revisions, latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id,
  hold, preview, repo_key, deleting_at, listener_id, url, healthy, last_request_at, custom_host, custom_path,
  version, created_at, updated_at, trace_key_version, owner, reported_health, health_reason, incidents,
  incidents_due, dormant_parts, health_processes, local_url) on deployments to slipway_app;
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
        build_plan json, health jsonb, incidents jsonb, local_url text, awaits_database boolean
      )
    ) with ordinality g(
      deployment_id, revision_id, generation, state, message, commit, image_uri, url, healthy, last_request_at,
      application_version, build_plan, health, incidents, local_url, awaits_database, place
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
      d.local_url := case when v.url is not null then v.local_url else d.local_url end;
      d.healthy := coalesce(v.healthy, d.healthy);
      if v.health is not null or v.state in ('serving', 'deployed') then
        d.reported_health := v.health ->> 'state';
        d.health_processes := v.health -> 'processes';
        d.health_reason := coalesce(v.health ->> 'reason', case v.state when 'serving' then v.message end);
      end if;
      d := add_incidents(d, v.incidents);
      -- `least` ignores nulls: without a time, it would be now.
      if v.last_request_at is not null then
        d.last_request_at := greatest(d.last_request_at, least(v.last_request_at, clock()));
      end if;
      d.status := case
        when v.state = 'database_ready' and d.status = 'AWAITING_DATABASE' then 'READY'
        when v.awaits_database and d.status = 'READY' then 'AWAITING_DATABASE'
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
      action = null,
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
create or replace function event_value(p_value jsonb)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN CASE WHEN (octet_length((p_value)::text) <= 8192) THEN p_value WHEN (p_value IS NOT NULL)
  THEN jsonb_build_object('omitted_bytes', octet_length((p_value)::text)) ELSE NULL::jsonb END;
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
create or replace function plan_patch(p_stored deployments, p_patch jsonb)
 RETURNS patch_plan
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_stored jsonb := jsonb_build_object(
    'name', p_stored.name,
    'source', p_stored.source,
    'source_config', p_stored.source_config,
    'source_revision_config', p_stored.source_revision_config,
    'secret_references', p_stored.secret_references
  );
  v_next jsonb := v_stored;
  v_resources constant text[] := '{source_config, resource_spec}';
  v_new_parts text[];
  v_written text[];
  v_source text := coalesce(p_patch ->> 'revision_source', p_stored.source);
  v_next_row deployments := p_stored;
  v_plan patch_plan;
  v_member record;
  v_is_changed boolean;
  v_secrets record;
begin
  v_plan.reasons := '{}';
  v_plan.in_place := '{}';
  v_plan.immutable := '{}';
  v_plan.refused := '{}';
  for v_member in
    select
      m.path,
      string_to_array(m.path, '.') as place,
      -- An empty list is the same as none.
      nullif(
        case m.path
          when 'source_config.resource_spec.volumes' then keep_disks(coalesce(v_stored #> v_resources, '{}'), m.value)
          when 'source_config.resource_spec.volume_mounts'
            then keep_disk_mounts(coalesce(v_stored #> v_resources, '{}'), m.value)
          else m.value
        end,
        '[]'
      ) as value,
      m.effect,
      m.is_always_new,
      m.refused_by
    from jsonb_to_recordset(p_patch -> 'members')
      as m(path text, value jsonb, effect text, is_always_new boolean, refused_by text[])
  loop
    v_is_changed := nullif(v_stored #> v_member.place, 'null') is distinct from v_member.value;
    if v_is_changed and v_source = any(v_member.refused_by) then
      v_plan.refused := v_plan.refused || v_member.path;
    end if;
    continue when not (v_is_changed or v_member.is_always_new);
    case v_member.effect
      when 'revision' then v_plan.reasons := v_plan.reasons || v_member.path;
      when 'in_place' then v_plan.in_place := v_plan.in_place || v_member.path;
      when 'immutable' then v_plan.immutable := v_plan.immutable || v_member.path;
    end case;
    if v_member.value is null then
      v_next := v_next #- v_member.place;
    else
      if v_member.place[1:2] = v_resources and nullif(v_next #> v_resources, 'null') is null then
        v_next := jsonb_set(v_next, v_resources, '{}');
      end if;
      v_next := jsonb_set(v_next, v_member.place, v_member.value);
    end if;
    -- A ref that is sent again resolves again. A preview's commit follows its pull request.
    if v_member.path = 'source_revision_config.repo_ref' and (p_stored.preview is null or v_is_changed) then
      v_next := v_next #- '{source_revision_config, repo_commit_sha}';
    end if;
  end loop;
  -- Resources without a member are none, except for a source that needs them.
  if v_next #> v_resources = '{}' and v_stored #> v_resources <> '{}' and v_source <> 'external_container' then
    v_next := v_next #- v_resources;
  end if;
  if cardinality(v_plan.in_place) > 0 then
    -- A part that comes or goes needs other copies, also if it is by its scale.
    select coalesce(array_agg(p.path), '{}')
    into v_new_parts
    from unnest(v_plan.in_place) p(path)
    join unnest('{queue, orchestrator}'::text[]) part
      on starts_with(p.path, 'source_config.resource_spec.' || part || '_')
    where has_part(v_stored #> v_resources, part) <> has_part(v_next #> v_resources, part);
    v_plan.reasons := v_plan.reasons || v_new_parts;
    v_plan.in_place := array(select path from unnest(v_plan.in_place) path where path <> all (v_new_parts));
  end if;

  -- A dormant part acts once one of its members is written again, also if it stays as it was.
  v_written := array(
    select distinct m.path
    from jsonb_to_recordset(p_patch -> 'members') as m(path text)
    join unnest(p_stored.dormant_parts) part on starts_with(m.path, 'source_config.resource_spec.' || part || '_')
  );
  if cardinality(v_written) > 0 then
    v_plan.reasons := v_plan.reasons || array(select p from unnest(v_written) p where p <> all (v_plan.reasons));
    v_plan.in_place := array(select p from unnest(v_plan.in_place) p where p <> all (v_written));
    v_next_row.dormant_parts := nullif(
      array(
        select part
        from unnest(p_stored.dormant_parts) part
        where not exists (
          select from unnest(v_written) p where starts_with(p, 'source_config.resource_spec.' || part || '_')
        )
      ),
      '{}'
    );
  end if;

  v_next_row.source_config := v_next -> 'source_config';
  v_next_row.source_revision_config := v_next -> 'source_revision_config';
  v_next_row.secret_references := nullif(v_next -> 'secret_references', 'null');
  if p_patch -> 'secrets' is not null then
    select * into v_secrets from compare_secrets(p_stored, p_patch -> 'secrets');
    v_plan.kept_secrets := v_secrets.kept;
    v_plan.unknown_masks := v_secrets.unknown;
    if v_secrets.has_changes then
      v_plan.reasons := v_plan.reasons || 'secrets'::text;
      v_next_row.secrets := v_secrets.next;
    end if;
  end if;
  v_plan.next := v_next_row;
  return v_plan;
end $function$;
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
create or replace function require_allowed_patch(p_stored deployments, p_plan patch_plan, p_patch jsonb,
  p_request jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 COST 10000
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_next deployments := p_plan.next;
  v_source text := coalesce(p_patch ->> 'revision_source', p_stored.source);
  -- The values that the patch sends.
  v_sent jsonb := (
    select jsonb_object_agg(m.path, m.value)
    from jsonb_to_recordset(p_patch -> 'members') as m(path text, value jsonb)
    where m.value is not null
  );
  v_faults text;
begin
  if p_stored.deleting_at is not null then perform refuse('deployment_deleting'); end if;
  perform require_version(p_stored.version, p_request);

  v_faults := array_to_string(
    array(select path || ' is not allowed for source ' || v_source from unnest(p_plan.refused) path)
    || array(
      select r.path || ' is required for source ' || v_source
      from jsonb_to_recordset(p_patch -> 'required') as r(path text, needed_by text[])
      where v_source = any(r.needed_by)
        and jsonb_build_object(
          'source_config', v_next.source_config, 'source_revision_config', v_next.source_revision_config
        ) #>> string_to_array(r.path, '.') is null
    )
    || case when p_patch -> 'resource_pairs' <> '[]' then
      list_resource_faults((v_next.source_config -> 'resource_spec')::jsonb, p_patch -> 'resource_pairs')
      || list_volume_faults(
        (p_stored.source_config -> 'resource_spec')::jsonb,
        (v_next.source_config -> 'resource_spec')::jsonb,
        v_sent -> 'source_config.resource_spec.volumes'
      )
    end,
    '; '
  );
  if v_faults <> '' then perform refuse('source_rule', v_faults); end if;
  if exists (select from jsonb_object_keys(v_sent) path where path like 'source\_%') then
    perform require_branch_to_build_on_push(v_next.source_config, v_next.source_revision_config);
  end if;

  if cardinality(p_plan.unknown_masks) > 0 then
    perform refuse('secret_unknown', array_to_string(p_plan.unknown_masks, ', '));
  end if;
  if p_patch -> 'secrets' is not null or v_sent ? 'secret_references' then
    v_faults := (
      select string_agg(name, ', ')
      from json_to_recordset(v_next.secrets) s(name text)
      join json_to_recordset(coalesce(v_next.secret_references, '[]')) f(name text) using (name)
    );
    if v_faults is not null then perform refuse('variable_doubled', v_faults); end if;
  end if;

  if v_sent ? 'source_revision_config.source_tarball_path' then
    perform require_stored_archive(v_sent ->> 'source_revision_config.source_tarball_path');
  end if;
  if v_sent ? 'source_config.custom_url' then
    perform require_free_custom_url(
      current_tenant(),
      p_stored.id,
      custom_host(v_sent ->> 'source_config.custom_url'),
      custom_path(v_sent ->> 'source_config.custom_url')
    );
  end if;
  -- The ref is resolved through the integration.
  if (v_sent ? 'source_revision_config.repo_ref' or v_sent ->> 'revision_source' = 'githost')
    and p_stored.source_config ->> 'integration_id' is not null then
    perform require_active_integration((p_stored.source_config ->> 'integration_id')::uuid);
  end if;
  return require_allowed_commands(p_stored.source_config::jsonb, v_next.source_config::jsonb);
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
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
begin
  return array(
    select 'disk:' || (v.volume #>> '{persistentVolumeClaim, claimName}')
    from jsonb_array_elements(nullif(p_resources -> 'volumes', 'null')) v(volume)
    where v.volume #>> '{persistentVolumeClaim, claimName}' ~ '^[a-z0-9][-a-z0-9.]{0,252}$'
    union
    select 'database' where has_part(p_resources, 'db')
    union
    select 'redis' where has_part(p_resources, 'redis')
  );
end $function$;
create or replace function write_moved_deployments(p_deployments deployments[])
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  update deployments d
  set
    in_flight_revision_id = n.in_flight_revision_id,
    waiting_revision_id = n.waiting_revision_id,
    active_revision_id = n.active_revision_id,
    source_revision_config = n.source_revision_config,
    image_version = n.image_version,
    generation = n.generation,
    acknowledged = n.acknowledged,
    remote_reconciled = n.acknowledged >= n.generation,
    status = n.status,
    url = n.url,
    local_url = n.local_url,
    healthy = n.healthy,
    reported_health = n.reported_health,
    health_reason = n.health_reason,
    health_processes = n.health_processes,
    incidents = n.incidents,
    incidents_due = n.incidents_due,
    last_request_at = n.last_request_at,
    version = d.version + (
      (n.active_revision_id, n.status, n.url, n.local_url, n.source_revision_config::text, n.image_version)
        is distinct from (
          d.active_revision_id, d.status, d.url, d.local_url, d.source_revision_config::text, d.image_version
        )
    )::integer,
    updated_at = n.updated_at
  from unnest(p_deployments) n
  where d.id = n.id and d.tenant_id = n.tenant_id;
end $function$;
set local role slipway_system;
revoke execute on function job_obstacle(deployments, text, jsonb) from public;
grant execute on function job_obstacle(deployments, text, jsonb) to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function receive_snapshots(text, bigint, jsonb, uuid, uuid, bigint) from public;
grant execute on function receive_snapshots(text, bigint, jsonb, uuid, uuid, bigint) to slipway_agent;
reset role;
set local role slipway_system;
-- Unused since 0.1.0.
drop function job_obstacle(deployments, text);
reset role;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
