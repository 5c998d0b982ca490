-- Every write of deployments and revisions, and the members that its events record.

create type patch_plan as (
  next deployments,
  -- The paths of members that change, by their effect. The first are the reasons for a revision.
  reasons text[],
  in_place text[],
  immutable text[],
  -- Members that change although the source does not allow them.
  refused text[],
  kept_secrets text[],
  unknown_masks text[]
);

-- Compares references with the row's own workspace, for every writer, and only where a reference changes.
create function check_deployment_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  if exists (
      select from revisions r
      where r.tenant_id <> new.tenant_id
        and r.id in (new.latest_revision_id, new.active_revision_id, new.in_flight_revision_id, new.waiting_revision_id)
    )
    or exists (select from listeners l where l.id = new.listener_id and l.tenant_id <> new.tenant_id)
    or exists (select from deployments d where d.id = new.parent_deployment_id and d.tenant_id <> new.tenant_id)
    or exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'a deployment refers to a row of another workspace';
  end if;
  return null;
end $$;
create trigger check_references_on_insert
  after insert on deployments
  for each row execute function check_deployment_references();
create trigger check_references_on_update
  after update on deployments
  for each row when (
    new.latest_revision_id is distinct from old.latest_revision_id
    or new.active_revision_id is distinct from old.active_revision_id
    or new.in_flight_revision_id is distinct from old.in_flight_revision_id
    or new.waiting_revision_id is distinct from old.waiting_revision_id
    or new.listener_id is distinct from old.listener_id
    or new.tag_value_ids is distinct from old.tag_value_ids
  )
  execute function check_deployment_references();

create function check_revision_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  if exists (
      select from deployments d
      where d.id = new.deployment_id
        and (d.tenant_id <> new.tenant_id or d.organization_id <> new.organization_id)
    )
    or exists (select from revisions r where r.id = new.from_revision_id and r.tenant_id <> new.tenant_id)
    or exists (select from api_keys k where k.id = new.actor_id and k.organization_id <> new.organization_id)
  then
    raise exception using errcode = '42501', message = 'a revision refers to a row of another workspace';
  end if;
  return null;
end $$;
create trigger check_references_on_insert
  after insert on revisions
  for each row execute function check_revision_references();

-- No other functions parse a custom_url. Rows may be older than the schema that normalizes it.
create function custom_host(p_url text) returns text
language sql immutable
return nullif(lower(split_part(split_part(regexp_replace(p_url, '^https?://', ''), '/', 1), ':', 1)), '');

create function custom_path(p_url text) returns text
language sql immutable
return coalesce(nullif(rtrim(substring(regexp_replace(p_url, '^https?://', '') from '/.*$'), '/'), ''), '/');

-- Refuses a host that belongs to another workspace, or that another deployment of this one uses with the path.
create function require_free_custom_url(p_tenant uuid, p_deployment uuid, p_host text, p_path text) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  if exists (select from custom_hosts where host = p_host and tenant_id <> p_tenant) then
    perform refuse('custom_host_taken');
  end if;
  if exists (
    select from deployments
    where custom_host = p_host and custom_path = p_path and tenant_id = p_tenant and id is distinct from p_deployment
  ) then
    perform refuse('custom_url_taken');
  end if;
  return true;
end $$;
grant execute on function require_free_custom_url(uuid, uuid, text, text) to slipway_app;

-- Claims the host of a deployment's custom_url for its workspace and releases the previous host. It is a trigger,
-- because several statements change custom_url and deleting_at, and a BEFORE trigger, because the lock order everywhere
-- is deployments, hosts, journals, cursors.
create function claim_custom_host() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_before text := case when tg_op = 'UPDATE' then old.custom_host end;
begin
  new.custom_host := case when new.deleting_at is null then custom_host(new.source_config ->> 'custom_url') end;
  new.custom_path := case when new.custom_host is not null then custom_path(new.source_config ->> 'custom_url') end;
  if tg_op = 'UPDATE'
    and (new.custom_host, new.custom_path) is not distinct from (old.custom_host, old.custom_path) then
    return new;
  end if;
  -- In the order of the names, so two deployments that swap hosts cannot deadlock.
  perform from custom_hosts where host in (v_before, new.custom_host) order by host for update;
  if new.custom_host is not null then
    -- The no-op update locks an existing row, whichever workspace owns it.
    insert into custom_hosts as h (host, organization_id, tenant_id)
    values (new.custom_host, new.organization_id, new.tenant_id)
    on conflict (host) do update set host = excluded.host;
    perform require_free_custom_url(new.tenant_id, new.id, new.custom_host, new.custom_path);
  end if;
  if v_before is distinct from new.custom_host then
    delete from custom_hosts h
    where h.host = v_before and h.tenant_id = new.tenant_id
      and not exists (
        select from deployments d
        where d.custom_host = v_before and d.tenant_id = new.tenant_id and d.id <> new.id
      );
  end if;
  return new;
end $$;
create trigger claim_custom_host_on_insert
  before insert on deployments
  for each row when ((new.source_config ->> 'custom_url') is not null)
  execute function claim_custom_host();
create trigger claim_custom_host_on_update
  before update of source_config, deleting_at on deployments
  for each row when (
    (new.source_config ->> 'custom_url') is distinct from (old.source_config ->> 'custom_url')
    or new.deleting_at is distinct from old.deleting_at
  )
  execute function claim_custom_host();

-- The workspace that has claimed a host, if any: the control plane looks up its DNS record. No caller sees it.
create function custom_host_owner(p_host text) returns setof custom_hosts
language sql stable security definer set search_path = public, pg_temp as $$
  select *
  from custom_hosts
  where host = p_host
$$;
grant execute on function custom_host_owner(text) to slipway_app;

-- Records that the caller's workspace has proved the host by DNS. It takes over an unverified claim of another
-- workspace. It takes over a verified one only if `p_owner` still owns it and its DNS record is gone.
create function verify_custom_host(p_host text, p_owner uuid, p_owner_gone boolean)
returns setof custom_hosts
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_tenant uuid := current_tenant();
  v_before custom_hosts;
  v_locked uuid[];
begin
  -- Deployments are locked before their host. If one takes the host after the deployments were locked, raising an error
  -- releases both locks, and the loop takes them again. The host's lock keeps others out.
  loop
    begin
      v_locked := array(
        select id from (select id from deployments where custom_host = p_host order by id for update) as locked
      );
      insert into custom_hosts as h (host, organization_id, tenant_id)
      values (p_host, current_organization(), v_tenant)
      on conflict (host) do update set host = excluded.host
      returning * into v_before;
      exit when not exists (select from deployments where custom_host = p_host and not id = any(v_locked));
      raise sqlstate 'SW002';
    exception when sqlstate 'SW002' then
    end;
  end loop;
  if v_before.tenant_id <> v_tenant and v_before.verified_at is not null
    and not (p_owner_gone and v_before.tenant_id is not distinct from p_owner) then
    perform refuse('custom_host_taken');
  end if;
  -- Both journals in one order, and before the cursors that the update of deployments locks.
  perform from journals where scope_id in (v_before.tenant_id, v_tenant) order by scope_id for update;
  if v_before.tenant_id <> v_tenant then
    with numbered as (
      insert into journals (scope_id, organization_id, seq)
      values (v_before.tenant_id, v_before.organization_id, 1)
      on conflict (scope_id) do update set seq = journals.seq + 1
      returning seq
    )
    -- The event has no name and no request of the new owner: another workspace must not see them.
    insert into events (
      scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_name, request_id, request, data,
      changes
    )
    select
      v_before.tenant_id,
      seq,
      v_before.organization_id,
      v_before.tenant_id,
      'custom_host.lost',
      v_before.id,
      'cron',
      null,
      setting('request_id'),
      null,
      json_build_object('host', p_host),
      changed_members(jsonb_build_object('host', p_host, 'verified_at', v_before.verified_at), null)
    from numbered;
  end if;
  if v_before.tenant_id <> v_tenant or v_before.verified_at is null then
    update deployments
    set generation = generation + 1, remote_reconciled = false
    where custom_host = p_host;
  end if;
  return query
    update custom_hosts h
    set
      -- A new owner learns nothing about the previous one.
      id = case when h.tenant_id = v_tenant then h.id else gen_random_uuid() end,
      created_at = case when h.tenant_id = v_tenant then h.created_at else clock() end,
      organization_id = current_organization(),
      tenant_id = v_tenant,
      verified_at = clock(),
      certificate_failed_at = case when h.tenant_id = v_tenant then h.certificate_failed_at end,
      unreachable_since = case when h.tenant_id = v_tenant then h.unreachable_since end
    where h.host = p_host
    returning h.*;
end $$;
grant execute on function verify_custom_host(text, uuid, boolean) to slipway_app;

-- Refuses an archive that was not uploaded in this workspace. Its row stays locked until the transaction ends, so the
-- sweep skips it.
create function require_stored_archive(p_path text) returns boolean
language plpgsql cost 10000 set plan_cache_mode = force_generic_plan as $$
begin
  perform from uploads where tenant_id = current_tenant() and object_path = p_path and state = 'stored' for share;
  if not found then perform refuse('archive_unknown'); end if;
  return true;
end $$;

-- Refuses `p_bytes` more bytes than the workspace may store. Callers of a workspace take turns, so two uploads do not
-- share the last room. An upload that broke off counts for an hour, within which every other one ends. Plans are stored
-- too.
create function require_upload_room(p_tenant uuid, p_bytes bigint, p_limit bigint) returns boolean
language plpgsql volatile cost 20000 set plan_cache_mode = force_generic_plan as $$
declare
  v_used bigint;
begin
  perform pg_advisory_xact_lock(hashtextextended('uploads of ' || p_tenant, 0));
  select coalesce(
    sum(
      coalesce(size, reserved)
      + coalesce(pg_column_size(build_plan), 0)
      + coalesce(pg_column_size(build_refusal), 0)
    ),
    0
  )
  into v_used
  from uploads
  where tenant_id = p_tenant
    and (state in ('stored', 'removing') or state = 'receiving' and used_at > clock() - interval '1 hour');
  if v_used + p_bytes > p_limit then perform refuse('uploads_full'); end if;
  return true;
end $$;

-- Refuses an upload link if the workspace has `p_limit` unused ones.
create function require_upload_link_room(p_tenant uuid, p_limit integer) returns boolean
language plpgsql volatile cost 10000 set plan_cache_mode = force_generic_plan as $$
begin
  if (
    select count(*)
    from uploads
    where tenant_id = p_tenant and state = 'offered' and expires_at > clock()
  ) >= p_limit then
    perform refuse('upload_links_full');
  end if;
  return true;
end $$;

-- Refuses a template that none of the listeners offers which can take the deployment: the named one, or those of the
-- platform. While one of them has not told its templates, nothing is refused.
create function require_offered_template(p_template text, p_listener uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_offered text[];
  v_all_told boolean;
begin
  select coalesce(array_agg(distinct t.name order by t.name) filter (where t.name is not null), '{}'),
    bool_and(l.templates is not null)
  into v_offered, v_all_told
  from listeners l
  left join lateral unnest(l.templates) t(name) on true
  where (l.id = p_listener and l.tenant_id = current_tenant()) or (p_listener is null and l.tenant_id is null);
  if v_all_told and p_template <> all (v_offered) then
    perform refuse('template_unknown', format(
      '%s; it offers %s%s',
      p_template,
      array_to_string(v_offered[:20], ', '),
      case when cardinality(v_offered) > 20 then format(' and %s more', cardinality(v_offered) - 20) else '' end
    ));
  end if;
  return true;
end $$;
grant execute on function require_offered_template(text, uuid) to slipway_app;

-- Records each state of a revision. It is a trigger, so that no writer can forget it.
create function record_revision_state() returns trigger
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_before jsonb := '[]';
begin
  if tg_op = 'UPDATE' then
    v_before := coalesce(old.states::jsonb, jsonb_build_object('status', old.status, 'since', old.status_since));
  end if;
  new.states := v_before || jsonb_build_array(jsonb_build_object('status', new.status, 'since', new.status_since));
  return new;
end $$;
create trigger record_first_state
  before insert on revisions
  for each row execute function record_revision_state();
create trigger record_next_state
  before update of status on revisions
  for each row when (old.status is distinct from new.status)
  execute function record_revision_state();

-- The templates of the listeners that can take a deployment of this workspace: its own, and those of the platform,
-- which it cannot read.
create function offered_templates() returns table (
  name text, description text, listener_ids uuid[], is_on_platform boolean
)
language sql stable security definer set search_path = public, pg_temp as $$
  select
    t.name,
    min(l.template_descriptions ->> t.name),
    coalesce(array_agg(l.id order by l.id) filter (where l.tenant_id is not null), '{}'),
    bool_or(l.tenant_id is null)
  from listeners l
  cross join lateral unnest(l.templates) t(name)
  where l.tenant_id = current_tenant() or l.tenant_id is null
  group by t.name
$$;
grant execute on function offered_templates() to slipway_app;

-- The members of a deployment and of a revision that events show. The configuration of a revision is that of its
-- deployment when it was created, whose event has it.
create function recorded_deployment(p_row deployments) returns jsonb
language sql stable as $$
  select jsonb_build_object(
    'name', p_row.name,
    'source', p_row.source,
    'status', p_row.status,
    'source_config', p_row.source_config,
    'source_revision_config', p_row.source_revision_config,
    'secret_references', p_row.secret_references,
    'hold', p_row.hold,
    'parent_deployment_id', p_row.parent_deployment_id,
    'preview', p_row.preview,
    'secrets', secret_versions(p_row.secrets)
  )
$$;

create function recorded_revision(p_row revisions) returns jsonb
language sql stable as $$
  select jsonb_build_object(
    'number', p_row.number,
    'source', p_row.source,
    'source_revision_config', p_row.source_revision_config,
    'status', p_row.status,
    'status_message', p_row.status_message,
    'reasons', p_row.reasons,
    'from_revision_id', p_row.from_revision_id,
    'commit', p_row.commit
  )
$$;

create function deployment_event(p_type text, p_before deployments, p_after deployments, p_data json default '{}')
returns new_event
language plpgsql stable as $$
begin
  return (
    p_type,
    p_after.id,
    p_data,
    changed_members(recorded_deployment(p_before), recorded_deployment(p_after))
  )::new_event;
end $$;

-- The last step of a write: the events go into the caller's journal, and `p_changed`, the rows that were changed, are
-- kept as the answer to a repeated request. Returns whether the workspace has webhooks, to which the events are
-- announced. `p_request` comes from `describeWrite` in src/kernel/db/journal.ts.
create function conclude_writes(p_changed json[], p_events new_event[], p_request jsonb) returns boolean
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  perform journal(
    array_agg(e.type),
    array_agg(e.subject_id),
    array_agg(e.data),
    array_agg(e.changes),
    (p_request ->> 'event_limit')::bigint,
    greatest(
      (p_request ->> 'body_bytes')::bigint, (select sum(octet_length(c::text)) from unnest(p_changed) c)
    )
  )
  from unnest(p_events) e
  having count(*) > 0;
  if p_request ->> 'idempotency_key' is not null and cardinality(p_changed) > 0 then
    insert into idempotency_keys (actor_id, key, fingerprint, result)
    values (
      current_actor(), p_request ->> 'idempotency_key', p_request ->> 'fingerprint', array_to_json(p_changed)
    );
  end if;
  return has_webhooks(current_tenant());
end $$;

create function conclude_write(p_changed json, p_events new_event[], p_request jsonb) returns boolean
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  return conclude_writes(array[p_changed], p_events, p_request);
end $$;

-- A deployment of the caller's workspace, whose id is null if there is none. Concurrent writers of it take turns.
create function lock_deployment(p_id uuid) returns deployments
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_stored deployments;
begin
  select d.* into v_stored from deployments d where d.id = p_id and d.tenant_id = current_tenant() for update;
  return v_stored;
end $$;

-- Refuses a request whose If-Match or Plan-Digest names another version.
create function require_version(p_version integer, p_request jsonb) returns boolean
language plpgsql stable cost 10000 as $$
begin
  if not nullif(p_request -> 'if_match', 'null') @> to_jsonb(p_version) then
    perform refuse('precondition_failed');
  end if;
  if p_version <> (p_request ->> 'planned_version')::integer then perform refuse('plan_stale'); end if;
  return true;
end $$;

-- Refuses keys and people that may not change commands. Pushes and schedules repeat the decision of one that may.
create function require_command_permission() returns boolean
language plpgsql stable cost 10000 as $$
begin
  if setting('actor_kind') in ('key', 'session') and not 'deployments:change-commands' = any(actor_permissions()) then
    perform refuse('permission_missing', 'deployments:change-commands');
  end if;
  return true;
end $$;

-- The commands of a configuration or of resources. Absent, null and empty are the same: no command.
create function commands_of(p_config jsonb) returns jsonb
language sql stable
return jsonb_build_array(
  nullif(p_config -> 'install_command', 'null'),
  nullif(p_config -> 'build_command', 'null'),
  nullif(nullif(p_config -> 'resource_spec' -> 'init_containers', 'null'), '[]'),
  nullif(nullif(p_config -> 'resource_spec' -> 'sidecars', 'null'), '[]')
);

-- Commands that differ between two configurations of a deployment need the permission to change them.
create function require_allowed_commands(p_before jsonb, p_after jsonb) returns boolean
language plpgsql stable cost 10000 as $$
begin
  if commands_of(p_before) <> commands_of(p_after) then perform require_command_permission(); end if;
  return true;
end $$;

-- Refuses build_on_push for a tag, which a push does not move.
create function require_branch_to_build_on_push(p_config json, p_revision_config json) returns boolean
language plpgsql stable cost 10000 as $$
begin
  if (p_config ->> 'build_on_push') = 'true' and (p_revision_config ->> 'repo_ref') like 'refs/tags/%' then
    perform refuse('source_rule', 'source_config.build_on_push is not allowed: `repo_ref` is a tag, not a branch');
  end if;
  return true;
end $$;

-- The tag of an image; an image that is named by its digest alone has none.
create function image_version(p_image text) returns text
language sql immutable
return substring(split_part(p_image, '@', 1) from ':([^:/]+)$');

-- The first state of a revision of this source when its turn comes. These sources have a build.
create function start_state(p_source text) returns text
language sql immutable
return case when p_source in ('githost', 'internal_source') then 'AWAITING_BUILD' else 'AWAITING_DEPLOY' end;

-- True if the image or the archive of the revision is still missing.
create function lacks_artifact(p_source text, p_revision_config json) returns boolean
language sql immutable
return p_source = 'internal_container' and p_revision_config ->> 'image_uri' is null
  or p_source = 'internal_source' and p_revision_config ->> 'source_tarball_path' is null;

-- Returns the plan of a configuration's archive, if it was uploaded for the same settings. The commands of the
-- deployment take precedence.
create function planned_build(p_source text, p_config json, p_revision_config json)
returns table (build_plan json, build_refusal text)
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
  if p_source <> 'internal_source' or p_revision_config ->> 'source_tarball_path' is null then return; end if;
  return query
    select
      (
        u.build_plan::jsonb || jsonb_strip_nulls(
          jsonb_build_object('install', p_config -> 'install_command', 'build', p_config -> 'build_command')
        )
      )::json,
      u.build_refusal
    from uploads u
    where u.tenant_id = current_tenant()
      and u.object_path = p_revision_config ->> 'source_tarball_path'
      and u.settings ->> 'root_directory' is not distinct from p_config ->> 'root_directory'
      and u.settings ->> 'platform_config_path' is not distinct from p_revision_config ->> 'platform_config_path';
end $$;

-- Inserts a revision of the deployment's current configuration.
create function insert_revision(
  p_id uuid,
  p_deployment deployments,
  p_status text,
  p_status_message text,
  p_reasons text[],
  p_source text,
  p_commit json,
  p_from_revision uuid,
  p_time timestamptz
) returns revisions
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_inserted revisions;
begin
  insert into revisions (
    organization_id, tenant_id, deployment_id, id, number, source, source_config, source_revision_config, secrets,
    secret_references, status, status_message, reasons, from_revision_id, commit, build_plan, actor_kind, actor_id,
    created_at, updated_at
  )
  values (
    p_deployment.organization_id, p_deployment.tenant_id, p_deployment.id, p_id, p_deployment.revisions, p_source,
    p_deployment.source_config, p_deployment.source_revision_config, p_deployment.secrets,
    p_deployment.secret_references, p_status, p_status_message, p_reasons, p_from_revision, p_commit,
    (
      select b.build_plan
      from planned_build(p_source, p_deployment.source_config, p_deployment.source_revision_config) b
    ),
    setting('actor_kind'), current_actor(), p_time, p_time
  )
  returning * into v_inserted;
  return v_inserted;
end $$;

create function created_event(p_revision revisions) returns new_event
language plpgsql stable as $$
begin
  return (
    'revision.created',
    p_revision.id,
    json_build_object('deployment_id', p_revision.deployment_id, 'status', p_revision.status),
    changed_members(null, recorded_revision(p_revision))
  )::new_event;
end $$;

-- Skips the revision that waited until now, and interrupts one that was deploying: only the newest revision waits.
create function supersede_revisions(p_ids uuid[], p_number integer) returns new_event[]
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_before revisions;
  v_after revisions;
  v_events new_event[] := '{}';
begin
  -- A statement costs more than the rest of this, and most writes supersede nothing.
  if p_ids = '{null, null}' then return v_events; end if;
  for v_before in
    select r.*
    from revisions r
    where r.id = any(p_ids) and r.tenant_id = current_tenant()
    order by r.number
  loop
    update revisions r
    set
      status = case when v_before.status in ('CREATING', 'QUEUED') then 'SKIPPED' else 'INTERRUPTED' end,
      status_message = case
        when v_before.status = 'CREATING'
          then 'It had no files or image yet. It was superseded by revision ' || p_number
        when v_before.status = 'DEPLOYING' and v_before.status_message is not null
          then 'Superseded by revision ' || p_number || ' before it was healthy.'
        else 'Superseded by revision ' || p_number
      end,
      status_since = clock(),
      updated_at = clock()
    where r.id = v_before.id
    returning * into v_after;
    v_events := v_events || (
      'revision.' || lower(v_after.status),
      v_after.id,
      json_build_object('deployment_id', v_after.deployment_id, 'message', v_after.status_message),
      changed_members(
        jsonb_build_object('status', v_before.status), jsonb_build_object('status', v_after.status)
      )
    )::new_event;
  end loop;
  return v_events;
end $$;

-- Changes a deployment whose row the caller has locked as `p_stored`: its configuration, secrets and hold become those
-- of `p_next`. The hold of a failed rollout ends with the next revision: nothing automatic makes one. With reasons, a
-- revision is created: one is in flight, at most one waits. Without reasons and changes in place, nothing is written.
create function queue_revision(
  p_stored deployments,
  p_next deployments,
  p_revision uuid,
  p_reasons text[],
  p_source text,
  p_commit json default null,
  p_from_revision uuid default null,
  p_changes_in_place boolean default false,
  out changed deployments,
  out revision revisions,
  out events new_event[]
)
language plpgsql set plan_cache_mode = force_generic_plan as $$
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

  -- A revision in flight that would not end by itself is replaced by the new one at once: its agent has reported why it
  -- is not healthy, or it has a share of the traffic. A rollback waits for none that was to get one.
  if v_creates and not v_lacks_artifact and exists (
    select from revisions r
    where r.id = v_in_flight and r.tenant_id = current_tenant()
      and (
        r.status = 'DEPLOYING'
          and (r.status_message is not null or p_stored.applied_traffic ->> 'revision_id' = r.id::text)
        or 'rolled_back' = any(p_reasons) and p_stored.traffic #>> '{beside, revision_id}' = r.id::text
      )
  ) then
    v_replaced := v_in_flight;
    v_in_flight := null;
  end if;

  update deployments d
  set
    source_config = p_next.source_config,
    dormant_parts = p_next.dormant_parts,
    source_revision_config = p_next.source_revision_config,
    -- The agent reports the version of a source that it builds.
    image_version = case
      when not v_creates then p_stored.image_version
      when p_source in ('internal_container', 'external_container')
        then image_version(p_next.source_revision_config ->> 'image_uri')
    end,
    secrets = p_next.secrets,
    secret_references = p_next.secret_references,
    hold = case when v_creates and p_next.hold ->> 'reason' = 'rollout_failed' then null else p_next.hold end,
    traffic = case
      when v_creates and not v_lacks_artifact and v_in_flight is null
        then place_canary(p_next, p_revision, 'rolled_back' = any(p_reasons))
      else p_next.traffic
    end,
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
  if p_next.hold is not null and changed.hold is null then
    events := events || (
      'deployment.hold_released',
      changed.id,
      '{}',
      changed_members(jsonb_build_object('hold', p_next.hold), '{"hold": null}')
    )::new_event;
  end if;
  if changed.status <> p_stored.status then
    events := events || (
      'deployment.ready',
      changed.id,
      '{}',
      changed_members(jsonb_build_object('status', p_stored.status), jsonb_build_object('status', changed.status))
    )::new_event;
  end if;
end $$;

-- Compares secrets that are sent with the stored ones. `kept`: their value stays. `unknown`: masks that stand for no
-- stored value. The version of a new value is the number of the revision that brings it.
create function compare_secrets(
  p_stored deployments,
  p_sent jsonb,
  out next json,
  out has_changes boolean,
  out kept text[],
  out unknown text[]
)
language plpgsql stable as $$
begin
  with compared as (
    select
      i.name,
      i.place,
      k.version,
      i.masked and k.name is null as is_unknown,
      k.name is not null and (
        i.masked
        or exists (
          select from deployment_secrets s
          where s.deployment_id = p_stored.id and s.tenant_id = p_stored.tenant_id
            and s.name = k.name and s.version = k.version and i.fingerprints ? s.fingerprint
        )
      ) as is_kept
    from rows from (
      jsonb_to_recordset(p_sent) as (name text, masked boolean, fingerprints jsonb)
    ) with ordinality i(name, masked, fingerprints, place)
    left join json_to_recordset(p_stored.secrets) k(name text, version integer) on k.name = i.name
  )
  select
    coalesce(
      json_agg(
        json_build_object('name', name, 'version', case when is_kept then version else p_stored.revisions + 1 end)
        order by place
      ),
      '[]'
    ),
    not coalesce(bool_and(is_kept), true) or count(*) <> json_array_length(p_stored.secrets),
    coalesce(array_agg(name) filter (where is_kept), '{}'),
    coalesce(array_agg(name) filter (where is_unknown), '{}')
  into next, has_changes, kept, unknown
  from compared;
end $$;

-- A list of volumes with the disks of the stored resources: only `?clear=` takes a disk away. A volume with the name of
-- a disk takes its place only if it is of the same claim.
create function keep_disks(p_stored jsonb, p_volumes jsonb) returns jsonb
language sql immutable strict as $$
  with disk as (
    select v.volume, v.place, v.volume ->> 'name' as name, v.volume #>> '{persistentVolumeClaim, claimName}' as claim
    from jsonb_array_elements(nullif(p_stored -> 'volumes', 'null')) with ordinality v(volume, place)
    where nullif(v.volume -> 'persistentVolumeClaim', 'null') is not null
  ),
  sent as (
    select v.volume, v.place, v.volume ->> 'name' as name, v.volume #>> '{persistentVolumeClaim, claimName}' as claim
    from jsonb_array_elements(p_volumes) with ordinality v(volume, place)
  )
  select coalesce(
    (
      select jsonb_agg(coalesce(d.volume, s.volume) order by s.place)
      from sent s
      left join disk d on d.name = s.name and d.volume <> s.volume and (d.claim = s.claim) is not true
    ),
    '[]'
  ) || coalesce(
    (
      select jsonb_agg(d.volume order by d.place)
      from disk d
      where not exists (select from sent s where s.name = d.name)
    ),
    '[]'
  )
$$;

-- A list of mounts with those of the stored disks that it does not mount.
create function keep_disk_mounts(p_stored jsonb, p_mounts jsonb) returns jsonb
language sql immutable strict as $$
  select p_mounts || coalesce(jsonb_agg(m.mount order by m.place), '[]')
  from jsonb_array_elements(nullif(p_stored -> 'volume_mounts', 'null')) with ordinality m(mount, place)
  join jsonb_array_elements(nullif(p_stored -> 'volumes', 'null')) volume on volume -> 'name' = m.mount -> 'name'
  where nullif(volume -> 'persistentVolumeClaim', 'null') is not null
    and not p_mounts @> jsonb_build_array(jsonb_build_object('name', m.mount -> 'name'))
$$;

-- True if the resources ask for this part, as partsOf() of src/protocol/resources.schema.ts decides.
create function has_part(p_resources jsonb, p_part text) returns boolean
language sql immutable as $$
  select exists (
    select from jsonb_each(nullif(p_resources, 'null')) m
    where starts_with(m.key, p_part || '_') and m.value <> 'null'
  )
$$;

-- Decides which members of a deployment a patch changes, and what follows. `p_patch` comes from `describePatch` in
-- src/hosting/deployments/patch.ts, which sends the members with their rules.
create function plan_patch(p_stored deployments, p_patch jsonb) returns patch_plan
language plpgsql stable as $$
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
  v_written text[];
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
  if cardinality(v_plan.in_place) > 0 then
    -- A part that comes or goes needs other copies, also if it is by its scale.
    select coalesce(array_agg(p.path), '{}')
    into v_new_parts
    from unnest(v_plan.in_place) p(path)
    join unnest('{queue, orchestrator}'::text[]) part
      on starts_with(p.path, 'source_config.resource_spec.' || part || '_')
    where has_part(v_stored #> v_resources, part) <> has_part(v_next #> v_resources, part);
    v_plan.reasons := v_plan.reasons || v_new_parts;
    v_plan.in_place := array(select path from unnest(v_plan.in_place) path where path <> all (v_new_parts));
  end if;

  -- A dormant part acts once one of its members is written again, also if it stays as it was.
  if p_stored.dormant_parts is not null then
    v_written := array(
      select distinct m.path
      from jsonb_to_recordset(p_patch -> 'members') as m(path text)
      join unnest(p_stored.dormant_parts) part on starts_with(m.path, 'source_config.resource_spec.' || part || '_')
    );
  end if;
  if cardinality(v_written) > 0 then
    v_plan.reasons := v_plan.reasons || array(select p from unnest(v_written) p where p <> all (v_plan.reasons));
    v_plan.in_place := array(select p from unnest(v_plan.in_place) p where p <> all (v_written));
    v_next_row.dormant_parts := nullif(
      array(
        select part
        from unnest(p_stored.dormant_parts) part
        where not exists (
          select from unnest(v_written) p where starts_with(p, 'source_config.resource_spec.' || part || '_')
        )
      ),
      '{}'
    );
  end if;

  v_next_row.source_config := v_next -> 'source_config';
  v_next_row.source_revision_config := v_next -> 'source_revision_config';
  v_next_row.secret_references := nullif(v_next -> 'secret_references', 'null');
  if p_patch -> 'secrets' is not null then
    v_secrets := compare_secrets(p_stored, p_patch -> 'secrets');
    v_plan.kept_secrets := v_secrets.kept;
    v_plan.unknown_masks := v_secrets.unknown;
    if v_secrets.has_changes then
      v_plan.reasons := v_plan.reasons || 'secrets'::text;
      v_next_row.secrets := v_secrets.next;
    end if;
  end if;
  v_plan.next := v_next_row;
  return v_plan;
end $$;

-- Faults of resources that come about because a patch sends only some of them: the schema finds the others. An agent
-- refuses longer lists (MAX_MOUNTS of src/protocol/kubernetes.schema.ts), and with them all its other work.
create function list_resource_faults(p_resources jsonb, p_pairs jsonb) returns text[]
language sql immutable as $$
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
  ) || array(
    select format('source_config.resource_spec.%s has more than 100 items, with those of the disks that stay', name)
    from unnest('{volumes, volume_mounts}'::text[]) name
    where jsonb_array_length(coalesce(nullif(p_resources -> name, 'null'), '[]')) > 100
  ) || array(
    select 'source_config.resource_spec has more than 2 MiB, with the members that stay'
    where octet_length(p_resources::text) > 2097152
  )
$$;

-- Disks that the volumes of a patch would replace, and mounts of volumes that it takes away.
create function list_volume_faults(p_stored jsonb, p_next jsonb, p_sent jsonb) returns text[]
language sql immutable as $$
  select array(
    select format(
      'source_config.resource_spec.volumes would replace the disk %s: use another name, or clear '
        'resource_spec.volumes first',
      sent ->> 'name'
    )
    from jsonb_array_elements(p_sent) sent
    where not exists (select from jsonb_array_elements(p_next -> 'volumes') kept where kept = sent)
  ) || array(
    select format('source_config.resource_spec.%s mounts %s, which the patch takes away', m.place, m.name)
    from (
      select 'volume_mounts' as place, mount ->> 'name' as name
      from jsonb_array_elements(nullif(p_next -> 'volume_mounts', 'null')) mount
      union
      select member || '.' || (container ->> 'name'), mount ->> 'name'
      from unnest('{init_containers, sidecars}'::text[]) member
      cross join jsonb_array_elements(nullif(p_next -> member, 'null')) container
      cross join jsonb_array_elements(nullif(container -> 'volumeMounts', 'null')) mount
    ) m
    cross join jsonb_build_array(jsonb_build_object('name', m.name)) volume
    where p_stored -> 'volumes' @> volume and not coalesce(p_next -> 'volumes' @> volume, false)
    order by m.place, m.name
  )
$$;

-- Refuses a patch that is not allowed, planned or applied.
create function require_allowed_patch(p_stored deployments, p_plan patch_plan, p_patch jsonb, p_request jsonb)
returns boolean
language plpgsql cost 10000 set plan_cache_mode = force_generic_plan as $$
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

  if cardinality(p_plan.refused) > 0
    or p_patch -> 'required' <> '[]'
    or p_patch -> 'resource_pairs' <> '[]'
    or v_sent ? 'source_config.resource_spec.volumes'
  then
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
      || case when p_patch -> 'resource_pairs' <> '[]' then
        list_resource_faults((v_next.source_config -> 'resource_spec')::jsonb, p_patch -> 'resource_pairs')
        || list_volume_faults(
          (p_stored.source_config -> 'resource_spec')::jsonb,
          (v_next.source_config -> 'resource_spec')::jsonb,
          v_sent -> 'source_config.resource_spec.volumes'
        )
      end
      || case when v_sent ? 'source_config.resource_spec.volumes'
        and (is_traffic_split(p_stored.traffic) or p_stored.rollout is not null) then
        array(
          select format('source_config.resource_spec.volumes: %s has one writer, and the traffic is split', disks)
          from exclusive_disks(p_stored, (v_next.source_config -> 'resource_spec')::jsonb) disks
          where disks is not null
        )
      end,
      '; '
    );
    if v_faults <> '' then perform refuse('source_rule', v_faults); end if;
  end if;
  if jsonb_path_exists(v_sent, '$.keyvalue().key ? (@ starts with "source_")') then
    perform require_branch_to_build_on_push(v_next.source_config, v_next.source_revision_config);
  end if;

  if cardinality(p_plan.unknown_masks) > 0 then
    perform refuse('secret_unknown', array_to_string(p_plan.unknown_masks, ', '));
  end if;
  if v_next.secret_references is not null and (p_patch -> 'secrets' is not null or v_sent ? 'secret_references') then
    v_faults := (
      select string_agg(name, ', ')
      from json_to_recordset(v_next.secrets) s(name text)
      join json_to_recordset(v_next.secret_references) f(name text) using (name)
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
end $$;

create function patch_deployment(p_deployment uuid, p_revision uuid, p_patch jsonb, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_stored deployments;
  v_plan patch_plan;
  v_queued record;
  v_changed deployments;
begin
  v_stored := lock_deployment(p_deployment);
  if v_stored.id is null then return; end if;
  v_plan := plan_patch(v_stored, p_patch);
  perform require_allowed_patch(v_stored, v_plan, p_patch, p_request);
  if cardinality(v_plan.immutable) > 0 then
    perform refuse('member_immutable', array_to_string(v_plan.immutable, ', '));
  end if;

  v_queued := queue_revision(
    v_stored,
    v_plan.next,
    p_revision,
    v_plan.reasons,
    coalesce(p_patch ->> 'revision_source', v_stored.source),
    p_changes_in_place => cardinality(v_plan.in_place) > 0
  );
  v_changed := v_queued.changed;
  if 'secrets' = any(v_plan.reasons) then
    insert into deployment_secrets (organization_id, tenant_id, deployment_id, name, version, sealed, fingerprint)
    select
      v_changed.organization_id, v_changed.tenant_id, v_changed.id, s.name, w.version, s.sealed, s.fingerprints ->> 0
    from json_to_recordset(v_changed.secrets) w(name text, version integer)
    join jsonb_to_recordset(p_patch -> 'secrets') s(name text, sealed text, fingerprints jsonb) on s.name = w.name
    where w.version = v_changed.revisions;
  end if;

  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer, deployment_event('deployment.patched', v_stored, v_changed) || v_queued.events, p_request
  );
  return next;
end $$;

-- Refuses a new deployment that is not allowed, planned or created. `p_new` comes from `describeNewDeployment` in
-- src/hosting/deployments/create.ts. Returns the listener. Without one, the deployment waits until a listener of the
-- platform adopts it.
create function require_allowed_creation(p_new json) returns uuid
language plpgsql cost 10000 set plan_cache_mode = force_generic_plan as $$
declare
  v_config json := p_new -> 'source_config';
  v_listener uuid;
begin
  if v_config ->> 'integration_id' is not null then
    perform require_active_integration((v_config ->> 'integration_id')::uuid);
  end if;
  perform require_allowed_commands('{}', v_config::jsonb);
  -- The listener comes before its templates, which one of another workspace must not tell.
  v_listener := require_listener(
    (v_config ->> 'listener_id')::uuid,
    v_config -> 'listener_config' ->> 'k8s_namespace',
    p_new ->> 'source' = 'external_container'
  );
  if v_config ->> 'template_id' is not null then
    perform require_offered_template(v_config ->> 'template_id', v_listener);
  end if;
  if json_array_length(p_new -> 'policy_needs') > 0 then
    perform require_listener_allows(v_listener, (p_new -> 'policy_needs')::jsonb);
  end if;
  if p_new -> 'source_revision_config' ->> 'source_tarball_path' is not null then
    perform require_stored_archive(p_new -> 'source_revision_config' ->> 'source_tarball_path');
  end if;
  return v_listener;
end $$;

-- Refuses what create_deployment() would refuse, except for the quota. Indexes refuse the names and the trigger
-- claim_custom_host() the URL when the deployment is created.
create function require_creatable_deployment(p_new json) returns uuid
language plpgsql cost 10000 set plan_cache_mode = force_generic_plan as $$
declare
  v_listener uuid := require_allowed_creation(p_new);
  v_url text := p_new -> 'source_config' ->> 'custom_url';
begin
  if exists (
    select from deployments d
    where d.name = p_new ->> 'name' and d.tenant_id = current_tenant() and d.deleting_at is null
  ) then
    perform refuse('deployment_name_taken');
  end if;
  if exists (select from projects p where p.name = p_new ->> 'name' and p.tenant_id = current_tenant()) then
    perform refuse('project_name_taken');
  end if;
  if v_url is not null then
    perform require_free_custom_url(current_tenant(), null, custom_host(v_url), custom_path(v_url));
  end if;
  return v_listener;
end $$;

-- Inserts a deployment with its secrets, its tracing project and its first revision, which waits if it lacks its image
-- or archive. A preview has the tags that its parent has now, so access policies treat both alike.
create function insert_deployment(
  p_id uuid,
  p_revision uuid,
  p_new json,
  p_listener uuid default null,
  p_parent deployments default null,
  p_preview json default null,
  p_commit json default null,
  out created deployments,
  out events new_event[]
)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_source text := p_new ->> 'source';
  v_config json := p_new -> 'source_revision_config';
  v_lacks_artifact boolean := lacks_artifact(v_source, v_config);
  v_revision revisions;
begin
  -- This is one statement, whose triggers lock the journal and a cursor at its end.
  with inserted as (
    insert into deployments (
      id, organization_id, tenant_id, name, source, deployment_type, status, source_config, source_revision_config,
      image_version, secrets, secret_references, tag_value_ids, parent_deployment_id, preview, owner, protection,
      listener_id, latest_revision_id, in_flight_revision_id, waiting_revision_id
    )
    values (
      p_id,
      current_organization(),
      current_tenant(),
      p_new ->> 'name',
      v_source,
      p_new -> 'source_config' ->> 'deployment_type',
      case when (p_new ->> 'has_database')::boolean then 'AWAITING_DATABASE' else 'READY' end,
      p_new -> 'source_config',
      v_config,
      image_version(v_config ->> 'image_uri'),
      (
        select coalesce(json_agg(json_build_object('name', s ->> 'name', 'version', 1) order by place), '[]')
        from json_array_elements(p_new -> 'secrets') with ordinality sent(s, place)
      ),
      p_new -> 'secret_references',
      coalesce(p_parent.tag_value_ids, '{}'),
      p_parent.id,
      p_preview,
      p_new ->> 'owner',
      nullif((p_new -> 'protection')::jsonb, 'null')::json,
      p_listener,
      p_revision,
      case when not v_lacks_artifact then p_revision end,
      case when v_lacks_artifact then p_revision end
    )
    returning *
  ),
  project as (
    insert into projects (organization_id, tenant_id, deployment_id, name)
    select i.organization_id, i.tenant_id, i.id, i.name from inserted i
  ),
  sealed as (
    insert into deployment_secrets (organization_id, tenant_id, deployment_id, name, version, sealed, fingerprint)
    select i.organization_id, i.tenant_id, i.id, s.name, 1, s.sealed, s.fingerprints ->> 0
    from inserted i
    cross join json_to_recordset(p_new -> 'secrets') s(name text, sealed text, fingerprints json)
  )
  select i.* into created from inserted i;
  v_revision := insert_revision(
    p_revision,
    created,
    case when v_lacks_artifact then 'CREATING' else start_state(v_source) end,
    null,
    '{created}',
    v_source,
    p_commit,
    null,
    created.updated_at
  );
  events := array[
    (
      'deployment.created',
      created.id,
      '{}',
      changed_members(
        null,
        recorded_deployment(created)
          || jsonb_build_object('owner', created.owner, 'protection', created.protection)
      )
    )::new_event,
    created_event(v_revision)
  ];
end $$;

create function create_deployment(p_deployment uuid, p_revision uuid, p_new json, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_inserted record;
begin
  -- The foreign key would lock this row only after the journal: deleting the workspace meanwhile could deadlock.
  perform from workspaces w where w.id = current_tenant() for key share;
  select *
  into v_inserted
  from insert_deployment(p_deployment, p_revision, p_new, require_allowed_creation(p_new));
  answer := to_json(v_inserted.created);
  has_webhooks := conclude_write(answer, v_inserted.events, p_request);
  return next;
end $$;

-- Marks deployments as deleted; their data plane removes them. Their names are free at once, unless their projects
-- stay. Returns a row for each one that was found.
create function delete_deployments(p_deployments uuid[], p_deletes_projects boolean, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  -- The order of the ids keeps two requests for the same deployments from a deadlock.
  v_stored deployments[] := array(
    select d
    from deployments d
    where d.id = any(p_deployments) and d.tenant_id = current_tenant()
    order by d.id
    for update
  );
  v_ids uuid[];
  v_deleted json[];
begin
  v_stored := array(select d::deployments from unnest(v_stored) d where d.deleting_at is null);
  v_ids := array(select d.id from unnest(v_stored) d);
  perform require_version(d.version, p_request) from unnest(v_stored) d;
  if p_deletes_projects then
    delete from projects p where p.deployment_id = any(v_ids) and p.tenant_id = current_tenant();
  else
    update projects p
    set deployment_id = null
    where p.deployment_id = any(v_ids) and p.tenant_id = current_tenant();
  end if;
  with deleted as (
    update deployments d
    set
      status = 'AWAITING_DELETE',
      deleting_at = clock(),
      generation = d.generation + 1,
      remote_reconciled = false,
      version = d.version + 1,
      updated_at = clock()
    where d.id = any(v_ids) and d.tenant_id = current_tenant()
    returning d.*
  )
  select coalesce(array_agg(to_json(d) order by d.id), '{}') into v_deleted from deleted d;
  has_webhooks := conclude_writes(
    v_deleted,
    array(
      select ('deployment.deleted', d.id, '{}', changed_members(recorded_deployment(d::deployments), null))::new_event
      from unnest(v_stored) d
    ),
    p_request
  );
  return query select unnest(v_deleted), has_webhooks;
end $$;

-- Locks a deployment and checks its version. The id is null if there is none or if it is deleted.
create function lock_deployment_version(p_deployment uuid, p_request jsonb) returns deployments
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_stored deployments;
begin
  v_stored := lock_deployment(p_deployment);
  if v_stored.deleting_at is not null then return null; end if;
  perform require_version(v_stored.version, p_request);
  return v_stored;
end $$;

-- An owner changes nothing that runs, so it is no member of patch_deployment(), which plans revisions.
create function set_deployment_owner(p_deployment uuid, p_owner text, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_stored deployments := lock_deployment_version(p_deployment, p_request);
  v_changed deployments;
begin
  if v_stored.id is null then return; end if;
  update deployments d
  set owner = p_owner, version = d.version + 1, updated_at = clock()
  where d.id = v_stored.id and d.tenant_id = current_tenant()
  returning d.* into v_changed;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'deployment.owner_changed',
      v_stored.id,
      '{}',
      changed_members(
        jsonb_build_object('owner', v_stored.owner), jsonb_build_object('owner', v_changed.owner)
      )
    )::new_event],
    p_request
  );
  return next;
end $$;

-- Refuses the trace key of the application from now on. Its next revision gets a new one.
create function rotate_trace_key(p_deployment uuid, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_stored deployments := lock_deployment_version(p_deployment, p_request);
  v_changed deployments;
begin
  if v_stored.id is null then return; end if;
  update deployments d
  set
    trace_key_version = d.trace_key_version + 1,
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
      'deployment.trace_key_rotated',
      v_stored.id,
      '{}',
      changed_members(
        jsonb_build_object('trace_key_version', v_stored.trace_key_version),
        jsonb_build_object('trace_key_version', v_changed.trace_key_version)
      )
    )::new_event],
    p_request
  );
  return next;
end $$;

-- ---- previews

-- The body of the hook that announces a preview: it was created, or it has ended.
create function preview_hook_body(p_preview previews, p_type text, p_url text) returns json
language plpgsql stable as $$
begin
  return json_build_object(
    'type', p_type,
    'timestamp', clock(),
    'data', json_build_object(
      'preview_id', p_preview.id,
      'kind', p_preview.kind,
      'number', p_preview.number,
      'branch', p_preview.branch,
      'head_sha', p_preview.head_sha,
      'fork', p_preview.fork,
      'deployment_id', p_preview.deployment_id,
      'parent_deployment_id', p_preview.parent_id,
      'url', p_url
    )
  );
end $$;

-- Creates the deployment of a preview, while the preview is as the app has read it (`p_read`) and fewer than `p_max`
-- others have a deployment. `p_column` becomes `deployments.preview`. Its commands are those of its parent and its
-- policy, which were allowed when they were set.
create function create_preview(
  p_deployment uuid,
  p_revision uuid,
  p_new json,
  p_read previews,
  p_max integer,
  p_column json,
  p_commit json,
  p_url text,
  p_request jsonb
) returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_parent deployments := lock_deployment(p_read.parent_id);
  v_preview previews;
  v_inserted record;
begin
  if p_new ->> 'source' = 'githost' then
    perform require_active_integration((p_new -> 'source_config' ->> 'integration_id')::uuid);
  end if;
  if not exists (
    select from previews v
    where v.parent_id = v_parent.id and v.tenant_id = current_tenant()
      and v.id = p_read.id
      and v.state <> 'ended'
      and (v.head_sha, v.deployment_id, v.approved_sha, v.kind, v.request::jsonb)
        is not distinct from
        (p_read.head_sha, p_read.deployment_id, p_read.approved_sha, p_read.kind, p_read.request::jsonb)
  ) then
    perform refuse('preview_moved');
  end if;
  perform require_preview_database(v_parent, (p_new -> 'database')::jsonb, (p_new -> 'database_needs')::jsonb);
  if (
    select count(*)
    from previews v
    where v.parent_id = v_parent.id and v.tenant_id = current_tenant()
      and v.id <> p_read.id and v.state <> 'ended' and v.deployment_id is not null
  ) >= p_max then
    perform refuse('previews_full');
  end if;
  -- The policy may have been set, and the parent created, when the agent allowed more.
  perform require_listener_allows(v_parent.listener_id, (p_new -> 'policy_needs')::jsonb);

  select *
  into v_inserted
  from insert_deployment(
    p_deployment,
    p_revision,
    p_new,
    p_listener => v_parent.listener_id,
    p_parent => v_parent,
    p_preview => p_column,
    p_commit => p_commit
  );
  -- A branch with a pull request is at its own label, too.
  perform claim_host_label(
    v_inserted.created, array(select json_array_elements_text(p_new -> 'branch_labels')), 'branch'
  )
  where p_new ->> 'branch_labels' is not null;
  update previews v
  set
    state = 'live',
    deployment_id = p_deployment,
    expires_at = (p_column ->> 'expires_at')::timestamptz,
    updated_at = clock()
  where v.parent_id = v_parent.id and v.tenant_id = current_tenant() and v.id = p_read.id
  returning v.* into v_preview;
  insert into preview_hooks (organization_id, tenant_id, preview_id, url, parent_id, secret, body)
  select
    h.organization_id, h.tenant_id, v_preview.id, h.on_create, h.id, h.hook_secret,
    preview_hook_body(v_preview, 'preview.created', p_url)
  from preview_policies h
  where h.id = v_parent.id and h.tenant_id = current_tenant()
    and h.on_create is not null and h.hook_secret is not null;
  answer := to_json(v_inserted.created);
  has_webhooks := conclude_write(answer, v_inserted.events, p_request);
  return next;
end $$;

-- Extends a preview, and records on its deployment that the pull request has moved. deploy_push() deploys the commit.
-- The database of the deployment stays.
create function move_preview(p_deployment uuid, p_preview uuid, p_column json, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_stored deployments := lock_deployment(p_deployment);
  v_changed deployments;
begin
  update previews v
  set state = 'live', expires_at = (p_column ->> 'expires_at')::timestamptz, updated_at = clock()
  where v.id = p_preview and v.tenant_id = current_tenant()
    and v.head_sha is not distinct from p_column ->> 'head_sha'
    and v.state <> 'ended';
  update deployments d
  set
    preview = (
      p_column::jsonb || case
        when d.preview::jsonb ? 'database_copy' then jsonb_build_object('database_copy', d.preview -> 'database_copy')
        else '{}'
      end
    )::json,
    version = d.version + 1,
    updated_at = greatest(clock(), d.updated_at)
  where d.id = v_stored.id and d.tenant_id = current_tenant()
    and d.deleting_at is null
    and d.preview ->> 'head_sha' is distinct from p_column ->> 'head_sha'
  returning d.* into v_changed;
  if not found then return; end if;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[deployment_event(
      'deployment.preview_moved',
      v_stored,
      v_changed,
      json_build_object('number', p_column -> 'number', 'branch', p_column -> 'branch')
    )],
    p_request
  );
  return next;
end $$;

-- ---- revisions

-- True if a revision of this status is in flight or waits.
create function is_in_queue(p_status text) returns boolean
language sql immutable
return p_status in ('CREATING', 'QUEUED', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING');

create function revision_moved(p_before revisions, p_after revisions, p_data json) returns tenant_event
language plpgsql stable as $$
begin
  return (
    p_after.tenant_id,
    p_after.organization_id,
    'revision.' || lower(p_after.status),
    p_after.id,
    p_data,
    changed_members(
      jsonb_build_object(
        'source_revision_config', p_before.source_revision_config,
        'status', p_before.status,
        'status_message', p_before.status_message,
        'commit', p_before.commit
      ),
      jsonb_build_object(
        'source_revision_config', p_after.source_revision_config,
        'status', p_after.status,
        'status_message', p_after.status_message,
        'commit', p_after.commit
      )
    )
  )::tenant_event;
end $$;

-- The next row of a deployment when a revision of it moves: the revision in flight, the one that serves. Also starts
-- the revision whose turn comes. The caller has locked the deployment. It writes the rows by write_moved_revisions(),
-- the events, and write_moved_deployments(), in this order: the last one locks cursors, and a journal comes before
-- them.
create function follow_revision(d deployments, p_before revisions, p_after revisions) returns deployments
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_in_flight uuid := d.in_flight_revision_id;
  v_commit text := p_after.source_revision_config ->> 'repo_commit_sha';
  v_serving integer;
begin
  if not is_in_queue(p_after.status) then
    d.in_flight_revision_id := nullif(d.in_flight_revision_id, p_after.id);
    d.waiting_revision_id := nullif(d.waiting_revision_id, p_after.id);
    if d.traffic #>> '{beside, revision_id}' = p_after.id::text then
      d.traffic := leave_canary(d.traffic, p_after.status = 'DEPLOYED');
      d.rollout_due_at := null;
    end if;
  end if;
  -- A revision that still waits for its artifact (CREATING) keeps its place.
  if d.in_flight_revision_id is null and d.waiting_revision_id is not null then
    update revisions r
    set
      status = start_state(r.source),
      status_since = clock(),
      updated_at = clock()
    where r.id = d.waiting_revision_id and r.deployment_id = d.id and r.status = 'QUEUED';
    if found then
      d.in_flight_revision_id := d.waiting_revision_id;
      d.waiting_revision_id := null;
    end if;
  end if;

  -- An older revision never replaces the one that serves.
  if d.active_revision_id is not null then
    v_serving := (select r.number from revisions r where r.id = d.active_revision_id and r.deployment_id = d.id);
  end if;
  if p_after.status = 'DEPLOYED' and p_after.number > coalesce(v_serving, 0) then
    d.active_revision_id := p_after.id;
    d.updated_at := greatest(clock(), d.updated_at);
    -- The name of the one before it goes over to it, and that of one that was beside it ends.
    if d.traffic is not null then
      perform claim_traffic_labels(d, d.traffic::jsonb -> 'active', d.traffic::jsonb -> 'beside');
    end if;
  end if;
  if d.in_flight_revision_id is distinct from v_in_flight and d.in_flight_revision_id is not null then
    d.traffic := place_canary(
      d,
      d.in_flight_revision_id,
      (select 'rolled_back' = any(r.reasons) from revisions r where r.id = d.in_flight_revision_id)
    );
  end if;
  -- The commit that the ref of the latest revision resolved to.
  if p_after.id = d.latest_revision_id
    and v_commit is distinct from p_before.source_revision_config ->> 'repo_commit_sha' then
    d.source_revision_config := d.source_revision_config::jsonb || jsonb_build_object('repo_commit_sha', v_commit);
    d.updated_at := greatest(clock(), d.updated_at);
  end if;
  -- Another revision in flight, or none any more, is the next generation of what the agent has to do. So is the end of
  -- the latest revision if it was lost with its listener: it was still wanted.
  if d.in_flight_revision_id is distinct from v_in_flight
    or (p_before.status = 'UNKNOWN' and p_after.id = d.latest_revision_id) then
    d.generation := d.generation + 1;
  end if;
  return d;
end $$;

-- The health of a deployment: what its agent reported of the revision that serves. Null: it is not known.
create function deployment_health(d deployments) returns text
language sql immutable
return case
  when d.status = 'UNKNOWN' then null
  when d.active_revision_id is null then 'nothing_serves'
  else coalesce(d.reported_health, case d.healthy when true then 'healthy' when false then 'unhealthy' end)
end;

-- Keeps the health of a deployment, with the time of its change and of the five changes before it. Another revision
-- that serves begins without those of the one before: it would be said to flap for what that one did.
create function follow_health() returns trigger
language plpgsql as $$
declare
  v_changes json;
begin
  new.health := deployment_health(new);
  if tg_op = 'UPDATE' then
    if new.active_revision_id is not distinct from old.active_revision_id then
      v_changes := old.health_changes;
    end if;
    new.health_changes := v_changes;
  end if;
  if tg_op = 'UPDATE' and new.health is not distinct from old.health then return new; end if;
  new.health_since := clock();
  -- To fall asleep and to wake is no fault, however often.
  if tg_op = 'UPDATE' and old.health in ('healthy', 'sleeping') and new.health in ('healthy', 'sleeping') then
    return new;
  end if;
  new.health_changes := (
    select json_agg(at order by place)
    from (
      select at, row_number() over () as place
      from (
        select clock()::text as at
        union all
        select json_array_elements_text(v_changes)
      ) changes
      limit 6
    ) latest
  );
  return new;
end $$;
create trigger follow_health
  before insert or update of status, active_revision_id, healthy, reported_health on deployments
  for each row execute function follow_health();

-- Adds what an agent reports to the incidents of a deployment. The totals of an agent begin anew when it starts, and
-- with each revision that serves: another time then means at least one more.
create function add_incidents(d deployments, p_reported jsonb) returns deployments
language plpgsql stable as $$
begin
  if p_reported is null then return d; end if;
  select json_agg(json_build_object(
    'kind', coalesce(n.kind, k.kind),
    'count', coalesce(n.count, k.count),
    'last_at', coalesce(n.last_at, k.last_at),
    'message', case when n.kind is null then k.message else n.message end,
    -- An agent may report any total, at any rate.
    'pending', least(2147483647, coalesce(k.pending, 0)::bigint + case
      when n.kind is null or n.last_at = k.last_at then 0
      when n.count > k.count then n.count - k.count
      else n.count
    end)
  ))
  into d.incidents
  from jsonb_to_recordset(p_reported) as n(kind text, count integer, last_at text, message text)
  full join json_to_recordset(d.incidents) as k(kind text, count integer, last_at text, message text, pending integer)
    on k.kind = n.kind;
  if d.incidents_due is null
    and exists (select from json_to_recordset(d.incidents) as i(pending integer) where i.pending > 0) then
    d.incidents_due := greatest(clock(), d.incidents_recorded_at + interval '10 minutes');
  end if;
  return d;
end $$;

-- Keeps what an agent reports of the custom host of a deployment. Returns the events of what has changed.
create function follow_custom_host(d deployments, p_reported jsonb) returns tenant_event[]
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_before custom_hosts;
  h custom_hosts;
begin
  -- A report may be about the host before.
  if d.custom_host is null or d.custom_host is distinct from p_reported ->> 'host' then return '{}'; end if;
  select * into v_before from custom_hosts c where c.host = d.custom_host and c.tenant_id = d.tenant_id;
  if v_before.id is null then return '{}'; end if;
  h := v_before;
  h.certificate_failed_at := case p_reported ->> 'certificate'
    when 'failed' then coalesce(h.certificate_failed_at, clock())
    when 'valid' then null
    else h.certificate_failed_at
  end;
  h.unreachable_since := case p_reported ->> 'leads_here'
    when 'false' then coalesce(h.unreachable_since, clock())
    when 'true' then null
    else h.unreachable_since
  end;
  if (h.certificate_failed_at, h.unreachable_since)
    is not distinct from (v_before.certificate_failed_at, v_before.unreachable_since) then
    return '{}';
  end if;
  update custom_hosts c
  set certificate_failed_at = h.certificate_failed_at, unreachable_since = h.unreachable_since
  where c.id = h.id;
  return array(
    select (
      d.tenant_id,
      d.organization_id,
      'custom_host.' || case when t.after is null then t.ended else t.begun end,
      h.id,
      json_strip_nulls(json_build_object(
        'host', h.host,
        'deployment_id', d.id,
        'reason', case when t.after is not null then p_reported ->> 'reason' end
      )),
      changed_members(jsonb_build_object(t.name, t.before), jsonb_build_object(t.name, t.after))
    )::tenant_event
    from (
      values
        (
          1, 'unreachable_since', v_before.unreachable_since, h.unreachable_since, 'unreachable', 'reachable'
        ),
        (
          2, 'certificate_failed_at', v_before.certificate_failed_at, h.certificate_failed_at,
          'certificate_failed', 'certificate_issued'
        )
    ) t(place, name, before, after, begun, ended)
    where t.before is distinct from t.after
    order by t.place
  );
end $$;

-- The events of a deployment's next row: a revision starts, another one serves, its status or its URL changes.
create function deployment_events(p_before deployments, p_after deployments) returns tenant_event[]
language plpgsql stable as $$
declare
  v_started uuid := nullif(p_after.in_flight_revision_id, p_before.in_flight_revision_id);
  v_status text;
  v_events tenant_event[] := '{}';
begin
  if v_started is not null then
    v_status := (select r.status from revisions r where r.id = v_started and r.deployment_id = p_after.id);
    v_events := v_events || (
      p_after.tenant_id,
      p_after.organization_id,
      'revision.' || lower(v_status),
      v_started,
      json_build_object('deployment_id', p_after.id),
      changed_members('{"status": "QUEUED"}', jsonb_build_object('status', v_status))
    )::tenant_event;
  end if;
  if p_after.active_revision_id is distinct from p_before.active_revision_id then
    v_events := v_events || (
      p_after.tenant_id,
      p_after.organization_id,
      'deployment.activated',
      p_after.id,
      json_build_object('revision_id', p_after.active_revision_id),
      changed_members(
        jsonb_build_object('active_revision_id', p_before.active_revision_id),
        jsonb_build_object('active_revision_id', p_after.active_revision_id)
      )
    )::tenant_event;
  end if;
  if p_after.status <> p_before.status then
    v_events := v_events || (
      p_after.tenant_id,
      p_after.organization_id,
      'deployment.' || lower(p_after.status),
      p_after.id,
      '{}',
      changed_members(
        jsonb_build_object('status', p_before.status), jsonb_build_object('status', p_after.status)
      )
    )::tenant_event;
  end if;
  if p_after.url is distinct from p_before.url then
    v_events := v_events || (
      p_after.tenant_id,
      p_after.organization_id,
      'deployment.located',
      p_after.id,
      '{}',
      changed_members(jsonb_build_object('url', p_before.url), jsonb_build_object('url', p_after.url))
    )::tenant_event;
  end if;
  return v_events || rollout_events(p_before, p_after) || database_copy_events(p_before, p_after);
end $$;

create function write_moved_revisions(p_revisions revisions[]) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  if cardinality(p_revisions) = 0 then return; end if;
  update revisions r
  set
    status = n.status,
    status_message = n.status_message,
    status_since = case when r.status = n.status then r.status_since else clock() end,
    updated_at = clock(),
    source_revision_config = n.source_revision_config,
    commit = n.commit,
    build_plan = n.build_plan
  from unnest(p_revisions) n
  where r.id = n.id and r.deployment_id = n.deployment_id;
end $$;

-- The version changes with the members that clients see.
create function write_moved_deployments(p_deployments deployments[]) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  update deployments d
  set
    in_flight_revision_id = n.in_flight_revision_id,
    waiting_revision_id = n.waiting_revision_id,
    active_revision_id = n.active_revision_id,
    hold = n.hold,
    traffic = n.traffic,
    applied_traffic = n.applied_traffic,
    rollout_due_at = n.rollout_due_at,
    source_revision_config = n.source_revision_config,
    image_version = n.image_version,
    generation = n.generation,
    acknowledged = n.acknowledged,
    remote_reconciled = n.acknowledged >= n.generation,
    status = n.status,
    url = n.url,
    local_url = n.local_url,
    healthy = n.healthy,
    reported_health = n.reported_health,
    health_reason = n.health_reason,
    health_processes = n.health_processes,
    incidents = n.incidents,
    incidents_due = n.incidents_due,
    last_request_at = n.last_request_at,
    preview = n.preview,
    version = d.version + (
      (
        n.active_revision_id, n.status, n.url, n.local_url, n.source_revision_config::text, n.image_version,
        n.traffic::jsonb #- '{beside, rollout, asked}', n.applied_traffic::jsonb - 'rollout', n.preview::text
      ) is distinct from (
        d.active_revision_id, d.status, d.url, d.local_url, d.source_revision_config::text, d.image_version,
        d.traffic::jsonb #- '{beside, rollout, asked}', d.applied_traffic::jsonb - 'rollout', d.preview::text
      )
    )::integer,
    updated_at = n.updated_at
  from unnest(p_deployments) n
  where d.id = n.id and d.tenant_id = n.tenant_id;
end $$;

-- The ref resolves again, except during the hold of a rollback and for a preview, whose commit may be in a fork.
create function unpinned_config(p_deployment deployments) returns json
language plpgsql stable as $$
begin
  if p_deployment.hold is not null and p_deployment.hold ->> 'reason' is distinct from 'rollout_failed'
    or p_deployment.preview is not null then
    return p_deployment.source_revision_config;
  end if;
  return (p_deployment.source_revision_config::jsonb - 'repo_commit_sha')::json;
end $$;

create function repeat_revision(p_deployment uuid, p_revision uuid, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_stored deployments;
  v_next deployments;
  v_queued record;
begin
  v_stored := lock_deployment(p_deployment);
  if v_stored.id is null then return; end if;
  if v_stored.deleting_at is not null then perform refuse('deployment_deleting'); end if;
  perform require_version(v_stored.version, p_request);

  v_next := v_stored;
  v_next.source_revision_config := unpinned_config(v_stored);
  select * into v_queued from queue_revision(v_stored, v_next, p_revision, '{requested}', v_stored.source);

  answer := to_json(v_queued.revision);
  has_webhooks := conclude_write(answer, v_queued.events, p_request);
  return next;
end $$;

-- Deploys the ref of the deployment, or another one that the hook allows: the caller has checked it. A request whose
-- key is that of the last one gets the same revision.
create function use_deploy_hook(p_hook uuid, p_revision uuid, p_ref text, p_key text, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_hook deploy_hooks;
  v_stored deployments;
  v_next deployments;
  v_queued record;
begin
  select d.*
  into v_stored
  from deploy_hooks h
  join deployments d on d.id = h.deployment_id
  where h.id = p_hook and h.tenant_id = current_tenant() and d.tenant_id = current_tenant() and d.deleting_at is null
  for update of d;
  if not found then return; end if;
  -- The lock of the deployment makes requests take turns.
  select h.* into v_hook from deploy_hooks h where h.id = p_hook and h.tenant_id = current_tenant();
  if v_hook.last_key = p_key then
    return query
      select to_json(r), false
      from revisions r
      where r.id = v_hook.last_revision_id and r.tenant_id = current_tenant();
    return;
  end if;
  if v_hook.window_at is null or v_hook.window_at <= clock() - interval '1 minute' then
    v_hook.window_at := clock();
    v_hook.window_uses := 0;
  end if;
  if v_hook.window_uses >= 10 then perform refuse('deploy_hook_busy'); end if;
  if v_stored.hold is not null then perform refuse('deploy_hook_held'); end if;

  v_next := v_stored;
  v_next.source_revision_config := unpinned_config(v_stored);
  if p_ref is not null then
    v_next.source_revision_config :=
      v_next.source_revision_config::jsonb || jsonb_build_object('repo_ref', p_ref);
    perform require_branch_to_build_on_push(v_next.source_config, v_next.source_revision_config);
  end if;
  select * into v_queued from queue_revision(v_stored, v_next, p_revision, '{requested}', v_stored.source);
  update deploy_hooks h
  set
    last_used_at = clock(),
    window_at = v_hook.window_at,
    window_uses = v_hook.window_uses + 1,
    last_key = p_key,
    last_revision_id = p_revision
  where h.id = p_hook and h.tenant_id = current_tenant();
  answer := to_json(v_queued.revision);
  has_webhooks := conclude_write(answer, v_queued.events, p_request);
  return next;
end $$;

-- The configuration of an older revision for its deployment, which keeps `p_kept` (paths in it) as they are now. A
-- database or Redis that it has now stays as it is, and so do its disks.
create function restored_config(p_stored jsonb, p_restored jsonb, p_kept text[]) returns jsonb
language plpgsql immutable as $$
declare
  v_stored jsonb := coalesce(nullif(p_stored -> 'resource_spec', 'null'), '{}');
  v_restored jsonb := coalesce(nullif(p_restored -> 'resource_spec', 'null'), '{}');
  v_resources jsonb;
  v_faults text;
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
  v_faults := array_to_string(list_resource_faults(v_resources, '[]'), '; ');
  if v_faults <> '' then perform refuse('source_rule', v_faults); end if;
  return (p_restored - p_kept - 'resource_spec')
    || coalesce((select jsonb_object_agg(key, value) from jsonb_each(p_stored) where key = any(p_kept)), '{}')
    || case
      when v_resources is not null then jsonb_build_object('resource_spec', v_resources)
      -- A source that needs resources has them always, if only empty ones.
      when p_stored ? 'resource_spec' and p_restored ? 'resource_spec' then '{"resource_spec": {}}'
      else '{}'
    end;
end $$;

-- Deploys an older revision again, with the members of the deployment at `p_kept_members`. With `p_hold_until` it is a
-- rollback, which holds automatic deploys.
create function restore_revision(
  p_deployment uuid,
  p_restored uuid,
  p_revision uuid,
  p_reason text,
  p_hold_until text,
  p_kept_members text[],
  p_request jsonb
) returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
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
    -- It takes all traffic at once.
    v_next.traffic := (v_stored.traffic::jsonb || '{"beside": null}')::json;
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
end $$;

create function release_hold(p_deployment uuid, p_request jsonb) returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_stored deployments := lock_deployment(p_deployment);
  v_changed deployments;
begin
  if v_stored.id is null then return; end if;
  if v_stored.hold is null then perform refuse('hold_not_found'); end if;
  perform require_version(v_stored.version, p_request);
  update deployments d
  set hold = null, version = d.version + 1, updated_at = clock()
  where d.id = v_stored.id and d.tenant_id = current_tenant()
  returning d.* into v_changed;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer, array[deployment_event('deployment.hold_released', v_stored, v_changed)], p_request
  );
  return next;
end $$;

-- True if a rollback left this commit: it was wanted just before the rollback.
create function was_rolled_back(p_deployment uuid, p_sha text) returns boolean
language plpgsql stable as $$
begin
  return exists (
    select from revisions x
    cross join lateral (
      select coalesce(y.commit ->> 'sha', y.source_revision_config ->> 'repo_commit_sha') as sha
      from revisions y
      where y.deployment_id = x.deployment_id and y.tenant_id = current_tenant()
        and y.number < x.number and not 'held' = any(y.reasons)
      order by y.number desc
      limit 1
    ) before
    where x.deployment_id = p_deployment and x.tenant_id = current_tenant()
      and 'rolled_back' = any(x.reasons) and before.sha = p_sha
  );
end $$;

-- The reason why a pushed commit is not deployed; null where nothing holds it back.
create function held_back_message(p_deployment deployments, p_sha text) returns text
language plpgsql stable as $$
begin
  if was_rolled_back(p_deployment.id, p_sha) then
    return 'Commit ' || left(p_sha, 7) || ' was rolled back and is not deployed again automatically.';
  end if;
  if p_deployment.hold ->> 'until' = 'released' then
    return case p_deployment.hold ->> 'reason'
      when 'rollout_failed' then 'A failed rollout holds automatic deploys: commit '
      else 'A rollback holds automatic deploys: commit '
    end || left(p_sha, 7) || ' was not deployed.';
  end if;
  return null;
end $$;

-- Brings a deployment to the head of its ref: creates a revision of the commit, records that it was held back, or does
-- nothing. Returns no row where a later answer of the host was applied already, or the ref is not that of the
-- deployment. The row stays locked, so that the second of two pushes sees the revision of the first.
create function deploy_push(
  p_deployment uuid,
  p_revision uuid,
  p_refs text[],
  p_queried_at timestamptz,
  p_commit json,
  p_ignores_build_on_push boolean,
  p_data json,
  p_request jsonb
) returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_sha text := p_commit ->> 'sha';
  v_stored deployments;
  v_head deployment_heads;
  v_next deployments;
  v_changed deployments;
  v_queued record;
  v_message text;
  v_held revisions;
  v_outcome text := 'unchanged';
  v_events new_event[] := '{}';
begin
  select d.*
  into v_stored
  from deployments d
  where d.id = p_deployment and d.tenant_id = current_tenant() and d.deleting_at is null
    and (p_ignores_build_on_push or (d.source_config ->> 'build_on_push') = 'true')
    and d.source_revision_config ->> 'repo_ref' = any(p_refs)
  for update;
  if not found then return; end if;
  select h.* into v_head from deployment_heads h where h.deployment_id = v_stored.id and h.tenant_id = current_tenant();
  if v_head.queried_at >= p_queried_at then return; end if;

  v_next := v_stored;
  v_changed := v_stored;
  v_next.source_revision_config :=
    v_stored.source_revision_config::jsonb || jsonb_build_object('repo_commit_sha', v_sha);
  if v_stored.source_revision_config ->> 'repo_commit_sha' is distinct from v_sha then
    v_message := held_back_message(v_stored, v_sha);
    if v_message is null then
      v_outcome := 'created';
      v_next.hold := null;
      select * into v_queued from queue_revision(v_stored, v_next, p_revision, '{pushed}', v_stored.source, p_commit);
      v_changed := v_queued.changed;
      v_events := v_queued.events;
      if v_stored.hold is not null then
        v_events := v_events || (
          'deployment.hold_released',
          v_stored.id,
          '{}',
          changed_members(jsonb_build_object('hold', v_stored.hold), jsonb_build_object('hold', v_changed.hold))
        )::new_event;
      end if;
    elsif not exists (
      select from revisions r
      where r.deployment_id = v_stored.id and r.tenant_id = current_tenant()
        and r.number = v_stored.revisions and 'held' = any(r.reasons) and r.commit ->> 'sha' = v_sha
    ) then
      v_outcome := 'held_back';
      update deployments d
      set revisions = v_stored.revisions + 1
      where d.id = v_stored.id and d.tenant_id = current_tenant()
      returning d.* into v_changed;
      v_next.revisions := v_changed.revisions;
      -- Recorded as a skipped revision, which is never the deployment's latest.
      v_held := insert_revision(
        p_revision, v_next, 'SKIPPED', v_message, '{pushed, held}', v_stored.source, p_commit, null, clock()
      );
      v_events := array[(
        'revision.created',
        v_held.id,
        json_build_object('deployment_id', v_stored.id, 'status', v_held.status, 'message', v_message),
        changed_members(null, recorded_revision(v_held))
      )::new_event];
    end if;
  end if;
  if v_outcome = 'created' and v_stored.parent_deployment_id is null then
    insert into commit_statuses (organization_id, tenant_id, deployment_id, sha, revision_id)
    values (v_stored.organization_id, v_stored.tenant_id, v_stored.id, v_sha, p_revision)
    on conflict (deployment_id, sha) do update
      set revision_id = excluded.revision_id, attempts = 0, next_attempt_at = clock();
  end if;
  if v_outcome <> 'unchanged' then
    v_events := deployment_event('deployment.pushed', v_stored, v_changed, p_data) || v_events;
  end if;
  if v_head.gone_ref is not null then
    v_events := v_events || (
      'deployment.ref_found', v_stored.id, json_build_object('ref', v_head.gone_ref), null
    )::new_event;
  end if;

  insert into deployment_heads (deployment_id, organization_id, tenant_id, queried_at)
  values (v_stored.id, v_stored.organization_id, v_stored.tenant_id, p_queried_at)
  on conflict (deployment_id) do update set queried_at = excluded.queried_at, gone_ref = null;
  answer := to_json(v_outcome);
  has_webhooks := conclude_write(to_json(v_changed), v_events, p_request);
  return next;
end $$;

-- Records that the host no longer has the ref of a deployment. Returns no row where a later answer of the host was
-- applied already, where that is recorded, or where the ref is not that of the deployment.
create function record_missing_ref(p_deployment uuid, p_refs text[], p_queried_at timestamptz, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_stored deployments := lock_deployment(p_deployment);
  v_ref text := v_stored.source_revision_config ->> 'repo_ref';
  v_head deployment_heads;
begin
  if v_stored.deleting_at is not null or not coalesce(v_ref = any(p_refs), false) then return; end if;
  insert into deployment_heads as h (deployment_id, organization_id, tenant_id, queried_at, gone_ref)
  values (v_stored.id, v_stored.organization_id, v_stored.tenant_id, p_queried_at, v_ref)
  on conflict (deployment_id) do update
    set queried_at = excluded.queried_at, gone_ref = excluded.gone_ref
    where h.queried_at < excluded.queried_at and h.gone_ref is distinct from excluded.gone_ref
  returning h.* into v_head;
  if not found then return; end if;
  answer := to_json(v_head);
  has_webhooks := conclude_write(
    answer,
    array[('deployment.ref_gone', v_stored.id, json_build_object('ref', v_ref), null)::new_event],
    p_request
  );
  return next;
end $$;

-- Gives the deployments of a repository that was renamed, or given to another owner, its new URL. Nothing is built.
create function move_repository(p_integration uuid, p_key text, p_url text, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_stored deployments[] := array(
    select d
    from deployments d
    where d.repo_key = p_key and d.tenant_id = current_tenant()
      and d.source_config ->> 'integration_id' = p_integration::text
      and d.deleting_at is null
    order by d.id
    for update
  );
  v_changed deployments[];
begin
  if cardinality(v_stored) = 0 then return; end if;
  with changed as (
    update deployments d
    set
      source_config = jsonb_set(d.source_config::jsonb, '{repo_url}', to_jsonb(p_url))::json,
      version = d.version + 1,
      updated_at = greatest(clock(), d.updated_at)
    from unnest(v_stored) s
    where d.id = s.id and d.tenant_id = current_tenant()
    returning d
  )
  select array_agg((c.d)::deployments order by (c.d).id) into v_changed from changed c;
  answer := to_json(cardinality(v_changed));
  has_webhooks := conclude_writes(
    array(select to_json(c) from unnest(v_changed) c),
    array(
      select deployment_event('deployment.repository_moved', s, c, json_build_object('repo_url', p_url))
      from unnest(v_stored) s
      join unnest(v_changed) c on c.id = s.id
      order by c.id
    ),
    p_request
  );
  return next;
end $$;

create function interrupt_revision(p_deployment uuid, p_revision uuid, p_message text, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_before deployments;
  d deployments;
  r revisions;
  v_next revisions;
begin
  v_before := lock_deployment(p_deployment);
  select n.*
  into r
  from revisions n
  where n.id = p_revision and n.deployment_id = v_before.id and n.tenant_id = current_tenant();
  if not found then return; end if;
  if not is_in_queue(r.status) then
    perform refuse('revision_not_interruptible', r.status || ' to INTERRUPTED');
  end if;

  v_next := r;
  v_next.status := 'INTERRUPTED';
  v_next.status_message := p_message;
  d := follow_revision(v_before, r, v_next);
  perform write_moved_revisions(array[v_next]);
  answer := to_json(v_next);
  has_webhooks := conclude_write(
    answer,
    array(
      select (e.type, e.subject_id, e.data, e.changes)::new_event
      from unnest(
        revision_moved(r, v_next, json_build_object('deployment_id', d.id, 'message', p_message))
        || deployment_events(v_before, d)
      ) e
    ),
    p_request
  );
  perform write_moved_deployments(array[d]);
  return next;
end $$;

-- Fails the revisions that are past the deadline of their status: `DEADLINES` of src/hosting/deployments/lifecycle.ts,
-- with `after` in milliseconds. One whose listener fell silent during its deploy gets `p_lost` instead. Returns the
-- deployments.
create function fail_overdue_revisions(
  p_deadlines jsonb, p_lost jsonb, p_silent_after interval, p_limit integer
) returns uuid[]
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  -- A deployment that another transaction is changing waits for the next call.
  v_ids uuid[] := array(
    select c.id
    from deployments c
    where c.id in (
      select r.deployment_id
      from revisions r
      join jsonb_to_recordset(p_deadlines) l(status text, after bigint) on l.status = r.status
      -- The condition of the index `revisions_pending`.
      where r.status in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING')
        and r.status_since <= clock() - l.after * interval '1 millisecond'
        and not exists (
          select from deployments h
          where h.id = r.deployment_id and h.applied_traffic ->> 'revision_id' = r.id::text
        )
    )
    order by c.id
    limit p_limit
    for update skip locked
  );
  v_before deployments;
  d deployments;
  v record;
  r revisions;
  v_next revisions;
  v_revisions revisions[] := '{}';
  v_deployments deployments[] := '{}';
  v_events tenant_event[] := '{}';
begin
  for v_before in select c.* from deployments c where c.id = any(v_ids) order by c.id loop
    d := v_before;
    for v in
      select
        n as revision,
        -- A listener that never polled is silent from its registration on.
        case
          when n.status = 'DEPLOYING' and coalesce(s.last_seen_at, s.created_at) <= clock() - p_silent_after then p_lost
          else l.outcome
        end as outcome
      from revisions n
      join jsonb_array_elements(p_deadlines) l(outcome) on l.outcome ->> 'status' = n.status
      left join listeners s on s.id = d.listener_id
      where n.deployment_id = d.id
        and n.status_since <= clock() - (l.outcome ->> 'after')::bigint * interval '1 millisecond'
        and d.applied_traffic ->> 'revision_id' is distinct from n.id::text
      order by n.number
    loop
      r := v.revision;
      v_next := r;
      v_next.status := v.outcome ->> 'becomes';
      v_next.status_message := v.outcome ->> 'message';
      d := follow_revision(d, r, v_next);
      v_revisions := v_revisions || v_next;
      v_events := v_events || revision_moved(
        r, v_next, json_build_object('deployment_id', d.id, 'message', v_next.status_message)
      );
    end loop;
    v_deployments := v_deployments || d;
    v_events := v_events || deployment_events(v_before, d);
  end loop;
  perform write_moved_revisions(v_revisions);
  perform journal_tenant_events(v_events, null);
  perform write_moved_deployments(v_deployments);
  return v_ids;
end $$;

-- Refuses needs that no eligible listener allows: the named one, or those of the platform. A listener whose agent has
-- sent no policy decides by itself. `p_needs` are `PolicyNeed` of src/protocol/listener-policy.ts.
-- isAllowed() there decides the same.
create function require_listener_allows(p_listener uuid, p_needs jsonb) returns boolean
language plpgsql stable cost 10000 as $$
declare
  v_refused text;
begin
  with possible as (
    select l.policy::jsonb as policy
    from listeners l
    where (l.id = p_listener and (l.tenant_id = current_tenant() or l.tenant_id is null))
      or (p_listener is null and l.tenant_id is null)
  ),
  most as (
    select
      max((p.policy ->> 'max_copies')::integer) as copies,
      max((p.policy ->> 'max_disk_gi')::integer) as disk_gi
    from possible p
  )
  select string_agg(
    case n.needs
      when 'copies' then format('%s (at most %s)', n.path, m.copies)
      when 'disk_size' then format('%s (at most %s)', n.path, m.disk_gi)
      when 'feature' then format('%s (%s)', n.path, n.hint)
      when 'told_feature' then format('%s (%s)', n.path, n.hint)
      else n.path
    end,
    ', '
    order by n.place
  )
  into v_refused
  from rows from (
    jsonb_to_recordset(p_needs) as (path text, needs text, value jsonb, hint text)
  ) with ordinality n(path, needs, value, hint, place)
  cross join most m
  where exists (select from possible)
    and not exists (
      select
      from possible p
      where p.policy is null
        or case n.needs
          when 'privileged' then (p.policy ->> 'privileged')::boolean
          when 'service_account' then p.policy -> 'service_accounts' @> n.value
          when 'copies' then coalesce(n.value::integer <= (p.policy ->> 'max_copies')::integer, true)
          when 'disk_size' then coalesce(n.value::integer <= (p.policy ->> 'max_disk_gi')::integer, true)
          when 'feature' then coalesce(nullif(p.policy -> 'features', 'null') @> n.value, true)
          when 'told_feature' then p.policy -> 'features' @> n.value
        end
    );
  if v_refused is not null then perform refuse('not_allowed_by_listener', v_refused); end if;
  return true;
end $$;

-- The members of volumes that hold a token of the service account.
create function list_token_volumes(p_volumes jsonb) returns setof text
language sql immutable as $$
  select format('resource_spec.volumes.%s.projected.sources.%s.serviceAccountToken', v.place - 1, s.place - 1)
  from jsonb_array_elements(nullif(p_volumes, 'null')) with ordinality v(volume, place)
  cross join jsonb_array_elements(
    case when jsonb_typeof(v.volume #> '{projected, sources}') = 'array' then v.volume #> '{projected, sources}' end
  ) with ordinality s(source, place)
  where nullif(s.source -> 'serviceAccountToken', 'null') is not null
$$;

-- Refuses the needs of resources that a patch changes. `p_patch` comes from `describePatch` in
-- src/hosting/deployments/patch.ts.
create function require_listener_allows_patch(p_deployment uuid, p_patch jsonb) returns boolean
language plpgsql stable cost 10000 as $$
declare
  v_clears_account boolean :=
    p_patch -> 'members' @> '[{"path": "source_config.resource_spec.service_account_name", "value": null}]';
begin
  if p_patch -> 'policy_needs' = '[]' and not v_clears_account then return true; end if;
  perform require_listener_allows(d.listener_id, needs.changed)
  from deployments d
  cross join lateral (
    select jsonb_agg(n.need) as changed
    from (
      select n.need
      from jsonb_array_elements(p_patch -> 'policy_needs') n(need)
      join jsonb_to_recordset(p_patch -> 'members') as m(path text, value jsonb)
        on m.path in (
          'source_config.resource_spec',
          'source_config.resource_spec.' || split_part(n.need ->> 'path', '.', 2),
          n.need ->> 'path'
        )
      cross join lateral (select n.need ->> 'path' like '%.serviceAccountToken' as is_token) t
      where case
        when t.is_token and v_clears_account then true
        -- A deployment with an account has its token anyway.
        when t.is_token and d.source_config -> 'resource_spec' ->> 'service_account_name' is not null then false
        -- The patch may send the one, and the deployment have the other.
        when n.need ->> 'value' in ('autoscaling', 'part_autoscaling')
          and not (p_patch -> 'members') @> jsonb_build_array(
            jsonb_build_object('path', 'source_config.' || replace(n.need ->> 'path', 'max_scale', 'min_scale'))
          )
          then m.value is distinct from (d.source_config #> string_to_array(n.need ->> 'path', '.'))::jsonb
            and m.value::text::integer > coalesce(
              (d.source_config #>> string_to_array(replace(n.need ->> 'path', 'max_scale', 'min_scale'), '.'))::integer,
              1
            )
        else m.value is distinct from (d.source_config #> (string_to_array(m.path, '.'))[2:])::jsonb
      end
      union all
      -- The volumes that stay have a token of the account that goes.
      select jsonb_build_object('path', t.path, 'needs', 'privileged')
      from list_token_volumes((d.source_config -> 'resource_spec' -> 'volumes')::jsonb) t(path)
      where v_clears_account
        and not exists (
          select
          from jsonb_to_recordset(p_patch -> 'members') as m(path text)
          where m.path = 'source_config.resource_spec.volumes'
        )
    ) n
  ) needs
  where d.id = p_deployment and d.tenant_id = current_tenant() and needs.changed is not null;
  return true;
end $$;
