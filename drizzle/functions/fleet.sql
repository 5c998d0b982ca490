-- Fleet: listeners, deployments, queues and usage of an organization, or of the whole installation.

-- Deployments that are gone count in the usage of the days that had them. Those of a workspace that is deleted do not.
create function keep_deleted_deployments() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  insert into deleted_deployments (id, organization_id, tenant_id, created_at, deleted_at)
  select d.id, d.organization_id, d.tenant_id, d.created_at, coalesce(d.deleting_at, clock())
  from removed d
  where exists (select from workspaces w where w.id = d.tenant_id);
  return null;
end $$;
create trigger keep_deleted_deployments
  after delete on deployments
  referencing old table as removed
  for each statement execute function keep_deleted_deployments();

-- The organization of the caller without addresses. With those of the instance admins, null: all of them.
create function fleet_scope(p_admins text[]) returns uuid
language plpgsql stable as $$
begin
  if p_admins is null then return current_organization(); end if;
  perform require_instance_admin(p_admins);
  return null;
end $$;

create function fleet_statuses(p_tenant uuid) returns json
language sql stable as $$
  select coalesce(json_object_agg(status, count), '{}')
  from (
    select d.status, count(*) as count
    from deployments d
    where d.tenant_id = p_tenant
    group by d.status
  ) counted
$$;

-- Up to 10,000 of each queue are counted. A delivery of a git host is of no organization until it is processed. Each
-- branch runs only for its scope: a condition for both would read the rows of all organizations.
create function fleet_queues(p_organization uuid) returns json
language sql stable as $$
  with waiting (name, since) as (
    (
      select 'webhook_deliveries', q.next_attempt_at
      from webhook_deliveries q
      where p_organization is null and q.state = 'waiting'
      limit 10000
    )
    union all
    (
      select 'webhook_deliveries', q.next_attempt_at
      from workspaces w
      join webhooks h on h.tenant_id = w.id
      join webhook_deliveries q on q.webhook_id = h.id and q.state = 'waiting'
      where w.organization_id = p_organization
      limit 10000
    )
    union all
    (
      select 'githost_deliveries', q.next_attempt_at
      from githost_deliveries q
      where p_organization is null and q.state = 'waiting'
      limit 10000
    )
    union all
    (
      select 'preview_hooks', q.next_attempt_at
      from preview_hooks q
      where p_organization is null
      limit 10000
    )
    union all
    (
      select 'preview_hooks', q.next_attempt_at
      from preview_hooks q
      where q.organization_id = p_organization
      limit 10000
    )
    union all
    (
      select 'rule_evaluations', q.next_attempt_at
      from rule_evaluations q
      where p_organization is null and q.state = 'waiting'
      limit 10000
    )
    union all
    (
      select 'rule_evaluations', q.next_attempt_at
      from workspaces w
      join run_rules r on r.tenant_id = w.id
      join rule_evaluations q on q.rule_id = r.id and q.state = 'waiting'
      where w.organization_id = p_organization
      limit 10000
    )
    union all
    (
      select 'insight_jobs', q.created_at
      from insight_jobs q
      where p_organization is null and q.status in ('queued', 'running')
      limit 10000
    )
    union all
    (
      select 'insight_jobs', q.created_at
      from insight_jobs q
      where q.organization_id = p_organization and q.status in ('queued', 'running')
      limit 10000
    )
    union all
    (
      select 'revisions', q.status_since
      from revisions q
      where p_organization is null
        and q.status in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING')
      limit 10000
    )
    union all
    (
      select 'revisions', q.status_since
      from revisions q
      where q.organization_id = p_organization
        and q.status in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING')
      limit 10000
    )
  )
  select json_agg(
    json_build_object(
      'name', n.name,
      'waiting', (select count(*) from waiting w where w.name = n.name),
      'oldest_seconds', (
        select greatest(0, extract(epoch from clock() - min(w.since)))::bigint from waiting w where w.name = n.name
      )
    )
    order by n.place
  )
  from unnest(array[
    'revisions', 'webhook_deliveries', 'githost_deliveries', 'preview_hooks', 'rule_evaluations', 'insight_jobs'
  ]) with ordinality as n(name, place)
  where p_organization is null or n.name <> 'githost_deliveries'
$$;

-- The traces and bytes of a workspace since then. Each project is a range of the index.
create function fleet_traces(p_tenant uuid, p_since timestamptz) returns table (traces bigint, bytes bigint)
language sql stable as $$
  select coalesce(sum(m.roots), 0)::bigint, greatest(coalesce(sum(m.bytes), 0), 0)::bigint
  from projects p
  join session_minutes m on m.tenant_id = p.tenant_id and m.session_id = p.id and m.minute >= p_since
  where p.tenant_id = p_tenant
$$;

-- `p_traces`: traces are in this database. `p_silent` is how long after its last poll a listener counts as silent.
create function read_fleet(p_admins text[], p_silent interval, p_since timestamptz, p_traces boolean) returns json
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_organization uuid := fleet_scope(p_admins);
  v_tenants uuid[] := array(
    select w.id
    from workspaces w
    where v_organization is null
      or w.organization_id = v_organization and (current_tenant() is null or w.id = current_tenant())
  );
begin
  return json_build_object(
    'organizations', case when v_organization is null then (select count(*) from organizations) else 1 end,
    'workspaces', cardinality(v_tenants),
    'members', (select count(*) from members m where v_organization is null or m.organization_id = v_organization),
    'listeners', (
      select json_build_object(
        'total', count(*),
        'silent', count(*) filter (where coalesce(l.last_seen_at, l.created_at) <= clock() - p_silent)
      )
      from listeners l
      where v_organization is null or l.tenant_id = any(v_tenants)
    ),
    'agents', (
      select coalesce(json_agg(v order by v.listeners desc, v.version), '[]')
      from (
        select l.agent_version as version, count(*) as listeners
        from listeners l
        where v_organization is null or l.tenant_id = any(v_tenants)
        group by l.agent_version
        order by count(*) desc
        limit 100
      ) v
    ),
    'deployments', (
      select json_build_object(
        'total', coalesce(sum(s.count), 0),
        'unhealthy', coalesce(sum(s.unhealthy), 0),
        'not_reconciled', coalesce(sum(s.not_reconciled), 0),
        'by_status', coalesce(json_object_agg(s.status, s.count) filter (where s.status is not null), '{}')
      )
      from (
        select
          d.status,
          count(*) as count,
          count(*) filter (where d.healthy = false) as unhealthy,
          count(*) filter (where not d.remote_reconciled) as not_reconciled
        from deployments d
        where v_organization is null or d.tenant_id = any(v_tenants)
        group by d.status
      ) s
    ),
    'queues', fleet_queues(v_organization),
    'sweeps', (select coalesce(json_agg(to_json(s) order by s.name), '[]') from sweep_runs s),
    'applied', (select max(created_at) from drizzle.__drizzle_migrations),
    'storage', json_build_object(
      'archives_bytes', (
        select coalesce(sum(u.size), 0) from uploads u where v_organization is null or u.tenant_id = any(v_tenants)
      ),
      'attachments_bytes', (
        select coalesce(sum(o.bytes), 0)
        from example_objects o
        where v_organization is null or o.tenant_id = any(v_tenants)
      ),
      'database_bytes', case when v_organization is null then pg_database_size(current_database()) end
    ),
    'usage', (
      select json_build_object('traces', coalesce(sum(t.traces), 0), 'bytes', coalesce(sum(t.bytes), 0))
      from unnest(v_tenants) w(id)
      cross join lateral fleet_traces(w.id, p_since) t
      where p_traces
    )
  );
end $$;
grant execute on function read_fleet(text[], interval, timestamptz, boolean) to slipway_app;

create function read_fleet_organizations(
  p_admins text[], p_at timestamptz, p_id uuid, p_limit integer, p_offset integer
) returns setof json
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  perform require_instance_admin(p_admins);
  return query
  select json_build_object(
    'id', o.id,
    'display_name', o.display_name,
    'created_at', o.created_at::text,
    'workspaces', (select count(*) from workspaces w where w.organization_id = o.id),
    'members', (select count(*) from members m where m.organization_id = o.id),
    'listeners', (select count(*) from listeners l where l.organization_id = o.id),
    'deployments', (
      select count(*) from workspaces w join deployments d on d.tenant_id = w.id where w.organization_id = o.id
    )
  )
  from (
    select *
    from organizations a
    where p_id is null or (a.created_at, a.id) < (p_at, p_id)
    order by a.created_at desc, a.id desc
    limit p_limit
    offset p_offset
  ) o
  order by o.created_at desc, o.id desc;
end $$;
grant execute on function read_fleet_organizations(text[], timestamptz, uuid, integer, integer) to slipway_app;

create function read_fleet_workspaces(
  p_admins text[], p_since timestamptz, p_traces boolean, p_at timestamptz, p_id uuid, p_limit integer,
  p_offset integer
) returns setof json
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_organization uuid := fleet_scope(p_admins);
begin
  return query
  select json_build_object(
    'id', w.id,
    'display_name', w.display_name,
    'organization_id', w.organization_id,
    'organization_name', (select o.display_name from organizations o where o.id = w.organization_id),
    'created_at', w.created_at::text,
    'members', (select count(*) from workspace_members m where m.tenant_id = w.id),
    'listeners', (select count(*) from listeners l where l.tenant_id = w.id),
    'deployments', fleet_statuses(w.id),
    'storage_bytes', (select coalesce(sum(u.size), 0) from uploads u where u.tenant_id = w.id)
      + (select coalesce(sum(e.bytes), 0) from example_objects e where e.tenant_id = w.id),
    'usage', (select to_json(t) from fleet_traces(w.id, p_since) t where p_traces)
  )
  from (
    select *
    from workspaces a
    where (
        v_organization is null
        or a.organization_id = v_organization and (current_tenant() is null or a.id = current_tenant())
      )
      and (p_id is null or (a.created_at, a.id) < (p_at, p_id))
    order by a.created_at desc, a.id desc
    limit p_limit
    offset p_offset
  ) w
  order by w.created_at desc, w.id desc;
end $$;
grant execute on function
  read_fleet_workspaces(text[], timestamptz, boolean, timestamptz, uuid, integer, integer) to slipway_app;

-- The listeners of the platform belong to no workspace. An organization sees its own listeners alone.
create function read_fleet_listeners(
  p_admins text[], p_silent interval, p_at timestamptz, p_id uuid, p_limit integer, p_offset integer
) returns setof json
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_organization uuid := fleet_scope(p_admins);
begin
  return query
  select json_build_object(
    'id', l.id,
    'organization_id', l.organization_id,
    'organization_name', (select o.display_name from organizations o where o.id = l.organization_id),
    'workspace_id', l.tenant_id,
    'workspace_name', (select w.display_name from workspaces w where w.id = l.tenant_id),
    'compute_type', l.compute_type,
    'compute_id', l.compute_id,
    'agent_id', l.agent_id,
    'version', l.agent_version,
    'is_silent', coalesce(l.last_seen_at, l.created_at) <= clock() - p_silent,
    'last_seen_at', l.last_seen_at,
    'deployments', (select count(*) from deployments d where d.listener_id = l.id),
    'created_at', l.created_at::text
  )
  from (
    select *
    from listeners a
    where (
        v_organization is null
        or a.organization_id = v_organization and a.tenant_id = coalesce(current_tenant(), a.tenant_id)
      )
      and (p_id is null or (a.created_at, a.id) < (p_at, p_id))
    order by a.created_at desc, a.id desc
    limit p_limit
    offset p_offset
  ) l
  order by l.created_at desc, l.id desc;
end $$;
grant execute on function
  read_fleet_listeners(text[], interval, timestamptz, uuid, integer, integer) to slipway_app;

-- The usage of some workspaces after `p_after`, by their ids, with a row for each day. Instance admins read those of
-- all organizations, and people who manage their organization its own. `p_admins` are their addresses.
create function read_usage(
  p_admins text[], p_everywhere boolean, p_start date, p_end date, p_traces boolean, p_after uuid, p_limit integer
) returns table (
  organization_id uuid, organization_name text, workspace_id uuid, workspace_name text, day date, traces bigint,
  bytes bigint, deployments bigint
)
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_organization uuid;
begin
  if p_everywhere then
    perform require_instance_admin(p_admins);
  else
    v_organization := current_organization();
    if not 'organization:manage' = any(actor_permissions()) and not is_instance_admin(p_admins) then
      perform refuse('usage_forbidden');
    end if;
  end if;
  return query
  with chosen as materialized (
    select w.id, w.organization_id, w.display_name
    from workspaces w
    where (
        v_organization is null
        or w.organization_id = v_organization and (current_tenant() is null or w.id = current_tenant())
      )
      and (p_after is null or w.id > p_after)
    order by w.id
    limit p_limit
  ),
  traced as (
    select p.tenant_id, m.day, sum(m.traces)::bigint as traces, greatest(sum(m.bytes), 0)::bigint as bytes
    from chosen c
    join projects p on p.tenant_id = c.id
    -- Each project is a range of the index.
    cross join lateral (
      select (n.minute at time zone 'utc')::date as day, sum(n.roots) as traces, sum(n.bytes) as bytes
      from session_minutes n
      where n.tenant_id = p.tenant_id
        and n.session_id = p.id
        and n.minute >= p_start::timestamp at time zone 'utc'
        and n.minute < (p_end + 1)::timestamp at time zone 'utc'
      group by 1
    ) m
    where p_traces
    group by p.tenant_id, m.day
  ),
  -- The deployments that come and go on each day. Those that came before count on the first.
  moved as (
    select n.tenant_id, greatest((n.at at time zone 'utc')::date, p_start) as day, sum(n.change) as change
    from (
      select e.tenant_id, e.created_at as at, 1 as change
      from chosen c
      join deployments e on e.tenant_id = c.id
      union all
      select e.tenant_id, e.deleting_at, -1
      from chosen c
      join deployments e on e.tenant_id = c.id and e.deleting_at is not null
      union all
      select e.tenant_id, edge.at, edge.change
      from chosen c
      join deleted_deployments e
        on e.tenant_id = c.id and e.deleted_at >= p_start::timestamp at time zone 'utc'
      cross join lateral (values (e.created_at, 1), (e.deleted_at, -1)) edge(at, change)
    ) n
    group by 1, 2
  )
  select
    c.organization_id,
    o.display_name,
    c.id,
    c.display_name,
    d.day,
    case when p_traces then coalesce(t.traces, 0) end,
    case when p_traces and t.day is null then 0 else t.bytes end,
    sum(coalesce(n.change, 0)) over (partition by c.id order by d.day)::bigint
  from chosen c
  join organizations o on o.id = c.organization_id
  cross join lateral (select p_start + n as day from generate_series(0, p_end - p_start) n) d
  left join traced t on t.tenant_id = c.id and t.day = d.day
  left join moved n on n.tenant_id = c.id and n.day = d.day
  order by c.id, d.day;
end $$;
grant execute on function read_usage(text[], boolean, date, date, boolean, uuid, integer) to slipway_app;
