-- Row-level security, grants, and who may call which function. Statements name their tenant; these policies are the
-- second barrier. They hold for the owner of the tables too.

-- Every table: slipway_system sees all rows, the other roles what the policies below allow.
do $$
declare
  v_table text;
begin
  foreach v_table in array array[
    'api_keys', 'custom_hosts', 'deployment_heads', 'deployment_secrets', 'deployments', 'events',
    'githost_deliveries', 'idempotency_keys', 'integration_installs', 'integration_listings', 'integrations',
    'journals', 'listeners', 'log_lines', 'logs', 'members', 'oauth_flows', 'oauth_providers',
    'oauth_reservations', 'oauth_tokens', 'organizations', 'preview_hooks', 'preview_policies', 'previews',
    'projects', 'rate_windows', 'revisions', 'roles', 'sync_cursors', 'sync_items', 'tag_keys', 'tag_values',
    'uploads', 'workspace_members', 'workspaces'
  ] loop
    execute format('alter table %I enable row level security, force row level security', v_table);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on %I to slipway_system', v_table);
  end loop;
end $$;
--> statement-breakpoint

-- The other roles may update every column except ids, apart from the ids that do change: which row a row belongs to
-- never changes. A migration that adds a column grants it.

-- ------------------------------------------------------------ Organizations, workspaces, roles and members
create policy own on organizations to slipway_app
  using (id = current_organization());
grant select, update (display_name, rbac_enabled, assume_s256, version, created_at, updated_at)
  on organizations to slipway_app;
--> statement-breakpoint
-- A workspace key sees its own workspace, an organization key all workspaces of its organization.
create policy own on workspaces to slipway_app
  using (
    organization_id = current_organization()
    and (current_tenant() is null or id = current_tenant())
  );
grant select, insert, delete, update (display_name, require_if_match, version, created_at, updated_at)
  on workspaces to slipway_app;
--> statement-breakpoint
create policy built_in on roles for select to slipway_app
  using (organization_id is null);
create policy own on roles to slipway_app
  using (organization_id = current_organization());
grant select, insert, delete, update (scope, display_name, description, permissions, version, created_at, updated_at)
  on roles to slipway_app;
--> statement-breakpoint
create policy own on members to slipway_app
  using (organization_id = current_organization())
  with check (
    organization_id = current_organization()
    and is_own_role(role_id)
  );
grant select, insert, delete, update (email, full_name, role_id, version, created_at, updated_at)
  on members to slipway_app;
--> statement-breakpoint
create policy own on workspace_members to slipway_app
  using (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id = current_tenant())
  )
  with check (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id = current_tenant())
    and is_own_workspace(tenant_id)
    and is_own_member(member_id)
    and is_own_role(role_id)
  );
grant select, insert, delete, update (role_id, version, created_at, updated_at)
  on workspace_members to slipway_app;
--> statement-breakpoint

-- ------------------------------------------------------------ API keys
create policy own on api_keys to slipway_app
  using (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id = current_tenant())
  )
  with check (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id = current_tenant())
    and is_own_workspace(tenant_id)
    and is_own_role(role_id)
    and is_own_listener(listener_id)
    and is_own_key(created_by)
  );
grant select, insert, update (
    description, hint, key_hash, permissions, expires_at, revoked_at, last_used_at, created_at
  ) on api_keys to slipway_app;
--> statement-breakpoint

-- ------------------------------------------------------------ The journal and idempotency keys
create policy own on journals to slipway_app
  using (scope_id = current_scope())
  with check (
    scope_id = current_scope()
    and organization_id = current_organization()
  );
create policy served on journals to slipway_agent
  using (
    exists (
      select from deployments d
      where d.tenant_id = scope_id
        and d.listener_id = current_listener()
    )
  )
  with check (
    exists (
      select from deployments d
      where d.tenant_id = scope_id
        and d.organization_id = journals.organization_id
        and d.listener_id = current_listener()
    )
  );
grant select, insert, update (seq, day, today)
  on journals to slipway_app;
grant select, insert, update (seq, day, today)
  on journals to slipway_agent;
--> statement-breakpoint
-- An event names its real actor.
create policy own on events to slipway_app
  using (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id = current_tenant())
  )
  with check (
    scope_id = current_scope()
    and organization_id = current_organization()
    and tenant_id is not distinct from current_tenant()
    and actor_id is not distinct from current_actor()
  );
create policy served on events to slipway_agent
  using (
    exists (
      select from deployments d
      where d.tenant_id = events.tenant_id
        and d.listener_id = current_listener()
    )
  )
  with check (
    scope_id = events.tenant_id
    and (actor_id is null or actor_id in (current_actor(), current_listener()))
    and exists (
      select from deployments d
      where d.tenant_id = events.tenant_id
        and d.organization_id = events.organization_id
        and d.listener_id = current_listener()
    )
  );
grant select, insert on events to slipway_app;
grant insert on events to slipway_agent;
--> statement-breakpoint
create policy own on idempotency_keys to slipway_app
  using (actor_id = current_actor());
grant select, insert on idempotency_keys to slipway_app;
--> statement-breakpoint

-- ------------------------------------------------------------ Listeners and what their agents poll
create policy own on listeners to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
-- Listeners of the platform serve every workspace, whose callers may see their state.
create policy shared on listeners for select to slipway_app
  using (
    tenant_id is null
    and current_organization() is not null
  );
create policy agents_own on listeners to slipway_agent
  using (id = current_listener());
grant select, insert, delete, update (
    compute_type, compute_id, compute_config, agent_id, agent_version, fence, lease_expires_at, last_seen_at,
    version, created_at, updated_at
  ) on listeners to slipway_app;
grant select, update (
    compute_type, compute_id, compute_config, agent_id, agent_version, fence, lease_expires_at, last_seen_at,
    version, created_at, updated_at
  ) on listeners to slipway_agent;
--> statement-breakpoint
create policy own on sync_cursors to slipway_agent
  using (listener_id = current_listener());
grant select, update (seq, digest)
  on sync_cursors to slipway_agent;
--> statement-breakpoint
create policy own on sync_items to slipway_agent
  using (listener_id = current_listener());
grant select, delete on sync_items to slipway_agent;
--> statement-breakpoint

-- ------------------------------------------------------------ Deployments and revisions
-- check_deployment_references() checks the references of a deployment where they change.
create policy own on deployments to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
-- A listener of the platform takes over deployments that no listener serves yet.
create policy served on deployments to slipway_agent
  using (
    listener_id = current_listener()
    or (listener_id is null and setting('platform') = 'true')
  );
grant select, insert, delete, update (
    name, name_fold, source, deployment_type, status, image_version, tag_value_ids, source_config,
    source_revision_config, secrets, secret_references, generation, acknowledged, remote_reconciled, revisions,
    latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id, hold, preview, repo_key,
    deleting_at, listener_id, url, healthy, last_request_at, custom_host, custom_path, version, created_at,
    updated_at
  ) on deployments to slipway_app;
grant select, delete, update (
    name, name_fold, source, deployment_type, status, image_version, tag_value_ids, source_config,
    source_revision_config, secrets, secret_references, generation, acknowledged, remote_reconciled, revisions,
    latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id, hold, preview, repo_key,
    deleting_at, listener_id, url, healthy, last_request_at, custom_host, custom_path, version, created_at,
    updated_at
  ) on deployments to slipway_agent;
--> statement-breakpoint
create policy own on revisions to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
create policy served on revisions to slipway_agent
  using (
    exists (
      select from deployments d
      where d.id = deployment_id
        and d.listener_id = current_listener()
    )
  );
grant select, insert, delete, update (
    number, source, source_config, source_revision_config, secrets, secret_references, status, status_message,
    status_since, reasons, commit, actor_kind, actor_name, created_at, updated_at
  ) on revisions to slipway_app;
grant select, update (
    number, source, source_config, source_revision_config, secrets, secret_references, status, status_message,
    status_since, reasons, commit, actor_kind, actor_name, created_at, updated_at
  ) on revisions to slipway_agent;
--> statement-breakpoint
create policy own on deployment_secrets to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
  );
create policy served on deployment_secrets to slipway_agent
  using (
    exists (
      select from deployments d
      where d.id = deployment_id
        and d.listener_id = current_listener()
    )
  );
grant select, insert, delete, update (name, version, sealed, created_at)
  on deployment_secrets to slipway_app;
grant select on deployment_secrets to slipway_agent;
--> statement-breakpoint
create policy own on custom_hosts for select to slipway_app
  using (tenant_id = current_tenant());
create policy served on custom_hosts for select to slipway_agent
  using (
    exists (
      select from deployments d
      where d.tenant_id = custom_hosts.tenant_id
        and d.listener_id = current_listener()
    )
  );
grant select on custom_hosts to slipway_app;
grant select on custom_hosts to slipway_agent;
--> statement-breakpoint

-- ------------------------------------------------------------ Projects and tags
create policy own on projects to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
  );
grant select, insert, delete, update (deployment_id, name, created_at)
  on projects to slipway_app;
--> statement-breakpoint
create policy own on tag_keys to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
grant select, insert, delete, update (key, created_at)
  on tag_keys to slipway_app;
--> statement-breakpoint
create policy own on tag_values to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_tag_key(tag_key_id)
  );
grant select, insert, delete, update (value, created_at)
  on tag_values to slipway_app;
--> statement-breakpoint

-- ------------------------------------------------------------ Source archives
create policy own on uploads to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
    and is_own_key(actor_id)
  );
-- An archive belongs to its workspace: another of its deployments may have requested the link.
create policy served on uploads to slipway_agent
  using (
    exists (
      select from deployments d
      where d.tenant_id = uploads.tenant_id
        and d.listener_id = current_listener()
    )
  );
grant select, insert, delete, update (
    object_path, state, size, reserved, sha256, actor_kind, expires_at, used_at, created_at
  ) on uploads to slipway_app;
grant select on uploads to slipway_agent;
--> statement-breakpoint

-- ------------------------------------------------------------ Logs
create policy own on logs to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_revision(revision_id)
  );
-- An agent writes logs only in the workspace of a deployment that its listener serves.
create policy served on logs to slipway_agent
  using (exists (select from revisions r where r.id = revision_id))
  with check (
    exists (
      select from revisions r
      where r.id = revision_id
        and r.tenant_id = logs.tenant_id
        and r.organization_id = logs.organization_id
    )
  );
grant select, insert, delete, update (kind, lines, bytes, stream, next_line)
  on logs to slipway_app;
grant select, insert, update (kind, lines, bytes, stream, next_line)
  on logs to slipway_agent;
--> statement-breakpoint
create policy own on log_lines to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
    and is_own_revision(revision_id)
  );
create policy served on log_lines to slipway_agent
  using (
    exists (
      select from deployments d
      where d.id = deployment_id
        and d.listener_id = current_listener()
    )
  )
  with check (
    exists (
      select from revisions r
      join deployments d on d.id = r.deployment_id
      where r.id = revision_id
        and d.id = log_lines.deployment_id
        and d.listener_id = current_listener()
        and d.tenant_id = log_lines.tenant_id
        and d.organization_id = log_lines.organization_id
    )
  );
grant select, insert, delete, update (kind, number, timestamp, severity, message, bytes_before)
  on log_lines to slipway_app;
grant select, insert, delete, update (kind, number, timestamp, severity, message, bytes_before)
  on log_lines to slipway_agent;
--> statement-breakpoint

-- ------------------------------------------------------------ OAuth providers, flows and tokens
create policy own on oauth_providers to slipway_app
  using (organization_id = current_organization());
-- Only a new provider names its maker: a workspace may change another one's provider, and the column is not granted.
create policy maker on oauth_providers as restrictive for insert to slipway_app
  with check (made_by_workspace is not distinct from current_tenant());
grant select, insert, delete, update (
    provider_id, name, client_id, client_secret, client_secret_expires_at, auth_url, token_url, revocation_url,
    uses_pkce, code_challenge_method, provider_type, mcp_server_url, token_endpoint_auth_method, registration,
    registration_client_uri, registration_access_token, redirect_uri, issuer, issuer_in_answers, resource, scopes,
    warnings, trace, health, health_detail, checked_at, client_secret_urls, version, created_at, updated_at
  ) on oauth_providers to slipway_app;
--> statement-breakpoint
create policy own on oauth_reservations to slipway_app
  using (organization_id = current_organization());
grant select, insert, delete, update (id, provider_id, expires_at)
  on oauth_reservations to slipway_app;
--> statement-breakpoint
create policy own on oauth_flows to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_provider(provider_id)
  );
grant select, insert, delete, update (
    user_id, scopes, state_hash, verifier, bound_to, status, failure, expires_at, created_at
  ) on oauth_flows to slipway_app;
--> statement-breakpoint
create policy own on oauth_tokens to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_provider(provider_id)
  );
grant select, insert, delete, update (
    user_id, scopes, access_token, refresh_token, token_type, bound_to, expires_at, generation, leased_until,
    revoked_at, created_at, updated_at
  ) on oauth_tokens to slipway_app;
--> statement-breakpoint

-- ------------------------------------------------------------ Git hosts
create policy own on integrations to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_key(created_by)
  );
-- An agent calls a git host through the integrations of the deployments that its listener serves.
create policy served on integrations for select to slipway_agent
  using (
    exists (
      select from deployments d
      where d.listener_id = current_listener()
        and d.tenant_id = integrations.tenant_id
        and d.source_config ->> 'integration_id' = integrations.id::text
    )
  );
grant select, insert, delete, update (
    host, base_url, app_id, installation_id, account_id, name, state, credentials, token, token_expires_at,
    version, created_at, updated_at
  ) on integrations to slipway_app;
grant select on integrations to slipway_agent;
--> statement-breakpoint
create policy own on integration_listings to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_integration(integration_id)
  );
grant select, insert, delete, update (pages, fetched_at)
  on integration_listings to slipway_app;
--> statement-breakpoint
create policy own on integration_installs to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_key(actor_id)
  );
grant select, insert, delete, update (expires_at, created_at)
  on integration_installs to slipway_app;
--> statement-breakpoint

-- ------------------------------------------------------------ Previews
create policy own on deployment_heads to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
  );
grant select, insert, delete, update (queried_at, gone_ref)
  on deployment_heads to slipway_app;
--> statement-breakpoint
create policy own on preview_policies to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(id)
  );
grant select, insert, delete, update (
    branches, ttl_seconds, max, forks, secrets, resource_spec, on_create, on_delete, hook_secret, version,
    created_at, updated_at
  ) on preview_policies to slipway_app;
--> statement-breakpoint
create policy own on previews to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(parent_id)
    and is_own_deployment(deployment_id)
    and is_own_key(approved_by)
  );
grant select, insert, delete, update (
    number, state, deployment_id, branch, head_sha, fork, approved_sha, approved_by, changed_at, expires_at,
    notified_state, comment_id, notify_attempts, next_notify_at, created_at, updated_at
  ) on previews to slipway_app;
--> statement-breakpoint
create policy own on preview_hooks to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_preview(preview_id)
    and is_own_deployment(parent_id)
  );
grant select, insert, delete, update (url, secret, body, attempts, next_attempt_at, error, created_at)
  on preview_hooks to slipway_app;
--> statement-breakpoint

-- ------------------------------------------------------------ Functions
-- A `security definer` function sees every tenant: it belongs to slipway_system, and only the roles named here call it.
do $$
declare
  v_function regprocedure;
begin
  grant create on schema public to slipway_system;
  for v_function in
    select oid
    from pg_proc
    where prosecdef and pronamespace = 'public'::regnamespace and proowner = current_user::regrole
  loop
    execute format('alter function %s owner to slipway_system', v_function);
  end loop;
  revoke create on schema public from slipway_system;
end $$;
--> statement-breakpoint
-- As the owner of the functions: a revoke by a database owner who is no superuser would change nothing.
set local role slipway_system;
--> statement-breakpoint
do $$
declare
  v_function regprocedure;
begin
  for v_function in
    select oid
    from pg_proc
    where prosecdef and pronamespace = 'public'::regnamespace and proowner = 'slipway_system'::regrole
  loop
    execute format('revoke execute on function %s from public', v_function);
  end loop;
end $$;
--> statement-breakpoint
-- The entry functions: for the logins that requests use, and for the database's owner, whose login serves a trial.
do $$
declare
  v_function regprocedure;
begin
  foreach v_function in array array[
    'enter(text, uuid, text, boolean, text, text, boolean, text, text)',
    'become_listener(uuid)',
    'count_request(text, text, integer)',
    'count_requests(text[], integer[], text, integer)'
  ]::regprocedure[] loop
    execute format('grant execute on function %s to slipway_login', v_function);
    execute format('grant execute on function %s to %I', v_function, session_user);
  end loop;
end $$;
--> statement-breakpoint
grant execute on function
  actor_key(),
  actor_permissions(),
  custom_host_owner(text),
  require_free_custom_url(uuid, uuid, text, text),
  lock_provider_to_change(text),
  revoke_key_tree(uuid),
  revoke_outdated_grants(uuid, text),
  tokens_of_provider(text, integer),
  verify_custom_host(text, uuid, boolean)
  to slipway_app;
grant execute on function delete_sync_items(uuid[]) to slipway_agent;
-- Policies call these as the role of the statement.
grant execute on function
  is_own_deployment(uuid),
  is_own_integration(uuid),
  is_own_key(uuid),
  is_own_listener(uuid),
  is_own_member(uuid),
  is_own_preview(uuid),
  is_own_provider(uuid),
  is_own_revision(uuid),
  is_own_role(uuid),
  is_own_tag_key(uuid),
  is_own_workspace(uuid)
  to slipway_app, slipway_agent;
--> statement-breakpoint
reset role;
