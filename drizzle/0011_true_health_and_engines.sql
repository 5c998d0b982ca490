DROP INDEX "deployments_health_unrecorded";--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "reported_health" text;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "health_reason" text;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "health" text;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "health_since" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "health_changes" json;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "recorded_health" text;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "incidents" json;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "incidents_due" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "incidents_recorded_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "listeners" ADD COLUMN "lost_at" timestamp with time zone;--> statement-breakpoint
CREATE INDEX "deployments_health_unjournaled" ON "deployments" USING btree ("id")
  WHERE health in ('healthy', 'degraded', 'crash_looping', 'unhealthy')
    and health <> coalesce(recorded_health, 'healthy');--> statement-breakpoint
CREATE INDEX "deployments_incidents_due" ON "deployments" USING btree ("incidents_due")
  WHERE incidents_due is not null;--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
revoke all on deployments from slipway_agent;
revoke all on deployments from slipway_app;
create or replace function follow_health()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  new.health := deployment_health(new);
  if tg_op = 'UPDATE' and new.health is not distinct from old.health then return new; end if;
  new.health_since := clock();
  new.health_changes := (
    select json_agg(at order by place)
    from (
      select at, row_number() over () as place
      from (
        select clock()::text as at
        union all
        select json_array_elements_text(case when tg_op = 'UPDATE' then old.health_changes end)
      ) changes
      limit 6
    ) latest
  );
  return new;
end $function$;
CREATE TRIGGER follow_health BEFORE INSERT OR UPDATE OF status, active_revision_id, healthy, reported_health
  ON public.deployments
  FOR EACH ROW EXECUTE FUNCTION follow_health();
grant delete, select, update (
  name, name_fold, source, deployment_type, status, image_version, tag_value_ids, source_config,
  source_revision_config, secrets, secret_references, generation, acknowledged, remote_reconciled, revisions,
  latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id, hold, preview, repo_key,
  deleting_at, listener_id, url, healthy, last_request_at, custom_host, custom_path, version, created_at,
  updated_at, reported_health, health_reason, incidents, incidents_due
) on deployments to slipway_agent;
grant delete, insert, select, update (
  name, name_fold, source, deployment_type, status, image_version, tag_value_ids, source_config,
  source_revision_config, secrets, secret_references, generation, acknowledged, remote_reconciled, revisions,
  latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id, hold, preview, repo_key,
  deleting_at, listener_id, url, healthy, last_request_at, custom_host, custom_path, version, created_at,
  updated_at, trace_key_version, owner, reported_health, health_reason, incidents, incidents_due
) on deployments to slipway_app;
create or replace function add_incidents(d deployments, p_reported jsonb)
 RETURNS deployments
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if p_reported is null then return d; end if;
  select json_agg(json_build_object(
    'kind', coalesce(n.kind, k.kind),
    'count', coalesce(n.count, k.count),
    'last_at', coalesce(n.last_at, k.last_at),
    'message', case when n.kind is null then k.message else n.message end,
    'pending', coalesce(k.pending, 0) + case
      when n.kind is null or n.last_at = k.last_at then 0
      when n.count > k.count then n.count - k.count
      else n.count
    end
  ))
  into d.incidents
  from jsonb_to_recordset(p_reported) as n(kind text, count integer, last_at text, message text)
  full join json_to_recordset(d.incidents) as k(kind text, count integer, last_at text, message text, pending integer)
    on k.kind = n.kind;
  if d.incidents_due is null
    and exists (select from json_to_recordset(d.incidents) as i(pending integer) where i.pending > 0) then
    d.incidents_due := greatest(clock(), d.incidents_recorded_at + interval '10 minutes');
  end if;
  return d;
end $function$;
create or replace function apply_reports(
  p_agent text, p_fence bigint, p_reports jsonb, p_daily_limit bigint, p_unused_after interval
)
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
create or replace function deployment_health(d deployments)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN ((d).status = 'UNKNOWN'::text) THEN NULL::text
  WHEN ((d).active_revision_id IS NULL) THEN 'nothing_serves'::text
  ELSE COALESCE((d).reported_health,
    CASE (d).healthy WHEN true THEN 'healthy'::text WHEN false THEN 'unhealthy'::text ELSE NULL::text END) END;
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
    healthy = n.healthy,
    reported_health = n.reported_health,
    health_reason = n.health_reason,
    incidents = n.incidents,
    incidents_due = n.incidents_due,
    last_request_at = n.last_request_at,
    version = d.version + (
      (n.active_revision_id, n.status, n.url, n.source_revision_config::text, n.image_version)
        is distinct from (d.active_revision_id, d.status, d.url, d.source_revision_config::text, d.image_version)
    )::integer,
    updated_at = n.updated_at
  from unnest(p_deployments) n
  where d.id = n.id and d.tenant_id = n.tenant_id;
end $function$;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
--> statement-breakpoint
-- The filter by health reads it, too.
drop index deployments_list;
--> statement-breakpoint
create index deployments_list on deployments using btree (tenant_id, created_at desc, id desc)
  include (status, deployment_type, image_version, remote_reconciled, name_fold, tag_value_ids, health);
--> statement-breakpoint
--> batches
-- The trigger follow_health() writes the health of the deployments that exist.
update deployments
set status = status
where id in (
  select d.id from deployments d where d.health_since is null and deployment_health(d) is not null limit 1000
);
