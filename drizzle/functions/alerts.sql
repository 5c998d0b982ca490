-- Alerts: what signals a condition, and what the looks at rules write: states, incidents and notices.

-- ------------------------------------------------------------ rules

-- The rules that every workspace has from its beginning.
create function add_default_alert_rules() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  insert into alert_rules (
    organization_id, tenant_id, built_in, name, kind, condition, for_seconds, resolve_after_seconds, severity
  )
  select
    new.organization_id, new.id, r.built_in, r.name, r.condition ->> 'kind', r.condition,
    -- A copy that ends once and is back within seconds is no incident, unless it was killed for its memory.
    case r.built_in when 'unhealthy' then 5 else 0 end, r.resolve_after, r.severity
  from default_alert_rules() r
  on conflict do nothing;
  return null;
end $$;
create trigger add_default_alert_rules
  after insert on workspaces
  for each row execute function add_default_alert_rules();

create function default_alert_rules() returns table (
  built_in text, name text, severity text, resolve_after integer, condition jsonb
)
language sql immutable as $$
  values
    ('unhealthy', 'Not healthy', 'critical', 60, jsonb_build_object(
      'kind', 'event',
      'types', '["deployment.crash_looping", "deployment.unhealthy", "deployment.health_flapping"]'::jsonb,
      'ends', '["deployment.healthy", "deployment.degraded", "deployment.removed"]'::jsonb
    )),
    ('error_rate', 'Many requests fail', 'error', 300, jsonb_build_object(
      'kind', 'metric', 'metric', 'error_rate', 'operator', 'above', 'threshold', 0.05, 'clear_threshold', 0.02,
      'window_seconds', 300, 'min_requests', 20
    )),
    ('out_of_memory', 'Out of memory', 'error', 1800, jsonb_build_object(
      'kind', 'event', 'types', '["deployment.out_of_memory"]'::jsonb, 'ends', '[]'::jsonb
    )),
    ('disk_nearly_full', 'Disk nearly full', 'warning', 300, jsonb_build_object(
      'kind', 'metric', 'metric', 'disk', 'operator', 'above', 'threshold', 0.9, 'clear_threshold', 0.85,
      'window_seconds', 300, 'min_requests', 0
    )),
    ('disk_full', 'Disk full', 'critical', 1800, jsonb_build_object(
      'kind', 'event', 'types', '["deployment.disk_full"]'::jsonb, 'ends', '[]'::jsonb
    )),
    ('listener_lost', 'Listener lost', 'critical', 60, jsonb_build_object(
      'kind', 'event', 'types', '["listener.lost"]'::jsonb, 'ends', '["listener.found", "listener.deleted"]'::jsonb
    )),
    ('certificate', 'Certificate or domain', 'error', 60, jsonb_build_object(
      'kind', 'event',
      'types', '["custom_host.lost", "custom_host.certificate_failed", "custom_host.unreachable"]'::jsonb,
      'ends', '["custom_host.verified", "custom_host.certificate_issued", "custom_host.reachable"]'::jsonb
    ))
$$;

create function is_alert_rule_active(r alert_rules) returns boolean
language plpgsql stable as $$
begin
  return r.enabled and (
    r.built_in is null
    or not exists (select from alert_settings s where s.tenant_id = r.tenant_id and not s.defaults_enabled)
  );
end $$;

-- Deployment ids and tags of a rule or of a mute. Without either, every subject is in the scope.
create function is_in_alert_scope(
  p_deployment_ids uuid[], p_tag_value_ids uuid[], p_deployment uuid, p_tags uuid[]
) returns boolean
language sql immutable
return (p_deployment_ids = '{}' and p_tag_value_ids = '{}')
  or coalesce(p_deployment = any(p_deployment_ids), false)
  or coalesce(p_tags && p_tag_value_ids, false);

-- The globs of a rule as patterns.
create function glob_patterns(p_globs jsonb) returns text[]
language sql immutable
return array(
  select replace(replace(g, '_', '\_'), '*', '%')
  from jsonb_array_elements_text(p_globs) g
);

-- ------------------------------------------------------------ signals

-- The rule has to be looked at: now, or when it was due before that.
create function mark_alert_due(p_rule alert_rules, p_subject uuid, p_subject_type text) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  insert into alert_states as s (organization_id, tenant_id, rule_id, subject_id, subject_type, due_at)
  values (p_rule.organization_id, p_rule.tenant_id, p_rule.id, p_subject, p_subject_type, clock())
  on conflict (rule_id, subject_id) do update set due_at = clock(), version = s.version + 1;
end $$;

-- Signals an event to the rules that ask for it. Its subject is the deployment that it is about, or else a listener or
-- the workspace. A change of health is told when it happens, and again by its event, which comes within a minute.
create function signal_alert_rules(
  p_tenant uuid, p_type text, p_subject uuid, p_data json, p_at timestamptz
) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  r alert_rules;
  v_deployment uuid;
  v_tags uuid[];
  v_subject uuid;
  v_subject_type text;
  v_is_start boolean;
begin
  for r in
    select a.*
    from alert_rules a
    where a.tenant_id = p_tenant and a.kind = 'event' and a.enabled
      and (
        p_type like any(glob_patterns(a.condition -> 'types'))
        or p_type like any(glob_patterns(a.condition -> 'ends'))
      )
    order by a.id
  loop
    continue when not is_alert_rule_active(r);
    if v_subject is null then
      v_deployment := case
        when p_type like 'deployment.%' then p_subject
        when p_data ->> 'deployment_id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
          then (p_data ->> 'deployment_id')::uuid
        when p_type like 'revision.%' then (select v.deployment_id from revisions v where v.id = p_subject)
      end;
      v_tags := (
        select d.tag_value_ids from deployments d where d.id = v_deployment and d.tenant_id = p_tenant
      );
      v_subject_type := case
        when v_tags is not null then 'deployment'
        when p_type like 'listener.%' then 'listener'
        else 'workspace'
      end;
      v_subject := case v_subject_type
        when 'deployment' then v_deployment
        when 'listener' then p_subject
        else p_tenant
      end;
    end if;
    v_is_start := p_type like any(glob_patterns(r.condition -> 'types'));
    continue when not is_in_alert_scope(r.deployment_ids, r.tag_value_ids, v_deployment, v_tags);
    -- Most ends are of nothing.
    continue when not v_is_start
      and not exists (select from alert_states s where s.rule_id = r.id and s.subject_id = v_subject);
    insert into alert_signals as g (organization_id, tenant_id, rule_id, subject_id, at, count, cause)
    values (
      r.organization_id, r.tenant_id, r.id, v_subject, p_at, v_is_start::integer,
      left(coalesce(p_data ->> 'message', p_type), 2000)
    )
    on conflict (rule_id, subject_id, at) do update set count = excluded.count, cause = excluded.cause;
    perform mark_alert_due(r, v_subject, v_subject_type);
  end loop;
end $$;

-- Events of one write have the same time, so their order is in the microseconds.
create function signal_event() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  perform signal_alert_rules(
    new.tenant_id, new.type, new.subject_id, new.data, new.created_at + new.seq % 1000 * interval '1 microsecond'
  );
  return null;
end $$;
create trigger signal_event
  after insert on events
  for each row when (new.tenant_id is not null and new.type not like 'incident.%' and new.type not like 'alert%')
  execute function signal_event();

create function signal_health() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_incident record;
begin
  if new.health is distinct from old.health and new.health is not null then
    perform signal_alert_rules(
      new.tenant_id, 'deployment.' || new.health, new.id,
      json_strip_nulls(json_build_object('message', new.health_reason)), clock()
    );
  end if;
  for v_incident in
    select k.kind, k.message
    from json_to_recordset(new.incidents) as k(kind text, pending integer, message text)
    left join json_to_recordset(old.incidents) as b(kind text, pending integer) on b.kind = k.kind
    where k.pending > coalesce(b.pending, 0)
  loop
    perform signal_alert_rules(
      new.tenant_id, 'deployment.' || v_incident.kind, new.id,
      json_strip_nulls(json_build_object('message', v_incident.message)), clock()
    );
  end loop;
  return null;
end $$;
create trigger signal_health
  after update on deployments
  for each row when (
    new.health is distinct from old.health
    or new.incidents::text is distinct from old.incidents::text
  )
  execute function signal_health();

-- A batch of lines is of one revision. Its lines are lowered once, not once for each rule.
create function signal_log_lines() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  r alert_rules;
  v_tenant uuid := (select a.tenant_id from added a limit 1);
  v_deployment uuid := (select a.deployment_id from added a limit 1);
  v_tags uuid[];
  v_messages text[];
  v_lowered text[];
  v_severities integer[];
  v_processes text[];
  v_count integer;
  v_lines text[];
begin
  for r in
    select a.*
    from alert_rules a
    where a.tenant_id = v_tenant and a.kind = 'log' and a.enabled
    order by a.id
  loop
    if v_messages is null then
      v_tags := (select d.tag_value_ids from deployments d where d.id = v_deployment);
      select
        coalesce(array_agg(left(a.message, 1000) order by a.number desc), '{}'),
        array_agg(lower(a.message) order by a.number desc),
        array_agg(a.severity::integer order by a.number desc),
        array_agg(a.process order by a.number desc)
      into v_messages, v_lowered, v_severities, v_processes
      from added a
      where a.kind = 'deploy' and a.number > 0;
    end if;
    continue when not is_in_alert_scope(r.deployment_ids, r.tag_value_ids, v_deployment, v_tags);
    select count(*), (array_agg(a.message order by a.nth))[1:5]
    into v_count, v_lines
    from unnest(v_messages, v_lowered, v_severities, v_processes)
      with ordinality as a(message, lowered, severity, process, nth)
    where strpos(a.lowered, lower(r.condition ->> 'contains')) > 0
      and a.severity >= coalesce(
        array_position('{DEBUG, INFO, WARNING, ERROR, CRITICAL}', r.condition ->> 'level') - 1, 0
      )
      and (r.condition ->> 'process' is null or a.process = r.condition ->> 'process');
    continue when v_count = 0;
    insert into alert_signals as g (organization_id, tenant_id, rule_id, subject_id, at, count, lines)
    values (
      r.organization_id, r.tenant_id, r.id, v_deployment, date_bin('10 seconds', clock(), 'epoch'), v_count, v_lines
    )
    on conflict (rule_id, subject_id, at) do update set
      count = g.count + excluded.count,
      lines = (excluded.lines || g.lines)[1:5];
    perform mark_alert_due(r, v_deployment, 'deployment');
  end loop;
  return null;
end $$;
create trigger signal_log_lines
  after insert on log_lines
  referencing new table as added
  for each statement execute function signal_log_lines();

-- A rule is looked at again when it changes, or when the deployment goes that it watches.
create function look_at_changed_rule() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  update alert_states set due_at = clock(), version = version + 1 where rule_id = new.id;
  return null;
end $$;
create trigger look_at_changed_rule
  after update of enabled, condition, deployment_ids, tag_value_ids on alert_rules
  for each row execute function look_at_changed_rule();

create function look_at_deleted_deployment() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  update alert_states set due_at = clock(), version = version + 1 where subject_id = new.id;
  return null;
end $$;
create trigger look_at_deleted_deployment
  after update of deleting_at on deployments
  for each row when (old.deleting_at is null and new.deleting_at is not null)
  execute function look_at_deleted_deployment();

-- ------------------------------------------------------------ incidents

-- The content of a notice. `p_by`: the person who acknowledged the incident.
create function incident_notice(i incidents, p_summary text, p_by text) returns jsonb
language sql stable
return jsonb_strip_nulls(jsonb_build_object(
  'acknowledged_by', left(p_by, 200),
  'title', left(i.title, 300),
  'summary', left(p_summary, 4000),
  'severity', i.severity,
  'url', '/ui/' || i.tenant_id || '/alerts/' || i.id,
  'facts', coalesce(i.evidence -> 'facts', '[]'),
  'lines', coalesce(i.evidence -> 'lines', '[]'),
  'chart', nullif(i.evidence -> 'chart', 'null'),
  'started_at', to_char(i.opened_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
  'ended_at', to_char(i.resolved_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
));

-- The channels that a rule names, or else the default ones of the workspace.
create function alert_channels(p_tenant uuid, p_named uuid[]) returns uuid[]
language sql stable
return case
  when p_named <> '{}' then p_named
  else array(
    select c.id
    from channels c
    where c.tenant_id = p_tenant and c.is_default and c.enabled
    order by c.id
  )
end;

-- The channels that alerts of the current workspace tell by default. Own channels of other people count, too.
create function default_channel_count() returns bigint
language sql stable security definer set search_path = public, pg_temp as $$
  select count(*)
  from channels c
  where c.tenant_id = current_tenant() and c.is_default and c.enabled and c.confirmed_at is not null
$$;
grant execute on function default_channel_count() to slipway_app;

-- Tells the channels of an incident, and returns the incident as it is then.
create function tell_incident(
  i incidents, p_phase text, p_summary text, p_by text default null
) returns incidents
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_told integer;
begin
  i.sequence := i.sequence + 1;
  v_told := enqueue_notices(
    i.tenant_id, i.channel_ids, i.id::text, p_phase, i.sequence, incident_notice(i, p_summary, p_by)
  );
  i.is_told := i.is_told or v_told > 0;
  if p_phase <> 'update' then i.tell_at := null; end if;
  update incidents
  set sequence = i.sequence, is_told = i.is_told, tell_at = i.tell_at
  where id = i.id and tenant_id = i.tenant_id;
  if v_told > 0 then
    insert into incident_changes (organization_id, tenant_id, incident_id, kind, value, message)
    values (i.organization_id, i.tenant_id, i.id, 'told', i.value, v_told || case v_told
      when 1 then ' channel'
      else ' channels'
    end);
  end if;
  return i;
end $$;

create function incident_event(i incidents, p_type text, p_before text) returns tenant_event
language sql stable
return row(
  i.tenant_id,
  i.organization_id,
  p_type,
  i.id,
  json_strip_nulls(json_build_object(
    'title', left(i.title, 300), 'severity', i.severity, 'rule_id', i.rule_id, 'deployment_id', i.deployment_id,
    'project_id', i.project_id, 'cause', left(i.cause, 500)
  )),
  changed_members(
    case when p_before is not null then jsonb_build_object('state', p_before) end,
    jsonb_build_object('state', i.state)
  )
)::tenant_event;

-- A condition that comes back within an hour is the same incident. Its channels are told only if it lasts: for five
-- minutes, then ten, up to an hour.
create function reopen_incident(i incidents, p_decision jsonb, p_calm interval) returns incidents
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  update incidents
  set
    state = 'open',
    reopened = i.reopened + 1,
    value = (p_decision ->> 'value')::double precision,
    cause = coalesce(p_decision ->> 'cause', cause),
    evidence = p_decision -> 'evidence',
    last_at = clock(),
    resolved_at = null,
    is_told = false,
    muted_until = (p_decision ->> 'muted_until')::timestamptz,
    tell_at = greatest(
      (p_decision ->> 'muted_until')::timestamptz,
      clock() + least(interval '1 hour', greatest(p_calm, interval '5 minutes') * power(2, least(i.reopened, 6)))
    ),
    version = i.version + 1,
    updated_at = clock()
  where id = i.id and tenant_id = i.tenant_id
  returning * into i;
  return i;
end $$;

create function open_incident(r alert_rules, p_decision jsonb) returns incidents
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  i incidents;
  v_type text := p_decision ->> 'subject_type';
  v_subject uuid := (p_decision ->> 'subject_id')::uuid;
begin
  select *
  into i
  from incidents k
  where k.rule_id = r.id and k.subject_id = v_subject and k.state = 'resolved'
    and k.resolved_at > clock() - interval '1 hour'
  order by k.resolved_at desc
  limit 1
  for no key update;
  if found then return reopen_incident(i, p_decision, r.resolve_after_seconds * interval '1 second'); end if;
  insert into incidents (
    organization_id, tenant_id, rule_id, rule_name, subject_type, subject_id, subject_name, deployment_id, project_id,
    severity, title, cause, value, evidence, channel_ids, muted_until, tell_at
  )
  values (
    r.organization_id, r.tenant_id, r.id, r.name, v_type, v_subject, p_decision ->> 'subject_name',
    case when v_type = 'deployment' then v_subject end,
    case when v_type = 'project' then v_subject end,
    r.severity, p_decision ->> 'title', coalesce(p_decision ->> 'cause', ''),
    (p_decision ->> 'value')::double precision, p_decision -> 'evidence',
    alert_channels(r.tenant_id, r.channel_ids),
    (p_decision ->> 'muted_until')::timestamptz, (p_decision ->> 'muted_until')::timestamptz
  )
  on conflict do nothing
  returning * into i;
  return i;
end $$;

-- An incident has opened, or has come back. Its channels are told unless a mute covers it or it is to last first.
create function begin_incident(i incidents) returns incidents
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  insert into incident_changes (organization_id, tenant_id, incident_id, kind, value, message)
  values (
    i.organization_id, i.tenant_id, i.id, case when i.reopened > 0 then 'reopened' else 'opened' end, i.value,
    nullif(i.cause, '')
  );
  if i.muted_until is not null then
    insert into incident_changes (organization_id, tenant_id, incident_id, kind)
    values (i.organization_id, i.tenant_id, i.id, 'muted');
  elsif i.tell_at is null then
    i := tell_incident(i, 'open', i.cause);
  end if;
  return i;
end $$;

create function opened_event(i incidents) returns tenant_event
language sql stable
return incident_event(i, 'incident.opened', case when i.reopened > 0 then 'resolved' end);

create function resolve_incident(i incidents, p_message text) returns incidents
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  update incidents
  set state = 'resolved', resolved_at = clock(), last_at = clock(), tell_at = null, version = i.version + 1,
    updated_at = clock()
  where id = i.id and tenant_id = i.tenant_id
  returning * into i;
  insert into incident_changes (organization_id, tenant_id, incident_id, kind, value, message)
  values (i.organization_id, i.tenant_id, i.id, 'resolved', i.value, p_message);
  if i.is_told then i := tell_incident(i, 'close', coalesce(p_message, 'Resolved.')); end if;
  return i;
end $$;

-- Runs match an automation rule that has alerts: its incident opens, comes back, or goes on. What goes on is told once
-- in five minutes, unless a person has taken it on or a mute covers it. Returns the incident, and the number of the
-- notice that tells of it.
create function raise_incident_of_run_rule(p_rule uuid, p_raised jsonb) returns jsonb
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  r run_rules;
  i incidents;
  v_channels uuid[] := array(select c::uuid from jsonb_array_elements_text(p_raised -> 'channel_ids') c);
begin
  select * into r from run_rules u where u.id = p_rule and u.tenant_id = current_tenant();
  if not found then return null; end if;
  select *
  into i
  from incidents k
  where k.run_rule_id = r.id and (k.state <> 'resolved' or k.resolved_at > clock() - interval '1 hour')
  order by k.state = 'resolved', k.resolved_at desc
  limit 1
  for no key update;
  if i.state <> 'resolved' then
    update incidents
    set value = (p_raised ->> 'value')::double precision, cause = p_raised ->> 'cause',
      evidence = p_raised -> 'evidence', last_at = clock(), channel_ids = v_channels
    where id = i.id
    returning * into i;
    if i.is_told and i.state = 'open' and p_raised ->> 'muted_until' is null and not exists (
      select from notices n
      where n.thread = i.id::text and n.channel_id = any(v_channels)
        and n.created_at > clock() - interval '5 minutes'
    ) then
      i := tell_incident(i, 'update', i.cause);
    end if;
  else
    if i.state = 'resolved' then
      i := reopen_incident(i, p_raised, interval '5 minutes');
    else
      insert into incidents (
        organization_id, tenant_id, run_rule_id, rule_name, subject_type, subject_id, subject_name, project_id,
        severity, title, cause, value, evidence, channel_ids, muted_until, tell_at
      )
      select r.organization_id, r.tenant_id, r.id, r.display_name,
        case when p.id is null then 'workspace' else 'project' end, coalesce(p.id, w.id),
        coalesce(p.name, w.display_name), p.id, p_raised ->> 'severity', p_raised ->> 'title',
        p_raised ->> 'cause', (p_raised ->> 'value')::double precision, p_raised -> 'evidence',
        v_channels,
        (p_raised ->> 'muted_until')::timestamptz, (p_raised ->> 'muted_until')::timestamptz
      from workspaces w
      left join projects p on p.id = r.session_id and p.tenant_id = w.id
      where w.id = r.tenant_id
      returning * into i;
    end if;
    i := begin_incident(i);
    perform journal_tenant_events(array[opened_event(i)], null);
  end if;
  return jsonb_build_object('incident_id', i.id, 'sequence', case when i.is_told then i.sequence end);
end $$;
grant execute on function raise_incident_of_run_rule(uuid, jsonb) to slipway_app;

-- Ends the incidents of automation rules that no run has matched for 15 minutes, or that are gone. Returns the
-- workspaces.
create function resolve_quiet_run_rules() returns setof uuid
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  i incidents;
  v_before text;
  v_events tenant_event[] := '{}';
begin
  for i in
    select k.*
    from incidents k
    where k.rule_id is null and k.state <> 'resolved'
      and (k.run_rule_id is null or k.last_at < clock() - interval '15 minutes')
    order by k.id
    limit 200
    for no key update skip locked
  loop
    v_before := i.state;
    i := resolve_incident(i, case
      when i.run_rule_id is null then 'The rule was deleted.'
      else 'No run has matched for 15 minutes.'
    end);
    v_events := v_events || incident_event(i, 'incident.resolved', v_before);
    return next i.tenant_id;
  end loop;
  perform journal_tenant_events(v_events, null);
end $$;

-- Writes what a look has decided. A decision counts only if nothing has changed the state of its rule and subject since
-- the look read it, so of two looks at the same one is written, with its incident, its notices and its events.
create function apply_alert_decisions(p_decisions jsonb) returns integer
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v jsonb;
  v_state alert_states;
  v_events tenant_event[] := '{}';
  v_written integer := 0;
  v_before text;
  r alert_rules;
  i incidents;
begin
  for v in
    select d.value
    from jsonb_array_elements(p_decisions) d
    order by d.value ->> 'subject_id', d.value ->> 'rule_id'
  loop
    select * into r from alert_rules a where a.id = (v ->> 'rule_id')::uuid for key share;
    continue when not found;
    v_state := jsonb_populate_record(null::alert_states, v || jsonb_build_object(
      'organization_id', r.organization_id, 'tenant_id', r.tenant_id, 'version', (v ->> 'version')::integer + 1
    ));
    if v_state.version = 1 then
      insert into alert_states select v_state.* on conflict do nothing;
    elsif v_state.phase = 'ok' and v_state.due_at is null then
      delete from alert_states s
      where s.rule_id = r.id and s.subject_id = v_state.subject_id and s.version = v_state.version - 1;
    else
      update alert_states s
      set phase = v_state.phase, since = v_state.since, relapses = v_state.relapses, sampled_at = v_state.sampled_at,
        due_at = v_state.due_at, version = v_state.version
      where s.rule_id = r.id and s.subject_id = v_state.subject_id and s.version = v_state.version - 1;
    end if;
    continue when not found;
    v_written := v_written + 1;
    if v ->> 'action' = 'open' then
      i := open_incident(r, v);
      continue when i.id is null;
      i := begin_incident(i);
      v_events := v_events || opened_event(i);
    elsif v ->> 'action' = 'resolve' then
      select *
      into i
      from incidents k
      where k.rule_id = r.id and k.subject_id = v_state.subject_id and k.state <> 'resolved'
      for no key update;
      continue when not found;
      v_before := i.state;
      i := resolve_incident(i, v ->> 'message');
      v_events := v_events || incident_event(i, 'incident.resolved', v_before);
    elsif v ->> 'value' is not null then
      update incidents k
      set value = (v ->> 'value')::double precision,
        last_at = case when v_state.phase = 'firing' then clock() else k.last_at end
      where k.rule_id = r.id and k.subject_id = v_state.subject_id and k.state <> 'resolved'
        and k.value is distinct from (v ->> 'value')::double precision;
    end if;
  end loop;
  perform journal_tenant_events(v_events, null);
  return v_written;
end $$;

-- Tells what was muted, or came back, and still is open. `p_muted`: the ends of mutes that go on, by incident.
create function tell_due_incidents(p_muted jsonb, p_ids uuid[]) returns integer
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  i incidents;
  v_told integer := 0;
begin
  for i in
    select k.*
    from incidents k
    where k.id = any(p_ids) and k.tell_at <= clock() and k.state <> 'resolved'
    order by k.id
    for no key update skip locked
  loop
    if p_muted ? i.id::text then
      update incidents
      set tell_at = (p_muted ->> i.id::text)::timestamptz, muted_until = (p_muted ->> i.id::text)::timestamptz
      where id = i.id;
    else
      update incidents set muted_until = null where id = i.id;
      i.muted_until := null;
      i := tell_incident(i, 'open', i.cause);
      v_told := v_told + 1;
    end if;
  end loop;
  return v_told;
end $$;

-- Ends what is open of a rule that is deleted.
create function resolve_incidents_of_rule(p_rule uuid) returns integer
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  i incidents;
  v_count integer := 0;
begin
  for i in
    select k.*
    from incidents k
    where k.rule_id = p_rule and k.tenant_id = current_tenant() and k.state <> 'resolved'
    order by k.id
    for no key update
  loop
    perform resolve_incident(i, 'The rule was deleted.');
    v_count := v_count + 1;
  end loop;
  return v_count;
end $$;

-- A person is at work on it. Channels that can say so do.
create function acknowledge_incident(p_incident uuid, p_message text) returns setof incidents
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  i incidents;
begin
  select * into i from incidents k where k.id = p_incident and k.tenant_id = current_tenant() for no key update;
  if not found then return; end if;
  if i.state = 'resolved' then perform refuse('incident_resolved'); end if;
  if i.state = 'open' then
    update incidents
    set state = 'acknowledged', version = i.version + 1, updated_at = clock()
    where id = i.id and tenant_id = i.tenant_id
    returning * into i;
    insert into incident_changes (organization_id, tenant_id, incident_id, kind, value, message)
    values (i.organization_id, i.tenant_id, i.id, 'acknowledged', i.value, p_message);
    if i.is_told then
      i := tell_incident(i, 'update', coalesce(p_message, i.cause), coalesce(event_actor_name(), 'a person'));
    end if;
  end if;
  return next i;
end $$;

-- The rule opens another incident only after its condition was over.
create function resolve_incident_by_hand(p_incident uuid, p_message text) returns setof incidents
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  i incidents;
begin
  select * into i from incidents k where k.id = p_incident and k.tenant_id = current_tenant() for no key update;
  if not found then return; end if;
  if i.state <> 'resolved' then
    i := resolve_incident(i, coalesce(p_message, 'Resolved by ' || coalesce(event_actor_name(), 'a person') || '.'));
    update alert_states s
    set phase = 'dismissed', since = null, version = s.version + 1
    where s.rule_id = i.rule_id and s.subject_id = i.subject_id and s.tenant_id = i.tenant_id;
  end if;
  return next i;
end $$;

-- Arrays have no foreign keys.
create function check_alert_rule_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  if exists (select from deployments d where d.id = any(new.deployment_ids) and d.tenant_id <> new.tenant_id)
    or exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
    or exists (select from channels c where c.id = any(new.channel_ids) and c.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'an alert rule refers to a row of another workspace';
  end if;
  return null;
end $$;
create trigger check_references
  after insert or update of deployment_ids, tag_value_ids, channel_ids on alert_rules
  for each row execute function check_alert_rule_references();

create function check_alert_mute_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  if exists (select from deployments d where d.id = any(new.deployment_ids) and d.tenant_id <> new.tenant_id)
    or exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
    or exists (select from alert_rules r where r.id = any(new.rule_ids) and r.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'a mute refers to a row of another workspace';
  end if;
  return null;
end $$;
create trigger check_references
  after insert or update of deployment_ids, tag_value_ids, rule_ids on alert_mutes
  for each row execute function check_alert_mute_references();
