-- Members, roles and API keys, and which of them a caller may grant.

-- The budget of a key that another key created. Agents of a listener poll steadily, so they share a budget of their own
-- and not their creator's. A key that an organization key creates for a workspace gets a budget of that workspace:
-- otherwise one workspace could use up what the organization and its other workspaces need.
create function budget_of_child_key(p_creator uuid, p_creator_tenant uuid, p_tenant uuid, p_listener uuid) returns uuid
language sql immutable
return coalesce(
  p_listener,
  case when p_tenant is distinct from p_creator_tenant then md5(p_creator || ' ' || p_tenant)::uuid else p_creator end
);

-- A trigger, so no way of creating a key can leave the budget out. The creator's row stays locked until the new key
-- exists: revoke_key_tree() waits for that lock and then finds the new key, or has already revoked the creator. The
-- keys of a member share one budget in each workspace, as those of an organization key do.
create function inherit_budget() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
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
create trigger inherit_budget
  before insert on api_keys
  for each row execute function inherit_budget();

-- Revokes a key that the caller can see and every key created with it, transitively, in every workspace. Writes one
-- event for each into the journal of its scope. Returns the revoked ids: none if the key is unknown or already revoked.
create function revoke_key_tree(p_key uuid) returns setof uuid
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
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
grant execute on function revoke_key_tree(uuid) to slipway_app;

-- The caller's permissions: its role's, narrowed by the key's own list.
create function actor_permissions() returns text[]
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
grant execute on function actor_permissions() to slipway_app;

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

-- A caller can grant only a role of this scope whose permissions it has. `p_only` is the narrowed list of a new key.
-- The role stays locked until the transaction ends, so it cannot be deleted meanwhile. Built-in roles need no lock.
create function require_grantable_role(p_role uuid, p_scope text, p_only text[] default null) returns uuid
language plpgsql set plan_cache_mode = force_generic_plan as $$
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
  perform require_grantable_policies(array[p_role]);
  return p_role;
end $$;

-- The caller's key, which row-level security may hide from the caller's own statement.
create function actor_key() returns api_keys
language sql stable security definer set search_path = public, pg_temp as $$
  select a
  from api_keys a
  where a.id = current_actor()
$$;
grant execute on function actor_key() to slipway_app;

-- The default role of a new key: the caller's, or Admin where an organization role does not fit. For a member, the role
-- in the current workspace, or else the role in the organization.
create function default_key_role(p_scope text) returns uuid
language sql stable as $$
  select case when p_scope = 'key' or r.scope = 'workspace' then r.id else '00000000-0000-4000-8000-000000000001' end
  from roles r
  where r.id = case
    when setting('actor_kind') <> 'session' then (actor_key()).role_id
    else coalesce(
      (
        select m.role_id
        from workspace_members m
        where p_scope = 'workspace' and m.member_id = current_actor() and m.tenant_id = current_tenant()
      ),
      (select m.role_id from members m where m.id = current_actor())
    )
  end
$$;

-- The expiry of a new key: the requested one, but never later than that of the key that creates it.
create function new_key_expiry(p_requested timestamptz) returns timestamptz
language plpgsql stable as $$
declare
  v_own timestamptz := (maker_key()).expires_at;
begin
  if p_requested > v_own then perform refuse('key_outlives_creator', v_own::text); end if;
  return coalesce(p_requested, v_own);
end $$;

-- A member of a workspace is a member of its organization, at least as Organization User.
create function join_organization(p_email text, p_full_name text) returns uuid
language sql as $$
  insert into members (organization_id, email, full_name, role_id)
  values (current_organization(), p_email, p_full_name, '00000000-0000-4000-8000-000000000005')
  on conflict (organization_id, email) do update set email = excluded.email
  returning id
$$;

create function require_member(p_member uuid) returns uuid
language plpgsql stable as $$
begin
  if not exists (select from members where id = p_member and organization_id = current_organization()) then
    perform refuse('member_not_found');
  end if;
  return p_member;
end $$;

-- Volatile, so it sees a member whom the calling statement has just added.
create function read_member(p_member uuid) returns members
language sql volatile as $$
  select m
  from members m
  where m.id = p_member
$$;

-- Admin while RBAC is off. With RBAC on, the caller has to name a role.
create function default_member_role() returns uuid
language plpgsql stable as $$
begin
  if (select rbac_enabled from organizations where id = current_organization()) then
    perform refuse('role_required');
  end if;
  return '00000000-0000-4000-8000-000000000001';
end $$;

-- Locks the rows that the two triggers below lock, before the journal is locked. A write that locks the journal first
-- and then waits for these rows would deadlock.
create function lock_for_admin_checks(p_member uuid) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  perform from organizations where id = current_organization() for no key update;
  perform from workspaces
  where organization_id = current_organization()
    and id in (select tenant_id from workspace_members where member_id = p_member)
  order by id
  for no key update;
end $$;

-- A workspace keeps an Admin. A trigger, because a member also leaves workspaces by leaving the organization. The lock
-- is weak, as in lock_for_admin_checks(): the approval of a device holds the foreign key's lock of the workspace when
-- it waits for the journal of the organization.
create function require_workspace_admin() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
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
create trigger require_workspace_admin
  after update of role_id or delete on workspace_members
  for each row execute function require_workspace_admin();

create function require_organization_admin() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
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
create trigger require_organization_admin
  after update of role_id or delete on members
  for each row execute function require_organization_admin();

-- Returns member_permissions(), but null for a workspace that GET /v2/me does not list for the member.
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

-- The permissions that a key of a member has now. Null if the member has lost the workspace, or every permission of the
-- key. One query, because enter_by_key() asks it for each request of such a key: with reachable_permissions() it takes
-- twice as long.
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

-- Locks the sessions and keys of a member before its deletion. A request that is running has locked its session or key
-- already, and may lock the member next, so the deletion takes them in the same order.
create function lock_credentials(p_member uuid) returns void
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
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
grant execute on function lock_credentials(uuid) to slipway_app;

-- The app knows a trace key as `<deployment>.<version>`, and a model token as `<deployment>.<version>.models`.
create function credential_permission(p_key text) returns text
language sql immutable parallel safe
return case when split_part(p_key, '.', 3) = 'models' then 'models:invoke' else 'runs:create' end;

create function lock_key_tree(p_key uuid) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
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

-- A manager of the members of an organization can add a member with any address, and act as that member by a link.
-- So an address counts only if the identity provider or the operator has vouched for the person who uses it.
create function is_verified_member(p_member uuid) returns boolean
language sql stable security definer set search_path = public, pg_temp as $$
  select exists (
    select from members m
    where m.id = p_member and m.organization_id = current_organization()
      and (
        exists (select from identities i where i.member_id = m.id)
        or exists (select from sessions s where s.member_id = m.id and s.is_verified)
      )
  )
$$;
grant execute on function is_verified_member(uuid) to slipway_app;

-- Returns true for a verified session of a person with one of the addresses, and for a key that it has approved.
create function is_instance_admin(p_addresses text[]) returns boolean
language sql stable security definer set search_path = public, pg_temp as $$
  select exists (
    select from members m
    where m.email = any(p_addresses)
      and m.id = case setting('actor_kind')
        when 'session'
          then (select s.member_id from sessions s where s.id = setting('session_id')::uuid and s.is_verified)
        when 'key' then (select a.member_id from api_keys a where a.id = current_actor() and a.is_verified)
      end
  )
$$;
grant execute on function is_instance_admin(text[]) to slipway_app;

create function require_instance_admin(p_addresses text[]) returns void
language plpgsql stable as $$
begin
  if not is_instance_admin(p_addresses) then perform refuse('instance_admin_required'); end if;
end $$;
