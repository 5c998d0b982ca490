-- The start of a request: the settings of its transaction, its key or session, rate limits and quotas.

create function setting(name text) returns text
language sql stable
return nullif(current_setting('app.' || name, true), '');

create function current_organization() returns uuid
language sql stable
return setting('organization_id')::uuid;

create function current_tenant() returns uuid
language sql stable
return setting('tenant_id')::uuid;

create function current_actor() returns uuid
language sql stable
return setting('actor_id')::uuid;

create function current_listener() returns uuid
language sql stable
return setting('listener_id')::uuid;

-- A journal belongs to a workspace or to the whole organization.
create function current_scope() returns uuid
language sql stable
return coalesce(setting('tenant_id'), setting('organization_id'))::uuid;

-- The database's time. A test can shift it for one request.
create function clock() returns timestamptz
language sql stable
return now() + coalesce(setting('clock_offset'), '0')::interval;

-- Ends the statement with an error code of the API. src/kernel/db/db.ts turns it into the HTTP error.
create function refuse(code text, detail text default null) returns boolean
language plpgsql cost 10000 as $$
begin
  raise exception using errcode = 'SW000', message = code, detail = coalesce(detail, '');
end $$;

-- Every request starts here. Finds the key, refuses it or its missing permission, replays the answer stored under the
-- idempotency key, and sets who acts for this transaction. `p_access` is the policy scope of the permission, or null.
-- Statements and expressions of a function are prepared anew in each transaction, which costs more than to run them. So
-- the first statement also sets who acts. A refusal ends the transaction, and with it the settings.
create function enter_by_key(
  p_key_hash text,
  p_workspace uuid,
  p_permission text,
  p_in_workspace boolean,
  p_request_id text,
  p_clock_offset text,
  p_without_if_match boolean,
  p_idempotency_key text,
  p_fingerprint text,
  p_access jsonb
) returns table (organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean, budget_id uuid)
language plpgsql security definer set search_path = public, pg_temp as $$
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
end $$;
grant execute on function enter_by_key(text, uuid, text, boolean, text, text, boolean, text, text, jsonb)
  to slipway_login, session_user;

-- Arguments: the column whose rows are counted together, the default limit, which rows count, and the limit's name. The
-- database's owner raises a limit with `alter database … set app.max_deployments = '50000'`. Writes of the operator
-- are not limited. A table of an organization has a limit per workspace as well, so one workspace cannot use up the
-- limit that all of them share. Requests of limited callers count, too.
create function enforce_quota() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_limit bigint := coalesce(setting('max_' || tg_argv[3]), tg_argv[1])::bigint;
  v_owner uuid;
  v_count bigint;
begin
  if coalesce(current_setting('role', true), '') not in ('slipway_app', 'slipway_limited') then return null; end if;
  for v_owner in execute format('select distinct %1$I from added where %1$I is not null', tg_argv[0]) loop
    execute format(
      'select count(*) from (select from %I where %I = $1 and %s limit $2 + 1) counted',
      tg_table_name, tg_argv[0], tg_argv[2]
    ) into v_count using v_owner, v_limit;
    if v_count > v_limit then perform refuse('quota_full', v_limit || ' ' || replace(tg_argv[3], '_', ' ')); end if;
  end loop;
  return null;
end $$;
create trigger enforce_quota
  after insert on workspaces
  referencing new table as added
  for each statement execute function enforce_quota('organization_id', '1000', 'true', 'workspaces');
create trigger enforce_quota
  after insert on roles
  referencing new table as added
  for each statement execute function enforce_quota('organization_id', '200', 'true', 'roles');
create trigger enforce_quota
  after insert on members
  referencing new table as added
  for each statement execute function enforce_quota('organization_id', '10000', 'true', 'members');
create trigger enforce_quota
  after insert on oauth_providers
  referencing new table as added
  for each statement execute function enforce_quota('organization_id', '1000', 'true', 'oauth_providers');
create trigger enforce_workspace_quota
  after insert on oauth_providers
  referencing new table as added
  for each statement execute function
    enforce_quota('made_by_workspace', '200', 'true', 'oauth_providers_of_a_workspace');
create trigger enforce_quota
  after insert on api_keys
  referencing new table as added
  for each statement execute function enforce_quota(
    'organization_id', '10000', 'revoked_at is null and (expires_at is null or expires_at > clock())', 'api_keys'
  );
-- The organization is part of the condition so that the index can be used.
create trigger enforce_workspace_quota
  after insert on api_keys
  referencing new table as added
  for each statement execute function enforce_quota(
    'tenant_id',
    '1000',
    'organization_id = (select w.organization_id from workspaces w where w.id = $1)
      and revoked_at is null and (expires_at is null or expires_at > clock())',
    'api_keys_of_a_workspace'
  );
create trigger enforce_quota
  after insert on deployments
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '10000', 'true', 'deployments');
create trigger enforce_quota
  after insert on integrations
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '200', 'true', 'integrations');
create trigger enforce_quota
  after insert on listeners
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '200', 'true', 'listeners');
create trigger enforce_quota
  after insert on webhooks
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '100', 'true', 'webhooks');
create trigger enforce_quota
  after insert on channels
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '200', 'run_rule_id is null', 'channels');
create trigger enforce_quota
  after insert on alert_rules
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '200', 'true', 'alert_rules');
create trigger enforce_quota
  after insert on alert_mutes
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '200', 'true', 'alert_mutes');
create trigger enforce_quota
  after insert on log_archive_settings
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '10001', 'true', 'log_archive_settings');
create trigger enforce_quota
  after insert on drains
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '20', 'true', 'drains');
create trigger enforce_quota
  after insert on schedules
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '1000', 'true', 'schedules');
create trigger enforce_quota
  after insert on projects
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '10000', 'true', 'projects');
create trigger enforce_quota
  after insert on datasets
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '10000', 'true', 'datasets');
create trigger enforce_quota
  after insert on access_policies
  referencing new table as added
  for each statement execute function enforce_quota('organization_id', '200', 'true', 'access_policies');
create trigger enforce_quota
  after insert on feedback_configs
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '1000', 'true', 'feedback_configs');
create trigger enforce_quota
  after insert on filter_views
  referencing new table as added
  for each statement execute function enforce_quota('session_id', '100', 'true', 'filter_views');
create trigger enforce_quota
  after insert on run_shares
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '10000', 'true', 'run_shares');
create trigger enforce_quota
  after insert on thread_shares
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '10000', 'true', 'thread_shares');
create trigger enforce_quota
  after insert on annotation_queues
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '1000', 'true', 'annotation_queues');
create trigger enforce_quota
  after insert on comparative_experiments
  referencing new table as added
  for each statement execute function enforce_quota('dataset_id', '1000', 'true', 'comparative_experiments');
create trigger enforce_quota
  after insert on model_configurations
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '200', 'true', 'model_configurations');
create trigger enforce_quota
  after insert on model_budgets
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '1000', 'true', 'model_budgets');
create trigger enforce_quota
  after insert on insight_configs
  referencing new table as added
  for each statement execute function enforce_quota('session_id', '100', 'true', 'insight_configs');
create trigger enforce_quota
  after insert on insight_jobs
  referencing new table as added
  for each statement execute function enforce_quota('session_id', '1000', 'true', 'insight_jobs');
create trigger enforce_quota
  after insert on evaluators
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '200', 'true', 'evaluators');
create trigger enforce_quota
  after insert on trusted_issuers
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '100', 'true', 'trusted_issuers');

-- Keeps at most `p_limit` attempts a minute of each key, and counts the others in the last one that is kept. A key that
-- never existed belongs to nobody: nothing is written. `p_more` is how many further attempts each one stands for.
-- A session of a key counts as that key, a member has one count for all sessions, and what is refused to a trace key
-- is recorded as that of its deployment.
create function record_attempts(
  p_key_hashes text[],
  p_workspaces text[],
  p_operations text[],
  p_statuses integer[],
  p_codes text[],
  p_request_ids text[],
  p_requests text[],
  p_more integer[],
  p_clock_offset text,
  p_limit integer
) returns void
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  with given as (
    select
      c.id as key_id,
      c.kind,
      c.name,
      c.organization_id,
      coalesce(
        c.tenant_id,
        (select w.id from workspaces w where w.id = g.workspace::uuid and w.organization_id = c.organization_id)
      ) as tenant_id,
      g.*,
      row_number() over (partition by c.id order by g.place) as nth,
      count(*) over (partition by c.id) as of_key
    from unnest(p_key_hashes, p_workspaces, p_operations, p_statuses, p_codes, p_request_ids, p_requests, p_more)
      with ordinality as g(key_hash, workspace, operation, status, code, request_id, request, more, place)
    join lateral (
      select 'key' as kind, a.id, a.organization_id, a.tenant_id, a.description as name
      from api_keys a
      where a.key_hash = g.key_hash
      union all
      select
        case when a.id is null then 'session' else 'key' end,
        s.owner_id,
        s.organization_id,
        a.tenant_id,
        coalesce(a.description, m.full_name, m.email)
      from sessions s
      left join api_keys a on a.id = s.key_id
      left join members m on m.id = s.member_id
      where s.token_hash = g.key_hash
      union all
      select 'deployment', d.id, d.organization_id, d.tenant_id, d.name
      from deployments d
      where d.id = trace_key_deployment(g.key_hash)
    ) c on true
  ),
  counted as (
    insert into attempt_windows as w (key_id, started_at, attempts)
    select key_id, clock(), count(*)
    from given
    group by key_id
    order by key_id
    on conflict (key_id) do update set
      attempts = excluded.attempts
        + case when w.started_at > clock() - interval '60 seconds' then w.attempts else 0 end,
      started_at =
        case when w.started_at > clock() - interval '60 seconds' then w.started_at else excluded.started_at end
    returning w.key_id, w.attempts
  ),
  judged as (
    select g.*, c.attempts - g.of_key + g.nth <= p_limit as is_kept
    from given g
    join counted c using (key_id)
  ),
  left_out as (
    select key_id, sum(case when is_kept then more else more + 1 end) as attempts
    from judged
    group by key_id
  ),
  added_to_earlier as (
    update audit_attempts t
    set left_out = t.left_out + l.attempts
    from left_out l
    where not exists (select from judged j where j.key_id = l.key_id and j.is_kept)
      and t.id = (
        select b.id
        from audit_attempts b
        where b.actor_id = l.key_id
        order by b.created_at desc, b.id desc
        limit 1
      )
  )
  insert into audit_attempts (
    organization_id, tenant_id, operation, status, code, actor_kind, actor_id, actor_name, request_id, request,
    left_out
  )
  select
    j.organization_id,
    j.tenant_id,
    j.operation,
    j.status,
    j.code,
    j.kind,
    j.key_id,
    j.name,
    j.request_id,
    j.request::json,
    case when j.nth = max(j.nth) over (partition by j.key_id) then l.attempts else 0 end
  from judged j
  join left_out l using (key_id)
  where j.is_kept
  order by j.place;
end $$;
grant execute on function record_attempts(
    text[], text[], text[], integer[], text[], text[], text[], integer[], text, integer
  ) to slipway_login, session_user;

-- A session that is idle for seven days has ended, and every session ends with its `expires_at`.
create function is_alive(p_session sessions) returns boolean
language sql stable
return p_session.revoked_at is null
  and p_session.expires_at > clock()
  and p_session.last_seen_at > clock() - interval '7 days'
  and (p_session.made_by is null or is_living_credential(p_session.made_by));

-- enter_by_key() for the token of a session. A session of a key enters as that key. A member acts with the role in the
-- organization where that role has the permission, and otherwise with the role in the workspace and inside it only.
create function enter_by_session(
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
) returns table (organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean, budget_id uuid)
language plpgsql security definer set search_path = public, pg_temp as $$
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
end $$;
grant execute on function enter_by_session(text, uuid, text, boolean, text, text, boolean, text, text, jsonb)
  to slipway_login, session_user;

-- The budgets that keys and sessions spend which are valid, or were so ten seconds ago: requests are counted after
-- their answers. A member has one for all sessions. Trace keys, also the previous one of a deployment, are counted too,
-- though they are not looked up by a hash.
create function budgets_of(p_hashes text[]) returns table (hash text, budget_id uuid)
language sql stable as $$
  select a.key_hash, a.budget_id
  from api_keys a
  where a.key_hash = any(p_hashes)
    and (a.revoked_at is null or a.revoked_at > clock() - interval '10 seconds')
    and (a.expires_at is null or a.expires_at > clock() - interval '10 seconds')
  union all
  select s.token_hash, coalesce(a.budget_id, s.member_id)
  from sessions s
  left join api_keys a on a.id = s.key_id
  where s.token_hash = any(p_hashes)
    and (is_alive(s) or least(s.revoked_at, s.expires_at) > clock() - interval '10 seconds')
  union all
  select k.key, d.id
  from unnest(p_hashes) k(key)
  join deployments d on d.id = trace_key_deployment(k.key)
  where split_part(k.key, '.', 2) in (d.trace_key_version::text, (d.trace_key_version - 1)::text)
    and d.deleting_at is null
$$;

-- A member's rights: those of its role in the organization, with those of its role in the workspace, if one is given.
create function member_permissions(p_member uuid, p_tenant uuid) returns text[]
language sql stable security definer set search_path = public, pg_temp as $$
  select array_agg(distinct permission)
  from (
    select unnest(r.permissions) as permission
    from members m
    join roles r on r.id = m.role_id
    where m.id = p_member
    union all
    select unnest(r.permissions)
    from workspace_members m
    join roles r on r.id = m.role_id
    where m.member_id = p_member and m.tenant_id = p_tenant
  ) granted
$$;

-- When a session of a member was last used. Callers see only their own sessions.
create function member_last_seen(p_member uuid) returns timestamptz
language sql stable security definer set search_path = public, pg_temp as $$
  select max(last_seen_at)
  from sessions
  where member_id = p_member and organization_id = current_organization()
$$;
grant execute on function member_last_seen(uuid) to slipway_app;

-- Sets the rules of this request, and returns whether they limit it. Refuses a caller that has the permission neither
-- by its roles (`p_may`) nor by a rule. `p_access` is what src/kernel/access-scopes.ts says of the request:
-- - `types`: the types of resources that it shows, each with the permission to read them (`reading`), whose rules hide
--   some of them. Null for a request that shows nothing.
-- - `bound`: the type that rules for its own permission are about
-- - `everything`: permissions to read what it shows without regard to tags
-- - `shows_events`: it shows events of these types
-- - `can_open`: it shows and changes admitted resources only, so that a rule is enough
-- - `resource`: the one that its path names
create function limit_access(
  p_access jsonb,
  p_roles uuid[],
  p_organization uuid,
  p_tenant uuid,
  p_permission text,
  p_may boolean
) returns boolean
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_type jsonb;
  v_own access_condition[];
  v_hidden access_condition[];
  v_is_bound boolean;
  v_allows boolean := false;
  v_is_limited boolean := not p_may;
  v_policy text;
begin
  for v_type in select * from jsonb_array_elements(p_access -> 'types') loop
    v_is_bound := coalesce(v_type ->> 'type' = p_access ->> 'bound', false);
    v_own := '{}';
    v_hidden := '{}';
    if v_is_bound then
      v_own := resolve_rules(p_roles, p_organization, p_tenant, p_permission, '{allow, deny}', 0);
      v_allows := exists (select from unnest(v_own) r where not r.is_deny);
    end if;
    if v_type ->> 'reading' <> p_permission then
      v_hidden := resolve_rules(p_roles, p_organization, p_tenant, v_type ->> 'reading', '{deny}', cardinality(v_own));
    end if;
    if not p_may or exists (select from unnest(v_own || v_hidden) r where r.is_deny) then
      v_is_limited := true;
      perform set_config(
        'app.access_' || (v_type ->> 'type'),
        row(p_may or not v_is_bound, v_type ->> 'reading' is not null, v_own || v_hidden)::access::text,
        true
      );
    end if;
  end loop;
  if not p_may and not (v_allows and (p_access ->> 'can_open')::boolean) then
    perform refuse('permission_missing', p_permission);
  end if;

  select p.name
  into v_policy
  from access_rules x
  join access_policies p on p.id = x.access_policy_id
  where x.role_id = any(p_roles) and x.organization_id = p_organization and x.effect = 'deny'
    and p_access -> 'everything' ? x.permission
  limit 1;
  if found then perform refuse('denied_by_policy', v_policy); end if;
  if not v_is_limited then return false; end if;

  perform set_config('app.by_policy', (not p_may)::text, true);
  perform set_config('app.shows_events', coalesce(p_access ->> 'shows_events', 'false'), true);
  if p_access ->> 'bound' is not null and p_access ->> 'resource' is not null then
    perform refuse_denied_resource(p_access, p_roles, p_organization, p_tenant, p_permission);
  end if;
  return true;
end $$;

-- The app knows a trace key as `<deployment>.<version>`, and other keys and sessions by a hash.
create function trace_key_deployment(p_key text) returns uuid
language sql immutable parallel safe
return case when p_key like '%.%' then split_part(p_key, '.', 1)::uuid end;

-- Like enter_by_key(), for a trace key whose signature the app has verified.
create function enter_by_deployment(
  p_key text,
  p_workspace uuid,
  p_permission text,
  p_in_workspace boolean,
  p_request_id text,
  p_clock_offset text,
  p_without_if_match boolean,
  p_idempotency_key text,
  p_fingerprint text,
  p_access jsonb
) returns table (organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean, budget_id uuid)
language plpgsql security definer set search_path = public, pg_temp as $$
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
end $$;
grant execute on function enter_by_deployment(text, uuid, text, boolean, text, text, boolean, text, text, jsonb)
  to slipway_login, session_user;

-- Requests of keys that send runs have a budget of their own, beside that of all other requests.
create function ingestion_window(p_budget uuid) returns uuid
language sql immutable parallel safe
return md5('ingestion ' || p_budget)::uuid;

-- Adds requests that instances have answered to the budgets of their keys, sessions and trace keys, and returns the
-- count of each budget. `rate_windows.key_id` is a budget's id, or the id for its runs. A caller that may not enter is
-- left out and spends nothing. Unless `p_counts`, the result only says which callers may enter, and their budgets.
-- Notes when keys and sessions were used: once a minute, not journaled, and without waiting for others that do so.
create function count_answered_requests(
  p_budget text,
  p_hashes text[],
  p_requests integer[],
  p_clock_offset text,
  p_counts boolean
) returns table (key_hash text, budget_id uuid, requests integer, reset integer)
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
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
        + case when w.started_at between clock() - interval '60 seconds' and clock() then w.requests else 0 end,
      started_at = case
        when w.started_at between clock() - interval '60 seconds' and clock() then w.started_at
        else excluded.started_at
      end
    returning w.key_id, w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  )
  select a.key_hash, a.budget_id, c.requests, c.reset
  from alive a
  left join counted c on c.key_id = a.window_id;
end $$;
grant execute on function count_answered_requests(text, text[], integer[], text, boolean)
  to slipway_login, session_user;

-- Adds failures, and returns the addresses that have reached the limit, each with the seconds until its window ends.
create function count_address_failures(
  p_addresses text[],
  p_failures integer[],
  p_clock_offset text,
  p_limit integer
) returns table (address text, reset integer)
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  return query
  with given as (
    select g.address, md5('address ' || g.address)::uuid as window_id, g.failures
    from unnest(p_addresses, p_failures) as g(address, failures)
  ),
  counted as (
    insert into rate_windows as w (key_id, started_at, requests)
    select g.window_id, clock(), g.failures
    from given g
    order by g.window_id
    -- A window that begins later than now is of a clock that was set back.
    on conflict (key_id) do update set
      requests = excluded.requests
        + case when w.started_at between clock() - interval '60 seconds' and clock() then w.requests else 0 end,
      started_at =
        case when w.started_at between clock() - interval '60 seconds' and clock() then w.started_at else clock() end
    returning w.key_id, w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  )
  select g.address, c.reset
  from given g
  join counted c on c.key_id = g.window_id
  where c.requests >= p_limit;
end $$;
grant execute on function count_address_failures(text[], integer[], text, integer) to slipway_login, session_user;

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
grant execute on function is_living_credential(text) to slipway_app;
