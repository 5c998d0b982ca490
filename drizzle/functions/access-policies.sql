-- Access policies: what the rules of a role say of a resource with these tags. See docs/design/access-policies.md.

-- A condition, with the tag values of the workspace in place of its text.
create type access_condition as (
  rule integer,
  is_deny boolean,
  known uuid[],
  matching uuid[],
  is_negated boolean,
  if_exists boolean
);

-- The rules of policies about the resources of one type. `may`: the roles have the permission. `hides`: also what
-- belongs to a resource that the rules do not admit is hidden. Conditions are in the order of their rules.
create type access as (may boolean, hides boolean, conditions access_condition[]);

-- `*` is any text and `?` any character.
create function glob_pattern(p_glob text) returns text
language sql immutable
return translate(regexp_replace(p_glob, '([\\%_])', '\\\1', 'g'), '*?', '%_');

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
  -- Without a value that compares, a plain comparison fails whether or not the resource has the key. So only the others
  -- need to know all its values, of which there may be a thousand.
  if v_operator = v_comparison and v_operator = p_condition ->> 'operator' then v_known := v_matching; end if;
  return row(
    p_rule,
    p_is_deny,
    coalesce(v_known, '{}'),
    coalesce(v_matching, '{}'),
    v_operator <> v_comparison,
    v_operator <> p_condition ->> 'operator'
  )::access_condition;
end $$;

-- Decides whether the rules admit a resource with these tags. The conditions of a rule must all hold. A rule that
-- denies wins over those that allow, and these over the roles. Null rules admit everything.
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

-- The rules of the caller for this type of resource. enter_by_key() sets them.
create function access_to(p_type text) returns access
language sql stable parallel safe
return setting('access_' || p_type)::access;

-- True if the caller does not see what belongs to resources of this type that its rules do not admit.
create function hides(p_type text) returns boolean
language sql stable parallel safe
return coalesce((access_to(p_type)).hides, false);

-- Judges a resource before it exists. Row policies use is_admitted() with a subselect instead, which reads the rules
-- once for a statement.
create function admitted(p_type text, p_tags uuid[]) returns boolean
language sql stable parallel safe
return is_admitted(access_to(p_type), p_tags);

-- The roles whose policies apply to a key or a member: for a key of a member, its own role and those of the member.
-- A null workspace stands for all.
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

-- The rule that decides on a permission for a resource with these tags: one that denies before one that allows. No row
-- means that the roles decide. With ABAC=off, the
-- roles decide.
create function deciding_rule(
  p_roles uuid[],
  p_organization uuid,
  p_tenant uuid,
  p_permission text,
  p_tags uuid[]
) returns table (access_policy_id uuid, name text, effect text, place integer)
language plpgsql stable as $$
begin
  if setting('policies_off') = 'true' then return; end if;
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

-- Refuses a request for a resource that the caller may read and not change, with the reason. What it may not read
-- either is left to the row policies, which hide it.
create function refuse_denied_resource(
  p_access jsonb,
  p_roles uuid[],
  p_organization uuid,
  p_tenant uuid,
  p_permission text
) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
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

-- Tells the manager of policies whether a request with the role may use a resource of the organization. A resource
-- that a rule for `p_reading` hides is not found, for every permission.
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
grant execute on function test_access(uuid, text, text, text, uuid) to slipway_app;

create function has_rules(p_roles uuid[], p_organization uuid) returns boolean
language plpgsql stable as $$
begin
  return exists (select from access_rules x where x.role_id = any(p_roles) and x.organization_id = p_organization);
end $$;

create function attach_rules() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  insert into access_rules (organization_id, role_id, access_policy_id, place, effect, permission, conditions)
  select p.organization_id, new.role_id, p.id, g.place, p.effect, g.value ->> 'permission', g.value -> 'conditions'
  from access_policies p
  cross join lateral jsonb_array_elements(p.condition_groups) with ordinality g(value, place)
  where p.id = new.access_policy_id;
  return null;
end $$;
create trigger attach_rules
  after insert on role_access_policies
  for each row execute function attach_rules();

-- Refuses an ingestion unless each named project of the workspace admits it; a project that does not exist yet has no
-- tags. The error names the project. Runs as slipway_system, because a project that does not admit it is hidden.
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
grant execute on function require_admitted_projects(uuid[], text[]) to slipway_app;

-- A caller that gives a role to others passes on the policies that deny something to it, and none that allow more than
-- it may. `p_roles` are all roles of the recipient. A manager of policies may give any role.
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
grant execute on function require_grantable_policies(uuid[]) to slipway_app;

-- An access policy of the organization names the key, so a tag with it decides what callers may do. Also for callers
-- who see no policies.
create function is_policy_key(p_key text) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return exists (
    select from access_policies p
    cross join lateral jsonb_array_elements(p.condition_groups) g
    cross join lateral jsonb_array_elements(g.value -> 'conditions') c
    where p.organization_id = current_organization() and c.value ->> 'attribute_key' = p_key
  );
end $$;
grant execute on function is_policy_key(text) to slipway_app;

-- The roles whose policies apply to the caller.
create function actor_policy_roles() returns uuid[]
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_is_member boolean := setting('actor_kind') = 'session';
begin
  return policy_roles(
    case when not v_is_member then current_actor() end, case when v_is_member then current_actor() end, current_tenant()
  );
end $$;

-- True if the caller has a permission for a resource with these tags: a policy or else its roles decide. A key that
-- lists its permissions keeps to them.
create function is_permitted_for(p_permission text, p_tags uuid[]) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_effect text := (
    select d.effect
    from deciding_rule(actor_policy_roles(), current_organization(), current_tenant(), p_permission, p_tags) d
  );
begin
  if v_effect = 'deny' then return false; end if;
  return p_permission = any(actor_permissions()) or coalesce(v_effect, '') = 'allow' and not exists (
    select from api_keys a
    where a.id = current_actor() and not p_permission = any(a.permissions)
  );
end $$;
grant execute on function is_permitted_for(text, uuid[]) to slipway_app;

-- A permission besides that of the request, for a resource with these tags: access policies decide before roles. A key
-- that lists its permissions keeps to them. Refuses with the error that says why not.
create function require_permission_for(p_permission text, p_tags uuid[]) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_denying text;
begin
  if is_permitted_for(p_permission, p_tags) then return true; end if;
  select d.name
  into v_denying
  from deciding_rule(actor_policy_roles(), current_organization(), current_tenant(), p_permission, p_tags) d
  where d.effect = 'deny';
  if found then perform refuse('denied_by_policy', v_denying); end if;
  return refuse('permission_missing', p_permission);
end $$;
grant execute on function require_permission_for(text, uuid[]) to slipway_app;

-- Checks a change of the tags of a resource: no permission that the caller's policies are about may become one that it
-- has for this resource. Those who manage policies are free.
create function require_no_wider_access(p_before uuid[], p_after uuid[]) returns void
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_roles uuid[] := actor_policy_roles();
  v_permission text;
  v_policy text;
begin
  if not has_rules(v_roles, current_organization()) or 'organization:manage' = any(actor_permissions()) then
    return;
  end if;
  for v_permission in
    select distinct x.permission
    from access_rules x
    where x.role_id = any(v_roles) and x.organization_id = current_organization()
  loop
    continue when is_permitted_for(v_permission, p_before) or not is_permitted_for(v_permission, p_after);
    select d.name
    into v_policy
    from (values (1, p_before), (2, p_after)) given(place, tags)
    cross join lateral deciding_rule(v_roles, current_organization(), current_tenant(), v_permission, given.tags) d
    order by given.place
    limit 1;
    perform refuse('widens_own_access', v_policy);
  end loop;
end $$;
grant execute on function require_no_wider_access(uuid[], uuid[]) to slipway_app;

-- The name of a policy of the caller that names the key. Null for those who manage policies.
create function own_policy_on_key(p_key text) returns text
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_roles uuid[];
begin
  if setting('policies_off') = 'true' or 'organization:manage' = any(actor_permissions()) then return null; end if;
  v_roles := actor_policy_roles();
  return (
    select p.name
    from access_rules x
    join access_policies p on p.id = x.access_policy_id
    cross join lateral jsonb_array_elements(x.conditions) c
    where x.role_id = any(v_roles) and x.organization_id = current_organization()
      and c.value ->> 'attribute_key' = p_key
    limit 1
  );
end $$;
grant execute on function own_policy_on_key(text) to slipway_app;
