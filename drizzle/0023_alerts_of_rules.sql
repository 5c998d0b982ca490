ALTER TABLE "metric_points" ADD COLUMN "queue" bigint;--> statement-breakpoint
ALTER TABLE "workspaces" ADD COLUMN "owner_channel_at" timestamp with time zone;--> statement-breakpoint
CREATE INDEX "workspaces_without_owner_channel" ON "workspaces" USING btree ("created_at")
  WHERE owner_channel_at is null;--> statement-breakpoint
-- By hand: the lines that a busy application replaces are more than the vacuum removes at its usual pace.
ALTER TABLE "log_lines" SET (autovacuum_vacuum_cost_delay = 0);--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
drop trigger enforce_quota on channels;
revoke all on metric_points from slipway_agent;
set local role slipway_system;
grant execute on function enforce_quota() to session_user;
reset role;
CREATE TRIGGER enforce_quota AFTER INSERT ON public.channels REFERENCING NEW TABLE AS added FOR EACH STATEMENT
  EXECUTE FUNCTION enforce_quota('tenant_id', '200', 'run_rule_id is null', 'channels');
set local role slipway_system;
revoke execute on function enforce_quota() from session_user;
reset role;
grant insert, select, update (cpu_minutes, memory_minutes, copies, memory_peak_bytes, restarts, cpu_ms, memory_bytes,
  unreached, status_1xx, status_2xx, status_3xx, status_4xx, status_5xx, latency_1, latency_2, latency_5, latency_10,
  latency_20, latency_50, latency_100, latency_200, latency_500, latency_1000, latency_2000, latency_5000,
  latency_10000, latency_20000, latency_60000, latency_more, queue) on metric_points to slipway_agent;
set local role slipway_system;
create or replace function delete_channels_of_alerts()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  delete from channels c
  where c.run_rule_id = new.id
    and not exists (select from json_array_elements(new.alerts) a where a ->> 'id' = c.id::text);
  return null;
end $function$;
reset role;
CREATE TRIGGER delete_channels_of_alerts AFTER UPDATE OF alerts ON public.run_rules FOR EACH ROW EXECUTE
  FUNCTION delete_channels_of_alerts();
set local role slipway_system;
create or replace function add_default_alert_rules()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
end $function$;
reset role;
create or replace function apply_alert_decisions(p_decisions jsonb)
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
end $function$;
create or replace function begin_incident(i incidents)
 RETURNS incidents
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
end $function$;
set local role slipway_system;
create or replace function default_channel_count()
 RETURNS bigint
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select count(*)
  from channels c
  where c.tenant_id = current_tenant() and c.is_default and c.enabled and c.confirmed_at is not null
$function$;
reset role;
create or replace function opened_event(i incidents)
 RETURNS tenant_event
 LANGUAGE sql
 STABLE
RETURN incident_event(i, 'incident.opened'::text,
  CASE WHEN ((i).reopened > 0) THEN 'resolved'::text ELSE NULL::text END);
set local role slipway_system;
create or replace function raise_incident_of_run_rule(p_rule uuid, p_raised jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
end $function$;
reset role;
create or replace function resolve_quiet_run_rules()
 RETURNS SETOF uuid
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
end $function$;
set local role slipway_system;
revoke execute on function default_channel_count() from public;
grant execute on function default_channel_count() to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function delete_channels_of_alerts() from public;
reset role;
set local role slipway_system;
revoke execute on function raise_incident_of_run_rule(uuid, jsonb) from public;
grant execute on function raise_incident_of_run_rule(uuid, jsonb) to slipway_app;
reset role;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
