-- Host labels: the first label of each host below the domain of a listener's agent. One table has them all, so that no
-- two deployments of a listener share one: of deployments, of branches and of commits.

-- Claims the first of the labels that is free. The workspace's own label moves from a deployment that is being deleted,
-- or from another revision of this one.
create function claim_host_label(d deployments, p_labels text[], p_kind text, p_revision uuid default null) returns text
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_label text;
begin
  if d.listener_id is null then return null; end if;
  foreach v_label in array p_labels loop
    insert into host_labels as h (listener_id, label, organization_id, tenant_id, deployment_id, kind, revision_id)
    values (d.listener_id, v_label, d.organization_id, d.tenant_id, d.id, p_kind, p_revision)
    on conflict (listener_id, label) do update
      set
        deployment_id = excluded.deployment_id,
        kind = excluded.kind,
        revision_id = excluded.revision_id,
        created_at = excluded.created_at
      where h.tenant_id = excluded.tenant_id
        and (
          h.deployment_id = excluded.deployment_id and h.kind = excluded.kind
          or exists (select from deployments o where o.id = h.deployment_id and o.deleting_at is not null)
        );
    if found then return v_label; end if;
  end loop;
  return null;
end $$;
grant execute on function claim_host_label(deployments, text[], text, uuid) to slipway_app, slipway_agent;

-- Names are unique within a workspace only, so a taken one gets a part of the id, or all of it. The agent does the same
-- by itself for a deployment without a label.
create function deployment_labels(p_name text, p_id uuid) returns text[]
language sql immutable
return array[p_name, left(p_name, 54) || '-' || left(p_id::text, 8), left(p_name, 26) || '-' || p_id::text];

-- `<prefix>--<label>`, cut to the length of a label.
create function prefixed_label(p_prefix text, p_label text) returns text
language sql immutable
return p_prefix || '--' || case
  when length(p_prefix) + 2 + length(p_label) <= 63 then p_label
  else rtrim(left(p_label, 52 - length(p_prefix)), '-') || '-' || left(md5(p_label), 8)
end;

-- The label at which a revision with a name is served alone.
create function traffic_label(d deployments, p_name text) returns text
language plpgsql stable as $$
begin
  if p_name is null then return null; end if;
  return prefixed_label(p_name, coalesce(
    (
      select h.label
      from host_labels h
      where h.deployment_id = d.id and h.kind = 'deployment' and h.listener_id = d.listener_id
    ),
    d.name
  ));
end $$;

-- Claims the labels of revisions with a name, and gives up the other ones. A name whose revision has ended keeps its
-- label for the next one. False: another deployment has one of them.
create function claim_traffic_labels(d deployments, p_active jsonb, p_beside jsonb) returns boolean
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_active text := p_active ->> 'label';
  v_beside text := p_beside ->> 'label';
begin
  delete from host_labels h
  where h.deployment_id = d.id and h.kind = 'revision'
    and h.label is distinct from v_active and h.label is distinct from v_beside;
  return (v_active is null or claim_host_label(d, array[v_active], 'revision', d.active_revision_id) is not null)
    and (
      v_beside is null or p_beside ->> 'revision_id' is null
      or claim_host_label(d, array[v_beside], 'revision', (p_beside ->> 'revision_id')::uuid) is not null
    );
end $$;
grant execute on function claim_traffic_labels(deployments, jsonb, jsonb) to slipway_app, slipway_agent;

-- The label of a commit names the preview, too: two previews of one commit have a label each. The newest revision of a
-- commit has it.
create function claim_commit_label(d deployments, r revisions) returns void
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_sha text := r.commit ->> 'sha';
  v_label text := (
    select h.label
    from host_labels h
    where h.deployment_id = d.id and h.kind = 'deployment' and h.listener_id = d.listener_id
  );
begin
  if v_sha is null or v_label is null or d.parent_deployment_id is null then return; end if;
  perform claim_host_label(d, array[prefixed_label(left(v_sha, 7), v_label)], 'commit', r.id);
  -- The newest are kept: all of them go to the agent with each change.
  delete from host_labels h
  where h.deployment_id = d.id and h.kind = 'commit'
    and h.label not in (
      select n.label
      from host_labels n
      where n.deployment_id = d.id and n.kind = 'commit'
      order by n.created_at desc, n.label
      limit 20
    );
end $$;

create function claim_deployment_labels() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  if new.listener_id is null or new.deleting_at is not null then return null; end if;
  perform claim_host_label(new, deployment_labels(new.name, new.id), 'deployment');
  perform claim_commit_label(new, r) from revisions r where r.id = new.latest_revision_id;
  return null;
end $$;
create trigger claim_labels_on_insert
  after insert on deployments
  for each row execute function claim_deployment_labels();
create trigger claim_labels_on_update
  after update of listener_id on deployments
  for each row when (new.listener_id is distinct from old.listener_id)
  execute function claim_deployment_labels();

create function claim_revision_label() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  perform claim_commit_label(d, new)
  from deployments d
  where d.id = new.deployment_id and d.parent_deployment_id is not null;
  return null;
end $$;
create trigger claim_label_on_insert
  after insert on revisions
  for each row when (new.commit is not null and new.status <> 'SKIPPED')
  execute function claim_revision_label();
