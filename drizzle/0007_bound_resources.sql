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
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
