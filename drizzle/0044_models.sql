-- Model calls: configurations, the settings of the proxy, usage and budgets.

create table model_configurations (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  name text not null,
  provider text not null
    constraint model_configurations_provider check (provider in ('openai', 'anthropic', 'openai_compatible')),
  base_url text not null,
  model text not null,
  auth_type text not null
    constraint model_configurations_auth check (auth_type in ('none', 'secret', 'jwt', 'oauth_client_credentials')),
  -- Sealed under the id: the key of the provider, or the secret of the OAuth client.
  secret text,
  token_url text,
  client_id text,
  scope text,
  audience text,
  input_price double precision,
  output_price double precision,
  trace_project text,
  deployment_ids uuid[],
  last_test json,
  version integer default 1 not null,
  created_at timestamptz default clock() not null,
  updated_at timestamptz default clock() not null,
  constraint model_configurations_tenant_id_workspaces_id_fk
    foreign key (tenant_id) references workspaces (id) on delete cascade
);
-- Its name is the code of the error.
create unique index model_exists on model_configurations (tenant_id, lower(name));
create index model_configurations_page on model_configurations (tenant_id, created_at desc, id desc);
--> statement-breakpoint
create table model_proxy_settings (
  organization_id uuid primary key not null,
  enabled boolean default true not null,
  audience text,
  allowed_urls text default 'configurations' not null
    constraint model_proxy_settings_allowed_urls check (allowed_urls in ('configurations', 'all', 'none', 'list')),
  patterns text[] default '{}' not null,
  version integer default 1 not null,
  created_at timestamptz default clock() not null,
  updated_at timestamptz default clock() not null,
  constraint model_proxy_settings_organization_id_organizations_id_fk
    foreign key (organization_id) references organizations (id) on delete cascade
);
--> statement-breakpoint
-- It outlives the configurations and deployments that it names.
create table model_usage (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  day date not null,
  configuration_id uuid not null,
  configuration_name text not null,
  deployment_id uuid,
  actor_kind text not null,
  calls bigint default 0 not null,
  failed bigint default 0 not null,
  input_tokens bigint default 0 not null,
  output_tokens bigint default 0 not null,
  -- Null: no call had a price.
  cost_usd double precision,
  constraint model_usage_one unique nulls not distinct (tenant_id, day, configuration_id, deployment_id, actor_kind),
  constraint model_usage_tenant_id_workspaces_id_fk
    foreign key (tenant_id) references workspaces (id) on delete cascade
);
create index model_usage_day on model_usage (day);
--> statement-breakpoint
create table model_budgets (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  -- Null: of all calls of the workspace.
  deployment_id uuid,
  period text not null constraint model_budgets_period check (period in ('day', 'week', 'month')),
  limit_usd double precision,
  limit_tokens bigint,
  limit_calls bigint,
  -- What is spent is of the period that began then.
  period_start timestamptz not null,
  spent_usd double precision default 0 not null,
  spent_tokens bigint default 0 not null,
  spent_calls bigint default 0 not null,
  version integer default 1 not null,
  created_at timestamptz default clock() not null,
  updated_at timestamptz default clock() not null,
  constraint model_budgets_limits check (num_nonnulls(limit_usd, limit_tokens, limit_calls) >= 1),
  -- Its name is the code of the error.
  constraint model_budget_exists unique nulls not distinct (tenant_id, deployment_id, period),
  constraint model_budgets_tenant_id_workspaces_id_fk
    foreign key (tenant_id) references workspaces (id) on delete cascade,
  constraint model_budgets_deployment_id_deployments_id_fk
    foreign key (deployment_id) references deployments (id) on delete cascade
);
create index model_budgets_page on model_budgets (tenant_id, created_at desc, id desc);
create index model_budgets_deployment on model_budgets (deployment_id);
--> statement-breakpoint

-- The start of the current day, week (from Monday) or month in UTC.
create function model_period(p_period text) returns timestamptz
language sql stable
return date_trunc(p_period, clock(), 'UTC');
--> statement-breakpoint
-- Counts a call under all budgets that it falls under, or refuses it. What it uses is known afterwards, so calls that
-- are under way together can exceed a limit.
create function take_model_call(p_deployment uuid) returns boolean
language plpgsql as $$
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
--> statement-breakpoint
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
language plpgsql as $$
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
--> statement-breakpoint
create function check_model_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if exists (select from deployments d where d.id = any(new.deployment_ids) and d.tenant_id <> new.tenant_id) then
    raise exception using errcode = '42501', message = 'a model configuration refers to a row of another workspace';
  end if;
  return null;
end $$;
--> statement-breakpoint
-- Without a foreign key: the list may outlive what it names.
create trigger check_references
  after insert or update of deployment_ids on model_configurations
  for each row execute function check_model_references();
--> statement-breakpoint
create function is_own_model_configuration(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return not exists (
    select from model_configurations
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
--> statement-breakpoint
grant create on schema public to slipway_system;
alter function check_model_references() owner to slipway_system;
alter function is_own_model_configuration(uuid) owner to slipway_system;
revoke create on schema public from slipway_system;
--> statement-breakpoint
set local role slipway_system;
revoke execute on function check_model_references(), is_own_model_configuration(uuid) from public;
grant execute on function is_own_model_configuration(uuid) to slipway_app;
reset role;
--> statement-breakpoint
-- Only slipway_system may execute this function, which a trigger's creator must.
grant trigger on model_configurations, model_budgets to slipway_system;
set local role slipway_system;
create trigger enforce_quota
  after insert on model_configurations
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '200', 'true', 'model_configurations');
create trigger enforce_quota
  after insert on model_budgets
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '1000', 'true', 'model_budgets');
reset role;
revoke trigger on model_configurations, model_budgets from slipway_system;
--> statement-breakpoint

do $$
declare
  v_table text;
begin
  foreach v_table in array array['model_configurations', 'model_proxy_settings', 'model_usage', 'model_budgets'] loop
    execute format('alter table %I enable row level security, force row level security', v_table);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on %I to slipway_system', v_table);
    execute format(
      'create policy admitted on %I as restrictive to slipway_limited
        using ((select setting(''by_policy'')) is distinct from ''true'')',
      v_table
    );
  end loop;
end $$;
create policy own on model_configurations to slipway_app
  using (tenant_id = current_tenant())
  with check (tenant_id = current_tenant() and organization_id = current_organization());
create policy own on model_proxy_settings to slipway_app
  using (organization_id = current_organization())
  with check (organization_id = current_organization());
create policy own on model_usage for select to slipway_app
  using (tenant_id = current_tenant());
create policy own on model_budgets to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
  );
grant select, insert, delete, update (
    name, provider, base_url, model, auth_type, secret, token_url, client_id, scope, audience, input_price,
    output_price, trace_project, deployment_ids, last_test, version, created_at, updated_at
  ) on model_configurations to slipway_app;
grant select, insert, update (enabled, audience, allowed_urls, patterns, version, created_at, updated_at)
  on model_proxy_settings to slipway_app;
grant select on model_usage to slipway_app;
grant select, insert, delete, update (
    limit_usd, limit_tokens, limit_calls, period_start, spent_usd, spent_tokens, spent_calls, version, created_at,
    updated_at
  ) on model_budgets to slipway_app;
--> statement-breakpoint

-- `models:invoke` calls models, `models:read` sees configurations, usage and budgets.
set local role slipway_system;
--> statement-breakpoint
update roles
set permissions = permissions || array['models:read', 'models:invoke', 'workspaces:manage-model-configs']
where id in ('00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000004');
update roles
set permissions = permissions || array['models:read', 'models:invoke']
where id = '00000000-0000-4000-8000-000000000002';
update roles
set permissions = permissions || array['models:read']
where id = '00000000-0000-4000-8000-000000000003';
--> statement-breakpoint
reset role;
