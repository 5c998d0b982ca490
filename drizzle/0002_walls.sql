-- The door, and the walls behind it: enter(), row-level security, and what a caller may hand on to others.

create unlogged table rate_windows (
  key_id uuid primary key,
  started_at timestamptz not null,
  requests integer not null
) with (fillfactor = 50);
--> statement-breakpoint

-- ---------------------------------------------------------------- row-level security
alter table organizations enable row level security, force row level security;
alter table workspaces enable row level security, force row level security;
alter table roles enable row level security, force row level security;
alter table members enable row level security, force row level security;
alter table workspace_members enable row level security, force row level security;
alter table api_keys enable row level security, force row level security;
alter table journals enable row level security, force row level security;
alter table events enable row level security, force row level security;
alter table idempotency_keys enable row level security, force row level security;
alter table rate_windows enable row level security, force row level security;
--> statement-breakpoint
create policy own on organizations to slipway_app using (id = current_organization());
-- A workspace key sees its own workspace, an organisation key all of its organisation's.
create policy own on workspaces to slipway_app
  using (organization_id = current_organization() and (current_tenant() is null or id = current_tenant()));
create policy built_in on roles for select to slipway_app using (organization_id is null);
create policy own on roles to slipway_app using (organization_id = current_organization());
create policy own on members to slipway_app using (organization_id = current_organization());
create policy own on workspace_members to slipway_app
  using (organization_id = current_organization() and (current_tenant() is null or tenant_id = current_tenant()));
create policy own on api_keys to slipway_app
  using (organization_id = current_organization() and (current_tenant() is null or tenant_id = current_tenant()));
create policy own on journals to slipway_app using (scope_id = current_scope());
create policy own on events to slipway_app
  using (organization_id = current_organization() and (current_tenant() is null or tenant_id = current_tenant()));
create policy own on idempotency_keys to slipway_app using (actor_id = current_actor());
--> statement-breakpoint
do $$
declare t text;
begin
  foreach t in array array['organizations', 'workspaces', 'roles', 'members', 'workspace_members', 'api_keys',
    'journals', 'events', 'idempotency_keys', 'rate_windows'] loop
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', t);
    execute format('grant select, insert, update, delete on %I to slipway_system', t);
  end loop;
end $$;
--> statement-breakpoint
grant select, update on organizations to slipway_app;
grant select, insert, update, delete on workspaces, roles, members, workspace_members to slipway_app;
grant select, insert, update on api_keys, journals to slipway_app;
grant select, insert on events, idempotency_keys to slipway_app;
--> statement-breakpoint

-- ---------------------------------------------------------------- the door
-- Finds the key, refuses it or its permission, replays an answered write, and says for this transaction who asks.
create function enter(
  p_key_hash text, p_workspace uuid, p_permission text, p_in_workspace boolean,
  p_request_id text, p_clock_offset text,
  p_without_if_match boolean, p_idempotency_key text, p_fingerprint text, p_rate_limit integer
) returns table (organization_id uuid, tenant_id uuid, actor_id uuid)
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  k record;
  v_tenant uuid;
  v_answered record;
  v_window record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  select a.id, a.organization_id, a.tenant_id, a.expires_at, a.revoked_at, a.last_used_at,
         p_permission = any(r.permissions) and (a.permissions is null or p_permission = any(a.permissions)) as may
    into k
    from api_keys a join roles r on r.id = a.role_id where a.key_hash = p_key_hash;
  if not found then perform refuse('key_unknown'); end if;
  if k.revoked_at is not null then perform refuse('key_revoked'); end if;
  if k.expires_at <= clock() then perform refuse('key_expired'); end if;

  if k.tenant_id is not null then
    if p_workspace <> k.tenant_id then perform refuse('workspace_forbidden'); end if;
    v_tenant := k.tenant_id;
  elsif p_workspace is not null then
    if not exists (select from workspaces w where w.id = p_workspace and w.organization_id = k.organization_id) then
      perform refuse('workspace_forbidden');
    end if;
    v_tenant := case when p_in_workspace then p_workspace end;
  elsif p_in_workspace then
    perform refuse('workspace_required');
  end if;
  if not k.may then perform refuse('permission_missing', p_permission); end if;
  if p_without_if_match and exists (select from workspaces w where w.id = v_tenant and w.require_if_match) then
    perform refuse('if_match_required');
  end if;

  if p_rate_limit is not null then
    select w.requests, ceil(60 - extract(epoch from clock() - w.started_at)) as wait into v_window
      from rate_windows w where w.key_id = k.id and w.started_at > clock() - interval '60 seconds';
    if v_window.requests >= p_rate_limit then perform refuse('rate_limited', v_window.wait::text); end if;
  end if;

  perform set_config('app.organization_id', k.organization_id::text, true),
          set_config('app.tenant_id', coalesce(v_tenant::text, ''), true),
          set_config('app.actor_kind', 'key', true),
          set_config('app.actor_id', k.id::text, true),
          set_config('app.request_id', p_request_id, true);

  if p_idempotency_key is not null then
    if not pg_try_advisory_xact_lock(hashtextextended(k.id || ':' || p_idempotency_key, 0)) then
      perform refuse('idempotency_in_flight');
    end if;
    select i.fingerprint, i.result, i.created_at into v_answered
      from idempotency_keys i where i.actor_id = k.id and i.key = p_idempotency_key;
    if found and v_answered.created_at < clock() - interval '24 hours' then
      delete from idempotency_keys i where i.actor_id = k.id and i.key = p_idempotency_key;
    elsif found and v_answered.fingerprint <> p_fingerprint then
      perform refuse('idempotency_key_reused');
    elsif found then
      -- Raising ends the transaction, so that the batch's later statements cannot act twice.
      raise exception using errcode = 'SW001', message = 'replay', detail = v_answered.result::text;
    end if;
  end if;

  -- Once a minute at most, and never waiting for another request's stamp. Not journaled: it is no change anyone made.
  if k.last_used_at is null or k.last_used_at < clock() - interval '1 minute' then
    update api_keys a set last_used_at = clock()
      where a.id = (select b.id from api_keys b where b.id = k.id for update skip locked);
  end if;
  return query select k.organization_id, v_tenant, k.id;
end $$;
--> statement-breakpoint

-- Counted last in a batch, so that requests of one key never wait for each other's statements.
create function count_request(p_limit integer) returns table (remaining integer, reset integer)
language sql security definer set search_path = public, pg_temp as $$
  insert into rate_windows as w (key_id, started_at, requests) values (current_actor(), clock(), 1)
  on conflict (key_id) do update set
    requests = case when w.started_at > clock() - interval '60 seconds' then w.requests + 1 else 1 end,
    started_at = case when w.started_at > clock() - interval '60 seconds' then w.started_at else clock() end
  returning greatest(p_limit - requests, 0), ceil(60 - extract(epoch from clock() - started_at))::integer
$$;
--> statement-breakpoint

-- ---------------------------------------------------------------- what an actor may hand on
-- The permissions of whoever asks; of a key: its role's, narrowed.
create function actor_permissions() returns text[]
language sql stable security definer set search_path = public, pg_temp as $$
  select case when a.permissions is null then r.permissions
              else array(select unnest(r.permissions) intersect select unnest(a.permissions)) end
  from api_keys a join roles r on r.id = a.role_id where a.id = current_actor()
$$;
--> statement-breakpoint
-- Returns the permissions if whoever asks has them all, and refuses otherwise, naming the others.
create function grantable(p_permissions text[]) returns text[] language plpgsql stable as $$
declare
  v_excess text := array_to_string(array(select unnest(p_permissions) except select unnest(actor_permissions()) order by 1), ', ');
begin
  if v_excess <> '' then perform refuse('role_exceeds_actor', v_excess); end if;
  return p_permissions;
end $$;
--> statement-breakpoint
-- Returns the role if it may be given in this scope by whoever asks, `p_only` being what a key is narrowed to.
create function grantable_role(p_role uuid, p_scope text, p_only text[] default null) returns uuid language plpgsql stable as $$
declare
  r record;
begin
  -- An organisation key may hold a workspace's role: it then has it in every workspace.
  select permissions into r from roles where id = p_role and (scope = p_scope or p_scope = 'key')
    and (organization_id is null or organization_id = current_organization());
  if not found then perform refuse('role_not_found'); end if;
  if not p_only <@ r.permissions then
    perform refuse('permission_not_in_role', array_to_string(array(select unnest(p_only) except select unnest(r.permissions) order by 1), ', '));
  end if;
  perform grantable(coalesce(p_only, r.permissions));
  return p_role;
end $$;
--> statement-breakpoint
-- The key of whoever asks, which row-level security may hide from its own statement.
create function actor_key() returns api_keys
language sql stable security definer set search_path = public, pg_temp as $$
  select a from api_keys a where a.id = current_actor()
$$;
--> statement-breakpoint
-- The role of a new key for which none is named: that of whoever asks, or Admin where an organisation's role does not fit.
create function actor_role(p_scope text) returns uuid language sql stable as $$
  select case when p_scope = 'key' or r.scope = 'workspace' then r.id else '00000000-0000-4000-8000-000000000001' end
  from roles r where r.id = (actor_key()).role_id
$$;
--> statement-breakpoint
-- When a new key ends: as asked, but never after the key that makes it.
create function grantable_expiry(p_asked timestamptz) returns timestamptz language plpgsql stable as $$
declare
  v_own timestamptz := (actor_key()).expires_at;
begin
  if p_asked > v_own then perform refuse('key_outlives_creator', v_own::text); end if;
  return coalesce(p_asked, v_own);
end $$;
--> statement-breakpoint

-- ---------------------------------------------------------------- members
-- Whoever joins a workspace belongs to its organisation, at least as Organization User.
create function join_organization(p_email text, p_full_name text) returns uuid language sql as $$
  insert into members (organization_id, email, full_name, role_id)
  values (current_organization(), p_email, p_full_name, '00000000-0000-4000-8000-000000000005')
  on conflict (organization_id, email) do update set email = excluded.email
  returning id
$$;
--> statement-breakpoint
-- A member of this organisation by id, or a refusal.
create function member_of_organization(p_member uuid) returns uuid language plpgsql stable as $$
begin
  if not exists (select from members where id = p_member and organization_id = current_organization()) then
    perform refuse('member_not_found');
  end if;
  return p_member;
end $$;
--> statement-breakpoint
-- A member as of now: a statement does not see who has joined in it, a volatile function does.
create function person(p_member uuid) returns members language sql volatile as $$
  select m from members m where m.id = p_member
$$;
--> statement-breakpoint
-- Where RBAC is off everyone is Admin unless said otherwise; where it is on, it must be said.
create function default_role() returns uuid language plpgsql stable as $$
begin
  if (select rbac_enabled from organizations where id = current_organization()) then perform refuse('role_required'); end if;
  return '00000000-0000-4000-8000-000000000001';
end $$;
--> statement-breakpoint

-- ---------------------------------------------------------------- a workspace keeps an Admin
-- Here and not in a verb, because a member also leaves workspaces by leaving the organisation.
create function keep_an_admin() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_admin constant uuid := '00000000-0000-4000-8000-000000000001';
begin
  if old.role_id <> v_admin or (tg_op = 'UPDATE' and new.role_id = v_admin) then return null; end if;
  -- The lock makes two removals take turns; a workspace that is itself going away is not found.
  perform from workspaces where id = old.tenant_id for update;
  if found and not exists (select from workspace_members where tenant_id = old.tenant_id and role_id = v_admin) then
    perform refuse('last_admin');
  end if;
  return null;
end $$;
--> statement-breakpoint
create trigger keep_an_admin after update of role_id or delete on workspace_members
  for each row execute function keep_an_admin();
--> statement-breakpoint
create function keep_an_organization_admin() returns trigger
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
create trigger keep_an_organization_admin after update of role_id or delete on members
  for each row execute function keep_an_organization_admin();
--> statement-breakpoint

-- Functions that see everything belong to the role that may; nobody else may call what they are not given.
do $$
declare f text;
begin
  grant create on schema public to slipway_system;
  foreach f in array array['enter(text, uuid, text, boolean, text, text, boolean, text, text, integer)',
    'count_request(integer)', 'actor_permissions()', 'actor_key()',
    'keep_an_admin()', 'keep_an_organization_admin()'] loop
    execute format('alter function %s owner to slipway_system', f);
    execute format('revoke execute on function %s from public', f);
  end loop;
  revoke create on schema public from slipway_system;
end $$;
--> statement-breakpoint
set local role slipway_system;
grant execute on function actor_permissions(), actor_key(), count_request(integer) to slipway_app;
reset role;
--> statement-breakpoint
do $$
begin
  set local role slipway_system;
  execute format('grant execute on function enter(text, uuid, text, boolean, text, text, boolean, text, text, integer) to %I', session_user);
end $$;
reset role;
--> statement-breakpoint

-- ---------------------------------------------------------------- built-in roles
-- As the role that the walls let pass: they hold for the owner of the tables too.
set local role slipway_system;
insert into roles (id, organization_id, scope, display_name, description, permissions) values
  ('00000000-0000-4000-8000-000000000001', null, 'workspace', 'Admin', 'Everything in a workspace.', array[
    'organization:read', 'workspaces:read', 'workspaces:update', 'workspaces:read-members', 'workspaces:manage-members',
    'api-keys:read', 'api-keys:create', 'api-keys:delete',
    'deployments:create', 'deployments:read', 'deployments:update', 'deployments:delete', 'secrets:read',
    'projects:read', 'projects:update-retention']),
  ('00000000-0000-4000-8000-000000000002', null, 'workspace', 'Editor', 'Creates and changes deployments.', array[
    'organization:read', 'workspaces:read', 'workspaces:read-members', 'deployments:create', 'deployments:read', 'deployments:update', 'projects:read']),
  ('00000000-0000-4000-8000-000000000003', null, 'workspace', 'Viewer', 'Reads.', array[
    'organization:read', 'workspaces:read', 'workspaces:read-members', 'deployments:read', 'projects:read']),
  ('00000000-0000-4000-8000-000000000004', null, 'organization', 'Organization Admin', 'Everything in the organisation and all its workspaces.', array[
    'organization:read', 'organization:update', 'organization:manage-members', 'organization:manage-roles', 'organization:manage-keys',
    'workspaces:create', 'workspaces:delete', 'workspaces:read', 'workspaces:update',
    'workspaces:read-members', 'workspaces:manage-members',
    'api-keys:read', 'api-keys:create', 'api-keys:delete',
    'deployments:create', 'deployments:read', 'deployments:update', 'deployments:delete', 'secrets:read',
    'projects:read', 'projects:update-retention']),
  ('00000000-0000-4000-8000-000000000005', null, 'organization', 'Organization User', 'Belongs to the organisation; workspaces give the rest.', array[
    'organization:read']);
reset role;
