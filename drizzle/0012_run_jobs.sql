CREATE TABLE "job_lines" (
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"job_id" uuid NOT NULL,
	"number" integer NOT NULL,
	"timestamp" timestamp with time zone NOT NULL,
	"severity" integer NOT NULL,
	"message" text NOT NULL,
	"bytes_before" bigint NOT NULL,
	CONSTRAINT "job_lines_job_id_number_pk" PRIMARY KEY("job_id","number")
);
--> statement-breakpoint
CREATE TABLE "jobs" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"schedule_id" uuid,
	"due_at" timestamp with time zone,
	"attempt" integer DEFAULT 1 NOT NULL,
	"retries" integer DEFAULT 0 NOT NULL,
	"status" text NOT NULL,
	"command" json NOT NULL,
	"timeout_seconds" integer NOT NULL,
	"deadline_seconds" integer NOT NULL,
	"is_serial" boolean DEFAULT false NOT NULL,
	"not_before" timestamp with time zone DEFAULT clock() NOT NULL,
	"overdue_at" timestamp with time zone NOT NULL,
	"missed_until" timestamp with time zone,
	"missed_count" integer,
	"revision_id" uuid,
	"actor_kind" text NOT NULL,
	"actor_id" uuid,
	"actor_name" text DEFAULT event_actor_name(),
	"exit_code" integer,
	"reason" text,
	"cancel_requested_at" timestamp with time zone,
	"dispatched_at" timestamp with time zone,
	"listener_id" uuid,
	"seq" bigint,
	"started_at" timestamp with time zone,
	"finished_at" timestamp with time zone,
	"lines" integer DEFAULT 0 NOT NULL,
	"bytes" bigint DEFAULT 0 NOT NULL,
	"stream" uuid,
	"next_line" integer,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "schedules" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"name" text NOT NULL,
	"cron" text NOT NULL,
	"time_zone" text NOT NULL,
	"command" json NOT NULL,
	"timeout_seconds" integer NOT NULL,
	"overlap" text NOT NULL,
	"jitter_seconds" integer NOT NULL,
	"retries" integer NOT NULL,
	"deadline_seconds" integer NOT NULL,
	"enabled" boolean NOT NULL,
	"next_due_at" timestamp with time zone,
	"version" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "schedule_name_taken" UNIQUE("deployment_id","name")
);
--> statement-breakpoint
ALTER TABLE "job_lines" ADD CONSTRAINT "job_lines_job_id_jobs_id_fk"
  FOREIGN KEY ("job_id") REFERENCES "public"."jobs"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "jobs" ADD CONSTRAINT "jobs_deployment_id_deployments_id_fk"
  FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id")
    ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "schedules" ADD CONSTRAINT "schedules_deployment_id_deployments_id_fk"
  FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id")
    ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "jobs_page" ON "jobs"
  USING btree ("deployment_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE UNIQUE INDEX "jobs_due" ON "jobs"
  USING btree ("schedule_id","due_at","attempt") WHERE due_at is not null;--> statement-breakpoint
CREATE INDEX "jobs_of_schedule" ON "jobs"
  USING btree ("schedule_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST)
    WHERE schedule_id is not null;--> statement-breakpoint
CREATE INDEX "jobs_open" ON "jobs"
  USING btree ("tenant_id","schedule_id") WHERE status in ('QUEUED', 'RUNNING');--> statement-breakpoint
CREATE INDEX "jobs_waiting" ON "jobs"
  USING btree ("not_before") WHERE status = 'QUEUED' and dispatched_at is null;--> statement-breakpoint
CREATE INDEX "jobs_overdue" ON "jobs"
  USING btree ("overdue_at") WHERE status in ('QUEUED', 'RUNNING');--> statement-breakpoint
CREATE INDEX "jobs_changed" ON "jobs" USING btree ("listener_id","seq") WHERE seq is not null;--> statement-breakpoint
CREATE INDEX "jobs_finished" ON "jobs"
  USING btree ("finished_at") WHERE finished_at is not null;--> statement-breakpoint
CREATE INDEX "schedules_page" ON "schedules"
  USING btree ("deployment_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "schedules_of_workspace" ON "schedules" USING btree ("tenant_id");--> statement-breakpoint
CREATE INDEX "schedules_due" ON "schedules"
  USING btree ("next_due_at") WHERE next_due_at is not null;--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
alter table job_lines enable row level security, force row level security;
create policy admitted on job_lines as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM jobs j
  WHERE (j.id = job_lines.job_id)))))
  with check (true);
create policy everything on job_lines to slipway_system
  using (true)
  with check (true);
create policy own on job_lines for select to slipway_app
  using ((tenant_id = current_tenant()));
create policy served on job_lines to slipway_agent
  using ((EXISTS ( SELECT
   FROM jobs j
  WHERE (j.id = job_lines.job_id))))
  with check ((EXISTS ( SELECT
   FROM jobs j
  WHERE ((j.id = job_lines.job_id) AND (j.tenant_id = job_lines.tenant_id)
    AND (j.organization_id = job_lines.organization_id)))));
grant delete, insert, select on job_lines to slipway_agent;
grant select on job_lines to slipway_app;
grant delete, insert, select, update on job_lines to slipway_system;
alter table jobs enable row level security, force row level security;
create policy admitted on jobs as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = jobs.deployment_id)))))
  with check (true);
create policy everything on jobs to slipway_system
  using (true)
  with check (true);
set local role slipway_system;
create or replace function is_own_schedule(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from schedules
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $function$;
reset role;
create policy own on jobs to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())
    AND is_own_deployment(deployment_id) AND is_own_revision(revision_id) AND is_own_schedule(schedule_id)
      AND is_own_listener(listener_id) AND is_own_key(actor_id)));
create policy served on jobs to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = jobs.deployment_id) AND (d.listener_id = current_listener())))));
grant select, update (lines, bytes, stream, next_line) on jobs to slipway_agent;
grant insert, select, update (cancel_requested_at) on jobs to slipway_app;
grant delete, insert, select, update on jobs to slipway_system;
set local role slipway_system;
grant execute on function enforce_quota() to session_user;
reset role;
CREATE TRIGGER enforce_quota AFTER INSERT ON public.schedules REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '1000', 'true', 'schedules');
set local role slipway_system;
revoke execute on function enforce_quota() from session_user;
reset role;
alter table schedules enable row level security, force row level security;
create policy admitted on schedules as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = schedules.deployment_id)))))
  with check (true);
create policy everything on schedules to slipway_system
  using (true)
  with check (true);
create policy own on schedules to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())
    AND is_own_deployment(deployment_id)));
grant delete, insert, select, update (name, cron, time_zone, command, timeout_seconds, overlap, jitter_seconds,
  retries, deadline_seconds, enabled, next_due_at, version, updated_at) on schedules to slipway_app;
grant delete, insert, select, update on schedules to slipway_system;
create or replace function append_job_lines(p_job uuid, p_stream uuid, p_from integer, p_lines jsonb,
  p_max_lines integer, p_max_bytes bigint)
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
end $function$;
create or replace function apply_job_reports(p_agent text, p_fence bigint, p_reports jsonb, p_event_room bigint)
 RETURNS TABLE(job_id uuid, code text, hooked_tenant uuid)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
end $function$;
create or replace function build_job(d deployments, p_new jsonb)
 RETURNS jobs
 LANGUAGE plpgsql
 STABLE
AS $function$
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
end $function$;
create or replace function cancel_job(p_deployment uuid, p_job uuid, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
end $function$;
create or replace function create_job(p_deployment uuid, p_new jsonb, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  d deployments;
  s schedules;
  j jobs;
  v_obstacle text;
  v_events tenant_event[] := '{}';
begin
  select c.* into d from deployments c where c.id = p_deployment and c.tenant_id = current_tenant() for share;
  if not found then return; end if;
  if d.deleting_at is not null then perform refuse('deployment_deleting'); end if;
  perform require_command_permission();
  if p_new ->> 'schedule_id' is not null then
    select c.*
    into s
    from schedules c
    where c.id = (p_new ->> 'schedule_id')::uuid and c.deployment_id = d.id and c.tenant_id = current_tenant()
    for update;
    if not found then perform refuse('schedule_not_found'); end if;
    p_new := p_new || jsonb_build_object(
      'command', s.command,
      'timeout_seconds', s.timeout_seconds,
      'deadline_seconds', s.deadline_seconds,
      'retries', s.retries,
      'is_serial', s.overlap <> 'allow'
    );
  end if;
  v_obstacle := job_obstacle(d);
  if v_obstacle is not null then perform refuse(v_obstacle); end if;
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
end $function$;
set local role slipway_system;
create or replace function dispatch_jobs(p_tenants uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_tenant uuid;
  v_free integer;
  v_chosen uuid[] := '{}';
begin
  perform from journals j where j.scope_id = any(p_tenants) order by j.scope_id for no key update;
  foreach v_tenant in array p_tenants loop
    v_free := max_running_jobs() - (
      select count(*)
      from jobs j
      where j.tenant_id = v_tenant and j.status in ('QUEUED', 'RUNNING') and j.dispatched_at is not null
    );
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
end $function$;
reset role;
create or replace function end_job(p_job jobs, p_status text, p_reason text DEFAULT NULL::text,
  p_exit_code integer DEFAULT NULL::integer)
 RETURNS jobs
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  p_job.status := p_status;
  p_job.reason := p_reason;
  p_job.exit_code := p_exit_code;
  p_job.finished_at := clock();
  p_job.seq := null;
  return p_job;
end $function$;
create or replace function has_open_job(s schedules)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return exists (
    select from jobs j
    where j.tenant_id = s.tenant_id and j.schedule_id = s.id and j.status in ('QUEUED', 'RUNNING')
  );
end $function$;
set local role slipway_system;
create or replace function insert_retry(p_job jobs)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
end $function$;
reset role;
create or replace function job_event(p_type text, p_before jobs, p_after jobs)
 RETURNS tenant_event
 LANGUAGE plpgsql
 STABLE
AS $function$
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
end $function$;
set local role slipway_system;
create or replace function job_obstacle(d deployments)
 RETURNS text
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  if d.active_revision_id is null then return 'nothing_serves'; end if;
  if not exists (select from listeners l where l.id = d.listener_id and l.policy ->> 'jobs' = 'true') then
    return 'jobs_not_supported';
  end if;
  return null;
end $function$;
reset role;
create or replace function max_open_jobs()
 RETURNS integer
 LANGUAGE sql
 STABLE
RETURN (COALESCE(setting('max_open_jobs'::text), '1000'::text))::integer;
create or replace function max_running_jobs()
 RETURNS integer
 LANGUAGE sql
 STABLE
RETURN (COALESCE(setting('max_running_jobs'::text), '20'::text))::integer;
set local role slipway_system;
create or replace function number_of_open_jobs(p_tenant uuid)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return (select count(*) from jobs j where j.tenant_id = p_tenant and j.status in ('QUEUED', 'RUNNING'));
end $function$;
reset role;
create or replace function read_jobs(p_listener listeners, p_cursor bigint, p_resync boolean, p_latest bigint,
  p_page_size integer)
 RETURNS TABLE(jobs json, reached bigint)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
          json_build_object(
            'job_id', p.id,
            'deployment_id', p.deployment_id,
            'status', p.status,
            'command', p.command,
            'timeout_seconds', p.timeout_seconds,
            'starts_in_ms', greatest(0, ceil(extract(epoch from p.not_before - clock()) * 1000)),
            'cancel', p.cancel_requested_at is not null
          )
          order by p.seq
        ),
        '[]'
      ),
      case when count(*) = p_page_size then max(p.seq) else p_latest end
    into jobs, reached
    from page p;
  end if;
  return next;
end $function$;
set local role slipway_system;
create or replace function record_sync_jobs(p_jobs uuid[])
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
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
$function$;
reset role;
create or replace function recorded_job(p_job jobs)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN CASE WHEN ((p_job).id IS NOT NULL) THEN jsonb_build_object('status', (p_job).status, 'command',
  (p_job).command, 'timeout_seconds', (p_job).timeout_seconds, 'revision_id', (p_job).revision_id, 'exit_code',
    (p_job).exit_code, 'reason', (p_job).reason, 'cancel_requested_at',
      (p_job).cancel_requested_at) ELSE NULL::jsonb END;
create or replace function replace_jobs(s schedules)
 RETURNS tenant_event[]
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
end $function$;
create or replace function send_cancellations(p_tenants uuid[], p_schedules uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform record_sync_jobs(array(
    select j.id
    from jobs j
    where j.tenant_id = any(p_tenants)
      and j.schedule_id = any(p_schedules)
      and j.status = 'RUNNING'
      and j.cancel_requested_at is not null
  ));
end $function$;
create or replace function start_due_jobs(p_due jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
        'command', s.command,
        'timeout_seconds', s.timeout_seconds,
        'deadline_seconds', s.deadline_seconds,
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
          'The control plane did not run within the deadline.'
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
          else case job_obstacle(d)
            when 'nothing_serves' then 'No revision of the deployment serves.'
            when 'jobs_not_supported' then 'The agent of the deployment cannot run jobs. Update it.'
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
end $function$;
create or replace function sweep_jobs(p_limit integer)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_before jobs;
  j jobs;
  v_jobs jobs[] := '{}';
  v_tenants uuid[] := '{}';
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
    v_tenants := v_tenants || j.tenant_id;
    v_events := v_events || job_event('job.' || lower(j.status), v_before, j);
  end loop;
  perform write_jobs(v_jobs);
  perform journal_tenant_events(v_events, null);
  perform dispatch_jobs(array(
    select t
    from (
      select unnest(v_tenants) as t
      union
      -- Without a limit: the queue of one workspace must not hide those of others.
      select w.tenant_id
      from jobs w
      where w.status = 'QUEUED' and w.dispatched_at is null and w.not_before <= clock() + interval '1 minute'
    ) due
    order by t
  ));
end $function$;
create or replace function journal(
  p_types text[], p_subjects uuid[], p_data json[], p_changes json[], p_limit bigint, p_bytes bigint
)
 RETURNS bigint
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_count integer := cardinality(p_subjects);
  v_seq bigint;
  v_today bigint;
  v_actor_name text := event_actor_name();
begin
  insert into journals (scope_id, organization_id, seq, day, today)
  values (current_scope(), current_organization(), v_count, journal_day(), v_count + p_bytes / 4096)
  on conflict (scope_id) do update set
    seq = journals.seq + excluded.seq,
    day = excluded.day,
    today = excluded.today + case when journals.day = excluded.day then journals.today else 0 end
  returning seq, today into v_seq, v_today;
  perform require_journal_room(v_today, p_limit);
  insert into events (
    scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, actor_name, request_id, data,
    changes, part_of
  )
  select
    current_scope(),
    v_seq - v_count + ordinal,
    current_organization(),
    current_tenant(),
    type,
    subject_id,
    setting('actor_kind'),
    current_actor(),
    v_actor_name,
    setting('request_id'),
    data,
    changes,
    case when ordinal > 1 then v_seq - v_count + 1 end
  from unnest(p_types, p_subjects, p_data, p_changes)
    with ordinality as entry(type, subject_id, data, changes, ordinal);
  return v_seq;
end $function$;
create or replace function require_listener_allows(p_listener uuid, p_needs jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
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
    select max((p.policy ->> 'max_copies')::integer) as copies from possible p
  )
  select string_agg(
    case n.needs
      when 'copies' then format('%s (at most %s)', n.path, m.copies)
      when 'feature' then format('%s (%s)', n.path, n.hint)
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
          when 'feature' then coalesce(nullif(p.policy -> 'features', 'null') @> n.value, true)
        end
    );
  if v_refused is not null then perform refuse('not_allowed_by_listener', v_refused); end if;
  return true;
end $function$;
create or replace function require_listener_allows_patch(p_deployment uuid, p_patch jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
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
        when n.need ->> 'value' = 'autoscaling'
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
end $function$;
create or replace function require_upload_room(p_tenant uuid, p_bytes bigint, p_limit bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 COST 20000
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
end $function$;
create or replace function to_new_events(p_events tenant_event[])
 RETURNS new_event[]
 LANGUAGE sql
 IMMUTABLE
RETURN ARRAY(SELECT ROW(e.type, e.subject_id, e.data,
  e.changes)::new_event AS "row" FROM unnest(to_new_events.p_events) WITH ORDINALITY e(tenant_id, organization_id,
    type, subject_id, data, changes, place) ORDER BY e.place);
set local role slipway_system;
create or replace function write_jobs(p_jobs jobs[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
end $function$;
reset role;
set local role slipway_system;
revoke execute on function dispatch_jobs(uuid[]) from public;
grant execute on function dispatch_jobs(uuid[]) to slipway_agent, slipway_app;
reset role;
set local role slipway_system;
revoke execute on function insert_retry(jobs) from public;
grant execute on function insert_retry(jobs) to slipway_agent;
reset role;
set local role slipway_system;
revoke execute on function is_own_schedule(uuid) from public;
grant execute on function is_own_schedule(uuid) to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function job_obstacle(deployments) from public;
grant execute on function job_obstacle(deployments) to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function number_of_open_jobs(uuid) from public;
grant execute on function number_of_open_jobs(uuid) to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function record_sync_jobs(uuid[]) from public;
grant execute on function record_sync_jobs(uuid[]) to slipway_agent, slipway_app;
reset role;
set local role slipway_system;
revoke execute on function write_jobs(jobs[]) from public;
grant execute on function write_jobs(jobs[]) to slipway_agent, slipway_app;
reset role;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
