-- Tags of every kind of resource: descriptions of keys and values, and who may change what.
alter table tag_keys
  add column description text,
  add column updated_at timestamptz default clock() not null;
alter table tag_values
  add column description text,
  add column updated_at timestamptz default clock() not null;
grant update (description, updated_at) on tag_keys to slipway_app;
grant update (description, updated_at) on tag_values to slipway_app;
--> statement-breakpoint
-- Clients of the reference expect these keys. They are created when the keys are listed for such a client.
create function add_default_tag_keys() returns void
language sql as $$
  insert into tag_keys (organization_id, tenant_id, key)
  select w.organization_id, w.id, d.key
  from workspaces w
  cross join unnest('{Application, Environment}'::text[]) d(key)
  where w.id = current_tenant()
    and not exists (select from tag_keys k where k.tenant_id = w.id and k.key = d.key)
  on conflict do nothing
$$;
--> statement-breakpoint
-- The id of a tagging: of a resource and one of its tag values.
create function tagging_id(p_resource uuid, p_value uuid) returns uuid
language sql immutable parallel safe
return md5(p_resource::text || p_value::text)::uuid;
--> statement-breakpoint
-- Removes values from all resources of the current workspace, also from those that access policies hide. Resources are
-- locked in one order, and before the journal, as by every other write.
create function remove_tag_values(p_values uuid[]) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_table text;
begin
  foreach v_table in array array['deployments', 'projects', 'datasets', 'annotation_queues'] loop
    continue when to_regclass(v_table) is null;
    execute format(
      'with tagged as (
        select id
        from %1$I
        where tenant_id = current_tenant() and tag_value_ids && $1
        order by id
        for no key update
      )
      update %1$I r
      set tag_value_ids = array(
        select remaining.id
        from unnest(r.tag_value_ids) with ordinality remaining(id, place)
        where remaining.id <> all($1)
        order by remaining.place
      )
      from tagged
      where r.id = tagged.id',
      v_table
    ) using p_values;
  end loop;
end $$;
--> statement-breakpoint

-- ------------------------------------------------------------ Rights
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
--> statement-breakpoint
create function require_tag_manager() returns void
language plpgsql stable as $$
begin
  if not 'workspaces:update' = any(actor_permissions()) then
    perform refuse('permission_missing', 'workspaces:update');
  end if;
end $$;
--> statement-breakpoint
-- For a caller that has the permission to update the resource: the tags that a change adds or removes. Those with the
-- key Application need no more. Those with another key need workspaces:update: `p_is_strict` says that all of them do,
-- and otherwise those with a key that an access policy names. Returns the new tags, without duplicates.
create function require_tag_rights(p_before uuid[], p_after uuid[], p_is_strict boolean default true) returns uuid[]
language plpgsql stable as $$
declare
  v_unknown text := (
    select string_agg(given.id::text, ', ')
    from unnest(p_after) given(id)
    where given.id <> all(p_before)
      and not exists (select from tag_values v where v.id = given.id and v.tenant_id = current_tenant())
  );
begin
  if v_unknown is not null then perform refuse('tag_value_not_found', v_unknown); end if;
  if exists (
    select from tag_values v
    join tag_keys k on k.id = v.tag_key_id
    where v.tenant_id = current_tenant()
      and (v.id = any(p_after) and v.id <> all(p_before) or v.id = any(p_before) and v.id <> all(p_after))
      and k.key <> 'Application'
      and (p_is_strict or is_policy_key(k.key))
  ) then
    perform require_tag_manager();
  end if;
  return array(
    select given.id
    from unnest(p_after) with ordinality given(id, place)
    group by given.id
    order by min(given.place)
  );
end $$;
--> statement-breakpoint
-- For the change of a key, of its values, or of its name to another one.
create function require_key_rights(p_keys text[]) returns boolean
language plpgsql stable as $$
begin
  if exists (select from unnest(p_keys) key where is_policy_key(key)) then perform require_tag_manager(); end if;
  return true;
end $$;
--> statement-breakpoint
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
--> statement-breakpoint
-- Whether the caller has a permission for a resource with these tags, as a policy or else its roles decide.
create function is_permitted_for(p_permission text, p_tags uuid[], p_applies_policies boolean) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_effect text;
begin
  if p_applies_policies then
    select d.effect
    into v_effect
    from deciding_rule(actor_policy_roles(), current_organization(), current_tenant(), p_permission, p_tags) d;
  end if;
  return coalesce(v_effect = 'allow', p_permission = any(actor_permissions()));
end $$;
--> statement-breakpoint
-- For a permission that a request needs for one resource, beside its own: a policy or else the caller's roles decide.
-- A caller that manages tags (`p_may`) needs only that no policy denies it.
create function require_permission_for(p_permission text, p_tags uuid[], p_may boolean) returns void
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_rule record;
begin
  select *
  into v_rule
  from deciding_rule(actor_policy_roles(), current_organization(), current_tenant(), p_permission, p_tags);
  if v_rule.effect = 'deny' then perform refuse('denied_by_policy', v_rule.name); end if;
  if v_rule.effect is null and not p_may and not p_permission = any(actor_permissions()) then
    perform refuse('permission_missing', p_permission);
  end if;
end $$;
--> statement-breakpoint
-- For a change of the tags of any resource: the resource is judged before and after, so that nobody moves it out of
-- what policies let them change.
create function require_tagging(p_permission text, p_before uuid[], p_after uuid[], p_applies_policies boolean)
returns uuid[]
language plpgsql stable as $$
declare
  v_after uuid[] := require_tag_rights(p_before, p_after);
  v_may boolean := 'workspaces:update' = any(actor_permissions());
begin
  if p_applies_policies then
    perform require_permission_for(p_permission, p_before, v_may);
    perform require_permission_for(p_permission, v_after, v_may);
  elsif not v_may and not p_permission = any(actor_permissions()) then
    perform refuse('permission_missing', p_permission);
  end if;
  return v_after;
end $$;
--> statement-breakpoint

grant create on schema public to slipway_system;
alter function remove_tag_values(uuid[]) owner to slipway_system;
alter function is_policy_key(text) owner to slipway_system;
alter function actor_policy_roles() owner to slipway_system;
alter function is_permitted_for(text, uuid[], boolean) owner to slipway_system;
alter function require_permission_for(text, uuid[], boolean) owner to slipway_system;
revoke create on schema public from slipway_system;
--> statement-breakpoint
set local role slipway_system;
--> statement-breakpoint
revoke execute on function
  remove_tag_values(uuid[]),
  is_policy_key(text),
  actor_policy_roles(),
  is_permitted_for(text, uuid[], boolean),
  require_permission_for(text, uuid[], boolean)
  from public;
grant execute on function
  remove_tag_values(uuid[]),
  is_policy_key(text),
  is_permitted_for(text, uuid[], boolean),
  require_permission_for(text, uuid[], boolean)
  to slipway_app;
reset role;
