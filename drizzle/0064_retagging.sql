-- A caller that access policies limit does not widen its own access by tags.
grant create on schema public to slipway_system;
--> statement-breakpoint
set local role slipway_system;
--> statement-breakpoint
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
--> statement-breakpoint
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
--> statement-breakpoint
revoke execute on function require_no_wider_access(uuid[], uuid[]), own_policy_on_key(text) from public;
grant execute on function require_no_wider_access(uuid[], uuid[]), own_policy_on_key(text) to slipway_app;
--> statement-breakpoint
create or replace function require_tagging(p_permission text, p_before uuid[], p_after uuid[]) returns uuid[]
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_after uuid[] := require_tag_rights(p_before, p_after);
  v_denying text;
begin
  if not 'workspaces:update' = any(actor_permissions()) then
    perform require_permission_for(p_permission, p_before), require_permission_for(p_permission, v_after);
    perform require_no_wider_access(p_before, v_after);
    return v_after;
  end if;
  select d.name
  into v_denying
  from (values (p_before), (v_after)) given(tags)
  cross join lateral deciding_rule(
    actor_policy_roles(), current_organization(), current_tenant(), p_permission, given.tags
  ) d
  where d.effect = 'deny';
  if found then perform refuse('denied_by_policy', v_denying); end if;
  perform require_no_wider_access(p_before, v_after);
  return v_after;
end $$;
--> statement-breakpoint
reset role;
--> statement-breakpoint
revoke create on schema public from slipway_system;
--> statement-breakpoint
-- Checks a resource that exists. A new one is judged as a whole, by require_tag_rights() and the row policies.
create function require_tag_change(p_before uuid[], p_after uuid[], p_is_strict boolean) returns uuid[]
language plpgsql stable as $$
declare
  v_after uuid[] := require_tag_rights(p_before, p_after, p_is_strict);
begin
  perform require_no_wider_access(p_before, v_after);
  return v_after;
end $$;
--> statement-breakpoint
-- A key of the caller's own policies keeps its name and values: to rename or delete one changes what they are about.
create or replace function require_key_rights(p_keys text[]) returns boolean
language plpgsql stable as $$
declare
  v_policy text;
begin
  if exists (select from unnest(p_keys) key where is_policy_key(key)) then perform require_tag_manager(); end if;
  select own_policy_on_key(key)
  into v_policy
  from unnest(p_keys) key
  where own_policy_on_key(key) is not null
  limit 1;
  if found then perform refuse('widens_own_access', v_policy); end if;
  return true;
end $$;
