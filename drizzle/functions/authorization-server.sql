-- Keys for programs by OAuth: grants, refresh, token exchange.

-- The requested permissions (null: all) that the calling member can grant in a workspace with a built-in role.
create function grantable_permissions(p_scope text[], p_tenant uuid, p_role uuid) returns text[]
language sql stable as $$
  select device_permissions(
    jsonb_populate_record(null::device_requests, jsonb_build_object('permissions', p_scope)), p_tenant, p_role
  )
$$;

-- The workspaces in which the calling member could connect a client, with what it could grant there.
create function read_grantable_workspaces(p_scope text[]) returns json
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  if setting('actor_kind') <> 'session' then perform refuse('member_required'); end if;
  return (
    select coalesce(
      json_agg(
        json_build_object(
          'id', w.id,
          'display_name', w.display_name,
          'all', g.permissions,
          'read', coalesce(grantable_permissions(p_scope, w.id, '00000000-0000-4000-8000-000000000003'), '{}')
        )
        order by w.created_at, w.id
      ),
      '[]'
    )
    from workspaces w
    cross join lateral grantable_permissions(p_scope, w.id, '00000000-0000-4000-8000-000000000001') g(permissions)
    where w.organization_id = current_organization() and g.permissions is not null
  );
end $$;
grant execute on function read_grantable_workspaces(text[]) to slipway_app;

-- Stores an authorization code. A member has at most 20 that no client has redeemed.
create function approve_client(
  p_tenant uuid,
  p_role uuid,
  p_scope text[],
  p_client_id text,
  p_client_name text,
  p_redirect_uri text,
  p_resource text,
  p_code_challenge text,
  p_code_hash text
) returns setof oauth_grants
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_permissions text[];
begin
  if setting('actor_kind') <> 'session' then perform refuse('member_required'); end if;
  v_permissions := grantable_permissions(p_scope, p_tenant, p_role);
  if v_permissions is null then perform refuse('workspace_forbidden'); end if;
  delete from oauth_grants g
  where g.id in (
    select o.id
    from oauth_grants o
    where o.member_id = current_actor() and o.key_id is null
    order by o.created_at desc, o.id
    offset 19
  );
  return query
  insert into oauth_grants (
    organization_id, tenant_id, member_id, role_id, permissions, client_id, client_name, redirect_uri, resource,
    code_hash, code_challenge
  )
  values (
    current_organization(), p_tenant, current_actor(), p_role, v_permissions, p_client_id, p_client_name,
    p_redirect_uri, p_resource, p_code_hash, p_code_challenge
  )
  returning *;
end $$;
grant execute on function approve_client(uuid, uuid, text[], text, text, text, text, text, text) to slipway_app;

-- The connected client that has the key. Null for other keys.
create function client_of_key(p_key uuid) returns json
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return (
    select json_build_object('id', g.client_id, 'name', g.client_name, 'expires_at', g.expires_at)
    from oauth_grants g
    where g.key_id = p_key and g.organization_id = current_organization()
  );
end $$;
grant execute on function client_of_key(uuid) to slipway_app;

-- The functions below run without a caller. They return an answer of the token endpoint, or its error.
create function act_as_client(p_grant oauth_grants) returns void
language sql as $$
  select
    set_config('app.organization_id', p_grant.organization_id::text, true),
    set_config('app.tenant_id', p_grant.tenant_id::text, true),
    set_config('app.actor_kind', 'key', true),
    set_config('app.actor_id', p_grant.key_id::text, true),
    set_config('app.actor_name', p_grant.client_name, true)
$$;

-- The permissions are those that the member has now, too.
create function answer_of_grant(p_grant oauth_grants, p_key api_keys) returns json
language sql stable as $$
  select json_build_object(
    'api_key_id', p_key.id,
    'workspace_id', p_key.tenant_id,
    'organization_id', p_key.organization_id,
    'permissions', coalesce(bound_key_permissions(p_key.id), '{}'),
    'expires_in', greatest(extract(epoch from p_key.expires_at - clock())::integer, 0)
  )
$$;

-- A code that is used again has leaked, so its client is disconnected. Only the holder of the verifier can use it.
create function redeem_authorization_code(
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
language plpgsql set plan_cache_mode = force_generic_plan as $$
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

-- Replaces the access token and the refresh token. The new ones are computed from the old refresh token, so for a
-- minute the old one gets the same answer again: the client has not received it, or two of its processes refresh at
-- once. After that, an old token has leaked, so the client is disconnected. Not journaled: the caller and its rights
-- stay the same.
create function refresh_client(
  p_token_family text,
  p_refresh_hash text,
  p_client_id text,
  p_resource text,
  p_next_refresh_hash text,
  p_key_hash text,
  p_hint text
) returns json
language plpgsql set plan_cache_mode = force_generic_plan as $$
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

-- RFC 7009, for either token of a client. An unknown token is not an error.
create function revoke_client(p_key_hash text, p_token_family text, p_client_id text) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_grant oauth_grants;
begin
  select g.* into v_grant
  from oauth_grants g
  join api_keys a on a.id = g.key_id
  where (a.key_hash = p_key_hash or g.token_family = p_token_family)
    and g.client_id = coalesce(p_client_id, g.client_id);
  if not found then return; end if;
  perform act_as_client(v_grant);
  perform revoke_key_tree(v_grant.key_id);
end $$;

-- Row-level security can hide the key from the caller.
create function is_grant_ended(p_key uuid, p_expires_at timestamptz) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return coalesce(p_expires_at <= clock(), false)
    or (p_key is not null and not exists (select from api_keys a where a.id = p_key and a.revoked_at is null));
end $$;
grant execute on function is_grant_ended(uuid, timestamp with time zone) to slipway_app;

-- A key for a token whose signature and claims were checked against this version of the trusted issuer. Otherwise the
-- reason of the refusal.
create function exchange_token(
  p_issuer uuid,
  p_version integer,
  p_token json,
  p_permissions text[],
  p_key_hash text,
  p_hint text,
  p_limit bigint
) returns json
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_trusted trusted_issuers;
  v_key api_keys;
  v_role_permissions text[];
begin
  -- First what the deletion of a workspace locks before the row, in the same order.
  perform from workspaces w
  where w.id = (select t.tenant_id from trusted_issuers t where t.id = p_issuer)
  for key share;
  -- The lock serializes exchanges, so that the number of keys is exact.
  select * into v_trusted from trusted_issuers t where t.id = p_issuer for no key update;
  if not found or v_trusted.version <> p_version then return json_build_object('refusal', 'issuer_changed'); end if;
  -- A revocation of the key that granted the role waits for this lock, and then finds the new key.
  perform from api_keys a where a.id = v_trusted.granted_by for share;
  if is_grant_ended(v_trusted.granted_by, v_trusted.expires_at) then
    return json_build_object('refusal', 'grant_ended');
  end if;
  select r.permissions into v_role_permissions from roles r where r.id = v_trusted.role_id;
  if not p_permissions <@ v_role_permissions then return json_build_object('refusal', 'scope_exceeds_role'); end if;
  if (
    select count(*)
    from (
      select
      from api_keys a
      where a.trusted_issuer_id = v_trusted.id and a.expires_at > clock() and a.revoked_at is null
      limit 1000
    ) active
  ) >= 1000 then
    return json_build_object('refusal', 'too_many_keys');
  end if;
  insert into exchanged_tokens (token_hash, organization_id, tenant_id, expires_at)
  values (
    p_token ->> 'hash', v_trusted.organization_id, v_trusted.tenant_id,
    to_timestamp((p_token ->> 'expires')::double precision)
  )
  on conflict do nothing;
  if not found then return json_build_object('refusal', 'token_replayed'); end if;

  perform
    set_config('app.organization_id', v_trusted.organization_id::text, true),
    set_config('app.tenant_id', v_trusted.tenant_id::text, true),
    set_config('app.actor_kind', 'key', true),
    set_config('app.actor_name', p_token ->> 'subject', true);
  insert into api_keys (
    organization_id, tenant_id, trusted_issuer_id, description, hint, key_hash, role_id, permissions, expires_at,
    created_by
  )
  values (
    v_trusted.organization_id, v_trusted.tenant_id, v_trusted.id, p_token ->> 'description', p_hint, p_key_hash,
    v_trusted.role_id, p_permissions,
    least(clock() + make_interval(mins => least(v_trusted.key_minutes, 15)), v_trusted.expires_at), v_trusted.granted_by
  )
  returning * into v_key;
  -- The member whose key granted the role has lost the workspace.
  if v_key.member_id is not null and bound_key_permissions(v_key.id) is null then
    delete from api_keys where id = v_key.id;
    delete from exchanged_tokens where token_hash = p_token ->> 'hash';
    return json_build_object('refusal', 'grant_ended');
  end if;
  -- Keys that follow one another share one rate limit.
  if v_trusted.granted_by is null then
    update api_keys set budget_id = v_trusted.id where id = v_key.id;
  end if;
  update trusted_issuers set last_used_at = clock() where id = v_trusted.id;
  perform set_config('app.actor_id', v_key.id::text, true);
  perform journal(
    array['api_key.created'], array[v_key.id],
    array[json_build_object(
      'trusted_issuer_id', v_trusted.id, 'issuer', v_trusted.issuer, 'subject', p_token -> 'subject',
      'audience', v_trusted.audience, 'claims', p_token -> 'claims', 'token_id', p_token -> 'id'
    )],
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
    'permissions', case
      when v_key.member_id is not null then bound_key_permissions(v_key.id)
      else coalesce(v_key.permissions, v_role_permissions)
    end,
    'expires_in', floor(extract(epoch from v_key.expires_at - clock()))::integer
  );
end $$;
