ALTER TABLE "deployments" ADD COLUMN "traffic" json;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "applied_traffic" json;--> statement-breakpoint
ALTER TABLE "followed_repositories" ADD COLUMN "listener_id" uuid;--> statement-breakpoint
ALTER TABLE "followed_repositories" ADD COLUMN "look_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "followed_repositories" ADD COLUMN "look_started_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "followed_repositories" ADD COLUMN "look_failures" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "followed_repositories" ADD COLUMN "look_fence" bigint;--> statement-breakpoint
ALTER TABLE "followed_repositories" ADD COLUMN "seen" json;--> statement-breakpoint
ALTER TABLE "followed_repositories" ADD COLUMN "seen_at" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "integrations" ADD COLUMN "ssh" json;--> statement-breakpoint
ALTER TABLE "preview_policies" ADD COLUMN "existing_branches" json;--> statement-breakpoint
CREATE INDEX "followed_repositories_looks" ON "followed_repositories" USING btree ("listener_id","look_at")
  WHERE listener_id is not null;
--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
revoke all on deployments from slipway_agent;
revoke all on deployments from slipway_app;
revoke all on integrations from slipway_app;
revoke all on preview_policies from slipway_app;
grant delete, select, update (name, name_fold, source, deployment_type, status, image_version, tag_value_ids,
  source_config, source_revision_config, secrets, secret_references, generation, acknowledged, remote_reconciled,
  revisions, latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id, hold, preview,
  repo_key, deleting_at, listener_id, url, healthy, last_request_at, custom_host, custom_path, version, created_at,
  updated_at, reported_health, health_reason, incidents, incidents_due, dormant_parts, health_processes, local_url,
  traffic, applied_traffic) on deployments to slipway_agent;
grant delete, insert, select, update (name, name_fold, source, deployment_type, status, image_version,
  tag_value_ids, source_config, source_revision_config, secrets, secret_references, generation, acknowledged,
  remote_reconciled, revisions, latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id,
  hold, preview, repo_key, deleting_at, listener_id, url, healthy, last_request_at, custom_host, custom_path,
  version, created_at, updated_at, trace_key_version, owner, reported_health, health_reason, incidents,
  incidents_due, dormant_parts, health_processes, local_url, protection, traffic,
  applied_traffic) on deployments to slipway_app;
grant delete, insert, select, update (host, base_url, app_id, installation_id, account_id, name, state,
  credentials, token, token_expires_at, version, created_at, updated_at, problem, ssh) on integrations to slipway_app;
grant delete, insert, select, update (branches, ttl_seconds, max, forks, secrets, resource_spec, on_create,
  on_delete, hook_secret, version, created_at, updated_at, kinds, inherited_secrets, protection, database,
  existing_branches) on preview_policies to slipway_app;
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
      if v.state in ('deploying', 'deployed', 'serving') then d.applied_traffic := v.traffic; end if;
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
create or replace function awaits_database_copy(d deployments)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN ((((d).preview #>> '{database_copy,from_deployment_id}'::text[]) IS NOT NULL) AND
  (((d).preview #>> '{database_copy,copied_at}'::text[]) IS NULL));
set local role slipway_system;
create or replace function claim_commit_label(d deployments, r revisions)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_sha text := r.commit ->> 'sha';
  v_label text := (
    select h.label
    from host_labels h
    where h.deployment_id = d.id and h.kind = 'deployment' and h.listener_id = d.listener_id
  );
begin
  if v_sha is null or v_label is null or d.parent_deployment_id is null then return; end if;
  perform claim_host_label(d, array[prefixed_label(left(v_sha, 7), v_label)], 'commit', r.id);
  -- The newest are kept: all of them go to the agent with each change.
  delete from host_labels h
  where h.deployment_id = d.id and h.kind = 'commit'
    and h.label not in (
      select n.label
      from host_labels n
      where n.deployment_id = d.id and n.kind = 'commit'
      order by n.created_at desc, n.label
      limit 20
    );
end $function$;
reset role;
set local role slipway_system;
create or replace function claim_traffic_labels(d deployments, p_active jsonb, p_beside jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_active text := p_active ->> 'label';
  v_beside text := p_beside ->> 'label';
begin
  delete from host_labels h
  where h.deployment_id = d.id and h.kind = 'revision'
    and h.label is distinct from v_active and h.label is distinct from v_beside;
  return (v_active is null or claim_host_label(d, array[v_active], 'revision', d.active_revision_id) is not null)
    and (
      v_beside is null or p_beside ->> 'revision_id' is null
      or claim_host_label(d, array[v_beside], 'revision', (p_beside ->> 'revision_id')::uuid) is not null
    );
end $function$;
reset role;
create or replace function copies_databases(p_listener listeners)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN COALESCE(((((p_listener).policy)::jsonb -> 'features'::text) @> '"database_copies"'::jsonb), false);
create or replace function create_preview(p_deployment uuid, p_revision uuid, p_new json, p_read previews,
  p_max integer, p_column json, p_commit json, p_url text, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_parent deployments := lock_deployment(p_read.parent_id);
  v_preview previews;
  v_inserted record;
begin
  if p_new ->> 'source' = 'githost' then
    perform require_active_integration((p_new -> 'source_config' ->> 'integration_id')::uuid);
  end if;
  if not exists (
    select from previews v
    where v.parent_id = v_parent.id and v.tenant_id = current_tenant()
      and v.id = p_read.id
      and v.state <> 'ended'
      and (v.head_sha, v.deployment_id, v.approved_sha, v.kind, v.request::jsonb)
        is not distinct from
        (p_read.head_sha, p_read.deployment_id, p_read.approved_sha, p_read.kind, p_read.request::jsonb)
  ) then
    perform refuse('preview_moved');
  end if;
  perform require_preview_database(v_parent, (p_new -> 'database')::jsonb, (p_new -> 'database_needs')::jsonb);
  if (
    select count(*)
    from previews v
    where v.parent_id = v_parent.id and v.tenant_id = current_tenant()
      and v.id <> p_read.id and v.state <> 'ended' and v.deployment_id is not null
  ) >= p_max then
    perform refuse('previews_full');
  end if;
  -- The policy may have been set, and the parent created, when the agent allowed more.
  perform require_listener_allows(v_parent.listener_id, (p_new -> 'policy_needs')::jsonb);

  select *
  into v_inserted
  from insert_deployment(
    p_deployment,
    p_revision,
    p_new,
    p_listener => v_parent.listener_id,
    p_parent => v_parent,
    p_preview => p_column,
    p_commit => p_commit
  );
  -- A branch with a pull request is at its own label, too.
  perform claim_host_label(
    v_inserted.created, array(select json_array_elements_text(p_new -> 'branch_labels')), 'branch'
  )
  where p_new ->> 'branch_labels' is not null;
  update previews v
  set
    state = 'live',
    deployment_id = p_deployment,
    expires_at = (p_column ->> 'expires_at')::timestamptz,
    updated_at = clock()
  where v.parent_id = v_parent.id and v.tenant_id = current_tenant() and v.id = p_read.id
  returning v.* into v_preview;
  insert into preview_hooks (organization_id, tenant_id, preview_id, url, parent_id, secret, body)
  select
    h.organization_id, h.tenant_id, v_preview.id, h.on_create, h.id, h.hook_secret,
    preview_hook_body(v_preview, 'preview.created', p_url)
  from preview_policies h
  where h.id = v_parent.id and h.tenant_id = current_tenant()
    and h.on_create is not null and h.hook_secret is not null;
  answer := to_json(v_inserted.created);
  has_webhooks := conclude_write(answer, v_inserted.events, p_request);
  return next;
end $function$;
create or replace function database_copy_events(p_before deployments, p_after deployments)
 RETURNS tenant_event[]
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if p_after.preview #>> '{database_copy, copied_at}' is not distinct from
    p_before.preview #>> '{database_copy, copied_at}' then
    return '{}';
  end if;
  return array[(
    p_after.tenant_id,
    p_after.organization_id,
    'deployment.database_copied',
    p_after.id,
    json_build_object('from_deployment_id', p_after.preview #> '{database_copy, from_deployment_id}'),
    changed_members(
      jsonb_build_object('preview', p_before.preview), jsonb_build_object('preview', p_after.preview)
    )
  )::tenant_event];
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
  return v_events || database_copy_events(p_before, p_after);
end $function$;
create or replace function due_looks(p_listener uuid, p_limit integer)
 RETURNS SETOF uuid
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  -- Most listeners have none.
  if not exists (
    select from followed_repositories f where f.listener_id = p_listener and f.look_at <= clock()
  ) then
    return;
  end if;
  return query
  with known as (
    select f.id, f.tenant_id, f.look_at, is_looking(f, l.fence) as is_looking, l.tenant_id is null as is_shared
    from listeners l
    join followed_repositories f on f.listener_id = l.id
    join integrations i on i.id = f.integration_id
    where l.id = p_listener
      and f.look_at <= clock() + interval '2 minutes'
      and i.state = 'active'
      and i.ssh is not null
      -- The key of a repository goes only to an agent that builds it.
      and exists (
        select
        from deployments d
        where d.repo_key = f.repo_key
          and d.tenant_id = f.tenant_id
          and d.listener_id = p_listener
          and d.source_config ->> 'integration_id' = f.integration_id::text
          and d.deleting_at is null
      )
  ),
  due as (
    select
      k.id,
      k.look_at,
      k.is_shared,
      k.looking + row_number() over (partition by k.tenant_id order by k.look_at, k.id) as place
    from (
      select k.*, count(*) filter (where k.is_looking) over (partition by k.tenant_id) as looking
      from known k
    ) k
    where k.look_at <= clock() and not k.is_looking
  )
  select d.id
  from due d
  where not d.is_shared or d.place <= 2
  order by d.look_at
  limit p_limit;
end $function$;
create or replace function exclusive_disks(d deployments, p_resources jsonb)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_engine text := (select l.policy ->> 'engine' from listeners l where l.id = d.listener_id);
  v_plan jsonb := (select r.build_plan from revisions r where r.id = d.active_revision_id);
begin
  return (
    select string_agg(distinct disk ->> 'name', ', ')
    from (
      select
        (v -> 'persistentVolumeClaim') || jsonb_build_object('name', v #> '{persistentVolumeClaim, claimName}') as disk
      from jsonb_array_elements(coalesce(nullif(p_resources -> 'volumes', 'null'), '[]')) v
      where nullif(v -> 'persistentVolumeClaim', 'null') is not null
      union all
      select s
      from jsonb_array_elements(coalesce(nullif(v_plan -> 'disks', 'null'), '[]')) s
    ) disks
    where disk ->> 'access_mode' = 'ReadWriteOncePod'
      or v_engine = 'kubernetes' and disk ->> 'storage_gi' is not null
        and disk ->> 'access_mode' is distinct from 'ReadWriteMany'
  );
end $function$;
create or replace function fail_overdue_revisions(p_deadlines jsonb, p_lost jsonb, p_silent_after interval,
  p_limit integer)
 RETURNS uuid[]
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  -- A deployment that another transaction is changing waits for the next call.
  v_ids uuid[] := array(
    select c.id
    from deployments c
    where c.id in (
      select r.deployment_id
      from revisions r
      join jsonb_to_recordset(p_deadlines) l(status text, after bigint) on l.status = r.status
      -- The condition of the index `revisions_pending`.
      where r.status in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING')
        and r.status_since <= clock() - l.after * interval '1 millisecond'
        and not exists (
          select from deployments h
          where h.id = r.deployment_id and h.applied_traffic ->> 'revision_id' = r.id::text
        )
    )
    order by c.id
    limit p_limit
    for update skip locked
  );
  v_before deployments;
  d deployments;
  v record;
  r revisions;
  v_next revisions;
  v_revisions revisions[] := '{}';
  v_deployments deployments[] := '{}';
  v_events tenant_event[] := '{}';
begin
  for v_before in select c.* from deployments c where c.id = any(v_ids) order by c.id loop
    d := v_before;
    for v in
      select
        n as revision,
        -- A listener that never polled is silent from its registration on.
        case
          when n.status = 'DEPLOYING' and coalesce(s.last_seen_at, s.created_at) <= clock() - p_silent_after then p_lost
          else l.outcome
        end as outcome
      from revisions n
      join jsonb_array_elements(p_deadlines) l(outcome) on l.outcome ->> 'status' = n.status
      left join listeners s on s.id = d.listener_id
      where n.deployment_id = d.id
        and n.status_since <= clock() - (l.outcome ->> 'after')::bigint * interval '1 millisecond'
        and d.applied_traffic ->> 'revision_id' is distinct from n.id::text
      order by n.number
    loop
      r := v.revision;
      v_next := r;
      v_next.status := v.outcome ->> 'becomes';
      v_next.status_message := v.outcome ->> 'message';
      d := follow_revision(d, r, v_next);
      v_revisions := v_revisions || v_next;
      v_events := v_events || revision_moved(
        r, v_next, json_build_object('deployment_id', d.id, 'message', v_next.status_message)
      );
    end loop;
    v_deployments := v_deployments || d;
    v_events := v_events || deployment_events(v_before, d);
  end loop;
  perform write_moved_revisions(v_revisions);
  perform journal_tenant_events(v_events, null);
  perform write_moved_deployments(v_deployments);
  return v_ids;
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
create or replace function has_database(d deployments)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN ('database'::text = ANY ((stores_of((((d).source_config -> 'resource_spec'::text))::jsonb)
  || planned_stores((d).id, (d).active_revision_id))));
set local role slipway_system;
create or replace function has_due_look()
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
BEGIN ATOMIC
 SELECT (EXISTS ( SELECT
            FROM due_looks(current_listener(), 1) due_looks(due_looks))) AS "exists";
END;
reset role;
create or replace function is_looking(f followed_repositories, p_fence bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN COALESCE((((f).look_fence = p_fence) AND ((f).look_started_at > (clock() - '00:02:00'::interval)) AND
  (((f).seen_at IS NULL) OR ((f).seen_at < (f).look_started_at))), false);
create or replace function is_traffic_split(p_traffic json)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN COALESCE(((((p_traffic ->> 'starts_at'::text))::integer < 100)
  OR ((p_traffic #>> '{beside,first}'::text[]) IS NOT NULL)), false);
create or replace function leave_canary(p_traffic json, p_is_deployed boolean)
 RETURNS json
 LANGUAGE sql
 IMMUTABLE
RETURN (((p_traffic)::jsonb || CASE WHEN p_is_deployed THEN jsonb_build_object('active', jsonb_build_object('name',
  (p_traffic #> '{beside,name}'::text[]), 'label', (p_traffic #> '{beside,label}'::text[])), 'beside',
  NULL::unknown) ELSE jsonb_build_object('beside',
  (((p_traffic -> 'beside'::text))::jsonb || '{"revision_id": null}'::jsonb)) END))::json;
create or replace function list_traffic(d deployments)
 RETURNS json
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select json_build_object(
    'revision_id', d.traffic #> '{beside, revision_id}',
    'share', d.traffic #> '{beside, share}',
    'sticky', d.traffic -> 'sticky'
  )
  where d.traffic #>> '{beside, revision_id}' is not null
$function$;
create or replace function move_preview(p_deployment uuid, p_preview uuid, p_column json, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments := lock_deployment(p_deployment);
  v_changed deployments;
begin
  update previews v
  set state = 'live', expires_at = (p_column ->> 'expires_at')::timestamptz, updated_at = clock()
  where v.id = p_preview and v.tenant_id = current_tenant()
    and v.head_sha is not distinct from p_column ->> 'head_sha'
    and v.state <> 'ended';
  update deployments d
  set
    preview = (
      p_column::jsonb || case
        when d.preview::jsonb ? 'database_copy' then jsonb_build_object('database_copy', d.preview -> 'database_copy')
        else '{}'
      end
    )::json,
    version = d.version + 1,
    updated_at = greatest(clock(), d.updated_at)
  where d.id = v_stored.id and d.tenant_id = current_tenant()
    and d.deleting_at is null
    and d.preview ->> 'head_sha' is distinct from p_column ->> 'head_sha'
  returning d.* into v_changed;
  if not found then return; end if;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[deployment_event(
      'deployment.preview_moved',
      v_stored,
      v_changed,
      json_build_object('number', p_column -> 'number', 'branch', p_column -> 'branch')
    )],
    p_request
  );
  return next;
end $function$;
set local role slipway_system;
create or replace function offer_looks(p_listener listeners, p_limit integer, p_daily_limit bigint)
 RETURNS json
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_looks json;
  v_events tenant_event[];
begin
  with due as (
    select f.id, f.look_fence
    from followed_repositories f
    where f.id in (select d from due_looks(p_listener.id, p_limit) d)
    for update skip locked
  ),
  claimed as (
    update followed_repositories f
    set
      look_at = clock() + interval '2 minutes',
      look_started_at = clock(),
      look_fence = p_listener.fence
    from due, integrations i
    where f.id = due.id and i.id = f.integration_id and i.state = 'active' and i.ssh is not null
    returning f.id, f.seen, i as integration, due.look_fence is distinct from p_listener.fence as is_new
  )
  select
    coalesce(json_agg(json_build_object(
      'id', c.id,
      'digest', c.seen ->> 'digest',
      'integration', to_json(c.integration)
    )), '[]'),
    array_agg((
      (c.integration).tenant_id,
      (c.integration).organization_id,
      'integration.key_revealed',
      (c.integration).id,
      json_build_object('fence', p_listener.fence),
      null
    )::tenant_event) filter (where c.is_new)
  into v_looks, v_events
  from claimed c;
  if v_events is not null then
    perform journal_tenant_events(v_events, case when p_listener.tenant_id is not null then p_daily_limit end);
  end if;
  return v_looks;
end $function$;
reset role;
create or replace function place_canary(d deployments, p_revision uuid, p_is_rollback boolean)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_traffic jsonb := d.traffic;
  v_beside jsonb := nullif(v_traffic -> 'beside', 'null');
  v_first integer := coalesce(nullif((v_traffic ->> 'starts_at')::integer, 100), (v_beside ->> 'first')::integer);
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
    'first', v_first,
    'name', v_beside -> 'name',
    'label', v_beside -> 'label'
  ));
end $function$;
create or replace function prefixed_label(p_prefix text, p_label text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN ((p_prefix || '--'::text) || CASE WHEN (((length(p_prefix) + 2) + length(p_label)) <= 63)
  THEN p_label ELSE ((rtrim("left"(p_label, (52 - length(p_prefix))),
  '-'::text) || '-'::text) || "left"(md5(p_label), 8)) END);
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
    hold = p_next.hold,
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
  if changed.status <> p_stored.status then
    events := events || (
      'deployment.ready',
      changed.id,
      '{}',
      changed_members(jsonb_build_object('status', p_stored.status), jsonb_build_object('status', changed.status))
    )::new_event;
  end if;
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
          'database_copy', d.preview -> 'database_copy',
          'protection', case when d.protection ->> 'mode' = 'members' then list_protection(d) end,
          'host_labels', (
            select json_agg(
              json_build_object('label', b.label, 'revision_id', b.revision_id)
              order by b.kind <> 'deployment', b.created_at desc, b.label
            )
            from host_labels b
            where b.deployment_id = d.id and b.listener_id = d.listener_id
          ),
          -- The workspace owns the host and has proved it. A listener of its own that is not public needs no proof.
          'custom_url', case
            when h.verified_at is not null
              or h.tenant_id = p_listener.tenant_id and not p_listener.verified_hosts_only
              then d.source_config ->> 'custom_url'
          end,
          'traffic', case when s.can_split then list_traffic(d) end,
          'absent', d.deleting_at is not null
        ) end as deployment,
        -- The revision in flight; or the latest, if it was lost when its listener fell silent: the agent continues it.
        case
          when s.is_served and (s.can_split or t.id is null or t.id is distinct from d.in_flight_revision_id)
            then coalesce(d.in_flight_revision_id, l.id)
        end as revision_id,
        case when s.is_served then d.active_revision_id end as serving_id,
        case
          when s.is_served and s.can_split
            and t.id is distinct from d.in_flight_revision_id and t.id is distinct from d.active_revision_id
            then t.id
        end as beside_id
      from (select * from page order by seq limit p_page_size) p
      left join deployments d on d.id = p.deployment_id and d.listener_id = p_listener.id
      left join custom_hosts h on h.host = d.custom_host and h.tenant_id = d.tenant_id
      left join revisions l on l.id = d.latest_revision_id and l.status = 'UNKNOWN'
      -- An agent that was replaced by one of an earlier release ends what it cannot protect, and starts nothing with an
      -- empty database that is to be a copy: a later one would replace what was written to it.
      cross join lateral (
        select
          d.deleting_at is null
            and may_serve(p_listener, d.protection)
            and (not awaits_database_copy(d) or copies_databases(p_listener)) as is_served,
          -- Any other one would give all traffic to a revision that is to get a part of it.
          coalesce(p_listener.policy::jsonb -> 'features' @> '"traffic"', false) as can_split
      ) s
      cross join lateral (select (d.traffic #>> '{beside, revision_id}')::uuid as id) t
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
      where r.id in (
        select w.revision_id from wanted w
        union select w.serving_id from wanted w
        union select w.beside_id from wanted w
      )
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
          'serving', a.json,
          'beside', b.json
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
    left join described a on a.id = w.serving_id
    left join described b on b.id = w.beside_id;
    perform journal_tenant_events(v_events, case when p_listener.tenant_id is not null then p_daily_limit end);
  end if;
  -- This comes last, because it locks cursors. An adopted deployment is a change for the next poll.
  perform adopt_deployments(p_listener);
  return next;
end $function$;
set local role slipway_system;
create or replace function read_look(p_agent text, p_fence bigint, p_id uuid)
 RETURNS json
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners := require_lease(p_agent, p_fence);
begin
  return (
    select json_build_object('listener_id', v_listener.id, 'repository', to_json(f), 'integration', to_json(i))
    from followed_repositories f
    join integrations i on i.id = f.integration_id
    where f.id = p_id
      and f.listener_id = v_listener.id
      and f.look_fence = p_fence
      and (f.seen_at is null or f.seen_at < f.look_started_at)
      and i.ssh is not null
  );
end $function$;
reset role;
create or replace function require_allowed_action(d deployments, p_action jsonb)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_store text := p_action ->> 'store';
  v_listener uuid;
  v_kind text;
  v_source uuid;
begin
  if not v_store = any(
    stores_of((d.source_config -> 'resource_spec')::jsonb) || planned_stores(d.id, d.active_revision_id)
  ) then
    perform refuse('store_not_found', v_store);
  end if;
  if p_action ->> 'snapshot_id' is not null then
    select s.listener_id, split_part(s.store, ':', 1), s.deployment_id
    into v_listener, v_kind, v_source
    from snapshots s
    where s.id = (p_action ->> 'snapshot_id')::uuid and s.tenant_id = current_tenant() and s.deleting_at is null;
    if not found then perform refuse('snapshot_not_found'); end if;
    if v_kind <> split_part(v_store, ':', 1) then
      perform refuse('store_not_found', format('a snapshot of a %s cannot become a %s', v_kind, v_store));
    end if;
  elsif p_action ->> 'from_deployment_id' is not null then
    select o.listener_id, o.id
    into v_listener, v_source
    from deployments o
    where o.id = (p_action ->> 'from_deployment_id')::uuid and o.tenant_id = current_tenant();
    if not found then perform refuse('deployment_not_found'); end if;
  else
    return;
  end if;
  if v_store = 'database' and v_source <> d.id then perform require_copy_permission(v_source); end if;
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
    end
    || case when v_sent ? 'source_config.resource_spec.volumes' and is_traffic_split(p_stored.traffic) then
      array(
        select format('source_config.resource_spec.volumes: %s has one writer, and the traffic is split', disks)
        from exclusive_disks(p_stored, (v_next.source_config -> 'resource_spec')::jsonb) disks
        where disks is not null
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
create or replace function require_copy_permission(p_source uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
declare
  v_tags uuid[];
  v_origin uuid;
begin
  if setting('actor_kind') not in ('key', 'session') then return true; end if;
  select d.tag_value_ids, (d.preview #>> '{database_copy, from_deployment_id}')::uuid
  into v_tags, v_origin
  from deployments d
  where d.id = p_source and d.tenant_id = current_tenant();
  -- A copy has the data of its own source.
  if v_origin is not null then perform require_copy_permission(v_origin); end if;
  return require_permission_for('deployments:copy-database', coalesce(v_tags, '{}'));
end $function$;
create or replace function require_preview_database(d deployments, p_database jsonb, p_needs jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
declare
  o deployments;
begin
  if p_database ->> 'mode' is distinct from 'copy' then return true; end if;
  select c.*
  into o
  from deployments c
  where c.id = coalesce((p_database ->> 'from_deployment_id')::uuid, d.id) and c.tenant_id = current_tenant();
  if not found or o.deleting_at is not null then
    perform refuse('database_not_copied', 'there is no deployment ' || (p_database ->> 'from_deployment_id'));
  end if;
  perform require_copy_permission(o.id);
  if not has_database(o) then perform refuse('database_not_copied', o.name || ' has no database'); end if;
  if awaits_database_copy(o) then
    perform refuse('database_not_copied', 'that of ' || o.name || ' is being copied itself. Try again later');
  end if;
  if o.listener_id is distinct from d.listener_id then
    perform refuse('database_not_copied', 'that of ' || o.name || ' is on the machine of another listener');
  end if;
  return require_listener_allows(d.listener_id, p_needs);
end $function$;
create or replace function require_runnable(d deployments, r revisions, p_share integer)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
begin
  if r.id = d.in_flight_revision_id then return true; end if;
  if d.in_flight_revision_id is not null then
    perform refuse('traffic_refused', format(
      'revision %s is not the one that is deployed now. Interrupt that one first', r.number
    ));
  end if;
  if r.status <> 'DEPLOYED' then
    perform refuse('traffic_refused', format('revision %s was never deployed: it is %s', r.number, r.status));
  end if;
  if p_share = 100 then
    perform refuse('traffic_refused', format('revision %s has served before. Roll back to it instead', r.number));
  end if;
  if r.source = 'internal_source' and not exists (
    select from uploads u
    where u.object_path = r.source_revision_config ->> 'source_tarball_path'
      and u.tenant_id = r.tenant_id
      and u.state = 'stored'
  ) then
    perform refuse('traffic_refused', format('the archive of revision %s is not kept any more', r.number));
  end if;
  if r.source = 'githost' and r.source_revision_config ->> 'repo_commit_sha' is null then
    perform refuse('traffic_refused', format('the commit of revision %s is not known', r.number));
  end if;
  return true;
end $function$;
create or replace function restore_revision(p_deployment uuid, p_restored uuid, p_revision uuid, p_reason text,
  p_hold_until text, p_kept_members text[], p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments;
  v_restored revisions;
  v_next deployments;
  v_queued record;
begin
  v_stored := lock_deployment(p_deployment);
  if v_stored.id is null then return; end if;
  if v_stored.deleting_at is not null then perform refuse('deployment_deleting'); end if;
  select r.*
  into v_restored
  from revisions r
  where r.id = p_restored and r.deployment_id = v_stored.id and r.tenant_id = current_tenant();
  if not found then perform refuse('revision_not_found'); end if;
  perform require_version(v_stored.version, p_request);
  perform require_branch_to_build_on_push(v_stored.source_config, v_restored.source_revision_config);
  perform require_allowed_commands(v_stored.source_config::jsonb, v_restored.source_config::jsonb);

  v_next := v_stored;
  v_next.source_config := restored_config(
    v_stored.source_config::jsonb, v_restored.source_config::jsonb, p_kept_members
  );
  v_next.source_revision_config := v_restored.source_revision_config;
  v_next.secrets := v_restored.secrets;
  v_next.secret_references := v_restored.secret_references;
  if p_hold_until is not null then
    -- It takes all traffic at once.
    v_next.traffic := (v_stored.traffic::jsonb || '{"beside": null}')::json;
    v_next.hold := json_build_object(
      'since', clock(),
      'revision_id', p_revision,
      'until', p_hold_until,
      'from_commit', (
        select coalesce(r.commit ->> 'sha', r.source_revision_config ->> 'repo_commit_sha')
        from revisions r
        where r.id = v_stored.latest_revision_id and r.tenant_id = current_tenant()
      )
    );
  end if;
  select *
  into v_queued
  from queue_revision(
    v_stored, v_next, p_revision, array[p_reason], v_restored.source, v_restored.commit, v_restored.id
  );

  answer := to_json(v_queued.changed);
  has_webhooks := conclude_write(
    answer,
    deployment_event(
      'deployment.' || p_reason, v_stored, v_queued.changed, json_build_object('revision_id', p_restored)
    ) || v_queued.events,
    p_request
  );
  return next;
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
begin
  if v_stored.id is null then return; end if;
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
      v_beside := v_named || jsonb_build_object(
        'revision_id', (v_share.revision).id,
        'share', v_share.share,
        'first', case
          when v_before ->> 'revision_id' = (v_share.revision).id::text
            then least(v_share.share, (v_before ->> 'first')::integer)
          else v_share.share
        end
      );
    end if;
  end loop;
  -- The shares say all: the one in flight gets what they say, which is nothing.
  if v_beside is null and p_new -> 'shares' <> '[]' and v_stored.in_flight_revision_id is not null then
    v_beside := jsonb_build_object(
      'revision_id', v_stored.in_flight_revision_id, 'share', 0, 'first', 0, 'name', null, 'label', null
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
        jsonb_build_object('traffic', v_stored.traffic), jsonb_build_object('traffic', v_changed.traffic)
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
create or replace function traffic_label(d deployments, p_name text)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if p_name is null then return null; end if;
  return prefixed_label(p_name, coalesce(
    (
      select h.label
      from host_labels h
      where h.deployment_id = d.id and h.kind = 'deployment' and h.listener_id = d.listener_id
    ),
    d.name
  ));
end $function$;
create or replace function with_database_copied(d deployments, p_listener listeners)
 RETURNS deployments
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if awaits_database_copy(d) and copies_databases(p_listener) then
    d.preview := jsonb_set(d.preview::jsonb, '{database_copy, copied_at}', to_jsonb(clock()))::json;
  end if;
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
    traffic = n.traffic,
    applied_traffic = n.applied_traffic,
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
        n.traffic::text, n.applied_traffic::text, n.preview::text
      ) is distinct from (
        d.active_revision_id, d.status, d.url, d.local_url, d.source_revision_config::text, d.image_version,
        d.traffic::text, d.applied_traffic::text, d.preview::text
      )
    )::integer,
    updated_at = n.updated_at
  from unnest(p_deployments) n
  where d.id = n.id and d.tenant_id = n.tenant_id;
end $function$;
set local role slipway_system;
revoke execute on function claim_traffic_labels(deployments, jsonb, jsonb) from public;
grant execute on function claim_traffic_labels(deployments, jsonb, jsonb) to slipway_agent, slipway_app;
reset role;
set local role slipway_system;
revoke execute on function has_due_look() from public;
grant execute on function has_due_look() to slipway_agent;
reset role;
set local role slipway_system;
revoke execute on function offer_looks(listeners, integer, bigint) from public;
grant execute on function offer_looks(listeners, integer, bigint) to slipway_agent;
reset role;
set local role slipway_system;
revoke execute on function read_look(text, bigint, uuid) from public;
grant execute on function read_look(text, bigint, uuid) to slipway_agent;
reset role;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
--> statement-breakpoint
-- Written by hand from here. The built-in admins may copy databases. Custom roles get the permission from their admins.
set local role slipway_system;
--> statement-breakpoint
update roles
set permissions = permissions || '{deployments:copy-database}', version = version + 1
where id in ('00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000004')
  and not permissions @> '{deployments:copy-database}';
--> statement-breakpoint
reset role;
