ALTER TABLE "uploads" ALTER COLUMN "deployment_id" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "revisions" ADD COLUMN "build_plan" json;--> statement-breakpoint
ALTER TABLE "uploads" ADD COLUMN "settings" json;--> statement-breakpoint
ALTER TABLE "uploads" ADD COLUMN "build_plan" json;--> statement-breakpoint
ALTER TABLE "uploads" ADD COLUMN "build_refusal" text;--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
revoke all on revisions from slipway_agent;
revoke all on revisions from slipway_app;
grant select, update (number, source, source_config, source_revision_config, secrets, secret_references, status,
  status_message, status_since, reasons, commit, actor_kind, actor_name, created_at, updated_at, build_plan) on
  revisions to slipway_agent;
grant delete, insert, select, update (number, source, source_config, source_revision_config, secrets,
  secret_references, status, status_message, status_since, reasons, commit, actor_kind, actor_name, created_at,
  updated_at, build_plan) on revisions to slipway_app;
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
        build_plan json
      )
    ) with ordinality g(
      deployment_id, revision_id, generation, state, message, commit, image_uri, url, healthy, last_request_at,
      application_version, build_plan, place
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
      end if;

      -- The tag is the version of an image that the user names.
      if r.id = d.latest_revision_id and r.source not in ('internal_container', 'external_container') then
        d.image_version := coalesce(v.application_version, d.image_version);
      end if;
      d.url := coalesce(v.url, d.url);
      d.healthy := coalesce(v.healthy, d.healthy);
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
create or replace function insert_revision(p_id uuid, p_deployment deployments, p_status text, p_status_message text,
  p_reasons text[], p_source text, p_commit json, p_from_revision uuid, p_time timestamp with time zone)
 RETURNS revisions
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_inserted revisions;
begin
  insert into revisions (
    organization_id, tenant_id, deployment_id, id, number, source, source_config, source_revision_config, secrets,
    secret_references, status, status_message, reasons, from_revision_id, commit, build_plan, actor_kind, actor_id,
    created_at, updated_at
  )
  values (
    p_deployment.organization_id, p_deployment.tenant_id, p_deployment.id, p_id, p_deployment.revisions, p_source,
    p_deployment.source_config, p_deployment.source_revision_config, p_deployment.secrets,
    p_deployment.secret_references, p_status, p_status_message, p_reasons, p_from_revision, p_commit,
    (
      select b.build_plan
      from planned_build(p_source, p_deployment.source_config, p_deployment.source_revision_config) b
    ),
    setting('actor_kind'), current_actor(), p_time, p_time
  )
  returning * into v_inserted;
  return v_inserted;
end $function$;
create or replace function planned_build(p_source text, p_config json, p_revision_config json)
 RETURNS TABLE(build_plan json, build_refusal text)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if p_source <> 'internal_source' or p_revision_config ->> 'source_tarball_path' is null then return; end if;
  return query
    select
      (
        u.build_plan::jsonb || jsonb_strip_nulls(
          jsonb_build_object('install', p_config -> 'install_command', 'build', p_config -> 'build_command')
        )
      )::json,
      u.build_refusal
    from uploads u
    where u.tenant_id = current_tenant()
      and u.object_path = p_revision_config ->> 'source_tarball_path'
      and u.settings ->> 'root_directory' is not distinct from p_config ->> 'root_directory'
      and u.settings ->> 'platform_config_path' is not distinct from p_revision_config ->> 'platform_config_path';
end $function$;
create or replace function write_moved_revisions(p_revisions revisions[])
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if cardinality(p_revisions) = 0 then return; end if;
  update revisions r
  set
    status = n.status,
    status_message = n.status_message,
    status_since = case when r.status = n.status then r.status_since else clock() end,
    updated_at = clock(),
    source_revision_config = n.source_revision_config,
    commit = n.commit,
    build_plan = n.build_plan
  from unnest(p_revisions) n
  where r.id = n.id and r.deployment_id = n.deployment_id;
end $function$;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
