-- The split of the traffic of a deployment between the revision that serves and one beside it. `deployments.traffic` is
-- `StoredTraffic` of src/protocol/traffic.schema.ts.

-- The traffic of a deployment when a revision gets in flight. It takes the place beside the one that serves, with the
-- name of the one before it and the share of the first step: that of the rollout policy if there is one. A rollback,
-- and a revision without a first step, gets all traffic once it is healthy.
create function place_canary(d deployments, p_revision uuid, p_is_rollback boolean) returns json
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_traffic jsonb := coalesce(
    d.traffic::jsonb,
    case
      when d.rollout is not null then '{"starts_at": 100, "sticky": null, "active": null, "beside": null}'::jsonb
    end
  );
  v_beside jsonb := nullif(v_traffic -> 'beside', 'null');
  v_first integer := case
    when d.rollout is not null then rollout_share(d.rollout::jsonb, 0)
    else coalesce(nullif((v_traffic ->> 'starts_at')::integer, 100), (v_beside ->> 'first')::integer)
  end;
begin
  if v_traffic is null then return null; end if;
  if d.active_revision_id is null or v_first is null or p_is_rollback then
    return v_traffic || jsonb_build_object('beside', null);
  end if;
  if v_beside ->> 'label' is not null then
    perform claim_host_label(d, array[v_beside ->> 'label'], 'revision', p_revision);
  end if;
  return v_traffic || jsonb_build_object('beside', jsonb_build_object(
    'revision_id', p_revision,
    'share', v_first,
    'first', case when d.rollout is null then v_first end,
    'name', v_beside -> 'name',
    'label', v_beside -> 'label',
    'rollout', begin_rollout(d)
  ));
end $$;

-- The traffic after the end of the revision that was beside the one that serves. It serves now, or its place is free.
create function leave_canary(p_traffic json, p_is_deployed boolean) returns json
language sql immutable
return (p_traffic::jsonb || case
  when p_is_deployed then jsonb_build_object(
    'active', jsonb_build_object('name', p_traffic #> '{beside, name}', 'label', p_traffic #> '{beside, label}'),
    'beside', null
  )
  else jsonb_build_object('beside', (p_traffic -> 'beside')::jsonb || '{"revision_id": null, "rollout": null}')
end)::json;

-- The disks of a deployment that one copy at a time may use, as findExclusiveDisk() of src/protocol/disks.ts decides.
-- Two revisions would write to them. Null: there is none.
create function exclusive_disks(d deployments, p_resources jsonb) returns text
language plpgsql stable as $$
declare
  v_engine text := (select l.policy ->> 'engine' from listeners l where l.id = d.listener_id);
  v_plan jsonb := (select r.build_plan from revisions r where r.id = d.active_revision_id);
begin
  return (
    select string_agg(distinct disk ->> 'name', ', ')
    from (
      select
        (v -> 'persistentVolumeClaim') || jsonb_build_object('name', v #> '{persistentVolumeClaim, claimName}') as disk
      from jsonb_array_elements(coalesce(nullif(p_resources -> 'volumes', 'null'), '[]')) v
      where nullif(v -> 'persistentVolumeClaim', 'null') is not null
      union all
      select s
      from jsonb_array_elements(coalesce(nullif(v_plan -> 'disks', 'null'), '[]')) s
    ) disks
    where disk ->> 'access_mode' = 'ReadWriteOncePod'
      or v_engine = 'kubernetes' and disk ->> 'storage_gi' is not null
        and disk ->> 'access_mode' is distinct from 'ReadWriteMany'
  );
end $$;

-- True if requests go to two revisions, or will with the next one.
create function is_traffic_split(p_traffic json) returns boolean
language sql immutable
return coalesce((p_traffic ->> 'starts_at')::integer < 100 or p_traffic #>> '{beside, first}' is not null, false);

-- Refuses a revision that cannot run beside the one that serves.
create function require_runnable(d deployments, r revisions, p_share integer) returns boolean
language plpgsql stable cost 10000 as $$
begin
  if r.id = d.in_flight_revision_id then return true; end if;
  if d.in_flight_revision_id is not null then
    perform refuse('traffic_refused', format(
      'revision %s is not the one that is deployed now. Interrupt that one first', r.number
    ));
  end if;
  if r.status <> 'DEPLOYED' then
    perform refuse('traffic_refused', format('revision %s was never deployed: it is %s', r.number, r.status));
  end if;
  if p_share = 100 then
    perform refuse('traffic_refused', format('revision %s has served before. Roll back to it instead', r.number));
  end if;
  if r.source = 'internal_source' and not exists (
    select from uploads u
    where u.object_path = r.source_revision_config ->> 'source_tarball_path'
      and u.tenant_id = r.tenant_id
      and u.state = 'stored'
  ) then
    perform refuse('traffic_refused', format('the archive of revision %s is not kept any more', r.number));
  end if;
  if r.source = 'githost' and r.source_revision_config ->> 'repo_commit_sha' is null then
    perform refuse('traffic_refused', format('the commit of revision %s is not known', r.number));
  end if;
  return true;
end $$;

-- `p_new` is `NewTraffic` of src/protocol/traffic.schema.ts.
create function set_deployment_traffic(p_deployment uuid, p_new jsonb, p_needs jsonb, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_stored deployments := lock_deployment_version(p_deployment, p_request);
  v_changed deployments;
  v_before jsonb := v_stored.traffic::jsonb -> 'beside';
  v_disks text;
  v_share record;
  v_named jsonb;
  v_active jsonb;
  v_beside jsonb;
  v_is_same boolean;
begin
  if v_stored.id is null then return; end if;
  if v_stored.rollout is not null and (p_new ->> 'starts_at')::integer < 100 then
    perform refuse('traffic_refused', 'a rollout says with which share a revision begins: leave out `starts_at`');
  end if;
  if p_needs <> '[]' then
    perform require_listener_allows(v_stored.listener_id, p_needs);
    v_disks := exclusive_disks(v_stored, (v_stored.source_config -> 'resource_spec')::jsonb);
    if v_disks is not null then
      perform refuse('traffic_refused', format('%s has one writer, so two revisions cannot run at once', v_disks));
    end if;
  end if;
  if p_new -> 'shares' <> '[]' and v_stored.active_revision_id is null then
    perform refuse('traffic_refused', 'no revision serves yet');
  end if;
  for v_share in
    select s.share, s.name, r as revision
    from jsonb_to_recordset(p_new -> 'shares') s(revision_id uuid, share integer, name text)
    left join revisions r
      on r.id = s.revision_id and r.deployment_id = v_stored.id and r.tenant_id = current_tenant()
  loop
    if (v_share.revision).id is null then perform refuse('revision_not_found'); end if;
    v_named := jsonb_build_object('name', v_share.name, 'label', traffic_label(v_stored, v_share.name));
    if (v_share.revision).id = v_stored.active_revision_id then
      v_active := v_named;
    elsif v_beside is not null then
      perform refuse('traffic_refused', 'one of the two has to be the revision that serves');
    else
      perform require_runnable(v_stored, v_share.revision, v_share.share);
      v_is_same := coalesce(v_before ->> 'revision_id' = (v_share.revision).id::text, false);
      v_beside := v_named || jsonb_build_object(
        'revision_id', (v_share.revision).id,
        'share', v_share.share,
        'first', case
          when v_stored.rollout is not null then null
          when v_is_same then least(v_share.share, (v_before ->> 'first')::integer)
          else v_share.share
        end,
        -- A share that is set by hand ends the steps.
        'rollout', case
          when v_is_same and (v_before ->> 'share')::integer = v_share.share then v_before -> 'rollout'
        end
      );
    end if;
  end loop;
  -- The shares say all: the one in flight gets what they say, which is nothing.
  if v_beside is null and p_new -> 'shares' <> '[]' and v_stored.in_flight_revision_id is not null then
    v_beside := jsonb_build_object(
      'revision_id', v_stored.in_flight_revision_id,
      'share', 0,
      'first', case when v_stored.rollout is null then 0 end,
      'name', null,
      'label', null
    );
  end if;
  if not claim_traffic_labels(v_stored, v_active, v_beside) then perform refuse('traffic_name_taken'); end if;
  update deployments d
  set
    traffic = case
      when v_beside is null and v_active ->> 'name' is null
        and p_new - 'shares' = '{"starts_at": 100, "sticky": null}' then null
      else (p_new - 'shares') || jsonb_build_object('active', v_active, 'beside', v_beside)
    end,
    generation = d.generation + 1,
    remote_reconciled = false,
    version = d.version + 1,
    updated_at = clock()
  where d.id = v_stored.id and d.tenant_id = current_tenant()
  returning d.* into v_changed;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'deployment.traffic_changed',
      v_stored.id,
      json_build_object('shares', p_new -> 'shares'),
      changed_members(
        jsonb_build_object('traffic', recorded_traffic(v_stored.traffic)),
        jsonb_build_object('traffic', recorded_traffic(v_changed.traffic))
      )
    )::new_event],
    p_request
  );
  return next;
end $$;

-- The part of the work that splits the traffic, as `WorkTraffic` of src/protocol/traffic.schema.ts. Null: nothing does.
create function list_traffic(d deployments) returns json
language sql immutable as $$
  select json_build_object(
    'revision_id', d.traffic #> '{beside, revision_id}',
    'share', d.traffic #> '{beside, share}',
    'sticky', d.traffic -> 'sticky',
    'rollout', rollout_work(rollout_of(d))
  )
  where d.traffic #>> '{beside, revision_id}' is not null
$$;
