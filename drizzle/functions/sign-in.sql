-- Sessions, links that open one, device sign-in, and the credentials that are derived from others.

-- A caller that makes a link for a member can act as that member, so it needs every permission that the member has.
create function require_signable_member(p_member uuid) returns uuid
language plpgsql stable as $$
begin
  perform require_member(p_member);
  perform require_grantable_permissions(array(
    select unnest(r.permissions)
    from members m
    join roles r on r.id = m.role_id
    where m.id = p_member
    union
    select unnest(r.permissions)
    from workspace_members m
    join roles r on r.id = m.role_id
    where m.member_id = p_member
  ));
  perform require_grantable_policies(policy_roles(null, p_member, null));
  return p_member;
end $$;

-- The rest of the transaction acts as the member, for scheduled and sign-in work.
create function act_as_member(p_member uuid) returns void
language sql as $$
  select
    set_config('app.organization_id', m.organization_id::text, true),
    set_config('app.tenant_id', '', true),
    set_config('app.actor_kind', 'session', true),
    set_config('app.actor_id', m.id::text, true),
    set_config('app.actor_name', coalesce(m.full_name, m.email), true)
  from members m
  where m.id = p_member
$$;

create function open_session(p_member uuid, p_token_hash text, p_method text, p_limit bigint) returns sessions
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_session sessions;
begin
  perform act_as_member(p_member);
  insert into sessions (organization_id, member_id, token_hash, method, is_verified, client_address, user_agent)
  values (
    current_organization(), p_member, p_token_hash, p_method, p_method = 'oidc',
    setting('request')::json ->> 'client_address', setting('request')::json ->> 'user_agent'
  )
  returning * into v_session;
  perform journal(
    array['session.opened'], array[v_session.id], array[json_build_object('method', p_method)],
    array[changed_members(null, jsonb_build_object('method', p_method, 'expires_at', v_session.expires_at))],
    p_limit, 0
  );
  return v_session;
end $$;

-- Opens a session by a link. Null if there is no such link, if it was used, or if it has expired.
create function use_sign_in_link(p_link_hash text, p_token_hash text, p_limit bigint) returns sessions
language plpgsql set plan_cache_mode = force_generic_plan as $$
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
  set made_by = maker_of_session(v_link.made_by, v_link.member_id), is_verified = v_link.made_by is null
  where s.id = v_session.id
  returning * into v_session;
  return v_session;
end $$;

-- Signs in the person that an identity provider vouches for. A bound subject is enough. Otherwise the verified address
-- has to be a member's, or of a domain whose people may join `p_join`. With the first of `p_roles` that the
-- organization has, the member gets that role. Returns the session, or why there is none.
create function sign_in_by_identity(
  p_issuer text,
  p_subject text,
  p_email text,
  p_is_verified boolean,
  p_name text,
  p_join uuid,
  p_roles uuid[],
  p_token_hash text,
  p_limit bigint
) returns json
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_found record;
  v_member uuid;
  v_refusal json;
  v_wait text;
  v_role uuid;
  v_changes json;
begin
  for v_found in
    select m.id, m.organization_id
    from members m
    where p_is_verified and m.email = p_email
      and not exists (select from identities i where i.member_id = m.id and i.issuer = p_issuer)
    order by m.id
    for no key update
  loop
    begin
      insert into identities (organization_id, member_id, issuer, subject)
      values (v_found.organization_id, v_found.id, p_issuer, p_subject)
      on conflict do nothing;
      if found then
        perform journal_of_identity(v_found.id, p_issuer, p_subject, p_limit);
      end if;
    exception when sqlstate 'SW000' then
      -- A full journal keeps the person out of its own organization only.
      get stacked diagnostics v_wait = pg_exception_detail;
    end;
  end loop;

  -- Of several organizations, the one where the person was last signed in.
  select i.member_id
  into v_member
  from identities i
  join members m on m.id = i.member_id
  where i.issuer = p_issuer and i.subject = p_subject
  order by (select max(s.created_at) from sessions s where s.member_id = m.id) desc nulls last, m.created_at, m.id
  limit 1;

  if not found then
    if v_wait is not null then perform refuse('journal_full', v_wait); end if;
    v_refusal := json_build_object(
      'method', 'oidc', 'reason', case when p_is_verified then 'other_subject' else 'email_unverified' end,
      'issuer', p_issuer, 'subject', p_subject, 'email', p_email
    );
    for v_found in
      select m.id, m.organization_id
      from members m
      where m.email = p_email
      order by m.id
    loop
      perform journal_refused_sign_in(v_found.organization_id, v_found.id, v_refusal, p_limit);
    end loop;
    if found then
      return json_build_object('refusal', case when p_is_verified then 'identity_unknown' else 'email_unverified' end);
    end if;
    if not p_is_verified then
      perform journal_refused_sign_in(o.id, null, v_refusal, p_limit)
      from organizations o
      where o.id = p_join;
      return json_build_object('refusal', 'email_unverified');
    end if;
    if p_join is null or not exists (select from organizations where id = p_join) then
      return json_build_object('refusal', 'identity_unknown');
    end if;
    insert into members (organization_id, email, full_name, role_id)
    values (p_join, p_email, p_name, '00000000-0000-4000-8000-000000000005')
    on conflict (organization_id, email) do update set email = excluded.email
    returning id, changed_members(null, jsonb_build_object('email', email, 'full_name', full_name, 'role_id', role_id))
    into v_member, v_changes;
    insert into identities (organization_id, member_id, issuer, subject)
    values (p_join, v_member, p_issuer, p_subject)
    on conflict do nothing;
    perform journal_of_member(v_member, 'member.added', json_build_object('email', p_email), v_changes, p_limit);
    perform journal_of_identity(v_member, p_issuer, p_subject, p_limit);
  end if;

  select r.id
  into v_role
  from unnest(p_roles) with ordinality as given(id, place)
  join members m on m.id = v_member
  join roles r on r.id = given.id and r.scope = 'organization'
    and (r.organization_id is null or r.organization_id = m.organization_id)
  order by given.place
  limit 1;
  select changed_members(jsonb_build_object('role_id', role_id), jsonb_build_object('role_id', v_role))
  into v_changes
  from members
  where id = v_member and role_id <> v_role
  for no key update;
  if found then
    begin
      update members
      set role_id = v_role, version = version + 1, updated_at = clock()
      where id = v_member;
      perform journal_of_member(v_member, 'member.updated', json_build_object('role_id', v_role), v_changes, p_limit);
    exception when sqlstate 'SW000' then
      -- The last Admin of the organization keeps the role, whatever the groups are.
      null;
    end;
  end if;
  return json_build_object('session', open_session(v_member, p_token_hash, 'oidc', p_limit));
end $$;

-- A request that waits for a decision, by its code. Each search counts, so that codes cannot be guessed.
create function find_device_request(p_user_code text) returns setof device_requests
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
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

-- The permissions of a built-in role that the calling member grants to a device: those that the member has in the
-- workspace and that the device asks for.
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

-- Shows a device's request, with the permissions that the calling member could grant in each workspace.
create function read_device_request(p_user_code text) returns json
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
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
grant execute on function read_device_request(text) to slipway_app;

-- Approves with a workspace and a built-in role, and denies without.
create function decide_device_request(p_user_code text, p_tenant uuid, p_role uuid) returns setof device_requests
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
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
    permissions = v_permissions, decided_at = clock(),
    is_verified = exists (select from sessions s where s.id = setting('session_id')::uuid and s.is_verified)
  where d.id = v_request.id and d.decided_at is null
  returning d.*;
end $$;
grant execute on function decide_device_request(text, uuid, uuid) to slipway_app;

-- The key for an approved device, once: the request is deleted with it. Otherwise the error of RFC 8628.
create function redeem_device_code(
  p_device_code_hash text,
  p_key_hash text,
  p_hint text,
  p_limit bigint
) returns json
language plpgsql set plan_cache_mode = force_generic_plan as $$
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
    organization_id, tenant_id, member_id, description, hint, key_hash, role_id, permissions, expires_at, created_by,
    is_verified
  )
  values (
    v_request.organization_id, v_request.tenant_id, v_request.member_id,
    'Command line' || coalesce(' on ' || v_request.device_name, ''),
    p_hint, p_key_hash, v_request.role_id, v_request.permissions,
    bound_expiry(clock() + interval '90 days', v_request.made_by_key), v_request.made_by_key,
    v_request.is_verified
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

-- The time, or that at which the key ends if it is earlier.
create function bound_expiry(p_until timestamptz, p_key uuid) returns timestamptz
language sql stable as $$
  select least(p_until, (select a.expires_at from api_keys a where a.id = p_key))
$$;

-- A row without a key has not ended.
create function is_maker_ended(p_key uuid) returns boolean
language sql stable as $$
  select is_grant_ended(p_key, bound_expiry(null, p_key))
$$;

-- The credential of the caller. A session that was opened with a key is that key.
create function own_credential() returns text
language sql stable security definer set search_path = public, pg_temp as $$
  select case setting('actor_kind')
    when 'key' then (select a.key_hash from api_keys a where a.id = current_actor())
    when 'session' then (select s.token_hash from sessions s where s.id = setting('session_id')::uuid)
  end
$$;
grant execute on function own_credential() to slipway_app;

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
grant execute on function maker_key() to slipway_app;

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

-- The key that answers for a trusted issuer. Null where the caller is a member.
create function granting_key() returns uuid
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_key uuid := (maker_key()).id;
begin
  if is_temporary_key(v_key) then perform refuse('temporary_key'); end if;
  return v_key;
end $$;
grant execute on function granting_key() to slipway_app;

-- Triggers, so that no way of making these rows can leave it out.
create function refuse_temporary_key() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  -- The foreign key takes this lock after the journal's, and another request of the key takes them in this order.
  perform from api_keys a where a.id = new.key_id for key share;
  -- Row-level security refuses the key of another organization, and says nothing about it.
  if is_own_key(new.key_id) and is_temporary_key(new.key_id) then perform refuse('temporary_key'); end if;
  return new;
end $$;
create trigger refuse_temporary_key
  before insert on sessions
  for each row when (new.key_id is not null) execute function refuse_temporary_key();

create function remember_maker_key() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  new.made_by_key := (maker_key()).id;
  return new;
end $$;
create trigger remember_maker_key
  before insert on oauth_grants
  for each row execute function remember_maker_key();
create trigger remember_maker_key
  before update of decided_at on device_requests
  for each row execute function remember_maker_key();

-- Revokes the keys that a replaced access token has made, and blanks the answers that are stored for its requests.
-- Their idempotency keys stay used, so that no request acts twice.
create function end_access_token(p_key uuid) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  perform revoke_key_tree(a.id)
  from api_keys a
  where a.created_by = p_key and a.revoked_at is null and (a.expires_at is null or a.expires_at > clock());
  update idempotency_keys i
  set fingerprint = 'ended', result = 'null'
  where i.actor_id = p_key and i.fingerprint <> 'ended';
end $$;
