CREATE INDEX "revisions_pending_of_organization" ON "revisions"
  USING btree ("organization_id")
  WHERE status in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING');--> statement-breakpoint
CREATE INDEX "preview_hooks_organization" ON "preview_hooks" USING btree ("organization_id");--> statement-breakpoint
CREATE INDEX "insight_jobs_organization" ON "insight_jobs"
  USING btree ("organization_id")
  WHERE status in ('queued', 'running');--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
create or replace function fleet_queues(p_organization uuid)
 RETURNS json
 LANGUAGE sql
 STABLE
AS $function$
  with waiting (name, since) as (
    (
      select 'webhook_deliveries', q.next_attempt_at
      from webhook_deliveries q
      where p_organization is null and q.state = 'waiting'
      limit 10000
    )
    union all
    (
      select 'webhook_deliveries', q.next_attempt_at
      from workspaces w
      join webhooks h on h.tenant_id = w.id
      join webhook_deliveries q on q.webhook_id = h.id and q.state = 'waiting'
      where w.organization_id = p_organization
      limit 10000
    )
    union all
    (
      select 'githost_deliveries', q.next_attempt_at
      from githost_deliveries q
      where p_organization is null and q.state = 'waiting'
      limit 10000
    )
    union all
    (
      select 'preview_hooks', q.next_attempt_at
      from preview_hooks q
      where p_organization is null
      limit 10000
    )
    union all
    (
      select 'preview_hooks', q.next_attempt_at
      from preview_hooks q
      where q.organization_id = p_organization
      limit 10000
    )
    union all
    (
      select 'rule_evaluations', q.next_attempt_at
      from rule_evaluations q
      where p_organization is null and q.state = 'waiting'
      limit 10000
    )
    union all
    (
      select 'rule_evaluations', q.next_attempt_at
      from workspaces w
      join run_rules r on r.tenant_id = w.id
      join rule_evaluations q on q.rule_id = r.id and q.state = 'waiting'
      where w.organization_id = p_organization
      limit 10000
    )
    union all
    (
      select 'insight_jobs', q.created_at
      from insight_jobs q
      where p_organization is null and q.status in ('queued', 'running')
      limit 10000
    )
    union all
    (
      select 'insight_jobs', q.created_at
      from insight_jobs q
      where q.organization_id = p_organization and q.status in ('queued', 'running')
      limit 10000
    )
    union all
    (
      select 'revisions', q.status_since
      from revisions q
      where p_organization is null
        and q.status in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING')
      limit 10000
    )
    union all
    (
      select 'revisions', q.status_since
      from revisions q
      where q.organization_id = p_organization
        and q.status in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING')
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
create or replace function keep_disks(p_stored jsonb, p_volumes jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE STRICT
AS $function$
  with disk as (
    select v.volume, v.place, v.volume ->> 'name' as name, v.volume #>> '{persistentVolumeClaim, claimName}' as claim
    from jsonb_array_elements(nullif(p_stored -> 'volumes', 'null')) with ordinality v(volume, place)
    where nullif(v.volume -> 'persistentVolumeClaim', 'null') is not null
  ),
  sent as (
    select v.volume, v.place, v.volume ->> 'name' as name, v.volume #>> '{persistentVolumeClaim, claimName}' as claim
    from jsonb_array_elements(p_volumes) with ordinality v(volume, place)
  )
  select coalesce(
    (
      select jsonb_agg(coalesce(d.volume, s.volume) order by s.place)
      from sent s
      left join disk d on d.name = s.name and d.volume <> s.volume and (d.claim = s.claim) is not true
    ),
    '[]'
  ) || coalesce(
    (
      select jsonb_agg(d.volume order by d.place)
      from disk d
      where not exists (select from sent s where s.name = d.name)
    ),
    '[]'
  )
$function$;
create or replace function list_token_volumes(p_volumes jsonb)
 RETURNS SETOF text
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select format('resource_spec.volumes.%s.projected.sources.%s.serviceAccountToken', v.place - 1, s.place - 1)
  from jsonb_array_elements(nullif(p_volumes, 'null')) with ordinality v(volume, place)
  cross join jsonb_array_elements(
    case when jsonb_typeof(v.volume #> '{projected, sources}') = 'array' then v.volume #> '{projected, sources}' end
  ) with ordinality s(source, place)
  where nullif(s.source -> 'serviceAccountToken', 'null') is not null
$function$;
create or replace function list_volume_faults(p_stored jsonb, p_next jsonb, p_sent jsonb)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select array(
    select format(
      'source_config.resource_spec.volumes would replace the disk %s: use another name, or clear '
        'resource_spec.volumes first',
      sent ->> 'name'
    )
    from jsonb_array_elements(p_sent) sent
    where not exists (select from jsonb_array_elements(p_next -> 'volumes') kept where kept = sent)
  ) || array(
    select format('source_config.resource_spec.%s mounts %s, which the patch takes away', m.place, m.name)
    from (
      select 'volume_mounts' as place, mount ->> 'name' as name
      from jsonb_array_elements(nullif(p_next -> 'volume_mounts', 'null')) mount
      union
      select member || '.' || (container ->> 'name'), mount ->> 'name'
      from unnest('{init_containers, sidecars}'::text[]) member
      cross join jsonb_array_elements(nullif(p_next -> member, 'null')) container
      cross join jsonb_array_elements(nullif(container -> 'volumeMounts', 'null')) mount
    ) m
    cross join jsonb_build_array(jsonb_build_object('name', m.name)) volume
    where p_stored -> 'volumes' @> volume and not coalesce(p_next -> 'volumes' @> volume, false)
    order by m.place, m.name
  )
$function$;
set local role slipway_system;
create or replace function read_usage(
  p_admins text[], p_everywhere boolean, p_start date, p_end date, p_traces boolean, p_after uuid, p_limit integer
)
 RETURNS TABLE(
  organization_id uuid, organization_name text, workspace_id uuid, workspace_name text, day date, traces bigint,
  bytes bigint, deployments bigint
)
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
    select p.tenant_id, m.day, sum(m.traces)::bigint as traces, greatest(sum(m.bytes), 0)::bigint as bytes
    from chosen c
    join projects p on p.tenant_id = c.id
    -- Each project is a range of the index.
    cross join lateral (
      select (n.minute at time zone 'utc')::date as day, sum(n.roots) as traces, sum(n.bytes) as bytes
      from session_minutes n
      where n.tenant_id = p.tenant_id
        and n.session_id = p.id
        and n.minute >= p_start::timestamp at time zone 'utc'
        and n.minute < (p_end + 1)::timestamp at time zone 'utc'
      group by 1
    ) m
    where p_traces
    group by p.tenant_id, m.day
  ),
  -- The deployments that come and go on each day. Those that came before count on the first.
  moved as (
    select n.tenant_id, greatest((n.at at time zone 'utc')::date, p_start) as day, sum(n.change) as change
    from (
      select e.tenant_id, e.created_at as at, 1 as change
      from chosen c
      join deployments e on e.tenant_id = c.id
      union all
      select e.tenant_id, e.deleting_at, -1
      from chosen c
      join deployments e on e.tenant_id = c.id and e.deleting_at is not null
      union all
      select e.tenant_id, edge.at, edge.change
      from chosen c
      join deleted_deployments e
        on e.tenant_id = c.id and e.deleted_at >= p_start::timestamp at time zone 'utc'
      cross join lateral (values (e.created_at, 1), (e.deleted_at, -1)) edge(at, change)
    ) n
    group by 1, 2
  )
  select
    c.organization_id,
    o.display_name,
    c.id,
    c.display_name,
    d.day,
    case when p_traces then coalesce(t.traces, 0) end,
    case when p_traces and t.day is null then 0 else t.bytes end,
    sum(coalesce(n.change, 0)) over (partition by c.id order by d.day)::bigint
  from chosen c
  join organizations o on o.id = c.organization_id
  cross join lateral (select p_start + n as day from generate_series(0, p_end - p_start) n) d
  left join traced t on t.tenant_id = c.id and t.day = d.day
  left join moved n on n.tenant_id = c.id and n.day = d.day
  order by c.id, d.day;
end $function$;
reset role;
create or replace function require_allowed_patch(
  p_stored deployments, p_plan patch_plan, p_patch jsonb, p_request jsonb
)
 RETURNS boolean
 LANGUAGE plpgsql
 COST 10000
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
    )
    || list_resource_faults((v_next.source_config -> 'resource_spec')::jsonb, p_patch -> 'resource_pairs')
    || list_volume_faults(
      (p_stored.source_config -> 'resource_spec')::jsonb,
      (v_next.source_config -> 'resource_spec')::jsonb,
      v_sent -> 'source_config.resource_spec.volumes'
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
end $function$;
create or replace function require_listener_allows_patch(p_deployment uuid, p_patch jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
declare
  v_clears_account boolean := exists (
    select
    from jsonb_to_recordset(p_patch -> 'members') as m(path text, value jsonb)
    where m.path = 'source_config.resource_spec.service_account_name' and m.value is null
  );
begin
  perform require_listener_allows(d.listener_id, needs.changed)
  from deployments d
  cross join lateral (
    select jsonb_agg(n.need) as changed
    from (
      select n.need
      from jsonb_array_elements(p_patch -> 'policy_needs') n(need)
      join jsonb_to_recordset(p_patch -> 'members') as m(path text, value jsonb)
        on m.path in (
          'source_config.resource_spec', 'source_config.resource_spec.' || split_part(n.need ->> 'path', '.', 2)
        )
      cross join lateral (select n.need ->> 'path' like '%.serviceAccountToken' as is_token) t
      where case
        when t.is_token and v_clears_account then true
        -- A deployment with an account has its token anyway.
        when t.is_token and d.source_config -> 'resource_spec' ->> 'service_account_name' is not null then false
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
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
