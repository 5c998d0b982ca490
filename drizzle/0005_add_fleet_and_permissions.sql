CREATE TABLE "deleted_deployments" (
	"id" uuid PRIMARY KEY NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"created_at" timestamp with time zone NOT NULL,
	"deleted_at" timestamp with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "sweep_runs" (
	"name" text PRIMARY KEY NOT NULL,
	"done_at" timestamp with time zone,
	"failed_at" timestamp with time zone,
	"ms" integer NOT NULL
);
--> statement-breakpoint
ALTER TABLE "api_keys" ADD COLUMN "is_verified" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "device_requests" ADD COLUMN "is_verified" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "sessions" ADD COLUMN "is_verified" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "session_minutes" ADD COLUMN "bytes" bigint;--> statement-breakpoint
CREATE INDEX "deleted_deployments_of_workspace" ON "deleted_deployments"
  USING btree ("tenant_id","deleted_at");--> statement-breakpoint
CREATE INDEX "deleted_deployments_age" ON "deleted_deployments" USING btree ("deleted_at");--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
alter table deleted_deployments enable row level security, force row level security;
create policy everything on deleted_deployments to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on deleted_deployments to slipway_system;
set local role slipway_system;
create or replace function keep_deleted_deployments()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  insert into deleted_deployments (id, organization_id, tenant_id, created_at, deleted_at)
  select d.id, d.organization_id, d.tenant_id, d.created_at, coalesce(d.deleting_at, clock())
  from removed d
  where exists (select from workspaces w where w.id = d.tenant_id);
  return null;
end $function$;
reset role;
CREATE TRIGGER keep_deleted_deployments AFTER DELETE ON public.deployments REFERENCING OLD TABLE AS removed FOR EACH
  STATEMENT EXECUTE FUNCTION keep_deleted_deployments();
set local role slipway_system;
create or replace function count_runs_of_delete()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
      declare
        v_tenant uuid := (select tenant_id from removed limit 1);
      begin
        if v_tenant is null or setting('keeps_counts') = 'true' then return null; end if;
        insert into session_minutes as m (
          organization_id, tenant_id, session_id, minute, slot, runs, roots, ended, errors, streamed, prompt_tokens,
          completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost, bytes, latencies,
          first_token_latencies, last_start_time
        )
        select
          organization_id, tenant_id, session_id, minute, take_count_slot(v_tenant), runs, roots, ended, errors,
          streamed, prompt_tokens, completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost, bytes,
          latencies, first_token_latencies, last_start_time
        from (
          select
            organization_id, tenant_id, session_id, date_bin('1 minute', order_time, 'epoch') as minute,
            sum(count) as runs,
            coalesce(sum(count) filter (where id = trace_id), 0) as roots,
            coalesce(sum(count) filter (where id = trace_id and end_time is not null), 0) as ended,
            coalesce(sum(count) filter (where id = trace_id and error is not null), 0) as errors,
            coalesce(sum(count) filter (where id = trace_id and first_token_time is not null), 0) as streamed,
            coalesce(sum(count * prompt_tokens), 0) as prompt_tokens,
            coalesce(sum(count * completion_tokens), 0) as completion_tokens,
            coalesce(sum(count * total_tokens), 0) as total_tokens,
            coalesce(sum(count * prompt_cost), 0) as prompt_cost,
            coalesce(sum(count * completion_cost), 0) as completion_cost,
            coalesce(sum(count * total_cost), 0) as total_cost,
            sum(
              count * (
                coalesce(octet_length(extra), 0) + coalesce(octet_length(serialized), 0)
                + coalesce(octet_length(inputs), 0) + coalesce(octet_length(outputs), 0)
                + coalesce(octet_length(events), 0) + coalesce(octet_length(error), 0)
                + case when objects is null then 0 else object_bytes(objects) end
              )
            ) as bytes,
            count_buckets(latency_bucket(start_time, end_time), count) filter (
              where id = trace_id and end_time >= start_time
            ) as latencies,
            count_buckets(latency_bucket(start_time, first_token_time), count) filter (
              where id = trace_id and first_token_time >= start_time
            ) as first_token_latencies,
            max(start_time) filter (where count = 1) as last_start_time
          from (select *, -1 as count from removed) changes
          where name is not null and run_type is not null
          group by organization_id, tenant_id, session_id, date_bin('1 minute', order_time, 'epoch')
        ) sums
        where (
            runs, roots, ended, errors, streamed, prompt_tokens, completion_tokens, total_tokens, prompt_cost,
            completion_cost, total_cost, bytes
          ) <> (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
          or 0 <> any(latencies || first_token_latencies)
        order by session_id, minute
        on conflict (tenant_id, session_id, minute, slot) do update set
          runs = m.runs + excluded.runs,
          roots = m.roots + excluded.roots,
          ended = m.ended + excluded.ended,
          errors = m.errors + excluded.errors,
          streamed = m.streamed + excluded.streamed,
          prompt_tokens = m.prompt_tokens + excluded.prompt_tokens,
          completion_tokens = m.completion_tokens + excluded.completion_tokens,
          total_tokens = m.total_tokens + excluded.total_tokens,
          prompt_cost = m.prompt_cost + excluded.prompt_cost,
          completion_cost = m.completion_cost + excluded.completion_cost,
          total_cost = m.total_cost + excluded.total_cost,
          bytes = m.bytes + excluded.bytes,
          latencies = add_counts(m.latencies, excluded.latencies),
          first_token_latencies = add_counts(m.first_token_latencies, excluded.first_token_latencies),
          last_start_time = greatest(m.last_start_time, excluded.last_start_time);
        return null;
      end $function$;
reset role;
set local role slipway_system;
create or replace function count_runs_of_insert()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
      declare
        v_tenant uuid := (select tenant_id from added limit 1);
      begin
        if v_tenant is null or setting('keeps_counts') = 'true' then return null; end if;
        insert into session_minutes as m (
          organization_id, tenant_id, session_id, minute, slot, runs, roots, ended, errors, streamed, prompt_tokens,
          completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost, bytes, latencies,
          first_token_latencies, last_start_time
        )
        select
          organization_id, tenant_id, session_id, minute, take_count_slot(v_tenant), runs, roots, ended, errors,
          streamed, prompt_tokens, completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost, bytes,
          latencies, first_token_latencies, last_start_time
        from (
          select
            organization_id, tenant_id, session_id, date_bin('1 minute', order_time, 'epoch') as minute,
            sum(count) as runs,
            coalesce(sum(count) filter (where id = trace_id), 0) as roots,
            coalesce(sum(count) filter (where id = trace_id and end_time is not null), 0) as ended,
            coalesce(sum(count) filter (where id = trace_id and error is not null), 0) as errors,
            coalesce(sum(count) filter (where id = trace_id and first_token_time is not null), 0) as streamed,
            coalesce(sum(count * prompt_tokens), 0) as prompt_tokens,
            coalesce(sum(count * completion_tokens), 0) as completion_tokens,
            coalesce(sum(count * total_tokens), 0) as total_tokens,
            coalesce(sum(count * prompt_cost), 0) as prompt_cost,
            coalesce(sum(count * completion_cost), 0) as completion_cost,
            coalesce(sum(count * total_cost), 0) as total_cost,
            sum(
              count * (
                coalesce(octet_length(extra), 0) + coalesce(octet_length(serialized), 0)
                + coalesce(octet_length(inputs), 0) + coalesce(octet_length(outputs), 0)
                + coalesce(octet_length(events), 0) + coalesce(octet_length(error), 0)
                + case when objects is null then 0 else object_bytes(objects) end
              )
            ) as bytes,
            count_buckets(latency_bucket(start_time, end_time), count) filter (
              where id = trace_id and end_time >= start_time
            ) as latencies,
            count_buckets(latency_bucket(start_time, first_token_time), count) filter (
              where id = trace_id and first_token_time >= start_time
            ) as first_token_latencies,
            max(start_time) filter (where count = 1) as last_start_time
          from (select *, 1 as count from added) changes
          where name is not null and run_type is not null
          group by organization_id, tenant_id, session_id, date_bin('1 minute', order_time, 'epoch')
        ) sums
        where (
            runs, roots, ended, errors, streamed, prompt_tokens, completion_tokens, total_tokens, prompt_cost,
            completion_cost, total_cost, bytes
          ) <> (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
          or 0 <> any(latencies || first_token_latencies)
        order by session_id, minute
        on conflict (tenant_id, session_id, minute, slot) do update set
          runs = m.runs + excluded.runs,
          roots = m.roots + excluded.roots,
          ended = m.ended + excluded.ended,
          errors = m.errors + excluded.errors,
          streamed = m.streamed + excluded.streamed,
          prompt_tokens = m.prompt_tokens + excluded.prompt_tokens,
          completion_tokens = m.completion_tokens + excluded.completion_tokens,
          total_tokens = m.total_tokens + excluded.total_tokens,
          prompt_cost = m.prompt_cost + excluded.prompt_cost,
          completion_cost = m.completion_cost + excluded.completion_cost,
          total_cost = m.total_cost + excluded.total_cost,
          bytes = m.bytes + excluded.bytes,
          latencies = add_counts(m.latencies, excluded.latencies),
          first_token_latencies = add_counts(m.first_token_latencies, excluded.first_token_latencies),
          last_start_time = greatest(m.last_start_time, excluded.last_start_time);
        return null;
      end $function$;
reset role;
set local role slipway_system;
create or replace function count_runs_of_update()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
      declare
        v_tenant uuid := (select tenant_id from added limit 1);
      begin
        if v_tenant is null or setting('keeps_counts') = 'true' then return null; end if;
        insert into session_minutes as m (
          organization_id, tenant_id, session_id, minute, slot, runs, roots, ended, errors, streamed, prompt_tokens,
          completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost, bytes, latencies,
          first_token_latencies, last_start_time
        )
        select
          organization_id, tenant_id, session_id, minute, take_count_slot(v_tenant), runs, roots, ended, errors,
          streamed, prompt_tokens, completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost, bytes,
          latencies, first_token_latencies, last_start_time
        from (
          select
            organization_id, tenant_id, session_id, date_bin('1 minute', order_time, 'epoch') as minute,
            sum(count) as runs,
            coalesce(sum(count) filter (where id = trace_id), 0) as roots,
            coalesce(sum(count) filter (where id = trace_id and end_time is not null), 0) as ended,
            coalesce(sum(count) filter (where id = trace_id and error is not null), 0) as errors,
            coalesce(sum(count) filter (where id = trace_id and first_token_time is not null), 0) as streamed,
            coalesce(sum(count * prompt_tokens), 0) as prompt_tokens,
            coalesce(sum(count * completion_tokens), 0) as completion_tokens,
            coalesce(sum(count * total_tokens), 0) as total_tokens,
            coalesce(sum(count * prompt_cost), 0) as prompt_cost,
            coalesce(sum(count * completion_cost), 0) as completion_cost,
            coalesce(sum(count * total_cost), 0) as total_cost,
            sum(
              count * (
                coalesce(octet_length(extra), 0) + coalesce(octet_length(serialized), 0)
                + coalesce(octet_length(inputs), 0) + coalesce(octet_length(outputs), 0)
                + coalesce(octet_length(events), 0) + coalesce(octet_length(error), 0)
                + case when objects is null then 0 else object_bytes(objects) end
              )
            ) as bytes,
            count_buckets(latency_bucket(start_time, end_time), count) filter (
              where id = trace_id and end_time >= start_time
            ) as latencies,
            count_buckets(latency_bucket(start_time, first_token_time), count) filter (
              where id = trace_id and first_token_time >= start_time
            ) as first_token_latencies,
            max(start_time) filter (where count = 1) as last_start_time
          from (select *, 1 as count from added union all select *, -1 from removed) changes
          where name is not null and run_type is not null
          group by organization_id, tenant_id, session_id, date_bin('1 minute', order_time, 'epoch')
        ) sums
        where (
            runs, roots, ended, errors, streamed, prompt_tokens, completion_tokens, total_tokens, prompt_cost,
            completion_cost, total_cost, bytes
          ) <> (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
          or 0 <> any(latencies || first_token_latencies)
        order by session_id, minute
        on conflict (tenant_id, session_id, minute, slot) do update set
          runs = m.runs + excluded.runs,
          roots = m.roots + excluded.roots,
          ended = m.ended + excluded.ended,
          errors = m.errors + excluded.errors,
          streamed = m.streamed + excluded.streamed,
          prompt_tokens = m.prompt_tokens + excluded.prompt_tokens,
          completion_tokens = m.completion_tokens + excluded.completion_tokens,
          total_tokens = m.total_tokens + excluded.total_tokens,
          prompt_cost = m.prompt_cost + excluded.prompt_cost,
          completion_cost = m.completion_cost + excluded.completion_cost,
          total_cost = m.total_cost + excluded.total_cost,
          bytes = m.bytes + excluded.bytes,
          latencies = add_counts(m.latencies, excluded.latencies),
          first_token_latencies = add_counts(m.first_token_latencies, excluded.first_token_latencies),
          last_start_time = greatest(m.last_start_time, excluded.last_start_time);
        return null;
      end $function$;
reset role;
alter table sweep_runs enable row level security, force row level security;
create policy everything on sweep_runs to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on sweep_runs to slipway_system;
set local role slipway_system;
create or replace function decide_device_request(p_user_code text, p_tenant uuid, p_role uuid)
 RETURNS SETOF device_requests
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_request device_requests;
  v_permissions text[];
begin
  select * into v_request from find_device_request(p_user_code);
  if not found then return; end if;
  if p_tenant is not null then
    v_permissions := device_permissions(v_request, p_tenant, p_role);
    if v_permissions is null then perform refuse('workspace_forbidden'); end if;
    -- Approving takes no permission to create keys, so it must not use up the limit of the workspace.
    if 100 <= (
      select count(*)
      from api_keys a
      where a.member_id = current_actor() and a.tenant_id = p_tenant
        and a.created_by is null and a.revoked_at is null and a.expires_at > clock()
    ) then
      perform refuse('quota_full', '100 api keys of a member');
    end if;
  end if;
  return query
  update device_requests d
  set organization_id = current_organization(), member_id = current_actor(), tenant_id = p_tenant, role_id = p_role,
    permissions = v_permissions, decided_at = clock(),
    is_verified = exists (select from sessions s where s.id = setting('session_id')::uuid and s.is_verified)
  where d.id = v_request.id and d.decided_at is null
  returning d.*;
end $function$;
reset role;
create or replace function fleet_queues(p_organization uuid)
 RETURNS json
 LANGUAGE sql
 STABLE
AS $function$
  with waiting (name, since) as (
    (
      select 'webhook_deliveries', q.next_attempt_at
      from webhook_deliveries q
      where q.state = 'waiting' and (p_organization is null or q.organization_id = p_organization)
      limit 10000
    )
    union all
    (
      select 'githost_deliveries', q.next_attempt_at
      from githost_deliveries q
      where q.state = 'waiting' and p_organization is null
      limit 10000
    )
    union all
    (
      select 'preview_hooks', q.next_attempt_at
      from preview_hooks q
      where p_organization is null or q.organization_id = p_organization
      limit 10000
    )
    union all
    (
      select 'rule_evaluations', q.next_attempt_at
      from rule_evaluations q
      where q.state = 'waiting' and (p_organization is null or q.organization_id = p_organization)
      limit 10000
    )
    union all
    (
      select 'insight_jobs', q.created_at
      from insight_jobs q
      where q.status in ('queued', 'running') and (p_organization is null or q.organization_id = p_organization)
      limit 10000
    )
    union all
    (
      select 'revisions', q.status_since
      from revisions q
      where q.status in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING')
        and (p_organization is null or q.organization_id = p_organization)
      limit 10000
    )
  )
  select json_agg(
    json_build_object(
      'name', n.name,
      'waiting', (select count(*) from waiting w where w.name = n.name),
      'oldest_seconds', (
        select greatest(0, extract(epoch from clock() - min(w.since)))::bigint from waiting w where w.name = n.name
      )
    )
    order by n.place
  )
  from unnest(array[
    'revisions', 'webhook_deliveries', 'githost_deliveries', 'preview_hooks', 'rule_evaluations', 'insight_jobs'
  ]) with ordinality as n(name, place)
  where p_organization is null or n.name <> 'githost_deliveries'
$function$;
create or replace function fleet_scope(p_admins text[])
 RETURNS uuid
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if p_admins is null then return current_organization(); end if;
  perform require_instance_admin(p_admins);
  return null;
end $function$;
create or replace function fleet_statuses(p_tenant uuid)
 RETURNS json
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce(json_object_agg(status, count), '{}')
  from (
    select d.status, count(*) as count
    from deployments d
    where d.tenant_id = p_tenant
    group by d.status
  ) counted
$function$;
create or replace function fleet_traces(p_tenant uuid, p_since timestamp with time zone)
 RETURNS TABLE(traces bigint, bytes bigint)
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce(sum(m.roots), 0)::bigint, greatest(coalesce(sum(m.bytes), 0), 0)::bigint
  from projects p
  join session_minutes m on m.tenant_id = p.tenant_id and m.session_id = p.id and m.minute >= p_since
  where p.tenant_id = p_tenant
$function$;
set local role slipway_system;
create or replace function is_instance_admin(p_addresses text[])
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select exists (
    select from members m
    where m.email = any(p_addresses)
      and m.id = case setting('actor_kind')
        when 'session'
          then (select s.member_id from sessions s where s.id = setting('session_id')::uuid and s.is_verified)
        when 'key' then (select a.member_id from api_keys a where a.id = current_actor() and a.is_verified)
      end
  )
$function$;
reset role;
set local role slipway_system;
create or replace function is_verified_member(p_member uuid)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select exists (
    select from members m
    where m.id = p_member and m.organization_id = current_organization()
      and (
        exists (select from identities i where i.member_id = m.id)
        or exists (select from sessions s where s.member_id = m.id and s.is_verified)
      )
  )
$function$;
reset role;
create or replace function object_bytes(p_objects json)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (SELECT COALESCE(sum(((size.size)::text)::bigint), (0)::numeric) AS "coalesce" FROM
  jsonb_path_query((object_bytes.p_objects)::jsonb, '$.**."bytes"?(@.type() == "number")'::jsonpath) size(size));
create or replace function open_session(p_member uuid, p_token_hash text, p_method text, p_limit bigint)
 RETURNS sessions
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_session sessions;
begin
  perform act_as_member(p_member);
  insert into sessions (organization_id, member_id, token_hash, method, is_verified, client_address, user_agent)
  values (
    current_organization(), p_member, p_token_hash, p_method, p_method = 'oidc',
    setting('request')::json ->> 'client_address', setting('request')::json ->> 'user_agent'
  )
  returning * into v_session;
  perform journal(
    array['session.opened'], array[v_session.id], array[json_build_object('method', p_method)],
    array[changed_members(null, jsonb_build_object('method', p_method, 'expires_at', v_session.expires_at))],
    p_limit, 0
  );
  return v_session;
end $function$;
set local role slipway_system;
create or replace function read_fleet(p_admins text[], p_silent interval, p_since timestamp with time zone,
  p_traces boolean)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_organization uuid := fleet_scope(p_admins);
  v_tenants uuid[] := array(
    select w.id
    from workspaces w
    where v_organization is null
      or w.organization_id = v_organization and (current_tenant() is null or w.id = current_tenant())
  );
begin
  return json_build_object(
    'organizations', case when v_organization is null then (select count(*) from organizations) else 1 end,
    'workspaces', cardinality(v_tenants),
    'members', (select count(*) from members m where v_organization is null or m.organization_id = v_organization),
    'listeners', (
      select json_build_object(
        'total', count(*),
        'silent', count(*) filter (where coalesce(l.last_seen_at, l.created_at) <= clock() - p_silent)
      )
      from listeners l
      where v_organization is null or l.tenant_id = any(v_tenants)
    ),
    'agents', (
      select coalesce(json_agg(v order by v.listeners desc, v.version), '[]')
      from (
        select l.agent_version as version, count(*) as listeners
        from listeners l
        where v_organization is null or l.tenant_id = any(v_tenants)
        group by l.agent_version
        order by count(*) desc
        limit 100
      ) v
    ),
    'deployments', (
      select json_build_object(
        'total', coalesce(sum(s.count), 0),
        'unhealthy', coalesce(sum(s.unhealthy), 0),
        'not_reconciled', coalesce(sum(s.not_reconciled), 0),
        'by_status', coalesce(json_object_agg(s.status, s.count) filter (where s.status is not null), '{}')
      )
      from (
        select
          d.status,
          count(*) as count,
          count(*) filter (where d.healthy = false) as unhealthy,
          count(*) filter (where not d.remote_reconciled) as not_reconciled
        from deployments d
        where v_organization is null or d.tenant_id = any(v_tenants)
        group by d.status
      ) s
    ),
    'queues', fleet_queues(v_organization),
    'sweeps', (select coalesce(json_agg(to_json(s) order by s.name), '[]') from sweep_runs s),
    'applied', (select max(created_at) from drizzle.__drizzle_migrations),
    'storage', json_build_object(
      'archives_bytes', (
        select coalesce(sum(u.size), 0) from uploads u where v_organization is null or u.tenant_id = any(v_tenants)
      ),
      'attachments_bytes', (
        select coalesce(sum(o.bytes), 0)
        from example_objects o
        where v_organization is null or o.tenant_id = any(v_tenants)
      ),
      'database_bytes', case when v_organization is null then pg_database_size(current_database()) end
    ),
    'usage', (
      select json_build_object('traces', coalesce(sum(t.traces), 0), 'bytes', coalesce(sum(t.bytes), 0))
      from unnest(v_tenants) w(id)
      cross join lateral fleet_traces(w.id, p_since) t
      where p_traces
    )
  );
end $function$;
reset role;
set local role slipway_system;
create or replace function read_fleet_listeners(p_admins text[], p_silent interval, p_at timestamp with time zone,
  p_id uuid, p_limit integer, p_offset integer)
 RETURNS SETOF json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_organization uuid := fleet_scope(p_admins);
begin
  return query
  select json_build_object(
    'id', l.id,
    'organization_id', l.organization_id,
    'organization_name', (select o.display_name from organizations o where o.id = l.organization_id),
    'workspace_id', l.tenant_id,
    'workspace_name', (select w.display_name from workspaces w where w.id = l.tenant_id),
    'compute_type', l.compute_type,
    'compute_id', l.compute_id,
    'agent_id', l.agent_id,
    'version', l.agent_version,
    'is_silent', coalesce(l.last_seen_at, l.created_at) <= clock() - p_silent,
    'last_seen_at', l.last_seen_at,
    'deployments', (select count(*) from deployments d where d.listener_id = l.id),
    'created_at', l.created_at::text
  )
  from (
    select *
    from listeners a
    where (
        v_organization is null
        or a.organization_id = v_organization and a.tenant_id = coalesce(current_tenant(), a.tenant_id)
      )
      and (p_id is null or (a.created_at, a.id) < (p_at, p_id))
    order by a.created_at desc, a.id desc
    limit p_limit
    offset p_offset
  ) l
  order by l.created_at desc, l.id desc;
end $function$;
reset role;
set local role slipway_system;
create or replace function read_fleet_organizations(p_admins text[], p_at timestamp with time zone, p_id uuid,
  p_limit integer, p_offset integer)
 RETURNS SETOF json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  perform require_instance_admin(p_admins);
  return query
  select json_build_object(
    'id', o.id,
    'display_name', o.display_name,
    'created_at', o.created_at::text,
    'workspaces', (select count(*) from workspaces w where w.organization_id = o.id),
    'members', (select count(*) from members m where m.organization_id = o.id),
    'listeners', (select count(*) from listeners l where l.organization_id = o.id),
    'deployments', (
      select count(*) from workspaces w join deployments d on d.tenant_id = w.id where w.organization_id = o.id
    )
  )
  from (
    select *
    from organizations a
    where p_id is null or (a.created_at, a.id) < (p_at, p_id)
    order by a.created_at desc, a.id desc
    limit p_limit
    offset p_offset
  ) o
  order by o.created_at desc, o.id desc;
end $function$;
reset role;
set local role slipway_system;
create or replace function read_fleet_workspaces(p_admins text[], p_since timestamp with time zone,
  p_traces boolean, p_at timestamp with time zone, p_id uuid, p_limit integer, p_offset integer)
 RETURNS SETOF json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_organization uuid := fleet_scope(p_admins);
begin
  return query
  select json_build_object(
    'id', w.id,
    'display_name', w.display_name,
    'organization_id', w.organization_id,
    'organization_name', (select o.display_name from organizations o where o.id = w.organization_id),
    'created_at', w.created_at::text,
    'members', (select count(*) from workspace_members m where m.tenant_id = w.id),
    'listeners', (select count(*) from listeners l where l.tenant_id = w.id),
    'deployments', fleet_statuses(w.id),
    'storage_bytes', (select coalesce(sum(u.size), 0) from uploads u where u.tenant_id = w.id)
      + (select coalesce(sum(e.bytes), 0) from example_objects e where e.tenant_id = w.id),
    'usage', (select to_json(t) from fleet_traces(w.id, p_since) t where p_traces)
  )
  from (
    select *
    from workspaces a
    where (
        v_organization is null
        or a.organization_id = v_organization and (current_tenant() is null or a.id = current_tenant())
      )
      and (p_id is null or (a.created_at, a.id) < (p_at, p_id))
    order by a.created_at desc, a.id desc
    limit p_limit
    offset p_offset
  ) w
  order by w.created_at desc, w.id desc;
end $function$;
reset role;
set local role slipway_system;
create or replace function read_usage(p_admins text[], p_everywhere boolean, p_start date, p_end date,
  p_traces boolean, p_after uuid, p_limit integer)
 RETURNS TABLE(organization_id uuid, organization_name text, workspace_id uuid, workspace_name text, day date,
  traces bigint, bytes bigint, deployments bigint)
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_organization uuid;
begin
  if p_everywhere then
    perform require_instance_admin(p_admins);
  else
    v_organization := current_organization();
    if not 'organization:manage' = any(actor_permissions()) and not is_instance_admin(p_admins) then
      perform refuse('usage_forbidden');
    end if;
  end if;
  return query
  with chosen as materialized (
    select w.id, w.organization_id, w.display_name
    from workspaces w
    where (
        v_organization is null
        or w.organization_id = v_organization and (current_tenant() is null or w.id = current_tenant())
      )
      and (p_after is null or w.id > p_after)
    order by w.id
    limit p_limit
  ),
  traced as (
    select
      m.tenant_id, (m.minute at time zone 'utc')::date as day, sum(m.roots)::bigint as traces,
      greatest(sum(m.bytes), 0)::bigint as bytes
    from chosen c
    join session_minutes m on m.tenant_id = c.id
    where p_traces
      and m.minute >= p_start::timestamp at time zone 'utc'
      and m.minute < (p_end + 1)::timestamp at time zone 'utc'
    group by m.tenant_id, 2
  )
  select
    c.organization_id,
    o.display_name,
    c.id,
    c.display_name,
    d.day,
    case when p_traces then coalesce(t.traces, 0) end,
    case when p_traces and t.day is null then 0 else t.bytes end,
    (
      select count(*)
      from deployments e
      where e.tenant_id = c.id and e.created_at < ends.at and (e.deleting_at is null or e.deleting_at >= ends.at)
    ) + (
      select count(*)
      from deleted_deployments e
      where e.tenant_id = c.id and e.created_at < ends.at and e.deleted_at >= ends.at
    )
  from chosen c
  join organizations o on o.id = c.organization_id
  cross join lateral (select p_start + n as day from generate_series(0, p_end - p_start) n) d
  cross join lateral (select least((d.day + 1)::timestamp at time zone 'utc', clock()) as at) ends
  left join traced t on t.tenant_id = c.id and t.day = d.day
  order by c.id, d.day;
end $function$;
reset role;
create or replace function redeem_device_code(p_device_code_hash text, p_key_hash text, p_hint text, p_limit bigint)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_request device_requests;
  v_polled device_requests;
  v_key api_keys;
begin
  -- The rows that the deletion of a member or a workspace locks before the request are locked first, in its order.
  perform from members m
  where m.id = (select d.member_id from device_requests d where d.device_code_hash = p_device_code_hash)
  for key share;
  perform from workspaces w
  where w.id = (select d.tenant_id from device_requests d where d.device_code_hash = p_device_code_hash)
  for key share;
  select * into v_request from device_requests where device_code_hash = p_device_code_hash for update;
  if not found then return json_build_object('error', 'invalid_grant'); end if;
  if v_request.expires_at <= clock() then return json_build_object('error', 'expired_token'); end if;
  if v_request.decided_at is null then
    update device_requests d
    set
      polled_at = clock(),
      -- A delay in the network can make it a second early.
      interval_seconds = d.interval_seconds
        + case when d.polled_at > clock() - make_interval(secs => d.interval_seconds - 1) then 5 else 0 end
    where d.id = v_request.id
    returning * into v_polled;
    return json_build_object(
      'error',
      case
        when v_polled.interval_seconds > v_request.interval_seconds then 'slow_down'
        else 'authorization_pending'
      end
    );
  end if;
  if v_request.tenant_id is null then return json_build_object('error', 'access_denied'); end if;

  -- The key by whose link the member had signed in has ended.
  if is_maker_ended(v_request.made_by_key) then return json_build_object('error', 'access_denied'); end if;

  perform act_as_member(v_request.member_id);
  perform set_config('app.tenant_id', v_request.tenant_id::text, true);
  delete from device_requests d where d.id = v_request.id;
  insert into api_keys (
    organization_id, tenant_id, member_id, description, hint, key_hash, role_id, permissions, expires_at, created_by,
    is_verified
  )
  values (
    v_request.organization_id, v_request.tenant_id, v_request.member_id,
    'Command line' || coalesce(' on ' || v_request.device_name, ''),
    p_hint, p_key_hash, v_request.role_id, v_request.permissions,
    bound_expiry(clock() + interval '90 days', v_request.made_by_key), v_request.made_by_key,
    v_request.is_verified
  )
  returning * into v_key;
  -- The member has lost the workspace since the approval.
  if bound_key_permissions(v_key.id) is null then
    delete from api_keys where id = v_key.id;
    return json_build_object('error', 'access_denied');
  end if;
  perform journal(
    array['api_key.created'], array[v_key.id], array[json_build_object('member_id', v_key.member_id)],
    array[changed_members(null, jsonb_build_object(
      'description', v_key.description, 'role_id', v_key.role_id, 'permissions', v_key.permissions,
      'expires_at', v_key.expires_at, 'created_by', v_key.created_by, 'member_id', v_key.member_id
    ))],
    p_limit, 0
  );
  return json_build_object(
    'api_key_id', v_key.id,
    'workspace_id', v_key.tenant_id,
    'organization_id', v_key.organization_id,
    'permissions', v_key.permissions,
    'expires_in', extract(epoch from v_key.expires_at - clock())::integer
  );
end $function$;
create or replace function require_instance_admin(p_addresses text[])
 RETURNS void
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if not is_instance_admin(p_addresses) then perform refuse('instance_admin_required'); end if;
end $function$;
create or replace function use_sign_in_link(p_link_hash text, p_token_hash text, p_limit bigint)
 RETURNS sessions
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_link sign_in_links;
  v_session sessions;
  v_is_ended boolean;
begin
  -- The member is locked first, as by its deletion.
  perform from members m
  where m.id = (select l.member_id from sign_in_links l where l.token_hash = p_link_hash)
  for key share;
  select * into v_link from sign_in_links where token_hash = p_link_hash for update;
  if not found then return null; end if;
  v_is_ended := v_link.made_by is not null and not is_living_credential(v_link.made_by);
  if v_link.used_at is not null or v_link.expires_at <= clock() or v_is_ended then
    perform journal_refused_sign_in(
      v_link.organization_id, v_link.member_id,
      json_build_object('method', 'link', 'reason', case
        when v_link.used_at is not null then 'used'
        when v_link.expires_at <= clock() then 'expired'
        else 'revoked'
      end),
      p_limit
    );
    return null;
  end if;
  update sign_in_links set used_at = clock() where id = v_link.id;
  v_session := open_session(v_link.member_id, p_token_hash, 'link', p_limit);
  update sessions s
  set made_by = maker_of_session(v_link.made_by, v_link.member_id), is_verified = v_link.made_by is null
  where s.id = v_session.id
  returning * into v_session;
  return v_session;
end $function$;
set local role slipway_system;
revoke execute on function is_instance_admin(text[]) from public;
grant execute on function is_instance_admin(text[]) to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function is_verified_member(uuid) from public;
grant execute on function is_verified_member(uuid) to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function keep_deleted_deployments() from public;
reset role;
set local role slipway_system;
revoke execute on function read_fleet(text[], interval, timestamp with time zone, boolean) from public;
grant execute on function read_fleet(text[], interval, timestamp with time zone, boolean) to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function read_fleet_listeners(text[], interval, timestamp with time zone, uuid, integer, integer)
  from public;
grant execute on function read_fleet_listeners(text[], interval, timestamp with time zone, uuid, integer, integer)
  to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function read_fleet_organizations(text[], timestamp with time zone, uuid, integer, integer) from
  public;
grant execute on function read_fleet_organizations(text[], timestamp with time zone, uuid, integer, integer) to
  slipway_app;
reset role;
set local role slipway_system;
revoke execute on function read_fleet_workspaces(text[], timestamp with time zone, boolean, timestamp with time
  zone, uuid, integer, integer) from public;
grant execute on function read_fleet_workspaces(text[], timestamp with time zone, boolean, timestamp with time zone,
  uuid, integer, integer) to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function read_usage(text[], boolean, date, date, boolean, uuid, integer) from public;
grant execute on function read_usage(text[], boolean, date, date, boolean, uuid, integer) to slipway_app;
reset role;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
--> statement-breakpoint
-- Written by hand from here. The built-in and custom roles that could do the same before.
set local role slipway_system;
--> statement-breakpoint
with split (old, new) as (
  values
    ('api-keys:create', 'workspaces:manage-keys'),
    ('feedback:create', 'feedback-configs:create'),
    ('feedback:update', 'feedback-configs:update'),
    ('feedback:delete', 'feedback-configs:delete')
)
update roles r
set
  permissions = r.permissions || array(
    select s.new from split s where s.old = any(r.permissions) and s.new <> all(r.permissions)
  ),
  version = r.version + 1
where exists (select from split s where s.old = any(r.permissions) and s.new <> all(r.permissions));
--> statement-breakpoint
-- It gated nothing, and is of the organization now, which a role of a workspace cannot have. Nobody gets to see the
-- other workspaces of an organization by it: its admins grant that with a role of the organization.
update roles
set permissions = array_remove(permissions, 'fleet-admin:read'), version = version + 1
where scope = 'workspace' and 'fleet-admin:read' = any(permissions);
--> statement-breakpoint
reset role;
--> statement-breakpoint
--> batches
with split (old, new) as (
  values
    ('api-keys:create', 'workspaces:manage-keys'),
    ('feedback:create', 'feedback-configs:create'),
    ('feedback:update', 'feedback-configs:update'),
    ('feedback:delete', 'feedback-configs:delete')
)
update api_keys a
set permissions = a.permissions || array(
  select s.new from split s where s.old = any(a.permissions) and s.new <> all(a.permissions)
)
where a.id in (
  select k.id
  from api_keys k
  where exists (select from split s where s.old = any(k.permissions) and s.new <> all(k.permissions))
  limit 1000
);
--> statement-breakpoint
--> batches
update api_keys
set permissions = array_remove(permissions, 'fleet-admin:read')
where id in (
  select id
  from api_keys
  where tenant_id is not null and 'fleet-admin:read' = any(permissions) and permissions <> '{fleet-admin:read}'
  limit 1000
);
--> statement-breakpoint
--> batches
update sessions
set is_verified = true
where id in (select id from sessions where method = 'oidc' and not is_verified limit 1000);
