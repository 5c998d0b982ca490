-- Functions and triggers, one section for each slice. A `security definer` function sees every tenant: the next
-- migration makes slipway_system its owner and grants who may call it. A `require_…` function ends the statement with
-- an error of the API if its condition does not hold. Otherwise it returns its argument, or true.

-- ------------------------------------------------------------ Keys, requests and rate limits
-- Every request starts here. Finds the key, refuses it or its missing permission, replays the answer stored under the
-- idempotency key, and sets who acts for this transaction.
create function enter(
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
  v_tenant uuid;
  v_stored record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  select
    a.id, a.organization_id, a.tenant_id, a.expires_at, a.revoked_at, a.last_used_at,
    p_permission = any(r.permissions) and (a.permissions is null or p_permission = any(a.permissions)) as is_permitted
  into v_key
  from api_keys a
  join roles r on r.id = a.role_id
  where a.key_hash = p_key_hash;
  if not found then perform refuse('key_unknown'); end if;
  if v_key.revoked_at is not null then perform refuse('key_revoked'); end if;
  if v_key.expires_at <= clock() then perform refuse('key_expired'); end if;

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
-- The budget of a key that another key created. Agents of a listener poll steadily, so they share a budget of their own
-- and not their creator's. A key that an organization key creates for a workspace gets a budget of that workspace:
-- otherwise one workspace could use up what the organization and its other workspaces need.
create function budget_of_child_key(p_creator uuid, p_creator_tenant uuid, p_tenant uuid, p_listener uuid) returns uuid
language sql immutable
return coalesce(
  p_listener,
  case when p_tenant is distinct from p_creator_tenant then md5(p_creator || ' ' || p_tenant)::uuid else p_creator end
);
--> statement-breakpoint
-- A trigger, so no way of creating a key can leave the budget out. The creator's row stays locked until the new key
-- exists: revoke_key_tree() waits for that lock and then finds the new key, or has already revoked the creator.
create function inherit_budget() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_creator record;
begin
  if new.created_by is null then
    new.budget_id := coalesce(new.listener_id, new.id);
    return new;
  end if;
  select m.revoked_at, m.budget_id, m.tenant_id
  into v_creator
  from api_keys m
  where m.id = new.created_by
  for share;
  if not found then perform refuse('key_unknown'); end if;
  if v_creator.revoked_at is not null then perform refuse('key_revoked'); end if;
  new.budget_id := budget_of_child_key(v_creator.budget_id, v_creator.tenant_id, new.tenant_id, new.listener_id);
  return new;
end $$;
--> statement-breakpoint
create trigger inherit_budget
  before insert on api_keys
  for each row execute function inherit_budget();
--> statement-breakpoint
-- Adds requests to the budgets of keys (`rate_windows.key_id` is a budget's id) and returns the count of each budget.
-- A key that may not enter is left out and spends nothing. A null limit counts nothing: the result then only says which
-- keys may enter.
create function count_requests(p_key_hashes text[], p_requests integer[], p_clock_offset text, p_limit integer)
returns table (key_hash text, requests integer, reset integer)
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  return query
  with given as (
    select g.key_hash, g.requests
    from unnest(p_key_hashes, p_requests) as g(key_hash, requests)
  ),
  alive as (
    select a.key_hash, a.budget_id, g.requests
    from given g
    join api_keys a on a.key_hash = g.key_hash
    where a.revoked_at is null and (a.expires_at is null or a.expires_at > clock())
  ),
  counted as (
    insert into rate_windows as w (key_id, started_at, requests)
    select a.budget_id, clock(), sum(a.requests)::integer
    from alive a
    where p_limit is not null
    group by a.budget_id
    order by a.budget_id
    on conflict (key_id) do update set
      requests = excluded.requests
        + case when w.started_at > clock() - interval '60 seconds' then w.requests else 0 end,
      started_at =
        case when w.started_at > clock() - interval '60 seconds' then w.started_at else excluded.started_at end
    returning w.key_id, w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  )
  select a.key_hash, c.requests, c.reset
  from alive a
  left join counted c on c.key_id = a.budget_id;
end $$;
--> statement-breakpoint
-- Counts one request. It is the first statement of a trip and commits before enter() runs. So the count survives a
-- later refusal, and the budget's row is not locked while the request runs. A request refused here is not counted.
create function count_request(p_key_hash text, p_clock_offset text, p_limit integer)
returns table (remaining integer, reset integer)
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_window record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  -- Without a row lock, so a flood of refused requests does not queue for it.
  select ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  into v_window
  from api_keys a
  join rate_windows w on w.key_id = a.budget_id
  where a.key_hash = p_key_hash and a.revoked_at is null
    and w.started_at > clock() - interval '60 seconds' and w.requests >= p_limit;
  if found then perform refuse('rate_limited', v_window.reset::text); end if;

  select c.requests, c.reset
  into v_window
  from count_requests(array[p_key_hash], array[1], p_clock_offset, p_limit) c;
  if not found then return; end if;
  if v_window.requests > p_limit then perform refuse('rate_limited', v_window.reset::text); end if;
  return query select p_limit - v_window.requests, v_window.reset;
end $$;
--> statement-breakpoint
-- Revokes a key that the caller can see and every key created with it, transitively, in every workspace. Writes one
-- event for each into the journal of its scope. Returns the revoked ids: none if the key is unknown or already revoked.
create function revoke_key_tree(p_key uuid) returns setof uuid
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
    returning a.id, a.organization_id, a.tenant_id, coalesce(a.tenant_id, a.organization_id) as scope_id
  ),
  numbered as (
    insert into journals as j (scope_id, organization_id, seq)
    select r.scope_id, r.organization_id, count(*)
    from revoked r
    group by r.scope_id, r.organization_id
    order by r.scope_id
    on conflict (scope_id) do update set seq = j.seq + excluded.seq
    returning j.scope_id, j.seq
  ),
  journaled as (
    insert into events
      (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, request_id, data)
    select
      r.scope_id,
      n.seq - count(*) over of_scope + row_number() over (of_scope order by r.id <> p_key, r.id),
      r.organization_id,
      r.tenant_id,
      'api_key.revoked',
      r.id,
      setting('actor_kind'),
      current_actor(),
      setting('request_id'),
      case when r.id = p_key then '{}'::json else json_build_object('revoked_with', p_key) end
    from revoked r
    join numbered n on n.scope_id = r.scope_id
    window of_scope as (partition by r.scope_id)
  )
  select r.id from revoked r;
end $$;
--> statement-breakpoint

-- ------------------------------------------------------------ What an actor may grant to others
-- The caller's permissions: its role's, narrowed by the key's own list.
create function actor_permissions() returns text[]
language sql stable security definer set search_path = public, pg_temp as $$
  select
    case
      when a.permissions is null then r.permissions
      else array(select unnest(r.permissions) intersect select unnest(a.permissions))
    end
  from api_keys a
  join roles r on r.id = a.role_id
  where a.id = current_actor()
$$;
--> statement-breakpoint
-- A caller can grant only permissions that it has. The error names the missing ones.
create function require_grantable_permissions(p_permissions text[]) returns text[]
language plpgsql stable as $$
declare
  v_excess text := array_to_string(
    array(select unnest(p_permissions) except select unnest(actor_permissions()) order by 1), ', '
  );
begin
  if v_excess <> '' then perform refuse('role_exceeds_actor', v_excess); end if;
  return p_permissions;
end $$;
--> statement-breakpoint
-- A caller can grant only a role of this scope whose permissions it has. `p_only` is the narrowed list of a new key.
-- The role stays locked until the transaction ends, so it cannot be deleted meanwhile. Built-in roles need no lock.
create function require_grantable_role(p_role uuid, p_scope text, p_only text[] default null) returns uuid
language plpgsql as $$
declare
  v_role record;
begin
  perform from roles where id = p_role and organization_id = current_organization() for key share;
  -- An organization key may have a workspace role: it then has that role in every workspace.
  select permissions
  into v_role
  from roles
  where id = p_role and (scope = p_scope or p_scope = 'key')
    and (organization_id is null or organization_id = current_organization());
  if not found then perform refuse('role_not_found'); end if;
  if not p_only <@ v_role.permissions then
    perform refuse('permission_not_in_role', array_to_string(
      array(select unnest(p_only) except select unnest(v_role.permissions) order by 1), ', '
    ));
  end if;
  perform require_grantable_permissions(coalesce(p_only, v_role.permissions));
  return p_role;
end $$;
--> statement-breakpoint
-- The caller's key, which row-level security may hide from the caller's own statement.
create function actor_key() returns api_keys
language sql stable security definer set search_path = public, pg_temp as $$
  select a
  from api_keys a
  where a.id = current_actor()
$$;
--> statement-breakpoint
-- The default role of a new key: the caller's, or Admin where an organization role does not fit.
create function default_key_role(p_scope text) returns uuid
language sql stable as $$
  select case when p_scope = 'key' or r.scope = 'workspace' then r.id else '00000000-0000-4000-8000-000000000001' end
  from roles r
  where r.id = (actor_key()).role_id
$$;
--> statement-breakpoint
-- The expiry of a new key: the requested one, but never later than that of the key that creates it.
create function new_key_expiry(p_requested timestamptz) returns timestamptz
language plpgsql stable as $$
declare
  v_own timestamptz := (actor_key()).expires_at;
begin
  if p_requested > v_own then perform refuse('key_outlives_creator', v_own::text); end if;
  return coalesce(p_requested, v_own);
end $$;
--> statement-breakpoint

-- ------------------------------------------------------------ Members
-- A member of a workspace is a member of its organization, at least as Organization User.
create function join_organization(p_email text, p_full_name text) returns uuid
language sql as $$
  insert into members (organization_id, email, full_name, role_id)
  values (current_organization(), p_email, p_full_name, '00000000-0000-4000-8000-000000000005')
  on conflict (organization_id, email) do update set email = excluded.email
  returning id
$$;
--> statement-breakpoint
create function require_member(p_member uuid) returns uuid
language plpgsql stable as $$
begin
  if not exists (select from members where id = p_member and organization_id = current_organization()) then
    perform refuse('member_not_found');
  end if;
  return p_member;
end $$;
--> statement-breakpoint
-- Volatile, so it sees a member whom the calling statement has just added.
create function read_member(p_member uuid) returns members
language sql volatile as $$
  select m
  from members m
  where m.id = p_member
$$;
--> statement-breakpoint
-- Admin while RBAC is off. With RBAC on, the caller has to name a role.
create function default_member_role() returns uuid
language plpgsql stable as $$
begin
  if (select rbac_enabled from organizations where id = current_organization()) then
    perform refuse('role_required');
  end if;
  return '00000000-0000-4000-8000-000000000001';
end $$;
--> statement-breakpoint
-- Locks the rows that the two triggers below lock, before the journal is locked. A write that locks the journal first
-- and then waits for these rows would deadlock.
create function lock_for_admin_checks(p_member uuid) returns void
language plpgsql as $$
begin
  perform from organizations where id = current_organization() for no key update;
  perform from workspaces
  where organization_id = current_organization()
    and id in (select tenant_id from workspace_members where member_id = p_member)
  order by id
  for no key update;
end $$;
--> statement-breakpoint
-- A workspace keeps an Admin. A trigger, because a member also leaves workspaces by leaving the organization.
create function require_workspace_admin() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_admin constant uuid := '00000000-0000-4000-8000-000000000001';
begin
  if old.role_id <> v_admin or (tg_op = 'UPDATE' and new.role_id = v_admin) then return null; end if;
  -- The lock serializes two removals. A workspace that is itself being deleted is not found.
  perform from workspaces where id = old.tenant_id for update;
  if found and not exists (select from workspace_members where tenant_id = old.tenant_id and role_id = v_admin) then
    perform refuse('last_admin');
  end if;
  return null;
end $$;
--> statement-breakpoint
create trigger require_workspace_admin
  after update of role_id or delete on workspace_members
  for each row execute function require_workspace_admin();
--> statement-breakpoint
create function require_organization_admin() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_admin constant uuid := '00000000-0000-4000-8000-000000000004';
begin
  if old.role_id <> v_admin or (tg_op = 'UPDATE' and new.role_id = v_admin) then return null; end if;
  perform from organizations where id = old.organization_id for update;
  if found and not exists (select from members where organization_id = old.organization_id and role_id = v_admin) then
    perform refuse('last_organization_admin');
  end if;
  return null;
end $$;
--> statement-breakpoint
create trigger require_organization_admin
  after update of role_id or delete on members
  for each row execute function require_organization_admin();
--> statement-breakpoint

-- ------------------------------------------------------------ The journal
create function journal_day() returns date
language sql stable
return (clock() at time zone 'UTC')::date;
--> statement-breakpoint
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
--> statement-breakpoint
-- Writes events into the caller's journal, numbered in their order, while the day is within the limit. Stored bytes
-- count too, 4 KiB as one event: otherwise changes of a mebibyte each would fill the disk. A function, because Postgres
-- caches its plans: inline in every change it was a third of what a patch costs the database.
create function journal(p_types text[], p_subjects uuid[], p_data json[], p_limit bigint, p_bytes bigint) returns bigint
language plpgsql as $$
declare
  v_count integer := cardinality(p_subjects);
  v_seq bigint;
  v_today bigint;
begin
  insert into journals (scope_id, organization_id, seq, day, today)
  values (current_scope(), current_organization(), v_count, journal_day(), v_count + p_bytes / 4096)
  on conflict (scope_id) do update set
    seq = journals.seq + excluded.seq,
    day = excluded.day,
    today = excluded.today + case when journals.day = excluded.day then journals.today else 0 end
  returning seq, today into v_seq, v_today;
  perform require_journal_room(v_today, p_limit);
  insert into events
    (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, request_id, data)
  select
    current_scope(),
    v_seq - v_count + ordinal,
    current_organization(),
    current_tenant(),
    type,
    subject_id,
    setting('actor_kind'),
    current_actor(),
    setting('request_id'),
    data
  from unnest(p_types, p_subjects, p_data) with ordinality as entry(type, subject_id, data, ordinal);
  return v_seq;
end $$;
--> statement-breakpoint

-- ------------------------------------------------------------ Quotas
-- Arguments: the column whose rows are counted together, the default limit, which rows count, and the limit's name. The
-- database's owner raises a limit with `alter database … set app.max_deployments = '50000'`. Writes of the operator
-- are not limited. What a workspace adds to its organization has a limit per workspace as well, so one workspace cannot
-- use up what all of them share.
create function enforce_quota() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_limit bigint := coalesce(setting('max_' || tg_argv[3]), tg_argv[1])::bigint;
  v_owner uuid;
  v_count bigint;
begin
  if current_setting('role', true) is distinct from 'slipway_app' then return null; end if;
  for v_owner in execute format('select distinct %1$I from added where %1$I is not null', tg_argv[0]) loop
    execute format(
      'select count(*) from (select from %I where %I = $1 and %s limit $2 + 1) counted',
      tg_table_name, tg_argv[0], tg_argv[2]
    ) into v_count using v_owner, v_limit;
    if v_count > v_limit then perform refuse('quota_full', v_limit || ' ' || replace(tg_argv[3], '_', ' ')); end if;
  end loop;
  return null;
end $$;
--> statement-breakpoint
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
--> statement-breakpoint

-- ------------------------------------------------------------ Deployments and revisions
-- Compared with the row's own workspace, whoever writes, and only where a reference changes.
create function check_deployment_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if exists (
      select from revisions r
      where r.tenant_id <> new.tenant_id
        and r.id in (new.latest_revision_id, new.active_revision_id, new.in_flight_revision_id, new.waiting_revision_id)
    )
    or exists (select from listeners l where l.id = new.listener_id and l.tenant_id <> new.tenant_id)
    or exists (select from deployments d where d.id = new.parent_deployment_id and d.tenant_id <> new.tenant_id)
    or exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'a deployment refers to a row of another workspace';
  end if;
  return null;
end $$;
--> statement-breakpoint
create trigger check_references_on_insert
  after insert on deployments
  for each row execute function check_deployment_references();
create trigger check_references_on_update
  after update on deployments
  for each row when (
    new.latest_revision_id is distinct from old.latest_revision_id
    or new.active_revision_id is distinct from old.active_revision_id
    or new.in_flight_revision_id is distinct from old.in_flight_revision_id
    or new.waiting_revision_id is distinct from old.waiting_revision_id
    or new.listener_id is distinct from old.listener_id
    or new.tag_value_ids is distinct from old.tag_value_ids
  )
  execute function check_deployment_references();
--> statement-breakpoint
create function check_revision_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if exists (
      select from deployments d
      where d.id = new.deployment_id
        and (d.tenant_id <> new.tenant_id or d.organization_id <> new.organization_id)
    )
    or exists (select from revisions r where r.id = new.from_revision_id and r.tenant_id <> new.tenant_id)
    or exists (select from api_keys k where k.id = new.actor_id and k.organization_id <> new.organization_id)
  then
    raise exception using errcode = '42501', message = 'a revision refers to a row of another workspace';
  end if;
  return null;
end $$;
--> statement-breakpoint
create trigger check_references_on_insert
  after insert on revisions
  for each row execute function check_revision_references();
--> statement-breakpoint

-- ------------------------------------------------------------ Custom hosts
-- The only functions that parse a custom_url. Rows may be older than the schema that normalizes it.
create function custom_host(p_url text) returns text
language sql immutable
return nullif(lower(split_part(split_part(regexp_replace(p_url, '^https?://', ''), '/', 1), ':', 1)), '');
--> statement-breakpoint
create function custom_path(p_url text) returns text
language sql immutable
return coalesce(nullif(rtrim(substring(regexp_replace(p_url, '^https?://', '') from '/.*$'), '/'), ''), '/');
--> statement-breakpoint
-- The host belongs to no other workspace, and no other deployment of this one uses it with the path.
create function require_free_custom_url(p_tenant uuid, p_deployment uuid, p_host text, p_path text) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  if exists (select from custom_hosts where host = p_host and tenant_id <> p_tenant) then
    perform refuse('custom_host_taken');
  end if;
  if exists (
    select from deployments
    where custom_host = p_host and custom_path = p_path and tenant_id = p_tenant and id is distinct from p_deployment
  ) then
    perform refuse('custom_url_taken');
  end if;
  return true;
end $$;
--> statement-breakpoint
-- Claims the host of a deployment's custom_url for its workspace and releases the previous host. A trigger, because
-- several statements change custom_url and deleting_at. BEFORE, because the lock order everywhere is deployments,
-- hosts, journals, cursors.
create function claim_custom_host() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_before text := case when tg_op = 'UPDATE' then old.custom_host end;
begin
  new.custom_host := case when new.deleting_at is null then custom_host(new.source_config ->> 'custom_url') end;
  new.custom_path := case when new.custom_host is not null then custom_path(new.source_config ->> 'custom_url') end;
  if tg_op = 'UPDATE'
    and (new.custom_host, new.custom_path) is not distinct from (old.custom_host, old.custom_path) then
    return new;
  end if;
  -- In the order of the names, so two deployments that swap hosts cannot deadlock.
  perform from custom_hosts where host in (v_before, new.custom_host) order by host for update;
  if new.custom_host is not null then
    -- The no-op update locks an existing row, whichever workspace owns it.
    insert into custom_hosts as h (host, organization_id, tenant_id)
    values (new.custom_host, new.organization_id, new.tenant_id)
    on conflict (host) do update set host = excluded.host;
    perform require_free_custom_url(new.tenant_id, new.id, new.custom_host, new.custom_path);
  end if;
  if v_before is distinct from new.custom_host then
    delete from custom_hosts h
    where h.host = v_before and h.tenant_id = new.tenant_id
      and not exists (
        select from deployments d
        where d.custom_host = v_before and d.tenant_id = new.tenant_id and d.id <> new.id
      );
  end if;
  return new;
end $$;
--> statement-breakpoint
create trigger claim_custom_host_on_insert
  before insert on deployments
  for each row when ((new.source_config ->> 'custom_url') is not null)
  execute function claim_custom_host();
create trigger claim_custom_host_on_update
  before update of source_config, deleting_at on deployments
  for each row when (
    (new.source_config ->> 'custom_url') is distinct from (old.source_config ->> 'custom_url')
    or new.deleting_at is distinct from old.deleting_at
  )
  execute function claim_custom_host();
--> statement-breakpoint
-- The workspace that has claimed a host, if any: the control plane looks up its DNS record. Never shown to a caller.
create function custom_host_owner(p_host text) returns setof custom_hosts
language sql stable security definer set search_path = public, pg_temp as $$
  select *
  from custom_hosts
  where host = p_host
$$;
--> statement-breakpoint
-- Records that the caller's workspace has proved the host by DNS. It takes over an unverified claim of another
-- workspace. It takes over a verified one only if `p_owner` still owns it and its DNS record is gone.
create function verify_custom_host(p_host text, p_owner uuid, p_owner_gone boolean) returns setof custom_hosts
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
    insert into events (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, request_id, data)
    select
      v_before.tenant_id,
      seq,
      v_before.organization_id,
      v_before.tenant_id,
      'custom_host.lost',
      v_before.id,
      'cron',
      setting('request_id'),
      json_build_object('host', p_host)
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

-- ------------------------------------------------------------ Source archives
-- The archive was uploaded in this workspace. Its row stays locked until the transaction ends, so the sweep skips it.
create function require_stored_archive(p_path text) returns boolean
language plpgsql cost 10000 as $$
begin
  perform from uploads where tenant_id = current_tenant() and object_path = p_path and state = 'stored' for share;
  if not found then perform refuse('archive_unknown'); end if;
  return true;
end $$;
--> statement-breakpoint
-- The workspace may store `p_bytes` more bytes. Serialized per workspace, so two uploads do not share the last room. An
-- upload that broke off counts for an hour.
create function require_upload_room(p_tenant uuid, p_bytes bigint, p_limit bigint) returns boolean
language plpgsql volatile cost 20000 as $$
declare
  v_used bigint;
begin
  perform pg_advisory_xact_lock(hashtextextended('uploads of ' || p_tenant, 0));
  select coalesce(sum(coalesce(size, reserved)), 0)
  into v_used
  from uploads
  where tenant_id = p_tenant
    and (state in ('stored', 'removing') or state = 'receiving' and used_at > clock() - interval '1 hour');
  if v_used + p_bytes > p_limit then perform refuse('uploads_full'); end if;
  return true;
end $$;
--> statement-breakpoint
-- The workspace has fewer than `p_limit` unused upload links.
create function require_upload_link_room(p_tenant uuid, p_limit integer) returns boolean
language plpgsql volatile cost 10000 as $$
begin
  if (
    select count(*)
    from uploads
    where tenant_id = p_tenant and state = 'offered' and expires_at > clock()
  ) >= p_limit then
    perform refuse('upload_links_full');
  end if;
  return true;
end $$;
--> statement-breakpoint

-- ------------------------------------------------------------ OAuth providers
-- Codes, access tokens and refresh tokens go only to a provider that still has the binding they were granted under.
create function oauth_binding(p oauth_providers) returns text
language sql stable
return md5(
  json_build_array(
    p.issuer, p.client_id, p.resource, p.auth_url, p.token_url, p.revocation_url, p.registration_client_uri
  )::text
);
--> statement-breakpoint
-- Records which addresses a client secret was issued for. A trigger, so no write can forget it: a secret that stays
-- while its endpoints change still belongs to the old ones.
create function bind_provider_secrets() returns trigger
language plpgsql as $$
begin
  if tg_op = 'INSERT' or new.client_secret is distinct from old.client_secret then
    new.client_secret_urls := case
      when new.client_secret is null then '{}'
      else array_remove(array[new.token_url, new.revocation_url], null)
    end;
  end if;
  if tg_op = 'UPDATE' and new.registration_client_uri is distinct from old.registration_client_uri
    and new.registration_access_token = old.registration_access_token then
    new.registration_access_token := null;
  end if;
  return new;
end $$;
--> statement-breakpoint
create trigger bind_provider_secrets
  before insert or update on oauth_providers
  for each row execute function bind_provider_secrets();
--> statement-breakpoint
-- Locks a provider before it is changed or deleted, and refuses a caller that may not. A provider belongs to the
-- organization: a workspace that could point it at another server would receive the tokens of every other workspace.
-- A flow or token that is being written locks the provider too, so the checks below see it.
create function lock_provider_to_change(p_provider_id text) returns void
language plpgsql volatile security definer set search_path = public, pg_temp as $$
declare
  p oauth_providers;
begin
  select *
  into p
  from oauth_providers
  where organization_id = current_organization() and provider_id = p_provider_id
  for update;
  if not found or 'organization:manage-providers' = any(actor_permissions()) then return; end if;
  -- A provider without a maker and a caller without a workspace never match.
  if p.made_by_workspace is null or p.made_by_workspace is distinct from current_tenant() then
    perform refuse('provider_not_yours', 'another workspace made it');
  end if;
  if exists (
      select from oauth_tokens t
      where t.provider_id = p.id and t.tenant_id <> current_tenant() and t.revoked_at is null
    )
    or exists (
      select from oauth_flows f
      where f.provider_id = p.id and f.tenant_id <> current_tenant()
        and f.status in ('pending', 'answered') and f.expires_at > clock()
    )
  then
    perform refuse('provider_not_yours', 'other workspaces are connected through it');
  end if;
end $$;
--> statement-breakpoint
-- Revokes what was granted under another binding than the provider's current one, in every workspace. Grants with the
-- binding `p_moved_binding` get the current one instead: the provider's own issuer moved its endpoints within their
-- origins.
create function revoke_outdated_grants(p_provider uuid, p_moved_binding text) returns integer
language plpgsql volatile security definer set search_path = public, pg_temp as $$
declare
  v_now text := (
    select oauth_binding(p)
    from oauth_providers p
    where p.id = p_provider and p.organization_id = current_organization()
  );
  v_ended integer;
begin
  if v_now is null then return 0; end if;
  update oauth_tokens
  set bound_to = v_now
  where provider_id = p_provider and revoked_at is null and bound_to = p_moved_binding;
  update oauth_flows
  set bound_to = v_now
  where provider_id = p_provider and status in ('pending', 'answered') and bound_to = p_moved_binding;
  -- A new generation, so a refresh in flight at the old endpoint writes nothing.
  update oauth_tokens
  set revoked_at = clock(), leased_until = null, generation = generation + 1
  where provider_id = p_provider and revoked_at is null and bound_to <> v_now;
  get diagnostics v_ended = row_count;
  update oauth_flows
  set status = 'failed', failure = 'provider_changed'
  where provider_id = p_provider and status in ('pending', 'answered') and bound_to <> v_now;
  return v_ended;
end $$;
--> statement-breakpoint
-- The tokens of a provider that its server can still revoke, in every workspace: those under the current binding.
create function tokens_of_provider(p_provider_id text, p_limit integer) returns setof oauth_tokens
language sql stable security definer set search_path = public, pg_temp as $$
  select t.*
  from oauth_tokens t
  join oauth_providers p on p.id = t.provider_id
  where p.organization_id = current_organization() and p.provider_id = p_provider_id
    and t.revoked_at is null and t.bound_to = oauth_binding(p)
  order by t.updated_at desc
  limit p_limit
$$;
--> statement-breakpoint

-- ------------------------------------------------------------ Git hosts
-- An integration of another workspace counts as unknown.
create function require_active_integration(p_id uuid) returns boolean
language plpgsql stable cost 10000 as $$
declare
  v_state text := (select state from integrations where id = p_id and tenant_id = current_tenant());
begin
  if v_state is null then perform refuse('integration_unknown'); end if;
  if v_state <> 'active' then perform refuse('integration_' || v_state); end if;
  return true;
end $$;
--> statement-breakpoint

-- ------------------------------------------------------------ Listeners and their agents
-- Called after enter(): the holder of an agent's key acts for its listener only.
create function become_listener(p_key uuid) returns uuid
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_listener record;
begin
  select l.id, l.tenant_id
  into v_listener
  from api_keys a
  join listeners l on l.id = a.listener_id
  where a.id = p_key;
  if not found then perform refuse('listener_not_found'); end if;
  perform
    set_config('app.listener_id', v_listener.id::text, true),
    set_config('app.platform', (v_listener.tenant_id is null)::text, true);
  return v_listener.id;
end $$;
--> statement-breakpoint
-- The listener that a new deployment names, with its namespace. It stays locked while the deployment is written.
create function require_listener(p_listener uuid, p_namespace text, p_is_required boolean) returns uuid
language plpgsql as $$
declare
  v_namespaces jsonb;
begin
  if p_listener is null then
    if p_is_required and exists (select from listeners where tenant_id = current_tenant()) then
      perform refuse('source_rule', 'source_config.listener_id is required: this workspace has listeners');
    end if;
    return null;
  end if;
  select compute_config::jsonb -> 'k8s_namespaces'
  into v_namespaces
  from listeners
  where id = p_listener and tenant_id = current_tenant()
  for share;
  if not found then
    perform refuse('source_rule', 'source_config.listener_id is not a listener of this workspace');
  end if;
  if p_namespace is null and jsonb_array_length(v_namespaces) > 0 then
    perform refuse(
      'source_rule', 'source_config.listener_config.k8s_namespace is required: name a namespace of the listener'
    );
  end if;
  if p_namespace is not null and not v_namespaces ? p_namespace then
    perform refuse('source_rule', 'source_config.listener_config.k8s_namespace is not a namespace of the listener');
  end if;
  return p_listener;
end $$;
--> statement-breakpoint
-- What a deployment at a generation adds to its listener's digest.
create function sync_item_hash(p_deployment uuid, p_generation integer) returns bigint
language sql immutable
return ('x' || left(
  encode(sha256((p_deployment::text || ':' || p_generation::text)::bytea), 'hex'), 16
))::bit(64)::bigint;
--> statement-breakpoint
-- Gives each item the next number of its listener. The counter's row stays locked until the transaction ends, so
-- numbers become visible in order and a cursor never skips one in flight. Counters are locked in one order, and last.
create function record_sync_items(p_items sync_items[]) returns void
language sql security definer set search_path = public, pg_temp as $$
  with changed as (
    select
      n.deployment_id,
      n.listener_id,
      n.generation,
      sync_item_hash(n.deployment_id, n.generation)
        # coalesce(sync_item_hash(o.deployment_id, o.generation), 0) as digest_change
    from unnest(p_items) n
    left join sync_items o on o.deployment_id = n.deployment_id
  ),
  numbered as (
    insert into sync_cursors as c (listener_id, seq, digest)
    select listener_id, count(*), bit_xor(digest_change)
    from changed
    group by listener_id
    order by listener_id
    on conflict (listener_id) do update set seq = c.seq + excluded.seq, digest = c.digest # excluded.digest
    returning listener_id, seq
  )
  insert into sync_items (deployment_id, listener_id, generation, seq)
  select
    deployment_id,
    listener_id,
    generation,
    numbered.seq - count(*) over of_listener + row_number() over of_listener
  from changed
  join numbered using (listener_id)
  window of_listener as (partition by listener_id)
  on conflict (deployment_id) do update set
    listener_id = excluded.listener_id,
    generation = excluded.generation,
    seq = excluded.seq
$$;
--> statement-breakpoint
-- Triggers, because many statements change a generation, and a workspace deletes its deployments with it.
create function sync_after_insert() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_items sync_items[] := (
    select array_agg((id, listener_id, 0, generation)::sync_items)
    from after
    where listener_id is not null
  );
begin
  if v_items is not null then perform record_sync_items(v_items); end if;
  return null;
end $$;
--> statement-breakpoint
create function sync_after_update() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_items sync_items[] := (
    select array_agg((a.id, a.listener_id, 0, a.generation)::sync_items)
    from after a
    join before b on b.id = a.id
    where a.listener_id is not null
      and (a.generation <> b.generation or a.listener_id is distinct from b.listener_id)
  );
begin
  if v_items is not null then perform record_sync_items(v_items); end if;
  return null;
end $$;
--> statement-breakpoint
create function delete_sync_items(p_deployments uuid[]) returns void
language sql security definer set search_path = public, pg_temp as $$
  with gone as (
    delete from sync_items
    where deployment_id = any(p_deployments) and listener_id = current_listener()
    returning *
  )
  update sync_cursors c
  set digest = c.digest # g.digest
  from (
    select listener_id, bit_xor(sync_item_hash(deployment_id, generation)) as digest
    from gone
    group by listener_id
  ) g
  where c.listener_id = g.listener_id
$$;
--> statement-breakpoint
-- A deployment that its own agent removed is forgotten. One deleted otherwise stays as wanted absent, until the agent
-- reports that it removed it.
create function sync_after_delete() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_items sync_items[];
begin
  if current_listener() is not null then
    perform delete_sync_items(array(select id from before));
  else
    v_items := (
      select array_agg((i.deployment_id, i.listener_id, 0, i.generation + 1)::sync_items)
      from before b
      join sync_items i on i.deployment_id = b.id
    );
    if v_items is not null then perform record_sync_items(v_items); end if;
  end if;
  return null;
end $$;
--> statement-breakpoint
create trigger sync_after_insert
  after insert on deployments
  referencing new table as after
  for each statement execute function sync_after_insert();
create trigger sync_after_update
  after update on deployments
  referencing old table as before new table as after
  for each statement execute function sync_after_update();
create trigger sync_after_delete
  after delete on deployments
  referencing old table as before
  for each statement execute function sync_after_delete();
--> statement-breakpoint

-- ------------------------------------------------------------ Ids of other tenants
-- Policies call these, because a policy cannot see rows of other tenants. Each returns false if the id belongs to
-- another tenant. An id that does not exist passes: the same statement inserts it, or a foreign key refuses it.
create function is_own_workspace(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from workspaces
    where id = p_id and (
        organization_id is distinct from current_organization()
        or id <> coalesce(current_tenant(), id)
      )
  );
end $$;
--> statement-breakpoint
create function is_own_role(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from roles
    where id = p_id and organization_id <> current_organization()
  );
end $$;
--> statement-breakpoint
create function is_own_member(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from members
    where id = p_id and organization_id is distinct from current_organization()
  );
end $$;
--> statement-breakpoint
create function is_own_key(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from api_keys
    where id = p_id and organization_id is distinct from current_organization()
  );
end $$;
--> statement-breakpoint
create function is_own_provider(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from oauth_providers
    where id = p_id and organization_id is distinct from current_organization()
  );
end $$;
--> statement-breakpoint
create function is_own_listener(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from listeners
    where id = p_id and tenant_id is not null
      and (
        organization_id is distinct from current_organization()
        or tenant_id <> coalesce(current_tenant(), tenant_id)
      )
  );
end $$;
--> statement-breakpoint
create function is_own_deployment(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from deployments
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
--> statement-breakpoint
create function is_own_revision(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from revisions
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
--> statement-breakpoint
create function is_own_tag_key(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from tag_keys
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
--> statement-breakpoint
create function is_own_preview(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from previews
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
--> statement-breakpoint
create function is_own_integration(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from integrations
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
