-- Custom SQL migration file, put your code below! ----> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
create or replace function list_resource_faults(p_resources jsonb, p_pairs jsonb)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select array(
    select format('source_config.resource_spec.%s must be at least %s', pair ->> 1, pair ->> 0)
    from jsonb_array_elements(p_pairs) pair
    -- Engines round to thousandths.
    where round((p_resources ->> (pair ->> 0))::numeric, 3) > round((p_resources ->> (pair ->> 1))::numeric, 3)
  ) || array(
    select format('source_config.resource_spec has two containers named %s', name)
    from jsonb_array_elements(
      coalesce(nullif(p_resources -> 'init_containers', 'null'), '[]')
      || coalesce(nullif(p_resources -> 'sidecars', 'null'), '[]')
    ) container
    cross join lateral (select container ->> 'name' as name) named
    where p_pairs is not null
    group by name
    having count(*) > 1
  ) || array(
    select format('source_config.resource_spec.%s has more than 100 items, with those of the disks that stay', name)
    from unnest('{volumes, volume_mounts}'::text[]) name
    where jsonb_array_length(coalesce(nullif(p_resources -> name, 'null'), '[]')) > 100
  ) || array(
    select 'source_config.resource_spec has more than 2 MiB, with the members that stay'
    where octet_length(p_resources::text) > 2097152
  )
$function$;
set local role slipway_system;
create or replace function read_fleet_listeners(p_admins text[], p_silent interval, p_at timestamp with time zone, p_id uuid, p_limit integer, p_offset bigint)
 RETURNS SETOF json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
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
end $function$;
reset role;
set local role slipway_system;
create or replace function read_fleet_organizations(p_admins text[], p_at timestamp with time zone, p_id uuid, p_limit integer, p_offset bigint)
 RETURNS SETOF json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
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
end $function$;
reset role;
set local role slipway_system;
create or replace function read_fleet_workspaces(p_admins text[], p_since timestamp with time zone, p_traces boolean, p_at timestamp with time zone, p_id uuid, p_limit integer, p_offset bigint)
 RETURNS SETOF json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
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
end $function$;
reset role;
create or replace function restored_config(p_stored jsonb, p_restored jsonb, p_kept text[])
 RETURNS jsonb
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
declare
  v_stored jsonb := coalesce(nullif(p_stored -> 'resource_spec', 'null'), '{}');
  v_restored jsonb := coalesce(nullif(p_restored -> 'resource_spec', 'null'), '{}');
  v_resources jsonb;
  v_faults text;
begin
  select jsonb_object_agg(key, value)
  into v_resources
  from (
    select m.key, m.value
    from jsonb_each(v_stored) m
    where m.key ~ '^(db|redis)_' or 'resource_spec.' || m.key = any(p_kept)
    union all
    select m.key, m.value
    from jsonb_each(v_restored) m
    where 'resource_spec.' || m.key <> all (p_kept)
      and not (starts_with(m.key, 'db_') and has_part(v_stored, 'db'))
      and not (starts_with(m.key, 'redis_') and has_part(v_stored, 'redis'))
      and m.key not in ('volumes', 'volume_mounts')
    union all
    select l.key, l.value
    from (
      values
        ('volumes', keep_disks(v_stored, coalesce(nullif(v_restored -> 'volumes', 'null'), '[]'))),
        ('volume_mounts', keep_disk_mounts(v_stored, coalesce(nullif(v_restored -> 'volume_mounts', 'null'), '[]')))
    ) l(key, value)
    where l.value <> '[]'
  ) members;
  v_faults := array_to_string(list_resource_faults(v_resources, '[]'), '; ');
  if v_faults <> '' then perform refuse('source_rule', v_faults); end if;
  return (p_restored - p_kept - 'resource_spec')
    || coalesce((select jsonb_object_agg(key, value) from jsonb_each(p_stored) where key = any(p_kept)), '{}')
    || case
      when v_resources is not null then jsonb_build_object('resource_spec', v_resources)
      -- A source that needs resources has them always, if only empty ones.
      when p_stored ? 'resource_spec' and p_restored ? 'resource_spec' then '{"resource_spec": {}}'
      else '{}'
    end;
end $function$;
set local role slipway_system;
revoke execute on function read_fleet_listeners(text[], interval, timestamp with time zone, uuid, integer, bigint) from public;
grant execute on function read_fleet_listeners(text[], interval, timestamp with time zone, uuid, integer, bigint) to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function read_fleet_organizations(text[], timestamp with time zone, uuid, integer, bigint) from public;
grant execute on function read_fleet_organizations(text[], timestamp with time zone, uuid, integer, bigint) to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function read_fleet_workspaces(text[], timestamp with time zone, boolean, timestamp with time zone, uuid, integer, bigint) from public;
grant execute on function read_fleet_workspaces(text[], timestamp with time zone, boolean, timestamp with time zone, uuid, integer, bigint) to slipway_app;
reset role;
set local role slipway_system;
drop function read_fleet_workspaces(text[], timestamp with time zone, boolean, timestamp with time zone, uuid, integer, integer);
reset role;
set local role slipway_system;
drop function read_fleet_organizations(text[], timestamp with time zone, uuid, integer, integer);
reset role;
set local role slipway_system;
drop function read_fleet_listeners(text[], interval, timestamp with time zone, uuid, integer, integer);
reset role;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
