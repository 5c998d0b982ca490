-- Keys that belong to a member, and the device authorization grant (RFC 8628) that makes them.
alter table api_keys add column member_id uuid;
alter table api_keys
  add constraint api_keys_member_id_members_id_fk
  foreign key (member_id) references members(id) on delete cascade not valid;
create index api_keys_member on api_keys (member_id);
--> statement-breakpoint
alter table api_keys validate constraint api_keys_member_id_members_id_fk;
--> statement-breakpoint
alter policy own on api_keys
  with check (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id = current_tenant())
    and is_own_workspace(tenant_id)
    and is_own_role(role_id)
    and is_own_listener(listener_id)
    and is_own_key(created_by)
    and is_own_member(member_id)
  );
--> statement-breakpoint

-- Devices that ask for a key. No organization is known before a member decides. `permissions` are first those that the
-- device asks for (null: any), then those that the member has granted.
create table device_requests (
  id uuid primary key default gen_random_uuid() not null,
  device_code_hash text not null,
  user_code text not null,
  device_name text,
  permissions text[],
  client_address text,
  client_network text,
  user_agent text,
  interval_seconds integer default 5 not null,
  polled_at timestamptz,
  organization_id uuid,
  member_id uuid,
  tenant_id uuid,
  role_id uuid,
  decided_at timestamptz,
  created_at timestamptz default clock() not null,
  expires_at timestamptz default clock() + interval '10 minutes' not null,
  constraint device_requests_device_code unique (device_code_hash),
  constraint device_requests_user_code unique (user_code),
  constraint device_requests_organization_id_organizations_id_fk
    foreign key (organization_id) references organizations(id) on delete cascade,
  constraint device_requests_member_id_members_id_fk foreign key (member_id) references members(id) on delete cascade,
  constraint device_requests_tenant_id_workspaces_id_fk
    foreign key (tenant_id) references workspaces(id) on delete cascade
);
create index device_requests_organization on device_requests (organization_id);
create index device_requests_member on device_requests (member_id);
create index device_requests_tenant on device_requests (tenant_id);
create index device_requests_network on device_requests (client_network);
create index device_requests_age on device_requests (expires_at);
--> statement-breakpoint
-- Members reach it through the functions below only.
alter table device_requests enable row level security, force row level security;
create policy everything on device_requests to slipway_system using (true) with check (true);
grant select, insert, update, delete on device_requests to slipway_system;
--> statement-breakpoint
grant create on schema public to slipway_system;
--> statement-breakpoint
set local role slipway_system;
--> statement-breakpoint
-- As member_permissions(), but null for a workspace that GET /v2/me does not list for the member.
create function reachable_permissions(p_member uuid, p_tenant uuid) returns text[]
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return (
    select member_permissions(p_member, p_tenant)
    from members m
    join roles r on r.id = m.role_id
    where m.id = p_member
      and exists (select from workspaces w where w.id = p_tenant and w.organization_id = m.organization_id)
      and (
        r.permissions && '{workspaces:read, deployments:read}'
        or exists (select from workspace_members wm where wm.member_id = m.id and wm.tenant_id = p_tenant)
      )
  );
end $$;
--> statement-breakpoint
-- What a key of a member may do now. Null if the member has lost the workspace, or every permission of the key. One
-- query, because enter() asks it for each request of such a key: with reachable_permissions() it takes twice as long.
create function bound_key_permissions(p_key uuid) returns text[]
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return (
    select nullif(
      array(
        select permission
        from unnest(r.permissions) permission
        where (a.permissions is null or permission = any(a.permissions))
          and (permission = any(o.permissions) or permission = any(w.permissions))
      ),
      '{}'
    )
    from api_keys a
    join roles r on r.id = a.role_id
    join members m on m.id = a.member_id
    join roles o on o.id = m.role_id
    left join workspace_members wm on wm.member_id = m.id and wm.tenant_id = a.tenant_id
    left join roles w on w.id = wm.role_id
    where a.id = p_key and (wm.id is not null or o.permissions && '{workspaces:read, deployments:read}')
  );
end $$;
--> statement-breakpoint
revoke execute on function reachable_permissions(uuid, uuid), bound_key_permissions(uuid) from public;
--> statement-breakpoint
-- Before a member is deleted. A request that is running has locked its session or key already, and may lock the member
-- next, so the deletion has to take them in the same order.
create function lock_credentials(p_member uuid) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_keys uuid[] := array(
    select a.id from api_keys a where a.member_id = p_member and a.organization_id = current_organization()
  );
begin
  perform from sessions s
  where s.organization_id = current_organization() and (s.member_id = p_member or s.key_id = any(v_keys))
  order by s.id
  for update;
  perform from api_keys a where a.id = any(v_keys) order by a.id for update;
end $$;
--> statement-breakpoint
revoke execute on function lock_credentials(uuid) from public;
grant execute on function lock_credentials(uuid) to slipway_app;
--> statement-breakpoint
-- Replaces that of the same name, with a weaker lock, as in lock_for_admin_checks(): the approval of a device holds the
-- foreign key's lock of the workspace when it waits for the journal of the organization.
create or replace function require_workspace_admin() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_admin constant uuid := '00000000-0000-4000-8000-000000000001';
begin
  if old.role_id <> v_admin or (tg_op = 'UPDATE' and new.role_id = v_admin) then return null; end if;
  -- The lock serializes two removals. A workspace that is itself being deleted is not found.
  perform from workspaces where id = old.tenant_id for no key update;
  if found and not exists (select from workspace_members where tenant_id = old.tenant_id and role_id = v_admin) then
    perform refuse('last_admin');
  end if;
  return null;
end $$;
--> statement-breakpoint
-- The next functions replace those of the same name, for keys that belong to a member.
create or replace function enter(
  p_key_hash text,
  p_workspace uuid,
  p_permission text,
  p_in_workspace boolean,
  p_request_id text,
  p_clock_offset text,
  p_without_if_match boolean,
  p_idempotency_key text,
  p_fingerprint text
) returns table (organization_id uuid, tenant_id uuid, actor_id uuid)
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_key record;
  v_bound text[];
  v_tenant uuid;
  v_stored record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  select
    a.id, a.organization_id, a.tenant_id, a.expires_at, a.revoked_at, a.last_used_at, a.member_id,
    p_permission = any(r.permissions) and (a.permissions is null or p_permission = any(a.permissions)) as is_permitted
  into v_key
  from api_keys a
  join roles r on r.id = a.role_id
  where a.key_hash = p_key_hash;
  if not found then perform refuse('key_unknown'); end if;
  if v_key.revoked_at is not null then perform refuse('key_revoked'); end if;
  if v_key.expires_at <= clock() then perform refuse('key_expired'); end if;
  if v_key.member_id is not null then
    v_bound := bound_key_permissions(v_key.id);
    if v_bound is null then perform refuse('key_revoked'); end if;
    v_key.is_permitted := p_permission = any(v_bound);
  end if;

  if v_key.tenant_id is not null then
    if p_workspace <> v_key.tenant_id then perform refuse('workspace_forbidden'); end if;
    v_tenant := v_key.tenant_id;
  elsif p_workspace is not null then
    if not exists (
      select from workspaces w where w.id = p_workspace and w.organization_id = v_key.organization_id
    ) then
      perform refuse('workspace_forbidden');
    end if;
    v_tenant := case when p_in_workspace then p_workspace end;
  elsif p_in_workspace then
    perform refuse('workspace_required');
  end if;
  if not v_key.is_permitted then perform refuse('permission_missing', p_permission); end if;
  if p_without_if_match and exists (select from workspaces w where w.id = v_tenant and w.require_if_match) then
    perform refuse('if_match_required');
  end if;

  perform
    set_config('app.organization_id', v_key.organization_id::text, true),
    set_config('app.tenant_id', coalesce(v_tenant::text, ''), true),
    set_config('app.actor_kind', 'key', true),
    set_config('app.actor_id', v_key.id::text, true),
    set_config('app.request_id', p_request_id, true);

  if p_idempotency_key is not null then
    if not pg_try_advisory_xact_lock(hashtextextended(v_key.id || ':' || p_idempotency_key, 0)) then
      perform refuse('idempotency_in_flight');
    end if;
    select i.fingerprint, i.result, i.created_at
    into v_stored
    from idempotency_keys i
    where i.actor_id = v_key.id and i.key = p_idempotency_key;
    if found and v_stored.created_at < clock() - interval '24 hours' then
      delete from idempotency_keys i
      where i.actor_id = v_key.id and i.key = p_idempotency_key;
    elsif found and v_stored.fingerprint <> p_fingerprint then
      perform refuse('idempotency_key_reused');
    elsif found then
      -- An error ends the transaction, so the batch's later statements cannot act twice.
      raise exception using errcode = 'SW001', message = 'replay', detail = v_stored.result::text;
    end if;
  end if;

  -- At most once a minute, and without waiting for another request's update. Not journaled: no caller changed anything.
  if v_key.last_used_at is null or v_key.last_used_at < clock() - interval '1 minute' then
    update api_keys a
    set last_used_at = clock()
    where a.id = (select b.id from api_keys b where b.id = v_key.id for update skip locked);
  end if;
  return query select v_key.organization_id, v_tenant, v_key.id;
end $$;
--> statement-breakpoint
create or replace function actor_permissions() returns text[]
language sql stable security definer set search_path = public, pg_temp as $$
  select
    case
      when setting('actor_kind') = 'session' then member_permissions(current_actor(), current_tenant())
      else (
        select
          case
            when a.member_id is not null then bound_key_permissions(a.id)
            when a.permissions is null then r.permissions
            else array(select unnest(r.permissions) intersect select unnest(a.permissions))
          end
        from api_keys a
        join roles r on r.id = a.role_id
        where a.id = current_actor()
      )
    end
$$;
--> statement-breakpoint
-- A key that a member's key creates belongs to the member, too.
create or replace function inherit_budget() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_creator record;
begin
  if new.created_by is null then
    new.budget_id := case
      when setting('actor_kind') = 'session' and current_actor() is not null
        then budget_of_child_key(current_actor(), null, new.tenant_id, new.listener_id)
      else coalesce(new.listener_id, new.id)
    end;
    return new;
  end if;
  select m.revoked_at, m.budget_id, m.tenant_id, m.member_id
  into v_creator
  from api_keys m
  where m.id = new.created_by
  for share;
  if not found then perform refuse('key_unknown'); end if;
  if v_creator.revoked_at is not null then perform refuse('key_revoked'); end if;
  new.budget_id := budget_of_child_key(v_creator.budget_id, v_creator.tenant_id, new.tenant_id, new.listener_id);
  if v_creator.member_id <> new.member_id then
    raise exception using errcode = '42501', message = 'a key of one member creates a key of another one';
  end if;
  new.member_id := coalesce(v_creator.member_id, new.member_id);
  return new;
end $$;
--> statement-breakpoint

-- A request that waits for a decision, by its code. Each search counts, so that codes cannot be guessed.
create function find_device_request(p_user_code text) returns setof device_requests
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_window record;
begin
  insert into rate_windows as w (key_id, started_at, requests)
  values (md5('device ' || current_actor())::uuid, clock(), 1)
  on conflict (key_id) do update set
    requests = case when w.started_at > clock() - interval '60 seconds' then w.requests else 0 end + 1,
    started_at =
      case when w.started_at > clock() - interval '60 seconds' then w.started_at else excluded.started_at end
  returning w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  into v_window;
  if v_window.requests > 20 then perform refuse('rate_limited', v_window.reset::text); end if;
  return query
  select d.*
  from device_requests d
  where d.user_code = p_user_code and d.decided_at is null and d.expires_at > clock();
  if found and setting('actor_kind') <> 'session' then perform refuse('member_required'); end if;
end $$;
--> statement-breakpoint
-- What the calling member grants there with a built-in role: as much of it as the member has and the device asks for.
create function device_permissions(p_request device_requests, p_tenant uuid, p_role uuid) returns text[]
language plpgsql stable as $$
declare
  v_own text[] := reachable_permissions(current_actor(), p_tenant);
begin
  return (
    select nullif(
      array(
        select permission
        from unnest(r.permissions) permission
        where permission = any(v_own) and permission = any(coalesce(p_request.permissions, r.permissions))
        order by permission
      ),
      '{}'
    )
    from roles r
    where r.id = p_role
  );
end $$;
--> statement-breakpoint
-- With what the calling member could grant in each workspace.
create function read_device_request(p_user_code text) returns json
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  return (
    select json_build_object(
      'user_code', d.user_code,
      'device_name', d.device_name,
      'client_address', d.client_address,
      'user_agent', d.user_agent,
      'created_at', d.created_at,
      'expires_at', d.expires_at,
      'workspaces', (
        select coalesce(
          json_agg(
            json_build_object(
              'id', w.id,
              'display_name', w.display_name,
              'all', g.permissions,
              'read', coalesce(device_permissions(d, w.id, '00000000-0000-4000-8000-000000000003'), '{}')
            )
            order by w.created_at, w.id
          ),
          '[]'
        )
        from workspaces w
        cross join lateral device_permissions(d, w.id, '00000000-0000-4000-8000-000000000001') g(permissions)
        where w.organization_id = current_organization() and g.permissions is not null
      )
    )
    from find_device_request(p_user_code) d
  );
end $$;
--> statement-breakpoint
-- Approves with a workspace and a built-in role, and denies without.
create function decide_device_request(p_user_code text, p_tenant uuid, p_role uuid) returns setof device_requests
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_request device_requests;
  v_permissions text[];
begin
  select * into v_request from find_device_request(p_user_code);
  if not found then return; end if;
  if p_tenant is not null then
    v_permissions := device_permissions(v_request, p_tenant, p_role);
    if v_permissions is null then perform refuse('workspace_forbidden'); end if;
    -- Approving takes no permission to create keys, so it must not use up the limit of the workspace.
    if 100 <= (
      select count(*)
      from api_keys a
      where a.member_id = current_actor() and a.tenant_id = p_tenant
        and a.created_by is null and a.revoked_at is null and a.expires_at > clock()
    ) then
      perform refuse('quota_full', '100 api keys of a member');
    end if;
  end if;
  return query
  update device_requests d
  set organization_id = current_organization(), member_id = current_actor(), tenant_id = p_tenant, role_id = p_role,
    permissions = v_permissions, decided_at = clock()
  where d.id = v_request.id and d.decided_at is null
  returning d.*;
end $$;
--> statement-breakpoint
revoke execute on function
  find_device_request(text),
  read_device_request(text),
  decide_device_request(text, uuid, uuid)
  from public;
grant execute on function
  read_device_request(text),
  decide_device_request(text, uuid, uuid)
  to slipway_app;
--> statement-breakpoint
reset role;
--> statement-breakpoint
revoke create on schema public from slipway_system;
--> statement-breakpoint
-- The key for an approved device, once: the request is deleted with it. Otherwise the error of RFC 8628.
create function redeem_device_code(p_device_code_hash text, p_key_hash text, p_hint text, p_limit bigint) returns json
language plpgsql as $$
declare
  v_request device_requests;
  v_polled device_requests;
  v_key api_keys;
begin
  -- First what the deletion of a member or a workspace locks before the request, in the order of the former.
  perform from members m
  where m.id = (select d.member_id from device_requests d where d.device_code_hash = p_device_code_hash)
  for key share;
  perform from workspaces w
  where w.id = (select d.tenant_id from device_requests d where d.device_code_hash = p_device_code_hash)
  for key share;
  select * into v_request from device_requests where device_code_hash = p_device_code_hash for update;
  if not found then return json_build_object('error', 'invalid_grant'); end if;
  if v_request.expires_at <= clock() then return json_build_object('error', 'expired_token'); end if;
  if v_request.decided_at is null then
    update device_requests d
    set
      polled_at = clock(),
      -- A second early is the network's doing.
      interval_seconds = d.interval_seconds
        + case when d.polled_at > clock() - make_interval(secs => d.interval_seconds - 1) then 5 else 0 end
    where d.id = v_request.id
    returning * into v_polled;
    return json_build_object(
      'error',
      case
        when v_polled.interval_seconds > v_request.interval_seconds then 'slow_down'
        else 'authorization_pending'
      end
    );
  end if;
  if v_request.tenant_id is null then return json_build_object('error', 'access_denied'); end if;

  perform act_as_member(v_request.member_id);
  perform set_config('app.tenant_id', v_request.tenant_id::text, true);
  delete from device_requests d where d.id = v_request.id;
  insert into api_keys (
    organization_id, tenant_id, member_id, description, hint, key_hash, role_id, permissions, expires_at
  )
  values (
    v_request.organization_id, v_request.tenant_id, v_request.member_id,
    'Command line' || coalesce(' on ' || v_request.device_name, ''),
    p_hint, p_key_hash, v_request.role_id, v_request.permissions, clock() + interval '90 days'
  )
  returning * into v_key;
  -- The member has lost the workspace since the approval.
  if bound_key_permissions(v_key.id) is null then
    delete from api_keys where id = v_key.id;
    return json_build_object('error', 'access_denied');
  end if;
  perform journal(
    array['api_key.created'], array[v_key.id], array[json_build_object('member_id', v_key.member_id)],
    array[changed_members(null, jsonb_build_object(
      'description', v_key.description, 'role_id', v_key.role_id, 'permissions', v_key.permissions,
      'expires_at', v_key.expires_at, 'member_id', v_key.member_id
    ))],
    p_limit, 0
  );
  return json_build_object(
    'api_key_id', v_key.id,
    'workspace_id', v_key.tenant_id,
    'organization_id', v_key.organization_id,
    'permissions', v_key.permissions,
    'expires_in', extract(epoch from v_key.expires_at - clock())::integer
  );
end $$;
