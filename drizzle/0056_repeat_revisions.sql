-- A redeploy, a rollback and a push, as functions that share queue_revision() with a patch.

-- ------------------------------------------------------------ Revisions of the current or of an older configuration
-- The ref resolves again, except during the hold of a rollback and for a preview, whose commit may be in a fork.
create function unpinned_config(p_deployment deployments) returns json
language plpgsql stable as $$
begin
  if p_deployment.hold is not null or p_deployment.preview is not null then
    return p_deployment.source_revision_config;
  end if;
  return (p_deployment.source_revision_config::jsonb - 'repo_commit_sha')::json;
end $$;
--> statement-breakpoint
create function repeat_revision(p_deployment uuid, p_revision uuid, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql as $$
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
--> statement-breakpoint
-- Deploys an older revision again, with the in-place members of the deployment (`p_kept_members`). With `p_hold_until`
-- it is a rollback, which holds automatic deploys.
create function restore_revision(
  p_deployment uuid,
  p_restored uuid,
  p_revision uuid,
  p_reason text,
  p_hold_until text,
  p_kept_members text[],
  p_request jsonb
) returns table (answer json, has_webhooks boolean)
language plpgsql as $$
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
  v_next.source_config := (v_restored.source_config::jsonb - p_kept_members) || coalesce(
    (
      select jsonb_object_agg(key, value)
      from jsonb_each(v_stored.source_config::jsonb)
      where key = any(p_kept_members)
    ),
    '{}'
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
end $$;
--> statement-breakpoint

-- ------------------------------------------------------------ Pushes
-- Some rollback left this commit: it was wanted just before the rollback.
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
--> statement-breakpoint
-- Why a pushed commit is not deployed; null where nothing holds it back.
create function held_back_message(p_deployment deployments, p_sha text) returns text
language plpgsql stable as $$
begin
  if was_rolled_back(p_deployment.id, p_sha) then
    return 'Commit ' || left(p_sha, 7) || ' was rolled back and is not deployed again automatically.';
  end if;
  if p_deployment.hold ->> 'until' = 'released' then
    return 'A rollback holds automatic deploys: commit ' || left(p_sha, 7) || ' was not deployed.';
  end if;
  return null;
end $$;
--> statement-breakpoint
-- Brings a deployment to the head of its ref: creates a revision of the commit, records that it was held back, or does
-- nothing. No row where a later answer of the host was applied already, or the ref is not that of the deployment. The
-- row stays locked, so that the second of two pushes sees the revision of the first.
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
language plpgsql as $$
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
