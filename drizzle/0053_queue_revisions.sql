-- A patch, as a function that locks the deployment, decides and writes. The functions that a redeploy, a rollback and a
-- push share with it come first. docs/design/migrations.md has the rule by which functions change.

-- ------------------------------------------------------------ What a write records and answers
create type new_event as (type text, subject_id uuid, data json, changes json);
--> statement-breakpoint
-- What events show of a deployment and of a revision: DEPLOYMENT_RECORD and REVISION_RECORD of src/deployments/rows.ts.
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
--> statement-breakpoint
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
--> statement-breakpoint
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
--> statement-breakpoint
-- The last step of a write: the events go into the caller's journal, and `p_changed`, the row that was changed, is kept
-- as the answer to a repeated request. Returns whether the workspace has webhooks, to which the events are announced.
-- `p_request` is what `describeWrite` in src/kernel/journal.ts tells of the request.
create function conclude_write(p_changed json, p_events new_event[], p_request jsonb) returns boolean
language plpgsql as $$
begin
  perform journal(
    array_agg(e.type),
    array_agg(e.subject_id),
    array_agg(e.data),
    array_agg(e.changes),
    (p_request ->> 'event_limit')::bigint,
    greatest((p_request ->> 'body_bytes')::bigint, octet_length(p_changed::text))
  )
  from unnest(p_events) e
  having count(*) > 0;
  if p_request ->> 'idempotency_key' is not null then
    insert into idempotency_keys (actor_id, key, fingerprint, result)
    values (
      current_actor(), p_request ->> 'idempotency_key', p_request ->> 'fingerprint', json_build_array(p_changed)
    );
  end if;
  return has_webhooks(current_tenant());
end $$;
--> statement-breakpoint

-- A deployment of the caller's workspace, whose id is null if there is none. Concurrent writers of it take turns.
create function lock_deployment(p_id uuid) returns deployments
language plpgsql as $$
declare
  v_stored deployments;
begin
  select d.* into v_stored from deployments d where d.id = p_id and d.tenant_id = current_tenant() for update;
  return v_stored;
end $$;
--> statement-breakpoint

-- ------------------------------------------------------------ What a change is refused for
-- The request's If-Match and Plan-Digest name the current version.
create function require_version(p_version integer, p_request jsonb) returns boolean
language plpgsql stable cost 10000 as $$
begin
  if not nullif(p_request -> 'if_match', 'null') @> to_jsonb(p_version) then
    perform refuse('precondition_failed');
  end if;
  if p_version <> (p_request ->> 'planned_version')::integer then perform refuse('plan_stale'); end if;
  return true;
end $$;
--> statement-breakpoint
-- Pushes and schedules pass: they repeat what a key or a person decided.
create function require_command_permission() returns boolean
language plpgsql stable cost 10000 as $$
begin
  if setting('actor_kind') in ('key', 'session') and not 'deployments:change-commands' = any(actor_permissions()) then
    perform refuse('permission_missing', 'deployments:change-commands');
  end if;
  return true;
end $$;
--> statement-breakpoint
-- The commands of a configuration or of resources. Absent, null and empty are the same: no command.
create function commands_of(p_config jsonb) returns jsonb
language sql stable
return jsonb_build_array(
  nullif(p_config -> 'install_command', 'null'),
  nullif(p_config -> 'build_command', 'null'),
  nullif(nullif(p_config -> 'resource_spec' -> 'init_containers', 'null'), '[]'),
  nullif(nullif(p_config -> 'resource_spec' -> 'sidecars', 'null'), '[]')
);
--> statement-breakpoint
-- Of two configurations of a deployment: commands that differ need the permission to change them.
create function require_allowed_commands(p_before jsonb, p_after jsonb) returns boolean
language plpgsql stable cost 10000 as $$
begin
  if commands_of(p_before) <> commands_of(p_after) then perform require_command_permission(); end if;
  return true;
end $$;
--> statement-breakpoint
-- A push does not move a tag.
create function require_branch_to_build_on_push(p_config json, p_revision_config json) returns boolean
language plpgsql stable cost 10000 as $$
begin
  if (p_config ->> 'build_on_push') = 'true' and (p_revision_config ->> 'repo_ref') like 'refs/tags/%' then
    perform refuse('source_rule', 'source_config.build_on_push is not allowed: `repo_ref` is a tag, not a branch');
  end if;
  return true;
end $$;
--> statement-breakpoint

-- ------------------------------------------------------------ The queue
-- The tag of an image; an image that is named by its digest alone has none.
create function image_version(p_image text) returns text
language sql immutable
return substring(split_part(p_image, '@', 1) from ':([^:/]+)$');
--> statement-breakpoint
-- The first state of a revision of this source when its turn comes: `startState` of src/deployments/lifecycle.ts.
create function start_state(p_source text) returns text
language sql immutable
return case when p_source in ('githost', 'internal_source') then 'AWAITING_BUILD' else 'AWAITING_DEPLOY' end;
--> statement-breakpoint
-- The image or the archive of the revision is still missing.
create function lacks_artifact(p_source text, p_revision_config json) returns boolean
language sql immutable
return p_source = 'internal_container' and p_revision_config ->> 'image_uri' is null
  or p_source = 'internal_source' and p_revision_config ->> 'source_tarball_path' is null;
--> statement-breakpoint
-- Inserts a revision of what the deployment is now.
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
language plpgsql as $$
declare
  v_inserted revisions;
begin
  insert into revisions (
    organization_id, tenant_id, deployment_id, id, number, source, source_config, source_revision_config, secrets,
    secret_references, status, status_message, reasons, from_revision_id, commit, actor_kind, actor_id, created_at,
    updated_at
  )
  values (
    p_deployment.organization_id, p_deployment.tenant_id, p_deployment.id, p_id, p_deployment.revisions, p_source,
    p_deployment.source_config, p_deployment.source_revision_config, p_deployment.secrets,
    p_deployment.secret_references, p_status, p_status_message, p_reasons, p_from_revision, p_commit,
    setting('actor_kind'), current_actor(), p_time, p_time
  )
  returning * into v_inserted;
  return v_inserted;
end $$;
--> statement-breakpoint
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
--> statement-breakpoint
-- Only the newest revision waits: the one that waited until now is skipped, one that was deploying interrupted.
create function supersede_revisions(p_ids uuid[], p_number integer) returns new_event[]
language plpgsql as $$
declare
  v_before revisions;
  v_after revisions;
  v_events new_event[] := '{}';
begin
  for v_before in
    select r.*
    from revisions r
    where r.id = any(p_ids) and r.tenant_id = current_tenant()
    order by r.number
  loop
    update revisions r
    set
      status = case v_before.status when 'DEPLOYING' then 'INTERRUPTED' else 'SKIPPED' end,
      status_message = case v_before.status
        when 'CREATING' then 'It had no files or image yet. It was superseded by revision ' || p_number
        when 'DEPLOYING' then 'Superseded by revision ' || p_number || ' before it was healthy.'
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
--> statement-breakpoint
-- Changes a deployment whose row the caller has locked as `p_stored`: its configuration, secrets and hold become those
-- of `p_next`. With reasons, a revision is created: one is in flight, at most one waits. Without reasons and changes in
-- place, nothing is written.
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
language plpgsql as $$
declare
  v_creates boolean := cardinality(p_reasons) > 0;
  v_lacks_artifact boolean := lacks_artifact(p_source, p_next.source_revision_config);
  -- Before the new revision.
  v_in_flight uuid := p_stored.in_flight_revision_id;
  v_replaced uuid;
begin
  changed := p_stored;
  events := '{}';
  if not v_creates and not p_changes_in_place then return; end if;

  -- Its agent has told why the revision in flight is not healthy, so the new one takes its place at once.
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
    image_version = image_version(p_next.source_revision_config ->> 'image_uri'),
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
end $$;
--> statement-breakpoint

-- ------------------------------------------------------------ Patches
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
--> statement-breakpoint
create type patch_plan as (
  next deployments,
  -- Paths of members that change, by what follows. The first are the reasons for a revision.
  reasons text[],
  in_place text[],
  immutable text[],
  -- Members that change although the source does not allow them.
  refused text[],
  kept_secrets text[],
  unknown_masks text[]
);
--> statement-breakpoint
-- What a patch comes to on a deployment. `planPatchChanges` of src/deployments/plan.ts describes the same to people, by
-- the same members: `describePatch` of src/deployments/patch.ts sends them with their rules.
create function plan_patch(p_stored deployments, p_patch jsonb) returns patch_plan
language plpgsql stable as $$
declare
  v_stored jsonb := jsonb_build_object(
    'source_config', p_stored.source_config,
    'source_revision_config', p_stored.source_revision_config,
    'secret_references', p_stored.secret_references
  );
  v_next jsonb := v_stored;
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
      nullif(m.value, '[]') as value,
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
      v_next := jsonb_set(v_next, v_member.place, v_member.value);
    end if;
    -- A ref that is sent again resolves again. A preview's commit follows its pull request.
    if v_member.path = 'source_revision_config.repo_ref' and (p_stored.preview is null or v_is_changed) then
      v_next := v_next #- '{source_revision_config, repo_commit_sha}';
    end if;
  end loop;
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
end $$;
--> statement-breakpoint
-- What a patch is refused for, planned or applied.
create function require_allowed_patch(p_stored deployments, p_plan patch_plan, p_patch jsonb, p_request jsonb)
returns boolean
language plpgsql cost 10000 as $$
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
    ),
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
end $$;
--> statement-breakpoint
create function patch_deployment(p_deployment uuid, p_revision uuid, p_patch jsonb, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql as $$
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

  select *
  into v_queued
  from queue_revision(
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
