-- The agent protocol: leases, polls and reports of agents.

-- Runs after enter_by_key(): the holder of an agent's key acts for its listener only.
create function become_listener(p_key uuid) returns uuid
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_listener record;
begin
  select l.id, l.tenant_id
  into v_listener
  from api_keys a
  join listeners l on l.id = a.listener_id
  where a.id = p_key;
  if not found then perform refuse('listener_not_found'); end if;
  perform
    set_config('app.listener_id', v_listener.id::text, true),
    set_config('app.platform', (v_listener.tenant_id is null)::text, true);
  return v_listener.id;
end $$;
grant execute on function become_listener(uuid) to slipway_login, session_user;

-- The listener that a new deployment names, with its namespace. It stays locked while the deployment is written.
create function require_listener(p_listener uuid, p_namespace text, p_is_required boolean) returns uuid
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_namespaces jsonb;
begin
  if p_listener is null then
    if p_is_required and exists (select from listeners where tenant_id = current_tenant()) then
      perform refuse('source_rule', 'source_config.listener_id is required: this workspace has listeners');
    end if;
    return null;
  end if;
  select compute_config::jsonb -> 'k8s_namespaces'
  into v_namespaces
  from listeners
  where id = p_listener and tenant_id = current_tenant()
  for share;
  if not found then
    perform refuse('source_rule', 'source_config.listener_id is not a listener of this workspace');
  end if;
  if p_namespace is null and jsonb_array_length(v_namespaces) > 0 then
    perform refuse(
      'source_rule', 'source_config.listener_config.k8s_namespace is required: name a namespace of the listener'
    );
  end if;
  if p_namespace is not null and not v_namespaces ? p_namespace then
    perform refuse('source_rule', 'source_config.listener_config.k8s_namespace is not a namespace of the listener');
  end if;
  return p_listener;
end $$;

-- The part of a listener's digest that a deployment at a generation adds.
create function sync_item_hash(p_deployment uuid, p_generation integer) returns bigint
language sql immutable
return ('x' || left(
  encode(sha256((p_deployment::text || ':' || p_generation::text)::bytea), 'hex'), 16
))::bit(64)::bigint;

-- Gives each item the next number of its listener. The counter's row stays locked until the transaction ends, so
-- numbers become visible in order and a cursor never skips one in flight. Counters are locked in one order, and last.
create function record_sync_items(p_items sync_items[]) returns void
language sql security definer set search_path = public, pg_temp as $$
  with changed as (
    select
      n.deployment_id,
      n.listener_id,
      n.generation,
      sync_item_hash(n.deployment_id, n.generation)
        # coalesce(sync_item_hash(o.deployment_id, o.generation), 0) as digest_change
    from unnest(p_items) n
    left join sync_items o on o.deployment_id = n.deployment_id
  ),
  numbered as (
    insert into sync_cursors as c (listener_id, seq, digest)
    select listener_id, count(*), bit_xor(digest_change)
    from changed
    group by listener_id
    order by listener_id
    on conflict (listener_id) do update set seq = c.seq + excluded.seq, digest = c.digest # excluded.digest
    returning listener_id, seq
  )
  insert into sync_items (deployment_id, listener_id, generation, seq)
  select
    deployment_id,
    listener_id,
    generation,
    numbered.seq - count(*) over of_listener + row_number() over of_listener
  from changed
  join numbered using (listener_id)
  window of_listener as (partition by listener_id)
  on conflict (deployment_id) do update set
    listener_id = excluded.listener_id,
    generation = excluded.generation,
    seq = excluded.seq
$$;

-- These are triggers, because many statements change a generation, and a workspace deletes its deployments with it.
-- They lock journals before cursors, for functions that write their events later.
create function sync_after_insert() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_items sync_items[];
  v_tenants uuid[];
begin
  select array_agg((id, listener_id, 0, generation)::sync_items), array_agg(distinct tenant_id)
  into v_items, v_tenants
  from after
  where listener_id is not null;
  if v_items is not null then
    perform from journals j where j.scope_id = any(v_tenants) order by j.scope_id for no key update;
    perform record_sync_items(v_items);
  end if;
  return null;
end $$;
create trigger sync_after_insert
  after insert on deployments
  referencing new table as after
  for each statement execute function sync_after_insert();

create function sync_after_update() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_items sync_items[];
  v_tenants uuid[];
begin
  select
    array_agg((a.id, a.listener_id, 0, a.generation)::sync_items),
    -- A listener that adopts deployments writes no events of theirs.
    array_agg(distinct a.tenant_id) filter (where a.generation <> b.generation)
  into v_items, v_tenants
  from after a
  join before b on b.id = a.id
  where a.listener_id is not null
    and (a.generation <> b.generation or a.listener_id is distinct from b.listener_id);
  if v_items is not null then
    perform from journals j where j.scope_id = any(v_tenants) order by j.scope_id for no key update;
    perform record_sync_items(v_items);
  end if;
  return null;
end $$;
create trigger sync_after_update
  after update on deployments
  referencing old table as before new table as after
  for each statement execute function sync_after_update();

create function delete_sync_items(p_deployments uuid[]) returns void
language sql security definer set search_path = public, pg_temp as $$
  with gone as (
    delete from sync_items
    where deployment_id = any(p_deployments) and listener_id = current_listener()
    returning *
  )
  update sync_cursors c
  set digest = c.digest # g.digest
  from (
    select listener_id, bit_xor(sync_item_hash(deployment_id, generation)) as digest
    from gone
    group by listener_id
  ) g
  where c.listener_id = g.listener_id
$$;
grant execute on function delete_sync_items(uuid[]) to slipway_agent;

-- A deployment that its own agent removed is forgotten. One deleted otherwise stays as wanted absent, until the agent
-- reports that it removed it.
create function sync_after_delete() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_items sync_items[];
begin
  if current_listener() is not null then
    perform delete_sync_items(array(select id from before));
  else
    v_items := (
      select array_agg((i.deployment_id, i.listener_id, 0, i.generation + 1)::sync_items)
      from before b
      join sync_items i on i.deployment_id = b.id
    );
    if v_items is not null then perform record_sync_items(v_items); end if;
  end if;
  return null;
end $$;
create trigger sync_after_delete
  after delete on deployments
  referencing old table as before
  for each statement execute function sync_after_delete();

-- The lease of the caller's listener, locked: no later lease begins before the transaction ends.
create function require_lease(p_agent text, p_fence bigint) returns listeners
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_listener listeners;
begin
  select l.* into v_listener from listeners l where l.id = current_listener() for share;
  if v_listener.fence = p_fence and v_listener.agent_id = p_agent then return v_listener; end if;
  perform refuse('fence_stale');
end $$;

-- The statuses that follow from a report, in their order: none if the revision has it already, null if the revision has
-- ended otherwise. Agents may skip reports, so the statuses in between are included. Revisions of a source that is not
-- built begin after the statuses of a build.
create function report_path(p_status text, p_state text) returns text[]
language plpgsql immutable as $$
declare
  v_order constant text[] := '{AWAITING_BUILD, BUILDING, AWAITING_DEPLOY, DEPLOYING, DEPLOYED}';
  v_reported text := case p_state
    when 'building' then 'BUILDING'
    when 'built' then 'AWAITING_DEPLOY'
    when 'deploying' then 'DEPLOYING'
    when 'deployed' then 'DEPLOYED'
  end;
begin
  if p_state = 'failed' then
    return case
      when p_status in ('AWAITING_BUILD', 'BUILDING') then '{BUILD_FAILED}'::text[]
      when p_status in ('AWAITING_DEPLOY', 'DEPLOYING', 'UNKNOWN') then '{DEPLOY_FAILED}'
      when p_status in ('BUILD_FAILED', 'DEPLOY_FAILED') then '{}'
    end;
  end if;
  -- The listener was silent for too long and is back.
  if p_status = 'UNKNOWN' then
    return case v_reported when 'DEPLOYED' then '{DEPLOYED}'::text[] else '{}' end;
  end if;
  if not p_status = any(v_order) then return null; end if;
  return v_order[array_position(v_order, p_status) + 1 : array_position(v_order, v_reported)];
end $$;

-- The code of a report that is not valid, or null. Without the deployment, `p_was_served` says whether the listener
-- served it.
create function report_code(
  p_state text, p_generation integer, p_revision uuid, d deployments, r revisions, p_was_served boolean
) returns text
language plpgsql immutable as $$
begin
  if d.id is null then
    return case
      when p_state = 'removed' then null
      when p_was_served then 'generation_passed'
      else 'deployment_unknown'
    end;
  end if;
  if p_generation > d.generation then return 'generation_unknown'; end if;
  if p_state = 'removed' then
    return case
      when d.deleting_at is null then 'still_wanted'
      when p_generation < d.generation then 'generation_passed'
    end;
  end if;
  if p_revision is not null and r.id is null then return 'revision_unknown'; end if;
  case p_state
    when 'database_ready' then return null;
    when 'serving' then return case when p_generation < d.generation then 'generation_passed' end;
    when 'interrupted' then return case when r.id = d.in_flight_revision_id then 'still_wanted' end;
    else
      if r.status in ('CREATING', 'QUEUED') then return 'revision_unknown'; end if;
      return case when report_path(r.status, p_state) is null then 'revision_ended' end;
  end case;
end $$;

create function image_name(p_image text) returns text
language sql immutable
return regexp_replace(regexp_replace(p_image, '(:[^/:@]*)?(@.*)?$', ''), '^(docker[.]io/)?(library/)?', '');

-- The members of a revision's configuration that a report resolves: its ref to a commit, its tag to a digest. For
-- sources whose image the user names (`IMAGE_SOURCES` of src/hosting/registry/registry-credentials.ts), another image
-- is ignored: it would allow the agent to pull that one.
create function resolved_config(r revisions, p_commit jsonb, p_image text) returns jsonb
language sql stable
return jsonb_strip_nulls(jsonb_build_object(
  'repo_commit_sha', p_commit ->> 'sha',
  'image_uri', case
    when r.source not in ('internal_container', 'external_container')
      or image_name(p_image) = image_name(r.source_revision_config ->> 'image_uri')
      then p_image
  end
));

-- The generation that the agent has reached with a report, or null. While a revision is in flight, only its own end
-- reaches a generation.
create function reached_generation(p_state text, p_generation integer, p_revision uuid, d deployments) returns integer
language sql immutable
return case
  when p_state in ('deployed', 'failed', 'interrupted') and coalesce(d.in_flight_revision_id = p_revision, true)
    or p_state = 'serving'
      and d.in_flight_revision_id is null
      and p_revision is not distinct from d.active_revision_id
    then p_generation
end;

-- The events of the steps of a revision. The last one has the members that the report changes.
create function step_events(p_before revisions, p_after revisions, p_path text[], p_message text, p_commit text)
returns tenant_event[]
language plpgsql stable as $$
declare
  v_last integer := coalesce(cardinality(p_path), 0);
  v_from revisions := p_before;
  v_to revisions := p_before;
  v_events tenant_event[] := '{}';
begin
  v_to.status_message := null;
  for i in 1 .. v_last loop
    if i = v_last then v_to := p_after; end if;
    v_to.status := p_path[i];
    v_events := v_events || revision_moved(v_from, v_to, json_build_object(
      'deployment_id', p_after.deployment_id,
      'message', p_message,
      'commit', case when i = v_last then p_commit end
    ));
    v_from := v_to;
  end loop;
  return v_events;
end $$;

-- Applies reports, at most one for each deployment. Returns a row for each report, in their order: its code, the wanted
-- generation after it, and the workspace if events are to be sent to webhooks. Agents of the platform have no daily
-- limit: one full workspace would stop them for all workspaces.
create function apply_reports(
  p_agent text, p_fence bigint, p_reports jsonb, p_daily_limit bigint, p_unused_after interval
) returns table (deployment_id uuid, revision_id uuid, code text, generation integer, hooked_tenant uuid)
language plpgsql set plan_cache_mode = force_generic_plan as $$
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
  -- In one order, because several listeners may serve a host.
  perform from custom_hosts h
  where h.host = any(array(
      select g #>> '{custom_host,host}'
      from jsonb_array_elements(p_reports) g
      where g #>> '{custom_host,host}' is not null
    ))
  order by h.host
  for update;

  for v in
    select g.*, c as deployment, n as revision
    from rows from (
      jsonb_to_recordset(p_reports) as (
        deployment_id uuid, revision_id uuid, generation integer, state text, message text, commit jsonb,
        image_uri text, url text, healthy boolean, last_request_at timestamptz, application_version text,
        build_plan json, health jsonb, incidents jsonb, local_url text, awaits_database boolean, traffic json,
        custom_host jsonb
      )
    ) with ordinality g(
      deployment_id, revision_id, generation, state, message, commit, image_uri, url, healthy, last_request_at,
      application_version, build_plan, health, incidents, local_url, awaits_database, traffic, custom_host, place
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
      v_events := v_events || follow_custom_host(d, v.custom_host);
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
end $$;

-- Renews the lease with a fence, and acquires it under the next fence without one. Not journaled: it is a heartbeat.
-- The policy is stored with the poll that acquires the lease. An agent without a policy has none.
create function acquire_lease(
  p_agent text,
  p_fence bigint,
  p_version text,
  p_templates text[],
  p_descriptions json,
  p_verified_hosts_only boolean,
  p_policy json
) returns listeners
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_listener listeners;
begin
  select l.* into v_listener from listeners l where l.id = current_listener() for no key update;
  if p_fence is null then
    if v_listener.agent_id is distinct from p_agent and v_listener.lease_expires_at > clock() then
      perform refuse(
        'lease_held',
        greatest(1, ceil(extract(epoch from v_listener.lease_expires_at - clock())))::integer::text
      );
    end if;
  elsif (v_listener.fence, v_listener.agent_id) is distinct from (p_fence, p_agent) then
    perform refuse('fence_stale');
  end if;
  update listeners l
  set
    fence = l.fence + (p_fence is null)::integer,
    agent_id = p_agent,
    agent_version = coalesce(p_version, l.agent_version),
    templates = coalesce(p_templates, l.templates),
    template_descriptions = coalesce(p_descriptions, l.template_descriptions),
    verified_hosts_only = p_verified_hosts_only,
    policy = case when p_fence is null then p_policy else l.policy end,
    last_seen_at = clock(),
    lease_expires_at = clock() + interval '60 seconds'
  where l.id = v_listener.id
  returning l.* into v_listener;
  return v_listener;
end $$;

-- An agent that protects none would serve it to everyone.
create function may_serve(p_listener listeners, p_protection json) returns boolean
language sql immutable
return p_protection ->> 'mode' is distinct from 'members'
  or coalesce(p_listener.policy::jsonb -> 'features' @> '"protection"', false);

-- A deployment without a listener goes to the first listener of the platform that polls. Not journaled.
create function adopt_deployments(p_listener listeners) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  if p_listener.tenant_id is not null then return; end if;
  update deployments d
  set listener_id = p_listener.id
  where d.id in (
    select c.id
    from deployments c
    where c.listener_id is null
      and may_serve(p_listener, c.protection)
    order by c.id
    limit 100
    for update skip locked
  );
end $$;

-- The number of the listener's latest change: a poll that waits calls this again and again. Renews no lease.
create function latest_change(p_agent text, p_fence bigint) returns bigint
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_listener listeners;
begin
  select l.* into v_listener from listeners l where l.id = current_listener();
  if (v_listener.fence, v_listener.agent_id) is distinct from (p_fence, p_agent) then
    perform refuse('fence_stale');
  end if;
  perform adopt_deployments(v_listener);
  return coalesce((select c.seq from sync_cursors c where c.listener_id = v_listener.id), 0);
end $$;

-- A page of work behind the agent's cursor, as `StoredWork` of src/hosting/sync/work.ts, and whether the agent has to
-- start over: its cursor or its digest is not the listener's. Each revision whose secrets go out has an event. The page
-- is one statement: a function for each revision would check the policies of its rows anew. Its plan is kept, because
-- planning it takes longer than running it.
create function read_changes(
  p_listener listeners, p_cursor bigint, p_digest text, p_page_size integer, p_daily_limit bigint
) returns table (latest bigint, digest text, resync boolean, more boolean, changes json)
language plpgsql set plan_cache_mode = force_generic_plan as $$
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
          'request_logs', d.request_logs,
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
end $$;
