CREATE TABLE "process_points" (
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"revision_id" uuid NOT NULL,
	"process" text NOT NULL,
	"seconds" integer NOT NULL,
	"at" timestamp with time zone NOT NULL,
	"cpu_minutes" bigint NOT NULL,
	"memory_minutes" bigint NOT NULL,
	"copies" integer NOT NULL,
	"memory_peak_bytes" bigint,
	"restarts" bigint,
	"cpu_ms" bigint,
	"memory_bytes" bigint,
	CONSTRAINT "process_points_deployment_id_seconds_at_revision_id_process_pk"
		PRIMARY KEY("deployment_id","seconds","at","revision_id","process")
);
--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "dormant_parts" text[];--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "health_processes" json;--> statement-breakpoint
ALTER TABLE "log_lines" ADD COLUMN "process" text;--> statement-breakpoint
ALTER TABLE "process_points" ADD CONSTRAINT "process_points_deployment_id_deployments_id_fk"
	FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;
--> statement-breakpoint
CREATE INDEX "process_points_age" ON "process_points" USING btree ("seconds","at");--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
revoke all on deployments from slipway_agent;
revoke all on deployments from slipway_app;
revoke all on log_lines from slipway_agent;
revoke all on log_lines from slipway_app;
grant delete, select, update (
    name, name_fold, source, deployment_type, status, image_version, tag_value_ids, source_config,
    source_revision_config, secrets, secret_references, generation, acknowledged, remote_reconciled, revisions,
    latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id, hold, preview, repo_key,
    deleting_at, listener_id, url, healthy, last_request_at, custom_host, custom_path, version, created_at,
    updated_at, reported_health, health_reason, incidents, incidents_due, dormant_parts, health_processes
  ) on deployments to slipway_agent;
grant delete, insert, select, update (
    name, name_fold, source, deployment_type, status, image_version, tag_value_ids, source_config,
    source_revision_config, secrets, secret_references, generation, acknowledged, remote_reconciled, revisions,
    latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id, hold, preview, repo_key,
    deleting_at, listener_id, url, healthy, last_request_at, custom_host, custom_path, version, created_at,
    updated_at, trace_key_version, owner, reported_health, health_reason, incidents, incidents_due, dormant_parts,
    health_processes
  ) on deployments to slipway_app;
grant delete, insert, select, update (
    kind, number, "timestamp", severity, message, bytes_before, arrival, process
  ) on log_lines to slipway_agent;
grant delete, insert, select, update (
    kind, number, "timestamp", severity, message, bytes_before, arrival, process
  ) on log_lines to slipway_app;
alter table process_points enable row level security, force row level security;
create policy admitted on process_points as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = process_points.deployment_id)))))
  with check (true);
create policy everything on process_points to slipway_system
  using (true)
  with check (true);
create policy own on process_points to slipway_app
  using ((tenant_id = current_tenant()));
create policy served on process_points to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = process_points.deployment_id) AND (d.listener_id = current_listener())))))
  with check ((EXISTS ( SELECT
   FROM (revisions r
     JOIN deployments d ON ((d.id = r.deployment_id)))
  WHERE ((r.id = process_points.revision_id) AND (d.id = process_points.deployment_id)
    AND (d.listener_id = current_listener()) AND (d.tenant_id = process_points.tenant_id)
    AND (d.organization_id = process_points.organization_id)))));
grant insert, select, update (
    cpu_minutes, memory_minutes, copies, memory_peak_bytes, restarts, cpu_ms, memory_bytes
  ) on process_points to slipway_agent;
grant select on process_points to slipway_app;
grant delete, insert, select, update on process_points to slipway_system;
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
    -- An agent may report any total, at any rate.
    'pending', least(2147483647, coalesce(k.pending, 0)::bigint + case
      when n.kind is null or n.last_at = k.last_at then 0
      when n.count > k.count then n.count - k.count
      else n.count
    end)
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
  -- A part that comes or goes needs other copies, also if it is by its scale.
  select coalesce(array_agg(p.path), '{}')
  into v_new_parts
  from unnest(v_plan.in_place) p(path)
  join unnest('{queue, orchestrator}'::text[]) part
    on starts_with(p.path, 'source_config.resource_spec.' || part || '_')
  where has_part(v_stored #> v_resources, part) <> has_part(v_next #> v_resources, part);
  v_plan.reasons := v_plan.reasons || v_new_parts;
  v_plan.in_place := array(select path from unnest(v_plan.in_place) path where path <> all (v_new_parts));

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
create or replace function queue_revision(
  p_stored deployments, p_next deployments, p_revision uuid, p_reasons text[], p_source text,
  p_commit json DEFAULT NULL::json, p_from_revision uuid DEFAULT NULL::uuid, p_changes_in_place boolean DEFAULT false,
  OUT changed deployments, OUT revision revisions, OUT events new_event[]
)
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

  -- A revision in flight whose agent has reported why it is not healthy is replaced by the new one at once.
  if v_creates and not v_lacks_artifact and exists (
    select from revisions r
    where r.id = v_in_flight and r.tenant_id = current_tenant()
      and r.status = 'DEPLOYING' and r.status_message is not null
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
    hold = p_next.hold,
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
  if changed.status <> p_stored.status then
    events := events || (
      'deployment.ready',
      changed.id,
      '{}',
      changed_members(jsonb_build_object('status', p_stored.status), jsonb_build_object('status', changed.status))
    )::new_event;
  end if;
end $function$;
create or replace function read_changes(
  p_listener listeners, p_cursor bigint, p_digest text, p_page_size integer, p_daily_limit bigint
)
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
    health_processes = n.health_processes,
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
--> batches
-- Written by hand. Parts of deployments whose agent ran none yet stay dormant until one of their members is written
-- again.
update deployments
set dormant_parts = array(
  select part
  from unnest('{queue, orchestrator, executor}'::text[]) part
  where has_part(source_config::jsonb -> 'resource_spec', part)
)
where id in (
  select d.id
  from deployments d
  join listeners l on l.id = d.listener_id
  where d.dormant_parts is null
    and not coalesce(l.policy::jsonb -> 'features' ? 'queue', false)
    and exists (
      select from unnest('{queue, orchestrator, executor}'::text[]) part
      where has_part(d.source_config::jsonb -> 'resource_spec', part)
    )
  limit 1000
);
