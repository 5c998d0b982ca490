-- Trace keys: an application sends runs into the project of its deployment, and does nothing else.

-- slipway_confined serves its requests. It has the rights and row policies of slipway_app, and the restrictive ones
-- below: other projects and their runs do not exist for it.
do $$
begin
  if not exists (select from pg_roles where rolname = 'slipway_confined') then
    create role slipway_confined nologin;
  end if;
  if not pg_has_role('slipway_confined', 'slipway_app', 'usage') then
    grant slipway_app to slipway_confined with inherit true, set false;
  end if;
  if not pg_has_role(current_user, 'slipway_confined', 'set') then
    execute format('grant slipway_confined to %I with inherit false, set true', current_user);
  end if;
  if not pg_has_role('slipway_login', 'slipway_confined', 'set') then
    grant slipway_confined to slipway_login with inherit false, set true;
  end if;
end $$;
--> statement-breakpoint
alter table deployments add column trace_key_version integer not null default 1;
--> statement-breakpoint
grant update (trace_key_version) on deployments to slipway_app;
--> statement-breakpoint
-- The app knows a trace key as `<deployment>.<version>`, and other keys and sessions by a hash.
create function trace_key_deployment(p_key text) returns uuid
language sql immutable parallel safe
return case when p_key like '%.%' then split_part(p_key, '.', 1)::uuid end;
--> statement-breakpoint
create function confined_project() returns uuid
language sql stable parallel safe
return setting('confined_project')::uuid;
--> statement-breakpoint
-- The project of a run that names this one, or none. The error names the only project that the key is for.
create function require_own_project(p_id uuid, p_name text) returns uuid
language plpgsql stable as $$
declare
  v_own record;
begin
  select id, name into v_own from projects where id = confined_project() and tenant_id = current_tenant();
  if p_id is not null and p_id is distinct from v_own.id
    or p_id is null and p_name is not null and p_name is distinct from v_own.name
  then
    perform refuse('trace_key_confined', v_own.name);
  end if;
  return v_own.id;
end $$;
--> statement-breakpoint
-- Like enter(), for a trace key whose signature the app has verified.
create function enter_deployment(
  p_key text,
  p_workspace uuid,
  p_permission text,
  p_in_workspace boolean,
  p_request_id text,
  p_clock_offset text,
  p_without_if_match boolean,
  p_idempotency_key text,
  p_fingerprint text,
  p_access jsonb
) returns table (organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean)
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_deployment record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  select d.id, d.organization_id, d.tenant_id, d.name, p.id as project_id, p.name as project
  into v_deployment
  from deployments d
  join projects p on p.deployment_id = d.id
  where d.id = trace_key_deployment(p_key)
    and d.trace_key_version = split_part(p_key, '.', 2)::integer
    and d.deleting_at is null;
  if not found then perform refuse('key_revoked'); end if;
  if p_permission is distinct from 'runs:create' then
    perform refuse('trace_key_confined', v_deployment.project);
  end if;
  if p_workspace <> v_deployment.tenant_id then perform refuse('workspace_forbidden'); end if;
  perform
    set_config('app.organization_id', v_deployment.organization_id::text, true),
    set_config('app.tenant_id', v_deployment.tenant_id::text, true),
    set_config('app.actor_kind', 'deployment', true),
    set_config('app.actor_id', v_deployment.id::text, true),
    set_config('app.actor_name', v_deployment.name, true),
    set_config('app.request_id', p_request_id, true),
    set_config('app.confined_project', v_deployment.project_id::text, true);
  return query select v_deployment.organization_id, v_deployment.tenant_id, v_deployment.id, false;
end $$;
--> statement-breakpoint
create policy confined on projects as restrictive to slipway_confined
  using (id = (select confined_project()));
create policy confined on runs as restrictive to slipway_confined
  using (session_id = (select confined_project()));
create policy confined on trace_objects as restrictive to slipway_confined
  using (session_id = (select confined_project()));
-- A span is registered once its run is stored.
create policy confined on otlp_spans as restrictive to slipway_confined
  using (
    exists (
      select from runs r
      where r.tenant_id = otlp_spans.tenant_id and r.id = otlp_spans.run_id and r.order_time = otlp_spans.order_time
    )
  );
--> statement-breakpoint
-- Trace keys are counted, too. They are not looked up by a hash.
create or replace function budgets_of(p_hashes text[]) returns table (hash text, budget_id uuid)
language sql stable as $$
  select a.key_hash, a.budget_id
  from api_keys a
  where a.key_hash = any(p_hashes) and a.revoked_at is null and (a.expires_at is null or a.expires_at > clock())
  union all
  select s.token_hash, coalesce(a.budget_id, s.member_id)
  from sessions s
  left join api_keys a on a.id = s.key_id
  where s.token_hash = any(p_hashes) and is_alive(s)
  union all
  select k.key, d.id
  from unnest(p_hashes) k(key)
  join deployments d on d.id = trace_key_deployment(k.key)
  where d.trace_key_version::text = split_part(k.key, '.', 2) and d.deleting_at is null
$$;
--> statement-breakpoint
grant create on schema public to slipway_system;
alter function enter_deployment(text, uuid, text, boolean, text, text, boolean, text, text, jsonb)
  owner to slipway_system;
set local role slipway_system;
--> statement-breakpoint
-- What is refused to a trace key is recorded as that of its deployment.
create or replace function record_attempts(
  p_key_hashes text[],
  p_workspaces text[],
  p_operations text[],
  p_statuses integer[],
  p_codes text[],
  p_request_ids text[],
  p_requests text[],
  p_more integer[],
  p_clock_offset text,
  p_limit integer
) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  with given as (
    select
      c.id as key_id,
      c.kind,
      c.name,
      c.organization_id,
      coalesce(
        c.tenant_id,
        (select w.id from workspaces w where w.id = g.workspace::uuid and w.organization_id = c.organization_id)
      ) as tenant_id,
      g.*,
      row_number() over (partition by c.id order by g.place) as nth,
      count(*) over (partition by c.id) as of_key
    from unnest(p_key_hashes, p_workspaces, p_operations, p_statuses, p_codes, p_request_ids, p_requests, p_more)
      with ordinality as g(key_hash, workspace, operation, status, code, request_id, request, more, place)
    join lateral (
      select 'key' as kind, a.id, a.organization_id, a.tenant_id, a.description as name
      from api_keys a
      where a.key_hash = g.key_hash
      union all
      select
        case when a.id is null then 'session' else 'key' end,
        s.owner_id,
        s.organization_id,
        a.tenant_id,
        coalesce(a.description, m.full_name, m.email)
      from sessions s
      left join api_keys a on a.id = s.key_id
      left join members m on m.id = s.member_id
      where s.token_hash = g.key_hash
      union all
      select 'deployment', d.id, d.organization_id, d.tenant_id, d.name
      from deployments d
      where d.id = trace_key_deployment(g.key_hash)
    ) c on true
  ),
  counted as (
    insert into attempt_windows as w (key_id, started_at, attempts)
    select key_id, clock(), count(*)
    from given
    group by key_id
    order by key_id
    on conflict (key_id) do update set
      attempts = excluded.attempts
        + case when w.started_at > clock() - interval '60 seconds' then w.attempts else 0 end,
      started_at =
        case when w.started_at > clock() - interval '60 seconds' then w.started_at else excluded.started_at end
    returning w.key_id, w.attempts
  ),
  judged as (
    select g.*, c.attempts - g.of_key + g.nth <= p_limit as is_kept
    from given g
    join counted c using (key_id)
  ),
  left_out as (
    select key_id, sum(case when is_kept then more else more + 1 end) as attempts
    from judged
    group by key_id
  ),
  added_to_earlier as (
    update audit_attempts t
    set left_out = t.left_out + l.attempts
    from left_out l
    where not exists (select from judged j where j.key_id = l.key_id and j.is_kept)
      and t.id = (
        select b.id
        from audit_attempts b
        where b.actor_id = l.key_id
        order by b.created_at desc, b.id desc
        limit 1
      )
  )
  insert into audit_attempts (
    organization_id, tenant_id, operation, status, code, actor_kind, actor_id, actor_name, request_id, request,
    left_out
  )
  select
    j.organization_id,
    j.tenant_id,
    j.operation,
    j.status,
    j.code,
    j.kind,
    j.key_id,
    j.name,
    j.request_id,
    j.request::json,
    case when j.nth = max(j.nth) over (partition by j.key_id) then l.attempts else 0 end
  from judged j
  join left_out l using (key_id)
  where j.is_kept
  order by j.place;
end $$;
--> statement-breakpoint
revoke execute on function enter_deployment(text, uuid, text, boolean, text, text, boolean, text, text, jsonb)
  from public;
do $$
begin
  execute format(
    'grant execute on function enter_deployment(text, uuid, text, boolean, text, text, boolean, text, text, jsonb)
      to slipway_login, %I',
    session_user
  );
end $$;
reset role;
revoke create on schema public from slipway_system;
