-- Who acts, for an event: the person that another system names, the listener of an agent, or the description of a key.
create function event_actor_name() returns text
language sql stable security definer set search_path = public, pg_temp as $$
  select coalesce(
    setting('actor_name'),
    (select l.compute_id from listeners l where l.id = current_listener()),
    (select a.description from api_keys a where a.id = current_actor())
  )
$$;
--> statement-breakpoint
grant create on schema public to slipway_system;
alter function event_actor_name() owner to slipway_system;
revoke create on schema public from slipway_system;
--> statement-breakpoint
set local role slipway_system;
revoke execute on function event_actor_name() from public;
grant execute on function event_actor_name() to slipway_app, slipway_agent;
reset role;
--> statement-breakpoint

alter table events
  add column request json,
  add column changes json,
  add column part_of bigint;
--> statement-breakpoint
-- The defaults apply to new rows only, and to those that the previous release writes.
alter table events
  alter column actor_name set default event_actor_name(),
  alter column request set default setting('request')::json;
--> statement-breakpoint

create function event_value(p_value jsonb) returns jsonb
language sql immutable
return case
  when octet_length(p_value::text) <= 8192 then p_value
  when p_value is not null then jsonb_build_object('omitted_bytes', octet_length(p_value::text))
end;
--> statement-breakpoint
-- What changed between two descriptions of a resource, as a list of path, before and after, or null. Members of nested
-- objects are compared one by one, one level down. A null description is a resource that does not exist, and a member
-- without a value does not count as changed. A value over 8 KiB is left out, with its size.
create function changed_members(p_before jsonb, p_after jsonb) returns json
language sql immutable as $$
  with members as (
    select m.side, m.path || coalesce('.' || n.key, '') as path, coalesce(n.value, m.value) as value
    from (
      select 'before' as side, key as path, value from jsonb_each(p_before)
      union all
      select 'after', key, value from jsonb_each(p_after)
    ) m
    left join lateral jsonb_each(case when jsonb_typeof(m.value) = 'object' then m.value else '{}' end) n on true
    where coalesce(n.value, m.value) not in ('null', '{}')
  ),
  compared as (
    select path,
      (array_agg(value) filter (where side = 'before'))[1] as before,
      (array_agg(value) filter (where side = 'after'))[1] as after
    from members
    group by path
  )
  select json_agg(
    json_build_object('path', path, 'before', event_value(before), 'after', event_value(after)) order by path
  )
  from compared
  where before is distinct from after
$$;
--> statement-breakpoint
-- The versions of secrets by their names, from the list that a deployment stores.
create function secret_versions(p_secrets json) returns jsonb
language sql immutable
return (select jsonb_object_agg(s ->> 'name', s -> 'version') from jsonb_array_elements(p_secrets::jsonb) s);
--> statement-breakpoint

-- The journal of a release that records changes. The function with five parameters is that of the previous one.
create function journal(
  p_types text[],
  p_subjects uuid[],
  p_data json[],
  p_changes json[],
  p_limit bigint,
  p_bytes bigint
) returns bigint
language plpgsql as $$
declare
  v_count integer := cardinality(p_subjects);
  v_seq bigint;
  v_today bigint;
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
    scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, request_id, data, changes,
    part_of
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
    setting('request_id'),
    data,
    changes,
    case when ordinal > 1 then v_seq - v_count + 1 end
  from unnest(p_types, p_subjects, p_data, p_changes)
    with ordinality as entry(type, subject_id, data, changes, ordinal);
  return v_seq;
end $$;
--> statement-breakpoint

-- Permissions to read the journal, and to have it sent to a URL. Nobody could do either before.
set local role slipway_system;
--> statement-breakpoint
update roles
set permissions = permissions || case id
  when '00000000-0000-4000-8000-000000000001' then '{events:read, webhooks:read, webhooks:manage}'::text[]
  when '00000000-0000-4000-8000-000000000004' then '{audit-logs:read, events:read, webhooks:read, webhooks:manage}'
  else '{events:read}'
end
where organization_id is null and id <> '00000000-0000-4000-8000-000000000005';
--> statement-breakpoint
insert into roles (id, scope, display_name, description, permissions) values (
  '00000000-0000-4000-8000-000000000006',
  'organization',
  'Auditor',
  'Reads the audit log of the organization and its workspaces, and nothing else.',
  '{organization:read, audit-logs:read}'
);
--> statement-breakpoint
reset role;
