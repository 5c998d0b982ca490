-- Polls of agents, as functions: the lease, the work that changed since the agent's cursor, and what the agent is shown
-- of secrets.

-- ------------------------------------------------------------ Leases
-- With a fence renews the lease, without one acquires it under the next fence. Not journaled: it is a heartbeat.
create function acquire_lease(
  p_agent text, p_fence bigint, p_version text, p_templates text[], p_descriptions json, p_verified_hosts_only boolean
) returns listeners
language plpgsql as $$
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
    last_seen_at = clock(),
    lease_expires_at = clock() + interval '60 seconds'
  where l.id = v_listener.id
  returning l.* into v_listener;
  return v_listener;
end $$;
--> statement-breakpoint
-- A deployment without a listener goes to the first listener of the platform that polls. Not journaled.
create function adopt_deployments(p_listener listeners) returns void
language plpgsql as $$
begin
  if p_listener.tenant_id is not null then return; end if;
  update deployments d
  set listener_id = p_listener.id
  where d.id in (
    select c.id
    from deployments c
    where c.listener_id is null
    order by c.id
    limit 100
    for update skip locked
  );
end $$;
--> statement-breakpoint
-- The number of the listener's latest change: a poll that waits calls this again and again. Renews no lease.
create function latest_change(p_agent text, p_fence bigint) returns bigint
language plpgsql as $$
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
--> statement-breakpoint

-- ------------------------------------------------------------ Work
-- A page of work behind the agent's cursor, as `StoredWork` of src/sync/work.ts, and whether the agent has to start
-- over: its cursor or its digest is not the listener's. Each revision whose secrets go out has an event.
-- The page is one statement: a function for each revision would check the policies of its rows anew. Its plan is kept,
-- because planning it takes longer than running it.
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
  -- Last, because it locks cursors. What it adopts is a change for the next poll.
  perform adopt_deployments(p_listener);
  return next;
end $$;
--> statement-breakpoint
alter function apply_reports(text, bigint, jsonb, bigint, interval) set plan_cache_mode = force_generic_plan;
