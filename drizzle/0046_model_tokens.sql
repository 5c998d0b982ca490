-- Model tokens: an application calls the models of its workspace that are open to it, and does nothing else.

-- The app knows a trace key as `<deployment>.<version>`, and a model token as `<deployment>.<version>.models`.
create function credential_permission(p_key text) returns text
language sql immutable parallel safe
return case when split_part(p_key, '.', 3) = 'models' then 'models:invoke' else 'runs:create' end;
--> statement-breakpoint
grant create on schema public to slipway_system;
set local role slipway_system;
create or replace function enter_deployment(
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
  if p_permission is distinct from credential_permission(p_key) then
    if credential_permission(p_key) = 'models:invoke' then perform refuse('model_token_confined'); end if;
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
reset role;
revoke create on schema public from slipway_system;
--> statement-breakpoint
-- Models that are not open to the deployment do not exist for it, nor do budgets and usage of others.
create policy confined on model_configurations as restrictive to slipway_confined
  using (deployment_ids is null or (select current_actor()) = any(deployment_ids));
create policy confined on model_budgets as restrictive to slipway_confined
  using (deployment_id is null or deployment_id = (select current_actor()));
create policy confined on model_usage as restrictive to slipway_confined
  using (deployment_id = (select current_actor()));
