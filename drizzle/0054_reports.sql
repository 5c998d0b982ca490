-- Reports of agents, as a function that checks each of them, moves revisions through their queue, and writes what
-- follows for their deployments. What it shares with an interruption and with overdue deadlines comes first.

-- ------------------------------------------------------------ Events of several workspaces
create type tenant_event as (
  tenant_id uuid, organization_id uuid, type text, subject_id uuid, data json, changes json
);
--> statement-breakpoint
-- Writes events into the journals of their workspaces, in the order of the list. An agent acts as its listener;
-- otherwise the schedule acts. A null limit is none.
create function journal_tenant_events(p_events tenant_event[], p_daily_limit bigint) returns void
language plpgsql as $$
declare
  v_name text;
begin
  if cardinality(p_events) = 0 then return; end if;
  v_name := event_actor_name();
  -- In the order of the ids, so that two writers cannot deadlock.
  with numbered as (
    insert into journals (scope_id, organization_id, seq, day, today)
    select e.tenant_id, e.organization_id, count(*), journal_day(), count(*)
    from unnest(p_events) e
    group by e.tenant_id, e.organization_id
    order by e.tenant_id
    on conflict (scope_id) do update set
      seq = journals.seq + excluded.seq,
      day = excluded.day,
      today = excluded.today + case when journals.day = excluded.day then journals.today else 0 end
    returning scope_id, seq, today
  ),
  placed as (
    select
      e.*,
      row_number() over (partition by e.tenant_id order by e.ordinal) as place,
      count(*) over (partition by e.tenant_id) as count
    from unnest(p_events) with ordinality
      e(tenant_id, organization_id, type, subject_id, data, changes, ordinal)
  )
  insert into events (
    scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, actor_name, request_id, data,
    changes, part_of
  )
  select
    p.tenant_id,
    n.seq - p.count + p.place,
    p.organization_id,
    p.tenant_id,
    p.type,
    p.subject_id,
    case when current_listener() is null then 'cron' else 'listener' end,
    current_listener(),
    v_name,
    setting('request_id'),
    p.data,
    p.changes,
    case when p.place > 1 and setting('request') is not null then n.seq - p.count + 1 end
  from placed p
  join numbered n on n.scope_id = p.tenant_id
  where require_journal_room(n.today, p_daily_limit);
end $$;
--> statement-breakpoint

-- ------------------------------------------------------------ A revision that moves
-- Whether a revision of this status is in flight or waits: `inFlightStates` and `waitingStates` of
-- src/deployments/lifecycle.ts.
create function is_in_queue(p_status text) returns boolean
language sql immutable
return p_status in ('CREATING', 'QUEUED', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING');
--> statement-breakpoint
create function revision_moved(p_before revisions, p_after revisions, p_data json) returns tenant_event
language plpgsql stable as $$
begin
  return (
    p_after.tenant_id,
    p_after.organization_id,
    'revision.' || lower(p_after.status),
    p_after.id,
    p_data,
    changed_members(
      jsonb_build_object(
        'source_revision_config', p_before.source_revision_config,
        'status', p_before.status,
        'status_message', p_before.status_message,
        'commit', p_before.commit
      ),
      jsonb_build_object(
        'source_revision_config', p_after.source_revision_config,
        'status', p_after.status,
        'status_message', p_after.status_message,
        'commit', p_after.commit
      )
    )
  )::tenant_event;
end $$;
--> statement-breakpoint
-- What a deployment comes to when a revision of it moves: who is in flight, who serves. It also starts the revision
-- whose turn comes. The caller has locked the deployment. It writes the rows by write_moved_revisions(), the events,
-- and write_moved_deployments(), in this order: the last one locks cursors, and a journal comes before them.
create function follow_revision(d deployments, p_before revisions, p_after revisions) returns deployments
language plpgsql as $$
declare
  v_in_flight uuid := d.in_flight_revision_id;
  v_commit text := p_after.source_revision_config ->> 'repo_commit_sha';
  v_serving integer;
begin
  if not is_in_queue(p_after.status) then
    d.in_flight_revision_id := nullif(d.in_flight_revision_id, p_after.id);
    d.waiting_revision_id := nullif(d.waiting_revision_id, p_after.id);
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
end $$;
--> statement-breakpoint
-- The events of what a deployment comes to: a turn that is taken, another revision that serves, its status and its URL.
create function deployment_events(p_before deployments, p_after deployments) returns tenant_event[]
language plpgsql stable as $$
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
  return v_events;
end $$;
--> statement-breakpoint
create function write_moved_revisions(p_revisions revisions[]) returns void
language plpgsql as $$
begin
  if cardinality(p_revisions) = 0 then return; end if;
  update revisions r
  set
    status = n.status,
    status_message = n.status_message,
    status_since = case when r.status = n.status then r.status_since else clock() end,
    updated_at = clock(),
    source_revision_config = n.source_revision_config,
    commit = n.commit
  from unnest(p_revisions) n
  where r.id = n.id and r.deployment_id = n.deployment_id;
end $$;
--> statement-breakpoint
-- The version follows what clients see.
create function write_moved_deployments(p_deployments deployments[]) returns void
language plpgsql as $$
begin
  update deployments d
  set
    in_flight_revision_id = n.in_flight_revision_id,
    waiting_revision_id = n.waiting_revision_id,
    active_revision_id = n.active_revision_id,
    source_revision_config = n.source_revision_config,
    generation = n.generation,
    acknowledged = n.acknowledged,
    remote_reconciled = n.acknowledged >= n.generation,
    status = n.status,
    url = n.url,
    healthy = n.healthy,
    last_request_at = n.last_request_at,
    version = d.version + (
      (n.active_revision_id, n.status, n.url, n.source_revision_config::text)
        is distinct from (d.active_revision_id, d.status, d.url, d.source_revision_config::text)
    )::integer,
    updated_at = n.updated_at
  from unnest(p_deployments) n
  where d.id = n.id and d.tenant_id = n.tenant_id;
end $$;
--> statement-breakpoint

-- ------------------------------------------------------------ Reports of agents
-- The lease of the caller's listener, locked: no later lease begins before the transaction ends.
create function require_lease(p_agent text, p_fence bigint) returns listeners
language plpgsql as $$
declare
  v_listener listeners;
begin
  select l.* into v_listener from listeners l where l.id = current_listener() for share;
  if v_listener.fence = p_fence and v_listener.agent_id = p_agent then return v_listener; end if;
  perform refuse('fence_stale');
end $$;
--> statement-breakpoint
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
--> statement-breakpoint
-- Why a report is not valid, or null. Without the deployment, `p_was_served` says whether the listener served it.
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
--> statement-breakpoint
create function image_name(p_image text) returns text
language sql immutable
return regexp_replace(regexp_replace(p_image, '(:[^/:@]*)?(@.*)?$', ''), '^(docker[.]io/)?(library/)?', '');
--> statement-breakpoint
-- What a report resolves of a revision's configuration: its ref to a commit, its tag to a digest. For sources whose
-- image the user names (`IMAGE_SOURCES` of src/deployments/registry-credentials.ts), another image is ignored: it would
-- allow the agent to pull that one.
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
--> statement-breakpoint
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
--> statement-breakpoint
-- An event for each step of a revision. What the report tells of the revision comes with the last one.
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
--> statement-breakpoint
-- At most one report for each deployment. A row for each report, in their order: its code, the wanted generation after
-- it, and the workspace if events are to be sent to webhooks. Agents of the platform have no daily limit: one full
-- workspace would stop them for all workspaces.
create function apply_reports(
  p_agent text, p_fence bigint, p_reports jsonb, p_daily_limit bigint, p_unused_after interval
) returns table (deployment_id uuid, revision_id uuid, code text, generation integer, hooked_tenant uuid)
language plpgsql as $$
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
        image_uri text, url text, healthy boolean, last_request_at timestamptz
      )
    ) with ordinality g(
      deployment_id, revision_id, generation, state, message, commit, image_uri, url, healthy, last_request_at, place
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
        v_next.status := coalesce(v_path[cardinality(v_path)], r.status);
        v_events := v_events || step_events(
          r, v_next, v_path, case v.state when 'failed' then v.message end, v.commit ->> 'sha'
        );
        v_revisions := v_revisions || v_next;
        d := follow_revision(d, r, v_next);
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
end $$;
