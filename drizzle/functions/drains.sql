-- Drains of agents: a poll offers them, a report adds to their counts. The slice is src/hosting/drains/.

-- The deployments of a drain on a listener. Null: all of the workspace.
create function drained_deployments(d drains, p_listener uuid) returns uuid[]
language sql stable
return case
  when d.deployment_ids = '{}' and d.tag_value_ids = '{}' then null
  else array(
    select x.id
    from deployments x
    where x.tenant_id = d.tenant_id
      and x.listener_id = p_listener
      and x.deleting_at is null
      and (x.id = any(d.deployment_ids) or x.tag_value_ids && d.tag_value_ids)
    order by x.id
    limit 10000
  )
end;

-- The drains of the workspaces that a listener serves, as `StoredDrains` of src/hosting/sync/drains.ts. Without the
-- list if the agent has it: `p_digest` is that of its drains. Null if it does not know drains.
create function offer_drains(p_listener listeners, p_digest text) returns json
language plpgsql stable security definer set search_path = public, pg_temp
set plan_cache_mode = force_generic_plan as $$
declare
  v_list json;
  v_digest text;
begin
  if p_digest is null then return null; end if;
  with served as (
    select d as drain, drained_deployments(d, p_listener.id) as deployment_ids
    from drains d
    where d.enabled
      and d.signals && '{logs,requests,metrics}'
      and (p_listener.tenant_id is null or d.tenant_id = p_listener.tenant_id)
      and exists (
        select from deployments x
        where x.tenant_id = d.tenant_id and x.listener_id = p_listener.id and x.deleting_at is null
      )
    -- The first of each workspace before the second of any: no workspace takes the room of others.
    order by row_number() over (partition by d.tenant_id order by d.created_at, d.id), d.created_at, d.id
    limit 500
  )
  select
    json_agg(json_build_object(
      'id', (s.drain).id,
      'tenant_id', (s.drain).tenant_id,
      'kind', (s.drain).kind,
      'url', (s.drain).url,
      'compression', (s.drain).compression,
      'signals', array(
        select g from unnest((s.drain).signals) g where g in ('logs', 'requests', 'metrics')
      ),
      'deployment_ids', s.deployment_ids,
      'filter', json_build_object(
        'min_level', (s.drain).min_level,
        'processes', (s.drain).processes,
        'contains', (s.drain).contains
      ),
      'sampling_rate', (s.drain).sampling_rate,
      'headers', (s.drain).headers
    )),
    coalesce(md5(string_agg(
      concat_ws(' ', (s.drain).id, (s.drain).version, array_to_string(s.deployment_ids, ',')), E'\n'
    )), '')
  into v_list, v_digest
  from served s;
  return json_build_object(
    'digest', v_digest,
    'list', case when v_digest is distinct from p_digest then coalesce(v_list, '[]') end
  );
end $$;
grant execute on function offer_drains(listeners, text) to slipway_agent;

-- Counts of an epoch are totals, so a repeated report adds nothing. An agent reports drains that it was given alone.
create function report_drains(p_agent text, p_fence bigint, p_reports jsonb) returns void
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_listener listeners := require_lease(p_agent, p_fence);
begin
  insert into drain_states as s (
    drain_id, listener_id, organization_id, tenant_id, epoch, epoch_sent, epoch_dropped, sent, dropped, waiting,
    waiting_bytes, last_sent_at, failing_since, error
  )
  select
    d.id, v_listener.id, d.organization_id, d.tenant_id, r.epoch, r.sent, r.dropped, r.sent, r.dropped, r.waiting,
    r.waiting_bytes, r.last_sent_at, r.failing_since, r.error
  from (
    select distinct on (r.id) r.*
    from jsonb_to_recordset(p_reports) as r(
      id uuid, epoch uuid, sent bigint, dropped bigint, waiting bigint, waiting_bytes bigint, last_sent_at timestamptz,
      failing_since timestamptz, error text
    )
    order by r.id
  ) r
  join drains d on d.id = r.id
  where (v_listener.tenant_id is null or d.tenant_id = v_listener.tenant_id)
    and exists (
      select from deployments x where x.tenant_id = d.tenant_id and x.listener_id = v_listener.id
    )
  order by d.id
  on conflict (drain_id, listener_id) do update set
    epoch = excluded.epoch,
    sent = least(
      s.sent + excluded.sent
        - case when s.epoch = excluded.epoch then least(s.epoch_sent, excluded.sent) else 0 end,
      9007199254740991
    ),
    dropped = least(
      s.dropped + excluded.dropped
        - case when s.epoch = excluded.epoch then least(s.epoch_dropped, excluded.dropped) else 0 end,
      9007199254740991
    ),
    epoch_sent = excluded.epoch_sent,
    epoch_dropped = excluded.epoch_dropped,
    waiting = excluded.waiting,
    waiting_bytes = excluded.waiting_bytes,
    last_sent_at = coalesce(excluded.last_sent_at, s.last_sent_at),
    failing_since = excluded.failing_since,
    error = excluded.error,
    reported_at = clock();
end $$;
grant execute on function report_drains(text, bigint, jsonb) to slipway_agent;

-- Finished runs of a workspace are queued for its drains, as they are for rules.
create function drains_traces(p_tenant uuid) returns boolean
language sql stable security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan
begin atomic
  select exists (
    select from drains d where d.tenant_id = p_tenant and d.enabled and 'traces' = any(d.signals)
  );
end;

create function check_drain_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  if exists (select from deployments d where d.id = any(new.deployment_ids) and d.tenant_id <> new.tenant_id)
    or exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'a drain refers to a row of another workspace';
  end if;
  return null;
end $$;
create trigger check_references
  after insert or update of deployment_ids, tag_value_ids on drains
  for each row execute function check_drain_references();
