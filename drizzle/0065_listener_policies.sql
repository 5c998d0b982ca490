-- The policy of the agent, a `ListenerPolicy` of src/protocol/listener-policy.ts. Null until an agent has sent one.
alter table listeners add column policy json;
--> statement-breakpoint
grant update (policy) on listeners to slipway_agent;
--> statement-breakpoint
-- The policy comes with the poll that acquires the lease, and is that of its agent: one without a policy has none.
create function acquire_lease(
  p_agent text,
  p_fence bigint,
  p_version text,
  p_templates text[],
  p_descriptions json,
  p_verified_hosts_only boolean,
  p_policy json
) returns listeners
language plpgsql as $$
declare
  v_listener listeners;
begin
  v_listener := acquire_lease(p_agent, p_fence, p_version, p_templates, p_descriptions, p_verified_hosts_only);
  if p_fence is null then
    update listeners l set policy = p_policy where l.id = v_listener.id returning l.* into v_listener;
  end if;
  return v_listener;
end $$;
--> statement-breakpoint
-- Refuses needs that no eligible listener allows: the named one, or those of the platform. A listener whose agent has
-- sent no policy decides by itself. `p_needs` are `PolicyNeed` of src/protocol/listener-policy.ts.
-- isAllowed() there decides the same.
create function require_listener_allows(p_listener uuid, p_needs jsonb) returns boolean
language plpgsql stable cost 10000 as $$
declare
  v_refused text;
begin
  with possible as (
    select l.policy::jsonb as policy
    from listeners l
    where (l.id = p_listener and (l.tenant_id = current_tenant() or l.tenant_id is null))
      or (p_listener is null and l.tenant_id is null)
  ),
  most as (
    select max((p.policy ->> 'max_copies')::integer) as copies from possible p
  )
  select string_agg(
    case n.needs when 'copies' then format('%s (at most %s)', n.path, m.copies) else n.path end,
    ', '
    order by n.place
  )
  into v_refused
  from rows from (
    jsonb_to_recordset(p_needs) as (path text, needs text, value jsonb)
  ) with ordinality n(path, needs, value, place)
  cross join most m
  where exists (select from possible)
    and not exists (
      select
      from possible p
      where p.policy is null
        or case n.needs
          when 'privileged' then (p.policy ->> 'privileged')::boolean
          when 'service_account' then p.policy -> 'service_accounts' @> n.value
          when 'copies' then coalesce(n.value::integer <= (p.policy ->> 'max_copies')::integer, true)
        end
    );
  if v_refused is not null then perform refuse('not_allowed_by_listener', v_refused); end if;
  return true;
end $$;
--> statement-breakpoint
-- The same for a patch, as `describePatch` of src/deployments/patch.ts sends it, if it changes the resources.
create function require_listener_allows_patch(p_deployment uuid, p_patch jsonb) returns boolean
language plpgsql stable cost 10000 as $$
begin
  perform require_listener_allows(d.listener_id, p_patch -> 'policy_needs')
  from deployments d
  cross join jsonb_to_recordset(p_patch -> 'members') as m(path text, value jsonb)
  where d.id = p_deployment and d.tenant_id = current_tenant()
    and m.path = 'source_config.resource_spec'
    and m.value is distinct from (d.source_config -> 'resource_spec')::jsonb;
  return true;
end $$;
