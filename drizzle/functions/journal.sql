-- The journal: events, the changes that they record, and their hash chain.

create type new_event as (type text, subject_id uuid, data json, changes json);

create type tenant_event as (
  tenant_id uuid, organization_id uuid, type text, subject_id uuid, data json, changes json
);

create function journal_day() returns date
language sql stable
return (clock() at time zone 'UTC')::date;

-- Null is no limit.
create function require_journal_room(p_today bigint, p_limit bigint) returns boolean
language plpgsql stable as $$
begin
  if p_today > p_limit then
    perform refuse(
      'journal_full',
      ceil(extract(epoch from (journal_day() + 1)::timestamp - (clock() at time zone 'UTC')))::text
    );
  end if;
  return true;
end $$;

-- Writes events into the caller's journal, numbered in their order, while the day is within the limit. Stored bytes
-- count too, 4 KiB as one event: otherwise changes of a mebibyte each would fill the disk. It is a function,
-- because Postgres caches its plans: inline in every change it was a third of the cost of a patch in the database.
create function journal(
  p_types text[],
  p_subjects uuid[],
  p_data json[],
  p_changes json[],
  p_limit bigint,
  p_bytes bigint
) returns bigint
language plpgsql set plan_cache_mode = force_generic_plan as $$
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
end $$;

-- The name of the actor of an event: the person that another system names, the listener of an agent, or the description
-- of a key.
create function event_actor_name() returns text
language sql stable security definer set search_path = public, pg_temp as $$
  select coalesce(
    setting('actor_name'),
    (select l.compute_id from listeners l where l.id = current_listener()),
    (select a.description from api_keys a where a.id = current_actor())
  )
$$;
grant execute on function event_actor_name() to slipway_agent, slipway_app;

-- It is stable, as its cast to text is, or it would not be inlined.
create function event_value(p_value jsonb) returns jsonb
language sql stable
return case
  when octet_length(p_value::text) <= 8192 then p_value
  when p_value is not null then jsonb_build_object('omitted_bytes', octet_length(p_value::text))
end;

-- A change of a member, in the text of json_build_object(). It is stable, as to_json() is, or it would not be inlined.
create function member_change(p_path text, p_before jsonb, p_after jsonb) returns text
language sql stable
return concat(
  '{"path" : ', to_json(p_path),
  ', "before" : ', coalesce(event_value(p_before)::text, 'null'),
  ', "after" : ', coalesce(event_value(p_after)::text, 'null'), '}'
);

-- Lists the differences of two descriptions of a resource, each with its path, before and after; null if there is none.
-- Members of nested objects are compared one by one, one level down. A null description is a resource that does not
-- exist, and a member without a value does not count as changed. A value over 8 KiB is left out, with its size. It is a
-- loop, because every write calls it: to compare members in variables costs a fraction of a statement.
create function changed_members(p_before jsonb, p_after jsonb) returns json
language plpgsql immutable as $$
declare
  v_key text;
  v_name text;
  v_before jsonb;
  v_after jsonb;
  v_one jsonb;
  v_other jsonb;
  v_paths text[] := '{}';
  v_changes text[] := '{}';
begin
  for v_key in select jsonb_object_keys(coalesce(p_before, '{}') || coalesce(p_after, '{}')) loop
    v_before := p_before -> v_key;
    v_after := p_after -> v_key;
    -- Most members are equal as they are.
    continue when v_before is not distinct from v_after;
    v_before := nullif(nullif(v_before, 'null'), '{}');
    v_after := nullif(nullif(v_after, 'null'), '{}');
    continue when v_before is not distinct from v_after;
    if jsonb_typeof(v_before) <> 'object' or jsonb_typeof(v_after) <> 'object' then
      v_paths := v_paths || v_key;
      v_changes := v_changes || member_change(v_key, v_before, v_after);
      continue;
    end if;
    for v_name in select jsonb_object_keys(coalesce(v_before, '{}') || coalesce(v_after, '{}')) loop
      v_one := nullif(nullif(v_before -> v_name, 'null'), '{}');
      v_other := nullif(nullif(v_after -> v_name, 'null'), '{}');
      continue when v_one is not distinct from v_other;
      v_paths := v_paths || concat(v_key, '.', v_name);
      v_changes := v_changes || member_change(concat(v_key, '.', v_name), v_one, v_other);
    end loop;
  end loop;
  if cardinality(v_paths) < 2 then return '[' || v_changes[1] || ']'; end if;
  return (
    select concat('[', string_agg(c.change, ', ' order by c.path), ']')
    from unnest(v_paths, v_changes) c(path, change)
  );
end $$;

-- The versions of secrets by their names, from the list that a deployment stores.
create function secret_versions(p_secrets json) returns jsonb
language plpgsql immutable strict as $$
begin
  return (select jsonb_object_agg(s ->> 'name', s -> 'version') from json_array_elements(p_secrets) s);
end $$;

-- Chains an event to the one before. It is a trigger, so that no writer can leave the hash out. The row of the journal
-- is locked by every writer, so events of a journal are inserted one after the other, and this reads the one before:
-- the newest that is committed, or one of the same statement. The array's text is unambiguous, and
-- src/people/audit/hash-chain.ts computes the same.
create function chain_event() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_previous text;
begin
  select e.hash
  into v_previous
  from events e
  where e.scope_id = new.scope_id and e.seq = new.seq - 1;
  if not found then
    select c.hash
    into v_previous
    from journal_checkpoints c
    where c.scope_id = new.scope_id and c.seq = new.seq - 1;
  end if;
  new.hash := encode(
    sha256(convert_to(
      coalesce(v_previous, '') || new.seq || array[
        new.scope_id::text,
        new.organization_id::text,
        new.tenant_id::text,
        new.type,
        new.subject_id::text,
        new.actor_kind,
        new.actor_id::text,
        new.actor_name,
        new.request_id,
        new.request::text,
        new.data::text,
        new.changes::text,
        new.part_of::text,
        extract(epoch from new.created_at)::text
      ]::text,
      'UTF8'
    )),
    'base64'
  );
  return new;
end $$;
create trigger chain_event
  before insert on events
  for each row execute function chain_event();

-- True also for channels that tell of deployments. This is plpgsql, which caches the plan: inline, with the policy to
-- plan, it took three times the CPU.
create function has_webhooks(p_tenant uuid) returns boolean
language plpgsql stable as $$
begin
  return exists (select from webhooks w where w.tenant_id = p_tenant and w.enabled)
    or exists (select from channels c where c.tenant_id = p_tenant and c.enabled and c.deploys <> 'none');
end $$;

-- The number of the first event of a workspace at or after a time, or the next number. A search by halves: times grow
-- with numbers, but for the seconds that a transaction waits for the journal.
create function first_event_since(p_scope uuid, p_time timestamptz) returns bigint
language plpgsql stable as $$
declare
  v_before bigint := 0;
  v_since bigint := coalesce((select seq from journals where scope_id = p_scope), 0) + 1;
  v_middle bigint;
  v_at timestamptz;
begin
  while v_since - v_before > 1 loop
    v_middle := (v_before + v_since) / 2;
    select created_at into v_at from events where scope_id = p_scope and seq >= v_middle order by seq limit 1;
    if v_at < p_time then v_before := v_middle; else v_since := v_middle; end if;
  end loop;
  return v_since;
end $$;

create function journal_of_member(p_member uuid, p_type text, p_data json, p_changes json, p_limit bigint) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  perform act_as_member(p_member);
  perform journal(array[p_type], array[p_member], array[p_data], array[p_changes], p_limit, 0);
end $$;

create function journal_of_identity(p_member uuid, p_issuer text, p_subject text, p_limit bigint) returns void
language sql as $$
  select journal_of_member(
    p_member, 'identity.bound', json_build_object('issuer', p_issuer, 'subject', p_subject),
    changed_members(null, jsonb_build_object('issuer', p_issuer, 'subject', p_subject)), p_limit
  )
$$;

-- Journals a refusal. Anyone can be refused, and must not fill the journal's day: of an organization, at most 60
-- refusals an hour are journaled. The subject is the member as whom the visitor tried to sign in, or else the
-- organization.
create function journal_refused_sign_in(p_organization uuid, p_member uuid, p_data json, p_limit bigint) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_attempts integer;
begin
  -- Without a row lock, so that a flood does not queue for it.
  if exists (
    select from attempt_windows w
    where w.key_id = p_organization and w.started_at > clock() - interval '1 hour' and w.attempts >= 60
  ) then
    return;
  end if;
  insert into attempt_windows as w (key_id, started_at, attempts)
  values (p_organization, clock(), 1)
  on conflict (key_id) do update set
    attempts = excluded.attempts + case when w.started_at > clock() - interval '1 hour' then w.attempts else 0 end,
    started_at = case when w.started_at > clock() - interval '1 hour' then w.started_at else excluded.started_at end
  returning attempts into v_attempts;
  if v_attempts > 60 then return; end if;
  perform
    set_config('app.organization_id', p_organization::text, true),
    set_config('app.tenant_id', '', true),
    set_config('app.actor_kind', 'visitor', true),
    set_config('app.actor_id', '', true),
    set_config('app.actor_name', '', true);
  begin
    perform journal(
      array['session.refused'], array[coalesce(p_member, p_organization)], array[p_data], array[null::json], p_limit, 0
    );
  exception when sqlstate 'SW000' then
    -- The journal's day is full. The visitor must not learn from the answer that the address is a member's.
    null;
  end;
end $$;

-- True if the caller sees the resource that an event is about. A deleted resource has no tags any more, so its events
-- are hidden from callers for whom some resources of its type are hidden.
create function is_shown_event(p_type text, p_subject uuid, p_data json) returns boolean
language plpgsql stable as $$
declare
  v_kind text := split_part(p_type, '.', 1);
  v_resource record;
  v_id uuid;
  v_is_shown boolean;
begin
  for v_resource in
    values
      ('deployment', 'deployments', '{deployment, preview_policy}'::text[], 'deployment_id'),
      ('deployment', 'revisions', '{revision}', null),
      ('deployment', 'previews', '{preview}', null),
      ('deployment', 'custom_hosts', '{custom_host}', null),
      ('project', 'projects', '{project}', 'project_id'),
      ('project', 'run_rules', '{rule}', null),
      ('dataset', 'run_rules', '{rule}', null),
      ('dataset', 'datasets', '{dataset}', 'dataset_id'),
      ('queue', 'annotation_queues', '{annotation_queue}', 'queue_id')
  loop
    continue when not hides(v_resource.column1);
    v_id := case
      when p_data ->> v_resource.column4 ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        then (p_data ->> v_resource.column4)::uuid
      when v_kind = any(v_resource.column3) then p_subject
    end;
    continue when v_id is null;
    execute format('select exists (select from %I where id = $1)', v_resource.column2) into v_is_shown using v_id;
    if not v_is_shown then return false; end if;
  end loop;
  return true;
end $$;

-- The number of the oldest event that is kept in the current workspace, also if the caller does not see that event.
create function oldest_event() returns bigint
language sql stable security definer set search_path = public, pg_temp as $$
  select seq from events where scope_id = current_tenant() order by seq limit 1
$$;
grant execute on function oldest_event() to slipway_app;

-- Writes events into the journals of their workspaces, in the order of the list. A null limit is none.
create function journal_events_of(
  p_actor_kind text, p_actor_id uuid, p_actor_name text, p_events tenant_event[], p_daily_limit bigint
) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  if cardinality(p_events) = 0 then return; end if;
  -- The order of the ids keeps two writers from a deadlock.
  with numbered as (
    insert into journals (scope_id, organization_id, seq, day, today)
    select e.tenant_id, e.organization_id, count(*), journal_day(), count(*)
    from unnest(p_events) e
    group by e.tenant_id, e.organization_id
    order by e.tenant_id
    on conflict (scope_id) do update set
      seq = journals.seq + excluded.seq,
      day = excluded.day,
      today = excluded.today + case when journals.day = excluded.day then journals.today else 0 end
    returning scope_id, seq, today
  ),
  placed as (
    select
      e.*,
      row_number() over (partition by e.tenant_id order by e.ordinal) as place,
      count(*) over (partition by e.tenant_id) as count
    from unnest(p_events) with ordinality
      e(tenant_id, organization_id, type, subject_id, data, changes, ordinal)
  )
  insert into events (
    scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, actor_name, request_id, data,
    changes, part_of
  )
  select
    p.tenant_id,
    n.seq - p.count + p.place,
    p.organization_id,
    p.tenant_id,
    p.type,
    p.subject_id,
    p_actor_kind,
    p_actor_id,
    p_actor_name,
    setting('request_id'),
    p.data,
    p.changes,
    case when p.place > 1 and setting('request') is not null then n.seq - p.count + 1 end
  from placed p
  join numbered n on n.scope_id = p.tenant_id
  where require_journal_room(n.today, p_daily_limit);
end $$;

-- Does the same, where an agent acts as its listener, and otherwise the schedule.
create function journal_tenant_events(p_events tenant_event[], p_daily_limit bigint) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  if cardinality(p_events) = 0 then return; end if;
  perform journal_events_of(
    case when current_listener() is null then 'cron' else 'listener' end,
    current_listener(),
    event_actor_name(),
    p_events,
    p_daily_limit
  );
end $$;

-- Journals a refusal. Anyone can be refused, and must not fill the journal's day: of a workspace, at most 60 refusals
-- an hour are journaled.
create function journal_refused_exchange(p_tenant uuid, p_subject uuid, p_data json, p_limit bigint) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_organization uuid;
  v_window constant uuid := md5('token exchange ' || p_tenant)::uuid;
  v_attempts integer;
begin
  -- First the workspace, as its deletion does.
  select w.organization_id into v_organization from workspaces w where w.id = p_tenant for key share;
  -- Without a row lock, so that a flood does not queue for it.
  if not found or exists (
    select from attempt_windows w
    where w.key_id = v_window and w.started_at > clock() - interval '1 hour' and w.attempts >= 60
  ) then
    return;
  end if;
  insert into attempt_windows as w (key_id, started_at, attempts)
  values (v_window, clock(), 1)
  on conflict (key_id) do update set
    attempts = excluded.attempts + case when w.started_at > clock() - interval '1 hour' then w.attempts else 0 end,
    started_at = case when w.started_at > clock() - interval '1 hour' then w.started_at else excluded.started_at end
  returning attempts into v_attempts;
  if v_attempts > 60 then return; end if;
  perform
    set_config('app.organization_id', v_organization::text, true),
    set_config('app.tenant_id', p_tenant::text, true),
    set_config('app.actor_kind', 'visitor', true),
    set_config('app.actor_id', '', true),
    set_config('app.actor_name', coalesce(p_data ->> 'subject', ''), true);
  begin
    perform journal(
      array['token_exchange.refused'], array[coalesce(p_subject, p_tenant)], array[p_data], array[null::json],
      p_limit, 0
    );
  exception when sqlstate 'SW000' then
    -- The journal's day is full. The caller gets the same answer as on other days.
    null;
  end;
end $$;
