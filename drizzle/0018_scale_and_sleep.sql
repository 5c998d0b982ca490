-- Custom SQL migration file, put your code below! ----> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
create or replace function follow_health()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  new.health := deployment_health(new);
  if tg_op = 'UPDATE' and new.health is not distinct from old.health then return new; end if;
  new.health_since := clock();
  -- To fall asleep and to wake is no fault, however often.
  if tg_op = 'UPDATE' and old.health in ('healthy', 'sleeping') and new.health in ('healthy', 'sleeping') then
    return new;
  end if;
  new.health_changes := (
    select json_agg(at order by place)
    from (
      select at, row_number() over () as place
      from (
        select clock()::text as at
        union all
        select json_array_elements_text(case when tg_op = 'UPDATE' then old.health_changes end)
      ) changes
      limit 6
    ) latest
  );
  return new;
end $function$;
create or replace function require_listener_allows_patch(p_deployment uuid, p_patch jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
declare
  v_clears_account boolean :=
    p_patch -> 'members' @> '[{"path": "source_config.resource_spec.service_account_name", "value": null}]';
begin
  if p_patch -> 'policy_needs' = '[]' and not v_clears_account then return true; end if;
  perform require_listener_allows(d.listener_id, needs.changed)
  from deployments d
  cross join lateral (
    select jsonb_agg(n.need) as changed
    from (
      select n.need
      from jsonb_array_elements(p_patch -> 'policy_needs') n(need)
      join jsonb_to_recordset(p_patch -> 'members') as m(path text, value jsonb)
        on m.path in (
          'source_config.resource_spec',
          'source_config.resource_spec.' || split_part(n.need ->> 'path', '.', 2),
          n.need ->> 'path'
        )
      cross join lateral (select n.need ->> 'path' like '%.serviceAccountToken' as is_token) t
      where case
        when t.is_token and v_clears_account then true
        -- A deployment with an account has its token anyway.
        when t.is_token and d.source_config -> 'resource_spec' ->> 'service_account_name' is not null then false
        -- The patch may send the one, and the deployment have the other.
        when n.need ->> 'value' in ('autoscaling', 'part_autoscaling')
          and not (p_patch -> 'members') @> jsonb_build_array(
            jsonb_build_object('path', 'source_config.' || replace(n.need ->> 'path', 'max_scale', 'min_scale'))
          )
          then m.value is distinct from (d.source_config #> string_to_array(n.need ->> 'path', '.'))::jsonb
            and m.value::text::integer > coalesce(
              (d.source_config #>> string_to_array(replace(n.need ->> 'path', 'max_scale', 'min_scale'), '.'))::integer,
              1
            )
        else m.value is distinct from (d.source_config #> (string_to_array(m.path, '.'))[2:])::jsonb
      end
      union all
      -- The volumes that stay have a token of the account that goes.
      select jsonb_build_object('path', t.path, 'needs', 'privileged')
      from list_token_volumes((d.source_config -> 'resource_spec' -> 'volumes')::jsonb) t(path)
      where v_clears_account
        and not exists (
          select
          from jsonb_to_recordset(p_patch -> 'members') as m(path text)
          where m.path = 'source_config.resource_spec.volumes'
        )
    ) n
  ) needs
  where d.id = p_deployment and d.tenant_id = current_tenant() and needs.changed is not null;
  return true;
end $function$;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
--> statement-breakpoint
--> batches
-- Written by hand. Copies that have not moved so far begin to once somebody writes another metric.
update deployments
set source_config = jsonb_set(source_config::jsonb, '{resource_spec,scale_metric}', '"fixed"')::json
where id in (
  select d.id
  from deployments d
  join listeners l on l.id = d.listener_id
  where l.policy ->> 'engine' in ('process', 'container')
    and (d.source_config #>> '{resource_spec,scale_metric}') is null
    and (d.source_config #>> '{resource_spec,max_scale}')::integer
      > greatest(1, coalesce((d.source_config #>> '{resource_spec,min_scale}')::integer, 1))
  limit 1000
);
