-- Custom SQL migration file, put your code below! ----> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
create or replace function journal(
  p_types text[], p_subjects uuid[], p_data json[], p_changes json[], p_limit bigint, p_bytes bigint
)
 RETURNS bigint
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_count integer := cardinality(p_subjects);
  v_seq bigint;
  v_today bigint;
  v_actor_name text := event_actor_name();
begin
  insert into journals (scope_id, organization_id, seq, day, today)
  values (current_scope(), current_organization(), v_count, journal_day(), v_count + p_bytes / 4096)
  on conflict (scope_id) do update set
    seq = journals.seq + excluded.seq,
    day = excluded.day,
    today = excluded.today + case when journals.day = excluded.day then journals.today else 0 end
  returning seq, today into v_seq, v_today;
  perform require_journal_room(v_today, p_limit);
  insert into events (
    scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, actor_name, request_id, data,
    changes, part_of
  )
  select
    current_scope(),
    v_seq - v_count + ordinal,
    current_organization(),
    current_tenant(),
    type,
    subject_id,
    setting('actor_kind'),
    current_actor(),
    v_actor_name,
    setting('request_id'),
    data,
    changes,
    case when ordinal > 1 then v_seq - v_count + 1 end
  from unnest(p_types, p_subjects, p_data, p_changes)
    with ordinality as entry(type, subject_id, data, changes, ordinal);
  return v_seq;
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
          'source_config.resource_spec', 'source_config.resource_spec.' || split_part(n.need ->> 'path', '.', 2)
        )
      cross join lateral (select n.need ->> 'path' like '%.serviceAccountToken' as is_token) t
      where case
        when t.is_token and v_clears_account then true
        -- A deployment with an account has its token anyway.
        when t.is_token and d.source_config -> 'resource_spec' ->> 'service_account_name' is not null then false
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
