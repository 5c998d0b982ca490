-- Terminals and forwarded ports: room for another one, and offers to agents.

-- Refuses a tunnel that the agent of the listener does not offer, or that is one too many. A workspace may have at most
-- as many at a listener as it leaves to others, so a few workspaces cannot use up all. Callers of a workspace take
-- turns. The listener may be the platform's, which the caller does not see.
create function require_tunnel_room(
  p_tenant uuid, p_listener uuid, p_features text[], p_tenant_limit integer, p_listener_limit integer
) returns boolean
language plpgsql volatile cost 20000 security definer
set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_listener listeners;
  v_missing text;
begin
  select l.* into v_listener from listeners l where l.id = p_listener;
  if not found or v_listener.lease_expires_at is null or v_listener.lease_expires_at <= clock() then
    perform refuse('agent_absent');
  end if;
  select f into v_missing
  from unnest(p_features) f
  where f not in (select json_array_elements_text(coalesce(v_listener.policy -> 'tunnels', '[]')));
  if found then perform refuse('tunnel_unsupported', v_missing); end if;
  perform pg_advisory_xact_lock(hashtextextended('tunnels of ' || p_tenant, 0));
  if (select count(*) from tunnels t where t.tenant_id = p_tenant and t.ended_at is null) >= p_tenant_limit
    or (
      select count(*) + count(*) filter (where t.tenant_id = p_tenant)
      from tunnels t
      where t.listener_id = p_listener and t.ended_at is null
    ) >= p_listener_limit
  then
    perform refuse('tunnels_full');
  end if;
  return true;
end $$;
grant execute on function require_tunnel_room(uuid, uuid, text[], integer, integer) to slipway_app;

-- True while the lease under which an agent has joined is its present one.
create function is_lease_held(p_listener uuid, p_fence bigint) returns boolean
language sql stable security definer set search_path = public, pg_temp
return exists (
  select from listeners l where l.id = p_listener and l.fence = p_fence and l.lease_expires_at > clock()
);
grant execute on function is_lease_held(uuid, bigint) to slipway_app;

-- A tunnel whose client waits for the agent. A poll names it again if the agent has not joined ten seconds later.
create function is_tunnel_waiting(p_tunnel tunnels) returns boolean
language sql stable
return p_tunnel.joined_at is not null
  and p_tunnel.opened_at is null
  and p_tunnel.ended_at is null
  and (p_tunnel.offered_at is null or p_tunnel.offered_at < clock() - interval '10 seconds');

-- The tunnels of the listener that wait, as `WaitingTunnel` of src/protocol/tunnels.schema.ts, marked as offered.
create function offer_tunnels(p_limit integer) returns json
language sql volatile set plan_cache_mode = force_generic_plan
begin atomic
  with offered as (
    update tunnels t set offered_at = clock()
    where t.id in (
      select w.id
      from tunnels w
      where w.listener_id = current_listener() and w.ended_at is null and is_tunnel_waiting(w)
      order by w.joined_at
      limit p_limit
    )
    returning t.id, t.deployment_id, t.revision_id, t.is_terminal, t.request, t.joined_at
  )
  select coalesce(
    json_agg(
      json_build_object(
        'id', o.id,
        'deployment_id', o.deployment_id,
        'revision_id', o.revision_id,
        'terminal', case when o.is_terminal then o.request end,
        'forward', case when not o.is_terminal then o.request end
      )
      order by o.joined_at
    ),
    '[]'
  )
  from offered o;
end;
