-- ABAC=off: what decides beside the permission of a request is up to roles alone, too.
create or replace function deciding_rule(
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
--> statement-breakpoint
drop function require_tagging(text, uuid[], uuid[], boolean);
drop function require_permission_for(text, uuid[], boolean);
drop function is_permitted_for(text, uuid[], boolean);
--> statement-breakpoint
-- Whether the caller has a permission for a resource with these tags, as a policy or else its roles decide. A key that
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
--> statement-breakpoint
-- For a change of the tags of any resource: the resource is judged before and after, so that nobody moves it out of
-- what policies let them change. Who manages tags needs no more than that no policy denies it.
create function require_tagging(p_permission text, p_before uuid[], p_after uuid[]) returns uuid[]
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_after uuid[] := require_tag_rights(p_before, p_after);
  v_denying text;
begin
  if not 'workspaces:update' = any(actor_permissions()) then
    perform require_permission_for(p_permission, p_before), require_permission_for(p_permission, v_after);
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
  return v_after;
end $$;
--> statement-breakpoint
grant create on schema public to slipway_system;
alter function is_permitted_for(text, uuid[]) owner to slipway_system;
alter function require_tagging(text, uuid[], uuid[]) owner to slipway_system;
--> statement-breakpoint
set local role slipway_system;
--> statement-breakpoint
-- With the error that says why not. Another function, because only a refusal needs the name of the policy.
create or replace function require_permission_for(p_permission text, p_tags uuid[]) returns boolean
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
--> statement-breakpoint
revoke execute on function is_permitted_for(text, uuid[]), require_tagging(text, uuid[], uuid[]) from public;
grant execute on function is_permitted_for(text, uuid[]), require_tagging(text, uuid[], uuid[]) to slipway_app;
reset role;
--> statement-breakpoint
revoke create on schema public from slipway_system;
