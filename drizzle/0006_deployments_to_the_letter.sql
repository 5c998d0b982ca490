-- Custom SQL migration file, put your code below! ----> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
create or replace function apply_reports(
  p_agent text,
  p_fence bigint,
  p_reports jsonb,
  p_daily_limit bigint,
  p_unused_after interval
)
 RETURNS TABLE(deployment_id uuid, revision_id uuid, code text, generation integer, hooked_tenant uuid)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners := require_lease(p_agent, p_fence);
  v record;
  v_before deployments;
  d deployments;
  r revisions;
  v_next revisions;
  v_was_served boolean;
  v_path text[];
  v_reached integer;
  v_event_count integer;
  v_events tenant_event[] := '{}';
  v_revisions revisions[] := '{}';
  v_deployments deployments[] := '{}';
  v_removed uuid[] := '{}';
  v_forgotten uuid[] := '{}';
begin
  perform from deployments c
  where c.id = any(array(select (g ->> 'deployment_id')::uuid from jsonb_array_elements(p_reports) g))
    and c.listener_id = v_listener.id
  order by c.id
  for update;

  for v in
    select g.*, c as deployment, n as revision
    from rows from (
      jsonb_to_recordset(p_reports) as (
        deployment_id uuid, revision_id uuid, generation integer, state text, message text, commit jsonb,
        image_uri text, url text, healthy boolean, last_request_at timestamptz, application_version text
      )
    ) with ordinality g(
      deployment_id, revision_id, generation, state, message, commit, image_uri, url, healthy, last_request_at,
      application_version, place
    )
    left join deployments c on c.id = g.deployment_id and c.listener_id = v_listener.id
    left join revisions n on n.id = g.revision_id and n.deployment_id = c.id
    order by g.place
  loop
    v_before := v.deployment;
    d := v.deployment;
    r := v.revision;
    v_event_count := cardinality(v_events);
    deployment_id := v.deployment_id;
    revision_id := v.revision_id;
    generation := d.generation;
    hooked_tenant := null;
    if d.id is null then
      v_was_served := exists (
        select from sync_items i where i.deployment_id = v.deployment_id and i.listener_id = v_listener.id
      );
    end if;
    code := report_code(v.state, v.generation, v.revision_id, d, r, v_was_served);
    if code is not null then
      return next;
      continue;
    end if;

    if v.state = 'removed' then
      generation := null;
      if d.id is null then
        v_forgotten := v_forgotten || v.deployment_id;
      else
        v_removed := v_removed || d.id;
        v_events := v_events || (
          d.tenant_id,
          d.organization_id,
          'deployment.removed',
          d.id,
          '{}',
          changed_members(jsonb_build_object('status', d.status), null)
        )::tenant_event;
      end if;
    else
      v_path := case
        when v.state in ('building', 'built', 'deploying', 'deployed', 'failed') then report_path(r.status, v.state)
      end;
      if cardinality(v_path) > 0
        or v.state = 'deploying' and r.status = 'DEPLOYING' and v.message is distinct from r.status_message then
        v_next := r;
        v_next.status_message := case when v.state in ('deploying', 'failed') then v.message end;
        v_next.source_revision_config :=
          r.source_revision_config::jsonb || resolved_config(r, v.commit, v.image_uri);
        v_next.commit := coalesce('{"message": null, "author": null}' || v.commit, r.commit::jsonb);
        v_next.status := coalesce(v_path[cardinality(v_path)], r.status);
        v_events := v_events || step_events(
          r, v_next, v_path, case v.state when 'failed' then v.message end, v.commit ->> 'sha'
        );
        v_revisions := v_revisions || v_next;
        d := follow_revision(d, r, v_next);
      end if;

      -- The tag is the version of an image that the user names.
      if r.id = d.latest_revision_id and r.source not in ('internal_container', 'external_container') then
        d.image_version := coalesce(v.application_version, d.image_version);
      end if;
      d.url := coalesce(v.url, d.url);
      d.healthy := coalesce(v.healthy, d.healthy);
      -- `least` ignores nulls: without a time, it would be now.
      if v.last_request_at is not null then
        d.last_request_at := greatest(d.last_request_at, least(v.last_request_at, clock()));
      end if;
      d.status := case
        when v.state = 'database_ready' and d.status = 'AWAITING_DATABASE' then 'READY'
        when d.status = 'UNUSED' and v.last_request_at > clock() - p_unused_after then 'READY'
        else d.status
      end;
      v_reached := reached_generation(v.state, v.generation, v.revision_id, v_before);
      -- The end of a revision without a successor: the agent has reached the next generation with it.
      if v_reached = v_before.generation
        and nullif(d.in_flight_revision_id, v_before.in_flight_revision_id) is null then
        d.acknowledged := d.generation;
      else
        d.acknowledged := greatest(d.acknowledged, v_reached);
      end if;
      v_deployments := v_deployments || d;
      v_events := v_events || deployment_events(v_before, d);
      generation := d.generation;
    end if;
    if cardinality(v_events) > v_event_count and has_webhooks(d.tenant_id) then hooked_tenant := d.tenant_id; end if;
    return next;
  end loop;

  perform write_moved_revisions(v_revisions);
  perform journal_tenant_events(v_events, case when v_listener.tenant_id is not null then p_daily_limit end);
  perform write_moved_deployments(v_deployments);
  delete from deployments c where c.id = any(v_removed) and c.listener_id = v_listener.id;
  if cardinality(v_forgotten) > 0 then perform delete_sync_items(v_forgotten); end if;
end $function$;
create or replace function has_part(p_resources jsonb, p_part text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select exists (
    select from jsonb_each(nullif(p_resources, 'null')) m
    where starts_with(m.key, p_part || '_') and m.value <> 'null'
  )
$function$;
create or replace function keep_disk_mounts(p_stored jsonb, p_mounts jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE STRICT
AS $function$
  select p_mounts || coalesce(jsonb_agg(m.mount order by m.place), '[]')
  from jsonb_array_elements(nullif(p_stored -> 'volume_mounts', 'null')) with ordinality m(mount, place)
  join jsonb_array_elements(nullif(p_stored -> 'volumes', 'null')) volume on volume -> 'name' = m.mount -> 'name'
  where nullif(volume -> 'persistentVolumeClaim', 'null') is not null
    and not p_mounts @> jsonb_build_array(jsonb_build_object('name', m.mount -> 'name'))
$function$;
create or replace function keep_disks(p_stored jsonb, p_volumes jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE STRICT
AS $function$
  select p_volumes || coalesce(jsonb_agg(v.volume order by v.place), '[]')
  from jsonb_array_elements(nullif(p_stored -> 'volumes', 'null')) with ordinality v(volume, place)
  where nullif(v.volume -> 'persistentVolumeClaim', 'null') is not null
    and not p_volumes @> jsonb_build_array(jsonb_build_object('name', v.volume -> 'name'))
$function$;
create or replace function list_resource_faults(p_resources jsonb, p_pairs jsonb)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select array(
    select format('source_config.resource_spec.%s must be at least %s', pair ->> 1, pair ->> 0)
    from jsonb_array_elements(p_pairs) pair
    -- Engines round to thousandths.
    where round((p_resources ->> (pair ->> 0))::numeric, 3) > round((p_resources ->> (pair ->> 1))::numeric, 3)
  ) || array(
    select format('source_config.resource_spec has two containers named %s', name)
    from jsonb_array_elements(
      coalesce(nullif(p_resources -> 'init_containers', 'null'), '[]')
      || coalesce(nullif(p_resources -> 'sidecars', 'null'), '[]')
    ) container
    cross join lateral (select container ->> 'name' as name) named
    where p_pairs is not null
    group by name
    having count(*) > 1
  )
$function$;
create or replace function plan_patch(p_stored deployments, p_patch jsonb)
 RETURNS patch_plan
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_stored jsonb := jsonb_build_object(
    'name', p_stored.name,
    'source', p_stored.source,
    'source_config', p_stored.source_config,
    'source_revision_config', p_stored.source_revision_config,
    'secret_references', p_stored.secret_references
  );
  v_next jsonb := v_stored;
  v_resources constant text[] := '{source_config, resource_spec}';
  v_new_parts text[];
  v_source text := coalesce(p_patch ->> 'revision_source', p_stored.source);
  v_next_row deployments := p_stored;
  v_plan patch_plan;
  v_member record;
  v_is_changed boolean;
  v_secrets record;
begin
  v_plan.reasons := '{}';
  v_plan.in_place := '{}';
  v_plan.immutable := '{}';
  v_plan.refused := '{}';
  for v_member in
    select
      m.path,
      string_to_array(m.path, '.') as place,
      -- An empty list is the same as none.
      nullif(
        case m.path
          when 'source_config.resource_spec.volumes' then keep_disks(coalesce(v_stored #> v_resources, '{}'), m.value)
          when 'source_config.resource_spec.volume_mounts'
            then keep_disk_mounts(coalesce(v_stored #> v_resources, '{}'), m.value)
          else m.value
        end,
        '[]'
      ) as value,
      m.effect,
      m.is_always_new,
      m.refused_by
    from jsonb_to_recordset(p_patch -> 'members')
      as m(path text, value jsonb, effect text, is_always_new boolean, refused_by text[])
  loop
    v_is_changed := nullif(v_stored #> v_member.place, 'null') is distinct from v_member.value;
    if v_is_changed and v_source = any(v_member.refused_by) then
      v_plan.refused := v_plan.refused || v_member.path;
    end if;
    continue when not (v_is_changed or v_member.is_always_new);
    case v_member.effect
      when 'revision' then v_plan.reasons := v_plan.reasons || v_member.path;
      when 'in_place' then v_plan.in_place := v_plan.in_place || v_member.path;
      when 'immutable' then v_plan.immutable := v_plan.immutable || v_member.path;
    end case;
    if v_member.value is null then
      v_next := v_next #- v_member.place;
    else
      if v_member.place[1:2] = v_resources and nullif(v_next #> v_resources, 'null') is null then
        v_next := jsonb_set(v_next, v_resources, '{}');
      end if;
      v_next := jsonb_set(v_next, v_member.place, v_member.value);
    end if;
    -- A ref that is sent again resolves again. A preview's commit follows its pull request.
    if v_member.path = 'source_revision_config.repo_ref' and (p_stored.preview is null or v_is_changed) then
      v_next := v_next #- '{source_revision_config, repo_commit_sha}';
    end if;
  end loop;
  -- Resources without a member are none, except for a source that needs them.
  if v_next #> v_resources = '{}' and v_stored #> v_resources <> '{}' and v_source <> 'external_container' then
    v_next := v_next #- v_resources;
  end if;
  -- A part that comes or goes needs other copies, also if it is by its scale.
  select coalesce(array_agg(p.path), '{}')
  into v_new_parts
  from unnest(v_plan.in_place) p(path)
  join unnest('{queue, orchestrator}'::text[]) part
    on starts_with(p.path, 'source_config.resource_spec.' || part || '_')
  where has_part(v_stored #> v_resources, part) <> has_part(v_next #> v_resources, part);
  v_plan.reasons := v_plan.reasons || v_new_parts;
  v_plan.in_place := array(select path from unnest(v_plan.in_place) path where path <> all (v_new_parts));

  v_next_row.source_config := v_next -> 'source_config';
  v_next_row.source_revision_config := v_next -> 'source_revision_config';
  v_next_row.secret_references := nullif(v_next -> 'secret_references', 'null');
  if p_patch -> 'secrets' is not null then
    select * into v_secrets from compare_secrets(p_stored, p_patch -> 'secrets');
    v_plan.kept_secrets := v_secrets.kept;
    v_plan.unknown_masks := v_secrets.unknown;
    if v_secrets.has_changes then
      v_plan.reasons := v_plan.reasons || 'secrets'::text;
      v_next_row.secrets := v_secrets.next;
    end if;
  end if;
  v_plan.next := v_next_row;
  return v_plan;
end $function$;
create or replace function queue_revision(
  p_stored deployments,
  p_next deployments,
  p_revision uuid,
  p_reasons text[],
  p_source text,
  p_commit json DEFAULT NULL::json,
  p_from_revision uuid DEFAULT NULL::uuid,
  p_changes_in_place boolean DEFAULT false,
  OUT changed deployments,
  OUT revision revisions,
  OUT events new_event[]
)
 RETURNS record
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_creates boolean := cardinality(p_reasons) > 0;
  v_lacks_artifact boolean := lacks_artifact(p_source, p_next.source_revision_config);
  -- The revision in flight before the new one.
  v_in_flight uuid := p_stored.in_flight_revision_id;
  v_replaced uuid;
begin
  changed := p_stored;
  events := '{}';
  if not v_creates and not p_changes_in_place then return; end if;

  -- A revision in flight whose agent has reported why it is not healthy is replaced by the new one at once.
  if v_creates and not v_lacks_artifact and exists (
    select from revisions r
    where r.id = v_in_flight and r.tenant_id = current_tenant()
      and r.status = 'DEPLOYING' and r.status_message is not null
  ) then
    v_replaced := v_in_flight;
    v_in_flight := null;
  end if;

  update deployments d
  set
    source_config = p_next.source_config,
    source_revision_config = p_next.source_revision_config,
    -- The agent reports the version of a source that it builds.
    image_version = case
      when not v_creates then p_stored.image_version
      when p_source in ('internal_container', 'external_container')
        then image_version(p_next.source_revision_config ->> 'image_uri')
    end,
    secrets = p_next.secrets,
    secret_references = p_next.secret_references,
    hold = p_next.hold,
    status = case p_stored.status when 'UNUSED' then 'READY' else p_stored.status end,
    revisions = p_stored.revisions + v_creates::integer,
    latest_revision_id = case when v_creates then p_revision else p_stored.latest_revision_id end,
    in_flight_revision_id = case
      when v_creates and not v_lacks_artifact then coalesce(v_in_flight, p_revision)
      else p_stored.in_flight_revision_id
    end,
    waiting_revision_id = case
      when not v_creates then p_stored.waiting_revision_id
      when v_in_flight is not null or v_lacks_artifact then p_revision
    end,
    generation = p_stored.generation + 1,
    remote_reconciled = false,
    version = p_stored.version + 1,
    -- now() is when the transaction began, possibly before the update it waited for: times still ascend like versions.
    updated_at = greatest(clock(), p_stored.updated_at + interval '1 microsecond')
  where d.id = p_stored.id and d.tenant_id = current_tenant()
  returning d.* into changed;

  if v_creates then
    revision := insert_revision(
      p_revision,
      changed,
      case
        when v_lacks_artifact then 'CREATING'
        when v_in_flight is not null then 'QUEUED'
        else start_state(p_source)
      end,
      null,
      p_reasons,
      p_source,
      p_commit,
      p_from_revision,
      changed.updated_at
    );
    events := created_event(revision)
      || supersede_revisions(array[p_stored.waiting_revision_id, v_replaced], changed.revisions);
  end if;
  if changed.status <> p_stored.status then
    events := events || (
      'deployment.ready',
      changed.id,
      '{}',
      changed_members(jsonb_build_object('status', p_stored.status), jsonb_build_object('status', changed.status))
    )::new_event;
  end if;
end $function$;
create or replace function require_allowed_patch(
  p_stored deployments,
  p_plan patch_plan,
  p_patch jsonb,
  p_request jsonb
)
 RETURNS boolean
 LANGUAGE plpgsql
 COST 10000
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_next deployments := p_plan.next;
  v_source text := coalesce(p_patch ->> 'revision_source', p_stored.source);
  -- The values that the patch sends.
  v_sent jsonb := (
    select jsonb_object_agg(m.path, m.value)
    from jsonb_to_recordset(p_patch -> 'members') as m(path text, value jsonb)
    where m.value is not null
  );
  v_faults text;
begin
  if p_stored.deleting_at is not null then perform refuse('deployment_deleting'); end if;
  perform require_version(p_stored.version, p_request);

  v_faults := array_to_string(
    array(select path || ' is not allowed for source ' || v_source from unnest(p_plan.refused) path)
    || array(
      select r.path || ' is required for source ' || v_source
      from jsonb_to_recordset(p_patch -> 'required') as r(path text, needed_by text[])
      where v_source = any(r.needed_by)
        and jsonb_build_object(
          'source_config', v_next.source_config, 'source_revision_config', v_next.source_revision_config
        ) #>> string_to_array(r.path, '.') is null
    )
    || list_resource_faults((v_next.source_config -> 'resource_spec')::jsonb, p_patch -> 'resource_pairs'),
    '; '
  );
  if v_faults <> '' then perform refuse('source_rule', v_faults); end if;
  if exists (select from jsonb_object_keys(v_sent) path where path like 'source\_%') then
    perform require_branch_to_build_on_push(v_next.source_config, v_next.source_revision_config);
  end if;

  if cardinality(p_plan.unknown_masks) > 0 then
    perform refuse('secret_unknown', array_to_string(p_plan.unknown_masks, ', '));
  end if;
  if p_patch -> 'secrets' is not null or v_sent ? 'secret_references' then
    v_faults := (
      select string_agg(name, ', ')
      from json_to_recordset(v_next.secrets) s(name text)
      join json_to_recordset(coalesce(v_next.secret_references, '[]')) f(name text) using (name)
    );
    if v_faults is not null then perform refuse('variable_doubled', v_faults); end if;
  end if;

  if v_sent ? 'source_revision_config.source_tarball_path' then
    perform require_stored_archive(v_sent ->> 'source_revision_config.source_tarball_path');
  end if;
  if v_sent ? 'source_config.custom_url' then
    perform require_free_custom_url(
      current_tenant(),
      p_stored.id,
      custom_host(v_sent ->> 'source_config.custom_url'),
      custom_path(v_sent ->> 'source_config.custom_url')
    );
  end if;
  -- The ref is resolved through the integration.
  if (v_sent ? 'source_revision_config.repo_ref' or v_sent ->> 'revision_source' = 'githost')
    and p_stored.source_config ->> 'integration_id' is not null then
    perform require_active_integration((p_stored.source_config ->> 'integration_id')::uuid);
  end if;
  return require_allowed_commands(p_stored.source_config::jsonb, v_next.source_config::jsonb);
end $function$;
create or replace function require_listener_allows_patch(p_deployment uuid, p_patch jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
begin
  perform require_listener_allows(d.listener_id, needs.changed)
  from deployments d
  cross join lateral (
    select jsonb_agg(n.need) as changed
    from jsonb_array_elements(p_patch -> 'policy_needs') n(need)
    join jsonb_to_recordset(p_patch -> 'members') as m(path text, value jsonb)
      on m.path in (
        'source_config.resource_spec', 'source_config.resource_spec.' || split_part(n.need ->> 'path', '.', 2)
      )
    where m.value is distinct from (d.source_config #> (string_to_array(m.path, '.'))[2:])::jsonb
      -- A deployment with an account has its token anyway.
      and not (
        n.need ->> 'path' like '%.serviceAccountToken'
        and d.source_config -> 'resource_spec' ->> 'service_account_name' is not null
      )
  ) needs
  where d.id = p_deployment and d.tenant_id = current_tenant() and needs.changed is not null;
  return true;
end $function$;
create or replace function restore_revision(
  p_deployment uuid,
  p_restored uuid,
  p_revision uuid,
  p_reason text,
  p_hold_until text,
  p_kept_members text[],
  p_request jsonb
)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments;
  v_restored revisions;
  v_next deployments;
  v_queued record;
begin
  v_stored := lock_deployment(p_deployment);
  if v_stored.id is null then return; end if;
  if v_stored.deleting_at is not null then perform refuse('deployment_deleting'); end if;
  select r.*
  into v_restored
  from revisions r
  where r.id = p_restored and r.deployment_id = v_stored.id and r.tenant_id = current_tenant();
  if not found then perform refuse('revision_not_found'); end if;
  perform require_version(v_stored.version, p_request);
  perform require_branch_to_build_on_push(v_stored.source_config, v_restored.source_revision_config);
  perform require_allowed_commands(v_stored.source_config::jsonb, v_restored.source_config::jsonb);

  v_next := v_stored;
  v_next.source_config := restored_config(
    v_stored.source_config::jsonb, v_restored.source_config::jsonb, p_kept_members
  );
  v_next.source_revision_config := v_restored.source_revision_config;
  v_next.secrets := v_restored.secrets;
  v_next.secret_references := v_restored.secret_references;
  if p_hold_until is not null then
    v_next.hold := json_build_object(
      'since', clock(),
      'revision_id', p_revision,
      'until', p_hold_until,
      'from_commit', (
        select coalesce(r.commit ->> 'sha', r.source_revision_config ->> 'repo_commit_sha')
        from revisions r
        where r.id = v_stored.latest_revision_id and r.tenant_id = current_tenant()
      )
    );
  end if;
  select *
  into v_queued
  from queue_revision(
    v_stored, v_next, p_revision, array[p_reason], v_restored.source, v_restored.commit, v_restored.id
  );

  answer := to_json(v_queued.changed);
  has_webhooks := conclude_write(
    answer,
    deployment_event(
      'deployment.' || p_reason, v_stored, v_queued.changed, json_build_object('revision_id', p_restored)
    ) || v_queued.events,
    p_request
  );
  return next;
end $function$;
create or replace function restored_config(p_stored jsonb, p_restored jsonb, p_kept text[])
 RETURNS jsonb
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
declare
  v_stored jsonb := coalesce(nullif(p_stored -> 'resource_spec', 'null'), '{}');
  v_restored jsonb := coalesce(nullif(p_restored -> 'resource_spec', 'null'), '{}');
  v_resources jsonb;
begin
  select jsonb_object_agg(key, value)
  into v_resources
  from (
    select m.key, m.value
    from jsonb_each(v_stored) m
    where m.key ~ '^(db|redis)_' or 'resource_spec.' || m.key = any(p_kept)
    union all
    select m.key, m.value
    from jsonb_each(v_restored) m
    where 'resource_spec.' || m.key <> all (p_kept)
      and not (starts_with(m.key, 'db_') and has_part(v_stored, 'db'))
      and not (starts_with(m.key, 'redis_') and has_part(v_stored, 'redis'))
      and m.key not in ('volumes', 'volume_mounts')
    union all
    select l.key, l.value
    from (
      values
        ('volumes', keep_disks(v_stored, coalesce(nullif(v_restored -> 'volumes', 'null'), '[]'))),
        ('volume_mounts', keep_disk_mounts(v_stored, coalesce(nullif(v_restored -> 'volume_mounts', 'null'), '[]')))
    ) l(key, value)
    where l.value <> '[]'
  ) members;
  return (p_restored - p_kept - 'resource_spec')
    || coalesce((select jsonb_object_agg(key, value) from jsonb_each(p_stored) where key = any(p_kept)), '{}')
    || case
      when v_resources is not null then jsonb_build_object('resource_spec', v_resources)
      -- A source that needs resources has them always, if only empty ones.
      when p_stored ? 'resource_spec' and p_restored ? 'resource_spec' then '{"resource_spec": {}}'
      else '{}'
    end;
end $function$;
create or replace function write_moved_deployments(p_deployments deployments[])
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  update deployments d
  set
    in_flight_revision_id = n.in_flight_revision_id,
    waiting_revision_id = n.waiting_revision_id,
    active_revision_id = n.active_revision_id,
    source_revision_config = n.source_revision_config,
    image_version = n.image_version,
    generation = n.generation,
    acknowledged = n.acknowledged,
    remote_reconciled = n.acknowledged >= n.generation,
    status = n.status,
    url = n.url,
    healthy = n.healthy,
    last_request_at = n.last_request_at,
    version = d.version + (
      (n.active_revision_id, n.status, n.url, n.source_revision_config::text, n.image_version)
        is distinct from (d.active_revision_id, d.status, d.url, d.source_revision_config::text, d.image_version)
    )::integer,
    updated_at = n.updated_at
  from unnest(p_deployments) n
  where d.id = n.id and d.tenant_id = n.tenant_id;
end $function$;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
