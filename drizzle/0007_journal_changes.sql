-- In plpgsql, which keeps its plan for the session. The planner parses the body of an SQL function again for every
-- statement that calls it, to inline it, and before Postgres 18 plans it for every call.
create or replace function changed_members(p_before jsonb, p_after jsonb) returns json
language plpgsql immutable as $$
begin
  return (
    with members as (
      select key, p_before -> key as before, p_after -> key as after
      from jsonb_object_keys(coalesce(p_before, '{}') || coalesce(p_after, '{}')) key
      where (p_before -> key) is distinct from (p_after -> key)
    ),
    compared as (
      select m.key || coalesce('.' || n.key, '') as path,
        nullif(nullif(case when n.key is null then m.before else m.before -> n.key end, 'null'), '{}') as before,
        nullif(nullif(case when n.key is null then m.after else m.after -> n.key end, 'null'), '{}') as after
      from members m
      left join lateral jsonb_object_keys(
        case
          when coalesce(jsonb_typeof(m.before), 'null') in ('object', 'null')
            and coalesce(jsonb_typeof(m.after), 'null') in ('object', 'null')
            then coalesce(nullif(m.before, 'null'), '{}') || coalesce(nullif(m.after, 'null'), '{}')
          else '{}'
        end
      ) n(key) on true
    )
    select json_agg(
      json_build_object('path', path, 'before', event_value(before), 'after', event_value(after)) order by path
    )
    from compared
    where before is distinct from after
  );
end $$;
--> statement-breakpoint
create or replace function secret_versions(p_secrets json) returns jsonb
language plpgsql immutable as $$
begin
  return (select jsonb_object_agg(s ->> 'name', s -> 'version') from json_array_elements(p_secrets) s);
end $$;
--> statement-breakpoint

-- Functions that write events of their own record what changed, too.
grant create on schema public to slipway_system;
--> statement-breakpoint
set local role slipway_system;
--> statement-breakpoint
create or replace function revoke_key_tree(p_key uuid) returns setof uuid
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_tree uuid[];
  v_locked uuid[] := '{}';
begin
  if not exists (
    select from api_keys a
    where a.id = p_key and a.revoked_at is null and a.organization_id = current_organization()
      and (current_tenant() is null or a.tenant_id = current_tenant())
  ) then
    return;
  end if;
  -- Any key that is not locked yet may be creating another one, so the tree is read again until all of it is locked.
  -- Locks are taken in the order of the ids, so two revocations cannot deadlock.
  loop
    v_tree := array(
      with recursive tree as (
        select p_key as id
        union
        select a.id
        from api_keys a
        join tree t on a.created_by = t.id
      )
      select id from tree
    );
    exit when v_tree <@ v_locked;
    perform from api_keys a where a.id = any(v_tree) order by a.id for no key update;
    v_locked := v_tree;
  end loop;
  return query
  with revoked as (
    update api_keys a
    set revoked_at = clock()
    where a.id = any(v_tree) and a.revoked_at is null
    returning a.id, a.organization_id, a.tenant_id, coalesce(a.tenant_id, a.organization_id) as scope_id, a.revoked_at
  ),
  numbered as (
    insert into journals as j (scope_id, organization_id, seq)
    select r.scope_id, r.organization_id, count(*)
    from revoked r
    group by r.scope_id, r.organization_id
    order by r.scope_id
    on conflict (scope_id) do update set seq = j.seq + excluded.seq
    returning j.scope_id, j.seq - (select count(*) from revoked r where r.scope_id = j.scope_id) as before
  ),
  journaled as (
    insert into events (
      scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, request_id, data, changes,
      part_of
    )
    select
      r.scope_id,
      n.before + r.place,
      r.organization_id,
      r.tenant_id,
      'api_key.revoked',
      r.id,
      setting('actor_kind'),
      current_actor(),
      setting('request_id'),
      case when r.id = p_key then '{}'::json else json_build_object('revoked_with', p_key) end,
      changed_members(null, jsonb_build_object('revoked_at', r.revoked_at)),
      case when r.place > 1 then n.before + 1 end
    from (
      select revoked.*, row_number() over (partition by scope_id order by id <> p_key, id) as place
      from revoked
    ) r
    join numbered n on n.scope_id = r.scope_id
  )
  select r.id from revoked r;
end $$;
--> statement-breakpoint
create or replace function verify_custom_host(p_host text, p_owner uuid, p_owner_gone boolean)
returns setof custom_hosts
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_tenant uuid := current_tenant();
  v_before custom_hosts;
  v_locked uuid[];
begin
  -- Deployments are locked before their host. If one takes the host after the deployments were locked, raising an error
  -- releases both locks, and the loop takes them again. The host's lock keeps others out.
  loop
    begin
      v_locked := array(
        select id from (select id from deployments where custom_host = p_host order by id for update) as locked
      );
      insert into custom_hosts as h (host, organization_id, tenant_id)
      values (p_host, current_organization(), v_tenant)
      on conflict (host) do update set host = excluded.host
      returning * into v_before;
      exit when not exists (select from deployments where custom_host = p_host and not id = any(v_locked));
      raise sqlstate 'SW002';
    exception when sqlstate 'SW002' then
    end;
  end loop;
  if v_before.tenant_id <> v_tenant and v_before.verified_at is not null
    and not (p_owner_gone and v_before.tenant_id is not distinct from p_owner) then
    perform refuse('custom_host_taken');
  end if;
  -- Both journals in one order, and before the cursors that the update of deployments locks.
  perform from journals where scope_id in (v_before.tenant_id, v_tenant) order by scope_id for update;
  if v_before.tenant_id <> v_tenant then
    with numbered as (
      insert into journals (scope_id, organization_id, seq)
      values (v_before.tenant_id, v_before.organization_id, 1)
      on conflict (scope_id) do update set seq = journals.seq + 1
      returning seq
    )
    -- Without the name and the request of the new owner: another workspace must not see them.
    insert into events (
      scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_name, request_id, request, data,
      changes
    )
    select
      v_before.tenant_id,
      seq,
      v_before.organization_id,
      v_before.tenant_id,
      'custom_host.lost',
      v_before.id,
      'cron',
      null,
      setting('request_id'),
      null,
      json_build_object('host', p_host),
      changed_members(jsonb_build_object('host', p_host, 'verified_at', v_before.verified_at), null)
    from numbered;
  end if;
  if v_before.tenant_id <> v_tenant or v_before.verified_at is null then
    update deployments
    set generation = generation + 1, remote_reconciled = false
    where custom_host = p_host;
  end if;
  return query
    update custom_hosts h
    set
      -- A new owner learns nothing about the previous one.
      id = case when h.tenant_id = v_tenant then h.id else gen_random_uuid() end,
      created_at = case when h.tenant_id = v_tenant then h.created_at else clock() end,
      organization_id = current_organization(),
      tenant_id = v_tenant,
      verified_at = clock()
    where h.host = p_host
    returning h.*;
end $$;
--> statement-breakpoint
reset role;
--> statement-breakpoint
revoke create on schema public from slipway_system;
