-- Access policies: which resources a role may use, by their tags. docs/design/access-policies.md explains it.

-- slipway_limited serves the requests of callers that policies limit. It has the rights and row policies of
-- slipway_app, and the restrictive ones below. So the statements of all others have the plans that they would have
-- without policies.
do $$
begin
  if not exists (select from pg_roles where rolname = 'slipway_limited') then
    create role slipway_limited nologin;
  end if;
  if not pg_has_role('slipway_limited', 'slipway_app', 'usage') then
    grant slipway_app to slipway_limited with inherit true, set false;
  end if;
  if not pg_has_role(current_user, 'slipway_limited', 'set') then
    execute format('grant slipway_limited to %I with inherit false, set true', current_user);
  end if;
  if not pg_has_role('slipway_login', 'slipway_limited', 'set') then
    grant slipway_limited to slipway_login with inherit false, set true;
  end if;
end $$;
--> statement-breakpoint

-- ------------------------------------------------------------ Policies and the roles that they are attached to
create table access_policies (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  name text not null,
  description text,
  effect text not null,
  condition_groups jsonb not null,
  created_at timestamptz default clock() not null,
  updated_at timestamptz default clock() not null,
  constraint access_policies_organization_id_organizations_id_fk
    foreign key (organization_id) references organizations(id) on delete cascade,
  constraint access_policy_effect check (effect in ('allow', 'deny'))
);
create index access_policies_page on access_policies (organization_id, created_at desc, id desc);
--> statement-breakpoint
create table role_access_policies (
  organization_id uuid not null,
  access_policy_id uuid not null,
  role_id uuid not null,
  created_at timestamptz default clock() not null,
  constraint role_access_policies_access_policy_id_role_id_pk primary key (access_policy_id, role_id),
  constraint role_access_policies_role_id_roles_id_fk foreign key (role_id) references roles(id) on delete cascade,
  constraint role_access_policies_access_policy_id_access_policies_id_fk
    foreign key (access_policy_id) references access_policies(id) on delete cascade
);
create index role_access_policies_role on role_access_policies (role_id);
--> statement-breakpoint
-- One row for each condition group and role: what enter() looks up. A trigger writes it.
create table access_rules (
  organization_id uuid not null,
  role_id uuid not null,
  access_policy_id uuid not null,
  place integer not null,
  effect text not null,
  permission text not null,
  conditions jsonb not null,
  constraint access_rules_access_policy_id_role_id_place_pk primary key (access_policy_id, role_id, place),
  constraint access_rules_access_policy_id_role_id_fk
    foreign key (access_policy_id, role_id)
    references role_access_policies(access_policy_id, role_id) on delete cascade
);
-- Organizations share the built-in roles.
create index access_rules_role on access_rules (role_id, organization_id, permission);
--> statement-breakpoint

-- ------------------------------------------------------------ What a rule means in a workspace
-- A condition, with the tag values of the workspace in place of its text.
create type access_condition as (
  rule integer,
  is_deny boolean,
  known uuid[],
  matching uuid[],
  is_negated boolean,
  if_exists boolean
);
-- What policies say of the resources of one type. `may`: the roles have the permission. `hides`: also what belongs to a
-- resource that the rules do not admit is hidden. Conditions are in the order of their rules.
create type access as (may boolean, hides boolean, conditions access_condition[]);
--> statement-breakpoint
-- `*` is any text and `?` any character.
create function glob_pattern(p_glob text) returns text
language sql immutable
return translate(regexp_replace(p_glob, '([\\%_])', '\\\1', 'g'), '*?', '%_');
--> statement-breakpoint
create function resolve_condition(p_tenant uuid, p_rule bigint, p_is_deny boolean, p_condition jsonb)
returns access_condition
language plpgsql stable as $$
declare
  v_value text := p_condition ->> 'attribute_value';
  v_operator text := replace(p_condition ->> 'operator', '_if_exists', '');
  v_comparison text := replace(v_operator, 'not_', '');
  v_pattern text := glob_pattern(v_value);
  v_known uuid[];
  v_matching uuid[];
begin
  select
    array_agg(v.id),
    array_agg(v.id) filter (where case v_comparison
      when 'equals' then v.value = v_value
      when 'equals_ignore_case' then lower(v.value) = lower(v_value)
      when 'matches' then v.value like v_pattern
    end)
  into v_known, v_matching
  from tag_keys k
  join tag_values v on v.tag_key_id = k.id
  where k.tenant_id = p_tenant and k.key = p_condition ->> 'attribute_key';
  return row(
    p_rule,
    p_is_deny,
    coalesce(v_known, '{}'),
    coalesce(v_matching, '{}'),
    v_operator <> v_comparison,
    v_operator <> p_condition ->> 'operator'
  )::access_condition;
end $$;
--> statement-breakpoint
-- Whether the rules admit a resource with these tags. The conditions of a rule must all hold. A rule that denies wins
-- over those that allow, and these over the roles. Null rules admit everything.
create function is_admitted(p_access access, p_tags uuid[]) returns boolean
language plpgsql immutable parallel safe as $$
declare
  v_condition access_condition;
  v_is_allowed boolean := p_access.may;
  v_rule integer := 0;
  v_holds boolean := false;
  v_is_deny boolean := false;
begin
  if p_access.may is null then return true; end if;
  foreach v_condition in array p_access.conditions loop
    if v_condition.rule <> v_rule then
      if v_holds and v_is_deny then return false; end if;
      v_is_allowed := v_is_allowed or v_holds;
      v_rule := v_condition.rule;
      v_is_deny := v_condition.is_deny;
      v_holds := true;
    end if;
    v_holds := v_holds and case
      when p_tags && v_condition.known then (p_tags && v_condition.matching) <> v_condition.is_negated
      else v_condition.if_exists
    end;
  end loop;
  return not (v_holds and v_is_deny) and (v_is_allowed or v_holds);
end $$;
--> statement-breakpoint
-- The rules of the caller for this type of resource. enter() sets them.
create function access_to(p_type text) returns access
language sql stable parallel safe
return setting('access_' || p_type)::access;
--> statement-breakpoint
-- Whether the caller does not see what belongs to resources of this type that its rules do not admit.
create function hides(p_type text) returns boolean
language sql stable parallel safe
return coalesce((access_to(p_type)).hides, false);
--> statement-breakpoint
-- For statements that judge a resource before it exists. Row policies use is_admitted() with a subselect instead, which
-- reads the rules once for a statement.
create function admitted(p_type text, p_tags uuid[]) returns boolean
language sql stable parallel safe
return is_admitted(access_to(p_type), p_tags);
--> statement-breakpoint

-- ------------------------------------------------------------ Entering
-- The roles whose policies apply to a key or a member: for a key of a member, its own role and those of the member.
-- Without a workspace, those in all workspaces.
create function policy_roles(p_key uuid, p_member uuid, p_tenant uuid) returns uuid[]
language plpgsql stable as $$
declare
  v_member uuid := coalesce(p_member, (select a.member_id from api_keys a where a.id = p_key));
begin
  return array(
    select a.role_id from api_keys a where a.id = p_key
    union
    select m.role_id from members m where m.id = v_member
    union
    select w.role_id
    from workspace_members w
    where w.member_id = v_member and w.tenant_id = coalesce(p_tenant, w.tenant_id)
  );
end $$;
--> statement-breakpoint
-- The conditions of the rules for a permission. Rules are numbered from `p_first` on.
create function resolve_rules(
  p_roles uuid[],
  p_organization uuid,
  p_tenant uuid,
  p_permission text,
  p_effects text[],
  p_first integer
) returns access_condition[]
language plpgsql stable as $$
begin
  return array(
    select resolve_condition(p_tenant, r.number, r.effect = 'deny', c.value)
    from (
      select x.effect, x.conditions, p_first + row_number() over () as number
      from access_rules x
      where x.role_id = any(p_roles) and x.organization_id = p_organization and x.permission = p_permission
        and x.effect = any(p_effects)
    ) r
    cross join lateral jsonb_array_elements(r.conditions) c
    order by r.number
  );
end $$;
--> statement-breakpoint
-- The rule that decides on a permission for a resource with these tags: one that denies before one that allows. No row
-- means that the roles decide.
create function deciding_rule(p_roles uuid[], p_organization uuid, p_tenant uuid, p_permission text, p_tags uuid[])
returns table (access_policy_id uuid, name text, effect text, place integer)
language plpgsql stable as $$
begin
  return query
  select p.id, p.name, x.effect, x.place
  from access_rules x
  join access_policies p on p.id = x.access_policy_id
  where x.role_id = any(p_roles) and x.organization_id = p_organization and x.permission = p_permission
    and is_admitted(
      row(false, false, array(
        select resolve_condition(p_tenant, 1, false, c.value) from jsonb_array_elements(x.conditions) c
      ))::access,
      p_tags
    )
  order by x.effect = 'deny' desc, p.created_at, p.id, x.place
  limit 1;
end $$;
--> statement-breakpoint
-- The tags of a resource, or of the one that it belongs to. Null if it does not exist. `p_resource` has the members
-- table and id, and for the latter also parent and column.
create function resource_tags(p_resource jsonb, p_tenant uuid) returns uuid[]
language plpgsql stable as $$
declare
  v_tags uuid[];
begin
  execute case
    when p_resource ? 'parent' then format(
      'select p.tag_value_ids from %I c join %I p on p.id = c.%I where c.id = $1 and c.tenant_id = $2 limit 1',
      p_resource ->> 'table', p_resource ->> 'parent', p_resource ->> 'column'
    )
    else format('select tag_value_ids from %I where id = $1 and tenant_id = $2', p_resource ->> 'table')
  end
  into v_tags
  using (p_resource ->> 'id')::uuid, p_tenant;
  return v_tags;
end $$;
--> statement-breakpoint
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
language plpgsql as $$
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
--> statement-breakpoint
-- Refuses a request for a resource that the caller may read and not change, with the reason. What it may not read
-- either is left to the row policies, which hide it.
create function refuse_denied_resource(
  p_access jsonb,
  p_roles uuid[],
  p_organization uuid,
  p_tenant uuid,
  p_permission text
) returns void
language plpgsql as $$
declare
  v_tags uuid[] := resource_tags(p_access -> 'resource', p_tenant);
  v_reading text := (
    select t.value ->> 'reading'
    from jsonb_array_elements(p_access -> 'types') t
    where t.value ->> 'type' = p_access ->> 'bound'
  );
  v_effect text;
  v_rule record;
begin
  if v_tags is null or admitted(p_access ->> 'bound', v_tags) then return; end if;
  select d.effect into v_effect from deciding_rule(p_roles, p_organization, p_tenant, v_reading, v_tags) d;
  if v_effect = 'deny' or v_effect is null and not v_reading = any(actor_permissions()) then return; end if;
  select * into v_rule from deciding_rule(p_roles, p_organization, p_tenant, p_permission, v_tags);
  if v_rule.effect = 'deny' then perform refuse('denied_by_policy', v_rule.name); end if;
  perform refuse('permission_missing', p_permission);
end $$;
--> statement-breakpoint
-- For the one who manages policies: what a request with the role meets at a resource of the organization. A resource
-- that a rule for `p_reading` hides is not found, whatever the permission.
create function test_access(p_role uuid, p_permission text, p_reading text, p_table text, p_resource uuid) returns json
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_permissions text[] := (
    select r.permissions
    from roles r
    where r.id = p_role and (r.organization_id is null or r.organization_id = current_organization())
  );
  v_tenant uuid;
  v_tags uuid[];
  v_rule record;
begin
  if v_permissions is null then perform refuse('role_not_found', p_role::text); end if;
  execute format('select tenant_id, tag_value_ids from %I where id = $1 and organization_id = $2', p_table)
  into v_tenant, v_tags
  using p_resource, current_organization();
  if v_tenant is null then perform refuse('resource_not_found', p_resource::text); end if;
  select * into v_rule from deciding_rule(array[p_role], current_organization(), v_tenant, p_reading, v_tags);
  if v_rule.effect is distinct from 'deny' then
    select * into v_rule from deciding_rule(array[p_role], current_organization(), v_tenant, p_permission, v_tags);
  end if;
  return json_build_object(
    'allowed', coalesce(v_rule.effect = 'allow', p_permission = any(v_permissions)),
    'decided_by', coalesce(v_rule.effect, 'role'),
    'access_policy', case when v_rule.effect is not null then json_build_object(
      'id', v_rule.access_policy_id, 'name', v_rule.name, 'condition_group', v_rule.place - 1
    ) end,
    'tags', (
      select coalesce(json_agg(json_build_object('key', k.key, 'value', v.value) order by k.key, v.value), '[]')
      from tag_values v
      join tag_keys k on k.id = v.tag_key_id
      where v.id = any(v_tags) and v.tenant_id = v_tenant
    )
  );
end $$;
--> statement-breakpoint
create function has_rules(p_roles uuid[], p_organization uuid) returns boolean
language plpgsql stable as $$
begin
  return exists (select from access_rules x where x.role_id = any(p_roles) and x.organization_id = p_organization);
end $$;
--> statement-breakpoint
-- As before, with what the permission has to do with policies. Null: policies do not apply.
create function enter(
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
) returns table (organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean)
language plpgsql security definer set search_path = public, pg_temp as $$
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
    a.id, a.organization_id, a.tenant_id, a.expires_at, a.revoked_at, a.last_used_at, a.member_id,
    a.role_id,
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

  -- At most once a minute, and without waiting for another request's update. Not journaled: no caller changed anything.
  if v_key.last_used_at is null or v_key.last_used_at < clock() - interval '1 minute' then
    update api_keys a
    set last_used_at = clock()
    where a.id = (select b.id from api_keys b where b.id = v_key.id for update skip locked);
  end if;
  return query select v_key.organization_id, v_tenant, v_key.id, v_is_limited;
end $$;
--> statement-breakpoint
create function enter_session(
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
    s.id, s.organization_id, s.member_id, s.last_seen_at, s.expires_at, s.revoked_at, a.key_hash,
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
  -- As in is_alive(), which would cost a call.
  if not found or v_session.revoked_at is not null or v_session.expires_at <= clock()
    or v_session.last_seen_at <= clock() - interval '7 days'
  then
    perform refuse('session_ended');
  end if;

  -- As for keys: at most once a minute, without waiting, and not journaled.
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
-- ------------------------------------------------------------ What belongs together
create function attach_rules() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  insert into access_rules (organization_id, role_id, access_policy_id, place, effect, permission, conditions)
  select p.organization_id, new.role_id, p.id, g.place, p.effect, g.value ->> 'permission', g.value -> 'conditions'
  from access_policies p
  cross join lateral jsonb_array_elements(p.condition_groups) with ordinality g(value, place)
  where p.id = new.access_policy_id;
  return null;
end $$;
--> statement-breakpoint
create trigger attach_rules
  after insert on role_access_policies
  for each row execute function attach_rules();
--> statement-breakpoint
create function is_own_access_policy(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from access_policies
    where id = p_id and organization_id is distinct from current_organization()
  );
end $$;
--> statement-breakpoint
-- Tags are of the row's own workspace, whoever writes them.
create function check_tags() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id) then
    raise exception using errcode = '42501', message = 'a resource has a tag of another workspace';
  end if;
  return null;
end $$;
--> statement-breakpoint
create trigger check_tags_on_insert
  after insert on projects
  for each row when (new.tag_value_ids <> '{}') execute function check_tags();
create trigger check_tags_on_update
  after update of tag_value_ids on projects
  for each row execute function check_tags();
--> statement-breakpoint
-- For ingestion, before a project is created: each named project of the workspace, or else one without tags, admits the
-- request. The error names the project. As slipway_system, because a project that is not admitted is hidden.
create function require_admitted_projects(p_ids uuid[], p_names text[]) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_name text;
begin
  if setting('access_project') is null then return true; end if;
  select coalesce(n.name, p.name, n.id::text)
  into v_name
  from (
    select id, null as name from unnest(p_ids) id
    union all
    select null, name from unnest(p_names) name
  ) n
  left join projects p on p.tenant_id = current_tenant() and (p.id = n.id or p.name = n.name)
  where not admitted('project', coalesce(p.tag_value_ids, '{}'))
  limit 1;
  if found then perform refuse('denied_by_policy', v_name); end if;
  return true;
end $$;
--> statement-breakpoint
-- Who gives a role to others passes on the policies that deny something to it, and none that allow more than it may.
-- `p_roles` are all roles of the one who gets them. Those who manage policies are free.
create function require_grantable_policies(p_roles uuid[]) returns void
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_is_member boolean := setting('actor_kind') = 'session';
  v_own uuid[] := policy_roles(
    case when not v_is_member then current_actor() end, case when v_is_member then current_actor() end, current_tenant()
  );
  v_policy text;
begin
  if not has_rules(v_own || p_roles, current_organization()) or 'organization:manage' = any(actor_permissions()) then
    return;
  end if;
  select p.name
  into v_policy
  from role_access_policies o
  join access_policies p on p.id = o.access_policy_id
  where o.role_id = any(v_own) and o.organization_id = current_organization() and p.effect = 'deny'
    and not exists (
      select from role_access_policies g
      where g.role_id = any(p_roles) and g.access_policy_id = p.id
    )
  limit 1;
  if found then perform refuse('denied_by_policy', v_policy); end if;
  select p.name
  into v_policy
  from access_rules x
  join access_policies p on p.id = x.access_policy_id
  where x.role_id = any(p_roles) and x.organization_id = current_organization() and x.effect = 'allow'
    and not x.permission = any(actor_permissions())
    and not exists (
      select from role_access_policies o
      where o.role_id = any(v_own) and o.access_policy_id = p.id
    )
  limit 1;
  if found then perform refuse('role_exceeds_actor', v_policy); end if;
end $$;
--> statement-breakpoint
-- The next functions replace those of the same name, with policies.
create or replace function require_grantable_role(p_role uuid, p_scope text, p_only text[] default null) returns uuid
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
  perform require_grantable_policies(array[p_role]);
  return p_role;
end $$;
--> statement-breakpoint
create or replace function require_signable_member(p_member uuid) returns uuid
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
--> statement-breakpoint
-- Whether the caller sees the resource that an event is about. Of a resource that was deleted no tags are left, so its
-- events are hidden from callers for whom some resources of its type are.
create function is_shown_event(p_type text, p_subject uuid, p_data json) returns boolean
language plpgsql stable as $$
declare
  v_kind text := split_part(p_type, '.', 1);
  v_resource record;
  v_id uuid;
  v_is_shown boolean;
begin
  for v_resource in
    values
      ('deployment', 'deployments', 'id', '{deployment, preview_policy}'::text[], 'deployment_id'),
      ('deployment', 'revisions', 'id', '{revision}', null),
      ('deployment', 'previews', 'id', '{preview}', null),
      ('deployment', 'custom_hosts', 'id', '{custom_host}', null),
      ('project', 'projects', 'id', '{project}', 'project_id'),
      ('dataset', 'datasets', 'id', '{dataset}', 'dataset_id'),
      ('queue', 'annotation_queues', 'id', '{annotation_queue}', 'queue_id')
  loop
    continue when not hides(v_resource.column1);
    v_id := case
      when p_data ->> v_resource.column5 ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        then (p_data ->> v_resource.column5)::uuid
      when v_kind = any(v_resource.column4) then p_subject
    end;
    continue when v_id is null;
    execute format('select exists (select from %I where id = $1)', v_resource.column2) into v_is_shown using v_id;
    if not v_is_shown then return false; end if;
  end loop;
  return true;
end $$;
--> statement-breakpoint
-- The number of the oldest event that is kept in the current workspace, also if the caller does not see that event.
create function oldest_event() returns bigint
language sql stable security definer set search_path = public, pg_temp as $$
  select seq from events where scope_id = current_tenant() order by seq limit 1
$$;
--> statement-breakpoint

-- ------------------------------------------------------------ Row-level security and grants
do $$
declare
  v_table text;
begin
  foreach v_table in array array['access_policies', 'role_access_policies', 'access_rules'] loop
    execute format('alter table %I enable row level security, force row level security', v_table);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on %I to slipway_system', v_table);
  end loop;
end $$;
create policy own on access_policies to slipway_app
  using (organization_id = current_organization());
grant select, insert, delete on access_policies to slipway_app;
create policy own on role_access_policies to slipway_app
  using (organization_id = current_organization())
  with check (
    organization_id = current_organization()
    and is_own_role(role_id)
    and is_own_access_policy(access_policy_id)
  );
grant select, insert, delete on role_access_policies to slipway_app;
--> statement-breakpoint
-- Callers that policies limit. Resources have tags.
create policy admitted on deployments as restrictive to slipway_limited
  using (is_admitted((select access_to('deployment')), tag_value_ids));
create policy admitted on projects as restrictive to slipway_limited
  using (is_admitted((select access_to('project')), tag_value_ids));
create policy admitted on datasets as restrictive to slipway_limited
  using (is_admitted((select access_to('dataset')), tag_value_ids));
--> statement-breakpoint
-- What belongs to a resource is hidden with it. New rows pass: the same statement may insert the resource, which the
-- policies of a subquery do not see.
do $$
declare
  v_child record;
begin
  for v_child in
    values
      ('revisions', 'deployment', 'deployments', 'deployment_id'),
      ('deployment_secrets', 'deployment', 'deployments', 'deployment_id'),
      ('deployment_heads', 'deployment', 'deployments', 'deployment_id'),
      ('preview_policies', 'deployment', 'deployments', 'id'),
      ('previews', 'deployment', 'deployments', 'parent_id'),
      ('preview_hooks', 'deployment', 'deployments', 'parent_id'),
      ('uploads', 'deployment', 'deployments', 'deployment_id'),
      ('logs', 'deployment', 'revisions', 'revision_id'),
      ('log_lines', 'deployment', 'deployments', 'deployment_id'),
      ('log_counters', 'deployment', 'deployments', 'deployment_id'),
      ('metric_points', 'deployment', 'deployments', 'deployment_id'),
      ('runs', 'project', 'projects', 'session_id'),
      ('trace_objects', 'project', 'projects', 'session_id'),
      ('session_minutes', 'project', 'projects', 'session_id'),
      ('dataset_versions', 'dataset', 'datasets', 'dataset_id'),
      ('examples', 'dataset', 'datasets', 'dataset_id')
  loop
    execute format(
      'create policy admitted on %1$I as restrictive to slipway_limited
        using (not (select hides(%2$L)) or exists (select from %3$I p where p.id = %1$I.%4$I))
        with check (true)',
      v_child.column1, v_child.column2, v_child.column3, v_child.column4
    );
  end loop;
end $$;
create policy admitted on custom_hosts as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments d where d.custom_host = host)
  )
  with check (true);
create policy admitted on events as restrictive to slipway_limited
  using (
    (select setting('shows_events')) is distinct from 'true'
    or is_shown_event(type, subject_id, data)
  )
  with check (true);
create policy admitted on webhook_deliveries as restrictive to slipway_limited
  using (
    exists (
      select from events e
      where e.scope_id = webhook_deliveries.tenant_id
        and e.seq = webhook_deliveries.seq
    )
  );
--> statement-breakpoint
-- A caller whose roles lack the permission, and that a policy lets in, reaches what the policy is about, and no more.
do $$
declare
  v_table text;
begin
  foreach v_table in array array[
    'access_policies', 'api_keys', 'audit_attempts', 'integration_installs', 'integration_listings', 'members',
    'oauth_flows', 'oauth_providers', 'oauth_reservations', 'oauth_tokens', 'role_access_policies', 'roles', 'sessions',
    'sign_in_links', 'workspace_members'
  ] loop
    execute format(
      'create policy admitted on %I as restrictive to slipway_limited
        using ((select setting(''by_policy'')) is distinct from ''true'')',
      v_table
    );
  end loop;
end $$;
--> statement-breakpoint
grant create on schema public to slipway_system;
do $$
declare
  v_function regprocedure;
begin
  foreach v_function in array array[
    'enter(text, uuid, text, boolean, text, text, boolean, text, text, jsonb)',
    'enter_session(text, uuid, text, boolean, text, text, boolean, text, text, jsonb)',
    'attach_rules()',
    'check_tags()',
    'is_own_access_policy(uuid)',
    'require_admitted_projects(uuid[], text[])',
    'require_grantable_policies(uuid[])',
    'oldest_event()',
    'test_access(uuid, text, text, text, uuid)'
  ]::regprocedure[] loop
    execute format('alter function %s owner to slipway_system', v_function);
  end loop;
end $$;
--> statement-breakpoint
set local role slipway_system;
--> statement-breakpoint
-- The previous release calls these. It does not know policies, so it serves no caller that has one.
create or replace function enter(
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
begin
  if exists (
    select from api_keys a
    where a.key_hash = p_key_hash and has_rules(policy_roles(a.id, null, a.tenant_id), a.organization_id)
  ) then
    perform refuse('permission_missing', p_permission);
  end if;
  return query
  select e.organization_id, e.tenant_id, e.actor_id
  from enter(
    p_key_hash, p_workspace, p_permission, p_in_workspace, p_request_id, p_clock_offset, p_without_if_match,
    p_idempotency_key, p_fingerprint, null
  ) e;
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
  p_fingerprint text
) returns table (organization_id uuid, tenant_id uuid, actor_id uuid)
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if exists (
    select from sessions s
    where s.token_hash = p_token_hash and has_rules(policy_roles(s.key_id, s.member_id, p_workspace), s.organization_id)
  ) then
    perform refuse('permission_missing', p_permission);
  end if;
  return query
  select e.organization_id, e.tenant_id, e.actor_id
  from enter_session(
    p_token_hash, p_workspace, p_permission, p_in_workspace, p_request_id, p_clock_offset, p_without_if_match,
    p_idempotency_key, p_fingerprint, null
  ) e;
end $$;
--> statement-breakpoint
-- Requests of limited callers count, too.
create or replace function enforce_quota() returns trigger
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
--> statement-breakpoint
revoke execute on function
  enter(text, uuid, text, boolean, text, text, boolean, text, text, jsonb),
  enter_session(text, uuid, text, boolean, text, text, boolean, text, text, jsonb),
  attach_rules(),
  check_tags(),
  is_own_access_policy(uuid),
  require_admitted_projects(uuid[], text[]),
  require_grantable_policies(uuid[]),
  oldest_event(),
  test_access(uuid, text, text, text, uuid)
  from public;
grant execute on function
  is_own_access_policy(uuid),
  require_admitted_projects(uuid[], text[]),
  require_grantable_policies(uuid[]),
  oldest_event(),
  test_access(uuid, text, text, text, uuid)
  to slipway_app;
do $$
begin
  execute format(
    'grant execute on function
      enter(text, uuid, text, boolean, text, text, boolean, text, text, jsonb),
      enter_session(text, uuid, text, boolean, text, text, boolean, text, text, jsonb)
      to slipway_login, %I',
    session_user
  );
end $$;
--> statement-breakpoint
reset role;
--> statement-breakpoint
revoke create on schema public from slipway_system;
--> statement-breakpoint
-- Only slipway_system may execute this function, which a trigger's creator must.
grant trigger on access_policies to slipway_system;
set local role slipway_system;
create trigger enforce_quota
  after insert on access_policies
  referencing new table as added
  for each statement execute function enforce_quota('organization_id', '200', 'true', 'access_policies');
reset role;
revoke trigger on access_policies from slipway_system;
