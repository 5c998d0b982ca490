-- Custom SQL migration file, put your code below! ----> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
set local role slipway_system;
create or replace function sync_after_insert()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_items sync_items[];
  v_tenants uuid[];
begin
  select array_agg((id, listener_id, 0, generation)::sync_items), array_agg(distinct tenant_id)
  into v_items, v_tenants
  from after
  where listener_id is not null;
  if v_items is not null then
    perform from journals j where j.scope_id = any(v_tenants) order by j.scope_id for no key update;
    perform record_sync_items(v_items);
  end if;
  return null;
end $function$;
reset role;
create or replace function conclude_write(p_changed json, p_events new_event[], p_request jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  return conclude_writes(array[p_changed], p_events, p_request);
end $function$;
create or replace function conclude_writes(p_changed json[], p_events new_event[], p_request jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
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
end $function$;
create or replace function create_deployment(p_deployment uuid, p_revision uuid, p_new json, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
AS $function$
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
end $function$;
create or replace function create_preview(
  p_deployment uuid, p_revision uuid, p_new json, p_read previews, p_max integer, p_column json, p_commit json,
  p_url text, p_request jsonb
)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
AS $function$
declare
  v_parent deployments := lock_deployment(p_read.parent_id);
  v_preview previews;
  v_inserted record;
begin
  perform require_active_integration((p_new -> 'source_config' ->> 'integration_id')::uuid);
  if not exists (
    select from previews v
    where v.parent_id = v_parent.id and v.tenant_id = current_tenant()
      and v.number = p_read.number
      and v.state <> 'ended'
      and (v.head_sha, v.deployment_id, v.approved_sha)
        is not distinct from (p_read.head_sha, p_read.deployment_id, p_read.approved_sha)
  ) then
    perform refuse('preview_moved');
  end if;
  if (
    select count(*)
    from previews v
    where v.parent_id = v_parent.id and v.tenant_id = current_tenant()
      and v.number <> p_read.number and v.state <> 'ended' and v.deployment_id is not null
  ) >= p_max then
    perform refuse('previews_full');
  end if;

  select *
  into v_inserted
  from insert_deployment(
    p_deployment, p_revision, p_new, p_parent => v_parent, p_preview => p_column, p_commit => p_commit
  );
  update previews v
  set
    state = 'live',
    deployment_id = p_deployment,
    expires_at = (p_column ->> 'expires_at')::timestamptz,
    updated_at = clock()
  where v.parent_id = v_parent.id and v.tenant_id = current_tenant() and v.number = p_read.number
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
end $function$;
create or replace function delete_deployments(p_deployments uuid[], p_deletes_projects boolean, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
AS $function$
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
end $function$;
create or replace function insert_deployment(
  p_id uuid, p_revision uuid, p_new json, p_listener uuid DEFAULT NULL::uuid,
  p_parent deployments DEFAULT NULL::deployments, p_preview json DEFAULT NULL::json,
  p_commit json DEFAULT NULL::json, OUT created deployments, OUT events new_event[]
)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
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
      image_version, secrets, secret_references, tag_value_ids, parent_deployment_id, preview, owner, listener_id,
      latest_revision_id, in_flight_revision_id, waiting_revision_id
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
      changed_members(null, recorded_deployment(created) || jsonb_build_object('owner', created.owner))
    )::new_event,
    created_event(v_revision)
  ];
end $function$;
create or replace function journal_events_of(
  p_actor_kind text, p_actor_id uuid, p_actor_name text, p_events tenant_event[], p_daily_limit bigint
)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if cardinality(p_events) = 0 then return; end if;
  -- The order of the ids keeps two writers from a deadlock.
  with numbered as (
    insert into journals (scope_id, organization_id, seq, day, today)
    select e.tenant_id, e.organization_id, count(*), journal_day(), count(*)
    from unnest(p_events) e
    group by e.tenant_id, e.organization_id
    order by e.tenant_id
    on conflict (scope_id) do update set
      seq = journals.seq + excluded.seq,
      day = excluded.day,
      today = excluded.today + case when journals.day = excluded.day then journals.today else 0 end
    returning scope_id, seq, today
  ),
  placed as (
    select
      e.*,
      row_number() over (partition by e.tenant_id order by e.ordinal) as place,
      count(*) over (partition by e.tenant_id) as count
    from unnest(p_events) with ordinality
      e(tenant_id, organization_id, type, subject_id, data, changes, ordinal)
  )
  insert into events (
    scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, actor_name, request_id, data,
    changes, part_of
  )
  select
    p.tenant_id,
    n.seq - p.count + p.place,
    p.organization_id,
    p.tenant_id,
    p.type,
    p.subject_id,
    p_actor_kind,
    p_actor_id,
    p_actor_name,
    setting('request_id'),
    p.data,
    p.changes,
    case when p.place > 1 and setting('request') is not null then n.seq - p.count + 1 end
  from placed p
  join numbered n on n.scope_id = p.tenant_id
  where require_journal_room(n.today, p_daily_limit);
end $function$;
create or replace function journal_tenant_events(p_events tenant_event[], p_daily_limit bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if cardinality(p_events) = 0 then return; end if;
  perform journal_events_of(
    case when current_listener() is null then 'cron' else 'listener' end,
    current_listener(),
    event_actor_name(),
    p_events,
    p_daily_limit
  );
end $function$;
create or replace function lock_deployment_version(p_deployment uuid, p_request jsonb)
 RETURNS deployments
 LANGUAGE plpgsql
AS $function$
declare
  v_stored deployments;
begin
  v_stored := lock_deployment(p_deployment);
  if v_stored.deleting_at is not null then return null; end if;
  perform require_version(v_stored.version, p_request);
  return v_stored;
end $function$;
create or replace function move_preview(p_deployment uuid, p_preview uuid, p_column json, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
AS $function$
declare
  v_stored deployments := lock_deployment(p_deployment);
  v_changed deployments;
begin
  update previews v
  set state = 'live', expires_at = (p_column ->> 'expires_at')::timestamptz, updated_at = clock()
  where v.id = p_preview and v.tenant_id = current_tenant()
    and v.head_sha = p_column ->> 'head_sha'
    and v.state <> 'ended';
  update deployments d
  set
    preview = p_column,
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
      'deployment.preview_moved', v_stored, v_changed, json_build_object('number', p_column -> 'number')
    )],
    p_request
  );
  return next;
end $function$;
create or replace function preview_hook_body(p_preview previews, p_type text, p_url text)
 RETURNS json
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return json_build_object(
    'type', p_type,
    'timestamp', clock(),
    'data', json_build_object(
      'preview_id', p_preview.id,
      'number', p_preview.number,
      'branch', p_preview.branch,
      'head_sha', p_preview.head_sha,
      'fork', p_preview.fork,
      'deployment_id', p_preview.deployment_id,
      'parent_deployment_id', p_preview.parent_id,
      'url', p_url
    )
  );
end $function$;
create or replace function queue_revision(
  p_stored deployments, p_next deployments, p_revision uuid, p_reasons text[], p_source text,
  p_commit json DEFAULT NULL::json, p_from_revision uuid DEFAULT NULL::uuid,
  p_changes_in_place boolean DEFAULT false, OUT changed deployments, OUT revision revisions, OUT events new_event[]
)
 RETURNS record
 LANGUAGE plpgsql
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
end $function$;
create or replace function read_changes(
  p_listener listeners, p_cursor bigint, p_digest text, p_page_size integer, p_daily_limit bigint
)
 RETURNS TABLE(latest bigint, digest text, resync boolean, more boolean, changes json)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_events tenant_event[];
begin
  select coalesce(max(c.seq), 0), lpad(to_hex(coalesce(max(c.digest), 0)), 16, '0')
  into latest, digest
  from sync_cursors c
  where c.listener_id = p_listener.id;
  resync := p_cursor is null or p_cursor > latest or (p_cursor = latest and coalesce(p_digest <> digest, false));
  more := false;
  changes := '[]';

  if resync or p_cursor < latest then
    with page as (
      select i.deployment_id, i.generation, i.seq
      from sync_items i
      where i.listener_id = p_listener.id
        and i.seq > case when resync then 0 else p_cursor end
        -- Later ones come with the next poll: they were not committed when the digest was read.
        and i.seq <= latest
      order by i.seq
      -- One more than a page, to know whether there is another page.
      limit p_page_size + 1
    ),
    wanted as (
      select
        p.*,
        case when d.id is not null then json_build_object(
          'tenant_id', d.tenant_id,
          'name', d.name,
          'deployment_type', d.deployment_type,
          'source_config', d.source_config,
          'trace_key_version', d.trace_key_version,
          -- The workspace owns the host and has proved it. A listener of its own that is not public needs no proof.
          'custom_url', case
            when h.verified_at is not null
              or h.tenant_id = p_listener.tenant_id and not p_listener.verified_hosts_only
              then d.source_config ->> 'custom_url'
          end,
          'absent', d.deleting_at is not null
        ) end as deployment,
        -- The revision in flight; or the latest, if it was lost when its listener fell silent: the agent continues it.
        case when d.deleting_at is null then coalesce(d.in_flight_revision_id, l.id) end as revision_id,
        case when d.deleting_at is null then d.active_revision_id end as serving_id
      from (select * from page order by seq limit p_page_size) p
      left join deployments d on d.id = p.deployment_id and d.listener_id = p_listener.id
      left join custom_hosts h on h.host = d.custom_host and h.tenant_id = d.tenant_id
      left join revisions l on l.id = d.latest_revision_id and l.status = 'UNKNOWN'
    ),
    opened as (
      select
        r.*,
        (
          select json_agg(json_build_object('name', s.name, 'sealed', s.sealed))
          from json_to_recordset(r.secrets) w(name text, version integer)
          join deployment_secrets s
            on s.deployment_id = r.deployment_id and s.name = w.name and s.version = w.version
        ) as sealed,
        (
          select json_build_object('id', u.id, 'size', u.size, 'sha256', u.sha256)
          from uploads u
          where u.object_path = r.source_revision_config ->> 'source_tarball_path'
            and u.tenant_id = r.tenant_id
            and u.state = 'stored'
        ) as archive
      from revisions r
      where r.id in (select w.revision_id from wanted w union select w.serving_id from wanted w)
    ),
    described as (
      select
        o.id,
        json_build_object(
          'id', o.id,
          'number', o.number,
          'status', o.status,
          'status_since', o.status_since,
          'source', o.source,
          'source_config', o.source_config,
          'source_revision_config', o.source_revision_config,
          'secret_references', o.secret_references,
          'sealed', o.sealed,
          'archive', o.archive
        ) as json
      from opened o
    )
    select
      (select count(*) > p_page_size from page),
      coalesce(json_agg(
        json_build_object(
          'deployment_id', w.deployment_id,
          'generation', w.generation,
          'seq', w.seq,
          'deployment', w.deployment,
          'revision', f.json,
          'serving', a.json
        )
        order by w.seq
      ), '[]'),
      array(
        select (
          o.tenant_id,
          o.organization_id,
          'revision.secrets_revealed',
          o.id,
          json_build_object('deployment_id', o.deployment_id, 'fence', p_listener.fence),
          null
        )::tenant_event
        from opened o
        where o.sealed is not null
      )
    into more, changes, v_events
    from wanted w
    left join described f on f.id = w.revision_id
    left join described a on a.id = w.serving_id;
    perform journal_tenant_events(v_events, case when p_listener.tenant_id is not null then p_daily_limit end);
  end if;
  -- This comes last, because it locks cursors. An adopted deployment is a change for the next poll.
  perform adopt_deployments(p_listener);
  return next;
end $function$;
create or replace function record_missing_ref(
  p_deployment uuid, p_refs text[], p_queried_at timestamp with time zone, p_request jsonb
)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
AS $function$
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
end $function$;
create or replace function release_hold(p_deployment uuid, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
AS $function$
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
end $function$;
create or replace function require_allowed_creation(p_new json)
 RETURNS uuid
 LANGUAGE plpgsql
 COST 10000
AS $function$
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
end $function$;
create or replace function require_creatable_deployment(p_new json)
 RETURNS uuid
 LANGUAGE plpgsql
 COST 10000
AS $function$
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
end $function$;
create or replace function rotate_trace_key(p_deployment uuid, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
AS $function$
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
end $function$;
create or replace function set_deployment_owner(p_deployment uuid, p_owner text, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
AS $function$
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
end $function$;
set local role slipway_system;
create or replace function verify_custom_host(p_host text, p_owner uuid, p_owner_gone boolean)
 RETURNS SETOF custom_hosts
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
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
      verified_at = clock()
    where h.host = p_host
    returning h.*;
end $function$;
reset role;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
