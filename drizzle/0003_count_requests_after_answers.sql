-- Custom SQL migration file, put your code below! ----> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
set local role slipway_system;
create or replace function count_answered_requests(p_budget text, p_hashes text[], p_requests integer[], p_clock_offset text, p_counts boolean)
 RETURNS TABLE(key_hash text, budget_id uuid, requests integer, reset integer)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  update api_keys a
  set last_used_at = clock()
  where a.id in (
    select k.id
    from (
      select i.id from api_keys i where i.key_hash = any(p_hashes)
      union
      select o.key_id from sessions o where o.token_hash = any(p_hashes) and is_alive(o)
    ) used
    join api_keys k on k.id = used.id
    where k.revoked_at is null and (k.last_used_at is null or k.last_used_at < clock() - interval '1 minute')
    order by k.id
    for no key update of k skip locked
  );
  update sessions s
  set last_seen_at = clock()
  where s.id in (
    select o.id from sessions o
    where o.token_hash = any(p_hashes) and is_alive(o) and o.last_seen_at < clock() - interval '1 minute'
    order by o.id
    for no key update skip locked
  );
  return query
  with alive as (
    select
      g.key_hash,
      b.budget_id,
      case p_budget when 'ingestion' then ingestion_window(b.budget_id) else b.budget_id end as window_id,
      g.requests
    from unnest(p_hashes, p_requests) as g(key_hash, requests)
    join budgets_of(p_hashes) b on b.hash = g.key_hash
  ),
  counted as (
    insert into rate_windows as w (key_id, started_at, requests)
    select a.window_id, clock(), sum(a.requests)::integer
    from alive a
    where p_counts
    group by a.window_id
    order by a.window_id
    on conflict (key_id) do update set
      requests = excluded.requests
        + case when w.started_at > clock() - interval '60 seconds' then w.requests else 0 end,
      started_at =
        case when w.started_at > clock() - interval '60 seconds' then w.started_at else excluded.started_at end
    returning w.key_id, w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  )
  select a.key_hash, a.budget_id, c.requests, c.reset
  from alive a
  left join counted c on c.key_id = a.window_id;
end $function$;
reset role;
set local role slipway_system;
create or replace function enter(p_key_hash text, p_workspace uuid, p_permission text, p_in_workspace boolean, p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint text, p_access jsonb)
 RETURNS TABLE(organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean)
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select e.organization_id, e.tenant_id, e.actor_id, e.is_limited
  from enter_by_key(
    p_key_hash, p_workspace, p_permission, p_in_workspace, p_request_id, p_clock_offset, p_without_if_match,
    p_idempotency_key, p_fingerprint, p_access
  ) e
$function$;
reset role;
set local role slipway_system;
create or replace function enter_by_deployment(p_key text, p_workspace uuid, p_permission text, p_in_workspace boolean, p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint text, p_access jsonb)
 RETURNS TABLE(organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean, budget_id uuid)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_deployment record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  select d.id, d.organization_id, d.tenant_id, d.name, p.id as project_id, p.name as project
  into v_deployment
  from deployments d
  join projects p on p.deployment_id = d.id
  where d.id = trace_key_deployment(p_key)
    and d.trace_key_version = split_part(p_key, '.', 2)::integer
    and d.deleting_at is null;
  if not found then perform refuse('key_revoked'); end if;
  if p_permission is distinct from credential_permission(p_key) then
    if credential_permission(p_key) = 'models:invoke' then perform refuse('model_token_confined'); end if;
    perform refuse('trace_key_confined', v_deployment.project);
  end if;
  if p_workspace <> v_deployment.tenant_id then perform refuse('workspace_forbidden'); end if;
  perform
    set_config('app.organization_id', v_deployment.organization_id::text, true),
    set_config('app.tenant_id', v_deployment.tenant_id::text, true),
    set_config('app.actor_kind', 'deployment', true),
    set_config('app.actor_id', v_deployment.id::text, true),
    set_config('app.actor_name', v_deployment.name, true),
    set_config('app.request_id', p_request_id, true),
    set_config('app.confined_project', v_deployment.project_id::text, true);
  return query select v_deployment.organization_id, v_deployment.tenant_id, v_deployment.id, false, v_deployment.id;
end $function$;
reset role;
set local role slipway_system;
create or replace function enter_by_key(p_key_hash text, p_workspace uuid, p_permission text, p_in_workspace boolean, p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint text, p_access jsonb)
 RETURNS TABLE(organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean, budget_id uuid)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_key record;
  v_bound text[];
  v_tenant uuid;
  v_roles uuid[];
  v_is_limited boolean := false;
  v_stored record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  select
    a.id, a.organization_id, a.tenant_id, a.expires_at, a.revoked_at, a.member_id, a.role_id, a.budget_id,
    p_permission = any(r.permissions) and (a.permissions is null or p_permission = any(a.permissions)) as is_permitted,
    -- A key that lists its permissions keeps to them, whatever policies allow.
    a.permissions is null or p_permission = any(a.permissions) as can_be_allowed,
    p_access is not null and exists (
      select from access_rules x where x.role_id = a.role_id and x.organization_id = a.organization_id
    ) as has_rules
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
    v_key.can_be_allowed := v_key.is_permitted;
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

  perform
    set_config('app.organization_id', v_key.organization_id::text, true),
    set_config('app.tenant_id', coalesce(v_tenant::text, ''), true),
    set_config('app.actor_kind', 'key', true),
    set_config('app.actor_id', v_key.id::text, true),
    set_config('app.request_id', p_request_id, true);
  if v_key.member_id is not null and p_access is not null then
    v_roles := policy_roles(v_key.id, null, v_tenant);
    v_key.has_rules := has_rules(v_roles, v_key.organization_id);
  end if;
  if v_key.has_rules and (v_key.is_permitted or v_key.can_be_allowed) then
    v_is_limited := limit_access(
      p_access, coalesce(v_roles, array[v_key.role_id]), v_key.organization_id, v_tenant, p_permission,
      v_key.is_permitted
    );
  elsif not v_key.is_permitted then
    perform refuse('permission_missing', p_permission);
  end if;
  if p_without_if_match and exists (select from workspaces w where w.id = v_tenant and w.require_if_match) then
    perform refuse('if_match_required');
  end if;

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
  return query select v_key.organization_id, v_tenant, v_key.id, v_is_limited, v_key.budget_id;
end $function$;
reset role;
set local role slipway_system;
create or replace function enter_by_session(p_token_hash text, p_workspace uuid, p_permission text, p_in_workspace boolean, p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint text, p_access jsonb)
 RETURNS TABLE(organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean, budget_id uuid)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
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

  perform set_config('app.session_id', v_session.id::text, true);
  if v_session.key_hash is not null then
    return query
    select e.organization_id, e.tenant_id, e.actor_id, e.is_limited, e.budget_id
    from enter_by_key(
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
  return query select v_session.organization_id, v_tenant, v_session.member_id, v_is_limited, v_session.member_id;
end $function$;
reset role;
set local role slipway_system;
create or replace function enter_deployment(p_key text, p_workspace uuid, p_permission text, p_in_workspace boolean, p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint text, p_access jsonb)
 RETURNS TABLE(organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean)
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select e.organization_id, e.tenant_id, e.actor_id, e.is_limited
  from enter_by_deployment(
    p_key, p_workspace, p_permission, p_in_workspace, p_request_id, p_clock_offset, p_without_if_match,
    p_idempotency_key, p_fingerprint, p_access
  ) e
$function$;
reset role;
set local role slipway_system;
create or replace function enter_session(p_token_hash text, p_workspace uuid, p_permission text, p_in_workspace boolean, p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint text, p_access jsonb)
 RETURNS TABLE(organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean)
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select e.organization_id, e.tenant_id, e.actor_id, e.is_limited
  from enter_by_session(
    p_token_hash, p_workspace, p_permission, p_in_workspace, p_request_id, p_clock_offset, p_without_if_match,
    p_idempotency_key, p_fingerprint, p_access
  ) e
$function$;
reset role;
set local role slipway_system;
revoke execute on function count_answered_requests(text, text[], integer[], text, boolean) from public;
grant execute on function count_answered_requests(text, text[], integer[], text, boolean) to slipway_login, session_user;
reset role;
set local role slipway_system;
revoke execute on function enter_by_deployment(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) from public;
grant execute on function enter_by_deployment(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) to slipway_login, session_user;
reset role;
set local role slipway_system;
revoke execute on function enter_by_key(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) from public;
grant execute on function enter_by_key(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) to slipway_login, session_user;
reset role;
set local role slipway_system;
revoke execute on function enter_by_session(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) from public;
grant execute on function enter_by_session(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) to slipway_login, session_user;
reset role;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
