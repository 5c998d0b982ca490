-- Jobs and schedules: commands that run once, and the times at which they are due. Rows of jobs are locked before
-- journals, and cursors last. dispatch_jobs() locks rows after them, and skips those that another transaction has.

-- The database's owner raises a limit with `alter database … set app.max_running_jobs = '50'`.
create function max_running_jobs() returns integer
language sql stable
return coalesce(setting('max_running_jobs'), '20')::integer;

create function max_open_jobs() returns integer
language sql stable
return coalesce(setting('max_open_jobs'), '1000')::integer;

-- Counts jobs that the caller does not see, too.
create function number_of_open_jobs(p_tenant uuid) returns bigint
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return (select count(*) from jobs j where j.tenant_id = p_tenant and j.status in ('QUEUED', 'RUNNING'));
end $$;
grant execute on function number_of_open_jobs(uuid) to slipway_app;

create function has_open_job(s schedules) returns boolean
language plpgsql stable as $$
begin
  return exists (
    select from jobs j
    where j.tenant_id = s.tenant_id and j.schedule_id = s.id and j.status in ('QUEUED', 'RUNNING')
  );
end $$;

-- The code of the reason why a deployment cannot run a job now, with the environment of a process; null if it can. A
-- plan of an earlier agent names no processes, and its parts are in `process_resources` alone: the agent decides then.
-- An action of the platform needs no revision that serves.
create function job_obstacle(d deployments, p_process text, p_action jsonb default null) returns text
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_policy json := (select l.policy from listeners l where l.id = d.listener_id);
  v_processes json;
begin
  if p_action is null and d.active_revision_id is null then return 'nothing_serves'; end if;
  if p_action is not null and not coalesce(
    (v_policy -> 'features')::jsonb ? snapshot_feature(p_action ->> 'store'), false
  ) then
    return 'snapshots_not_supported';
  end if;
  if p_action ? 'at' and not coalesce((v_policy -> 'features')::jsonb ? 'database_history', false) then
    return 'history_not_supported';
  end if;
  if v_policy ->> 'jobs' is distinct from 'true' then return 'jobs_not_supported'; end if;
  if p_process is not null and v_policy ->> 'job_processes' is distinct from 'true' then
    return 'process_not_supported';
  end if;
  if p_process <> 'web' then
    v_processes := (
      select r.build_plan -> 'processes' from revisions r where r.id = d.active_revision_id and r.deployment_id = d.id
    );
    if json_typeof(v_processes) = 'array'
      and p_process not in ('queue', 'orchestrator', 'executor')
      and not exists (select from json_array_elements(v_processes) p where p ->> 'name' = p_process) then
      return 'process_unknown';
    end if;
  end if;
  return null;
end $$;
grant execute on function job_obstacle(deployments, text, jsonb) to slipway_app;

create function recorded_job(p_job jobs) returns jsonb
language sql stable
return case
  when p_job.id is not null then jsonb_build_object(
    'status', p_job.status,
    'command', p_job.command,
    'action', p_job.action,
    'timeout_seconds', p_job.timeout_seconds,
    'process', p_job.process,
    'revision_id', p_job.revision_id,
    'exit_code', p_job.exit_code,
    'reason', p_job.reason,
    'cancel_requested_at', p_job.cancel_requested_at
  )
end;

create function job_event(p_type text, p_before jobs, p_after jobs) returns tenant_event
language plpgsql stable as $$
begin
  return (
    p_after.tenant_id,
    p_after.organization_id,
    p_type,
    p_after.id,
    json_strip_nulls(json_build_object(
      'deployment_id', p_after.deployment_id,
      'schedule_id', p_after.schedule_id,
      'due_at', p_after.due_at,
      'attempt', p_after.attempt
    )),
    changed_members(recorded_job(p_before), recorded_job(p_after))
  )::tenant_event;
end $$;

create function to_new_events(p_events tenant_event[]) returns new_event[]
language sql immutable
return array(
  select (e.type, e.subject_id, e.data, e.changes)::new_event
  from unnest(p_events) with ordinality e(tenant_id, organization_id, type, subject_id, data, changes, place)
  order by e.place
);

create function end_job(p_job jobs, p_status text, p_reason text default null, p_exit_code integer default null)
returns jobs
language plpgsql stable as $$
begin
  p_job.status := p_status;
  p_job.reason := p_reason;
  p_job.exit_code := p_exit_code;
  p_job.finished_at := clock();
  p_job.seq := null;
  return p_job;
end $$;

-- A queued job of a deployment. `p_new` has the members that the caller decides.
create function build_job(d deployments, p_new jsonb) returns jobs
language plpgsql stable as $$
declare
  v_start timestamptz := coalesce((p_new ->> 'not_before')::timestamptz, clock());
begin
  return jsonb_populate_record(
    null::jobs,
    jsonb_build_object(
      'id', gen_random_uuid(),
      'organization_id', d.organization_id,
      'tenant_id', d.tenant_id,
      'deployment_id', d.id,
      'revision_id', d.active_revision_id,
      'status', 'QUEUED',
      'attempt', 1,
      'retries', 0,
      'is_serial', false,
      'not_before', v_start,
      'overdue_at', v_start + (p_new ->> 'deadline_seconds')::integer * interval '1 second',
      'lines', 0,
      'bytes', 0,
      'created_at', clock()
    ) || p_new
  );
end $$;

-- Requests and agents change jobs by this alone.
create function write_jobs(p_jobs jobs[]) returns void
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  update jobs j
  set
    status = n.status,
    reason = n.reason,
    exit_code = n.exit_code,
    revision_id = n.revision_id,
    cancel_requested_at = n.cancel_requested_at,
    overdue_at = n.overdue_at,
    started_at = n.started_at,
    finished_at = n.finished_at,
    seq = n.seq
  from unnest(p_jobs) n
  where j.id = n.id and j.deployment_id = n.deployment_id;
end $$;
grant execute on function write_jobs(jobs[]) to slipway_agent, slipway_app;

-- Gives each job the next number of its listener, as record_sync_items() does for deployments. They are no part of the
-- digest.
create function record_sync_jobs(p_jobs uuid[]) returns void
language sql security definer set search_path = public, pg_temp as $$
  with changed as (
    select j.id, j.listener_id
    from jobs j
    where j.id = any(p_jobs) and j.listener_id is not null
  ),
  numbered as (
    insert into sync_cursors as c (listener_id, seq, digest)
    select listener_id, count(*), 0
    from changed
    group by listener_id
    order by listener_id
    on conflict (listener_id) do update set seq = c.seq + excluded.seq
    returning listener_id, seq
  ),
  placed as (
    select
      c.id,
      n.seq - count(*) over of_listener + row_number() over of_listener as seq
    from changed c
    join numbered n using (listener_id)
    window of_listener as (partition by listener_id)
  )
  update jobs j
  set seq = p.seq
  from placed p
  where j.id = p.id
$$;
grant execute on function record_sync_jobs(uuid[]) to slipway_agent, slipway_app;

-- Counts the jobs that a workspace may run beside those that it runs.
create function free_job_places(p_tenant uuid) returns bigint
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return max_running_jobs() - (
    select count(*)
    from jobs j
    where j.tenant_id = p_tenant and j.status in ('QUEUED', 'RUNNING') and j.dispatched_at is not null
  );
end $$;

grant execute on function free_job_places(uuid) to slipway_app;

-- Hands queued jobs to their agents: those that are due within a minute, the oldest first, while the workspace may run
-- more. It decides under the lock of the journal, so two transactions never exceed the limit.
create function dispatch_jobs(p_tenants uuid[]) returns void
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_tenant uuid;
  v_free bigint;
  v_chosen uuid[] := '{}';
begin
  perform from journals j where j.scope_id = any(p_tenants) order by j.scope_id for no key update;
  foreach v_tenant in array p_tenants loop
    v_free := free_job_places(v_tenant);
    continue when v_free <= 0;
    v_chosen := v_chosen || array(
      select j.id
      from jobs j
      join deployments d on d.id = j.deployment_id
      where j.tenant_id = v_tenant
        and j.status = 'QUEUED'
        and j.dispatched_at is null
        and j.not_before <= clock() + interval '1 minute'
        and d.listener_id is not null
        and d.deleting_at is null
        and not (j.is_serial and exists (
          select from jobs o
          where o.tenant_id = v_tenant
            and o.schedule_id = j.schedule_id
            and o.id <> j.id
            and o.status in ('QUEUED', 'RUNNING')
            and (o.dispatched_at is not null or (o.created_at, o.id) < (j.created_at, j.id))
        ))
      order by j.not_before, j.created_at, j.id
      limit v_free
      for update of j skip locked
    );
  end loop;
  if v_chosen = '{}' then return; end if;
  update jobs j
  set dispatched_at = clock(), listener_id = d.listener_id
  from deployments d
  where j.id = any(v_chosen) and d.id = j.deployment_id;
  perform record_sync_jobs(v_chosen);
end $$;
grant execute on function dispatch_jobs(uuid[]) to slipway_agent, slipway_app;

-- Ends the open jobs of a schedule, for one that replaces them: those that run are stopped by their agent. Returns the
-- events.
create function replace_jobs(s schedules) returns tenant_event[]
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_before jobs;
  v_after jobs;
  v_jobs jobs[] := '{}';
  v_events tenant_event[] := '{}';
begin
  for v_before in
    select j.*
    from jobs j
    where j.tenant_id = s.tenant_id
      and j.schedule_id = s.id
      and j.status in ('QUEUED', 'RUNNING')
      and j.cancel_requested_at is null
    order by j.id
    for update
  loop
    if v_before.status = 'QUEUED' then
      v_after := end_job(v_before, 'CANCELLED', 'A later run of the schedule replaced it.');
    else
      v_after := v_before;
      v_after.cancel_requested_at := clock();
    end if;
    v_jobs := v_jobs || v_after;
    v_events := v_events || job_event(
      case v_after.status when 'CANCELLED' then 'job.cancelled' else 'job.cancel_requested' end, v_before, v_after
    );
  end loop;
  perform write_jobs(v_jobs);
  return v_events;
end $$;

-- The agents of jobs that run and are to be stopped get them again.
create function send_cancellations(p_tenants uuid[], p_schedules uuid[]) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  perform record_sync_jobs(array(
    select j.id
    from jobs j
    where j.tenant_id = any(p_tenants)
      and j.schedule_id = any(p_schedules)
      and j.status = 'RUNNING'
      and j.cancel_requested_at is not null
  ));
end $$;

-- ---- requests

-- Refuses what create_job() would refuse. Returns the revision in which the job would run, and how many jobs run and
-- wait before it. No row: there is no such deployment.
create function plan_job(p_deployment uuid, p_process text)
returns table (revision_id uuid, revision_number integer, open_jobs bigint, free_places bigint)
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
  d deployments;
  v_obstacle text;
begin
  select c.* into d from deployments c where c.id = p_deployment and c.tenant_id = current_tenant();
  if not found then return; end if;
  if d.deleting_at is not null then perform refuse('deployment_deleting'); end if;
  perform require_command_permission();
  v_obstacle := job_obstacle(d, p_process);
  if v_obstacle is not null then perform refuse(v_obstacle); end if;
  open_jobs := number_of_open_jobs(d.tenant_id);
  if open_jobs >= max_open_jobs() then perform refuse('job_queue_full', max_open_jobs() || ' jobs wait or run'); end if;
  revision_id := d.active_revision_id;
  revision_number := (select r.number from revisions r where r.id = d.active_revision_id and r.deployment_id = d.id);
  free_places := greatest(0, free_job_places(d.tenant_id));
  return next;
end $$;

-- `planned_number` in `p_new` is the number of the revision of a plan.
create function create_job(p_deployment uuid, p_new jsonb, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  d deployments;
  s schedules;
  j jobs;
  v_action jsonb := p_new -> 'action';
  v_obstacle text;
  v_events tenant_event[] := '{}';
begin
  select c.* into d from deployments c where c.id = p_deployment and c.tenant_id = current_tenant() for share;
  if not found then return; end if;
  if d.deleting_at is not null then perform refuse('deployment_deleting'); end if;
  if p_new ->> 'schedule_id' is not null then
    select c.*
    into s
    from schedules c
    where c.id = (p_new ->> 'schedule_id')::uuid and c.deployment_id = d.id and c.tenant_id = current_tenant()
    for update;
    if not found then perform refuse('schedule_not_found'); end if;
    v_action := s.action;
    p_new := p_new || jsonb_build_object(
      'action', s.action,
      'command', s.command,
      'timeout_seconds', s.timeout_seconds,
      'deadline_seconds', s.deadline_seconds,
      'process', s.process,
      'retries', s.retries,
      'is_serial', s.overlap <> 'allow'
    );
  end if;
  if v_action is null then
    perform require_command_permission();
  else
    perform require_allowed_action(d, v_action);
  end if;
  v_obstacle := job_obstacle(d, p_new ->> 'process', v_action);
  if v_obstacle is not null then perform refuse(v_obstacle); end if;
  if p_new ->> 'planned_number' is not null and not exists (
    select from revisions r
    where r.id = d.active_revision_id and r.deployment_id = d.id and r.number = (p_new ->> 'planned_number')::integer
  ) then
    perform refuse('plan_stale');
  end if;
  -- Counts under this lock, so that concurrent requests take turns.
  perform from journals c where c.scope_id = d.tenant_id for no key update;
  if number_of_open_jobs(d.tenant_id) >= max_open_jobs() then
    perform refuse('job_queue_full', max_open_jobs() || ' jobs wait or run');
  end if;
  if s.overlap = 'skip' and has_open_job(s) then perform refuse('schedule_running'); end if;
  if s.overlap = 'replace' then v_events := replace_jobs(s); end if;

  j := build_job(d, p_new || jsonb_build_object(
    'actor_kind', setting('actor_kind'),
    'actor_id', current_actor(),
    'actor_name', event_actor_name()
  ));
  insert into jobs values (j.*);
  answer := to_json(j);
  has_webhooks := conclude_write(
    answer, to_new_events(job_event('job.created', null, j) || v_events), p_request
  );
  if s.overlap = 'replace' then perform send_cancellations(array[s.tenant_id], array[s.id]); end if;
  perform dispatch_jobs(array[d.tenant_id]);
  return next;
end $$;

create function cancel_job(p_deployment uuid, p_job uuid, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_before jobs;
  v_after jobs;
begin
  select j.*
  into v_before
  from jobs j
  where j.id = p_job and j.deployment_id = p_deployment and j.tenant_id = current_tenant()
  for update;
  if not found then return; end if;
  if v_before.status not in ('QUEUED', 'RUNNING') then perform refuse('job_ended', v_before.status); end if;
  v_after := v_before;
  if v_before.status = 'QUEUED' then
    v_after := end_job(v_before, 'CANCELLED', 'Cancelled on request.');
  else
    v_after.cancel_requested_at := coalesce(v_before.cancel_requested_at, clock());
  end if;
  perform write_jobs(array[v_after]);
  answer := to_json(v_after);
  has_webhooks := conclude_write(
    answer,
    to_new_events(array[job_event(
      case v_after.status when 'CANCELLED' then 'job.cancelled' else 'job.cancel_requested' end, v_before, v_after
    )]),
    p_request
  );
  if v_after.status = 'RUNNING' then perform record_sync_jobs(array[v_after.id]); end if;
  perform dispatch_jobs(array[v_after.tenant_id]);
  return next;
end $$;

-- ---- agents

-- The jobs that changed behind the agent's cursor, as `JobWork` of src/protocol/jobs.schema.ts, up to `p_latest`, which
-- read_changes() has read. `reached` is the cursor after them. An agent that does not run jobs gets none.
create function read_jobs(
  p_listener listeners, p_cursor bigint, p_resync boolean, p_latest bigint, p_page_size integer
) returns table (jobs json, reached bigint)
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  jobs := '[]';
  reached := p_latest;
  if (p_resync or p_cursor < p_latest) and p_listener.policy ->> 'jobs' = 'true' then
    with page as (
      select j.*
      from jobs j
      where j.listener_id = p_listener.id
        and j.seq > case when p_resync then 0 else p_cursor end
        and j.seq <= p_latest
      order by j.seq
      limit p_page_size
    )
    select
      coalesce(
        json_agg(
          json_strip_nulls(json_build_object(
            'job_id', p.id,
            'deployment_id', p.deployment_id,
            'status', p.status,
            'command', p.command,
            'timeout_seconds', p.timeout_seconds,
            'process', p.process,
            'starts_in_ms', greatest(0, ceil(extract(epoch from p.not_before - clock()) * 1000)),
            'cancel', p.cancel_requested_at is not null,
            'action', p.action,
            'is_scheduled', nullif(p.schedule_id is not null, false)
          ))
          order by p.seq
        ),
        '[]'
      ),
      case when count(*) = p_page_size then max(p.seq) else p_latest end
    into jobs, reached
    from page p;
  end if;
  return next;
end $$;

-- The retry of a job that failed: each waits twice as long as the one before, from 10 seconds to 10 minutes.
create function insert_retry(p_job jobs) returns void
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  j jobs := p_job;
begin
  j.id := gen_random_uuid();
  j.attempt := p_job.attempt + 1;
  j.status := 'QUEUED';
  j.not_before := clock() + least(600, 10 * 2 ^ (p_job.attempt - 1)) * interval '1 second';
  j.overdue_at := j.not_before + j.deadline_seconds * interval '1 second';
  j.exit_code := null;
  j.reason := null;
  j.dispatched_at := null;
  j.listener_id := null;
  j.seq := null;
  j.started_at := null;
  j.finished_at := null;
  j.lines := 0;
  j.bytes := 0;
  j.stream := null;
  j.next_line := null;
  j.created_at := clock();
  insert into jobs values (j.*) on conflict do nothing;
end $$;
grant execute on function insert_retry(jobs) to slipway_agent;

-- Applies reports about jobs. Returns a row for each, in their order: its code, and the workspace if events are to be
-- sent to webhooks. A job starts only once: `running` is accepted while it is queued, or again from the same start.
create function apply_job_reports(p_agent text, p_fence bigint, p_reports jsonb, p_event_room bigint)
returns table (job_id uuid, code text, hooked_tenant uuid)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_listener listeners := require_lease(p_agent, p_fence);
  v record;
  v_before jobs;
  j jobs;
  v_jobs jobs[] := '{}';
  v_failed jobs[] := '{}';
  v_tenants uuid[] := '{}';
  v_events tenant_event[] := '{}';
  v_event_count integer;
begin
  perform from jobs c
  where c.id = any(array(select (g ->> 'job_id')::uuid from jsonb_array_elements(p_reports) g))
  order by c.id
  for update;

  for v in
    select g.*, c as job, r.id as known_revision
    from rows from (
      jsonb_to_recordset(p_reports) as (job_id uuid, state text, revision_id uuid, exit_code integer, reason text)
    ) with ordinality g(job_id, state, revision_id, exit_code, reason, place)
    left join jobs c on c.id = g.job_id and c.listener_id = v_listener.id
    left join revisions r on r.id = g.revision_id and r.deployment_id = c.deployment_id
    order by g.place
  loop
    v_before := v.job;
    job_id := v.job_id;
    code := null;
    hooked_tenant := null;
    v_event_count := cardinality(v_events);
    if v_before.id is null then
      code := 'job_unknown';
    elsif v.state = 'running' then
      if v_before.status = 'QUEUED' and v_before.dispatched_at is not null then
        j := v_before;
        j.status := 'RUNNING';
        j.revision_id := coalesce(v.known_revision, j.revision_id);
        j.started_at := clock();
        -- Some time for an agent that restarts, or is cut off, before its end is given up.
        j.overdue_at := clock() + j.timeout_seconds * interval '1 second' + interval '10 minutes';
        v_jobs := v_jobs || j;
        if j.schedule_id is null then v_events := v_events || job_event('job.started', v_before, j); end if;
      elsif v_before.status <> 'RUNNING' then
        code := 'job_ended';
      end if;
    elsif v_before.status in ('QUEUED', 'RUNNING')
      or v_before.status = 'LOST' and v.state <> 'lost' then
      j := end_job(v_before, upper(v.state), v.reason, v.exit_code);
      j.revision_id := coalesce(v.known_revision, j.revision_id);
      v_jobs := v_jobs || j;
      v_tenants := v_tenants || j.tenant_id;
      if j.status in ('FAILED', 'TIMED_OUT')
        and v_before.status <> 'LOST'
        and v_before.cancel_requested_at is null
        and j.attempt <= j.retries then
        v_failed := v_failed || j;
      end if;
      -- Schedules that work well must not use up the events of a day.
      if j.schedule_id is null or j.status <> 'SUCCEEDED' or p_event_room is null or not exists (
        select from journals c
        where c.scope_id = j.tenant_id and c.day = journal_day() and c.today >= p_event_room / 2
      ) then
        v_events := v_events || job_event('job.' || v.state, v_before, j);
      end if;
    elsif v_before.status <> upper(v.state) then
      code := 'job_ended';
    end if;
    if cardinality(v_events) > v_event_count and has_webhooks(v_before.tenant_id) then
      hooked_tenant := v_before.tenant_id;
    end if;
    return next;
  end loop;

  perform write_jobs(v_jobs);
  foreach j in array v_failed loop
    perform insert_retry(j);
  end loop;
  -- No daily limit: each of these ends something that a limited request or a schedule began.
  perform journal_tenant_events(v_events, null);
  if v_tenants <> '{}' then
    perform dispatch_jobs(array(select distinct t from unnest(v_tenants) t order by t));
  end if;
end $$;

-- Appends lines of a job, and deletes the oldest beyond the limits. Lines that were received before are skipped.
-- Returns the number of the next line of the stream; null if the listener has no such job.
create function append_job_lines(
  p_job uuid, p_stream uuid, p_from integer, p_lines jsonb, p_max_lines integer, p_max_bytes bigint
) returns integer
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  j jobs;
  v_next integer := p_from + jsonb_array_length(p_lines);
  v_known integer;
  v_lines integer;
  v_bytes bigint;
begin
  select c.* into j from jobs c where c.id = p_job and c.listener_id = current_listener() for update;
  if not found then return null; end if;
  v_known := case when j.stream = p_stream then j.next_line else 0 end;
  with received as (
    select
      g.*,
      row_number() over (order by g.place) as nth,
      sum(octet_length(g.message)) over (order by g.place) - octet_length(g.message) as before
    from rows from (
      jsonb_to_recordset(p_lines) as (timestamp timestamptz, severity integer, message text)
    ) with ordinality g(timestamp, severity, message, place)
    where p_from + g.place > v_known
  ),
  inserted as (
    insert into job_lines (organization_id, tenant_id, job_id, number, timestamp, severity, message, bytes_before)
    select
      j.organization_id, j.tenant_id, j.id, j.lines + r.nth, r.timestamp, r.severity, r.message, j.bytes + r.before
    from received r
    returning octet_length(message) as bytes
  )
  select j.lines + count(*), j.bytes + coalesce(sum(bytes), 0)
  into v_lines, v_bytes
  from inserted;
  update jobs c
  set lines = v_lines, bytes = v_bytes, stream = p_stream, next_line = greatest(v_next, v_known)
  where c.id = j.id;
  delete from job_lines l
  where l.job_id = j.id and (l.number <= v_lines - p_max_lines or l.bytes_before < v_bytes - p_max_bytes);
  return greatest(v_next, v_known);
end $$;

-- ---- schedules of sources

create function recorded_schedule(s schedules) returns jsonb
language sql stable
return case
  when s.id is not null then jsonb_build_object(
    'name', s.name,
    'cron', s.cron,
    'time_zone', s.time_zone,
    'command', s.command,
    'timeout_seconds', s.timeout_seconds,
    'overlap', s.overlap,
    'jitter_seconds', s.jitter_seconds,
    'retries', s.retries,
    'deadline_seconds', s.deadline_seconds,
    'process', s.process,
    'enabled', s.enabled,
    'owner', s.owner
  )
end;

create function schedule_event(p_type text, d deployments, p_before schedules, p_after schedules) returns tenant_event
language plpgsql stable as $$
begin
  return (
    d.tenant_id,
    d.organization_id,
    p_type,
    coalesce(p_after.id, p_before.id),
    json_build_object('deployment_id', d.id, 'declared', true),
    changed_members(recorded_schedule(p_before), recorded_schedule(p_after))
  )::tenant_event;
end $$;

-- Makes the declared schedules of a deployment those of the plan of a revision, which begins to serve. One of the same
-- name that was made otherwise becomes the source's. The plan of an earlier agent says nothing, and changes nothing.
create function declare_schedules(d deployments, p_plan json) returns tenant_event[]
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v record;
  v_before schedules;
  s schedules;
  v_events tenant_event[] := '{}';
begin
  if json_typeof(p_plan -> 'schedules') is distinct from 'array' then return '{}'; end if;
  for v_before in
    select c.*
    from schedules c
    where c.deployment_id = d.id
      and c.is_declared
      and not exists (select from json_array_elements(p_plan -> 'schedules') g where g ->> 'name' = c.name)
    order by c.id
    for update
  loop
    delete from schedules c where c.id = v_before.id;
    v_events := v_events || schedule_event('schedule.deleted', d, v_before, null);
  end loop;
  for v in
    select g as declared
    from json_populate_recordset(null::schedules, p_plan -> 'schedules') g
    order by g.name
  loop
    select c.* into v_before from schedules c where c.deployment_id = d.id and c.name = (v.declared).name for update;
    s := v.declared;
    if v_before.id is null then
      -- The limit of requests: enforce_quota() does not count what agents bring.
      if (select count(*) from schedules c where c.tenant_id = d.tenant_id)
        >= coalesce(setting('max_schedules'), '1000')::bigint then
        v_events := v_events || (
          d.tenant_id,
          d.organization_id,
          'schedule.refused',
          d.id,
          json_build_object('deployment_id', d.id, 'name', s.name, 'reason', 'quota_full'),
          null
        )::tenant_event;
        continue;
      end if;
      s.id := gen_random_uuid();
      s.organization_id := d.organization_id;
      s.tenant_id := d.tenant_id;
      s.deployment_id := d.id;
      s.enabled := true;
      s.next_due_at := clock();
      s.version := 1;
      s.created_at := clock();
      s.is_declared := true;
      s.updated_at := s.created_at;
      insert into schedules values (s.*);
      v_events := v_events || schedule_event('schedule.created', d, null, s);
      continue;
    end if;
    s.id := v_before.id;
    s.enabled := v_before.enabled;
    continue when v_before.is_declared and recorded_schedule(s) = recorded_schedule(v_before);
    update schedules c
    set
      cron = s.cron,
      time_zone = s.time_zone,
      command = s.command,
      action = null,
      timeout_seconds = s.timeout_seconds,
      overlap = s.overlap,
      jitter_seconds = s.jitter_seconds,
      retries = s.retries,
      deadline_seconds = s.deadline_seconds,
      process = s.process,
      owner = null,
      is_declared = true,
      -- A due time whose job may exist already is not due again.
      next_due_at = case
        when (c.cron, c.time_zone) = (s.cron, s.time_zone) or c.next_due_at is null then c.next_due_at
        else clock() + interval '1 second'
      end,
      version = c.version + 1,
      updated_at = clock()
    where c.id = s.id;
    v_events := v_events || schedule_event('schedule.updated', d, v_before, s);
  end loop;
  return v_events;
end $$;
grant execute on function declare_schedules(deployments, json) to slipway_agent;

-- ---- the sweep

-- Makes the jobs of schedules that are due. `p_due` has, for each, the due time and version that its reader saw, the
-- due times that may start, those that came too late, and the next one. Of two control planes the second finds another
-- due time once it has the row, and makes nothing.
create function start_due_jobs(p_due jsonb) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v record;
  v_due timestamptz;
  d deployments;
  j jobs;
  v_obstacle text;
  v_status text;
  v_replaced uuid[] := '{}';
  v_tenants uuid[] := '{}';
  v_events tenant_event[] := '{}';
begin
  -- Deployments first, as their deletion does.
  perform from deployments c
  where c.id in (
    select s.deployment_id
    from schedules s
    where s.id = any(array(select (g ->> 'id')::uuid from jsonb_array_elements(p_due) g))
  )
  order by c.id
  for key share;

  for v in
    select s as schedule, g.due, g.missed, g.upcoming
    from jsonb_to_recordset(p_due) as g(
      id uuid, seen timestamptz, version integer, due timestamptz[], missed jsonb, upcoming timestamptz
    )
    join schedules s on s.id = g.id and s.next_due_at = g.seen and s.version = g.version
    order by s.id
    for update of s
  loop
    declare
      s schedules := v.schedule;
      v_new jsonb := jsonb_build_object(
        'schedule_id', s.id,
        'action', s.action,
        'command', s.command,
        'timeout_seconds', s.timeout_seconds,
        'deadline_seconds', s.deadline_seconds,
        'process', s.process,
        'retries', s.retries,
        'is_serial', s.overlap <> 'allow',
        'actor_kind', 'cron',
        'actor_name', s.name
      );
    begin
      select c.* into d from deployments c where c.id = s.deployment_id;
      v_tenants := v_tenants || s.tenant_id;
      if v.missed is not null then
        j := end_job(
          build_job(d, v_new || jsonb_build_object('due_at', v.missed -> 'from')),
          'MISSED',
          coalesce(v.missed ->> 'reason', 'The control plane did not run within the deadline.')
        );
        j.missed_until := (v.missed ->> 'until')::timestamptz;
        j.missed_count := (v.missed ->> 'count')::integer;
        insert into jobs values (j.*);
        v_events := v_events || job_event('job.missed', null, j);
      end if;
      foreach v_due in array v.due loop
        j := build_job(d, v_new || jsonb_build_object(
          'due_at', v_due, 'not_before', v_due + random() * s.jitter_seconds * interval '1 second'
        ));
        v_obstacle := case
          when d.deleting_at is not null then 'The deployment is being deleted.'
          when number_of_open_jobs(s.tenant_id) >= max_open_jobs() then 'Too many jobs of the workspace wait or run.'
          else case job_obstacle(d, s.process, s.action)
            when 'snapshots_not_supported' then 'The agent of the deployment takes no snapshots of this store.'
            when 'nothing_serves' then 'No revision of the deployment serves.'
            when 'process_unknown' then 'The revision that serves has no process ' || s.process || '.'
            when 'jobs_not_supported' then 'The agent of the deployment cannot run jobs. Update it.'
            when 'process_not_supported' then 'The agent of the deployment cannot run jobs as a process. Update it.'
          end
        end;
        v_status := case
          when v_obstacle is not null then 'MISSED'
          when s.overlap = 'skip' and has_open_job(s) then 'SKIPPED'
        end;
        if v_status is not null then
          -- Repeats are counted in the first one: a schedule of each minute must not fill the journal.
          update jobs p
          set missed_until = v_due, missed_count = coalesce(p.missed_count, 1) + 1
          where p.status = v_status
            and p.id = (
              select l.id
              from jobs l
              where l.schedule_id = s.id
              order by l.due_at desc nulls last, l.attempt desc
              limit 1
            );
          if found then continue; end if;
          j := end_job(j, v_status, coalesce(v_obstacle, 'The run before it had not ended.'));
          v_events := v_events || job_event('job.' || lower(v_status), null, j);
        elsif s.overlap = 'replace' then
          v_events := v_events || replace_jobs(s);
          v_replaced := v_replaced || s.id;
        end if;
        insert into jobs values (j.*);
      end loop;
      update schedules c set next_due_at = v.upcoming where c.id = s.id;
    end;
  end loop;

  perform journal_tenant_events(v_events, null);
  v_tenants := array(select distinct t from unnest(v_tenants) t order by t);
  perform send_cancellations(v_tenants, v_replaced);
  perform dispatch_jobs(v_tenants);
end $$;

-- Gives up jobs that did not start or end in time.
create function sweep_jobs(p_limit integer) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_before jobs;
  j jobs;
  v_jobs jobs[] := '{}';
  v_events tenant_event[] := '{}';
begin
  for v_before in
    select c.*
    from jobs c
    where c.status in ('QUEUED', 'RUNNING') and c.overdue_at <= clock()
    order by c.overdue_at
    limit p_limit
    for update skip locked
  loop
    j := case v_before.status
      when 'QUEUED' then end_job(v_before, 'MISSED', 'It was not started within its deadline.')
      else end_job(v_before, 'LOST', 'Its agent did not report the end in time.')
    end;
    v_jobs := v_jobs || j;
    v_events := v_events || job_event('job.' || lower(j.status), v_before, j);
  end loop;
  perform write_jobs(v_jobs);
  perform journal_tenant_events(v_events, null);
end $$;

-- Hands on jobs whose time has come, of the next workspaces behind `p_after`: at most `p_limit` of them are looked at.
-- Each is one step in an index, however many of its jobs wait. Returns the last one; null if none follows.
create function dispatch_waiting_jobs(p_after uuid, p_limit integer) returns uuid
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_tenant uuid := p_after;
  v_next uuid;
  v_soonest timestamptz;
  v_tenants uuid[] := '{}';
begin
  for i in 1..p_limit loop
    v_next := null;
    select j.tenant_id, j.not_before
    into v_next, v_soonest
    from jobs j
    where j.status = 'QUEUED' and j.dispatched_at is null and j.tenant_id > v_tenant
    order by j.tenant_id, j.not_before
    limit 1;
    exit when v_next is null;
    v_tenant := v_next;
    if v_soonest <= clock() + interval '1 minute' and free_job_places(v_tenant) > 0 then
      v_tenants := v_tenants || v_tenant;
    end if;
  end loop;
  if v_tenants <> '{}' then perform dispatch_jobs(v_tenants); end if;
  return case when v_next is not null then v_tenant end;
end $$;
