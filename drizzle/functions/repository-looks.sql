-- Repositories by SSH that agents look at: the sweep gives each a listener, a poll offers what is due, and the report
-- of the agent comes by src/hosting/sync/repository-looks.ts.

-- An agent has a look under the lease `p_fence`, and has not reported it. It has two minutes for each.
create function is_looking(f followed_repositories, p_fence bigint) returns boolean
language sql stable
return coalesce(
  f.look_fence = p_fence
    and f.look_started_at > clock() - interval '2 minutes'
    and (f.seen_at is null or f.seen_at < f.look_started_at),
  false
);

-- The looks that may begin now, the oldest first. One that is in progress stays due: the agent may have read the refs
-- before they changed. On a listener of the platform a workspace has at most two in progress, because hosts can stall.
create function due_looks(p_listener uuid, p_limit integer) returns setof uuid
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
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
end $$;

-- A poll that waits calls this again and again.
create function has_due_look() returns boolean
language sql stable security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan
begin atomic
  select exists (select from due_looks(current_listener(), 1));
end;
grant execute on function has_due_look() to slipway_agent;

-- The looks that are due, as `StoredLook` of src/hosting/sync/repository-looks.ts. The deploy key goes with each, so
-- each lease that gets it has an event.
create function offer_looks(p_listener listeners, p_limit integer, p_daily_limit bigint) returns json
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
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
end $$;
grant execute on function offer_looks(listeners, integer, bigint) to slipway_agent;

-- Returns the repository of a look and its integration. Null where another listener has it, nothing follows the
-- repository any more, or the look was reported before: an agent causes as many events as it got looks.
create function read_look(p_agent text, p_fence bigint, p_id uuid) returns json
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
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
end $$;
grant execute on function read_look(text, bigint, uuid) to slipway_agent;
