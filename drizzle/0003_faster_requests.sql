-- Functions that write keep their plans.
alter function bind_provider_secrets set plan_cache_mode = force_generic_plan;
alter function record_revision_state set plan_cache_mode = force_generic_plan;
alter function acquire_lease set plan_cache_mode = force_generic_plan;
alter function adopt_deployments set plan_cache_mode = force_generic_plan;
alter function conclude_write set plan_cache_mode = force_generic_plan;
alter function conclude_writes set plan_cache_mode = force_generic_plan;
alter function create_deployment set plan_cache_mode = force_generic_plan;
alter function create_preview set plan_cache_mode = force_generic_plan;
alter function delete_deployments set plan_cache_mode = force_generic_plan;
alter function deploy_push set plan_cache_mode = force_generic_plan;
alter function end_access_token set plan_cache_mode = force_generic_plan;
alter function exchange_token set plan_cache_mode = force_generic_plan;
alter function fail_overdue_revisions set plan_cache_mode = force_generic_plan;
alter function follow_revision set plan_cache_mode = force_generic_plan;
alter function insert_deployment set plan_cache_mode = force_generic_plan;
alter function insert_revision set plan_cache_mode = force_generic_plan;
alter function interrupt_revision set plan_cache_mode = force_generic_plan;
alter function journal set plan_cache_mode = force_generic_plan;
alter function journal_events_of set plan_cache_mode = force_generic_plan;
alter function journal_of_member set plan_cache_mode = force_generic_plan;
alter function journal_refused_exchange set plan_cache_mode = force_generic_plan;
alter function journal_refused_sign_in set plan_cache_mode = force_generic_plan;
alter function journal_tenant_events set plan_cache_mode = force_generic_plan;
alter function latest_change set plan_cache_mode = force_generic_plan;
alter function limit_access set plan_cache_mode = force_generic_plan;
alter function lock_deployment set plan_cache_mode = force_generic_plan;
alter function lock_deployment_version set plan_cache_mode = force_generic_plan;
alter function lock_for_admin_checks set plan_cache_mode = force_generic_plan;
alter function lock_key_tree set plan_cache_mode = force_generic_plan;
alter function open_session set plan_cache_mode = force_generic_plan;
alter function patch_deployment set plan_cache_mode = force_generic_plan;
alter function queue_revision set plan_cache_mode = force_generic_plan;
alter function record_missing_ref set plan_cache_mode = force_generic_plan;
alter function record_model_call set plan_cache_mode = force_generic_plan;
alter function redeem_authorization_code set plan_cache_mode = force_generic_plan;
alter function redeem_device_code set plan_cache_mode = force_generic_plan;
alter function refresh_client set plan_cache_mode = force_generic_plan;
alter function refuse_denied_resource set plan_cache_mode = force_generic_plan;
alter function release_hold set plan_cache_mode = force_generic_plan;
alter function repeat_revision set plan_cache_mode = force_generic_plan;
alter function require_allowed_creation set plan_cache_mode = force_generic_plan;
alter function require_allowed_patch set plan_cache_mode = force_generic_plan;
alter function require_attachment_room set plan_cache_mode = force_generic_plan;
alter function require_creatable_deployment set plan_cache_mode = force_generic_plan;
alter function require_grantable_role set plan_cache_mode = force_generic_plan;
alter function require_lease set plan_cache_mode = force_generic_plan;
alter function require_listener set plan_cache_mode = force_generic_plan;
alter function require_stored_archive set plan_cache_mode = force_generic_plan;
alter function require_upload_link_room set plan_cache_mode = force_generic_plan;
alter function require_upload_room set plan_cache_mode = force_generic_plan;
alter function restore_revision set plan_cache_mode = force_generic_plan;
alter function revoke_client set plan_cache_mode = force_generic_plan;
alter function rotate_trace_key set plan_cache_mode = force_generic_plan;
alter function set_deployment_owner set plan_cache_mode = force_generic_plan;
alter function sign_in_by_identity set plan_cache_mode = force_generic_plan;
alter function supersede_revisions set plan_cache_mode = force_generic_plan;
alter function take_model_call set plan_cache_mode = force_generic_plan;
alter function use_sign_in_link set plan_cache_mode = force_generic_plan;
alter function write_moved_deployments set plan_cache_mode = force_generic_plan;
alter function write_moved_revisions set plan_cache_mode = force_generic_plan;
set local role slipway_system;
alter function check_annotation_queue_references set plan_cache_mode = force_generic_plan;
alter function inherit_budget set plan_cache_mode = force_generic_plan;
alter function check_dataset_references set plan_cache_mode = force_generic_plan;
alter function check_deployment_references set plan_cache_mode = force_generic_plan;
alter function claim_custom_host set plan_cache_mode = force_generic_plan;
alter function remember_maker_key set plan_cache_mode = force_generic_plan;
alter function chain_event set plan_cache_mode = force_generic_plan;
alter function require_organization_admin set plan_cache_mode = force_generic_plan;
alter function check_model_references set plan_cache_mode = force_generic_plan;
alter function check_tags set plan_cache_mode = force_generic_plan;
alter function check_revision_references set plan_cache_mode = force_generic_plan;
alter function attach_rules set plan_cache_mode = force_generic_plan;
alter function check_rule_evaluator set plan_cache_mode = force_generic_plan;
alter function check_rule_queue set plan_cache_mode = force_generic_plan;
alter function check_rule_references set plan_cache_mode = force_generic_plan;
alter function refuse_temporary_key set plan_cache_mode = force_generic_plan;
alter function check_webhook_references set plan_cache_mode = force_generic_plan;
alter function require_workspace_admin set plan_cache_mode = force_generic_plan;
alter function approve_client set plan_cache_mode = force_generic_plan;
alter function decide_device_request set plan_cache_mode = force_generic_plan;
alter function find_device_request set plan_cache_mode = force_generic_plan;
alter function lock_credentials set plan_cache_mode = force_generic_plan;
alter function lock_provider_to_change set plan_cache_mode = force_generic_plan;
alter function queue_runs set plan_cache_mode = force_generic_plan;
alter function read_device_request set plan_cache_mode = force_generic_plan;
alter function read_grantable_workspaces set plan_cache_mode = force_generic_plan;
alter function record_attempts set plan_cache_mode = force_generic_plan;
alter function remove_tag_values set plan_cache_mode = force_generic_plan;
alter function revoke_key_tree set plan_cache_mode = force_generic_plan;
alter function revoke_outdated_grants set plan_cache_mode = force_generic_plan;
alter function verify_custom_host set plan_cache_mode = force_generic_plan;
reset role;
--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
create or replace function changed_members(p_before jsonb, p_after jsonb)
 RETURNS json
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
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
    v_before := nullif(nullif(p_before -> v_key, 'null'), '{}');
    v_after := nullif(nullif(p_after -> v_key, 'null'), '{}');
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
  if v_paths = '{}' then return null; end if;
  return (
    select concat('[', string_agg(c.change, ', ' order by c.path), ']')
    from unnest(v_paths, v_changes) c(path, change)
  );
end $function$;
set local role slipway_system;
create or replace function count_answered_requests(p_budget text, p_hashes text[], p_requests integer[],
  p_clock_offset text, p_counts boolean)
 RETURNS TABLE(key_hash text, budget_id uuid, requests integer, reset integer)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
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
create or replace function enter(p_key_hash text, p_workspace uuid, p_permission text, p_in_workspace boolean,
  p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint text,
  p_access jsonb)
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
create or replace function enter_by_deployment(p_key text, p_workspace uuid, p_permission text, p_in_workspace
  boolean, p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint
  text, p_access jsonb)
 RETURNS TABLE(organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean, budget_id uuid)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_deployment record;
begin
  select
    d.id, d.organization_id, d.tenant_id, p.name as project,
    set_config('app.clock_offset', p_clock_offset, true),
    set_config('app.organization_id', d.organization_id::text, true),
    set_config('app.tenant_id', d.tenant_id::text, true),
    set_config('app.actor_kind', 'deployment', true),
    set_config('app.actor_id', d.id::text, true),
    set_config('app.actor_name', d.name, true),
    set_config('app.request_id', p_request_id, true),
    set_config('app.confined_project', p.id::text, true)
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
  organization_id := v_deployment.organization_id;
  tenant_id := v_deployment.tenant_id;
  actor_id := v_deployment.id;
  budget_id := v_deployment.id;
  is_limited := false;
  return next;
end $function$;
reset role;
set local role slipway_system;
create or replace function enter_by_key(p_key_hash text, p_workspace uuid, p_permission text, p_in_workspace boolean,
  p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint text,
  p_access jsonb)
 RETURNS TABLE(organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean, budget_id uuid)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_key_tenant uuid;
  v_member uuid;
  v_role uuid;
  v_refusal text;
  v_is_permitted boolean;
  v_can_be_allowed boolean;
  v_has_rules boolean;
  v_bound text[];
  v_roles uuid[];
  v_stored record;
begin
  select
    a.organization_id, coalesce(a.tenant_id, case when p_in_workspace then p_workspace end), a.id, false,
    a.budget_id, a.tenant_id, a.member_id, a.role_id,
    case
      when a.revoked_at is not null then 'key_revoked'
      -- Not clock(), whose setting is made here.
      when a.expires_at <= now() + p_clock_offset::interval then 'key_expired'
    end,
    p_permission = any(r.permissions) and (a.permissions is null or p_permission = any(a.permissions)),
    -- A key that lists its permissions keeps to them, whatever policies allow.
    a.permissions is null or p_permission = any(a.permissions),
    p_access is not null and exists (
      select from access_rules x where x.role_id = a.role_id and x.organization_id = a.organization_id
    ),
    set_config('app.organization_id', a.organization_id::text, true),
    set_config(
      'app.tenant_id', coalesce(a.tenant_id::text, case when p_in_workspace then p_workspace::text end, ''), true
    ),
    set_config('app.actor_kind', 'key', true),
    set_config('app.actor_id', a.id::text, true),
    set_config('app.request_id', p_request_id, true),
    set_config('app.clock_offset', p_clock_offset, true)
  into
    organization_id, tenant_id, actor_id, is_limited,
    budget_id, v_key_tenant, v_member, v_role, v_refusal, v_is_permitted, v_can_be_allowed, v_has_rules
  from api_keys a
  join roles r on r.id = a.role_id
  where a.key_hash = p_key_hash;
  if not found then perform refuse('key_unknown'); end if;
  if v_refusal is not null then perform refuse(v_refusal); end if;
  if v_member is not null then
    v_bound := bound_key_permissions(actor_id);
    if v_bound is null then perform refuse('key_revoked'); end if;
    v_can_be_allowed := v_is_permitted;
    v_is_permitted := p_permission = any(v_bound);
  end if;

  if v_key_tenant is not null then
    if p_workspace <> v_key_tenant then perform refuse('workspace_forbidden'); end if;
  elsif p_workspace is not null then
    if not exists (
      select from workspaces w where w.id = p_workspace and w.organization_id = enter_by_key.organization_id
    ) then
      perform refuse('workspace_forbidden');
    end if;
  elsif p_in_workspace then
    perform refuse('workspace_required');
  end if;

  if v_member is not null and p_access is not null then
    v_roles := policy_roles(actor_id, null, tenant_id);
    v_has_rules := has_rules(v_roles, organization_id);
  end if;
  if v_has_rules and (v_is_permitted or v_can_be_allowed) then
    is_limited := limit_access(
      p_access, coalesce(v_roles, array[v_role]), organization_id, tenant_id, p_permission, v_is_permitted
    );
  elsif not v_is_permitted then
    perform refuse('permission_missing', p_permission);
  end if;
  if p_without_if_match then
    if exists (select from workspaces w where w.id = enter_by_key.tenant_id and w.require_if_match) then
      perform refuse('if_match_required');
    end if;
  end if;

  if p_idempotency_key is not null then
    if not pg_try_advisory_xact_lock(hashtextextended(actor_id || ':' || p_idempotency_key, 0)) then
      perform refuse('idempotency_in_flight');
    end if;
    select i.fingerprint, i.result, i.created_at
    into v_stored
    from idempotency_keys i
    where i.actor_id = enter_by_key.actor_id and i.key = p_idempotency_key;
    if found and v_stored.created_at < clock() - interval '24 hours' then
      delete from idempotency_keys i
      where i.actor_id = enter_by_key.actor_id and i.key = p_idempotency_key;
    elsif found and v_stored.fingerprint <> p_fingerprint then
      perform refuse('idempotency_key_reused');
    elsif found then
      -- An error ends the transaction, so the batch's later statements cannot act twice.
      raise exception using errcode = 'SW001', message = 'replay', detail = v_stored.result::text;
    end if;
  end if;
  return next;
end $function$;
reset role;
set local role slipway_system;
create or replace function enter_by_session(p_token_hash text, p_workspace uuid, p_permission text, p_in_workspace
  boolean, p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint
  text, p_access jsonb)
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
  select
    s.id, s.organization_id, s.member_id, s.last_seen_at, s.expires_at, s.revoked_at, s.made_by, a.key_hash,
    p_permission is null or p_permission = any(o.permissions) as is_permitted,
    coalesce(p_permission = any(w.permissions), false) as is_permitted_inside,
    wm.id is not null as is_inside,
    set_config('app.clock_offset', p_clock_offset, true),
    set_config('app.session_id', s.id::text, true),
    -- For a session of a key, enter_by_key() sets all but the name again.
    set_config('app.organization_id', s.organization_id::text, true),
    set_config('app.actor_kind', 'session', true),
    set_config('app.actor_id', coalesce(s.member_id::text, ''), true),
    set_config('app.actor_name', coalesce(m.full_name, m.email, ''), true),
    set_config('app.request_id', p_request_id, true)
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

  perform set_config('app.tenant_id', coalesce(v_tenant::text, ''), true);
  if p_access is not null then
    v_roles := policy_roles(null, v_session.member_id, v_tenant);
  end if;
  if has_rules(v_roles, v_session.organization_id) then
    v_is_limited := limit_access(p_access, v_roles, v_session.organization_id, v_tenant, p_permission, v_may);
  elsif not v_may then
    perform refuse('permission_missing', p_permission);
  end if;
  if p_without_if_match then
    if exists (select from workspaces w where w.id = v_tenant and w.require_if_match) then
      perform refuse('if_match_required');
    end if;
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
  organization_id := v_session.organization_id;
  tenant_id := v_tenant;
  actor_id := v_session.member_id;
  budget_id := v_session.member_id;
  is_limited := v_is_limited;
  return next;
end $function$;
reset role;
set local role slipway_system;
create or replace function enter_deployment(p_key text, p_workspace uuid, p_permission text, p_in_workspace boolean,
  p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint text,
  p_access jsonb)
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
create or replace function enter_session(p_token_hash text, p_workspace uuid, p_permission text, p_in_workspace
  boolean, p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint
  text, p_access jsonb)
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
create or replace function member_change(p_path text, p_before jsonb, p_after jsonb)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN concat('{"path" : ', to_json(p_path), ', "before" : ', COALESCE((event_value(p_before))::text, 'null'::text),
  ', "after" : ', COALESCE((event_value(p_after))::text, 'null'::text), '}');
create or replace function move_preview(p_deployment uuid, p_preview uuid, p_column json, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments := lock_deployment(p_deployment);
  v_changed deployments;
begin
  update previews v
  set state = 'live', expires_at = (p_column ->> 'expires_at')::timestamptz, updated_at = clock()
  where v.id = p_preview and v.tenant_id = current_tenant()
    and v.head_sha = p_column ->> 'head_sha'
    and v.state <> 'ended';
  update deployments d
  set
    preview = p_column,
    version = d.version + 1,
    updated_at = greatest(clock(), d.updated_at)
  where d.id = v_stored.id and d.tenant_id = current_tenant()
    and d.deleting_at is null
    and d.preview ->> 'head_sha' is distinct from p_column ->> 'head_sha'
  returning d.* into v_changed;
  if not found then return; end if;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[deployment_event(
      'deployment.preview_moved', v_stored, v_changed, json_build_object('number', p_column -> 'number')
    )],
    p_request
  );
  return next;
end $function$;
set local role slipway_system;
revoke execute on function count_answered_requests(text, text[], integer[], text, boolean) from public;
grant execute on function count_answered_requests(text, text[], integer[], text, boolean) to slipway_login,
  session_user;
reset role;
set local role slipway_system;
revoke execute on function enter_by_deployment(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) from
  public;
grant execute on function enter_by_deployment(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) to
  slipway_login, session_user;
reset role;
set local role slipway_system;
revoke execute on function enter_by_key(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) from public;
grant execute on function enter_by_key(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) to
  slipway_login, session_user;
reset role;
set local role slipway_system;
revoke execute on function enter_by_session(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) from
  public;
grant execute on function enter_by_session(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) to
  slipway_login, session_user;
reset role;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
