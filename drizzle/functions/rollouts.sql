-- Rollouts: the steps by which each later revision of a deployment gets the traffic. `deployments.rollout` is
-- `StoredRollout` of src/protocol/rollout.schema.ts. The progress is in `deployments.traffic`, at the revision beside
-- the one that serves; what is known at the end is in `revisions.rollout`.

create function begin_rollout(d deployments) returns jsonb
language sql stable
return case
  when d.rollout is not null then jsonb_build_object(
    'step', 0,
    'since', clock(),
    'paused', false,
    'passed', false,
    'policy', d.rollout,
    'signed', d.rollout_secret is not null
  )
end;

create function rollout_share(p_policy jsonb, p_step integer) returns integer
language sql immutable
return coalesce((p_policy #>> array['steps', p_step::text, 'share'])::integer, 100);

-- The progress of the revision in flight. Null: no policy moves it.
create function rollout_of(d deployments) returns jsonb
language sql immutable
return case
  when d.traffic #>> '{beside, revision_id}' = d.in_flight_revision_id::text
    then nullif((d.traffic #> '{beside, rollout}')::jsonb, 'null')
end;

-- The judgement of its agent about the step, as `ReportedRollout`. Null: it has not told any yet.
create function rollout_judged(d deployments) returns jsonb
language sql immutable
return case
  when d.applied_traffic ->> 'revision_id' = d.in_flight_revision_id::text
    and d.applied_traffic #>> '{rollout, step}' = rollout_of(d) ->> 'step'
    then (d.applied_traffic -> 'rollout')::jsonb
end;

-- The part of a progress that its agent needs, as `WorkRollout`.
create function rollout_work(p_progress jsonb) returns jsonb
language sql immutable
return case
  when p_progress #> array['policy', 'steps', p_progress ->> 'step'] is not null then jsonb_build_object(
    'step', p_progress -> 'step',
    'minutes', p_progress #> array['policy', 'steps', p_progress ->> 'step', 'minutes'],
    'requests', p_progress #> array['policy', 'steps', p_progress ->> 'step', 'requests'],
    'errors', p_progress #> '{policy, gates, errors}',
    'latency', p_progress #> '{policy, gates, latency}',
    'restarts', p_progress #> '{policy, gates, restarts}'
  )
end;

-- When the control plane looks at it: at scores each minute, and at all once its agent has passed it. Null: never.
create function rollout_due(p_progress jsonb) returns timestamptz
language sql stable
return case
  when rollout_work(p_progress) is null then null
  when p_progress -> 'passed' = 'true' and p_progress -> 'paused' = 'false'
    then greatest(clock(), minutes_over_at(p_progress))
  when p_progress #> '{policy, gates, scores}' <> '[]' then clock() + interval '1 minute'
end;

-- When the minutes of its step are over.
create function minutes_over_at(p_progress jsonb) returns timestamptz
language sql stable
return (p_progress ->> 'since')::timestamptz
  + (rollout_work(p_progress) ->> 'minutes')::float8 * interval '1 minute';

-- An agent that says so has judged each gate that it has to, with enough requests. Its clock is not relied on.
create function is_judged_passed(p_progress jsonb, p_judged jsonb) returns boolean
language sql immutable
return p_judged ->> 'outcome' = 'passed'
  and (p_judged ->> 'requests')::numeric >= (rollout_work(p_progress) ->> 'requests')::numeric
  and not exists (
    select from jsonb_array_elements(p_judged -> 'gates') g where g ->> 'verdict' <> 'passed'
  )
  and not exists (
    select
    from unnest('{errors,latency,restarts}'::text[]) name
    where nullif(rollout_work(p_progress) -> name, 'null') is not null
      and not (p_judged -> 'gates') @> jsonb_build_array(jsonb_build_object('gate', name))
  );

create function asks_control_plane(p_progress jsonb) returns boolean
language sql immutable
return p_progress #> '{policy, gates, scores}' <> '[]'
  or nullif(p_progress #> '{policy, gates, webhook}', 'null') is not null;

-- A deployment with another progress of its revision in flight, and its share. Null ends the steps.
create function with_rollout(d deployments, p_progress jsonb, p_share integer) returns deployments
language plpgsql stable as $$
begin
  d.traffic := jsonb_set(
    d.traffic::jsonb,
    '{beside}',
    (d.traffic #> '{beside}')::jsonb || jsonb_build_object('share', p_share, 'rollout', p_progress)
  );
  d.rollout_due_at := rollout_due(p_progress);
  return d;
end $$;

-- Goes on to the next step, which is all traffic after the last one. The caller has locked the deployment, and writes
-- it.
create function advance_rollout(d deployments, p_requests bigint, p_gates jsonb) returns deployments
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_progress jsonb := rollout_of(d);
  v_step integer := (v_progress ->> 'step')::integer;
begin
  update revisions r
  set rollout = (coalesce(r.rollout::jsonb, '{"failure": null}') || jsonb_build_object(
    'steps',
    coalesce(r.rollout::jsonb -> 'steps', '[]') || jsonb_build_array(jsonb_build_object(
      'step', v_step,
      'share', rollout_share(v_progress -> 'policy', v_step),
      'since', v_progress -> 'since',
      'until', clock(),
      'requests', p_requests,
      'gates', p_gates
    ))
  ))::json
  where r.id = d.in_flight_revision_id and r.deployment_id = d.id and r.tenant_id = d.tenant_id;
  d := with_rollout(
    d,
    v_progress - 'asked' || jsonb_build_object('step', v_step + 1, 'since', clock(), 'passed', false),
    rollout_share(v_progress -> 'policy', v_step + 1)
  );
  d.generation := d.generation + 1;
  return d;
end $$;

-- Keeps why the revision in flight is sent back, and holds automatic deploys. The caller ends the revision, with
-- follow_revision().
create function fail_rollout(d deployments, r revisions, p_message text, p_judged jsonb) returns deployments
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_progress jsonb := rollout_of(d);
begin
  update revisions n
  set rollout = (coalesce(n.rollout::jsonb, '{"steps": []}') || jsonb_build_object('failure', jsonb_build_object(
    'step', v_progress -> 'step',
    'share', d.traffic #> '{beside, share}',
    'since', v_progress -> 'since',
    'at', clock(),
    'message', p_message,
    'requests', p_judged -> 'requests',
    'gates', coalesce(nullif(p_judged -> 'gates', 'null'), '[]'),
    'failing_requests', coalesce(nullif(p_judged -> 'failing_requests', 'null'), '[]')
  )))::json
  where n.id = r.id and n.deployment_id = d.id and n.tenant_id = d.tenant_id;
  -- The hold of a rollback stays.
  if d.hold is null or d.hold ->> 'until' = 'newer_commit' then
    d.hold := json_build_object(
      'since', clock(),
      'revision_id', r.id,
      'until', 'released',
      'from_commit', coalesce(r.commit ->> 'sha', r.source_revision_config ->> 'repo_commit_sha'),
      'reason', 'rollout_failed'
    );
  end if;
  return d;
end $$;

-- For a revision that had its share and then failed by itself, such as by crashing.
create function judged_health(p_message text) returns jsonb
language sql immutable
return jsonb_build_object('gates', jsonb_build_array(
  jsonb_build_object('gate', 'health', 'verdict', 'failed', 'message', left(p_message, 500))
));

-- The events of the steps of a deployment's next row.
create function rollout_events(p_before deployments, p_after deployments) returns tenant_event[]
language plpgsql stable as $$
declare
  v_before jsonb := rollout_of(p_before);
  v_after jsonb := rollout_of(p_after);
  v_events tenant_event[] := '{}';
begin
  if v_before ->> 'step' <> v_after ->> 'step' and p_before.in_flight_revision_id = p_after.in_flight_revision_id then
    v_events := v_events || rollout_event('deployment.rollout_step', p_before, p_after);
  end if;
  if p_after.hold is not null and p_after.hold ->> 'reason' = 'rollout_failed'
    and p_after.hold::text is distinct from p_before.hold::text then
    v_events := v_events || (
      p_after.tenant_id,
      p_after.organization_id,
      'deployment.held',
      p_after.id,
      json_build_object('revision_id', p_after.hold ->> 'revision_id'),
      changed_members(jsonb_build_object('hold', p_before.hold), jsonb_build_object('hold', p_after.hold))
    )::tenant_event;
  end if;
  return v_events;
end $$;

-- With the step of the deployment's next row.
create function rollout_event(p_type text, p_before deployments, p_after deployments, p_data jsonb default '{}')
returns tenant_event
language sql stable
return (
  p_after.tenant_id,
  p_after.organization_id,
  p_type,
  p_after.id,
  (jsonb_build_object(
    'revision_id', p_before.in_flight_revision_id,
    'step', coalesce(rollout_of(p_after), rollout_of(p_before)) -> 'step',
    'share', coalesce(p_after.traffic #> '{beside, share}', p_before.traffic #> '{beside, share}')
  ) || p_data)::json,
  changed_members(
    jsonb_build_object('traffic', recorded_traffic(p_before.traffic)),
    jsonb_build_object('traffic', recorded_traffic(p_after.traffic))
  )
)::tenant_event;

-- Traffic without the policy of its rollout and without numbers, for events.
create function recorded_traffic(p_traffic json) returns jsonb
language sql immutable
return p_traffic::jsonb #- '{beside, rollout, policy}' #- '{beside, rollout, asked}';

-- Applies the judgement of an agent about the revision in flight, which the row has: it may go on to the next step.
create function apply_judged_rollout(d deployments) returns deployments
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_progress jsonb := rollout_of(d);
  v_judged jsonb := rollout_judged(d);
begin
  if v_judged is null
    or rollout_work(v_progress) is null
    or v_progress -> 'passed' = 'true'
  then
    return d;
  end if;
  if not is_judged_passed(v_progress, v_judged) then
    -- The first look at the scores of the first step.
    d.rollout_due_at := coalesce(d.rollout_due_at, rollout_due(v_progress));
    return d;
  end if;
  if v_progress -> 'paused' = 'true' or asks_control_plane(v_progress) or minutes_over_at(v_progress) > clock() then
    return with_rollout(
      d, v_progress || '{"passed": true}', (d.traffic #>> '{beside, share}')::integer
    );
  end if;
  return advance_rollout(d, (v_judged ->> 'requests')::bigint, v_judged -> 'gates');
end $$;

-- The gate of scores tells those of the traces of the deployment, which are in the project of its name.
create function require_scores_readable(d deployments) returns boolean
language plpgsql stable cost 10000 as $$
begin
  perform require_permission_for('runs:read', p.tag_value_ids)
  from projects p
  where p.tenant_id = d.tenant_id and p.name = d.name;
  if found then return true; end if;
  if hides('project') then perform refuse('denied_by_policy', d.name); end if;
  if not 'runs:read' = any(actor_permissions()) then perform refuse('permission_missing', 'runs:read'); end if;
  return true;
end $$;

-- `p_rollout` is `StoredRollout`; null removes the policy. `p_secret`: sealed, of its webhook; `p_keeps_secret`: the
-- stored one.
create function set_rollout(
  p_deployment uuid, p_rollout json, p_secret text, p_keeps_secret boolean, p_needs jsonb, p_request jsonb
) returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_stored deployments := lock_deployment_version(p_deployment, p_request);
  v_changed deployments;
  v_disks text;
begin
  if v_stored.id is null then return; end if;
  if p_rollout is null and v_stored.rollout is null then perform refuse('rollout_not_found'); end if;
  if p_rollout is not null then
    perform require_listener_allows(v_stored.listener_id, p_needs);
    v_disks := exclusive_disks(v_stored, (v_stored.source_config -> 'resource_spec')::jsonb);
    if v_disks is not null then
      perform refuse('rollout_refused', format('%s has one writer, so two revisions cannot run at once', v_disks));
    end if;
    if (v_stored.traffic ->> 'starts_at')::integer < 100 then
      perform refuse(
        'rollout_refused', '`starts_at` of the traffic says with which share a revision begins: set it to 100'
      );
    end if;
    if (p_rollout #> '{gates, scores}')::jsonb
      not in ('[]', coalesce((v_stored.rollout #> '{gates, scores}')::jsonb, '[]')) then
      perform require_scores_readable(v_stored);
    end if;
    if p_keeps_secret and v_stored.rollout_secret is null then
      perform refuse('secret_unknown', 'gates.webhook.secret');
    end if;
    -- A kept secret must not sign for another address, whose owner could then ask in its name.
    if p_keeps_secret
      and p_rollout #>> '{gates, webhook, url}' is distinct from v_stored.rollout #>> '{gates, webhook, url}' then
      perform refuse('secret_required', 'gates.webhook.secret');
    end if;
  end if;
  update deployments d
  set
    rollout = p_rollout,
    rollout_secret = case when p_keeps_secret then d.rollout_secret else p_secret end,
    version = d.version + 1,
    updated_at = clock()
  where d.id = v_stored.id and d.tenant_id = current_tenant()
  returning d.* into v_changed;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'deployment.rollout_changed',
      v_stored.id,
      json_build_object('has_secret_changed', v_stored.rollout_secret is distinct from v_changed.rollout_secret),
      changed_members(
        jsonb_build_object('rollout', v_stored.rollout), jsonb_build_object('rollout', v_changed.rollout)
      )
    )::new_event],
    p_request
  );
  return next;
end $$;

-- Pauses, resumes or promotes the rollout of the revision in flight, or ends it. What is so already stays as it is.
create function move_rollout(p_deployment uuid, p_action text, p_message text, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_before deployments := lock_deployment_version(p_deployment, p_request);
  v_progress jsonb := rollout_of(v_before);
  d deployments := v_before;
  r revisions;
  v_next revisions;
  v_events tenant_event[] := '{}';
begin
  if v_before.id is null then return; end if;
  if v_progress is null then perform refuse('rollout_not_running'); end if;
  case p_action
    when 'abort' then
      select n.* into r from revisions n where n.id = d.in_flight_revision_id and n.deployment_id = d.id;
      v_next := r;
      v_next.status := 'INTERRUPTED';
      v_next.status_message := p_message;
      d := follow_revision(v_before, r, v_next);
      perform write_moved_revisions(array[v_next]);
      v_events := array[
        rollout_event('deployment.rollout_aborted', v_before, d),
        revision_moved(r, v_next, json_build_object('deployment_id', d.id, 'message', p_message))
      ];
    when 'promote' then
      if rollout_work(v_progress) is not null then
        d := with_rollout(
          v_before,
          v_progress - 'asked' || jsonb_build_object(
            'step', jsonb_array_length(v_progress #> '{policy, steps}'),
            'since', clock(),
            'paused', false,
            'passed', false
          ),
          100
        );
        d.generation := d.generation + 1;
      end if;
      v_events := array[rollout_event('deployment.rollout_promoted', v_before, d)];
    when 'pause' then
      if v_progress -> 'paused' = 'false' and rollout_work(v_progress) is not null then
        d := with_rollout(d, v_progress || '{"paused": true}', (d.traffic #>> '{beside, share}')::integer);
      end if;
      v_events := array[rollout_event('deployment.rollout_paused', v_before, d)];
    when 'resume' then
      if v_progress -> 'paused' = 'true' then
        d := with_rollout(d, v_progress || '{"paused": false}', (d.traffic #>> '{beside, share}')::integer);
        if v_progress -> 'passed' = 'true' and not asks_control_plane(v_progress)
          and minutes_over_at(v_progress) <= clock() then
          d := advance_rollout(d, (rollout_judged(d) ->> 'requests')::bigint, rollout_judged(d) -> 'gates');
        end if;
      end if;
      v_events := array[rollout_event('deployment.rollout_resumed', v_before, d)];
  end case;
  v_events := v_events || deployment_events(v_before, d);
  if d.traffic::text <> v_before.traffic::text then
    d.updated_at := greatest(clock(), d.updated_at);
    d.version := v_before.version + 1;
  end if;
  answer := to_json(d);
  has_webhooks := conclude_write(
    answer, array(select (e.type, e.subject_id, e.data, e.changes)::new_event from unnest(v_events) e), p_request
  );
  if d.version > v_before.version then perform write_moved_deployments(array[d]); end if;
  return next;
end $$;

create function has_webhook_of(d deployments, p_progress jsonb) returns boolean
language sql immutable
return d.rollout #>> '{gates, webhook, url}' is not distinct from p_progress #>> '{policy, gates, webhook, url}';

-- Takes a deployment whose rollout the control plane has to look at, for two minutes. No row: another one has it.
create function claim_rollout(p_deployment uuid) returns json
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  d deployments;
begin
  select c.*
  into d
  from deployments c
  where c.id = p_deployment and c.rollout_due_at <= clock() and c.deleting_at is null
  for update skip locked;
  if not found then return null; end if;
  update deployments c
  set rollout_due_at = case when rollout_of(d) is not null then clock() + interval '2 minutes' end
  where c.id = d.id;
  if rollout_of(d) is null then return null; end if;
  return json_build_object(
    'deployment_id', d.id,
    'organization_id', d.organization_id,
    'tenant_id', d.tenant_id,
    'name', d.name,
    'project_id', (select p.id from projects p where p.tenant_id = d.tenant_id and p.name = d.name),
    'lower_keys', (
      select coalesce(json_agg(f.key), '[]')
      from feedback_configs f
      where f.tenant_id = d.tenant_id
        and f.is_lower_score_better
        and (rollout_of(d) #> '{policy, gates, scores}') @> jsonb_build_array(jsonb_build_object('key', f.key))
    ),
    'revision_id', d.in_flight_revision_id,
    'serving_id', d.active_revision_id,
    'number', (select r.number from revisions r where r.id = d.in_flight_revision_id),
    'share', d.traffic #> '{beside, share}',
    'progress', rollout_of(d),
    'judged', rollout_judged(d),
    -- The secret is for the address that the policy has now.
    'is_webhook_kept', has_webhook_of(d, rollout_of(d)),
    'secret', case when has_webhook_of(d, rollout_of(d)) then d.rollout_secret end
  );
end $$;

-- Applies what the control plane has judged of a step: `holds`, `passed` or `failed`. Nothing happens once the step is
-- over.
create function conclude_rollout(
  p_deployment uuid, p_revision uuid, p_step integer, p_outcome text, p_gates jsonb, p_message text
) returns boolean
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_before deployments;
  d deployments;
  r revisions;
  v_next revisions;
  v_progress jsonb;
  v_judged jsonb;
  v_events tenant_event[] := '{}';
begin
  select c.* into v_before from deployments c where c.id = p_deployment and c.deleting_at is null for update;
  v_progress := rollout_of(v_before);
  if v_progress is null or v_before.in_flight_revision_id <> p_revision
    or (v_progress ->> 'step')::integer <> p_step then return false; end if;
  d := v_before;
  v_judged := coalesce(rollout_judged(d), '{}');
  v_judged := v_judged || jsonb_build_object('gates', coalesce(v_judged -> 'gates', '[]') || p_gates);
  select n.* into r from revisions n where n.id = p_revision and n.deployment_id = d.id;
  if p_outcome = 'failed' then
    v_next := r;
    v_next.status := 'DEPLOY_FAILED';
    v_next.status_message := p_message;
    d := follow_revision(fail_rollout(d, r, p_message, v_judged), r, v_next);
    perform write_moved_revisions(array[v_next]);
    v_events := array[
      rollout_event('deployment.rollout_failed', v_before, d, jsonb_build_object('message', p_message)),
      revision_moved(r, v_next, json_build_object('deployment_id', d.id, 'message', p_message))
    ];
  elsif p_outcome = 'passed' and v_progress -> 'passed' = 'true' and v_progress -> 'paused' = 'false' then
    d := advance_rollout(d, (v_judged ->> 'requests')::bigint, v_judged -> 'gates');
  else
    d.traffic := jsonb_set(d.traffic::jsonb, '{beside, rollout, asked}', p_gates);
    d.rollout_due_at := case when rollout_due(v_progress) is not null then clock() + interval '1 minute' end;
  end if;
  v_events := v_events || deployment_events(v_before, d);
  perform journal_tenant_events(v_events, null);
  perform write_moved_deployments(array[d]);
  return has_webhooks(d.tenant_id);
end $$;
