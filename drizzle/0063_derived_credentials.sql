-- A credential ends everything that was made with it. `made_by` is the hash of the key, or of the token of the session,
-- that made the row. Rows from before this migration have none.
alter table sign_in_links add column made_by text;
alter table sessions add column made_by text;
alter table uploads add column made_by text;
alter table device_requests add column made_by_key uuid;
alter table oauth_grants add column made_by_key uuid;
--> statement-breakpoint
-- The time, or that at which the key ends if it is earlier.
create function bound_expiry(p_until timestamptz, p_key uuid) returns timestamptz
language sql stable as $$
  select least(p_until, (select a.expires_at from api_keys a where a.id = p_key))
$$;
--> statement-breakpoint
-- A row without a key has not ended.
create function is_maker_ended(p_key uuid) returns boolean
language sql stable as $$
  select is_grant_ended(p_key, bound_expiry(null, p_key))
$$;
--> statement-breakpoint
-- The credential of the caller. A session that was opened with a key is that key.
create function own_credential() returns text
language sql stable security definer set search_path = public, pg_temp as $$
  select case setting('actor_kind')
    when 'key' then (select a.key_hash from api_keys a where a.id = current_actor())
    when 'session' then (select s.token_hash from sessions s where s.id = setting('session_id')::uuid)
  end
$$;
--> statement-breakpoint
-- Returns true for a key or session that can enter. A session also ends with its maker, so the chain is followed to
-- its end.
create function is_living_credential(p_hash text) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_hash text := p_hash;
  v_session record;
begin
  loop
    select
      coalesce(a.key_hash, s.made_by) as next,
      s.revoked_at is null and s.expires_at > clock() and s.last_seen_at > clock() - interval '7 days' as is_alive
    into v_session
    from sessions s
    left join api_keys a on a.id = s.key_id
    where s.token_hash = v_hash;
    exit when not found;
    if not v_session.is_alive then return false; end if;
    if v_session.next is null then return true; end if;
    v_hash := v_session.next;
  end loop;
  return exists (
    select from api_keys a
    where a.key_hash = v_hash and a.revoked_at is null and (a.expires_at is null or a.expires_at > clock())
      and (a.member_id is null or bound_key_permissions(a.id) is not null)
  );
end $$;
--> statement-breakpoint
create or replace function is_alive(p_session sessions) returns boolean
language sql stable
return p_session.revoked_at is null
  and p_session.expires_at > clock()
  and p_session.last_seen_at > clock() - interval '7 days'
  and (p_session.made_by is null or is_living_credential(p_session.made_by));
--> statement-breakpoint
-- Returns the credential that ends a session which a link opens: the key that made the link, or the session if it is of
-- the same person. The session of another person only passes on the key that its own link was made with.
create function maker_of_session(p_maker_of_link text, p_member uuid) returns text
language plpgsql stable as $$
declare
  v_hash text := p_maker_of_link;
  v_session record;
begin
  loop
    select s.member_id, s.made_by into v_session from sessions s where s.token_hash = v_hash;
    if not found or v_session.member_id = p_member then return v_hash; end if;
    v_hash := v_session.made_by;
  end loop;
end $$;
--> statement-breakpoint
-- The key that the caller acts with: its own, or the one whose link opened its session.
create function maker_key() returns api_keys
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_hash text := own_credential();
  v_made_by text;
  v_key api_keys;
begin
  loop
    select s.made_by into v_made_by from sessions s where s.token_hash = v_hash;
    exit when not found;
    v_hash := v_made_by;
  end loop;
  select * into v_key from api_keys a where a.key_hash = v_hash;
  return v_key;
end $$;
--> statement-breakpoint
-- Returns true for a key that ends within about an hour: it is the access token of a connected client, or a token of a
-- trusted issuer was exchanged for it, or it was made with one of these.
create function is_temporary_key(p_key uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return exists (
    with recursive makers as (
      select a.id, a.created_by, a.trusted_issuer_id
      from api_keys a
      where a.id = p_key
      union
      select a.id, a.created_by, a.trusted_issuer_id
      from api_keys a
      join makers m on a.id = m.created_by
    )
    select from makers m
    where m.trusted_issuer_id is not null or exists (select from oauth_grants g where g.key_id = m.id)
  );
end $$;
--> statement-breakpoint
-- The key that answers for a trusted issuer. Null where the caller is a member.
create function granting_key() returns uuid
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_key uuid := (maker_key()).id;
begin
  if is_temporary_key(v_key) then perform refuse('temporary_key'); end if;
  return v_key;
end $$;
--> statement-breakpoint
create or replace function new_key_expiry(p_requested timestamptz) returns timestamptz
language plpgsql stable as $$
declare
  v_own timestamptz := (maker_key()).expires_at;
begin
  if p_requested > v_own then perform refuse('key_outlives_creator', v_own::text); end if;
  return coalesce(p_requested, v_own);
end $$;
--> statement-breakpoint
-- Triggers, so that no way of making these rows can leave it out.
create function refuse_temporary_key() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  -- The foreign key takes this lock after the journal's, and another request of the key takes them in this order.
  perform from api_keys a where a.id = new.key_id for key share;
  -- Row-level security refuses the key of another organization, and says nothing about it.
  if is_own_key(new.key_id) and is_temporary_key(new.key_id) then perform refuse('temporary_key'); end if;
  return new;
end $$;
--> statement-breakpoint
create trigger refuse_temporary_key
  before insert on sessions
  for each row when (new.key_id is not null) execute function refuse_temporary_key();
--> statement-breakpoint
create function remember_maker_key() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  new.made_by_key := (maker_key()).id;
  return new;
end $$;
--> statement-breakpoint
create trigger remember_maker_key
  before insert on oauth_grants
  for each row execute function remember_maker_key();
create trigger remember_maker_key
  before update of decided_at on device_requests
  for each row execute function remember_maker_key();
--> statement-breakpoint

grant create on schema public to slipway_system;
do $$
declare
  v_function regprocedure;
begin
  foreach v_function in array array[
    'own_credential()',
    'is_living_credential(text)',
    'maker_key()',
    'is_temporary_key(uuid)',
    'granting_key()',
    'refuse_temporary_key()',
    'remember_maker_key()'
  ]::regprocedure[] loop
    execute format('alter function %s owner to slipway_system', v_function);
  end loop;
end $$;
--> statement-breakpoint
set local role slipway_system;
--> statement-breakpoint
revoke execute on function
  own_credential(),
  is_living_credential(text),
  maker_key(),
  is_temporary_key(uuid),
  granting_key(),
  refuse_temporary_key(),
  remember_maker_key()
  from public;
grant execute on function own_credential(), is_living_credential(text), maker_key(), granting_key() to slipway_app;
--> statement-breakpoint
-- A key that a member creates in a session of such a link has a creator, and the budget of the member.
create or replace function inherit_budget() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_creator api_keys;
begin
  if new.created_by is not null then
    select m.*
    into v_creator
    from api_keys m
    where m.id = new.created_by
    for share;
    if not found then perform refuse('key_unknown'); end if;
    if v_creator.revoked_at is not null then perform refuse('key_revoked'); end if;
    -- The access token of a connected client was replaced while this request waited for the lock.
    if v_creator.id = current_actor() and setting('session_id') is null
      and v_creator.key_hash <> setting('credential')
    then
      perform refuse('key_unknown');
    end if;
    if v_creator.member_id <> new.member_id then
      raise exception using errcode = '42501', message = 'a key of one member creates a key of another one';
    end if;
    new.member_id := coalesce(v_creator.member_id, new.member_id);
  end if;
  new.budget_id := case
    when setting('actor_kind') = 'session' and current_actor() is not null
      then budget_of_child_key(current_actor(), null, new.tenant_id, new.listener_id)
    when new.created_by is null then coalesce(new.listener_id, new.id)
    else budget_of_child_key(v_creator.budget_id, v_creator.tenant_id, new.tenant_id, new.listener_id)
  end;
  return new;
end $$;
--> statement-breakpoint
create or replace function enter_session(
  p_token_hash text,
  p_workspace uuid,
  p_permission text,
  p_in_workspace boolean,
  p_request_id text,
  p_clock_offset text,
  p_without_if_match boolean,
  p_idempotency_key text,
  p_fingerprint text,
  p_access jsonb
) returns table (organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean)
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_session record;
  v_tenant uuid;
  v_roles uuid[];
  v_may boolean := true;
  v_is_limited boolean := false;
  v_stored record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  select
    s.id, s.organization_id, s.member_id, s.last_seen_at, s.expires_at, s.revoked_at, s.made_by, a.key_hash,
    coalesce(m.full_name, m.email) as name,
    p_permission is null or p_permission = any(o.permissions) as is_permitted,
    coalesce(p_permission = any(w.permissions), false) as is_permitted_inside,
    wm.id is not null as is_inside
  into v_session
  from sessions s
  left join api_keys a on a.id = s.key_id
  left join members m on m.id = s.member_id
  left join roles o on o.id = m.role_id
  left join workspace_members wm on wm.member_id = s.member_id and wm.tenant_id = p_workspace
  left join roles w on w.id = wm.role_id
  where s.token_hash = p_token_hash;
  -- This repeats is_alive(), because a call of it costs time.
  if not found or v_session.revoked_at is not null or v_session.expires_at <= clock()
    or v_session.last_seen_at <= clock() - interval '7 days'
    or v_session.made_by is not null and not is_living_credential(v_session.made_by)
  then
    perform refuse('session_ended');
  end if;

  -- Keys do the same: at most once a minute, without waiting, and not journaled.
  if v_session.last_seen_at < clock() - interval '1 minute' then
    update sessions s
    set last_seen_at = clock()
    where s.id = (select b.id from sessions b where b.id = v_session.id for update skip locked);
  end if;
  perform set_config('app.session_id', v_session.id::text, true);
  if v_session.key_hash is not null then
    return query
    select e.organization_id, e.tenant_id, e.actor_id, e.is_limited
    from enter(
      v_session.key_hash, p_workspace, p_permission, p_in_workspace, p_request_id, p_clock_offset,
      p_without_if_match, p_idempotency_key, p_fingerprint, p_access
    ) e;
    return;
  end if;

  if p_workspace is null and p_in_workspace then perform refuse('workspace_required'); end if;
  if p_workspace is not null and not v_session.is_inside and not exists (
    select from workspaces w where w.id = p_workspace and w.organization_id = v_session.organization_id
  ) then
    perform refuse('workspace_forbidden');
  end if;
  if v_session.is_permitted then
    v_tenant := case when p_in_workspace then p_workspace end;
  else
    if p_workspace is null and exists (
      select from workspace_members wm
      join roles r on r.id = wm.role_id
      where wm.member_id = v_session.member_id and p_permission = any(r.permissions)
    ) then
      perform refuse('workspace_required');
    end if;
    v_tenant := p_workspace;
    v_may := v_session.is_permitted_inside;
  end if;

  perform
    set_config('app.organization_id', v_session.organization_id::text, true),
    set_config('app.tenant_id', coalesce(v_tenant::text, ''), true),
    set_config('app.actor_kind', 'session', true),
    set_config('app.actor_id', v_session.member_id::text, true),
    set_config('app.actor_name', v_session.name, true),
    set_config('app.request_id', p_request_id, true);
  if p_access is not null then
    v_roles := policy_roles(null, v_session.member_id, v_tenant);
  end if;
  if has_rules(v_roles, v_session.organization_id) then
    v_is_limited := limit_access(p_access, v_roles, v_session.organization_id, v_tenant, p_permission, v_may);
  elsif not v_may then
    perform refuse('permission_missing', p_permission);
  end if;
  if p_without_if_match and exists (select from workspaces w where w.id = v_tenant and w.require_if_match) then
    perform refuse('if_match_required');
  end if;

  if p_idempotency_key is not null then
    if not pg_try_advisory_xact_lock(hashtextextended(v_session.member_id || ':' || p_idempotency_key, 0)) then
      perform refuse('idempotency_in_flight');
    end if;
    select i.fingerprint, i.result, i.created_at
    into v_stored
    from idempotency_keys i
    where i.actor_id = v_session.member_id and i.key = p_idempotency_key;
    if found and v_stored.created_at < clock() - interval '24 hours' then
      delete from idempotency_keys i
      where i.actor_id = v_session.member_id and i.key = p_idempotency_key;
    elsif found and v_stored.fingerprint <> p_fingerprint then
      perform refuse('idempotency_key_reused');
    elsif found then
      raise exception using errcode = 'SW001', message = 'replay', detail = v_stored.result::text;
    end if;
  end if;
  return query select v_session.organization_id, v_tenant, v_session.member_id, v_is_limited;
end $$;
--> statement-breakpoint
reset role;
--> statement-breakpoint
revoke create on schema public from slipway_system;
--> statement-breakpoint
alter table sign_in_links alter column made_by set default own_credential();
alter table uploads alter column made_by set default own_credential();
--> statement-breakpoint
create or replace function use_sign_in_link(p_link_hash text, p_token_hash text, p_limit bigint) returns sessions
language plpgsql as $$
declare
  v_link sign_in_links;
  v_session sessions;
  v_is_ended boolean;
begin
  -- The member is locked first, as by its deletion.
  perform from members m
  where m.id = (select l.member_id from sign_in_links l where l.token_hash = p_link_hash)
  for key share;
  select * into v_link from sign_in_links where token_hash = p_link_hash for update;
  if not found then return null; end if;
  v_is_ended := v_link.made_by is not null and not is_living_credential(v_link.made_by);
  if v_link.used_at is not null or v_link.expires_at <= clock() or v_is_ended then
    perform journal_refused_sign_in(
      v_link.organization_id, v_link.member_id,
      json_build_object('method', 'link', 'reason', case
        when v_link.used_at is not null then 'used'
        when v_link.expires_at <= clock() then 'expired'
        else 'revoked'
      end),
      p_limit
    );
    return null;
  end if;
  update sign_in_links set used_at = clock() where id = v_link.id;
  v_session := open_session(v_link.member_id, p_token_hash, 'link', p_limit);
  update sessions s
  set made_by = maker_of_session(v_link.made_by, v_link.member_id)
  where s.id = v_session.id
  returning * into v_session;
  return v_session;
end $$;
--> statement-breakpoint
create or replace function redeem_device_code(
  p_device_code_hash text,
  p_key_hash text,
  p_hint text,
  p_limit bigint
) returns json
language plpgsql as $$
declare
  v_request device_requests;
  v_polled device_requests;
  v_key api_keys;
begin
  -- The rows that the deletion of a member or a workspace locks before the request are locked first, in its order.
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
      -- A delay in the network can make it a second early.
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

  -- The key by whose link the member had signed in has ended.
  if is_maker_ended(v_request.made_by_key) then return json_build_object('error', 'access_denied'); end if;

  perform act_as_member(v_request.member_id);
  perform set_config('app.tenant_id', v_request.tenant_id::text, true);
  delete from device_requests d where d.id = v_request.id;
  insert into api_keys (
    organization_id, tenant_id, member_id, description, hint, key_hash, role_id, permissions, expires_at, created_by
  )
  values (
    v_request.organization_id, v_request.tenant_id, v_request.member_id,
    'Command line' || coalesce(' on ' || v_request.device_name, ''),
    p_hint, p_key_hash, v_request.role_id, v_request.permissions,
    bound_expiry(clock() + interval '90 days', v_request.made_by_key), v_request.made_by_key
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
      'expires_at', v_key.expires_at, 'created_by', v_key.created_by, 'member_id', v_key.member_id
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
--> statement-breakpoint
create or replace function redeem_authorization_code(
  p_code_hash text,
  p_client_id text,
  p_redirect_uri text,
  p_resource text,
  p_code_challenge text,
  p_key_hash text,
  p_hint text,
  p_token_family text,
  p_refresh_hash text,
  p_limit bigint
) returns json
language plpgsql as $$
declare
  v_grant oauth_grants;
  v_key api_keys;
  v_least_used uuid;
begin
  select * into v_grant from oauth_grants where code_hash = p_code_hash;
  if not found then return json_build_object('error', 'invalid_grant'); end if;
  -- The order in which a member or a workspace is deleted: keys, the member, the workspace, its grants.
  perform from api_keys a
  where a.id in (
    select g.key_id from oauth_grants g where g.member_id = v_grant.member_id and g.tenant_id = v_grant.tenant_id
  )
  order by a.id
  for no key update;
  perform from members m where m.id = v_grant.member_id for key share;
  perform from workspaces w where w.id = v_grant.tenant_id for key share;
  select * into v_grant from oauth_grants where code_hash = p_code_hash for update;
  if not found
    or v_grant.client_id <> p_client_id
    or v_grant.redirect_uri <> coalesce(p_redirect_uri, v_grant.redirect_uri)
    or v_grant.code_challenge <> p_code_challenge
  then
    return json_build_object('error', 'invalid_grant');
  end if;
  if v_grant.resource <> coalesce(p_resource, v_grant.resource) then
    return json_build_object('error', 'invalid_target');
  end if;
  if v_grant.key_id is not null then
    perform act_as_client(v_grant);
    perform journal(
      array['client.code_reused'], array[v_grant.key_id],
      array[json_build_object('client_id', v_grant.client_id, 'client_name', v_grant.client_name)],
      array[null::json], null, 0
    )
    from api_keys a
    where a.id = v_grant.key_id and a.revoked_at is null;
    perform revoke_key_tree(v_grant.key_id);
    return json_build_object('error', 'invalid_grant');
  end if;
  if v_grant.expires_at <= clock() or is_maker_ended(v_grant.made_by_key) then
    return json_build_object('error', 'invalid_grant');
  end if;

  perform act_as_member(v_grant.member_id);
  perform set_config('app.tenant_id', v_grant.tenant_id::text, true);
  for v_least_used in
    select a.id
    from oauth_grants g
    join api_keys a on a.id = g.key_id
    where g.member_id = v_grant.member_id and g.tenant_id = v_grant.tenant_id
      and a.revoked_at is null and g.expires_at > clock()
    order by coalesce(a.last_used_at, a.created_at) desc, a.id
    offset 49
  loop
    perform revoke_key_tree(v_least_used);
  end loop;
  insert into api_keys (
    organization_id, tenant_id, member_id, description, hint, key_hash, role_id, permissions, expires_at, created_by
  )
  values (
    v_grant.organization_id, v_grant.tenant_id, v_grant.member_id, v_grant.client_name, p_hint, p_key_hash,
    v_grant.role_id, v_grant.permissions,
    bound_expiry(clock() + interval '1 hour', v_grant.made_by_key), v_grant.made_by_key
  )
  returning * into v_key;
  -- The member has lost the workspace since the approval.
  if bound_key_permissions(v_key.id) is null then
    delete from api_keys where id = v_key.id;
    return json_build_object('error', 'invalid_grant');
  end if;
  update oauth_grants g
  set key_id = v_key.id, token_family = p_token_family, refresh_hash = p_refresh_hash,
    refreshed_at = clock(), expires_at = clock() + interval '90 days'
  where g.id = v_grant.id
  returning * into v_grant;
  perform journal(
    array['api_key.created'], array[v_key.id],
    array[json_build_object(
      'member_id', v_key.member_id, 'client_id', v_grant.client_id, 'client_name', v_grant.client_name
    )],
    array[changed_members(null, jsonb_build_object(
      'description', v_key.description, 'role_id', v_key.role_id, 'permissions', v_key.permissions,
      'expires_at', v_key.expires_at, 'created_by', v_key.created_by, 'member_id', v_key.member_id
    ))],
    p_limit, 0
  );
  return answer_of_grant(v_grant, v_key);
end $$;
--> statement-breakpoint
create function lock_key_tree(p_key uuid) returns void
language plpgsql as $$
begin
  perform from api_keys a
  where a.id in (
    with recursive tree as (
      select p_key as id
      union
      select a.id
      from api_keys a
      join tree t on a.created_by = t.id
    )
    select id from tree
  )
  order by a.id
  for no key update;
end $$;
--> statement-breakpoint
-- Revokes the keys that a replaced access token has made, and blanks the answers that are stored for its requests.
-- Their idempotency keys stay used, so that no request acts twice.
create function end_access_token(p_key uuid) returns void
language plpgsql as $$
begin
  perform revoke_key_tree(a.id)
  from api_keys a
  where a.created_by = p_key and a.revoked_at is null and (a.expires_at is null or a.expires_at > clock());
  update idempotency_keys i
  set fingerprint = 'ended', result = 'null'
  where i.actor_id = p_key and i.fingerprint <> 'ended';
end $$;
--> statement-breakpoint
create or replace function refresh_client(
  p_token_family text,
  p_refresh_hash text,
  p_client_id text,
  p_resource text,
  p_next_refresh_hash text,
  p_key_hash text,
  p_hint text
) returns json
language plpgsql as $$
declare
  v_grant oauth_grants;
  v_key api_keys;
begin
  -- This locks in the order of ids, like a revocation.
  perform lock_key_tree((select g.key_id from oauth_grants g where g.token_family = p_token_family));
  select a.* into v_key
  from api_keys a
  where a.id = (select g.key_id from oauth_grants g where g.token_family = p_token_family)
  for no key update;
  if not found then return json_build_object('error', 'invalid_grant'); end if;
  select * into v_grant from oauth_grants where token_family = p_token_family for update;
  if not found
    or v_grant.client_id <> p_client_id
    or v_key.revoked_at is not null
    or v_grant.expires_at <= clock()
  then
    return json_build_object('error', 'invalid_grant');
  end if;
  if v_grant.resource <> coalesce(p_resource, v_grant.resource) then
    return json_build_object('error', 'invalid_target');
  end if;

  if v_grant.refresh_hash = p_refresh_hash then
    -- The member may get the workspace back.
    if bound_key_permissions(v_key.id) is null then return json_build_object('error', 'invalid_grant'); end if;
    if is_maker_ended(v_key.created_by) then
      return json_build_object('error', 'invalid_grant');
    end if;
    perform act_as_client(v_grant);
    perform end_access_token(v_key.id);
    update api_keys a
    set key_hash = p_key_hash, hint = p_hint, expires_at = bound_expiry(clock() + interval '1 hour', a.created_by)
    where a.id = v_key.id
    returning a.* into v_key;
    update oauth_grants g
    set refresh_hash = p_next_refresh_hash, previous_refresh_hash = p_refresh_hash, refreshed_at = clock(),
      expires_at = clock() + interval '90 days'
    where g.id = v_grant.id;
    return answer_of_grant(v_grant, v_key);
  end if;
  if v_grant.previous_refresh_hash = p_refresh_hash and v_grant.refreshed_at > clock() - interval '1 minute' then
    -- They differ once the installation seals with another key.
    if v_grant.refresh_hash <> p_next_refresh_hash or v_key.key_hash <> p_key_hash then
      return json_build_object('error', 'invalid_grant');
    end if;
    return answer_of_grant(v_grant, v_key);
  end if;
  perform act_as_client(v_grant);
  perform journal(
    array['client.token_reused'], array[v_key.id],
    array[json_build_object('client_id', v_grant.client_id, 'client_name', v_grant.client_name)],
    array[null::json], null, 0
  );
  perform revoke_key_tree(v_key.id);
  return json_build_object('error', 'invalid_grant');
end $$;
--> statement-breakpoint
--> batches
-- Sessions that keys of connected clients and of trusted issuers have opened.
update sessions s
set revoked_at = clock()
where s.id in (
  select o.id
  from sessions o
  where o.key_id is not null and o.revoked_at is null and is_temporary_key(o.key_id)
  limit 1000
);
