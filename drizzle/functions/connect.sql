-- OAuth providers, integrations, webhooks and calls of models.

-- Codes, access tokens and refresh tokens go only to a provider that still has the binding they were granted under.
create function oauth_binding(p oauth_providers) returns text
language sql stable
return md5(
  json_build_array(
    p.issuer, p.client_id, p.resource, p.auth_url, p.token_url, p.revocation_url, p.registration_client_uri
  )::text
);

-- Records which addresses a client secret was issued for. A trigger, so no write can forget it: a secret that stays
-- while its endpoints change still belongs to the old ones.
create function bind_provider_secrets() returns trigger
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  if tg_op = 'INSERT' or new.client_secret is distinct from old.client_secret then
    new.client_secret_urls := case
      when new.client_secret is null then '{}'
      else array_remove(array[new.token_url, new.revocation_url], null)
    end;
  end if;
  if tg_op = 'UPDATE' and new.registration_client_uri is distinct from old.registration_client_uri
    and new.registration_access_token = old.registration_access_token then
    new.registration_access_token := null;
  end if;
  return new;
end $$;
create trigger bind_provider_secrets
  before insert or update on oauth_providers
  for each row execute function bind_provider_secrets();

-- Locks a provider before it is changed or deleted, and refuses a caller that may not. A provider belongs to the
-- organization: a workspace that could point it at another server would receive the tokens of every other workspace.
-- A flow or token that is being written locks the provider too, so the checks below see it.
create function lock_provider_to_change(p_provider_id text) returns void
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  p oauth_providers;
begin
  select *
  into p
  from oauth_providers
  where organization_id = current_organization() and provider_id = p_provider_id
  for update;
  if not found or 'organization:manage-providers' = any(actor_permissions()) then return; end if;
  -- A provider without a maker and a caller without a workspace never match.
  if p.made_by_workspace is null or p.made_by_workspace is distinct from current_tenant() then
    perform refuse('provider_not_yours', 'another workspace made it');
  end if;
  if exists (
      select from oauth_tokens t
      where t.provider_id = p.id and t.tenant_id <> current_tenant() and t.revoked_at is null
    )
    or exists (
      select from oauth_flows f
      where f.provider_id = p.id and f.tenant_id <> current_tenant()
        and f.status in ('pending', 'answered') and f.expires_at > clock()
    )
  then
    perform refuse('provider_not_yours', 'other workspaces are connected through it');
  end if;
end $$;
grant execute on function lock_provider_to_change(text) to slipway_app;

-- Revokes what was granted under another binding than the provider's current one, in every workspace. Grants with the
-- binding `p_moved_binding` get the current one instead: the provider's own issuer moved its endpoints within their
-- origins.
create function revoke_outdated_grants(p_provider uuid, p_moved_binding text) returns integer
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_now text := (
    select oauth_binding(p)
    from oauth_providers p
    where p.id = p_provider and p.organization_id = current_organization()
  );
  v_ended integer;
begin
  if v_now is null then return 0; end if;
  update oauth_tokens
  set bound_to = v_now
  where provider_id = p_provider and revoked_at is null and bound_to = p_moved_binding;
  update oauth_flows
  set bound_to = v_now
  where provider_id = p_provider and status in ('pending', 'answered') and bound_to = p_moved_binding;
  -- A new generation, so a refresh in flight at the old endpoint writes nothing.
  update oauth_tokens
  set revoked_at = clock(), leased_until = null, generation = generation + 1
  where provider_id = p_provider and revoked_at is null and bound_to <> v_now;
  get diagnostics v_ended = row_count;
  update oauth_flows
  set status = 'failed', failure = 'provider_changed'
  where provider_id = p_provider and status in ('pending', 'answered') and bound_to <> v_now;
  return v_ended;
end $$;
grant execute on function revoke_outdated_grants(uuid, text) to slipway_app;

-- The tokens of a provider that its server can still revoke, in every workspace: those under the current binding.
create function tokens_of_provider(p_provider_id text, p_limit integer) returns setof oauth_tokens
language sql stable security definer set search_path = public, pg_temp as $$
  select t.*
  from oauth_tokens t
  join oauth_providers p on p.id = t.provider_id
  where p.organization_id = current_organization() and p.provider_id = p_provider_id
    and t.revoked_at is null and t.bound_to = oauth_binding(p)
  order by t.updated_at desc
  limit p_limit
$$;
grant execute on function tokens_of_provider(text, integer) to slipway_app;

-- An integration of another workspace counts as unknown.
create function require_active_integration(p_id uuid) returns boolean
language plpgsql stable cost 10000 as $$
declare
  v_state text := (select state from integrations where id = p_id and tenant_id = current_tenant());
begin
  if v_state is null then perform refuse('integration_unknown'); end if;
  if v_state <> 'active' then perform refuse('integration_' || v_state); end if;
  return true;
end $$;

-- Compares references with the row's own workspace, for every writer. There are no foreign keys: a filter may outlive
-- what it names.
create function check_webhook_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  if exists (select from deployments d where d.id = any(new.deployment_ids) and d.tenant_id <> new.tenant_id)
    or exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'a webhook refers to a row of another workspace';
  end if;
  return null;
end $$;
create trigger check_references
  after insert or update of deployment_ids, tag_value_ids on webhooks
  for each row execute function check_webhook_references();

-- The start of the current day, week (from Monday) or month in UTC.
create function model_period(p_period text) returns timestamptz
language sql stable
return date_trunc(p_period, clock(), 'UTC');

-- Counts a call under all budgets that it falls under, or refuses it. What it uses is known afterwards, so calls that
-- are under way together can exceed a limit.
create function take_model_call(p_deployment uuid) returns boolean
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_budget record;
  v_limit text;
begin
  for v_budget in
    select b.*, model_period(b.period) as current_start
    from model_budgets b
    where b.tenant_id = current_tenant() and (b.deployment_id is null or b.deployment_id = p_deployment)
    order by b.id
    for update
  loop
    v_limit := case
      when v_budget.period_start < v_budget.current_start then null
      when v_budget.spent_calls >= v_budget.limit_calls then v_budget.limit_calls || ' calls'
      when v_budget.spent_tokens >= v_budget.limit_tokens then v_budget.limit_tokens || ' tokens'
      when v_budget.spent_usd >= v_budget.limit_usd then v_budget.limit_usd || ' USD'
    end;
    if v_limit is not null then
      perform refuse('model_budget_spent', format(
        '%s a %s for this %s, until %s',
        v_limit,
        v_budget.period,
        case when v_budget.deployment_id is null then 'workspace' else 'deployment' end,
        to_char(
          (v_budget.current_start at time zone 'UTC') + ('1 ' || v_budget.period)::interval,
          'YYYY-MM-DD"T"HH24:MI:SS"Z"'
        )
      ));
    end if;
    update model_budgets b
    set
      period_start = v_budget.current_start,
      spent_calls = 1 + case when b.period_start = v_budget.current_start then b.spent_calls else 0 end,
      spent_tokens = case when b.period_start = v_budget.current_start then b.spent_tokens else 0 end,
      spent_usd = case when b.period_start = v_budget.current_start then b.spent_usd else 0 end
    where b.id = v_budget.id and b.tenant_id = current_tenant();
  end loop;
  return true;
end $$;

-- Counts what a call used, as slipway_system: the credential of the call may be gone by then. A null cost is unknown.
create function record_model_call(
  p_tenant uuid,
  p_configuration uuid,
  p_deployment uuid,
  p_actor_kind text,
  p_failed boolean,
  p_input_tokens bigint,
  p_output_tokens bigint,
  p_cost_usd double precision
) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  insert into model_usage as u (
    organization_id, tenant_id, day, configuration_id, configuration_name, deployment_id, actor_kind, calls, failed,
    input_tokens, output_tokens, cost_usd
  )
  select
    m.organization_id, m.tenant_id, (clock() at time zone 'UTC')::date, m.id, m.name, p_deployment, p_actor_kind, 1,
    p_failed::integer, p_input_tokens, p_output_tokens, p_cost_usd
  from model_configurations m
  where m.id = p_configuration and m.tenant_id = p_tenant
  on conflict on constraint model_usage_one do update set
    configuration_name = excluded.configuration_name,
    calls = u.calls + 1,
    failed = u.failed + excluded.failed,
    input_tokens = u.input_tokens + excluded.input_tokens,
    output_tokens = u.output_tokens + excluded.output_tokens,
    cost_usd = case when excluded.cost_usd is null then u.cost_usd else coalesce(u.cost_usd, 0) + excluded.cost_usd end;

  -- In the order of their ids, as in take_model_call().
  perform from model_budgets b
  where b.tenant_id = p_tenant and (b.deployment_id is null or b.deployment_id = p_deployment)
  order by b.id
  for update;
  update model_budgets b
  set
    period_start = model_period(b.period),
    spent_calls = case when b.period_start = model_period(b.period) then b.spent_calls else 0 end,
    spent_tokens = p_input_tokens + p_output_tokens
      + case when b.period_start = model_period(b.period) then b.spent_tokens else 0 end,
    spent_usd = coalesce(p_cost_usd, 0)
      + case when b.period_start = model_period(b.period) then b.spent_usd else 0 end
  where b.tenant_id = p_tenant and (b.deployment_id is null or b.deployment_id = p_deployment);
end $$;

create function check_model_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  if exists (select from deployments d where d.id = any(new.deployment_ids) and d.tenant_id <> new.tenant_id) then
    raise exception using errcode = '42501', message = 'a model configuration refers to a row of another workspace';
  end if;
  return null;
end $$;
-- There is no foreign key: the list may outlive what it names.
create trigger check_references
  after insert or update of deployment_ids on model_configurations
  for each row execute function check_model_references();
