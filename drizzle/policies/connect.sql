-- Row-level security and grants: OAuth providers, models and webhooks.

-- ------------------------------------------------------------ model_configurations
create policy admitted on model_configurations as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
create policy own on model_configurations to slipway_app
  using (tenant_id = current_tenant())
  with check (tenant_id = current_tenant() and organization_id = current_organization());
-- Models that are not open to the deployment do not exist for it, nor do budgets and usage of others.
create policy confined on model_configurations as restrictive to slipway_confined
  using (deployment_ids is null or (select current_actor()) = any(deployment_ids));
grant select, insert, delete, update (
    name, provider, base_url, model, auth_type, secret, token_url, client_id, scope, audience, input_price,
    output_price, trace_project, deployment_ids, last_test, version, created_at, updated_at
  ) on model_configurations to slipway_app;

-- ------------------------------------------------------------ model_proxy_settings
create policy admitted on model_proxy_settings as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
create policy own on model_proxy_settings to slipway_app
  using (organization_id = current_organization())
  with check (organization_id = current_organization());
grant select, insert, update (
    enabled, audience, allowed_urls, patterns, version, created_at, updated_at
  ) on model_proxy_settings to slipway_app;

-- ------------------------------------------------------------ model_usage
create policy admitted on model_usage as restrictive to slipway_limited
  using (
    (select setting('by_policy')) is distinct from 'true'
    and (
      deployment_id is null
      or not (select hides('deployment'))
      or exists (select from deployments d where d.id = model_usage.deployment_id)
    )
  );
create policy own on model_usage for select to slipway_app
  using (tenant_id = current_tenant());
create policy confined on model_usage as restrictive to slipway_confined
  using (deployment_id = (select current_actor()));
grant select on model_usage to slipway_app;

-- ------------------------------------------------------------ model_budgets
create policy admitted on model_budgets as restrictive to slipway_limited
  using (
    (select setting('by_policy')) is distinct from 'true'
    and (
      deployment_id is null
      or not (select hides('deployment'))
      or exists (select from deployments d where d.id = model_budgets.deployment_id)
    )
  );
create policy own on model_budgets to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
  );
create policy confined on model_budgets as restrictive to slipway_confined
  using (deployment_id is null or deployment_id = (select current_actor()));
grant select, insert, delete, update (
    limit_usd, limit_tokens, limit_calls, period_start, spent_usd, spent_tokens, spent_calls, version, created_at,
    updated_at
  ) on model_budgets to slipway_app;

-- ------------------------------------------------------------ oauth_providers
create policy own on oauth_providers to slipway_app
  using (organization_id = current_organization());
-- Only a new provider names its maker: a workspace may change another one's provider, and the column is not granted.
create policy maker on oauth_providers as restrictive for insert to slipway_app
  with check (made_by_workspace is not distinct from current_tenant());
create policy admitted on oauth_providers as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert, delete, update (
    provider_id, name, client_id, client_secret, client_secret_expires_at, auth_url, token_url, revocation_url,
    uses_pkce, code_challenge_method, provider_type, mcp_server_url, token_endpoint_auth_method, registration,
    registration_client_uri, registration_access_token, redirect_uri, issuer, issuer_in_answers, resource, scopes,
    warnings, trace, health, health_detail, checked_at, client_secret_urls, version, created_at, updated_at, owner
  ) on oauth_providers to slipway_app;

-- ------------------------------------------------------------ oauth_reservations
create policy own on oauth_reservations to slipway_app
  using (organization_id = current_organization());
create policy admitted on oauth_reservations as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert, delete, update (id, provider_id, expires_at) on oauth_reservations to slipway_app;

-- ------------------------------------------------------------ oauth_flows
create policy own on oauth_flows to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_provider(provider_id)
  );
create policy admitted on oauth_flows as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert, delete, update (
    user_id, scopes, state_hash, verifier, bound_to, status, failure, expires_at, created_at
  ) on oauth_flows to slipway_app;

-- ------------------------------------------------------------ oauth_tokens
create policy own on oauth_tokens to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_provider(provider_id)
  );
create policy admitted on oauth_tokens as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert, delete, update (
    user_id, scopes, access_token, refresh_token, token_type, bound_to, expires_at, generation, leased_until,
    revoked_at, created_at, updated_at
  ) on oauth_tokens to slipway_app;

-- ------------------------------------------------------------ webhooks
create policy own on webhooks to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
-- An agent sees which of the workspaces that it serves have webhooks: its reports are sent to them at once.
create policy served on webhooks for select to slipway_agent
  using (
    exists (
      select from deployments d
      where d.tenant_id = webhooks.tenant_id
        and d.listener_id = current_listener()
    )
  );
grant select (tenant_id, enabled) on webhooks to slipway_agent;
grant select, insert, delete, update (
    url, description, event_types, deployment_ids, tag_value_ids, enabled, secret, previous_secret,
    previous_secret_until, "position", failing_since, disabled_reason, disabled_at, throttled, next_send_at, version,
    created_at, updated_at, owner
  ) on webhooks to slipway_app;

-- ------------------------------------------------------------ webhook_deliveries
create policy own on webhook_deliveries to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
create policy admitted on webhook_deliveries as restrictive to slipway_limited
  using (
    exists (
      select from events e
      where e.scope_id = webhook_deliveries.tenant_id
        and e.seq = webhook_deliveries.seq
    )
  );
grant select, update (
    state, attempts, next_attempt_at, attempted_at, request_headers, answer_status, answer_body, duration_ms, error
  ) on webhook_deliveries to slipway_app;

-- ------------------------------------------------------------ channels
-- A person's own channel is seen by the person alone.
create policy own on channels to slipway_app
  using (
    tenant_id = current_tenant()
    and (member_id is null or member_id = (select actor_member()))
  )
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and (member_id is null or member_id = (select actor_member()))
    and is_own_rule(run_rule_id)
  );
-- An agent sees which of the workspaces that it serves are told of deployments: its reports are told at once.
create policy served on channels for select to slipway_agent
  using (
    exists (
      select from deployments d
      where d.tenant_id = channels.tenant_id
        and d.listener_id = current_listener()
    )
  );
grant select (tenant_id, enabled, deploys) on channels to slipway_agent;
grant select, insert, delete, update (
    name, config, credentials, deploys, is_default, enabled, confirmed_at, confirmation_hash,
    confirmation_expires_at, unsubscribe_hash, "position", failing_since, disabled_reason, disabled_at, throttled,
    next_send_at, attempted_at, last_error, version, created_at, updated_at
  ) on channels to slipway_app;

-- ------------------------------------------------------------ notices
create policy own on notices for select to slipway_app
  using (
    tenant_id = current_tenant()
    and exists (select from channels c where c.id = notices.channel_id)
  );
grant select on notices to slipway_app;
