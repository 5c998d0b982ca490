-- Repositories by SSH that agents look at: the sweep gives each a listener, a poll offers what is due, and the report
-- of the agent comes by src/hosting/sync/repository-looks.ts.

-- A poll that waits calls this again and again.
create function has_due_look() returns boolean
language sql stable security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan
begin atomic
  select exists (
    select
    from followed_repositories f
    where f.listener_id = current_listener() and f.look_at <= clock()
  );
end;
grant execute on function has_due_look() to slipway_agent;

-- The looks that are due, as `StoredLook` of src/hosting/sync/repository-looks.ts. The agent has two minutes for each:
-- then it is due again. The deploy key goes with it, so each lease that gets it has an event.
create function offer_looks(p_listener listeners, p_limit integer, p_daily_limit bigint) returns json
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_looks json;
  v_events tenant_event[];
begin
  -- Most listeners have none.
  if not has_due_look() then return '[]'; end if;
  with due as (
    select
      f.id,
      f.look_fence,
      -- The key of a repository goes only to an agent that builds it.
      i.state = 'active' and i.ssh is not null and exists (
        select
        from deployments d
        where d.repo_key = f.repo_key
          and d.tenant_id = f.tenant_id
          and d.listener_id = p_listener.id
          and d.source_config ->> 'integration_id' = f.integration_id::text
          and d.deleting_at is null
      ) as is_offered
    from followed_repositories f
    join integrations i on i.id = f.integration_id
    where f.listener_id = p_listener.id and f.look_at <= clock()
    order by f.look_at
    limit p_limit
    for update of f skip locked
  ),
  claimed as (
    update followed_repositories f
    set
      -- One that is not offered is no more due either: polls would not wait for anything else.
      look_at = clock() + interval '2 minutes',
      look_started_at = case when due.is_offered then clock() else f.look_started_at end,
      look_fence = case when due.is_offered then p_listener.fence else f.look_fence end
    from due
    where f.id = due.id
    returning
      f.id, f.seen, f.integration_id, due.is_offered, due.look_fence is distinct from p_listener.fence as is_new
  )
  select
    coalesce(json_agg(json_build_object(
      'id', c.id,
      'digest', c.seen ->> 'digest',
      'integration', to_json(i)
    )), '[]'),
    array_agg((
      i.tenant_id,
      i.organization_id,
      'integration.key_revealed',
      i.id,
      json_build_object('fence', p_listener.fence),
      null
    )::tenant_event) filter (where c.is_new)
  into v_looks, v_events
  from claimed c
  join integrations i on i.id = c.integration_id
  where c.is_offered;
  if v_events is not null then
    perform journal_tenant_events(v_events, case when p_listener.tenant_id is not null then p_daily_limit end);
  end if;
  return v_looks;
end $$;
grant execute on function offer_looks(listeners, integer, bigint) to slipway_agent;

-- Returns the repository of a look and its integration. Null where another listener has it, or nothing follows the
-- repository any more.
create function read_look(p_agent text, p_fence bigint, p_id uuid) returns json
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_listener listeners := require_lease(p_agent, p_fence);
begin
  return (
    select json_build_object('listener_id', v_listener.id, 'repository', to_json(f), 'integration', to_json(i))
    from followed_repositories f
    join integrations i on i.id = f.integration_id
    where f.id = p_id and f.listener_id = v_listener.id and i.ssh is not null
  );
end $$;
grant execute on function read_look(text, bigint, uuid) to slipway_agent;
