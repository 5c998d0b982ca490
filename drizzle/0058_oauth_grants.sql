-- Programs that people connect by OAuth 2.1 (authorization code with PKCE, and refresh tokens). A connected client has
-- one API key as long as it stays connected: a refresh replaces the text of the key, so that lists, audit, rate limits
-- and idempotency keys know one caller.
create table oauth_grants (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  member_id uuid not null,
  role_id uuid not null,
  permissions text[] not null,
  client_id text not null,
  client_name text not null,
  redirect_uri text not null,
  resource text not null,
  code_hash text not null,
  code_challenge text not null,
  key_id uuid,
  token_family text,
  refresh_hash text,
  previous_refresh_hash text,
  refreshed_at timestamptz,
  created_at timestamptz default clock() not null,
  expires_at timestamptz default clock() + interval '5 minutes' not null,
  constraint oauth_grants_code unique (code_hash),
  constraint oauth_grants_key unique (key_id),
  constraint oauth_grants_token_family unique (token_family),
  constraint oauth_grants_organization_id_organizations_id_fk
    foreign key (organization_id) references organizations(id) on delete cascade,
  constraint oauth_grants_tenant_id_workspaces_id_fk
    foreign key (tenant_id) references workspaces(id) on delete cascade,
  constraint oauth_grants_member_id_members_id_fk foreign key (member_id) references members(id) on delete cascade,
  constraint oauth_grants_key_id_api_keys_id_fk foreign key (key_id) references api_keys(id) on delete cascade
);
create index oauth_grants_organization on oauth_grants (organization_id);
create index oauth_grants_tenant on oauth_grants (tenant_id);
create index oauth_grants_member on oauth_grants (member_id, tenant_id);
create index oauth_grants_age on oauth_grants (expires_at);
--> statement-breakpoint
-- Members reach it through the functions below only.
alter table oauth_grants enable row level security, force row level security;
create policy everything on oauth_grants to slipway_system using (true) with check (true);
grant select, insert, update, delete on oauth_grants to slipway_system;
--> statement-breakpoint
grant create on schema public to slipway_system;
--> statement-breakpoint
set local role slipway_system;
--> statement-breakpoint
-- What the calling member can grant there with a built-in role, of the permissions asked for (null: any).
create function grantable_permissions(p_scope text[], p_tenant uuid, p_role uuid) returns text[]
language sql stable as $$
  select device_permissions(
    jsonb_populate_record(null::device_requests, jsonb_build_object('permissions', p_scope)), p_tenant, p_role
  )
$$;
--> statement-breakpoint
-- The workspaces in which the calling member could connect a client, with what it could grant there.
create function read_grantable_workspaces(p_scope text[]) returns json
language plpgsql security definer set search_path = public, pg_temp as $$
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
--> statement-breakpoint
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
language plpgsql security definer set search_path = public, pg_temp as $$
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
--> statement-breakpoint
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
--> statement-breakpoint
revoke execute on function
  read_grantable_workspaces(text[]),
  approve_client(uuid, uuid, text[], text, text, text, text, text, text),
  client_of_key(uuid)
  from public;
grant execute on function
  read_grantable_workspaces(text[]),
  approve_client(uuid, uuid, text[], text, text, text, text, text, text),
  client_of_key(uuid)
  to slipway_app;
--> statement-breakpoint
reset role;
--> statement-breakpoint
revoke create on schema public from slipway_system;
--> statement-breakpoint
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
--> statement-breakpoint
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
--> statement-breakpoint
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
  if v_grant.expires_at <= clock() then return json_build_object('error', 'invalid_grant'); end if;

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
    organization_id, tenant_id, member_id, description, hint, key_hash, role_id, permissions, expires_at
  )
  values (
    v_grant.organization_id, v_grant.tenant_id, v_grant.member_id, v_grant.client_name, p_hint, p_key_hash,
    v_grant.role_id, v_grant.permissions, clock() + interval '1 hour'
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
      'expires_at', v_key.expires_at, 'member_id', v_key.member_id
    ))],
    p_limit, 0
  );
  return answer_of_grant(v_grant, v_key);
end $$;
--> statement-breakpoint
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
language plpgsql as $$
declare
  v_grant oauth_grants;
  v_key api_keys;
begin
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
    update api_keys a
    set key_hash = p_key_hash, hint = p_hint, expires_at = clock() + interval '1 hour'
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
-- RFC 7009, for either token of a client. An unknown token is not an error.
create function revoke_client(p_key_hash text, p_token_family text, p_client_id text) returns void
language plpgsql as $$
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
