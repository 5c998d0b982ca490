-- Tags of every kind of resource: who may change them.

-- Tags are of the row's own workspace, whoever writes them.
create function check_tags() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  if exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id) then
    raise exception using errcode = '42501', message = 'a resource has a tag of another workspace';
  end if;
  return null;
end $$;
create trigger check_tags_on_insert
  after insert on projects
  for each row when (new.tag_value_ids <> '{}') execute function check_tags();
create trigger check_tags_on_update
  after update of tag_value_ids on projects
  for each row execute function check_tags();

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

-- The id of a tagging: of a resource and one of its tag values.
create function tagging_id(p_resource uuid, p_value uuid) returns uuid
language sql immutable parallel safe
return md5(p_resource::text || p_value::text)::uuid;

-- Removes values from all resources of the current workspace, also from those that access policies hide. Resources are
-- locked in one order, and before the journal, as by every other write.
create function remove_tag_values(p_values uuid[]) returns void
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
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
grant execute on function remove_tag_values(uuid[]) to slipway_app;

create function require_tag_manager() returns void
language plpgsql stable as $$
begin
  if not 'workspaces:update' = any(actor_permissions()) then
    perform refuse('permission_missing', 'workspaces:update');
  end if;
end $$;

-- Judges the tags that a change adds or removes, for a caller that may update the resource. Tags with the key
-- Application need no other permission. The others need workspaces:update: all of them with `p_is_strict`, otherwise
-- those with a key that an access policy names. Returns the new tags, without duplicates.
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

-- Judges the change of keys, of their values or names. A key of the caller's own policies keeps its name and values: to
-- rename or delete one would change the resources that the policies are about.
create function require_key_rights(p_keys text[]) returns boolean
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

create function require_tagging(p_permission text, p_before uuid[], p_after uuid[]) returns uuid[]
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
grant execute on function require_tagging(text, uuid[], uuid[]) to slipway_app;

-- Checks a resource that exists. A new one is judged as a whole, by require_tag_rights() and the row policies.
create function require_tag_change(p_before uuid[], p_after uuid[], p_is_strict boolean) returns uuid[]
language plpgsql stable as $$
declare
  v_after uuid[] := require_tag_rights(p_before, p_after, p_is_strict);
begin
  perform require_no_wider_access(p_before, v_after);
  return v_after;
end $$;
