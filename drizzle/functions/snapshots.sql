-- Snapshots: what agents keep of deployments, and what a deployment has that lasts.

-- The stores that resources ask for, as the agent names them. No agent makes a disk of any other name.
create function stores_of(p_resources jsonb) returns text[]
language plpgsql immutable as $$
begin
  return array(
    select 'disk:' || (v.volume #>> '{persistentVolumeClaim, claimName}')
    from jsonb_array_elements(nullif(p_resources -> 'volumes', 'null')) v(volume)
    where v.volume #>> '{persistentVolumeClaim, claimName}' ~ '^[a-z0-9][-a-z0-9.]{0,252}$'
    union
    select 'database' where has_part(p_resources, 'db')
    union
    select 'redis' where has_part(p_resources, 'redis')
  );
end $$;

-- The stores that the source of a revision asks for, as its plan says: its disks, and the database of graphs.
create function planned_stores(p_deployment uuid, p_revision uuid) returns text[]
language plpgsql stable as $$
declare
  v_plan jsonb := (
    select r.build_plan from revisions r where r.id = p_revision and r.deployment_id = p_deployment
  );
begin
  return array(
    select 'disk:' || (g.disk ->> 'name')
    from jsonb_array_elements(nullif(v_plan -> 'disks', 'null')) g(disk)
    union
    select 'database' where v_plan ->> 'kind' = 'graphs'
  );
end $$;

-- A store that a deployment no longer asks for was taken away by `?clear=`: every other change keeps it. Its agent
-- removes it. The list is sent with each change of the deployment, so it is bounded: what is left out goes with the
-- deployment.
create function keep_cleared_stores() returns trigger
language plpgsql as $$
declare
  v_before text[] := stores_of((old.source_config -> 'resource_spec')::jsonb);
  v_after text[] := stores_of((new.source_config -> 'resource_spec')::jsonb)
    || planned_stores(new.id, new.active_revision_id);
begin
  new.cleared_stores := array(
    select distinct s
    from unnest(old.cleared_stores || v_before) s
    where s <> all (v_after)
    order by s
    limit 200
  );
  return new;
end $$;
create trigger keep_cleared_stores
  before update of source_config on deployments
  for each row when (old.source_config::text is distinct from new.source_config::text)
  execute function keep_cleared_stores();

-- The feature that an agent must have for snapshots of a store.
create function snapshot_feature(p_store text) returns text
language sql immutable
return split_part(p_store, ':', 1) || '_snapshots';

create function has_database(d deployments) returns boolean
language sql stable
return 'database' = any(
  stores_of((d.source_config -> 'resource_spec')::jsonb) || planned_stores(d.id, d.active_revision_id)
);

-- Refuses callers that may not copy the database of this deployment into another one. Pushes and schedules repeat the
-- decision of one that may. A deployment that is gone has no tags.
create function require_copy_permission(p_source uuid) returns boolean
language plpgsql stable cost 10000 as $$
declare
  v_tags uuid[];
  v_origin uuid;
begin
  if setting('actor_kind') not in ('key', 'session') then return true; end if;
  select d.tag_value_ids, (d.preview #>> '{database_copy, from_deployment_id}')::uuid
  into v_tags, v_origin
  from deployments d
  where d.id = p_source and d.tenant_id = current_tenant();
  -- A copy has the data of its own source.
  if v_origin is not null then perform require_copy_permission(v_origin); end if;
  return require_permission_for('deployments:copy-database', coalesce(v_tags, '{}'));
end $$;

create function awaits_database_copy(d deployments) returns boolean
language sql immutable
return d.preview #>> '{database_copy, from_deployment_id}' is not null
  and d.preview #>> '{database_copy, copied_at}' is null;

-- An agent of an earlier release says that a database is ready that is empty.
create function copies_databases(p_listener listeners) returns boolean
language sql immutable
return coalesce(p_listener.policy::jsonb -> 'features' @> '"database_copies"', false);

-- Refuses a database that previews of a deployment cannot have: `PreviewDatabase` of src/hosting/pushes/tables.ts, or
-- null. `p_needs` are `PolicyNeed` of src/protocol/listener-policy.ts.
create function require_preview_database(d deployments, p_database jsonb, p_needs jsonb) returns boolean
language plpgsql stable cost 10000 as $$
declare
  o deployments;
begin
  if p_database ->> 'mode' is distinct from 'copy' then return true; end if;
  select c.*
  into o
  from deployments c
  where c.id = coalesce((p_database ->> 'from_deployment_id')::uuid, d.id) and c.tenant_id = current_tenant();
  if not found or o.deleting_at is not null then
    perform refuse('database_not_copied', 'there is no deployment ' || (p_database ->> 'from_deployment_id'));
  end if;
  perform require_copy_permission(o.id);
  if not has_database(o) then perform refuse('database_not_copied', o.name || ' has no database'); end if;
  if awaits_database_copy(o) then
    perform refuse('database_not_copied', 'that of ' || o.name || ' is being copied itself. Try again later');
  end if;
  if o.listener_id is distinct from d.listener_id then
    perform refuse('database_not_copied', 'that of ' || o.name || ' is on the machine of another listener');
  end if;
  return require_listener_allows(d.listener_id, p_needs);
end $$;

-- The copy of a database is complete. Its agent starts what waits for it once this is stored.
create function with_database_copied(d deployments, p_listener listeners) returns deployments
language plpgsql stable as $$
begin
  if awaits_database_copy(d) and copies_databases(p_listener) then
    d.preview := jsonb_set(d.preview::jsonb, '{database_copy, copied_at}', to_jsonb(clock()))::json;
  end if;
  return d;
end $$;

create function database_copy_events(p_before deployments, p_after deployments) returns tenant_event[]
language plpgsql stable as $$
begin
  if p_after.preview #>> '{database_copy, copied_at}' is not distinct from
    p_before.preview #>> '{database_copy, copied_at}' then
    return '{}';
  end if;
  return array[(
    p_after.tenant_id,
    p_after.organization_id,
    'deployment.database_copied',
    p_after.id,
    json_build_object('from_deployment_id', p_after.preview #> '{database_copy, from_deployment_id}'),
    changed_members(
      jsonb_build_object('preview', p_before.preview), jsonb_build_object('preview', p_after.preview)
    )
  )::tenant_event];
end $$;

-- Refuses an action that cannot be done. The caller's policies decide which snapshots it sees.
create function require_allowed_action(d deployments, p_action jsonb) returns void
language plpgsql stable as $$
declare
  v_store text := p_action ->> 'store';
  v_listener uuid;
  v_kind text;
  v_source uuid;
begin
  if not v_store = any(
    stores_of((d.source_config -> 'resource_spec')::jsonb) || planned_stores(d.id, d.active_revision_id)
  ) then
    perform refuse('store_not_found', v_store);
  end if;
  if p_action ->> 'snapshot_id' is not null then
    select s.listener_id, split_part(s.store, ':', 1), s.deployment_id
    into v_listener, v_kind, v_source
    from snapshots s
    where s.id = (p_action ->> 'snapshot_id')::uuid and s.tenant_id = current_tenant() and s.deleting_at is null;
    if not found then perform refuse('snapshot_not_found'); end if;
    if v_kind <> split_part(v_store, ':', 1) then
      perform refuse('store_not_found', format('a snapshot of a %s cannot become a %s', v_kind, v_store));
    end if;
  elsif p_action ->> 'from_deployment_id' is not null then
    select o.listener_id, o.id
    into v_listener, v_source
    from deployments o
    where o.id = (p_action ->> 'from_deployment_id')::uuid and o.tenant_id = current_tenant();
    if not found then perform refuse('deployment_not_found'); end if;
  else
    return;
  end if;
  if v_store = 'database' and v_source <> d.id then perform require_copy_permission(v_source); end if;
  if v_listener is distinct from d.listener_id then perform refuse('snapshot_elsewhere'); end if;
end $$;

-- The snapshots of an agent with ids after `p_after`, up to `p_until`: others of these ids are gone. Returns those that
-- the agent is to delete. A row is made for deployments that the listener serves, and outlives them.
create function receive_snapshots(
  p_agent text, p_fence bigint, p_held jsonb, p_after uuid, p_until uuid, p_limit bigint
) returns uuid[]
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_listener listeners := require_lease(p_agent, p_fence);
  v_ids uuid[] := array(select (h ->> 'id')::uuid from jsonb_array_elements(p_held) h);
begin
  delete from snapshots s
  where s.listener_id = v_listener.id
    and (p_after is null or s.id > p_after)
    and (p_until is null or s.id <= p_until)
    and s.id <> all (v_ids);
  insert into snapshots (
    id, organization_id, tenant_id, deployment_id, deployment_name, listener_id, store, size_bytes, reason, expires_at,
    created_at
  )
  select
    h.id, d.organization_id, d.tenant_id, d.id, d.name, v_listener.id, h.store, h.size_bytes, h.reason, h.expires_at,
    h.taken_at
  from jsonb_to_recordset(p_held) as h(
    id uuid, deployment_id uuid, store text, size_bytes bigint, reason text, taken_at timestamptz,
    expires_at timestamptz
  )
  join deployments d on d.id = h.deployment_id and d.listener_id = v_listener.id
  where (select count(*) from snapshots s where s.tenant_id = d.tenant_id) < p_limit
  on conflict (id) do nothing;
  return array(
    select s.id
    from snapshots s
    where s.id = any(v_ids) and s.listener_id = v_listener.id and s.deleting_at is not null
  );
end $$;
grant execute on function receive_snapshots(text, bigint, jsonb, uuid, uuid, bigint) to slipway_agent;
