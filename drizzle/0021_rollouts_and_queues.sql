ALTER TABLE "deployments" ADD COLUMN "rollout" json;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "rollout_secret" text;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "rollout_due_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "revisions" ADD COLUMN "rollout" json;--> statement-breakpoint
CREATE INDEX "deployments_rollout_due" ON "deployments" USING btree ("rollout_due_at")
  WHERE rollout_due_at is not null;
--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
revoke all on deployments from slipway_agent;
revoke all on deployments from slipway_app;
revoke all on revisions from slipway_agent;
revoke all on revisions from slipway_app;
grant delete, select, update (name, name_fold, source, deployment_type, status, image_version, tag_value_ids,
  source_config, source_revision_config, secrets, secret_references, generation, acknowledged, remote_reconciled,
  revisions, latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id, hold, preview,
  repo_key, deleting_at, listener_id, url, healthy, last_request_at, custom_host, custom_path, version, created_at,
  updated_at, reported_health, health_reason, incidents, incidents_due, dormant_parts, health_processes, local_url,
  traffic, applied_traffic, rollout, rollout_due_at) on deployments to slipway_agent;
grant delete, insert, select, update (name, name_fold, source, deployment_type, status, image_version,
  tag_value_ids, source_config, source_revision_config, secrets, secret_references, generation, acknowledged,
  remote_reconciled, revisions, latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id,
  hold, preview, repo_key, deleting_at, listener_id, url, healthy, last_request_at, custom_host, custom_path,
  version, created_at, updated_at, trace_key_version, owner, reported_health, health_reason, incidents,
  incidents_due, dormant_parts, health_processes, local_url, protection, traffic, applied_traffic, rollout,
  rollout_secret, rollout_due_at) on deployments to slipway_app;
grant select, update (number, source, source_config, source_revision_config, secrets, secret_references, status,
  status_message, status_since, reasons, commit, actor_kind, actor_name, created_at, updated_at, build_plan,
  rollout) on revisions to slipway_agent;
grant delete, insert, select, update (number, source, source_config, source_revision_config, secrets,
  secret_references, status, status_message, status_since, reasons, commit, actor_kind, actor_name, created_at,
  updated_at, build_plan, rollout) on revisions to slipway_app;
create or replace function advance_rollout(d deployments, p_requests bigint, p_gates jsonb)
 RETURNS deployments
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_progress jsonb := rollout_of(d);
  v_step integer := (v_progress ->> 'step')::integer;
begin
  update revisions r
  set rollout = (coalesce(r.rollout::jsonb, '{"failure": null}') || jsonb_build_object(
    'steps',
    coalesce(r.rollout::jsonb -> 'steps', '[]') || jsonb_build_array(jsonb_build_object(
      'step', v_step,
      'share', rollout_share(v_progress -> 'policy', v_step),
      'since', v_progress -> 'since',
      'until', clock(),
      'requests', p_requests,
      'gates', p_gates
    ))
  ))::json
  where r.id = d.in_flight_revision_id and r.deployment_id = d.id and r.tenant_id = d.tenant_id;
  d := with_rollout(
    d,
    v_progress - 'asked' || jsonb_build_object('step', v_step + 1, 'since', clock(), 'passed', false),
    rollout_share(v_progress -> 'policy', v_step + 1)
  );
  d.generation := d.generation + 1;
  return d;
end $function$;
create or replace function apply_judged_rollout(d deployments)
 RETURNS deployments
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_progress jsonb := rollout_of(d);
  v_judged jsonb := rollout_judged(d);
begin
  if v_judged is null
    or rollout_work(v_progress) is null
    or v_progress -> 'passed' = 'true'
  then
    return d;
  end if;
  if not is_judged_passed(v_progress, v_judged) then
    -- The first look at the scores of the first step.
    d.rollout_due_at := coalesce(d.rollout_due_at, rollout_due(v_progress));
    return d;
  end if;
  if v_progress -> 'paused' = 'true' or asks_control_plane(v_progress) or minutes_over_at(v_progress) > clock() then
    return with_rollout(
      d, v_progress || '{"passed": true}', (d.traffic #>> '{beside, share}')::integer
    );
  end if;
  return advance_rollout(d, (v_judged ->> 'requests')::bigint, v_judged -> 'gates');
end $function$;
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
  v_successor integer;
  v_is_sent_back boolean;
  v_generation integer;
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
        build_plan json, health jsonb, incidents jsonb, local_url text, awaits_database boolean, traffic json
      )
    ) with ordinality g(
      deployment_id, revision_id, generation, state, message, commit, image_uri, url, healthy, last_request_at,
      application_version, build_plan, health, incidents, local_url, awaits_database, traffic, place
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
      -- One that has a share of the traffic never ends by itself, so the next one would wait for ever.
      v_successor := case
        when v.state = 'deploying' and d.in_flight_revision_id = r.id and v.traffic ->> 'revision_id' = r.id::text
          then (select w.number from revisions w where w.id = d.waiting_revision_id and w.status = 'QUEUED')
      end;
      if v_successor is not null then v_path := '{INTERRUPTED}'; end if;
      -- Only a revision that had its share was judged. One that never started ends without a hold.
      v_is_sent_back := v.state = 'failed' and v_path = '{DEPLOY_FAILED}' and d.in_flight_revision_id = r.id
        and rollout_of(d) is not null
        and r.id::text in (v.traffic ->> 'revision_id', d.applied_traffic ->> 'revision_id');
      if v_is_sent_back then
        d := fail_rollout(
          d, r, v.message, coalesce(nullif((v.traffic -> 'rollout')::jsonb, 'null'), judged_health(v.message))
        );
        v_events := v_events || rollout_event(
          'deployment.rollout_failed', v_before, d, jsonb_build_object('message', v.message)
        );
      end if;
      if cardinality(v_path) > 0
        or v.state = 'deploying' and r.status = 'DEPLOYING' and v.message is distinct from r.status_message then
        v_next := r;
        v_next.status_message := case
          when v_successor is not null then 'Superseded by revision ' || v_successor
          when v.state in ('deploying', 'failed') then v.message
        end;
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
      -- A revision that had its share has it again once its copies run, such as after a start of its agent or of the
      -- machine. So it keeps having no deadline.
      if v.state = 'deploying' and v.traffic ->> 'revision_id' is null
        and d.applied_traffic ->> 'revision_id' = r.id::text
      then
        d.applied_traffic := json_build_object('revision_id', r.id, 'share', 0);
      elsif v.state in ('deploying', 'deployed', 'serving') then
        d.applied_traffic := v.traffic;
      end if;
      v_generation := d.generation;
      if v.state = 'deploying' then d := apply_judged_rollout(d); end if;
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
      if v.state = 'database_ready' then d := with_database_copied(d, v_listener); end if;
      v_reached := reached_generation(v.state, v.generation, v.revision_id, v_before);
      -- The end of a revision without a successor: the agent has reached the next generation with it.
      if v_reached = v_before.generation
        -- The next step of a rollout is still to come.
        and d.generation = v_generation
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
create or replace function asks_control_plane(p_progress jsonb)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (((p_progress #> '{policy,gates,scores}'::text[]) <> '[]'::jsonb)
  OR (NULLIF((p_progress #> '{policy,gates,webhook}'::text[]), 'null'::jsonb) IS NOT NULL));
create or replace function begin_rollout(d deployments)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN CASE WHEN ((d).rollout IS NOT NULL) THEN jsonb_build_object('step', 0, 'since', clock(), 'paused', false,
  'passed', false, 'policy', (d).rollout, 'signed', ((d).rollout_secret IS NOT NULL)) ELSE NULL::jsonb END;
create or replace function changed_members(p_before jsonb, p_after jsonb)
 RETURNS json
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
declare
  v_key text;
  v_name text;
  v_before jsonb;
  v_after jsonb;
  v_one jsonb;
  v_other jsonb;
  v_paths text[] := '{}';
  v_changes text[] := '{}';
begin
  for v_key in select jsonb_object_keys(coalesce(p_before, '{}') || coalesce(p_after, '{}')) loop
    v_before := p_before -> v_key;
    v_after := p_after -> v_key;
    -- Most members are equal as they are.
    continue when v_before is not distinct from v_after;
    v_before := nullif(nullif(v_before, 'null'), '{}');
    v_after := nullif(nullif(v_after, 'null'), '{}');
    continue when v_before is not distinct from v_after;
    if jsonb_typeof(v_before) <> 'object' or jsonb_typeof(v_after) <> 'object' then
      v_paths := v_paths || v_key;
      v_changes := v_changes || member_change(v_key, v_before, v_after);
      continue;
    end if;
    for v_name in select jsonb_object_keys(coalesce(v_before, '{}') || coalesce(v_after, '{}')) loop
      v_one := nullif(nullif(v_before -> v_name, 'null'), '{}');
      v_other := nullif(nullif(v_after -> v_name, 'null'), '{}');
      continue when v_one is not distinct from v_other;
      v_paths := v_paths || concat(v_key, '.', v_name);
      v_changes := v_changes || member_change(concat(v_key, '.', v_name), v_one, v_other);
    end loop;
  end loop;
  if cardinality(v_paths) < 2 then return '[' || v_changes[1] || ']'; end if;
  return (
    select concat('[', string_agg(c.change, ', ' order by c.path), ']')
    from unnest(v_paths, v_changes) c(path, change)
  );
end $function$;
create or replace function claim_rollout(p_deployment uuid)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  d deployments;
begin
  select c.*
  into d
  from deployments c
  where c.id = p_deployment and c.rollout_due_at <= clock() and c.deleting_at is null
  for update skip locked;
  if not found then return null; end if;
  update deployments c
  set rollout_due_at = case when rollout_of(d) is not null then clock() + interval '2 minutes' end
  where c.id = d.id;
  if rollout_of(d) is null then return null; end if;
  return json_build_object(
    'deployment_id', d.id,
    'organization_id', d.organization_id,
    'tenant_id', d.tenant_id,
    'name', d.name,
    'project_id', (select p.id from projects p where p.tenant_id = d.tenant_id and p.name = d.name),
    'lower_keys', (
      select coalesce(json_agg(f.key), '[]')
      from feedback_configs f
      where f.tenant_id = d.tenant_id
        and f.is_lower_score_better
        and (rollout_of(d) #> '{policy, gates, scores}') @> jsonb_build_array(jsonb_build_object('key', f.key))
    ),
    'revision_id', d.in_flight_revision_id,
    'serving_id', d.active_revision_id,
    'number', (select r.number from revisions r where r.id = d.in_flight_revision_id),
    'share', d.traffic #> '{beside, share}',
    'progress', rollout_of(d),
    'judged', rollout_judged(d),
    -- The secret is for the address that the policy has now.
    'is_webhook_kept', has_webhook_of(d, rollout_of(d)),
    'secret', case when has_webhook_of(d, rollout_of(d)) then d.rollout_secret end
  );
end $function$;
create or replace function conclude_rollout(p_deployment uuid, p_revision uuid, p_step integer, p_outcome text,
  p_gates jsonb, p_message text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_before deployments;
  d deployments;
  r revisions;
  v_next revisions;
  v_progress jsonb;
  v_judged jsonb;
  v_events tenant_event[] := '{}';
begin
  select c.* into v_before from deployments c where c.id = p_deployment and c.deleting_at is null for update;
  v_progress := rollout_of(v_before);
  if v_progress is null or v_before.in_flight_revision_id <> p_revision
    or (v_progress ->> 'step')::integer <> p_step then return false; end if;
  d := v_before;
  v_judged := coalesce(rollout_judged(d), '{}');
  v_judged := v_judged || jsonb_build_object('gates', coalesce(v_judged -> 'gates', '[]') || p_gates);
  select n.* into r from revisions n where n.id = p_revision and n.deployment_id = d.id;
  if p_outcome = 'failed' then
    v_next := r;
    v_next.status := 'DEPLOY_FAILED';
    v_next.status_message := p_message;
    d := follow_revision(fail_rollout(d, r, p_message, v_judged), r, v_next);
    perform write_moved_revisions(array[v_next]);
    v_events := array[
      rollout_event('deployment.rollout_failed', v_before, d, jsonb_build_object('message', p_message)),
      revision_moved(r, v_next, json_build_object('deployment_id', d.id, 'message', p_message))
    ];
  elsif p_outcome = 'passed' and v_progress -> 'passed' = 'true' and v_progress -> 'paused' = 'false' then
    d := advance_rollout(d, (v_judged ->> 'requests')::bigint, v_judged -> 'gates');
  else
    d.traffic := jsonb_set(d.traffic::jsonb, '{beside, rollout, asked}', p_gates);
    d.rollout_due_at := case when rollout_due(v_progress) is not null then clock() + interval '1 minute' end;
  end if;
  v_events := v_events || deployment_events(v_before, d);
  perform journal_tenant_events(v_events, null);
  perform write_moved_deployments(array[d]);
  return has_webhooks(d.tenant_id);
end $function$;
create or replace function deployment_events(p_before deployments, p_after deployments)
 RETURNS tenant_event[]
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_started uuid := nullif(p_after.in_flight_revision_id, p_before.in_flight_revision_id);
  v_status text;
  v_events tenant_event[] := '{}';
begin
  if v_started is not null then
    v_status := (select r.status from revisions r where r.id = v_started and r.deployment_id = p_after.id);
    v_events := v_events || (
      p_after.tenant_id,
      p_after.organization_id,
      'revision.' || lower(v_status),
      v_started,
      json_build_object('deployment_id', p_after.id),
      changed_members('{"status": "QUEUED"}', jsonb_build_object('status', v_status))
    )::tenant_event;
  end if;
  if p_after.active_revision_id is distinct from p_before.active_revision_id then
    v_events := v_events || (
      p_after.tenant_id,
      p_after.organization_id,
      'deployment.activated',
      p_after.id,
      json_build_object('revision_id', p_after.active_revision_id),
      changed_members(
        jsonb_build_object('active_revision_id', p_before.active_revision_id),
        jsonb_build_object('active_revision_id', p_after.active_revision_id)
      )
    )::tenant_event;
  end if;
  if p_after.status <> p_before.status then
    v_events := v_events || (
      p_after.tenant_id,
      p_after.organization_id,
      'deployment.' || lower(p_after.status),
      p_after.id,
      '{}',
      changed_members(
        jsonb_build_object('status', p_before.status), jsonb_build_object('status', p_after.status)
      )
    )::tenant_event;
  end if;
  if p_after.url is distinct from p_before.url then
    v_events := v_events || (
      p_after.tenant_id,
      p_after.organization_id,
      'deployment.located',
      p_after.id,
      '{}',
      changed_members(jsonb_build_object('url', p_before.url), jsonb_build_object('url', p_after.url))
    )::tenant_event;
  end if;
  return v_events || rollout_events(p_before, p_after) || database_copy_events(p_before, p_after);
end $function$;
create or replace function fail_rollout(d deployments, r revisions, p_message text, p_judged jsonb)
 RETURNS deployments
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_progress jsonb := rollout_of(d);
begin
  update revisions n
  set rollout = (coalesce(n.rollout::jsonb, '{"steps": []}') || jsonb_build_object('failure', jsonb_build_object(
    'step', v_progress -> 'step',
    'share', d.traffic #> '{beside, share}',
    'since', v_progress -> 'since',
    'at', clock(),
    'message', p_message,
    'requests', p_judged -> 'requests',
    'gates', coalesce(nullif(p_judged -> 'gates', 'null'), '[]'),
    'failing_requests', coalesce(nullif(p_judged -> 'failing_requests', 'null'), '[]')
  )))::json
  where n.id = r.id and n.deployment_id = d.id and n.tenant_id = d.tenant_id;
  -- The hold of a rollback stays.
  if d.hold is null or d.hold ->> 'until' = 'newer_commit' then
    d.hold := json_build_object(
      'since', clock(),
      'revision_id', r.id,
      'until', 'released',
      'from_commit', coalesce(r.commit ->> 'sha', r.source_revision_config ->> 'repo_commit_sha'),
      'reason', 'rollout_failed'
    );
  end if;
  return d;
end $function$;
create or replace function follow_revision(d deployments, p_before revisions, p_after revisions)
 RETURNS deployments
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_in_flight uuid := d.in_flight_revision_id;
  v_commit text := p_after.source_revision_config ->> 'repo_commit_sha';
  v_serving integer;
begin
  if not is_in_queue(p_after.status) then
    d.in_flight_revision_id := nullif(d.in_flight_revision_id, p_after.id);
    d.waiting_revision_id := nullif(d.waiting_revision_id, p_after.id);
    if d.traffic #>> '{beside, revision_id}' = p_after.id::text then
      d.traffic := leave_canary(d.traffic, p_after.status = 'DEPLOYED');
      d.rollout_due_at := null;
    end if;
  end if;
  -- A revision that still waits for its artifact (CREATING) keeps its place.
  if d.in_flight_revision_id is null and d.waiting_revision_id is not null then
    update revisions r
    set
      status = start_state(r.source),
      status_since = clock(),
      updated_at = clock()
    where r.id = d.waiting_revision_id and r.deployment_id = d.id and r.status = 'QUEUED';
    if found then
      d.in_flight_revision_id := d.waiting_revision_id;
      d.waiting_revision_id := null;
    end if;
  end if;

  -- An older revision never replaces the one that serves.
  if d.active_revision_id is not null then
    v_serving := (select r.number from revisions r where r.id = d.active_revision_id and r.deployment_id = d.id);
  end if;
  if p_after.status = 'DEPLOYED' and p_after.number > coalesce(v_serving, 0) then
    d.active_revision_id := p_after.id;
    d.updated_at := greatest(clock(), d.updated_at);
    -- The name of the one before it goes over to it, and that of one that was beside it ends.
    if d.traffic is not null then
      perform claim_traffic_labels(d, d.traffic::jsonb -> 'active', d.traffic::jsonb -> 'beside');
    end if;
  end if;
  if d.in_flight_revision_id is distinct from v_in_flight and d.in_flight_revision_id is not null then
    d.traffic := place_canary(
      d,
      d.in_flight_revision_id,
      (select 'rolled_back' = any(r.reasons) from revisions r where r.id = d.in_flight_revision_id)
    );
  end if;
  -- The commit that the ref of the latest revision resolved to.
  if p_after.id = d.latest_revision_id
    and v_commit is distinct from p_before.source_revision_config ->> 'repo_commit_sha' then
    d.source_revision_config := d.source_revision_config::jsonb || jsonb_build_object('repo_commit_sha', v_commit);
    d.updated_at := greatest(clock(), d.updated_at);
  end if;
  -- Another revision in flight, or none any more, is the next generation of what the agent has to do. So is the end of
  -- the latest revision if it was lost with its listener: it was still wanted.
  if d.in_flight_revision_id is distinct from v_in_flight
    or (p_before.status = 'UNKNOWN' and p_after.id = d.latest_revision_id) then
    d.generation := d.generation + 1;
  end if;
  return d;
end $function$;
create or replace function has_webhook_of(d deployments, p_progress jsonb)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (NOT (((d).rollout #>> '{gates,webhook,url}'::text[]) IS DISTINCT
  FROM (p_progress #>> '{policy,gates,webhook,url}'::text[])));
create or replace function held_back_message(p_deployment deployments, p_sha text)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if was_rolled_back(p_deployment.id, p_sha) then
    return 'Commit ' || left(p_sha, 7) || ' was rolled back and is not deployed again automatically.';
  end if;
  if p_deployment.hold ->> 'until' = 'released' then
    return case p_deployment.hold ->> 'reason'
      when 'rollout_failed' then 'A failed rollout holds automatic deploys: commit '
      else 'A rollback holds automatic deploys: commit '
    end || left(p_sha, 7) || ' was not deployed.';
  end if;
  return null;
end $function$;
create or replace function rollout_work(p_progress jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN ((p_progress #> ARRAY['policy'::text, 'steps'::text,
  (p_progress ->> 'step'::text)]) IS NOT NULL) THEN jsonb_build_object('step', (p_progress -> 'step'::text),
  'minutes', (p_progress #> ARRAY['policy'::text, 'steps'::text, (p_progress ->> 'step'::text), 'minutes'::text]),
  'requests', (p_progress #> ARRAY['policy'::text, 'steps'::text, (p_progress ->> 'step'::text),
  'requests'::text]), 'errors', (p_progress #> '{policy,gates,errors}'::text[]), 'latency',
  (p_progress #> '{policy,gates,latency}'::text[]), 'restarts',
  (p_progress #> '{policy,gates,restarts}'::text[])) ELSE NULL::jsonb END;
create or replace function is_judged_passed(p_progress jsonb, p_judged jsonb)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (((p_judged ->> 'outcome'::text) = 'passed'::text) AND
  (((p_judged ->> 'requests'::text))::numeric >= ((rollout_work(p_progress) ->> 'requests'::text))::numeric) AND
  (NOT (EXISTS (SELECT FROM jsonb_array_elements((is_judged_passed.p_judged -> 'gates'::text)) g(value)
  WHERE ((g.value ->> 'verdict'::text) <> 'passed'::text)))) AND (NOT (EXISTS (SELECT
  FROM unnest('{errors,latency,restarts}'::text[]) name(name)
  WHERE ((NULLIF((rollout_work(is_judged_passed.p_progress) -> name.name), 'null'::jsonb) IS NOT NULL)
  AND (NOT ((is_judged_passed.p_judged -> 'gates'::text)
  @> jsonb_build_array(jsonb_build_object('gate', name.name)))))))));
create or replace function judged_health(p_message text)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN jsonb_build_object('gates', jsonb_build_array(jsonb_build_object('gate', 'health', 'verdict', 'failed',
  'message', "left"(p_message, 500))));
create or replace function leave_canary(p_traffic json, p_is_deployed boolean)
 RETURNS json
 LANGUAGE sql
 IMMUTABLE
RETURN (((p_traffic)::jsonb || CASE WHEN p_is_deployed THEN jsonb_build_object('active', jsonb_build_object('name',
  (p_traffic #> '{beside,name}'::text[]), 'label', (p_traffic #> '{beside,label}'::text[])), 'beside',
  NULL::unknown) ELSE jsonb_build_object('beside', (((p_traffic -> 'beside'::text))::jsonb || '{"rollout": null,
  "revision_id": null}'::jsonb)) END))::json;
create or replace function list_traffic(d deployments)
 RETURNS json
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select json_build_object(
    'revision_id', d.traffic #> '{beside, revision_id}',
    'share', d.traffic #> '{beside, share}',
    'sticky', d.traffic -> 'sticky',
    'rollout', rollout_work(rollout_of(d))
  )
  where d.traffic #>> '{beside, revision_id}' is not null
$function$;
create or replace function minutes_over_at(p_progress jsonb)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
RETURN (((p_progress ->> 'since'::text))::timestamp with time zone
  + (((rollout_work(p_progress) ->> 'minutes'::text))::double precision * '00:01:00'::interval));
create or replace function move_rollout(p_deployment uuid, p_action text, p_message text, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_before deployments := lock_deployment_version(p_deployment, p_request);
  v_progress jsonb := rollout_of(v_before);
  d deployments := v_before;
  r revisions;
  v_next revisions;
  v_events tenant_event[] := '{}';
begin
  if v_before.id is null then return; end if;
  if v_progress is null then perform refuse('rollout_not_running'); end if;
  case p_action
    when 'abort' then
      select n.* into r from revisions n where n.id = d.in_flight_revision_id and n.deployment_id = d.id;
      v_next := r;
      v_next.status := 'INTERRUPTED';
      v_next.status_message := p_message;
      d := follow_revision(v_before, r, v_next);
      perform write_moved_revisions(array[v_next]);
      v_events := array[
        rollout_event('deployment.rollout_aborted', v_before, d),
        revision_moved(r, v_next, json_build_object('deployment_id', d.id, 'message', p_message))
      ];
    when 'promote' then
      if rollout_work(v_progress) is not null then
        d := with_rollout(
          v_before,
          v_progress - 'asked' || jsonb_build_object(
            'step', jsonb_array_length(v_progress #> '{policy, steps}'),
            'since', clock(),
            'paused', false,
            'passed', false
          ),
          100
        );
        d.generation := d.generation + 1;
      end if;
      v_events := array[rollout_event('deployment.rollout_promoted', v_before, d)];
    when 'pause' then
      if v_progress -> 'paused' = 'false' and rollout_work(v_progress) is not null then
        d := with_rollout(d, v_progress || '{"paused": true}', (d.traffic #>> '{beside, share}')::integer);
      end if;
      v_events := array[rollout_event('deployment.rollout_paused', v_before, d)];
    when 'resume' then
      if v_progress -> 'paused' = 'true' then
        d := with_rollout(d, v_progress || '{"paused": false}', (d.traffic #>> '{beside, share}')::integer);
        if v_progress -> 'passed' = 'true' and not asks_control_plane(v_progress)
          and minutes_over_at(v_progress) <= clock() then
          d := advance_rollout(d, (rollout_judged(d) ->> 'requests')::bigint, rollout_judged(d) -> 'gates');
        end if;
      end if;
      v_events := array[rollout_event('deployment.rollout_resumed', v_before, d)];
  end case;
  v_events := v_events || deployment_events(v_before, d);
  if d.traffic::text <> v_before.traffic::text then
    d.updated_at := greatest(clock(), d.updated_at);
    d.version := v_before.version + 1;
  end if;
  answer := to_json(d);
  has_webhooks := conclude_write(
    answer, array(select (e.type, e.subject_id, e.data, e.changes)::new_event from unnest(v_events) e), p_request
  );
  if d.version > v_before.version then perform write_moved_deployments(array[d]); end if;
  return next;
end $function$;
create or replace function patch_deployment(p_deployment uuid, p_revision uuid, p_patch jsonb, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments;
  v_plan patch_plan;
  v_queued record;
  v_changed deployments;
begin
  v_stored := lock_deployment(p_deployment);
  if v_stored.id is null then return; end if;
  v_plan := plan_patch(v_stored, p_patch);
  perform require_allowed_patch(v_stored, v_plan, p_patch, p_request);
  if cardinality(v_plan.immutable) > 0 then
    perform refuse('member_immutable', array_to_string(v_plan.immutable, ', '));
  end if;

  v_queued := queue_revision(
    v_stored,
    v_plan.next,
    p_revision,
    v_plan.reasons,
    coalesce(p_patch ->> 'revision_source', v_stored.source),
    p_changes_in_place => cardinality(v_plan.in_place) > 0
  );
  v_changed := v_queued.changed;
  if 'secrets' = any(v_plan.reasons) then
    insert into deployment_secrets (organization_id, tenant_id, deployment_id, name, version, sealed, fingerprint)
    select
      v_changed.organization_id, v_changed.tenant_id, v_changed.id, s.name, w.version, s.sealed, s.fingerprints ->> 0
    from json_to_recordset(v_changed.secrets) w(name text, version integer)
    join jsonb_to_recordset(p_patch -> 'secrets') s(name text, sealed text, fingerprints jsonb) on s.name = w.name
    where w.version = v_changed.revisions;
  end if;

  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer, deployment_event('deployment.patched', v_stored, v_changed) || v_queued.events, p_request
  );
  return next;
end $function$;
create or replace function place_canary(d deployments, p_revision uuid, p_is_rollback boolean)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_traffic jsonb := coalesce(
    d.traffic::jsonb,
    case
      when d.rollout is not null then '{"starts_at": 100, "sticky": null, "active": null, "beside": null}'::jsonb
    end
  );
  v_beside jsonb := nullif(v_traffic -> 'beside', 'null');
  v_first integer := case
    when d.rollout is not null then rollout_share(d.rollout::jsonb, 0)
    else coalesce(nullif((v_traffic ->> 'starts_at')::integer, 100), (v_beside ->> 'first')::integer)
  end;
begin
  if v_traffic is null then return null; end if;
  if d.active_revision_id is null or v_first is null or p_is_rollback then
    return v_traffic || jsonb_build_object('beside', null);
  end if;
  if v_beside ->> 'label' is not null then
    perform claim_host_label(d, array[v_beside ->> 'label'], 'revision', p_revision);
  end if;
  return v_traffic || jsonb_build_object('beside', jsonb_build_object(
    'revision_id', p_revision,
    'share', v_first,
    'first', case when d.rollout is null then v_first end,
    'name', v_beside -> 'name',
    'label', v_beside -> 'label',
    'rollout', begin_rollout(d)
  ));
end $function$;
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
  if p_stored.dormant_parts is not null then
    v_written := array(
      select distinct m.path
      from jsonb_to_recordset(p_patch -> 'members') as m(path text)
      join unnest(p_stored.dormant_parts) part on starts_with(m.path, 'source_config.resource_spec.' || part || '_')
    );
  end if;
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
    v_secrets := compare_secrets(p_stored, p_patch -> 'secrets');
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
create or replace function queue_revision(p_stored deployments, p_next deployments, p_revision uuid,
  p_reasons text[], p_source text, p_commit json DEFAULT NULL::json, p_from_revision uuid DEFAULT NULL::uuid,
  p_changes_in_place boolean DEFAULT false, OUT changed deployments, OUT revision revisions, OUT events new_event[])
 RETURNS record
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_creates boolean := cardinality(p_reasons) > 0;
  v_lacks_artifact boolean := lacks_artifact(p_source, p_next.source_revision_config);
  -- The revision in flight before the new one.
  v_in_flight uuid := p_stored.in_flight_revision_id;
  v_replaced uuid;
begin
  changed := p_stored;
  events := '{}';
  if not v_creates and not p_changes_in_place then return; end if;

  -- A revision in flight that would not end by itself is replaced by the new one at once: its agent has reported why it
  -- is not healthy, or it has a share of the traffic. A rollback waits for none that was to get one.
  if v_creates and not v_lacks_artifact and exists (
    select from revisions r
    where r.id = v_in_flight and r.tenant_id = current_tenant()
      and (
        r.status = 'DEPLOYING'
          and (r.status_message is not null or p_stored.applied_traffic ->> 'revision_id' = r.id::text)
        or 'rolled_back' = any(p_reasons) and p_stored.traffic #>> '{beside, revision_id}' = r.id::text
      )
  ) then
    v_replaced := v_in_flight;
    v_in_flight := null;
  end if;

  update deployments d
  set
    source_config = p_next.source_config,
    dormant_parts = p_next.dormant_parts,
    source_revision_config = p_next.source_revision_config,
    -- The agent reports the version of a source that it builds.
    image_version = case
      when not v_creates then p_stored.image_version
      when p_source in ('internal_container', 'external_container')
        then image_version(p_next.source_revision_config ->> 'image_uri')
    end,
    secrets = p_next.secrets,
    secret_references = p_next.secret_references,
    hold = case when v_creates and p_next.hold ->> 'reason' = 'rollout_failed' then null else p_next.hold end,
    traffic = case
      when v_creates and not v_lacks_artifact and v_in_flight is null
        then place_canary(p_next, p_revision, 'rolled_back' = any(p_reasons))
      else p_next.traffic
    end,
    status = case p_stored.status when 'UNUSED' then 'READY' else p_stored.status end,
    revisions = p_stored.revisions + v_creates::integer,
    latest_revision_id = case when v_creates then p_revision else p_stored.latest_revision_id end,
    in_flight_revision_id = case
      when v_creates and not v_lacks_artifact then coalesce(v_in_flight, p_revision)
      else p_stored.in_flight_revision_id
    end,
    waiting_revision_id = case
      when not v_creates then p_stored.waiting_revision_id
      when v_in_flight is not null or v_lacks_artifact then p_revision
    end,
    generation = p_stored.generation + 1,
    remote_reconciled = false,
    version = p_stored.version + 1,
    -- now() is when the transaction began, possibly before the update it waited for: times still ascend like versions.
    updated_at = greatest(clock(), p_stored.updated_at + interval '1 microsecond')
  where d.id = p_stored.id and d.tenant_id = current_tenant()
  returning d.* into changed;

  if v_creates then
    revision := insert_revision(
      p_revision,
      changed,
      case
        when v_lacks_artifact then 'CREATING'
        when v_in_flight is not null then 'QUEUED'
        else start_state(p_source)
      end,
      null,
      p_reasons,
      p_source,
      p_commit,
      p_from_revision,
      changed.updated_at
    );
    events := created_event(revision)
      || supersede_revisions(array[p_stored.waiting_revision_id, v_replaced], changed.revisions);
  end if;
  if p_next.hold is not null and changed.hold is null then
    events := events || (
      'deployment.hold_released',
      changed.id,
      '{}',
      changed_members(jsonb_build_object('hold', p_next.hold), '{"hold": null}')
    )::new_event;
  end if;
  if changed.status <> p_stored.status then
    events := events || (
      'deployment.ready',
      changed.id,
      '{}',
      changed_members(jsonb_build_object('status', p_stored.status), jsonb_build_object('status', changed.status))
    )::new_event;
  end if;
end $function$;
create or replace function recorded_traffic(p_traffic json)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN (((p_traffic)::jsonb #- '{beside,rollout,policy}'::text[]) #- '{beside,rollout,asked}'::text[]);
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

  if cardinality(p_plan.refused) > 0
    or p_patch -> 'required' <> '[]'
    or p_patch -> 'resource_pairs' <> '[]'
    or v_sent ? 'source_config.resource_spec.volumes'
  then
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
      end
      || case when v_sent ? 'source_config.resource_spec.volumes'
        and (is_traffic_split(p_stored.traffic) or p_stored.rollout is not null) then
        array(
          select format('source_config.resource_spec.volumes: %s has one writer, and the traffic is split', disks)
          from exclusive_disks(p_stored, (v_next.source_config -> 'resource_spec')::jsonb) disks
          where disks is not null
        )
      end,
      '; '
    );
    if v_faults <> '' then perform refuse('source_rule', v_faults); end if;
  end if;
  if jsonb_path_exists(v_sent, '$.keyvalue().key ? (@ starts with "source_")') then
    perform require_branch_to_build_on_push(v_next.source_config, v_next.source_revision_config);
  end if;

  if cardinality(p_plan.unknown_masks) > 0 then
    perform refuse('secret_unknown', array_to_string(p_plan.unknown_masks, ', '));
  end if;
  if v_next.secret_references is not null and (p_patch -> 'secrets' is not null or v_sent ? 'secret_references') then
    v_faults := (
      select string_agg(name, ', ')
      from json_to_recordset(v_next.secrets) s(name text)
      join json_to_recordset(v_next.secret_references) f(name text) using (name)
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
create or replace function require_scores_readable(d deployments)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
begin
  perform require_permission_for('runs:read', p.tag_value_ids)
  from projects p
  where p.tenant_id = d.tenant_id and p.name = d.name;
  if found then return true; end if;
  if hides('project') then perform refuse('denied_by_policy', d.name); end if;
  if not 'runs:read' = any(actor_permissions()) then perform refuse('permission_missing', 'runs:read'); end if;
  return true;
end $function$;
create or replace function rollout_due(p_progress jsonb)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
RETURN CASE WHEN (rollout_work(p_progress) IS NULL)
  THEN NULL::timestamp with time zone WHEN (((p_progress -> 'passed'::text) = 'true'::jsonb) AND
    ((p_progress -> 'paused'::text) = 'false'::jsonb)) THEN GREATEST(clock(), minutes_over_at(p_progress))
  WHEN ((p_progress #> '{policy,gates,scores}'::text[]) <> '[]'::jsonb)
  THEN (clock() + '00:01:00'::interval) ELSE NULL::timestamp with time zone END;
create or replace function rollout_of(d deployments)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (((d).traffic #>> '{beside,revision_id}'::text[]) = ((d).in_flight_revision_id)::text)
  THEN NULLIF((((d).traffic #> '{beside,rollout}'::text[]))::jsonb, 'null'::jsonb) ELSE NULL::jsonb END;
create or replace function rollout_event(p_type text, p_before deployments, p_after deployments,
  p_data jsonb DEFAULT '{}'::jsonb)
 RETURNS tenant_event
 LANGUAGE sql
 STABLE
RETURN ROW((p_after).tenant_id, (p_after).organization_id, p_type, (p_after).id,
  ((jsonb_build_object('revision_id', (p_before).in_flight_revision_id, 'step', (COALESCE(rollout_of(p_after),
  rollout_of(p_before)) -> 'step'::text), 'share', COALESCE(((p_after).traffic #> '{beside,share}'::text[]),
  ((p_before).traffic #> '{beside,share}'::text[]))) || p_data))::json,
  changed_members(jsonb_build_object('traffic', recorded_traffic((p_before).traffic)),
  jsonb_build_object('traffic', recorded_traffic((p_after).traffic))))::tenant_event;
create or replace function rollout_events(p_before deployments, p_after deployments)
 RETURNS tenant_event[]
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_before jsonb := rollout_of(p_before);
  v_after jsonb := rollout_of(p_after);
  v_events tenant_event[] := '{}';
begin
  if v_before ->> 'step' <> v_after ->> 'step' and p_before.in_flight_revision_id = p_after.in_flight_revision_id then
    v_events := v_events || rollout_event('deployment.rollout_step', p_before, p_after);
  end if;
  if p_after.hold is not null and p_after.hold ->> 'reason' = 'rollout_failed'
    and p_after.hold::text is distinct from p_before.hold::text then
    v_events := v_events || (
      p_after.tenant_id,
      p_after.organization_id,
      'deployment.held',
      p_after.id,
      json_build_object('revision_id', p_after.hold ->> 'revision_id'),
      changed_members(jsonb_build_object('hold', p_before.hold), jsonb_build_object('hold', p_after.hold))
    )::tenant_event;
  end if;
  return v_events;
end $function$;
create or replace function rollout_judged(d deployments)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN ((((d).applied_traffic ->> 'revision_id'::text) = ((d).in_flight_revision_id)::text) AND
  (((d).applied_traffic #>> '{rollout,step}'::text[]) = (rollout_of(d) ->> 'step'::text)))
  THEN (((d).applied_traffic -> 'rollout'::text))::jsonb ELSE NULL::jsonb END;
create or replace function rollout_share(p_policy jsonb, p_step integer)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN COALESCE(((p_policy #>> ARRAY['steps'::text, (p_step)::text, 'share'::text]))::integer, 100);
create or replace function secret_versions(p_secrets json)
 RETURNS jsonb
 LANGUAGE plpgsql
 IMMUTABLE STRICT
AS $function$
begin
  return (select jsonb_object_agg(s ->> 'name', s -> 'version') from json_array_elements(p_secrets) s);
end $function$;
create or replace function set_deployment_traffic(p_deployment uuid, p_new jsonb, p_needs jsonb, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments := lock_deployment_version(p_deployment, p_request);
  v_changed deployments;
  v_before jsonb := v_stored.traffic::jsonb -> 'beside';
  v_disks text;
  v_share record;
  v_named jsonb;
  v_active jsonb;
  v_beside jsonb;
  v_is_same boolean;
begin
  if v_stored.id is null then return; end if;
  if v_stored.rollout is not null and (p_new ->> 'starts_at')::integer < 100 then
    perform refuse('traffic_refused', 'a rollout says with which share a revision begins: leave out `starts_at`');
  end if;
  if p_needs <> '[]' then
    perform require_listener_allows(v_stored.listener_id, p_needs);
    v_disks := exclusive_disks(v_stored, (v_stored.source_config -> 'resource_spec')::jsonb);
    if v_disks is not null then
      perform refuse('traffic_refused', format('%s has one writer, so two revisions cannot run at once', v_disks));
    end if;
  end if;
  if p_new -> 'shares' <> '[]' and v_stored.active_revision_id is null then
    perform refuse('traffic_refused', 'no revision serves yet');
  end if;
  for v_share in
    select s.share, s.name, r as revision
    from jsonb_to_recordset(p_new -> 'shares') s(revision_id uuid, share integer, name text)
    left join revisions r
      on r.id = s.revision_id and r.deployment_id = v_stored.id and r.tenant_id = current_tenant()
  loop
    if (v_share.revision).id is null then perform refuse('revision_not_found'); end if;
    v_named := jsonb_build_object('name', v_share.name, 'label', traffic_label(v_stored, v_share.name));
    if (v_share.revision).id = v_stored.active_revision_id then
      v_active := v_named;
    elsif v_beside is not null then
      perform refuse('traffic_refused', 'one of the two has to be the revision that serves');
    else
      perform require_runnable(v_stored, v_share.revision, v_share.share);
      v_is_same := coalesce(v_before ->> 'revision_id' = (v_share.revision).id::text, false);
      v_beside := v_named || jsonb_build_object(
        'revision_id', (v_share.revision).id,
        'share', v_share.share,
        'first', case
          when v_stored.rollout is not null then null
          when v_is_same then least(v_share.share, (v_before ->> 'first')::integer)
          else v_share.share
        end,
        -- A share that is set by hand ends the steps.
        'rollout', case
          when v_is_same and (v_before ->> 'share')::integer = v_share.share then v_before -> 'rollout'
        end
      );
    end if;
  end loop;
  -- The shares say all: the one in flight gets what they say, which is nothing.
  if v_beside is null and p_new -> 'shares' <> '[]' and v_stored.in_flight_revision_id is not null then
    v_beside := jsonb_build_object(
      'revision_id', v_stored.in_flight_revision_id,
      'share', 0,
      'first', case when v_stored.rollout is null then 0 end,
      'name', null,
      'label', null
    );
  end if;
  if not claim_traffic_labels(v_stored, v_active, v_beside) then perform refuse('traffic_name_taken'); end if;
  update deployments d
  set
    traffic = case
      when v_beside is null and v_active ->> 'name' is null
        and p_new - 'shares' = '{"starts_at": 100, "sticky": null}' then null
      else (p_new - 'shares') || jsonb_build_object('active', v_active, 'beside', v_beside)
    end,
    generation = d.generation + 1,
    remote_reconciled = false,
    version = d.version + 1,
    updated_at = clock()
  where d.id = v_stored.id and d.tenant_id = current_tenant()
  returning d.* into v_changed;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'deployment.traffic_changed',
      v_stored.id,
      json_build_object('shares', p_new -> 'shares'),
      changed_members(
        jsonb_build_object('traffic', recorded_traffic(v_stored.traffic)),
        jsonb_build_object('traffic', recorded_traffic(v_changed.traffic))
      )
    )::new_event],
    p_request
  );
  return next;
end $function$;
create or replace function set_rollout(p_deployment uuid, p_rollout json, p_secret text, p_keeps_secret boolean,
  p_needs jsonb, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments := lock_deployment_version(p_deployment, p_request);
  v_changed deployments;
  v_disks text;
begin
  if v_stored.id is null then return; end if;
  if p_rollout is null and v_stored.rollout is null then perform refuse('rollout_not_found'); end if;
  if p_rollout is not null then
    perform require_listener_allows(v_stored.listener_id, p_needs);
    v_disks := exclusive_disks(v_stored, (v_stored.source_config -> 'resource_spec')::jsonb);
    if v_disks is not null then
      perform refuse('rollout_refused', format('%s has one writer, so two revisions cannot run at once', v_disks));
    end if;
    if (v_stored.traffic ->> 'starts_at')::integer < 100 then
      perform refuse(
        'rollout_refused', '`starts_at` of the traffic says with which share a revision begins: set it to 100'
      );
    end if;
    if (p_rollout #> '{gates, scores}')::jsonb
      not in ('[]', coalesce((v_stored.rollout #> '{gates, scores}')::jsonb, '[]')) then
      perform require_scores_readable(v_stored);
    end if;
    if p_keeps_secret and v_stored.rollout_secret is null then
      perform refuse('secret_unknown', 'gates.webhook.secret');
    end if;
    -- A kept secret must not sign for another address, whose owner could then ask in its name.
    if p_keeps_secret
      and p_rollout #>> '{gates, webhook, url}' is distinct from v_stored.rollout #>> '{gates, webhook, url}' then
      perform refuse('secret_required', 'gates.webhook.secret');
    end if;
  end if;
  update deployments d
  set
    rollout = p_rollout,
    rollout_secret = case when p_keeps_secret then d.rollout_secret else p_secret end,
    version = d.version + 1,
    updated_at = clock()
  where d.id = v_stored.id and d.tenant_id = current_tenant()
  returning d.* into v_changed;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'deployment.rollout_changed',
      v_stored.id,
      json_build_object('has_secret_changed', v_stored.rollout_secret is distinct from v_changed.rollout_secret),
      changed_members(
        jsonb_build_object('rollout', v_stored.rollout), jsonb_build_object('rollout', v_changed.rollout)
      )
    )::new_event],
    p_request
  );
  return next;
end $function$;
create or replace function supersede_revisions(p_ids uuid[], p_number integer)
 RETURNS new_event[]
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_before revisions;
  v_after revisions;
  v_events new_event[] := '{}';
begin
  -- A statement costs more than the rest of this, and most writes supersede nothing.
  if p_ids = '{null, null}' then return v_events; end if;
  for v_before in
    select r.*
    from revisions r
    where r.id = any(p_ids) and r.tenant_id = current_tenant()
    order by r.number
  loop
    update revisions r
    set
      status = case when v_before.status in ('CREATING', 'QUEUED') then 'SKIPPED' else 'INTERRUPTED' end,
      status_message = case
        when v_before.status = 'CREATING'
          then 'It had no files or image yet. It was superseded by revision ' || p_number
        when v_before.status = 'DEPLOYING' and v_before.status_message is not null
          then 'Superseded by revision ' || p_number || ' before it was healthy.'
        else 'Superseded by revision ' || p_number
      end,
      status_since = clock(),
      updated_at = clock()
    where r.id = v_before.id
    returning * into v_after;
    v_events := v_events || (
      'revision.' || lower(v_after.status),
      v_after.id,
      json_build_object('deployment_id', v_after.deployment_id, 'message', v_after.status_message),
      changed_members(
        jsonb_build_object('status', v_before.status), jsonb_build_object('status', v_after.status)
      )
    )::new_event;
  end loop;
  return v_events;
end $function$;
create or replace function unpinned_config(p_deployment deployments)
 RETURNS json
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if p_deployment.hold is not null and p_deployment.hold ->> 'reason' is distinct from 'rollout_failed'
    or p_deployment.preview is not null then
    return p_deployment.source_revision_config;
  end if;
  return (p_deployment.source_revision_config::jsonb - 'repo_commit_sha')::json;
end $function$;
create or replace function with_rollout(d deployments, p_progress jsonb, p_share integer)
 RETURNS deployments
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  d.traffic := jsonb_set(
    d.traffic::jsonb,
    '{beside}',
    (d.traffic #> '{beside}')::jsonb || jsonb_build_object('share', p_share, 'rollout', p_progress)
  );
  d.rollout_due_at := rollout_due(p_progress);
  return d;
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
    hold = n.hold,
    traffic = n.traffic,
    applied_traffic = n.applied_traffic,
    rollout_due_at = n.rollout_due_at,
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
    preview = n.preview,
    version = d.version + (
      (
        n.active_revision_id, n.status, n.url, n.local_url, n.source_revision_config::text, n.image_version,
        n.traffic::jsonb #- '{beside, rollout, asked}', n.applied_traffic::jsonb - 'rollout', n.preview::text
      ) is distinct from (
        d.active_revision_id, d.status, d.url, d.local_url, d.source_revision_config::text, d.image_version,
        d.traffic::jsonb #- '{beside, rollout, asked}', d.applied_traffic::jsonb - 'rollout', d.preview::text
      )
    )::integer,
    updated_at = n.updated_at
  from unnest(p_deployments) n
  where d.id = n.id and d.tenant_id = n.tenant_id;
end $function$;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
